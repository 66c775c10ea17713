"""Whole models beside their rivals: of which sizes they are, and which bar they have to reach."""

from functools import partial

import pandas as pd
import pytest
import torch

from replication.attention import mechanism
from replication.experiments.copy_task import bench
from replication.measure import peak_bytes


def test_the_models_are_those_of_the_paper_s_copy_task_and_of_its_mnist():
    """Batch and layers by length; its MNIST has 784 bytes, width 256, 8 heads and 8 layers."""
    assert bench.SIZES == {128: (64, 4), 512: (16, 4), 784: (4, 8), 2048: (4, 4)}
    assert (bench.WIDTH, bench.HEADS, bench.WIDE) == (256, 8, 4 * 256)


def test_every_model_of_a_length_has_its_layers_and_is_timed_with_its_batch(monkeypatch):
    monkeypatch.setattr(bench, "SIZES", {9: (3, 2), 16: (2, 5)})
    monkeypatch.setattr(bench, "WIDTH", 16)
    monkeypatch.setattr(bench, "WIDE", 32)
    rows = bench.timed(2, (9, 16))
    assert {"linear", "softmax", "torch", bench.FREE} <= set(rows.model)
    found = rows.groupby("N")[["batch", "layers", "round"]].agg(["min", "max"])
    assert found.loc[9].tolist() == [3, 3, 2, 2, 0, 1]
    assert found.loc[16].tolist() == [2, 2, 5, 5, 0, 1]
    assert (rows.time_ms > 0).all()


def test_a_model_with_more_layers_needs_more_memory():
    """So the layers that are asked for are those that run."""
    x = torch.randn(2, 16, bench.WIDTH)
    makers = [partial(bench._ours, "softmax"), bench._free, partial(bench._torch, 16)]
    if mechanism("authors").unavailable("float32") is None:
        makers.append(partial(bench._authors, 16))
    for make in makers:
        few, many = (peak_bytes(partial(bench._step, make(layers), x)) for layers in (1, 3))
        assert many > 2 * few


@pytest.mark.parametrize(("N", "ours", "bar"), [
    (128, "linear", 1.0), (784, "linear", 1.5), (784, "softmax", 1 / 1.05)])  # fmt: skip
def test_half_as_fast_again_is_the_bar_of_the_image_model(N, ours, bar):
    times = {"linear": 10.0, "authors": 16.0, "softmax": 30.0, "torch": 30.0, bench.FREE: 5.0}
    rows = pd.DataFrame(
        {"model": name, "N": N, "batch": 1, "layers": 1, "round": i, "time_ms": time,
         "peak_bytes": 1e6} for name, time in times.items() for i in range(3)
    )  # fmt: skip
    found = bench.table(rows).set_index("ours").loc[ours]
    assert found.bar == pytest.approx(bar)
    assert found.reached
    slower = rows.assign(time_ms=rows.time_ms * (1 + (rows.model == ours)))
    assert not bench.table(slower).set_index("ours").loc[ours].reached
