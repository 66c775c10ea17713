"""``replication crossover`` and ``replication bench scaling``, as a user types them."""

import argparse
import json
import os
import re
import subprocess
import sys

import pandas as pd
import pytest

from replication import cli_scaling, measure
from replication.answer import QUESTIONS, answer, as_dict, paragraph
from replication.results import ResultsError
from replication.scaling import load_repeats, load_scaling
from replication.scaling_config import RUNS, for_crossover

TINY = ["--heads", "1", "--head-dim", "4", "--lengths", "8,64,512", "--seconds", "3"]


def typed(*words: str) -> int:
    """As the command, but errors come out."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    cli_scaling.add(commands)
    cli_scaling.add_bench(commands.add_parser("bench").add_subparsers())
    options = parser.parse_args(words)
    return options.run(options)


@pytest.fixture
def _allocator(monkeypatch):
    """A process that was started as it should be, so that it does not start itself again."""
    for name, value in measure.ALLOCATOR.items():
        monkeypatch.setenv(name, value)


# The answer --------------------------------------------------------------------------------


def rows_with_crossovers(fused: float, textbook: float, memory: float) -> pd.DataFrame:
    """Linear costs N; its rivals N^2 over their crossover. Seven runs of a round, shared noise."""
    cells = []
    for N in (8, 32, 128, 512, 2048):
        for name, at in (("linear", None), ("softmax", fused), ("softmax-textbook", textbook)):
            grown = {"time_ms": N if at is None else N**2 / at}
            grown["peak_bytes"] = N if at is None else N**2 / memory
            cells += [
                {"contender": name, "N": N, "run": i, "round": 0}
                | {"status": "measured", "reason": ""}
                | {what: value * (1 + i / 10) if what == "time_ms" else value
                   for what, value in grown.items()}
                for i in range(7)
            ]  # fmt: skip
    return pd.DataFrame(cells)


def answered(rows: pd.DataFrame, **setting):
    scaling = for_crossover(60.0, **{"directions": "training", "causal": [True]} | setting)
    return answer(scaling, rows, {"processor": "Abacus 3", "threads": 1})


def test_the_paragraph_says_where_and_what_to_do():
    text = paragraph(answered(rows_with_crossovers(fused=300, textbook=100, memory=50)))
    assert text.startswith(
        "On this machine (Abacus 3, 1 thread), training one causal attention layer with 8 heads of "
        "64 in float32: linear attention is faster than fused softmax from N = 300 on"
    )
    assert ". It is faster than textbook softmax from N = 100 on (95 % interval" in text
    assert ". It needs less memory than fused softmax from N = 50 on (counted exactly" in text
    assert "So take fused softmax below N = 300 and linear attention above." in text
    assert "Measured at 5 lengths from N = 8 to 2048 in 7 runs of at least 1 rounds" in text


@pytest.mark.parametrize(
    ("fused", "advice"),
    [
        (4, "So take linear attention from N = 8 on, the shortest measured."),
        (1e6, "So take fused softmax up to N = 2048, as far as both were measured."),
    ],
)
def test_without_a_crossover_the_advice_says_how_far_it_goes(fused, advice):
    assert advice in paragraph(answered(rows_with_crossovers(fused, 100, 50)))


def test_what_was_too_dear_is_told_and_scripts_hear_what_was_noisy():
    rows = rows_with_crossovers(300, 100, 50)
    rows.loc[rows["N"] == 32, "status"] = "noisy"
    skipped = rows.tail(1).assign(N=4096, status="skipped", reason="time: too long", round=None)
    found = answered(pd.concat([rows, skipped]))
    assert "too dear for the budget at N = 4096." in paragraph(found)
    assert as_dict(found)["skipped"] == [
        {"contender": "softmax-textbook", "N": 4096, "reason": "time: too long"}
    ]
    assert len(as_dict(found)["noisy"]) == 3


def test_json_has_no_infinity():
    found = as_dict(answered(rows_with_crossovers(1e6, 100, 50)))
    first, second, *_ = json.loads(json.dumps(found, allow_nan=False))["crossovers"]
    assert (first["status"], first["at"]) == ("beyond", None)
    assert (second["status"], round(second["at"])) == ("crosses", 100)


def test_too_few_lengths_to_compare_are_told():
    rows = rows_with_crossovers(300, 100, 50)
    with pytest.raises(ValueError, match=r"not enough to compare.*Allow more time"):
        answered(rows[rows["N"] == 8])


# The commands ------------------------------------------------------------------------------


@pytest.mark.usefixtures("_allocator")
def test_crossover_measures_and_answers_in_json(tmp_path, capsys):
    words = ["crossover", *TINY, "--mode", "forward", "--no-causal", "--out", str(tmp_path)]
    assert typed(*words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["setting"] == {
        "mode": "forward", "causal": False, "heads": 1, "head_dim": 4, "dtype": "float32"
    }  # fmt: skip
    asked = [(c["quantity"], c["opponent"]) for c in found["crossovers"]]
    assert asked == QUESTIONS
    memory = found["crossovers"][3]
    assert memory["status"] in ("below", "crosses")  # not beyond: N^2 weights at N = 512
    assert memory["low"] is None
    assert found["paragraph"].startswith("On this machine")
    assert found["folder"] == str(tmp_path / "forward-bidirectional-1x4-float32")


@pytest.mark.usefixtures("_allocator")
def test_crossover_keeps_the_last_rows_of_every_setting(tmp_path, capsys):
    for lengths in ("8,64", "16,32"):
        assert typed("crossover", *TINY[:-3], lengths, *TINY[-2:], "--out", str(tmp_path)) == 0
    folder = tmp_path / "training-causal-1x4-float32"
    assert capsys.readouterr().out.endswith(f"Rows and provenance: {folder}\n")
    saved = load_repeats(folder)
    assert sorted(saved.rows["N"].unique()) == [16, 32]
    assert saved.facts["config"]["heads"] == 1
    assert sorted(saved.rows["run"].unique()) == list(range(RUNS))
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_the_defaults_in_the_help_are_those_that_are_used(capsys):
    with pytest.raises(SystemExit):
        typed("crossover", "--help")
    text = capsys.readouterr().out
    said, used = " ".join(text.split()), for_crossover(60.0)
    assert f"of the layer; default: {used.heads} " in said
    assert f"size of a head; default: {used.head_dim} " in said
    assert f"default: {used.lengths[0]} to {used.lengths[-1]}, doubling" in said
    assert said.count("default: ") == len(re.findall(r"^  --[a-z]", text, re.MULTILINE))


@pytest.mark.usefixtures("_allocator")
def test_bench_scaling_writes_rows_and_says_what_they_cost(tmp_path, capsys):
    words = ["bench", "scaling", "--profile", "smoke", "--lengths", "8", "--out", str(tmp_path)]
    assert typed(*words, "--contenders", "linear,softmax") == 0
    said = capsys.readouterr().out
    assert "Milliseconds a sample. Cells:" in said
    assert "predicted at" in said
    assert {"layer", "paper", "earlier"} == set(load_scaling(tmp_path).rows["subject"])
    with pytest.raises(ResultsError, match="another config"):
        typed(*words, "--contenders", "linear")


def test_a_process_with_the_wrong_allocator_starts_again_and_still_answers(tmp_path):
    code = "import sys; from test_cli_scaling import typed; sys.exit(typed(*sys.argv[1:]))"
    clean = {k: v for k, v in os.environ.items() if k not in measure.ALLOCATOR}
    clean["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    command = [sys.executable, "-c", code, "crossover", *TINY, "--out", str(tmp_path)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Restarting with glibc settings") == 1
    assert done.stdout.startswith("On this machine")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crossover", "--dtype", "int8"], "dtype='int8' is unknown"),
        (["crossover", "--mode", "sideways"], "directions='sideways' is unknown"),
        (["crossover", "--heads", "0"], "heads = 0 is too small"),
        (["crossover", "--lengths", "0,8"], "N = 0 is too small"),
        (["crossover", "--seconds", "0"], "must be positive"),
        (["crossover", "--threads", "0"], "--threads 0 is too few"),
        (["crossover", "--device", "abacus"], "device='abacus' cannot be used"),
        (["bench", "scaling", "--profile", "huge"], "profile='huge' is unknown"),
        (["bench", "scaling", "--contenders", ""], "contenders is empty"),
        (["bench", "scaling", "--lengths", "-4"], "N = -4 is too small"),
        (["bench", "scaling", "--memory-gb", "0"], "--memory-gb 0.0 is no memory"),
    ],
)
def test_a_wrong_command_is_explained_before_anything_runs(words, said):
    with pytest.raises(ValueError, match=said):
        typed(*words)


@pytest.mark.usefixtures("_allocator")
def test_a_budget_too_small_to_measure_anything_is_told(tmp_path):
    with pytest.raises(ValueError, match="nothing can be measured"):
        typed("crossover", *TINY[:-1], "1e-6", "--out", str(tmp_path))
