"""Run the notebooks with parameters by papermill, and show them as pages."""

from pathlib import Path

import nbformat
import papermill
from nbconvert import HTMLExporter
from papermill.exceptions import PapermillExecutionError

from replication.results import ROOT, write_whole

NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"


def find(number: str) -> Path:
    """The notebook whose name begins with ``number``, such as 03."""
    found = sorted(NOTEBOOKS.glob(f"{number}_*.ipynb"))
    if len(found) != 1:
        known = ", ".join(path.name[:2] for path in every())
        raise ValueError(f"There is no notebook {number!r}. Choose among {known}.")
    return found[0]


def every() -> list[Path]:
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def accepts(notebook: Path) -> set[str]:
    """The names in a notebook's parameters cell."""
    return set(papermill.inspect_notebook(str(notebook)))


def run(notebook: Path, parameters: dict, out: Path) -> Path:
    """Execute a notebook to ``out``; a failing cell's error is told in one sentence."""
    unknown = set(parameters) - accepts(notebook)
    if unknown:
        raise ValueError(
            f"{notebook.name} has no parameter {', '.join(sorted(unknown))}. "
            f"It has {', '.join(sorted(accepts(notebook)))}."
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        papermill.execute_notebook(
            str(notebook), str(out), parameters, cwd=str(NOTEBOOKS), kernel_name="python3"
        )
    except PapermillExecutionError as error:
        raise ValueError(
            f"{notebook.name} stopped at cell {error.exec_count}: {error.ename}: {error.evalue}\n"
            f"The notebook up to there is at {out}."
        ) from error
    return out


def to_html(notebook: Path) -> Path:
    """One self-contained page beside the notebook."""
    page, _ = HTMLExporter(embed_images=True).from_notebook_node(nbformat.read(notebook, 4))
    target = notebook.with_suffix(".html")
    write_whole(target, page.encode())
    return target
