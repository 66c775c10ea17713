"""A thousand bad inputs and more: each gets one plain sentence at once, and nothing is written."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from unittest import mock

import matplotlib as mpl
import nbformat
import pandas as pd
import pytest

from replication import measure
from replication.cli import main
from replication.store import BUILD, RESULTS, ROOT
from replication.workflow import notebooks, sweep

BOOKS = sorted(notebooks.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
MANY = "99999999999999999999"
ALL = "rounds: 2, buckets: 8, chunk: 8, seed: 1"
TYPED = {
    "int": ("x", "", "1.5", "[1]", "true", "nan", "{a: 1}", "1 2", "-1", MANY, "0"),
    "float": ("x", "", "[1]", "true", "{a: 1}", ".nan", ".inf", "-1", "-.inf", "0"),
    "list": ("", "[]", "{a: 1}", "[1", "[[1]]", "[null]", "[true]", "[1.5]", "[.nan]", "[-1]",
             "[" * 2000, "[nope]", "[1, 1]", "[{a: 1}]", f"[{MANY}]", "[0]"),
    "dict": ("[1]", "x", "1", "{x: 1}", "{rounds: 0}", "{rounds: x}", "{buckets: 7}", "{seed: -1}",
             "{chunk: 0.5}", "{rounds: 2}", "{}", f"{{{ALL}, rounds: {MANY[:12]}}}",
             f"{{{ALL}, buckets: {MANY[:12][:-1]}8}}"),
}  # fmt: skip
"""By kind: what no parameter of that kind can be."""
FROM_ZERO = ("seed", "seeds", "add", "utterance")
"""What begins at 0; all else counts from 1 on."""
WORDS = {
    "profile": ("huge", "", "Quick", "quick ", "smoke, quick"),
    "rows": ("all", "", "Auto", "new"),
    "device": ("gpu", "cpu9", "meta", "/dev/null", "cuda:99"),
    "setting": ("", "ours", "paper,,earlier", "paper; earlier"),
    "settings": ("nope", "mnist", "mnist-14, nope", "cifar-0"),
    "own_sequence": ("", "x", "0", "11", "1 2 x", "1.5", "-1"),
    "out": ("x" * 300, f"{BOOKS[0]}/x", " ", "a\0b"),
    "contender": ("nope", "", "Linear", "softmax"),
    "data": ("nowhere", "README.md", "x" * 300),
    "speech_folder": ("nowhere", "README.md", "x" * 300),
}
JSON = {
    "int": ("x", 1.5, True, [1], {"a": 1}, 10**20),
    "float": ("x", True, [1.0], {"a": 1}, float("nan"), float("inf")),
    "str": (1, 1.5, True, ["quick"], {"a": 1}),
    "list": (1, 1.5, True, "x", {"a": 1}, [], [None]),
    "dict": (1, True, "x", [1], {"x": 1}),
}


def typed(book) -> list[tuple[str, str]]:
    """Every parameter of a notebook with everything that it cannot be."""
    found = []
    for name, one in notebooks.parameters(book).items():
        values = WORDS.get(name, ()) if one.kind == "str" else TYPED[one.kind]
        fine = ("0", "[0]") if name in FROM_ZERO else ()
        found += [(name, value) for value in values if value not in fine]
    return [*found, *((f"{name}x", "1") for name in notebooks.parameters(book))]


def in_files(book) -> list[dict]:
    known = notebooks.parameters(book)
    return [{name: value} for name, one in known.items() for value in JSON[one.kind]]


COUNTS = ("0", "-1", "x", "", "1.5", MANY, "1e3", "nan")
FOLDERS = ("", " ", "x" * 300, f"{BOOKS[0]}/x", str(BOOKS[0]))
NEVER = ("/proc/nothing", "/sys/nothing")
"""Where not even root can make a folder."""
LAYERS = [
    *(["--heads", value] for value in COUNTS), *(["--head-dim", value] for value in COUNTS),
    *(["--batch", value] for value in COUNTS), *(["--threads", value] for value in COUNTS),
    *(["--seconds", value] for value in ("0", "-1", "x", "", "nan", "inf", "-inf")),
    *(["--dtype", value] for value in ("", "int8", "float", "Float32", "float32,float64")),
    *(["--mode", value] for value in ("", "backward", "Training", "training,forward")),
    *(["--device", value] for value in ("", "gpu", "meta", "cuda:99", "cpu9", "mps")),
    *(["--compare", *values] for values in ([""], [",", ","], ["linear", "linear"], ["flash", "x"],
                                            ["lsh", "lsh-4"])),
    ["--mode", "generation", "--no-causal"], ["--mode", "generation", "--dtype", "float16"],
    ["--compare"], ["--heads"], ["--heads", "100000000"], ["--head-dim", "100000000"], ["x"],
]  # fmt: skip
"""Of ``ask`` and ``crossover``."""
LENGTHS = ("", ",", "64", "64,64", "a,b", "0,8", "-1,8", "8;16", "1.5,3", "1,1000000000", "nan,8")
COMMANDS = [
    *(["ask", "--length", "64", *words] for words in LAYERS),
    *(["ask", "--length", value] for value in (*COUNTS, "1000000000")), ["ask"],
    *(["crossover", *words] for words in LAYERS), ["crossover", "--compare", "linear"],
    *(["crossover", "--lengths", value] for value in LENGTHS),
    *(["crossover", "--tokens", value] for value in COUNTS if value != MANY),
    *(["crossover", "--out", value] for value in (*FOLDERS, *NEVER)),
    *(["run", "03", "--out", f"{value}/x.ipynb"] for value in NEVER),
    *(["bench", what, "--out", value] for what in ("attention", "training") for value in NEVER),
    *(["export", "--out", value] for value in ("", "x.txt", str(BOOKS[0]), f"{NEVER[0]}/x.zip")),
    ["pool"], ["pool", "nowhere.zip", "--out", ""], ["pool", "a.zip", "a.zip"],
    *(["report", "--cores", value] for value in COUNTS),
    *(["sweep", "03", "--cores", value] for value in COUNTS),
    *(["bench", what, option, value] for what in ("attention", "training")
      for option in ("--rounds", "--threads") for value in COUNTS),
    *(["bench", what, "--out", value] for what in ("attention", "training") for value in FOLDERS),
    *(["bench", "attention", "--device", value] for value in WORDS["device"]),
    *([command, "--profile", value] for command in ("report", "render")
      for value in WORDS["profile"]),
    *(["run", "03", "--profile", value] for value in WORDS["profile"]),
    *(["sweep", "03", "--executor", value] for value in ("", "nowhere", "../..")),
    *(["sweep", "03", "-p", "steps", "1", "2", "--name", value]
      for value in ("", "../x", "x" * 300, "a b", "/x", "é")),
    *(["sweep", "03", "-p", "steps", "1", "2", "--table", value] for value in ("", "x", "scaling")),
    *(["sweep", "03", "-p", *words] for words in (["steps"], ["steps", "1", "1"], ["out", "x"])),
    *(["run", "03", "--out", value] for value in (*FOLDERS[:4], "x.html", "a\0.ipynb")),
    *(["run", value] for value in ("", "99", "nowhere.ipynb", "x" * 300, f"{'x' * 300}.ipynb")),
    *([command, "--nonsense"] for command in ("run", "sweep", "report", "render", "doctor",
                                              "bench", "crossover")),
    ["run", "03", "-p", "steps", "1", "-p", "steps", "2"], ["run", "03", "-p", "steps"], [], [""],
]  # fmt: skip


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Calls a command that must be refused; what would run or write fails the test."""
    monkeypatch.chdir(tmp_path)
    for place, name in (
        (notebooks, "run"),
        (sweep, "run"),
        (sweep, "save"),
        (measure, "processes"),
    ):
        monkeypatch.setattr(place, name, None)
    before = {path for place in (BUILD, RESULTS, tmp_path) for path in place.rglob("*")}
    wrong = []

    def call(*words: str) -> None:
        begin, known = time.process_time(), len(sys.modules)
        try:
            code = main(list(words))
        except BaseException as error:
            code = repr(error)
        said, seconds = capsys.readouterr().err, time.process_time() - begin
        plain = said.replace("\n    replication ", " replication ")  # a command has its line
        is_plain = said.startswith("replication: ") and plain.count("\n") == 1
        most = 3 if len(sys.modules) == known else 5  # at first PyTorch is imported
        if code != 2 or not is_plain or seconds > most:
            wrong.append((words, code, said[:200], round(seconds, 1)))

    yield call
    assert not wrong, "\n".join(map(str, wrong))
    after = {path for place in (BUILD, RESULTS, tmp_path) for path in place.rglob("*")}
    assert after <= before | {tmp_path / "given.json"}


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_a_bad_parameter_is_refused_by_run_and_by_sweep(book, refused):
    for i, (name, value) in enumerate(typed(book)):
        refused("run", book.stem[:2], "-p", name, value)
        if i % 4 == 0 or value in ("0", "[0]"):
            refused("sweep", book.stem[:2], "--dry-run", "-p", name, value)


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_a_bad_parameter_in_a_file_is_refused(book, refused, tmp_path):
    for given in in_files(book):
        (tmp_path / "given.json").write_text(json.dumps(given))
        refused("run", book.stem[:2], "-f", "given.json")


