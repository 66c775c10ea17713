"""A notebook with all that a report may hold, and the ways in which it may go wrong."""

import copy
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from replication.workflow import notebooks

FACTS = {
    "title": 'On the *Title* with "Quotes" & Signs',
    "subtitle": "And a line below",
    "authors": [{"name": "Łucja O'Neill", "affiliation": "An Institute"}, {"name": 'A. "B" C'}],
    "keywords": ["edge cases", "type_setting"],
    "bibliography": "references.bib",
}

SETUP = """
from functools import partial
from pathlib import Path
import matplotlib.pyplot as plt
import pandas as pd
from replication.report import prose, show

never_to_be_seen = 6 * 7
"""

SUMMARY = "**Scope.** Two claims of @katharopoulos2020transformers; see [Table](#tab-verdicts)."

VERDICTS = """
frame = pd.DataFrame({"Claim": ["$N \\\\le 2^{16}$", "two\\nlines", "a | b, $|x|$"],
                      "Value": [1234.5, -0.00012345, 0.5], "Verdict": ["**yes**", "–", "*no*"]})
show.table(frame, "tab-verdicts", "What became of *both* claims.")
"""

MATHEMATICS = r"""
# Mathematics {#sec-maths}

By [Equation](#eq-6) and [Eq.](#eq-7a), after $O(N \max(D, M))$ steps, $\operatorname{elu}(x) + 1$,
$\inf_x f$, $1{,}024$ and $\|x\| \le |y|$ at infinity:

$$
\begin{aligned}
V'_i &= \frac{\phi(Q_i)^\top \sum_{j=1}^{N} \phi(K_j) V_j^\top}{\phi(Q_i)^\top Z} \\
     &= \operatorname*{arg\,max}_{x} f(x)\!\; \odot \begin{pmatrix} 1&2\\&4 \end{pmatrix}
\end{aligned}
\tag{6}
$$

$$\phi(x) = \begin{cases} x + 1, & x > 0 \\ e^x, & \text{otherwise} \end{cases} \tag{7a}$$

$$
\begin{vmatrix} a & b \\ c & d \end{vmatrix} + \begin{Vmatrix} e \end{Vmatrix}
+ \begin{bmatrix} f & g \end{bmatrix}
= \Bigl(\sum_{i} \left\lVert \frac{x_i}{y} \right\rVert\Bigr)^2 \cap \langle u, v \rangle
$$

## A part of it

Signs: ≤ ≥ ± × − – … é ß Ł ϕ → ∞. `nan` is code, *nanoseconds* are none, and 50 % is said so.
- a list without a blank line before it
- [the section above](#sec-maths) is a plain link, <https://arxiv.org/> one into the web
"""

VALUES = """
The computed value is {{ never_to_be_seen }}, as [Section](#sec-maths) and [Figure](#fig-line),
[Listing](#lst-double), [Table](#tab-wide), [Appendix](#sec-more) and
[Figure](#fig-more) say [@do2022replication, Sec. 4; @efron1979bootstrap].
{% if never_to_be_seen < 0 %}It is negative.{% endif %}
"""

TYPED = "| Typed | Filled |\n| :-- | --: |\n| a row | {{ 2 * never_to_be_seen }} |"
"""A table that a Markdown cell holds."""

FIGURE = """
def rising(width):
    fig, ax = plt.subplots(figsize=(width, 2))
    ax.plot([1, 2, 4])
    return fig

show.figure(partial(rising, {width}), "{id}", "A line with $N$ points.",
            "A line that rises, \\"ever\\" steeper.", Path(folder))
"""

LISTING = f'''
def double(x):
    """Twice x: ``2 x``, $not$ *Markdown*."""
    return 2 * x  # and so it goes{" on and on" * 20} to the end

show.listing(double, "lst-double", "The function `double`.")
'''

WIDE = """
words = "a cell with rather many words in it"
frame = pd.DataFrame({f"column number {i}": [words if i % 3 else i / 7] for i in range(8)})
show.table(frame, "tab-wide", "A table that is wider than the page.")
"""

LONG = """
frame = pd.DataFrame({"n": range(90), "square": [n * n for n in range(90)]})
show.table(frame, "tab-long", "A table that is longer than the page.")
"""


def notebook() -> nbformat.NotebookNode:
    """The whole of it, not executed."""
    cells = [
        new_code_cell('folder: str = ""', metadata={"tags": ["parameters"]}),
        new_code_cell(SETUP),
        new_markdown_cell(SUMMARY, metadata={"tags": ["summary"]}),
        new_code_cell(VERDICTS, metadata={"tags": ["summary"]}),
        new_markdown_cell(MATHEMATICS),
        new_markdown_cell("# Things"),
        new_markdown_cell(VALUES),
        new_code_cell(FIGURE.format(width=6.3, id="fig-line")),
        *(new_code_cell(source) for source in (LISTING, WIDE)),
        new_markdown_cell("# Thanks {.unnumbered}\n\nTo all.^[And to more.]"),
        new_markdown_cell("# Supplementary things {#sec-more}", metadata={"tags": ["appendix"]}),
        new_code_cell(FIGURE.format(width=3, id="fig-more")),
        new_code_cell(LONG),
        new_markdown_cell(TYPED, metadata={"report": numbered("tab-typed", "A table as typed.")}),
        new_code_cell('prose.fill("case.ipynb", globals())'),
    ]
    return new_notebook(
        cells=cells, metadata={"report": FACTS, "language_info": {"name": "python"}}
    )


