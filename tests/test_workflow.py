"""What a user types is checked first; what is stale is run again, and nothing else."""

import json
import os
import time

import pytest
from workflow_cases import TRIAL, call, new_project, write_notebook

from replication import notebooks, workflow
from replication.cli import main
from replication.sources import PACKAGE

# Parameters ---------------------------------------------------------------------------------


@pytest.fixture
def trial(tmp_path):
    kinds = 'sizes: list = [1]\nrate: float = None\nlsh: dict = {"a": 1}\nplain = 2'
    return write_notebook(tmp_path / "trial.ipynb", TRIAL + kinds, "1")


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("number", "3", 3),
        ("plain", "3", 3),
        ("rate", "1e-3", 0.001),
        ("rate", "2", 2.0),
        ("rate", "None", None),
        ("text", "3", "3"),
        ("text", "None", "None"),
        ("broken", "True", True),
        ("sizes", "[1, 1e-3, a]", [1, 0.001, "a"]),
        ("sizes", "1, 2", [1, 2]),
        ("sizes", "7", [7]),
        ("sizes", "2020-01-01", ["2020-01-01"]),
        ("lsh", "{a: 2}", {"a": 2}),
    ],
)
def test_what_is_typed_is_read_as_the_notebook_declares_it(trial, name, typed, value):
    ((found,),) = notebooks.read(trial, [(name, [typed])]).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("number", "abc", "number='abc' is not a whole number. Give a whole number, such as 1."),
        ("number", "1.5", "is not a whole number"),
        ("rate", "fast", "is not a number. Give a number, such as 0.001."),
        ("broken", "2", "is not true or false"),
        ("sizes", "{a: 1}", "is not a list"),
        ("sizes", "[1", "is not a list"),
        ("lsh", "[1]", "is not a mapping"),
        ("numbr", "1", "has no parameter numbr. Did you mean number? It has text, number,"),
    ],
)
def test_a_wrong_parameter_is_told_before_anything_runs(trial, name, typed, said, capsys):
    assert main(["run", str(trial), "-p", name, typed]) == 2
    assert said in capsys.readouterr().err
    assert main(["sweep", str(trial), "-p", name, typed]) == 2
    assert said in capsys.readouterr().err


def test_a_name_given_twice_is_not_half_ignored(trial, capsys):
    assert main(["run", str(trial), "-p", "number", "1", "-p", "number", "2"]) == 2
    assert "number is given twice" in capsys.readouterr().err


def test_help_shows_the_parameters_of_a_notebook(trial, capsys):
    assert main(["run", "--help", str(trial)]) == 0
    assert main(["sweep", str(trial), "--help"]) == 0
    for part in capsys.readouterr().out.split("Parameters of trial.ipynb")[1:]:
        assert "number: int = 1" in part
        assert "how often" in part


# One notebook -------------------------------------------------------------------------------


def test_a_run_is_quiet_and_a_failing_one_leaves_the_earlier_result(trial, tmp_path, capfd):
    write_notebook(trial, TRIAL, "assert not broken, 'asked to fail'")
    out = tmp_path / "done.ipynb"
    typed = ["run", str(trial), "--out", str(out), "-p", "number"]
    assert main([*typed, "2"]) == 0
    assert capfd.readouterr().err == ""
    before = out.read_bytes()
    assert main([*typed, "3", "-p", "broken", "true"]) == 2
    said = capfd.readouterr().err
    assert "AssertionError: asked to fail" in said
    assert said.splitlines()[-1] == f"The notebook up to there: {tmp_path / 'done.part.ipynb'}"
    assert out.read_bytes() == before
    assert main([*typed, "3"]) == 0
    assert not (tmp_path / "done.part.ipynb").exists()


def test_a_kernel_that_dies_is_told(trial, tmp_path, capsys):
    write_notebook(trial, TRIAL, "import os; os._exit(9)")
    assert main(["run", str(trial), "--out", str(tmp_path / "done.ipynb")]) == 2
    assert "mostly for want of memory" in capsys.readouterr().err


# What a notebook comes from ----------------------------------------------------------------


def test_a_notebook_comes_from_what_it_imports_and_from_no_more(tmp_path):
    cells = ("%matplotlib inline\nimport replication.figures.style as s", "!ls\nimport json")
    book = write_notebook(tmp_path / "a.ipynb", TRIAL, *cells)
    assert notebooks.source_files(book) == [PACKAGE / "figures" / "style.py"]
    write_notebook(book, TRIAL, "from replication.train import train")
    found = notebooks.source_files(book)
    parts = {PACKAGE / name for name in ("train.py", "model/layers.py", "config/numbers.py")}
    assert parts <= set(found)
    assert not {PACKAGE / "figures" / "style.py", PACKAGE / "cli.py"} & set(found)


