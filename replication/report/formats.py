"""The three forms of a report: each a function of the manuscript, to its text and further files."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typst

from replication.report import pandoc
from replication.report.manuscript import PAPER, Manuscript, ReportError

TEMPLATE = PAPER / "template"

MARKDOWN = (
    "markdown+lists_without_preceding_blankline-blank_before_header-blank_before_blockquote"
    "-implicit_figures-native_divs-native_spans-yaml_metadata_block"
)
"""pandoc's Markdown, read as JupyterLab does: a list or heading needs no blank line before it."""

Files = dict[str, bytes]


def pdf(manuscript: Manuscript, beside: str) -> tuple[bytes, Files]:
    """Typst's pages, with its own fonts only, so that they are the same on every machine."""
    template = f"--template={TEMPLATE / 'article.typ'}"
    with _folder(manuscript, ".svg") as folder:
        source = folder / "article.typ"
        source.write_text(_convert(manuscript, "typst", folder, template), encoding="utf-8")
        try:
            return typst.compile(source, ignore_system_fonts=True, pdf_standards="ua-1"), {}
        except typst.TypstError as error:
            first = error.diagnostic.partition("\n\n")[0]
            raise ReportError(f"Typst cannot set the report: {first}") from error


def html(manuscript: Manuscript, beside: str) -> tuple[str, Files]:
    """One page that needs no other file and no network."""
    look = (f"--template={TEMPLATE / 'article.html'}", f"--css={TEMPLATE / 'article.css'}")
    options = ("--mathml", "--toc", "--toc-depth=2", "--embed-resources")
    with _folder(manuscript, ".svg") as folder:
        return _convert(manuscript, "html", folder, *look, *options), {}


def latex(manuscript: Manuscript, beside: str) -> tuple[str, Files]:
    """A text for XeLaTeX or LuaLaTeX; its figures lie in the folder ``beside``."""
    look = (f"--include-in-header={TEMPLATE / 'article.tex'}", "--number-sections",
            "-Vpapersize=a4", "-Vgeometry=margin=25mm", "-Vcolorlinks")  # fmt: skip
    with _folder(manuscript, ".pdf") as folder:
        text = _convert(manuscript, "latex", folder, f"--metadata=figures:{beside}", *look)
        figures = sorted(folder.glob("*.pdf"))
        return text, {f"{beside}/{figure.name}": figure.read_bytes() for figure in figures}


FORMATS = {".pdf": pdf, ".html": html, ".tex": latex}


@contextmanager
def _folder(manuscript: Manuscript, suffix: str) -> Iterator[Path]:
    """A folder for a while, with the figures in it."""
    with tempfile.TemporaryDirectory() as name:
        for file in manuscript.figures.values():
            shutil.copy(file.with_suffix(suffix), name)
        yield Path(name)


def _convert(manuscript: Manuscript, to: str, folder: Path, *options: str) -> str:
    """The manuscript in another format, by pandoc and the filters that change its tree.

    A warning is an error: pandoc warns of mathematics that it cannot read, and of works that the
    bibliography does not have.
    """
    facts = manuscript.facts | {"link-citations": True}
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    run = subprocess.run(
        [pandoc.path(), "--from", MARKDOWN, "--to", to, "--standalone", "--fail-if-warnings",
         "--metadata-file=facts.json", f"--bibliography={manuscript.bibliography}",
         "--wrap=none", "--columns=10000", *_filters("check", "number"), "--citeproc",
         *_filters(to), *options],
        input=manuscript.text, capture_output=True, text=True, encoding="utf-8", cwd=folder,
    )  # fmt: skip
    if run.returncode:
        raise ReportError(_explain(run.stderr))
    return run.stdout


def _filters(*names: str) -> list[str]:
    return [f"--lua-filter={TEMPLATE / name}.lua" for name in names]


def _explain(message: str) -> str:
    """What the filters and pandoc say, without the Lua around it."""
    message = message.partition("stack traceback:")[0]
    strange = ("Error running", "Failing because")
    lines = [line for line in message.splitlines() if line and not line.startswith(strange)]
    return "\n".join(line.removeprefix("[WARNING] ") for line in lines)
