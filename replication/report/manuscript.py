"""From an executed notebook to one Markdown text for pandoc: what it shows, not its code."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from replication.results import ROOT

PAPER = ROOT / "paper"
FENCE = ":" * 8
REQUIRED = {"title", "authors"}
OPTIONAL = {"subtitle", "keywords", "bibliography", "date"}


class ReportError(ValueError):
    """The notebook cannot become a report as it is; the message names every place."""


class Manuscript(NamedTuple):
    """All that pandoc needs."""

    text: str
    facts: dict
    figures: dict[str, Path]
    """By id, the file of each figure without its suffix."""
    bibliography: Path


def read(notebook: NotebookNode, folder: Path) -> Manuscript:
    """The prose and the numbered things of a notebook that lies in ``folder``."""
    facts = dict(notebook.metadata.get("report", {}))
    bibliography = _find(facts.pop("bibliography", "references.bib"), folder)
    problems = [*_metadata_problems(facts), *_output_problems(notebook)]
    if not bibliography.exists():
        problems.append(f"There is no bibliography {bibliography}.")
    if problems:
        raise ReportError("\n".join(problems))
    shown = [_facts(output) for _, output in _outputs(notebook)]
    figures = {fact["id"]: ROOT / fact["file"] for fact in shown if fact.get("kind") == "figure"}
    return Manuscript(_text(notebook), facts, figures, bibliography)


# What is there ----------------------------------------------------------------------------------


def _outputs(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Every output with its place, but for captions, which are for JupyterLab, and silence."""
    for number, cell in enumerate(notebook.cells, 1):
        for output in cell.get("outputs", ()):
            is_silence = output.output_type == "stream" and not output.text.strip()
            if not is_silence and _facts(output).get("kind") != "caption":
                yield f"cell {number}", output


def _facts(output: NotebookNode) -> dict:
    """What replication.report.show says of an output."""
    return output.get("metadata", {}).get("report", {})


def _find(name: str, folder: Path) -> Path:
    """A file beside the notebook, or else in the folder of the paper."""
    beside = folder / name
    return (beside if beside.exists() else PAPER / name).resolve()


def _metadata_problems(facts: dict) -> Iterator[str]:
    for name in sorted(REQUIRED - set(facts)):
        yield f"The notebook's metadata have no report.{name}."
    for name in sorted(set(facts) - REQUIRED - OPTIONAL):
        known = ", ".join(sorted(REQUIRED | OPTIONAL))
        yield f"The notebook's metadata have report.{name}. Known are {known}."


def _output_problems(notebook: NotebookNode) -> Iterator[str]:
    for place, output in _outputs(notebook):
        facts, data = _facts(output), output.get("data", {})
        if output.output_type == "stream":
            yield f"{place} printed to {output.name}: {output.text.strip()[:200]!r}. Show Markdown."
        elif output.output_type == "error":
            yield f"{place} failed: {output.ename}: {output.evalue}"
        elif facts.get("kind") == "figure":
            yield from _missing_files(place, facts)
        elif "text/markdown" not in data:
            yield (
                f"{place} shows {', '.join(data)}, which begins "
                f"{data.get('text/plain', '')[:60]!r}. Show it by replication.report.show or as "
                "Markdown, or end the line with a semicolon."
            )


def _missing_files(place: str, facts: dict) -> Iterator[str]:
    for suffix in (".svg", ".pdf"):
        if not (ROOT / (facts["file"] + suffix)).exists():
            yield (
                f"{place}: the figure {facts['id']} has no file {facts['file']}{suffix}. "
                "Execute the notebook again."
            )


# What becomes of it -----------------------------------------------------------------------------


def _text(notebook: NotebookNode) -> str:
    """Cells in their order: the summary in a frame, a mark where the appendix begins."""
    texts, appendix = [], _division("appendix", "")
    for part, cells in groupby(enumerate(notebook.cells, 1), key=lambda item: _part(item[1])):
        text = "\n\n".join(_division("cell", _shown(cell), cell=number) for number, cell in cells)
        if part == "appendix" and appendix not in texts:
            texts.append(appendix)
        texts.append(_division("summary", text) if part == "summary" else text)
    return "\n\n".join(texts) + "\n"


def _part(cell: NotebookNode) -> str:
    tags = cell.metadata.get("tags", ())
    return next((tag for tag in ("summary", "appendix") if tag in tags), "")


def _shown(cell: NotebookNode) -> str:
    """What a reader sees of a cell: its Markdown, or its outputs."""
    if cell.cell_type == "markdown":
        return cell.source
    outputs = [output for _, output in _outputs(NotebookNode(cells=[cell]))]
    return "\n\n".join(_float(out) if _facts(out) else _markdown(out) for out in outputs)


def _markdown(output: NotebookNode) -> str:
    return output.data.get("text/markdown", "")


def _float(output: NotebookNode) -> str:
    facts = _facts(output)
    parts = [_division("caption", facts["caption"]), _division("alt", facts.get("alt", ""))]
    width = {"width": f"{facts['width_in']}in"} if "width_in" in facts else {}
    text = "\n\n".join([*parts, _markdown(output)])
    return _division(f"float .{facts['kind']} #{facts['id']}", text, **width)


def _division(classes: str, text: str, **attributes: object) -> str:
    """A part of the text with a name, which pandoc keeps as a Div."""
    more = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"{FENCE} {{.{classes}{more}}}\n{text}\n\n{FENCE}"
