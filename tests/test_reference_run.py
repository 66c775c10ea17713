"""What is committed of the reference run is exactly what its rows give: nothing can drift."""

import json
import re
import shutil
import subprocess

import nbformat
import pytest
from workflow_cases import call, new_project

from replication import notebooks, sources
from replication.report import front, run
from replication.results import RESULTS, ROOT
from replication.workflow import report_jobs
from replication.workflow.plan import has_tables

REFERENCE = RESULTS / "reference"
pytestmark = pytest.mark.skipif(not REFERENCE.exists(), reason="there is no reference run")
DRAWN = ("image/png", "text/html", "text/markdown")


def test_the_verdicts_follow_from_the_rows():
    found = run.load_run("reference", fresh=False).verdicts
    stored = json.loads((REFERENCE / "verdicts.json").read_text())["claims"]
    for what in ("outcome", "evidence"):
        assert {id: one[what] for id, one in stored.items()} == {
            id: getattr(one, what) for id, one in found.items()
        }


def test_the_rows_were_measured_by_the_present_source():
    reference = run.load_run("reference", fresh=False)
    origins = [("runs", found.facts) for found in reference.training.values()]
    origins += [("benchmark", part.facts) for part in (reference.scaling, reference.repeats)]
    origins += [("decoding_cost", reference.decoding_facts)]
    for room, facts in origins:
        assert facts["source"] == sources.hash_of(room), room


def test_the_readme_shows_the_verdicts():
    text = front.README.read_text()
    between = text.partition(front.BEGIN)[2].partition(front.END)[0]
    assert between.strip() == front.answer()


def test_all_tables_are_there_that_a_report_asks_for():
    assert all(map(has_tables, report_jobs("reference")))


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
    shutil.copytree(ROOT / "paper", project / "paper")
    shutil.copy(front.README, project)
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


@pytest.mark.parametrize("number", ["03", "04", "05"])
def test_a_notebook_shows_what_its_rows_give(number, tmp_path):
    book = notebooks.find(number)
    shutil.copytree(REFERENCE, tmp_path / "reference")
    parameters = {"profile": "reference", "out": str(tmp_path)}
    if "rows" in notebooks.accepts(book):
        parameters["rows"] = "saved"
    done = notebooks.run(book, parameters, tmp_path / "done.ipynb")
    assert shown(done) == shown(book)
