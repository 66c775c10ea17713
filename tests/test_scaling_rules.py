"""Rows of the benchmark become tables that say what the rows say."""

import numpy as np
import pandas as pd
import pytest

from replication.experiments.base import INCONCLUSIVE, PARTLY, SUPPORTED, Verdict
from replication.experiments.crossover.earlier import earlier_steps
from replication.experiments.scaling import rules

LENGTHS = (256, 512, 1024, 2048)


def rows(contender: str, time: float, power: float, lengths=LENGTHS, **group) -> list[dict]:
    """Three runs of three repeats; cost = time N^power a sample."""
    where = {"subject": "layer", "direction": "training", "causal": True, "clock": "thread",
             "heads": 2, "head_dim": 4, "dtype": "float32", "batch": 1} | group  # fmt: skip
    clock = {"disturbed": False, "status": "measured", "reason": "", "wait_ms": 1, "wall_ms": 4}
    return [
        {"contender": contender, "N": N, "run": run, "round": i, "time_ms": time * slow * N**power,
         "peak_bytes": 7 * N**power} | clock | where
        for N in lengths for run in range(3) for i, slow in enumerate((1.0, 1.3, 1.0))
    ]  # fmt: skip


@pytest.fixture
def table() -> pd.DataFrame:
    parts = rows("linear", 2.0, 1), rows("softmax-textbook", 0.01, 2, LENGTHS[:3])
    return pd.DataFrame([*parts[0], *parts[1], *rows("authors", 5.0, 1)])


def number(found: pd.DataFrame, contender: str, quantity: str) -> pd.Series:
    (row,) = found[(found["contender"] == contender) & (found["quantity"] == quantity)].iloc
    return row


def test_exponents_are_those_of_the_lengths_that_were_asked_for(table):
    table.loc[(table["contender"] == "linear") & (table["N"] == 256), "time_ms"] *= 100
    linear = number(rules.exponents(table, 512), "linear", "time_ms")
    assert (linear["lengths"], linear["shortest"], linear["longest"]) == (3, 512, 2048)
    assert linear["value"] == pytest.approx(1)


def test_too_few_lengths_have_no_exponent(table):
    assert "softmax-textbook" not in set(rules.exponents(table, 512).contender)
    found = number(rules.exponents(table, 1), "softmax-textbook", "time_ms")
    assert found["value"] == pytest.approx(2)


def test_ratios_are_taken_at_the_longest_length_of_both(table):
    found = rules.longest_ratios(table)
    softmax = number(found, "softmax-textbook", "time_ms")
    assert softmax["N"] == 1024
    assert softmax["value"] == pytest.approx(0.01 * 1024 / 2)
    assert number(found, "softmax-textbook", "peak_bytes")["value"] == pytest.approx(1024)
    assert number(found, "authors", "time_ms")["N"] == 2048
    assert "linear" not in set(found["contender"])


def test_precise_is_what_is_known_to_a_tenth(table):
    assert rules.precision(table).precise.agg(["sum", "size"]).tolist() == [7, 7]
    wide = table.assign(time_ms=table.time_ms * np.where(table.contender == "authors",
                                                         1 + 0.3 * table.run, 1))  # fmt: skip
    assert set(rules.precision(wide).query("~precise").contender) == {"authors"}


def test_one_contender_has_no_ratio_and_so_none_that_is_not_precise(table):
    alone = rules.precision(table[table.contender == "linear"])
    assert (len(alone), alone.precise.sum(), len(alone[~alone.precise])) == (0, 0, 0)


def test_what_was_disturbed_is_told(table):
    table.loc[::2, "disturbed"] = True
    assert rules.disturbed(table).startswith("51% of 99 repeats were disturbed and made again")
    assert rules.disturbed(table).endswith("waited for its core 25% of the time")


def test_how_slow_the_host_was_is_told_by_runs_and_undisturbed_repeats(table):
    table = table.assign(slowed=1.0 + 0.2 * table.run, disturbed=False)
    assert rules.slowed(table) == pytest.approx((1.0, 1.4, 2 / 3))
    table.loc[table.run == 2, "disturbed"] = True
    skipped = table.iloc[:1].assign(status="skipped", slowed=9.0)
    assert rules.slowed(pd.concat([table, skipped])) == pytest.approx((1.0, 1.2, 0.5))


def test_a_step_has_the_batch_of_its_model_and_stands_beside_the_published_one():
    step = {"subject": "earlier", "direction": "step"}
    ours = [*rows("linear", 0.5, 1, (8,), **step | {"batch": 8}),
            *rows("linear", 0.5, 1, (128,), **step | {"batch": 2}),
            *rows("softmax", 0.25, 1, (8,), **step | {"batch": 8})]  # fmt: skip
    found = rules.steps(pd.DataFrame(ours), earlier_steps())
    assert found.loc[("earlier", 8), ("here", "linear")] == pytest.approx(0.5 * 8 * 8)
    assert found.loc[("earlier", 128), ("here", "linear")] == pytest.approx(0.5 * 128 * 8)
    assert found.loc[("earlier", 8), ("published", "linear")] == pytest.approx(1738 / 3)
    over = rules.linear_over(found).loc["earlier"]
    assert over.loc[8, ("here", "softmax")] == pytest.approx(2)
    assert over.loc[64, ("published", "softmax")] == pytest.approx(10071 / 416)


def test_what_was_left_out_says_for_want_of_what(table):
    out = pd.DataFrame(rows("softmax", 1, 1, (4096,), reason="memory: 9 GB needed",
                            status="skipped"))  # fmt: skip
    absent = pd.DataFrame(rows("lsh-4", 1, 1, (512,), reason="not built", status="skipped"))
    found = rules.left_out(pd.concat([table, out, absent]))
    assert found.loc[("layer", "softmax", "memory"), "longest"] == 4096
    assert found.loc[("layer", "lsh-4", "not available"), "cells"] == 1
    assert len(found) == 2


def test_ratios_of_claims_stand_a_row_a_kernel_at_the_lengths_where_any_of_them_ends():
    def found(*ratios):
        return [{"N": N, "value": x, "low": x / 2, "high": 2 * x} for N, x in ratios]

    ours, theirs = found((512, 3.0), (1024, 6.0), (2048, 12.0)), found((512, 0.5), (1024, 1.0))
    both = {
        "linear": {"outcome": SUPPORTED, "ratios": ours},
        "authors": {"outcome": PARTLY, "ratios": theirs},
    }
    table = rules.leads({
        "C3": ("softmax-textbook", Verdict(SUPPORTED, "", both)),
        "X3": ("softmax-tiled", Verdict(INCONCLUSIVE, "", {})),
    })  # fmt: skip
    names = ["Claim", "Rival", "Kernel", "N = 512", "N = 1024", "N = 2048", "Verdict"]
    assert [list(row.values()) for row in table[names].to_dict("records")] == [
        ["C3", "Textbook softmax", "our",
         "3.0 (1.50 to 6.0)", "6.0 (3.0 to 12)", "12 (6.0 to 24)", SUPPORTED],
        ["C3", "Textbook softmax", "the authors'",
         "0.50 (0.25 to 1.00)", "1.00 (0.50 to 2.0)", "–", PARTLY],
    ]  # fmt: skip
    assert list(table) == names
