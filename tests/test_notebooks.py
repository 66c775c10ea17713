"""Every notebook runs, by papermill, with parameters of one's own, and goes on where it stopped."""

import json
import os

import nbformat
import pandas as pd
import pytest

from replication import notebooks, results
from replication.cli import main
from replication.scaling import obtain, obtain_repeats
from replication.sources import hash_of

SMALL = {
    "01": {"N": 6, "D": 3, "M": 4, "lengths": [16, 32, 64]},
    "02": {
        "head_dim": 4,
        "value_dim": 6,
        "positions": 33,
        "longest": 512,
        "lengths": [64, 128, 256],
    },
    "03": {"profile": "smoke", "seeds": [0, 1], "own_sequence": "3 1 4"},
    "04": {"profile": "smoke", "lengths": [8, 16, 64], "threads": 1},
    "05": {"profile": "smoke", "draws": 200, "simulations": 4},
}


@pytest.mark.parametrize("number", [path.name[:2] for path in notebooks.every()])
def test_a_notebook_runs_with_other_parameters(number, tmp_path):
    book = notebooks.find(number)
    parameters = dict(SMALL[number])
    if "out" in notebooks.accepts(book):
        parameters["out"] = str(tmp_path / "results")
    if number == "05":  # which measures nothing itself
        obtain(tmp_path / "results" / "smoke", "smoke", threads=1)
        obtain_repeats(tmp_path / "results" / "smoke", "smoke", threads=1)
    words = {n: v if isinstance(v, str) else json.dumps(v) for n, v in parameters.items()}
    typed = [x for name, text in words.items() for x in ("-p", name, text)]
    assert main(["run", number, *typed, "--out", str(tmp_path / "done.ipynb")]) == 0
    done = nbformat.read(tmp_path / "done.ipynb", 4)
    injected = [c for c in done.cells if "injected-parameters" in c.metadata.get("tags", [])]
    assert all(f"{name} = " in injected[0].source for name in parameters)
    assert not [o for c in done.cells for o in c.get("outputs", []) if o.output_type == "error"]


# Notebook 03 on disk -----------------------------------------------------------------------

TRAINING = ("imports", "imports-replication", "resolve", "folders", "provenance", "train")


def cells(number: str, *names: str) -> str:
    """The code of some cells of a notebook."""
    found = {c.id: c.source for c in nbformat.read(notebooks.find(number), 4).cells}
    return "\n\n".join(found[name] for name in names)


@pytest.fixture
def train(tmp_path):
    """Notebook 03 as far as it trains: one small model in each setting. Returns their folders."""
    given = {
        "profile": "smoke", "setting": "paper, earlier", "attentions": ["linear"], "lengths": [8],
        "steps": 2, "batch_size": 2, "lr": None, "seeds": [0], "device": "cpu", "workers": 1,
        "out": str(tmp_path), "say": lambda *_: None,
    }  # fmt: skip

    def run(rows="auto") -> dict:
        names = given | {"rows": rows}
        exec(cells("03", *TRAINING), names)
        return {name: names["folder"](e) for name, e in names["experiments"].items()}

    return run


def test_training_goes_on_with_what_is_missing_and_fresh_forgets_what_is_finished(train):
    folders = train()
    tables = {path.name for path in folders["paper"].glob("*.csv")}
    assert tables == {"evaluations.csv", "steps-linear.csv"}
    for folder in folders.values():
        (folder / "kept.txt").touch()
    for lost in ("steps-linear.csv", "steps-linear.json", "evaluations.csv"):
        (folders["paper"] / lost).unlink()
        train("fresh" if lost == "evaluations.csv" else "auto")
        assert results.has(folders["paper"], "steps-linear", "evaluations")
        assert all((folder / "kept.txt").exists() for folder in folders.values())
    (folders["paper"] / "evaluations.csv").write_bytes(b"\xff damaged")
    (folders["earlier"] / "begun.json").write_text("{ damaged")
    train("fresh")
    assert not any((folder / "kept.txt").exists() for folder in folders.values())
    for folder in folders.values():
        assert results.load(folder, "evaluations", "")[1]["source"] == hash_of("runs")


def test_two_do_not_train_into_one_folder_and_saved_does_not_train(train):
    (folder, _) = train().values()
    (folder / "evaluations.csv").unlink()
    before = sorted(folder.iterdir())
    with (
        results.held(folder, "runs"),
        pytest.raises(results.ResultsError, match=f"is being written by process {os.getpid()}"),
    ):
        train()
    train("saved")
    assert sorted(path for path in folder.iterdir() if path.suffix != ".lock") == [
        path for path in before if path.suffix != ".lock"
    ]


# Notebook 04 on disk -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "damage", "known"),
    [
        ("auto", None, True),
        ("auto", "decoding.json", False),
        ("fresh", b"\xff damaged", False),
        ("saved", b"\xff damaged", True),
    ],
)
def test_saved_times_of_a_token_are_used_if_they_are_there_and_wanted(
    tmp_path, rows, damage, known
):
    facts = {"source": hash_of("decoding_cost")}
    results.save(tmp_path, "decoding", pd.DataFrame({"N": [1]}), facts)
    if isinstance(damage, str):
        (tmp_path / damage).unlink()
    elif damage:
        (tmp_path / "decoding.csv").write_bytes(damage)
    names = {"folder": tmp_path, "profile": "smoke", "rows": rows}
    exec("from replication import results, sources\n" + cells("04", "token-2"), names)
    assert names["known_tokens"]() == known
