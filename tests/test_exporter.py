"""An executed notebook becomes a PDF, a page and LaTeX, with the same numbers in all three."""

import io
import re
import subprocess
from html.parser import HTMLParser

import nbformat
import pypdf
import pytest

from replication.report import pandoc
from replication.report.exporter import HTMLExporter, LatexExporter, PDFExporter

NUMBERS = ["Table 1", "Equation (6)", "Eq. (7a)", "Section 1", "Figure 1", "Listing 1"]
NUMBERS += ["Table 2", "Appendix A", "Figure S1"]
"""The references of the notebook in their order."""

TYPST_FONTS = {"NewCM10", "NewCMMath", "LibertinusSerif", "DejaVuSansMono"}


@pytest.fixture(scope="module")
def pdf(book):
    return PDFExporter().from_notebook_node(book)[0]


@pytest.fixture(scope="module")
def reader(pdf):
    return pypdf.PdfReader(io.BytesIO(pdf))


@pytest.fixture(scope="module")
def text(reader):
    return flat("\n".join(page.extract_text() for page in reader.pages))


@pytest.fixture(scope="module")
def page(book):
    return HTMLExporter().from_notebook_node(book)[0]


@pytest.fixture(scope="module")
def tex(book):
    return LatexExporter().from_notebook_node(book)


def flat(text: str) -> str:
    """Without line breaks and the hyphens before them."""
    return re.sub(r"\s+", " ", text.replace("\u00ad", "").replace("-\n", ""))


# PDF ---------------------------------------------------------------------------------------


def test_pdf_shows_outputs_and_no_code(text):
    assert "The computed value is 42" in text
    assert "It is negative" not in text
    assert "never_to_be_seen" not in text
    assert "Signs: ≤ ≥ ± × − – … é ß Ł ϕ → ∞" in text


def test_pdf_numbers_what_is_referred_to(text):
    for words in ("Figure 1. A line", "Figure S1. A line", "Table S1. A table", "Table 1. What",
                  "Table S2. A table as typed. Typed Filled a row 84"):  # fmt: skip
        assert words in text
    assert "as Section 1 and Figure 1, Listing 1, Table 2, Appendix A and Figure S1" in text


def test_pdf_cites_and_lists_works(text):
    assert "(Do and Bergner 2022, sec. 4; Efron 1979)" in text
    assert "References" in text
    assert text.count("Bootstrap Methods: Another Look at the Jackknife") == 1


def test_pdf_sets_tables_as_written(text):
    assert "1,234" in text
    assert "−" in text
    assert "**" not in text
    assert "<br>" not in text


def test_wide_tables_stay_within_the_margins(reader):
    margin, starts = 25 / 25.4 * 72, []
    for page in reader.pages:
        page.extract_text(visitor_text=lambda t, cm, tm, *_: starts.append((tm[4] + cm[4], t)))
    outside = [t for x, t in starts if t.strip() and not margin - 8 < x < 595.3 - margin]
    assert outside == []


def test_long_tables_go_on_on_the_next_page_with_their_head(reader):
    pages = [page.extract_text() for page in reader.pages]
    assert sum("square" in page for page in pages) >= 2
    assert "7921" in flat(pages[-1])


def test_pdf_knows_its_title_authors_and_keywords(reader):
    assert reader.metadata.title == 'On the Title with "Quotes" & Signs'
    assert reader.metadata.author == "Łucja O\u2019Neill, A. “B” C"
    assert reader.metadata["/Keywords"] == "edge cases, type_setting"
    assert reader.trailer["/Root"]["/Lang"].startswith("en")
    assert "/CreationDate" not in reader.metadata


def test_pdf_has_bookmarks(reader):
    def titles(items):
        return [titles(item) if isinstance(item, list) else item.title for item in items]

    assert titles(reader.outline) == [
        "Reproducibility summary", "1 Mathematics", ["1.1 A part of it"], "2 Things", "Thanks",
        "References", "A Supplementary things",
    ]  # fmt: skip


def test_pdf_speaks_to_those_who_cannot_see_it(reader):
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert b"pdfuaid:part" in root["/Metadata"].get_data()
    told = set(alternatives(root["/StructTreeRoot"]))
    assert "A line that rises, “ever” steeper." in told
    assert any(r"\phi(Q_i)^\top" in words for words in told)


def alternatives(node):
    """Every alternative text in the tree of a tagged PDF."""
    node = node.get_object()
    if not isinstance(node, dict):
        return
    if "/Alt" in node:
        yield node["/Alt"]
    kids = node.get("/K", [])
    for kid in kids if isinstance(kids, list) else [kids]:
        yield from alternatives(kid)


