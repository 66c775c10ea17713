"""What one more token costs: rows, exact bytes, and who is left out."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from replication.experiments.decoding import run
from replication.experiments.decoding.figures import tokens
from replication.experiments.decoding.run import (
    HEADS,
    LAYERS,
    PROFILES,
    WIDTH,
    Decoding,
    grown,
    writer,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return run.measure_run(Decoding("smoke", (3, 5), 1, 2, 60.0, 3), 0, Path()).rows


def test_a_row_is_a_repeat_of_a_contender_at_a_length(rows):
    assert {"contender", "N", "run", "round", "time_ms", "state_bytes", "disturbed"} <= set(rows)
    assert rows.groupby(["contender", "N"]).size().eq(2).all()
    assert (rows.time_ms > 0).all()


def test_who_computes_everything_again_ends_where_that_takes_long(rows):
    reached = rows.groupby("contender").N.max().to_dict()
    assert reached == {"linear": 5, "softmax": 5, "softmax-again": 3}


def test_the_state_has_the_same_bytes_after_any_number_of_tokens():
    D = WIDTH // HEADS
    for N in (1, 7, 100):
        assert writer("linear", N, CPU)[1] == 4 * LAYERS * HEADS * (D * D + D)
        assert writer("softmax", N, CPU)[1] == 4 * LAYERS * 2 * N * WIDTH


@pytest.mark.parametrize("name", ["linear", "softmax", "softmax-again"])
def test_a_writer_writes_one_finite_token(name):
    with torch.inference_mode():
        y = writer(name, 4, CPU)[0]()
    assert y.shape == (1, WIDTH)
    assert y.isfinite().all()


def test_growth_is_of_the_longest_over_the_shortest():
    cells = [("linear", N, i, j, N / 8) for N in (8, 16, 64) for i in range(3) for j in range(3)]
    rows = pd.DataFrame(cells, columns=["contender", "N", "run", "round", "time_ms"])
    assert grown(rows.assign(disturbed=False), "linear") == pytest.approx((8, 8, 8))


def test_every_profile_sees_lengths_fourfold_and_more():
    for decoding in PROFILES.values():
        assert decoding.lengths[-1] >= 4 * decoding.lengths[0]
    with pytest.raises(ValueError, match="profile='fast' is unknown"):
        run.units("fast")


def test_the_figure_names_who_remembers_how():
    cells = [
        (name, N, i, j, 1.0, 0 if name.endswith("again") else 8)
        for name in ("linear", "softmax", "softmax-again")
        for N in (8, 16) for i in range(3) for j in range(2)
    ]  # fmt: skip
    columns = ["contender", "N", "run", "round", "time_ms", "state_bytes"]
    left, right = tokens(pd.DataFrame(cells, columns=columns).assign(disturbed=False)).axes
    shown = ["linear, as an RNN", "softmax, with a cache", "softmax, all computed again"]
    assert [line.get_label() for line in left.get_lines()] == shown
    assert [line.get_label() for line in right.get_lines()] == shown[:2]


def test_runs_are_units_and_how_many_there_are_is_no_property_of_one(tmp_path):
    first, *others = run.units("quick")
    assert len({unit.id for unit in (first, *others)}) == 3
    assert run.units_of(PROFILES["quick"]._replace(runs=1))[0].id == first.id


def test_the_unit_is_stale_with_the_memories_that_it_times():
    both, one = (Decoding("smoke", (3,), 1, 1, 1.0, 3, names)
                 for names in (("linear", "softmax"), ("linear",)))  # fmt: skip
    assert run.units_of(both)[0].source != run.units_of(one)[0].source