def test_a_bad_command_is_refused(refused):
    for words in COMMANDS:
        refused(*words)


@pytest.mark.parametrize("words", [
    ["run", "03", "-p", "seeds", "-1"], ["sweep", "03", "-p", "nonsense", "1"],
    ["crossover", "--head-dim", "100000000"], ["ask", "--length", "0"], ["report", "--cores", "0"],
    ["export", "--out", "x.txt"], ["pool", "nowhere.zip"],
], ids=" ".join)  # fmt: skip
def test_what_needs_no_pytorch_is_refused_without_it(words, tmp_path):
    """Nor with another library that takes seconds to import, so within one."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run([sys.executable, "-m", "replication", *words], env=env, cwd=tmp_path,
                          capture_output=True, text=True)  # fmt: skip
    lines = done.stderr.splitlines()
    imported = {x.rpartition("|")[2].strip() for x in lines if x.startswith("import time:")}
    assert done.returncode == 2
    said = next(x for x in lines if not x.startswith("import time:"))
    assert said.startswith("replication: ")
    assert "replication.cli" in imported
    assert not imported & {"torch", "numba", "scipy", "matplotlib", "snakemake"}


# Plain papermill ------------------------------------------------------------------------------

NUMBERS = {"int": (-1, 0), "float": (-1.0, float("nan")), "list": ([], [-1], [0], [1, 1], ["x"])}
ONLY_TYPED = ("own_sequence",)
"""Of what kind these are is looked at by ``run`` and ``sweep`` alone."""


def without_commands(book) -> list[dict]:
    """What a notebook is to refuse by itself."""
    found = [one for one in in_files(book) if not {*one} & {*ONLY_TYPED}]
    for name, one in notebooks.parameters(book).items():
        values = NUMBERS.get(one.kind, WORDS.get(name, ()))
        found += [{name: x} for x in values if not (name in FROM_ZERO and x in (0, [0]))]
    return [one for one in found if one != {"seeds": 1}]  # one seed, without brackets


@pytest.fixture
def as_papermill(unhooked, monkeypatch, capsys):
    """Runs a notebook's statements up to its check, then that cell anew with other parameters."""
    monkeypatch.chdir(notebooks.NOTEBOOKS)

    def until(cells: list[str]):
        lines = ast.parse("\n".join(re.sub(r"(?m)^%.*", "", cell) for cell in cells)).body
        last = next(i for i, line in enumerate(lines) if "EXPERIMENT.check" in ast.unparse(line))
        return compile(ast.Module(lines[: last + 1], []), "cells", "exec")

    def start(book):
        cells = [c["source"] for c in nbformat.read(book, 4).cells if c["cell_type"] == "code"]
        before = {name: one.default for name, one in notebooks.parameters(book).items()}
        exec(until(cells), space := {})
        again = until([next(cell for cell in cells if "EXPERIMENT.check" in cell)])
        return lambda given: exec(again, space | before | given)

    displayed = pd.option_context("display.max_colwidth", 50, "display.max_rows", 60,
                                  "display.float_format", None)  # fmt: skip
    with mpl.rc_context(), displayed, mock.patch.dict(os.environ):
        yield start


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_a_bad_parameter_is_refused_by_the_notebook_itself(book, as_papermill):
    call, wrong = as_papermill(book), []
    for given in without_commands(book):
        try:
            call(given)
            wrong.append((given, "accepted"))
        except ValueError as error:
            wrong += [(given, str(error))] * (str(error).count("\n") > 0)
        except (TypeError, AttributeError) as error:
            wrong.append((given, repr(error)))
    assert not wrong, "\n".join(map(str, wrong))


