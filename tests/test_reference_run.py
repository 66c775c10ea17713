"""What is committed of the reference run is what its rows give: nothing can drift.

Words, figures and verdicts are the same; numbers and pixels nearly so, as the last bits of a sum
depend on the processor.
"""

import base64
import json
import re
import shutil
import subprocess
from io import BytesIO

import nbformat
import numpy as np
import pytest
from PIL import Image
from pypdf import PdfReader
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
UNITS = [unit for one in experiments.every().values() for unit in one.units("reference")
         if store.exists(unit)]  # fmt: skip
"""What the reference run holds, whole or in parts."""
JUDGED = load_run("reference", current=False).verdicts if UNITS else {}
OPEN = {one.experiment for one in claims.claims() if JUDGED[one.id].outcome == NOT_RUN}
"""Experiments of which a claim reads "not run here": their notebooks show profile quick."""
SHOWN = sorted(
    {experiments.every()[unit.experiment].notebook for unit in UNITS if unit.experiment not in OPEN}
)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
HASH = re.compile(r"(?<![\w.])(?=[0-9a-f]*[a-f])[0-9a-f]{10,64}\b|(?<=data:audio/)[\w/;,+=]+")
"""Of code or content; also sound, whose bits depend on the processor and on who encodes it."""


def last_digit(number: str) -> float:
    """What one more there would be; rounding may turn it over. Whole numbers are counts."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2])) if "." in digits else 0.0


def assert_alike(made: str, known: str) -> None:
    """The same words, and numbers that differ in their last bits or by one in the last digit."""
    made, known = (HASH.sub("", text) for text in (made, known))
    assert NUMBER.sub("0", made) == NUMBER.sub("0", known)
    for one, other in zip(NUMBER.findall(made), NUMBER.findall(known), strict=True):
        if one == other:  # also a commit such as 165e735, which is no number
            continue
        allowed = max(1e-6 * abs(float(other)), 1.01 * last_digit(other))
        assert abs(float(one) - float(other)) <= allowed, (one, other)


def assert_same_picture(made: bytes, known: bytes) -> None:
    """But for some pixels at the edge of a line."""
    pictures = [np.asarray(Image.open(BytesIO(x)).convert("L"), float) for x in (made, known)]
    assert pictures[0].shape == pictures[1].shape
    assert (np.abs(pictures[0] - pictures[1]) > 64).mean() < 1e-4


def words_of(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(BytesIO(pdf)).pages)


def test_what_is_alike_is_told_from_what_is_not():
    assert_alike("N = 24 (0.00021)", "N = 24 (0.00022)")
    assert_alike("0.12345678901234e-05", "0.12345678901233e-05")
    assert_alike("made by 4e13b199bbf4", "made by 0fda6f45fda4")
    for other in ("N = 25 (0.10)", "N = 24 (0.12)", "n = 24 (0.10)", "N = 24"):
        with pytest.raises((AssertionError, ValueError)):
            assert_alike("N = 24 (0.10)", other)


def test_the_verdicts_follow_from_the_rows(tmp_path):
    run = load_run("reference", current=False)
    stored = REFERENCE / "verdicts.json"
    crossovers = json.loads(stored.read_text())["crossovers"]
    made = claims.save(tmp_path, "reference", run.verdicts, crossovers=crossovers)
    assert_alike(made.read_text(), stored.read_text())


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
    """The same rows give the same report, figures and verdicts."""
    pdf = committed("paper/report.pdf")
    project = new_project(tmp_path / "project")
    shutil.copytree(REFERENCE, project / "results/reference")
    for folder in ("paper", "notebooks", "replication"):
        shutil.rmtree(project / folder, ignore_errors=True)
        shutil.copytree(ROOT / folder, project / folder)
    shutil.copy(build.README, project)
    call(project, "render", "--profile", "reference")
    page = (project / "build/reference/report.html").read_text()
    shown = set(re.findall(r'id="((?:fig|tab|lst)-[^"]+)"', page))
    assert shown - set(re.findall(r'href="#([^"]+)"', page)) == set(), "named in the text"
    assert_alike(words_of((project / "paper/report.pdf").read_bytes()), words_of(pdf))
    assert_alike((project / "README.md").read_text(), build.README.read_text())
    name = "results/reference/verdicts.json"
    assert_alike((project / name).read_text(), (ROOT / name).read_text())
    made, known = ({path.name: path.read_bytes() for path in where.glob("figures/reference/*")}
                   for where in (project, ROOT))  # fmt: skip
    assert set(made) == set(known)
    for name in (name for name in made if name.endswith(".png")):
        assert_same_picture(made[name], known[name])


def shown(path) -> list[tuple[str, str]]:
    """What a reader sees of a notebook's outputs: their kinds and contents."""
    cells = nbformat.read(path, 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [
        (kind, output.data[kind])
        for output in outputs
        if output.output_type in ("display_data", "execute_result")
        for kind in DRAWN
        if kind in output.data
    ]


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_what_its_rows_give(name, tmp_path):
    book = notebooks.NOTEBOOKS / f"{name}.ipynb"
    weights = shutil.ignore_patterns("*.pt")  # which a clone has not
    shutil.copytree(REFERENCE, tmp_path / "reference", ignore=weights)
    parameters = {"profile": "reference", "out": str(tmp_path)}
    if "rows" in notebooks.parameters(book):
        parameters["rows"] = "saved"
    done = notebooks.run(book, parameters, tmp_path / "done.ipynb")
    made, known = shown(done), shown(book)
    assert [kind for kind, _ in made] == [kind for kind, _ in known]
    for (kind, one), (_, other) in zip(made, known, strict=True):
        if kind == "image/png":
            assert_same_picture(*map(base64.b64decode, (one, other)))
        else:
            assert_alike(one, other)
