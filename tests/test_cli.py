"""What a user types, and what is said when it is wrong."""

import json

import pytest
from workflow_cases import TRIAL, write_notebook

from replication import notebooks
from replication.cli import main


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["run", "99"], "There is no notebook '99'"),
        (["run", "01", "-p", "wrong", "1"], "has no parameter wrong"),
        (["bench", "attention", "--rounds", "0"], "--rounds 0 measures nothing"),
        (["bench", "attention", "--device", "abacus"], "device='abacus' cannot be used here"),
    ],
)
def test_a_wrong_command_is_explained_before_anything_runs(typed, said, capsys):
    assert main(typed) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("notebook", notebooks.every(), ids=lambda path: path.stem)
def test_a_committed_notebook_was_executed_whole_and_without_errors(notebook):
    book = json.loads(notebook.read_text())
    code = [c for c in book["cells"] if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    outputs = [o for c in code for o in c["outputs"]]
    assert outputs
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert any("parameters" in c["metadata"].get("tags", []) for c in code)


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
    parts = capsys.readouterr().out.split("Parameters of trial.ipynb")[1:]
    assert len(parts) == 2
    for part in parts:
        assert "number: int = 1" in part
        assert "how often" in part
