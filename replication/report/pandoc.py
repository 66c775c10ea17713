"""From an executed notebook by way of pandoc to PDF, page and LaTeX: what it shows, not its code.

``read`` makes one Markdown text of it; ``pdf``, ``html`` and ``latex`` give that its forms.
pandoc is the one that comes with pypandoc_binary: nothing to install, one version for all. As this
file is also the command ``pandoc``, it imports next to nothing.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from replication.report import prose
from replication.store import PAPER, ROOT, StoreError

TEMPLATE = PAPER / "template"
FENCE = ":" * 8
REQUIRED = {"title", "authors"}
KNOWN = REQUIRED | {"subtitle", "keywords", "bibliography", "date"}
MARKDOWN = (
    "markdown+lists_without_preceding_blankline-blank_before_header-blank_before_blockquote"
    "-implicit_figures-native_divs-native_spans-yaml_metadata_block"
)
"""pandoc's Markdown, read as JupyterLab does: a list or heading needs no blank line before it."""


class ReportError(ValueError):
    """The notebook cannot become a report as it is; the message names every place."""


class Manuscript(NamedTuple):
    """All that pandoc needs; ``figures`` has the file of each by id, without its suffix."""

    text: str
    facts: dict
    figures: dict[str, Path]
    bibliography: Path


# What is there ----------------------------------------------------------------------------------


def read(notebook: dict, folder: Path) -> Manuscript:
    """The prose and the numbered things of an executed notebook that lies in ``folder``."""
    facts = dict(notebook.metadata.get("report", {}))
    works = facts.pop("bibliography", "references.bib")
    works = folder / works if (folder / works).exists() else PAPER / works
    shown = list(_outputs(notebook.cells))
    problems = [f"The notebook's metadata have no report.{x}" for x in sorted(REQUIRED - {*facts})]
    problems += [f"The notebook's metadata have report.{name}. Known are {', '.join(sorted(KNOWN))}"
                 for name in sorted(set(facts) - KNOWN)]  # fmt: skip
    problems += [f"cell {i} {said}" for i, out in shown for said in _problems(out)]
    problems += prose.problems(notebook)
    problems += [] if works.exists() else [f"There is no bibliography {works}."]
    if problems:
        raise ReportError("\n".join(problems))
    about = [prose.facts(output) for _, output in shown]
    figures = {fact["id"]: ROOT / fact["file"] for fact in about if fact.get("kind") == "figure"}
    return Manuscript(_text(prose.filled(notebook).cells), facts, figures, works.resolve())


def _outputs(cells: Sequence[dict]) -> Iterator[tuple[int, dict]]:
    """Every output with its cell, but for silence and what is of no use beyond JupyterLab."""
    for number, cell in enumerate(cells, 1):
        for output in cell.get("outputs", ()):
            is_silence = output.output_type == "stream" and not output.text.strip()
            if not is_silence and prose.facts(output).get("kind") not in ("caption", "prose"):
                yield number, output


def _problems(output: dict) -> Iterator[str]:
    """Why an output cannot be shown."""
    facts, data = prose.facts(output), output.get("data", {})
    if output.output_type == "stream":
        yield f"printed to {output.name}: {output.text.strip()[:200]!r}. Show Markdown."
    elif output.output_type == "error":
        yield f"failed: {output.ename}: {output.evalue}"
    elif facts.get("kind") == "figure":
        for file in (facts["file"] + suffix for suffix in (".svg", ".pdf")):
            if not (ROOT / file).exists():
                yield f"shows {facts['id']}, which has no file {file}. Execute the notebook again."
    elif "text/markdown" not in data:
        yield (
            f"shows {', '.join(data)}, which begins {data.get('text/plain', '')[:60]!r}. Show it "
            "by replication.report.show or as Markdown, or end the line with a semicolon."
        )


def _text(cells: Sequence[dict]) -> str:
    """Cells in their order: the summary in a frame, a mark where the appendix begins."""
    texts, appendix = [], _division("appendix", "")
    for part, some in groupby(enumerate(cells, 1), key=lambda item: _part(item[1])):
        text = "\n\n".join(_division("cell", _shown(cell), cell=number) for number, cell in some)
        if part == "appendix" and appendix not in texts:
            texts.append(appendix)
        texts.append(_division("summary", text) if part == "summary" else text)
    return "\n\n".join(texts) + "\n"


def _part(cell: dict) -> str:
    tags = cell.metadata.get("tags", ())
    return next((tag for tag in ("summary", "appendix") if tag in tags), "")


