"""Rows and plan of the benchmark become tables that say what the rows say."""

import numpy as np
import pandas as pd
import pytest

from replication import published
from replication.benchmark import CELL, Group, row_of
from replication.scaling import tables

LENGTHS = (256, 512, 1024, 2048)


def rows(
    contender: str, time: float, power: float, lengths=LENGTHS, flops: float | None = 3.0, **group
) -> list[dict]:
    """Six rounds with noise that all contenders share; cost = time N^power a sample."""
    found = []
    for N in lengths:
        where = {"subject": "layer", "direction": "training", "causal": True, "batch": 1} | group
        cell = Group(**where, heads=2, head_dim=4, dtype="float32", N=N)
        for i, slow in enumerate((1.0, 1.3, 1.0, 0.9, 1.0, 1.0)):
            costs = {"round": i, "time_ms": time * slow * N**power, "peak_bytes": 7 * N**power}
            costs["flops"] = np.nan if flops is None else flops * N**power
            found.append(row_of(contender, cell, "measured", "") | costs)
    return found


@pytest.fixture
def table() -> pd.DataFrame:
    parts = rows("linear", 2.0, 1), rows("softmax-textbook", 0.01, 2, LENGTHS[:3])
    return pd.DataFrame([*parts[0], *parts[1], *rows("authors", 5.0, 1, flops=None)])


def number(found: pd.DataFrame, contender: str, quantity: str) -> pd.Series:
    (row,) = found[(found["contender"] == contender) & (found["quantity"] == quantity)].iloc
    return row


def test_exponents_are_those_of_the_lengths_that_were_asked_for(table):
    table.loc[(table["contender"] == "linear") & (table["N"] == 256), "time_ms"] *= 100
    linear = number(tables.exponents(table, 512), "linear", "time_ms")
    assert (linear["lengths"], linear["shortest"], linear["longest"]) == (3, 512, 2048)
    assert linear["value"] == pytest.approx(1)


def test_too_few_lengths_have_no_exponent_but_are_counted(table):
    softmax = number(tables.exponents(table, 512), "softmax-textbook", "time_ms")
    assert softmax["lengths"] == 2
    assert np.isnan(softmax["value"])
    assert number(tables.exponents(table, 1), "softmax-textbook", "time_ms")["value"] == (
        pytest.approx(2)
    )


def test_what_the_counter_cannot_see_has_no_number(table):
    found = tables.key_numbers(table, 1)
    assert set(found.loc[found["contender"] == "authors", "quantity"]) == {"time_ms", "peak_bytes"}


def test_ratios_are_taken_at_the_longest_length_of_both(table):
    found = tables.longest_ratios(table)
    softmax = number(found, "softmax-textbook", "time_ms")
    assert softmax["longest"] == 1024
    assert softmax["value"] == pytest.approx(0.01 * 1024 / 2)
    assert softmax["low"] <= softmax["value"] <= softmax["high"]
    assert number(found, "softmax-textbook", "peak_bytes")["value"] == pytest.approx(1024)
    assert number(found, "authors", "time_ms")["longest"] == 2048
    assert "linear" not in set(found["contender"])


def test_settings_are_kept_apart(table):
    other = rows("linear", 2.0, 1.5, causal=False) + rows("authors", 6.0, 1.5, causal=False)
    found = tables.key_numbers(pd.concat([table, pd.DataFrame(other)]), 1)
    times = (
        found[found["quantity"] == "time_ms"]
        .set_index(["number", "contender", "causal"])
        .sort_index()
    )
    assert times["value"]["exponent", "linear"].to_dict() == pytest.approx({True: 1, False: 1.5})
    assert times["value"]["ratio", "authors"].to_dict() == pytest.approx({True: 2.5, False: 3})


def test_the_share_is_one_when_all_runs_as_fast_as_a_large_product(table):
    found = tables.work(table, flops_per_s=3.0 / 2e-3)
    assert found.loc[found["contender"] == "linear", "share"].tolist() == pytest.approx([1] * 4)
    assert "authors" not in set(found["contender"])


def test_a_step_has_the_batch_of_its_model_and_stands_beside_the_published_one():
    step = {"subject": "earlier", "direction": "step"}
    ours = [*rows("linear", 0.5, 1, (8,), **step | {"batch": 8}),
            *rows("linear", 0.5, 1, (128,), **step | {"batch": 2}),
            *rows("softmax", 0.25, 1, (8,), **step | {"batch": 8})]  # fmt: skip
    found = tables.steps(pd.DataFrame(ours), published.earlier_steps())
    assert found.loc[("earlier", 8), ("here", "linear")] == pytest.approx(0.5 * 8 * 8)
    assert found.loc[("earlier", 128), ("here", "linear")] == pytest.approx(0.5 * 128 * 8)
    assert found.loc[("earlier", 8), ("published", "linear")] == pytest.approx(1738 / 3)
    over = tables.linear_over(found).loc["earlier"]
    assert over.loc[8, ("here", "softmax")] == pytest.approx(2)
    assert over.loc[64, ("published", "softmax")] == pytest.approx(10071 / 416)


# The plan ----------------------------------------------------------------------------------


@pytest.fixture
def plan() -> pd.DataFrame:
    """Five cells of a layer, of which two were skipped and one stayed noisy."""
    columns = ["contender", "N", "status", "reason", "predicted_seconds", "measured_seconds"]
    cells = [
        ("linear", 8, "measured", "", 1.0, 2.0),
        ("linear", 16, "noisy", "ratio not known", 1.0, 3.0),
        ("softmax", 8, "measured", "", 2.0, 2.0),
        ("softmax", 4096, "skipped", "memory: 9 GB predicted, 1 GB allowed", 50.0, np.nan),
        ("authors", 8, "skipped", "The authors' library is not installed", np.nan, np.nan),
    ]
    table = pd.DataFrame(cells, columns=columns)
    fixed = {"subject": "layer", "direction": "forward", "causal": True, "batch": 1, "heads": 2,
             "head_dim": 4, "dtype": "float32"}  # fmt: skip
    calls = {f"{what}_call_ms": table[f"{what}_seconds"] for what in ("predicted", "measured")}
    table = table.assign(**fixed, **calls)
    assert set(CELL) <= set(table)
    return table


def test_the_plan_is_summed_over_what_was_measured(plan):
    (cost,) = tables.costs(plan).to_dict("records")
    assert cost == {"measured": 2, "noisy": 1, "skipped": 2, "predicted_seconds": 4.0,
                    "measured_seconds": 7.0, "call": 2.0}  # fmt: skip


def test_what_was_left_out_says_for_want_of_what(plan):
    found = tables.left_out(plan)
    assert found.loc[("layer", "softmax", "memory"), "longest"] == 4096
    assert found.loc[("layer", "authors", "not available"), "cells"] == 1
    assert len(found) == 2


def test_noisy_cells_are_named(plan):
    assert tables.noisy_cells(plan)["cells"].tolist() == ["linear: 16"]
    assert tables.noisy_cells(plan[plan["status"] == "measured"]).empty
