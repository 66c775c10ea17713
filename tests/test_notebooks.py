"""Every notebook runs, by papermill, with parameters of one's own."""

import json

import nbformat
import pytest

from replication import notebooks
from replication.cli import main

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
}


@pytest.mark.parametrize("number", [path.name[:2] for path in notebooks.every()])
def test_a_notebook_runs_with_other_parameters(number, tmp_path):
    book = notebooks.find(number)
    parameters = dict(SMALL[number])
    if "out" in notebooks.accepts(book):
        parameters["out"] = str(tmp_path / "results")
    typed = [x for name, value in parameters.items() for x in ("-p", name, json.dumps(value))]
    assert main(["run", number, *typed, "--out", str(tmp_path / "done.ipynb")]) == 0
    done = nbformat.read(tmp_path / "done.ipynb", 4)
    injected = [c for c in done.cells if "injected-parameters" in c.metadata.get("tags", [])]
    assert all(f"{name} = " in injected[0].source for name in parameters)
    assert not [o for c in done.cells for o in c.get("outputs", []) if o.output_type == "error"]