DEEP = "[" * 20_000
"""More than a parser of ours follows."""


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b"3", b"\xff\x00\x9d", b'{"a": 1', DEEP.encode()]
)
def test_a_damaged_file_of_parameters_is_refused(content, refused, tmp_path):
    (tmp_path / "given.json").write_bytes(content)
    refused("run", "03", "-f", "given.json")


def test_what_has_no_end_or_never_comes_is_not_read(refused, tmp_path):
    pipe = tmp_path / "given.json"
    os.mkfifo(pipe)
    for device in ("/dev/zero", str(pipe)):
        refused("run", "01", "-f", device)
        refused("pool", device)
    os.rename(pipe, pipe.with_suffix(".ipynb"))
    refused("run", "01", "--out", str(pipe.with_suffix(".ipynb")))
    os.unlink(pipe.with_suffix(".ipynb"))


BROKEN = ("{}", "[]", "", "\0", '{"cells": 1}', '{"cells": [1]}', '{"cells": [{}]}')


@pytest.mark.parametrize("content", BROKEN)
def test_a_damaged_notebook_is_refused(content, refused, tmp_path):
    refused("run", str(tmp_path / "given.json"))
    book = tmp_path / "given.json"
    book.write_text(content)
    refused("run", str(book.rename(tmp_path / "x.ipynb")), "-p", "a", "1")
    (tmp_path / "x.ipynb").unlink()


def test_there_are_more_than_a_thousand():
    files = sum(len(in_files(book)) for book in BOOKS)
    assert sum(len(typed(book)) for book in BOOKS) + files + len(COMMANDS) > 1000