def numbered(id: str, caption: str) -> dict:
    return {"kind": "table", "id": id, "caption": caption}


def short(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A part of it: a figure, equations, and a heading without a number."""
    kept, part = (
        ("folder:", "import", "# Mathematics", '"fig-line"', "# Thanks"),
        copy.deepcopy(book),
    )
    part.cells = [cell for cell in part.cells if any(words in cell.source for words in kept)]
    return part


def executed(book: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """The notebook after its cells really ran; its figures are in ``folder``."""
    nbformat.write(book, folder / "case.ipynb")
    done = notebooks.run(folder / "case.ipynb", {"folder": str(folder)}, folder / "done.ipynb")
    return nbformat.read(done, 4)


def markdown(text: str):
    """A change of a notebook: one more cell of Markdown."""
    return lambda book: book.cells.append(new_markdown_cell(text))


def output(**facts):
    """A change of a notebook: one more cell with an output."""
    return lambda book: book.cells.append(new_code_cell(outputs=[nbformat.v4.new_output(**facts)]))


def first_figure(book) -> nbformat.NotebookNode:
    shown = [out for cell in book.cells for out in cell.get("outputs", ())]
    return next(out for out in shown if "image/png" in out.data).metadata.report


WRONG = {
    "a reference to nowhere": (
        markdown("[Figure](#fig-none)"),
        "[Figure](#fig-none) points nowhere",
    ),
    "a word that does not fit": (
        markdown("[Table](#fig-line)"),
        "[Table](#fig-line) points at a figure",
    ),
    "a number of what has none": (markdown("[Section](#thanks)"), "points at what has no number"),
    "an id twice": (markdown("# Again {#fig-line}"), "the id fig-line is there twice"),
    "a tag twice": (markdown(r"$$x \tag{6}$$"), "the id eq-6 is there twice"),
    "two tags in one": (markdown(r"$$x \tag{8} y \tag{9}$$"), r"one \tag belongs to one displayed"),
    "an unknown work": (markdown("[@nobody1999nothing]"), "nobody1999nothing"),
    "nan": (markdown("It takes nan ms."), '"nan" in "It takes nan ms."'),
    "inf in brackets": (markdown("(±inf)"), '"inf"'),
    "nan in mathematics": (markdown("$x = nan$"), '"nan"'),
    "nan in a table": (markdown("|a|b|\n|-|-|\n|1|nan|"), '"nan"'),
    "None": (markdown("The device is None."), '"None"'),
    "a question": (markdown("See Figure ??."), '"??"'),
    "align without dollars": (
        markdown("\\begin{align}\nx &= y\n\\end{align}"),
        "raw tex would be lost",
    ),
    "align between dollars": (markdown("$$\\begin{align} x \\end{align}$$"), "environment align"),
    "an array": (markdown("$$\\begin{array}{l} x \\end{array}$$"), "environment array"),
    "a label": (markdown(r"$$x \label{eq:x}$$"), r"\label in"),
    "a TeX reference": (markdown(r"see \eqref{eq:x}"), "[Equation](#eq-6)"),
    "a colour": (markdown(r"$\color{red} x$"), r"\color in"),
    "a macro that pandoc does not know": (markdown(r"$\hphantom{x}$"), r"\hphantom{x}"),
    "HTML": (markdown('a <span style="color:red">red</span> word'), "raw html would be lost"),
    "a picture": (markdown("![](there.png)"), "there.png needs a number"),
    "a print": (
        output(output_type="stream", name="stdout", text="hello"),
        "printed to stdout: 'hello'",
    ),
    "a warning": (
        output(output_type="stream", name="stderr", text="uh"),
        "printed to stderr: 'uh'",
    ),
    "a bare value": (
        output(output_type="execute_result", data={"text/plain": "42"}),
        "shows text/plain",
    ),
    "a failed cell": (
        output(output_type="error", ename="KeyError", evalue="'N'"),
        "failed: KeyError: 'N'",
    ),
    "a lost figure": (
        lambda book: first_figure(book).update(file="figures/gone"),
        "no file figures/gone.svg",
    ),
    "no alternative text": (
        lambda book: first_figure(book).update(alt=""),
        "has no alternative text",
    ),
    "a value that no cell fills": (
        markdown("It takes {{ whole(N) }} ms."),
        "asks for {{ whole(N) }}, and no cell fills it",
    ),
    "no title": (lambda book: book.metadata.report.pop("title"), "no report.title"),
    "a strange fact": (lambda book: book.metadata.report.update(titel=1), "report.titel"),
    "no bibliography": (
        lambda book: book.metadata.report.update(bibliography="gone.bib"),
        "There is no bibliography",
    ),
}
"""What is done to a good notebook, and the words of the error that must follow."""
