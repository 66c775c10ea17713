"""What is committed of the reference run is exactly what its rows give: nothing can drift."""

import json
import re
import shutil
import subprocess

import nbformat
import pytest
from workflow_cases import call, new_project

from replication import claims, experiments, store
from replication.experiments.base import NOT_RUN
from replication.report import build
from replication.report.run import load_run
from replication.store import RESULTS, ROOT
from replication.workflow import notebooks

REFERENCE = RESULTS / "reference"
pytestmark = pytest.mark.skipif(not REFERENCE.exists(), reason="there is no reference run")
DRAWN = ("image/png", "text/html", "text/markdown")
UNITS = [
    unit
    for one in experiments.every().values()
    if any(map(store.exists, units := one.units("reference")))
    for unit in units
    if store.exists(unit) or not one.in_parts
]
"""What the reference run holds, whole or in parts."""
JUDGED = load_run("reference", current=False).verdicts if UNITS else {}
OPEN = {one.experiment for one in claims.claims() if JUDGED[one.id].outcome == NOT_RUN}
"""Experiments of which a claim reads "not run here": their notebooks show profile quick."""
SHOWN = sorted(
    {experiments.every()[unit.experiment].notebook for unit in UNITS if unit.experiment not in OPEN}
)


def test_the_verdicts_follow_from_the_rows(tmp_path):
    """To the byte, numbers included."""
    run = load_run("reference", current=False)
    stored = REFERENCE / "verdicts.json"
    crossovers = json.loads(stored.read_text())["crossovers"]
    made = claims.save(tmp_path, "reference", run.verdicts, crossovers=crossovers)
    assert made.read_bytes() == stored.read_bytes()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.experiment}-{unit.name}")
def test_the_rows_are_there_whole_and_of_the_present_code(unit):
    assert store.load(unit, current=True).rows.size


def test_the_readme_shows_the_verdicts():
    text = build.README.read_text()
    between = text.partition(build.BEGIN)[2].partition(build.END)[0]
    assert between.strip() == build.answer()


def committed(name: str) -> bytes:
    """A file as the last commit has it: one's own report may lie in its place."""
    shown = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True)
    if shown.returncode:
        pytest.skip("not a git checkout")
    return shown.stdout


def test_report_and_figures_are_built_from_the_rows(tmp_path):
    """The same rows give the same PDF, byte for byte, and the same figures and verdicts."""
    pdf = committed("paper/report.pdf")
    project = new_project(tmp_path / "project")
    shutil.copytree(REFERENCE, project / "results/reference")
    for folder in ("paper", "notebooks", "replication"):
        shutil.rmtree(project / folder, ignore_errors=True)
        shutil.copytree(ROOT / folder, project / folder)
    shutil.copy(build.README, project)
    call(project, "render", "--profile", "reference")
    assert (project / "paper/report.pdf").read_bytes() == pdf
    for name in ("figures/reference/*", "results/reference/verdicts.json", "README.md"):
        made, known = ({path.name: path.read_bytes() for path in where.glob(name)}
                       for where in (project, ROOT))  # fmt: skip
        assert made == known


def shown(path) -> list[dict]:
    """What a reader sees of a notebook's outputs."""
    cells = nbformat.read(path, 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    found = [
        {kind: output.data[kind] for kind in DRAWN if kind in output.data}
        for output in outputs
        if output.output_type in ("display_data", "execute_result")
    ]
    return [re.sub(r"\b[0-9a-f]{32}\b", "", json.dumps(data)) for data in found if data]


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_what_its_rows_give(name, tmp_path):
    book = notebooks.NOTEBOOKS / f"{name}.ipynb"
    shutil.copytree(REFERENCE, tmp_path / "reference")
    parameters = {"profile": "reference", "out": str(tmp_path)}
    if "rows" in notebooks.parameters(book):
        parameters["rows"] = "saved"
    done = notebooks.run(book, parameters, tmp_path / "done.ipynb")
    assert shown(done) == shown(book)
