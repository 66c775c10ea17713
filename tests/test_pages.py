"""Where things stand on a page: nothing is torn, cut off, or behind what should follow it."""

import io
import re
import shutil
from pathlib import Path

import nbformat
import pypdf
import pytest
from matplotlib.figure import Figure
from test_exporter import flat

from replication.report import pages
from replication.report.exporter import HTMLExporter, PDFExporter
from replication.workflow.notebooks import NOTEBOOKS


def bare(*cells) -> nbformat.NotebookNode:
    """A notebook of these cells with a title and an author."""
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata.report = {"title": "Bare", "authors": [{"name": "One"}]}
    return book


def prose(text: str, *tags: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(text, metadata={"tags": tags})


def shown(kind: str, data: dict, **more: object) -> nbformat.NotebookNode:
    """A cell with an output as replication.report.show makes it."""
    facts = {"kind": kind, "id": f"{kind[:3]}-x", "caption": f"A {kind} for all."} | more
    output = nbformat.v4.new_output("display_data", data, metadata={"report": facts})
    return nbformat.v4.new_code_cell(outputs=[output])


def table(rows: int) -> nbformat.NotebookNode:
    """Fourteen lines a row, the first and the last with its number."""
    lines = [f"| first{i}<br>{'more<br>' * 12}last{i} |" for i in range(rows)]
    return shown("table", {"text/markdown": "\n".join(["| a |", "|---|", *lines])})


def figure(folder: Path, id: str = "fig-x", height: float = 3) -> nbformat.NotebookNode:
    fig = Figure(figsize=(6, height))
    for suffix in ("svg", "pdf"):
        fig.savefig(folder / f"{id}.{suffix}")
    more = {"id": id, "alt": "Nothing.", "file": f"{folder}/{id}", "width_in": 6}
    return shown("figure", {"image/png": ""}, **more)


def pdf_pages(*cells) -> list[str]:
    pdf = PDFExporter().from_notebook_node(bare(*cells))[0]
    return [flat(page.extract_text()) for page in pypdf.PdfReader(io.BytesIO(pdf)).pages]


def test_rows_of_tables_do_not_break_nor_leave_their_caption():
    found = pdf_pages(prose("Text. " * 680), table(8))  # room for a caption and half a row
    page_of = {i: next(text for text in found if f"first{i} " in text) for i in range(8)}
    assert len(set(page_of.values())) > 1
    assert all(f"last{i}" in page for i, page in page_of.items())
    assert "A table for all." in page_of[0]


@pytest.mark.parametrize(("height", "beside"), [(4.1, False), (3.2, True)])
def test_no_two_lines_are_lost_on_a_page_of_figures(height, beside, tmp_path):
    both = [figure(tmp_path, id, height) for id in ("fig-x", "fig-y")]
    _, page, *rest = pdf_pages(prose("Text. " * 600), *both, prose("More. " * 900))
    assert page.count("A figure for all.") == 2
    assert ("More." in page or "Text." in page) == beside
    assert "More." in rest[0]


def test_in_the_appendix_text_fills_the_page_before_a_figure(tmp_path):
    cells = prose("# More", "appendix"), prose("Text. " * 500), figure(tmp_path, height=4)
    first, second = pdf_pages(*cells, prose("Then. " * 40))
    assert "Then." in first
    assert "A figure for all." in second


@pytest.mark.parametrize("kind", ["figure", "table"])
def test_what_is_shown_stands_between_the_title_and_the_references(kind, tmp_path):
    cell = figure(tmp_path) if kind == "figure" else table(2)
    (page,) = pdf_pages(prose("Text. " * 100), cell)
    places = [page.index(words) for words in ("Bare One", f"A {kind} for all", "References")]
    assert places == sorted(places)


def test_the_appendix_needs_no_page_of_its_own():
    (page,) = pdf_pages(prose("# A\n\nText."), prose("# More", "appendix"))
    assert page.index("References") < page.index("A More")


def test_an_apostrophe_after_a_digit_is_no_prime():
    assert "C1\u2019s rule in the 1990\u2019s" in pdf_pages(prose("C1's rule in the 1990's"))[0]


def test_lines_do_not_end_between_a_number_and_its_sign():
    text = "at 95 %, N =\n64, 2.5 × or $M$ = 2; a % b"
    page, _ = HTMLExporter().from_notebook_node(bare(prose(text)))
    assert "95\u00a0%, N\u00a0=\u00a064, 2.5\u00a0× or" in page
    assert "</math>\u00a0=\u00a02; a % b" in page


# Pages of notebooks -------------------------------------------------------------------------

BOOKS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_the_page_of_a_notebook_stands_alone_and_leads_somewhere(book, tmp_path):
    shutil.copy(book, tmp_path)
    page = pages.write(tmp_path / book.name).read_text()
    assert re.search(r"<title>\s*[A-Z]", page)
    assert not re.search(r'<script|@import|url\(|(src|<link[^>]* href)="(?!data:)', page)
    assert "<details><summary>Code</summary>" in page
    pictures = re.findall(r"<img[^>]*>", page)
    assert all(re.search(r'alt="[^"]{20}', picture) for picture in pictures)
    prose = re.sub(r"(?s)<(pre|style|annotation).*?</\1>", "", page)
    assert not re.search(r"\$[^$<]*\\|\\(tag|begin)\{", prose), "TeX that nobody has set"
    known = {f"{other.stem}.html" for other in BOOKS}
    for link in set(re.findall(r'<a href="(?!\w+:|#)([^"#]+)', prose)):
        assert link in known or (tmp_path / link).resolve().exists(), link


def test_equations_of_a_page_keep_their_numbers():
    book = {"cells": [{"cell_type": "markdown", "source": ["# T\n", r"$$x^2 \tag{12}$$"]}]}
    page = pages.page_of(book, Path())
    assert '<math display="block"' in page
    assert "(12)" in re.sub(r"(?s)<annotation.*?</annotation>", "", page)


def test_the_first_heading_is_the_title_and_no_other_is_lost():
    cell = {"cell_type": "markdown", "source": ["# First\n", "\n", "text\n", "\n", "## Second\n"]}
    page = pages.page_of({"cells": [cell]}, Path())
    assert re.search(r"<title>\s*First\s*</title>", page)
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == ["Second"]


def test_code_on_a_page_is_as_it_stands():
    code, output = "x = formula[form](n)", {"data": {"text/html": "<td>[a](b)</td>"}}
    prose = ["# T\n", "[one](01_a.ipynb#x), `f[g](h)`, ``a`[g](h)``\n\n", "~~~\nf[g](i)\n~~~\n\n",
             "one ` tick, [two](02_b.ipynb)"]  # fmt: skip
    cell = {"cell_type": "code", "source": [code], "metadata": {}, "outputs": [output]}
    book = {"cells": [{"cell_type": "markdown", "source": prose}, cell]}
    page = re.sub(r"<(?!a|td)[^>]*>", "", pages.page_of(book, Path()).partition("</head>")[2])
    for text in (code, "[a](b)", "f[g](h)", "a`[g](h)", "f[g](i)", 'href="01_a.html#x"',
                 'href="02_b.html"'):  # fmt: skip
        assert text in page


def test_a_progress_bar_that_stood_still_is_not_shown():
    bar = {"data": {"text/plain": "0%|  | 0/6", pages.LIVE: {"model_id": "x"}}}
    cell = {"cell_type": "code", "source": ["run()"], "metadata": {}, "outputs": [bar]}
    assert "0/6" not in pages.page_of({"cells": [cell]}, Path())
    del bar["data"][pages.LIVE]
    assert "0/6" in pages.page_of({"cells": [cell]}, Path())


def test_an_index_names_and_links_all_pages(tmp_path):
    (tmp_path / "01_a.html").write_text("<title>Sums &amp; more</title>")
    (tmp_path / "report.html").write_text("<title>The report</title>")
    (tmp_path / "images.html").write_text("<title>Images</title>")
    (tmp_path / "report.pdf").touch()
    page = pages.write_index(tmp_path, "All of it", "| | x |\n|-|-|\n| C1 | yes |").read_text()
    assert page.index("report.html") < page.index("01_a.html") < page.index("<td>C1")
    assert re.search(r'<a href="01_a.html">Sums\s+&amp;\s+more</a>', page)
    assert '<a href="report.pdf">PDF</a>' in page
    assert '<a href="images.html">Images</a>' in page
    assert "index.html" not in pages.write_index(tmp_path, "All of it").read_text()
