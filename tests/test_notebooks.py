"""Every notebook runs, by papermill, with parameters of one's own."""

import json

import nbformat
import pytest

from replication import notebooks
from replication.cli import main
from replication.scaling import obtain

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
    words = {n: v if isinstance(v, str) else json.dumps(v) for n, v in parameters.items()}
    typed = [x for name, text in words.items() for x in ("-p", name, text)]
    assert main(["run", number, *typed, "--out", str(tmp_path / "done.ipynb")]) == 0
    done = nbformat.read(tmp_path / "done.ipynb", 4)
    injected = [c for c in done.cells if "injected-parameters" in c.metadata.get("tags", [])]
    assert all(f"{name} = " in injected[0].source for name in parameters)
    assert not [o for c in done.cells for o in c.get("outputs", []) if o.output_type == "error"]
