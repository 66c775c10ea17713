"""What is committed of the reference run is exactly what its rows give: nothing can drift."""

import json
import re
import shutil

import nbformat
import pytest

from replication import notebooks, sources
from replication.report import front, run
from replication.report.build import build
from replication.results import RESULTS, ROOT

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
    origins = {"benchmark": reference.scaling.facts, "decoding_cost": reference.decoding_facts}
    found = {room: facts["source"] for room, facts in origins.items()}
    found |= {"runs": reference.training["paper"].facts["source"]}
    assert found == {room: sources.hash_of(room) for room in found}


def test_the_readme_shows_the_verdicts():
    text = front.README.read_text()
    between = text.partition(front.BEGIN)[2].partition(front.END)[0]
    assert between.strip() == front.answer()


def test_report_and_figures_are_built_from_the_rows(tmp_path, monkeypatch):
    """The same rows give the same PDF, byte for byte, and the same figures."""
    figures = ROOT / "figures" / "reference"
    before = {path.name: path.read_bytes() for path in figures.iterdir()}
    monkeypatch.setattr(notebooks, "BUILD", tmp_path / "build")
    build("reference", tmp_path)
    assert (tmp_path / "report.pdf").read_bytes() == (ROOT / "paper/report.pdf").read_bytes()
    assert {path.name: path.read_bytes() for path in figures.iterdir()} == before


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
