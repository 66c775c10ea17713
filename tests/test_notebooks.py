"""Every notebook runs, by papermill, with parameters of one's own, and resumes where it stopped."""

import json

import nbformat
import pytest

from replication import experiments, store
from replication.cli import main
from replication.workflow import notebooks, report_jobs

SMALL = {
    "01": experiments.find("01").smallest,
    "02": experiments.find("02").smallest,
    "03": {"profile": "smoke", "seeds": [0, 1], "own_sequence": "3 1 4"},
    "04": {"profile": "smoke"},
    "05": {"profile": "smoke", "simulations": 4},
    "06": {"profile": "smoke", "attentions": ["linear"]},
    "07": {"profile": "smoke", "models": ["linear"]},
    "08": {"profile": "smoke", "suspects": ["none", "mask", "all"]},
}
"""By number; others get the profile alone. A notebook that reads the rows of another finds those of
the other's own test."""
JOBS = report_jobs("smoke")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder of results for all: notebooks run in order, and some need the rows of others."""
    return tmp_path_factory.mktemp("results")


def typed(parameters: dict) -> list[str]:
    words = {n: v if isinstance(v, str) else json.dumps(v) for n, v in parameters.items()}
    return [x for name, text in words.items() for x in ("-p", name, text)]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_notebook_runs_with_other_parameters(job, out, tmp_path):
    number = job.name[:2]
    parameters = dict(SMALL.get(number, {"profile": "smoke"}))
    if "out" in notebooks.parameters(job.notebook):
        parameters["out"] = str(out)
    assert main(["run", number, *typed(parameters), "--out", str(tmp_path / "done.ipynb")]) == 0
    done = nbformat.read(tmp_path / "done.ipynb", 4)
    injected = [c for c in done.cells if "injected-parameters" in c.metadata.get("tags", [])]
    assert all(f"{name} = " in injected[0].source for name in parameters)
    assert not [o for c in done.cells for o in c.get("outputs", []) if o.output_type == "error"]


def test_small_parameters_are_of_notebooks_that_exist():
    assert set(SMALL) <= {job.name[:2] for job in JOBS}


@pytest.mark.parametrize("name", experiments.every())
def test_an_experiment_names_notebooks_and_needs_that_exist_and_units_that_differ(name):
    one = experiments.every()[name]
    assert (notebooks.NOTEBOOKS / f"{one.notebook}.ipynb").exists()
    assert set(one.needs) <= set(experiments.every())
    units = one.units("smoke")
    assert len({unit.id for unit in units}) == len(units)
    assert {unit.experiment for unit in units} <= {name}
    for unit in units:
        assert json.dumps(store.plain(unit.numbers))
    notebooks.check(notebooks.NOTEBOOKS / f"{one.notebook}.ipynb", {})
