"""One token more after N others: who has a memory, who has none, and what is answered."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import jsonschema
import pytest
import torch

from replication import store
from replication.cli import parser
from replication.experiments.crossover import generation, run
from replication.experiments.crossover.commands import several_lengths
from replication.experiments.crossover.rules import answer
from replication.experiments.scaling.contenders import kinds

SCHEMA = json.loads((Path(run.__file__).parent / "answer.schema.json").read_text())


def asked_for(*words: str):
    return several_lengths(parser().parse_args(["crossover", *words]))


def test_tokens_that_are_written_are_timed_after_every_length():
    """A state, a cache, and one that has neither and computes all again."""
    words = ("--mode", "generation", "--lengths", "4,8,16", "--heads", "2", "--head-dim", "8")
    scaling = asked_for(*words, "--compare", "linear", "softmax", "lsh-1", "--batch", "2")
    writers = {(name, group.N): generation.writer(name, group, torch.device("cpu"))
               for name in scaling.contenders for group in kinds(scaling)[0]}  # fmt: skip
    for one in writers.values():
        with torch.inference_mode():
            one.call()
    per_value = 2 * 2 * 8 * 4  # batch, heads, size, bytes
    assert {writers["linear", N].nbytes for N in (4, 8, 16)} == {per_value * (8 + 1)}
    assert [writers["softmax", N].nbytes for N in (4, 16)] == [
        2 * 4 * per_value,
        2 * 16 * per_value,
    ]
    assert writers["lsh-1", 4].tokens == 1 < writers["linear", 4].tokens


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("softmax", "softmax-textbook"), "write tokens by the same code"),
        (("linear", "authors"), "Fewer than two can be compared. Left out: authors: somebody else"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_timed(words, said):
    with pytest.raises(ValueError, match=said):
        run.check_contenders(asked_for("--mode", "generation", "--compare", *words))


def test_a_contender_that_lacks_the_type_is_told_by_its_own_reason():
    with pytest.raises(ValueError, match="Left out: authors: "):
        run.check_contenders(asked_for("--compare", "linear", "authors", "--dtype", "float64"))


def test_generation_leaves_rows_that_can_be_answered(monkeypatch, tmp_path):
    scaling = asked_for("--mode", "generation", "--lengths", "4,64", "--heads", "1",
                        "--head-dim", "8", "--compare", "linear", "softmax", "authors")  # fmt: skip
    believing = partial(generation.measure_rounds, believe=True)
    monkeypatch.setattr(generation, "measure_rounds", believing)
    made = run.units_of(replace(scaling, seconds=3.0))
    for unit in made:
        store.make(unit, tmp_path)
    found = answer(scaling, run.evidence([store.load(unit, tmp_path) for unit in made]))
    jsonschema.validate(found | {"folder": "x"}, SCHEMA)
    assert found["setting"]["mode"] == "generation"
    assert {x["contender"] for x in found["skipped"]} == {"authors"}
    memory = next(x for x in found["crossovers"] if x["quantity"] == "peak_bytes")
    assert (memory["contender"], memory["status"]) == ("linear", "crosses")
    assert "writing tokens by one causal attention layer" in found["paragraph"]
