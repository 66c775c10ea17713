"""What has no place in a report stops its building; and the commands that build one."""

import copy
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import get_exporter
from report_cases import FACTS, WRONG, markdown, short

from replication.report import build, pandoc
from replication.report.exporter import HTMLExporter, LatexExporter, PDFExporter
from replication.report.pandoc import ReportError
from replication.report.run import lacking
from replication.store import RESULTS, StoreError


@pytest.fixture(scope="module")
def part(book):
    return short(book)


def test_the_notebook_before_it_is_spoilt_is_in_order(part):
    assert "<h1" in HTMLExporter().from_notebook_node(part)[0]


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_stops_the_build_and_is_named(part, kind):
    change, words = WRONG[kind]
    bad = copy.deepcopy(part)
    change(bad)
    with pytest.raises(ReportError, match=re.escape(words)):
        HTMLExporter().from_notebook_node(bad)


def test_rows_that_are_missing_beside_others_are_told(tmp_path):
    shutil.copytree(RESULTS / "reference" / "decoding", tmp_path / "decoding")
    assert lacking("reference", tmp_path) == ""
    tables = sorted(tmp_path.glob("decoding/*.csv"))
    tables[0].unlink()
    assert lacking("reference", tmp_path) == f"decoding 1 of {len(tables)}"


def test_an_error_names_the_cell_and_every_other_one(part):
    bad = copy.deepcopy(part)
    for text in ("It takes nan ms.", "a <b>word</b>", "It takes inf ms."):
        markdown(text)(bad)
    last = len(bad.cells)
    with pytest.raises(ReportError) as error:
        PDFExporter().from_notebook_node(bad)
    assert re.findall(r"^cell (\d+):", str(error.value), re.M) == [
        str(number) for number in (last - 2, last - 1, last - 1, last)
    ]


def test_a_sign_that_no_font_has_stops_the_pdf(part):
    bad = copy.deepcopy(part)
    markdown("A sign: 漢.")(bad)
    with pytest.raises(ReportError, match="漢"):
        PDFExporter().from_notebook_node(bad)


# The commands ---------------------------------------------------------------------------------


def test_nbconvert_knows_the_exporters():
    names = {point.name for point in entry_points(group="nbconvert.exporters")}
    assert {"replication_pdf", "replication_html", "replication_latex"} <= names
    assert get_exporter("replication_latex") is LatexExporter


def test_the_exporters_are_imported_without_their_tools():
    heavy = "{'torch', 'pandas', 'matplotlib', 'typst', 'pypandoc'}"
    code = f"import replication.report.exporter, sys; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_pandoc_is_the_one_of_the_package():
    run = subprocess.run([pandoc.path(), "--version"], capture_output=True, text=True)
    assert run.stdout.startswith("pandoc 3.9")
    assert "pypandoc" in pandoc.path()


def nbconvert(folder, to, book, **variables):
    nbformat.write(book, folder / "report.ipynb")
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", to, "report.ipynb"]
    run = subprocess.run(
        command, cwd=folder, env=os.environ | variables, text=True, capture_output=True
    )
    assert run.returncode == 0, run.stderr


def test_nbconvert_writes_the_report(part, tmp_path):
    nbconvert(tmp_path, "replication_pdf", part)
    assert (tmp_path / "report.pdf").read_bytes() == PDFExporter().from_notebook_node(part)[0]


def test_nbconvert_s_own_latex_finds_pandoc_where_the_environment_is_active(part, tmp_path):
    nbconvert(tmp_path, "latex", part, PATH=str(Path(sys.executable).parent))
    assert r"\begin{document}" in (tmp_path / "report.tex").read_text()


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """A folder in which reports of one's own are built."""
    monkeypatch.setattr(build, "NOTEBOOK", tmp_path / "report.ipynb")
    monkeypatch.setattr(build, "BUILD", tmp_path / "build")

    def write(text):
        cells = [
            nbformat.v4.new_code_cell('profile = ""', metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell("from replication.report import prose"),
            nbformat.v4.new_markdown_cell(text),
            nbformat.v4.new_code_cell('prose.fill("report.ipynb", globals())'),
        ]
        facts = {"report": FACTS, "language_info": {"name": "python"}}
        book = nbformat.v4.new_notebook(cells=cells, metadata=facts)
        nbformat.write(book, tmp_path / "report.ipynb")
        return tmp_path

    return write


def test_build_writes_pdf_and_page_of_a_profile(workshop):
    folder = workshop("Profile {{ profile }}.") / "build" / "smoke"
    build.build("smoke")
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF-1.7")
    assert "Profile smoke." in (folder / "report.html").read_text()
    shown = nbformat.read(folder / "report.ipynb", 4)
    assert "Profile smoke." in [cell.source for cell in shown.cells]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("It takes nan ms.", ReportError, '"nan" in "It takes nan ms."'),
        ("It takes {{ time }} ms.", StoreError, "cell 3: {{ time }}: 'time' is undefined"),
    ],
)
def test_build_leaves_an_earlier_report_when_it_fails(workshop, text, error, said):
    folder = workshop(text) / "build" / "smoke"
    folder.mkdir(parents=True)
    (folder / "report.pdf").write_bytes(b"earlier")
    with pytest.raises(error, match=re.escape(said)):
        build.build("smoke")
    assert (folder / "report.pdf").read_bytes() == b"earlier"