def _shown(cell: dict) -> str:
    """What a reader sees of a cell: its Markdown, a table with a number perhaps, or its outputs."""
    if cell.cell_type == "markdown":
        return _numbered(cell.metadata.get("report"), cell.source)
    outputs = [output for _, output in _outputs([cell])]
    texts = [_numbered(prose.facts(out), out.data.get("text/markdown", "")) for out in outputs]
    return "\n\n".join(texts)


def _numbered(facts: dict | None, text: str) -> str:
    """As it is, or with the number and the caption that the facts ask for."""
    if not facts:
        return text
    parts = [_division("caption", facts["caption"]), _division("alt", facts.get("alt", "")), text]
    width = {"width": f"{facts['width_in']}in"} if "width_in" in facts else {}
    return _division(f"float .{facts['kind']} #{facts['id']}", "\n\n".join(parts), **width)


def _division(classes: str, text: str, **attributes: object) -> str:
    """A part of the text with a name, which pandoc keeps as a Div."""
    more = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"{FENCE} {{.{classes}{more}}}\n{text}\n\n{FENCE}"


# What becomes of it -------------------------------------------------------------------------------


def pdf(manuscript: Manuscript) -> bytes:
    """Typst's pages, with its own fonts only, so that they are the same on every machine."""
    import typst

    template = f"--template={TEMPLATE / 'article.typ'}"
    with _folder(manuscript, ".svg") as folder:
        source = folder / "article.typ"
        source.write_text(_convert(manuscript, "typst", folder, template), encoding="utf-8")
        try:
            return typst.compile(source, ignore_system_fonts=True, pdf_standards="ua-1")
        except typst.TypstError as error:
            first = error.diagnostic.partition("\n\n")[0]
            raise ReportError(f"Typst cannot set the report: {first}") from error


LOOK = (f"--template={TEMPLATE / 'article.html'}", f"--css={TEMPLATE / 'article.css'}")
ALONE = ("--mathml", "--toc", "--toc-depth=2", "--embed-resources", *LOOK)


def html(manuscript: Manuscript) -> str:
    """One page that needs no other file and no network."""
    with _folder(manuscript, ".svg") as folder:
        return _convert(manuscript, "html", folder, *ALONE)


def page(text: str, title: str) -> str:
    """The same of Markdown that is no report: nothing is numbered or looked up."""
    return _run(text, None, "--to", "html", f"--metadata=title:{title}", *ALONE)


def latex(manuscript: Manuscript, beside: str) -> tuple[str, dict[str, bytes]]:
    """A text for XeLaTeX or LuaLaTeX, and its figures, which lie in the folder ``beside``."""
    look = (f"--include-in-header={TEMPLATE / 'article.tex'}", "--number-sections",
            "-Vpapersize=a4", "-Vgeometry=margin=25mm", "-Vcolorlinks")  # fmt: skip
    with _folder(manuscript, ".pdf") as folder:
        text = _convert(manuscript, "latex", folder, f"--metadata=figures:{beside}", *look)
        figures = sorted(folder.glob("*.pdf"))
        return text, {f"{beside}/{figure.name}": figure.read_bytes() for figure in figures}


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
    bibliography does not have. What it says is told without the Lua around it.
    """
    facts = manuscript.facts | {"link-citations": True}
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    check, number, form = (f"--lua-filter={TEMPLATE / x}.lua" for x in ("check", "number", to))
    return _run(manuscript.text, folder, "--to", to, "--metadata-file=facts.json",
                f"--bibliography={manuscript.bibliography}", "--columns=10000", check, number,
                "--citeproc", form, *options)  # fmt: skip


def _run(text: str, folder: Path | None, *options: str) -> str:
    command = [path(), "--from", MARKDOWN, "--standalone", "--fail-if-warnings", "--wrap=none"]
    run = subprocess.run([*command, *options], input=text, capture_output=True, text=True,
                         encoding="utf-8", cwd=folder)  # fmt: skip
    if run.returncode:
        lines = run.stderr.partition("stack traceback:")[0].splitlines()
        strange = ("Error running", "Failing because")
        said = [line for line in lines if line and not line.startswith(strange)]
        raise ReportError("\n".join(line.removeprefix("[WARNING] ") for line in said))
    return run.stdout


def path() -> str:
    """The program inside the package, whatever other pandoc there may be."""
    package = find_spec("pypandoc")
    found = package and shutil.which("pandoc", path=Path(package.origin).parent / "files")
    if not found:
        raise StoreError("pypandoc_binary has lost its pandoc. Call make setup: it repairs .venv.")
    return found


def main() -> None:
    """The command ``pandoc`` of this environment, so that nbconvert's ``--to latex`` finds it."""
    os.execv(path(), ["pandoc", *sys.argv[1:]])
