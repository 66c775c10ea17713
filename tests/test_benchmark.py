"""The scaling benchmark: it plans, measures, marks what is noisy, and goes on after anything."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch

from replication import results
from replication.benchmark import (
    CELL,
    groups,
    measure_group,
    measured,
    median_interval,
    noisy,
)
from replication.contenders import Cell, runners
from replication.crossover import measured_crossover
from replication.measure import count_flops, peak_bytes
from replication.scaling import load_scaling, run_scaling
from replication.scaling_config import resolve

CPU = torch.device("cpu")
SMALL = {"contenders": "linear, softmax", "lengths": "8, 16, 64", "directions": "forward"}
LAYERS_ONLY = resolve("smoke", models=[], **SMALL)
COLUMNS = [*CELL, "round", "time_ms", "peak_bytes", "flops", "status", "reason"]


# Counting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
def test_memory_is_counted_exactly_whether_tensors_are_kept_or_freed(kept):
    def run():
        alive = []
        for _ in range(3):
            alive = [*alive, torch.empty(1000)] if kept else []
            torch.empty(500)
        return alive

    assert peak_bytes(run) == (3 * 4000 + 2000 if kept else 2000)


def test_every_call_of_a_contender_needs_the_memory_of_its_first():
    calls = runners(["linear", "softmax", "lsh-1"], Cell(2, 2, 33, 8, True, "training"), CPU)
    for call in calls.values():
        assert peak_bytes(call) == peak_bytes(call) > 0


def test_textbook_softmax_keeps_its_matrix_and_fused_softmax_does_not():
    cell = Cell(1, 2, 512, 8, False, "forward")
    memory = {
        n: peak_bytes(c) for n, c in runners(["softmax", "softmax-textbook"], cell, CPU).items()
    }
    matrix = 4 * 2 * 512**2
    assert memory["softmax-textbook"] >= 2 * matrix > matrix > memory["softmax"]


def test_products_of_fused_softmax_are_counted_two_forward_and_five_backward():
    product = 2 * 2 * 3 * 65 * 65 * 8
    for direction, products in (("forward", 2), ("training", 7)):
        call = runners(["softmax"], Cell(2, 3, 65, 8, True, direction), CPU)["softmax"]
        assert count_flops(call) == products * product


# Noise -------------------------------------------------------------------------------------


def test_the_interval_of_the_median_is_of_order_statistics():
    assert median_interval(np.arange(5.0)) == (0, 4)
    assert median_interval(np.arange(9.0)) == (1, 7)  # 96 %, by the binomial table
    assert median_interval(np.arange(25.0)) == (7, 17)


def test_the_interval_of_the_median_covers_it():
    draws = np.random.default_rng(0).exponential(size=(2000, 15))
    covered = [low <= np.log(2) <= high for low, high in map(median_interval, draws)]
    assert 0.94 < np.mean(covered) < 0.99


def test_noise_that_all_contenders_share_is_no_noise():
    slow = np.array([1, 5, 2, 1, 9, 3, 1])
    times = pd.DataFrame({"linear": slow, "softmax": 2 * slow})
    assert noisy(times) == set()
    assert noisy(times[["linear"]]) == {"linear"}


def test_only_the_contender_whose_ratio_is_wide_is_noisy():
    even = np.ones(7)
    wide = np.array([1, 1.2, 1, 0.8, 1.3, 1, 0.7])
    times = pd.DataFrame({"softmax": even, "linear": even, "lsh-1": wide})
    assert noisy(times) == {"lsh-1"}
    assert noisy(times.assign(linear=wide[::-1] * 2)) == {"softmax", "linear", "lsh-1"}
    assert noisy(pd.DataFrame({"softmax": even, "lsh-1": even * 1.05})) == set()


# Measuring ---------------------------------------------------------------------------------


def test_rows_have_the_columns_that_the_estimates_take(tmp_path):
    outcome = run_scaling(LAYERS_ONLY, tmp_path, CPU)
    assert [*outcome.rows] == COLUMNS
    rows = measured(outcome.rows)
    assert (rows[["time_ms", "peak_bytes", "flops"]] > 0).all(axis=None)
    assert rows["round"].dtype == int
    rounds = rows.groupby(["N", "contender"])["round"].agg(list).unstack()
    assert (rounds["linear"] == rounds["softmax"]).all()
    assert measured_crossover(rows, "linear", "softmax").shortest == 8
    assert outcome.plan.filter(like="_").notna().all(axis=None)
    assert outcome.facts["predicted_seconds"] > 0 < outcome.facts["measured_seconds"]
    assert outcome.facts["machine"]["threads"] == torch.get_num_threads()


def test_what_is_measured_is_not_measured_again_unless_wanted(tmp_path):
    first = run_scaling(LAYERS_ONLY, tmp_path, CPU)
    pd.testing.assert_frame_equal(run_scaling(LAYERS_ONLY, tmp_path, CPU).rows, first.rows)
    other = resolve("smoke", models=[], **SMALL | {"lengths": "8, 32"})
    with pytest.raises(results.ResultsError, match=r"another config.*--again"):
        run_scaling(other, tmp_path, CPU)
    assert set(run_scaling(other, tmp_path, CPU, again=True).rows["N"]) == {8, 32}


@pytest.mark.parametrize("setting", ["paper", "earlier"])
def test_a_whole_training_step_is_measured(setting):
    sizes = {"model_lengths": 8, "model_contenders": "linear, lsh-4", "cell_seconds": 1e9}
    scaling = resolve("smoke", models=setting, **sizes)
    (group,) = (g for g in groups(scaling) if g.subject == setting)
    result = measure_group(("linear", "lsh-4"), group, 0.0, scaling, CPU)
    assert {row["direction"] for row in result.rows} == {"step"}
    assert all(cost["status"] in ("measured", "noisy") for cost in result.costs.values())
    assert all(row["flops"] > 0 < row["peak_bytes"] for row in result.rows)


def test_what_is_far_slower_than_predicted_is_given_up_with_a_reason():
    scaling = resolve("smoke", models=[], cell_seconds=1e-9, **SMALL)
    result = measure_group(("linear", "softmax"), groups(scaling)[0], 1.0, scaling, CPU)
    assert [cost["status"] for cost in result.costs.values()] == ["skipped", "skipped"]
    assert all("a call took" in row["reason"] for row in result.rows)


def test_what_does_not_fit_into_memory_after_all_is_skipped_with_a_reason():
    """2^48 weights are more than a process can address."""
    sizes = {"heads": 1, "head_dim": 1, "lengths": 2**24, "cell_seconds": 1e9}
    scaling = resolve("smoke", models=[], **SMALL | sizes | {"contenders": "softmax-textbook"})
    result = measure_group(scaling.contenders, groups(scaling)[0], 0.0, scaling, CPU)
    (row,) = result.rows
    assert row["status"] == result.costs["softmax-textbook"]["status"] == "skipped"
    assert "can't allocate memory" in row["reason"]


KILLED = """
import sys
from pathlib import Path
import torch
from replication.scaling import run_scaling
from replication.scaling_config import resolve
small = {small!r}
run_scaling(resolve("smoke", models=[], **small), Path(sys.argv[1]), torch.device("cpu"))
"""


def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path):
    many = SMALL | {"lengths": "8, 16, 32, 64"}
    command = [sys.executable, "-c", KILLED.format(small=many), str(tmp_path)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None and not _done(tmp_path):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = load_scaling(tmp_path)
    kept = before.rows[before.rows["N"].isin(_done(tmp_path))]
    with (tmp_path / "scaling.csv").open("a") as file:  # rows of a group whose end is missing
        file.write(before.rows.tail(1).assign(N=64, batch=1).to_csv(index=False, header=False))
        file.write("linear,layer,forw")
    torch.set_num_threads(1)
    after = run_scaling(resolve("smoke", models=[], **many), tmp_path, CPU)
    same = after.rows[after.rows["N"].isin(kept["N"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, kept.reset_index(drop=True))
    assert set(after.rows["N"]) == {8, 16, 32, 64}
    assert not after.rows.duplicated([*CELL, "round"]).any()
    assert len(after.facts["sessions"]) == 2


def _done(folder) -> list[int]:
    """The lengths that the plan knows to be measured."""
    try:
        table = pd.read_csv(folder / "scaling_plan.csv")
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return []
    return sorted(table.loc[table["status"] != "planned", "N"].unique())