def test_pages_are_a4_and_fonts_are_those_of_typst(reader):
    assert {tuple(round(x) for x in page.mediabox[2:]) for page in reader.pages} == {(595, 842)}
    fonts = {
        font.get_object()["/BaseFont"].split("+")[1]
        for page in reader.pages
        for font in page["/Resources"].get("/Font", {}).values()
    }
    assert {name.split("-")[0] for name in fonts} <= TYPST_FONTS


def test_same_notebook_gives_same_bytes(book, pdf):
    assert PDFExporter().from_notebook_node(book)[0] == pdf


MENDED = {
    r"a\!b": "a #h(-0.1667em) b",
    r"a\;b": "a thick b",
    r"\operatorname{elu}(x)": 'op("elu") \\( x \\)',
    r"\operatorname*{arg\,max}_x f": 'op("arg\u2006max", limits: #true)_x f',
    r"1{,}024": '1","024',
    r"|x|": 'class("normal", |) x class("normal", |)',
    r"\|x\|": 'class("normal", ‖) x class("normal", ‖)',
    r"\left\| x \right\|": "norm(x)",
    r"\Bigl( x": r"stretch(\(, size: #1.8em) x",
    r"\begin{vmatrix} 1 \end{vmatrix}": 'mat(delim: "|", 1)',
    r"\begin{Vmatrix} 1 \end{Vmatrix}": 'mat(delim: "‖", 1)',
    r"a \odot b \cap c": "a dot.o b inter c",
}
"""TeX that pandoc alone would render otherwise, and the Typst that it becomes."""


def test_mathematics_is_mended_for_typst():
    text = "---\nauthors: [{name: A}]\n---\n\n" + "\n\n".join(f"${tex}$" for tex in MENDED)
    filters = ["-f", "markdown", "-t", "typst", "--lua-filter", pandoc.TEMPLATE / "typst.lua"]
    command = [pandoc.path(), *filters, "--wrap=none"]
    run = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    shown = [re.search(r"\$(.*)\$", line)[1] for line in run.stdout.splitlines() if line]
    assert shown == list(MENDED.values())


def test_title_and_authors_are_enough():
    bare = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A\n\nText.")])
    bare.metadata.report = {"title": "Bare", "authors": [{"name": "One"}]}
    pages = pypdf.PdfReader(io.BytesIO(PDFExporter().from_notebook_node(bare)[0])).pages
    assert flat(pages[0].extract_text()).startswith("Bare One 1 A Text.")
    for exporter in (HTMLExporter, LatexExporter):
        assert "Bare" in exporter().from_notebook_node(bare)[0]


# HTML ---------------------------------------------------------------------------------------


class Reader(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.references, self.inside = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag == "a" and "reference" in (dict(attributes).get("class") or "")
        if self.inside:
            self.references.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.references[-1] += data.replace("\u00a0", " ")


def test_page_needs_no_network(page):
    tags = Reader(page).tags
    sources = [facts.get("src") or facts.get("href") for tag, facts in tags if tag != "a"]
    assert [source for source in sources if source and not source.startswith("data:")] == []
    assert not re.search(r"url\(\s*['\"]?https?:|@import", page)
    assert [tag for tag, _ in tags if tag == "script"] == []


def test_page_has_mathematics_and_alternative_texts(page):
    tags = Reader(page).tags
    assert sum(tag == "math" for tag, _ in tags) > 10
    images = [facts for tag, facts in tags if tag == "img"]
    assert [image["alt"] for image in images] == ["A line that rises, “ever” steeper."] * 2
    assert all(image["src"].startswith("data:image/svg+xml") for image in images)


def test_page_has_the_numbers_of_the_pdf(page):
    found = Reader(page)
    assert found.references == NUMBERS
    ids = {facts.get("id") for _, facts in found.tags}
    targets = {
        facts["href"][1:] for tag, facts in found.tags if tag == "a" and facts["href"][0] == "#"
    }
    assert targets <= ids
    assert "<h1" in page
    assert re.search(r'id="sec-more">\s*<span class="number">A</span>', page)


# LaTeX ---------------------------------------------------------------------------------------


def test_latex_has_labels_and_refers_to_them(tex):
    text, _ = tex
    labels = set(re.findall(r"\\label\{([^}]+)\}", text))
    referred = set(re.findall(r"\\ref\*\{([^}]+)\}", text))
    assert referred == {"tab-verdicts", "eq-6", "eq-7a", "sec-maths", "fig-line", "lst-double",
                        "tab-wide", "sec-more", "fig-more"}  # fmt: skip
    assert referred <= labels
    assert text.index(r"\supplement") < text.index(r"\label{sec-more}")
    assert text.index("\\FloatBarrier\n") < text.index("{References}")
    assert r"\tag{7a}" in text


def test_latex_comes_with_its_figures(tex):
    text, resources = tex
    assert set(resources["outputs"]) == set(re.findall(r"\{(report_files/[\w-]+\.pdf)\}", text))
    assert all(content.startswith(b"%PDF") for content in resources["outputs"].values())
