"""What a layer costs: every mechanism is told with its factor, or why it is left out."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from replication.cli import main, parser
from replication.experiments.crossover.commands import one_length
from replication.experiments.crossover.rules import costs
from replication.experiments.crossover.run import Limit, measure_until
from replication.experiments.scaling.contenders import kinds
from replication.store import Result


def asked(*arguments):
    return one_length(parser().parse_args(["ask", *arguments]))


def test_the_layer_is_the_one_that_is_asked_about():
    found = asked("--length", "96", "--batch", "3", "--heads", "2", "--head-dim", "16",
                  "--no-causal")  # fmt: skip
    (groups,) = kinds(found)
    assert [(one.N, one.batch, one.heads, one.head_dim, one.causal) for one in groups] == [
        (96, 3, 2, 16, False)
    ]


def test_every_mechanism_has_its_costs_or_a_reason(capsys):
    """Believing every repeat, as profile smoke does: this machine may be busy."""
    scaling = asked("--length", "64", "--heads", "1", "--head-dim", "16", "--seconds", "120",
                    "--dtype", "float64", "--compare", "linear", "softmax-textbook",
                    "authors")  # fmt: skip
    scaling, limit = replace(scaling, profile="smoke"), Limit.of(120.0)
    found = costs(scaling, limit.run(measure_until, scaling, 0, limit, Path()))
    assert {one["attention"] for one in found["costs"]} == {"linear attention", "textbook softmax"}
    first, second = found["costs"]
    assert first["times the fastest"] == 1 <= second["times the fastest"]
    assert 0 < first["from"] <= first["ms"] <= first["to"]
    assert {one["MB"] > 0 for one in found["costs"]} == {True}
    assert list(found["left_out"]) == ["the authors' kernel"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def repeats(contender, ms, undisturbed, disturbed=0):
    """Rows as if measured, the disturbed ones ten times as long."""
    clean = [True] * disturbed + [False] * undisturbed
    return pd.DataFrame(
        {"contender": contender, "N": 64, "run": 0, "round": range(len(clean)), "disturbed": clean,
         "time_ms": [10 * ms if one else ms for one in clean], "status": "measured", "reason": "",
         "peak_bytes": 1e6}
    )  # fmt: skip


def answered(monkeypatch, *rows):
    """The answer, and the table that is printed, of rows that were measured before."""
    made = Result(pd.concat(rows, ignore_index=True), {"outcomes": {"layer": "Measured."}})
    monkeypatch.setattr(Limit, "run", lambda *_: made)
    return costs(asked("--length", "64"), made)


def test_a_long_call_has_a_time_and_a_factor_but_no_interval(monkeypatch, capsys):
    """Above 200 ms three repeats are made: too few for an interval of five stretches."""
    rows = repeats("linear", 5.0, 20), repeats("softmax-textbook", 300.0, 3, 1)
    fast, slow = answered(monkeypatch, *rows)["costs"]
    assert [fast[name] for name in ("ms", "from", "to")] == pytest.approx([5, 5, 5])
    assert fast["times the fastest"] == 1
    assert (slow["ms"], slow["from"], slow["to"]) == (300, None, None)
    assert slow["times the fastest"] == pytest.approx(60)
    for form, said in (["--json"], '"from": null'), ([], "–"):
        assert main(["ask", "--length", "64", *form]) == 0
        assert said in capsys.readouterr().out


def test_all_calls_may_be_long(monkeypatch):
    rows = repeats("linear", 250.0, 3), repeats("softmax", 500.0, 3)
    found = answered(monkeypatch, *rows)["costs"]
    assert [one["times the fastest"] for one in found] == [1, 2]


def test_who_was_never_undisturbed_is_left_out_with_a_reason(monkeypatch):
    found = answered(monkeypatch, repeats("linear", 5.0, 20), repeats("softmax", 9.0, 0, 4))
    assert [one["attention"] for one in found["costs"]] == ["linear attention"]
    assert found["left_out"] == {
        "fused softmax": "load: other programs disturbed all of its 4 repeats"
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "--length"),
        (["--length", "0"], "too small"),
        (["--length", "64", "--batch", "0"], "too small"),
        (["--length", "1000000000"], "needs at least"),
        (["--length", "64", "--compare", "flash"], "is unknown"),
        (["--length", "64", "--seconds", "-1"], "must be positive"),
        (["--length", "64", "--threads", "100000"], "too many"),
        (["--length", "64", "--compare", ""], "names 0 of at least 1"),
        (["--length", "64", "--mode", "generation", "--no-causal"], "sees no later one"),
    ],
)
def test_what_cannot_be_asked_is_told_before_anything_is_measured(capsys, wrong, said):
    assert main(["ask", *wrong]) == 2
    assert said in capsys.readouterr().err
