"""What a user types, and what is said when it is wrong."""

import json

import pytest

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
