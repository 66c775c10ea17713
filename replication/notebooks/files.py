"""Where the notebooks are, what kind of work each does, and which source files it comes from."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from replication import sources
from replication.notebooks.parameters import accepts
from replication.results import ROOT

NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"
PROFILES, NUMBERS = (
    sources.PACKAGE / "config" / f"{name}.py" for name in ("experiment", "numbers")
)
TIMED = ("04",)
"""Notebooks that read the clock: nothing may run beside them."""


class Job(NamedTuple):
    """A notebook to run with parameters. Its files are ``name`` with various suffixes."""

    name: str
    notebook: Path
    parameters: dict
    needs: tuple[str, ...] = ()
    """The names of the jobs whose rows it reads."""


def find(which: str) -> Path:
    """The notebook whose name begins with ``which``, such as 03; or a path to one."""
    if which.endswith(".ipynb"):
        if not Path(which).is_file():
            raise ValueError(f"There is no file {which}. Name a notebook by its number or path.")
        return Path(which).resolve()
    found = [path for path in every() if path.name.startswith(f"{which}_")]
    if len(found) != 1:
        known = ", ".join(path.name[:2] for path in every())
        raise ValueError(f"There is no notebook {which!r}. Choose among {known}.")
    return found[0]


def every() -> list[Path]:
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def role(notebook: Path) -> str:
    """ "timing" runs alone; "training" can use several cores; "reading" is content with one."""
    if notebook.name[:2] in TIMED:
        return "timing"
    return "training" if "workers" in accepts(notebook) else "reading"


def source_files(notebook: Path) -> list[Path]:
    """The files of the package that a notebook imports, and all that they import.

    With the profiles' numbers: others make no row stale, but ask the notebook for other rows.
    """
    found = sources.files(*sorted(set(_rooms(notebook))))
    return sorted({*found, NUMBERS}) if PROFILES in found else found


def _rooms(notebook: Path) -> Iterator[str]:
    """What a notebook imports of the package, such as "train" or "figures/style"."""
    to_python = TransformerManager().transform_cell
    cells = nbformat.read(notebook, 4).cells
    code = "\n".join(to_python(cell.source) for cell in cells if cell.cell_type == "code")
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (_room(alias.name) for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and _is_ours(node.module):
            yield from (_room(f"{node.module}.{alias.name}") for alias in node.names)


def _is_ours(name: str) -> bool:
    return name.split(".")[0] == sources.PACKAGE.name


def _room(name: str) -> str:
    """The module or folder on the way to a dotted name that lies deepest."""
    found = Path()
    for part in name.split(".")[1:]:
        here = sources.PACKAGE / found / part
        if not (here.is_dir() or here.with_suffix(".py").exists()):
            break
        found = found / part
    return str(found)
