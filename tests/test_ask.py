"""What a layer costs: every mechanism is told with its factor, or why it is left out."""

import json
from dataclasses import replace

import pytest

from replication.cli import main, parser
from replication.experiments.crossover import ask
from replication.experiments.crossover.limit import Limit
from replication.experiments.scaling.contenders import kinds


def asked(*arguments):
    return ask.question(parser().parse_args(["ask", *arguments]))


def test_the_layer_is_the_one_that_is_asked_about():
    found = asked(
        "--length", "96", "--batch", "3", "--heads", "2", "--head-dim", "16", "--no-causal"
    )
    (groups,) = kinds(found)
    assert [(one.N, one.batch, one.heads, one.head_dim, one.causal) for one in groups] == [
        (96, 3, 2, 16, False)
    ]


def test_every_mechanism_has_its_costs_or_a_reason(capsys):
    """Believing every repeat, as profile smoke does: this machine may be busy."""
    small = [
        "--length",
        "64",
        "--heads",
        "1",
        "--head-dim",
        "16",
        "--seconds",
        "40",
        "--dtype",
        "float64",
    ]
    scaling = asked(*small, "--compare", "linear", "softmax-textbook", "authors")
    found = ask.answer(replace(scaling, profile="smoke"), Limit.of(40.0))
    assert {one["attention"] for one in found["costs"]} == {"linear attention", "textbook softmax"}
    first, second = found["costs"]
    assert first["times the fastest"] == 1 <= second["times the fastest"]
    assert 0 < first["from"] <= first["ms"] <= first["to"]
    assert {one["MB"] > 0 for one in found["costs"]} == {True}
    assert list(found["left_out"]) == ["the authors' kernel"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


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