def test_only_training_gets_cores_and_only_timing_runs_alone(tmp_path):
    roles = {path.name[:2]: notebooks.role(path) for path in notebooks.every()}
    assert roles["01"] == "reading"
    assert roles["03"] == "training"
    assert roles.get("04", "timing") == "timing"


# The report ---------------------------------------------------------------------------------

LOG = """
import json, time
begin = time.time()
time.sleep(0.5)
with open("../log", "a") as file:
    entry = dict(number="%s", begin=begin, end=time.time(), profile=profile, %s)
    print(json.dumps(entry), file=file)
"""


@pytest.fixture
def project(tmp_path):
    project = new_project(tmp_path / "p")
    (project / "replication" / "extra.py").write_text("VALUE = 1\n")
    known = 'profile: str = "quick"'
    for number, also, more, imports in (
        ("01", "", "", ""),
        ("03", "workers: int = 1\nrows: str = ''", "workers=workers, rows=rows", "extra"),
        ("04", "rows: str = ''", "rows=rows", ""),
        ("05", "", "", ""),
    ):
        cells = (f"from replication import {imports or 'sources'}", LOG % (number, more))
        write_notebook(project / f"notebooks/{number}_x.ipynb", f"{known}\n{also}", *cells)
    return project


def log(project):
    entries = [json.loads(line) for line in (project / "log").read_text().splitlines()]
    (project / "log").unlink()
    return {entry["number"]: entry for entry in entries}


def test_a_report_runs_what_is_stale_in_order_and_a_failure_spoils_nothing(project):
    typed = ["report", "--profile", "smoke", "--cores", "2"]
    said, runs = call(project, *typed, "--fresh"), log(project)
    assert "There is no paper/report.ipynb: only pages are made." in said
    assert set(runs) == {"01", "03", "04", "05"}
    assert {entry["profile"] for entry in runs.values()} == {"smoke"}
    assert (runs["03"]["workers"], runs["03"]["rows"], runs["04"]["rows"]) == (2, "fresh", "fresh")
    assert runs["05"]["begin"] > runs["04"]["end"], "05 reads the rows of 04"
    timed = runs.pop("04")
    for number, other in runs.items():
        apart = other["end"] < timed["begin"] or other["begin"] > timed["end"]
        assert apart, f"{number} ran beside the clock of 04"
    assert "<html" in (project / "build/smoke/03_x.html").read_text()

    later = time.time() + 100
    os.utime(project / "replication" / "extra.py", (later, later))
    with (project / "replication" / "train.py").open("a") as file:
        file.write("# a change that none of these notebooks imports\n")
    assert "Nothing to do" in call(project, *typed)
    assert not (project / "log").exists()

    before = (project / "build/smoke/04_x.ipynb").read_bytes()
    (project / "replication" / "extra.py").write_text("VALUE = 2\n")
    write_notebook(project / "notebooks/04_x.ipynb", "x: int = 1", "raise ValueError('broken')")
    said = call(project, *typed[:-1], "1", code=1)
    assert "03_x: updated input files" in said
    runs = log(project)
    assert set(runs) == {"03"}
    assert (runs["03"]["workers"], runs["03"]["rows"]) == (1, "auto")
    assert "Not made: 04_x, 04_x.html\n" in said
    assert "Not made: 05_x, 05_x.html\nIt waits for what could not be made" in said
    assert said.count("ValueError: broken") == 1
    assert said.rstrip().endswith("then call the same again.")
    assert (project / "build/smoke/04_x.ipynb").read_bytes() == before


def test_two_at_once_in_one_folder_are_refused(tmp_path, trial, monkeypatch, capsys):
    monkeypatch.setattr("replication.sweep.grid.SWEEPS", tmp_path)
    typed = ["sweep", str(trial), "-p", "number", "1", "2", "--name", "mine"]
    with workflow.alone(tmp_path / "mine"):
        assert main(typed) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'mine'} is in use by process {os.getpid()} on " in said
    assert "Nothing was changed" in said
    assert not (tmp_path / "mine" / "plan.json").exists()


def test_what_was_broken_off_on_another_machine_is_not_taken_over(tmp_path):
    (tmp_path / ".lock").write_text('{"pid": 1, "host": "elsewhere", "executor": "local"}')
    with (
        pytest.raises(workflow.WorkflowError, match="broken off on elsewhere"),
        workflow.alone(tmp_path),
    ):
        pass
