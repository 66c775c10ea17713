"""What ``bench training`` prints, of rows that were made up."""

import pandas as pd
import pytest

from replication.experiments.copy_task import bench

TIMES = {"linear": (10, 30, 20), "authors": (20, 30, 60), "softmax": (40, 40, 40),
         "torch": (40, 36, 36), bench.FREE: (5, 10, 10)}  # fmt: skip
"""Milliseconds of three rounds."""


def rows(*models: str, N: int = 512) -> pd.DataFrame:
    return pd.DataFrame(
        {"model": name, "N": N, "round": i, "time_ms": time, "peak_bytes": (j + 1) * 1e6}
        for j, name in enumerate(models) for i, time in enumerate(TIMES[name])
    )  # fmt: skip


def test_ours_is_beside_its_rival_by_the_median_of_ratios_within_rounds():
    found = bench.table(rows(*TIMES)).set_index("ours")
    assert found.rival.to_dict() == {"linear": "authors", "softmax": "torch"}
    assert found.loc["linear", ["ms", "rival ms", "times faster", "at most"]].tolist() == [
        20, 30, 2, 4,
    ]  # fmt: skip
    assert found.loc["softmax", "times faster"] == pytest.approx(0.9)
    assert found.loc["linear", ["MB", "rival MB"]].tolist() == [1, 2]


def test_the_bar_is_half_as_fast_again_from_512_on_and_for_softmax_a_twentieth():
    both = bench.table(pd.concat([rows(*TIMES), rows(*TIMES, N=128)])).set_index(["ours", "N"])
    assert both.bar.to_dict() == pytest.approx({
        ("linear", 512): 1.5, ("linear", 128): 1, ("softmax", 512): 1 / 1.05,
        ("softmax", 128): 1 / 1.05})  # fmt: skip
    assert both.loc["linear"].reached.all()
    assert not both.loc["softmax"].reached.any()


def test_without_the_authors_library_softmax_alone_has_a_rival():
    models = [name for name in TIMES if name != "authors"]
    assert bench.table(rows(*models)).ours.tolist() == ["softmax"]
