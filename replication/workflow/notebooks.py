"""One notebook: what it takes, what was typed held against that, and how it is run and shown.

Nothing here imports PyTorch, papermill or nbconvert before a notebook is run.
"""

import ast
import json
import logging
import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from replication import experiments
from replication.experiments.base import WORDS, Experiment, lies_at
from replication.store import ROOT, StoreError, locked, notebook_hash

NOTEBOOKS = ROOT / "notebooks"


def find(which: str) -> Path:
    """The notebook of an experiment, by its number or name; or a path to any notebook."""
    if not which.endswith(".ipynb"):
        return NOTEBOOKS / f"{experiments.find(which).notebook}.ipynb"
    if not os.path.isfile(which):
        raise ValueError(f"There is no file {which[:99]}. Name a notebook by its number or path.")
    return Path(which).resolve()


def experiments_of(notebook: Path) -> list[Experiment]:
    """Those that a notebook shows; none if it is somebody's own."""
    here = notebook.resolve().parent == NOTEBOOKS.resolve()
    return [one for one in experiments.every().values() if here and one.notebook == notebook.stem]


def work_of(notebook: Path) -> str:
    """Whether it has the machine alone (timing), can use several cores (training: it has the
    parameter ``workers``), or is content with one (reading)."""
    if any(one.alone for one in experiments_of(notebook)):
        return "timing"
    return "training" if "workers" in parameters(notebook) else "reading"


def code_of(notebook: Path) -> str:
    """A hash of the code of the package that a notebook runs, its experiments' among it; comments
    do not count, magics such as %matplotlib may be there."""
    from IPython.core.inputtransformer2 import TransformerManager

    cells = ["".join(cell["source"]) for cell in _cells(notebook) if cell["cell_type"] == "code"]
    for one in experiments_of(notebook):
        cells.append(f"from {experiments.__name__}.{one.name} import EXPERIMENT\nEXPERIMENT")
    return notebook_hash("\n".join(map(TransformerManager().transform_cell, cells)))


def _cells(notebook: Path) -> list[dict]:
    try:
        cells = json.loads(_text(notebook))["cells"]
        names = ("cell_type", "metadata", "source")
        return [{name: cell[name] for name in names} for cell in cells]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{notebook} cannot be read as a notebook: {error}.") from None


class Parameter(NamedTuple):
    """One line of a parameters cell: ``name: kind = default  # help``."""

    name: str
    kind: str
    default: Any
    help: str

    def read(self, text: str) -> Any:
        """What was typed, as the kind that the notebook expects; "0, 1" and 0 are lists, too."""
        kind, _ = KINDS.get(self.kind, (object, ""))
        if self.default is None and text.lower() in ("none", "null"):
            return None
        if kind is str:
            return text
        is_bare = kind is list and text.strip()[:1] not in ("[", "{")
        try:
            value = yaml.load(f"[{text}]" if is_bare else text, _Loader) if text.strip() else ...
        except (yaml.YAMLError, ValueError, RecursionError):  # its own words are of no help
            value = ...
        return self.held(value, text)

    def held(self, value: Any, shown: Any = None) -> Any:
        """A value, if it is of the kind that the notebook expects."""
        kind, words = KINDS.get(self.kind, (object, "a YAML value"))
        value = float(value) if kind is float and type(value) is int else value
        if value is not ... and (kind in (object, type(value)) or value is self.default is None):
            return value
        such = "" if self.default is None else f", such as {self.default}"
        shown = repr(value if shown is None else shown)[:60]
        raise ValueError(f"{self.name}={shown} is not {words}. Give {words}{such}.")


_WORDS = WORDS | {list: "a list", dict: "a mapping"}
KINDS = {kind.__name__: (kind, words) for kind, words in _WORDS.items()}


class _Loader(yaml.SafeLoader):
    """A date stays a word, as papermill has it, and 1e-3 is a number."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)
_FLOAT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789"))


def parameters(notebook: Path) -> dict[str, Parameter]:
    """The lines of the cell that is tagged ``parameters``."""
    tagged = (c for c in _cells(notebook) if "parameters" in c["metadata"].get("tags", ()))
    source, found = "".join(next(tagged, {"source": ""})["source"]), {}
    try:
        lines = ast.parse(source).body
    except SyntaxError as error:
        raise StoreError(f"The parameters cell of {notebook} is no Python: {error}.") from None
    for line in lines:
        if isinstance(line, (ast.Assign, ast.AnnAssign)):
            try:
                (name,) = (one.id for one in getattr(line, "targets", None) or [line.target])
                default, kind = ast.literal_eval(line.value), getattr(line, "annotation", None)
            except (AttributeError, TypeError, ValueError):
                raise StoreError(f"The parameters cell of {notebook}: line {line.lineno} is no "
                                 "`name: kind = literal`.") from None  # fmt: skip
            kind = re.match(r"\w*", ast.unparse(kind))[0] if kind else type(default).__name__
            rest = source.splitlines()[line.end_lineno - 1].encode()[line.end_col_offset :]
            found[name] = Parameter(name, kind, default, rest.decode().strip(" #"))
    return found


def read(notebook: Path, typed: Iterable[tuple[str, list[str]]]) -> dict[str, list]:
    """Every name with its values, held against the parameters cell before anything runs."""
    values = {}
    for name, texts in typed:
        one = known(notebook, name)
        if name in values:
            raise ValueError(f"{name} is given twice. Name it once, with all its values.")
        if not texts:
            raise ValueError(f"{name} has no value. Give it one, or leave it out.")
        values[name] = [one.read(text) for text in texts]
    return values


def known(notebook: Path, name: str) -> Parameter:
    """The parameter of this name; if there is none, which there are."""
    if name in (names := parameters(notebook)):
        return names[name]
    hint = "".join(f" Did you mean {near}?" for near in get_close_matches(name, names, n=1))
    has = ", ".join(names) or "none"
    raise ValueError(f"{notebook.name} has no parameter {name}.{hint} It has {has}.")


def read_file(file: Path) -> dict[str, Any]:
    """Parameters as a JSON file has them."""
    try:
        return dict(json.loads(_text(file)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read as a JSON file of parameters: {error}.") from None


def _text(file: Path) -> str:
    """What stands in a file; what has no end, or may never come, is none."""
    if not file.is_file():
        raise ValueError("it is no file")
    return file.read_text(encoding="utf-8")


def check(notebook: Path, given: dict[str, Any]) -> None:
    """Have the notebook's experiments look at all its parameters before anything runs."""
    own = {name: one.default for name, one in parameters(notebook).items()}
    given = {name: known(notebook, name).held(value) for name, value in given.items()}
    for one in experiments_of(notebook):
        one.check(**own | given)


def check_out(notebook: Path, out: Path) -> None:
    """Refuse a place where no notebook can be written, or where one lies that was not made here."""
    if out.suffix != ".ipynb" or lies_at(out) in ("folder", "impossible"):
        raise ValueError(f"--out {str(out)[:99]!r} names no notebook. Try build/my.ipynb.")
    for place in (out, begun(out)):
        try:
            made_here = "papermill" in json.loads(_text(place))["metadata"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            made_here = lies_at(place) == "nothing" or (place != out and place.is_file())
        if not made_here or place.resolve() == notebook:
            raise ValueError(f"--out {out} would replace {place.name}, which was not made by "
                             "replication run. It stays: choose another file.")  # fmt: skip


def begun(out: Path) -> Path:
    """Where a notebook lies while it runs; half a file, if that was killed."""
    return out.with_suffix(".part.ipynb")


def describe(notebook: Path) -> str:
    """The parameters of a notebook, a line each."""
    lines = [f"  {f'{p.name}: {p.kind} = {p.default!r}':<40}  {p.help}"
             for p in parameters(notebook).values()] or ["  none"]  # fmt: skip
    return "\n".join([f"Parameters of {notebook.name} (-p NAME VALUE):", *lines])


HINTS = (
    ("No space left|quota exceeded", "The disk is full: free some space"),
    ("File too large", "A file may not grow so large here: see ulimit -f"),
    ("File name too long", "A name is too long for the disk: choose a shorter one"),
    ("Read-only|Permission denied", "The folder cannot be written: choose another one"),
    ("Not a directory|File exists", "A file stands where a folder is needed: move it away"),
    ("out of memory|can't allocate memory|MemoryError: ", "Memory ran out: use a smaller profile "
     "or fewer cores"),
    ("Kernel died|BrokenProcessPool: ", "Its process was ended, mostly for want of memory: use a "
     "smaller profile or fewer cores"),
)  # fmt: skip
"""What a known trouble asks for."""


SAY_WHAT_TO_DO = ("StoreError", "TooBusyError", "CheckpointError", "DataError", "CorpusError")
"""Errors whose words are enough, wherever in a notebook they were raised."""


def hint(text: str) -> str:
    """What to do about a known trouble, as a line; nothing about an unknown one."""
    found = [advice for known, advice in HINTS if re.search(known, text)]
    return f"{found[0]}, then call again. What was saved before stays.\n" if found else ""


def _said(error: Exception) -> str:
    """What went wrong; with the lines where it did, if the words alone do not say what to do."""
    kind, words = getattr(error, "ename", ""), getattr(error, "evalue", "")
    if kind in SAY_WHAT_TO_DO:
        return words
    if hint(f"{kind}: {words}"):
        return f"{kind}: {words}"
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip("-\n")


def run(notebook: Path, given: dict[str, Any], out: Path) -> Path:
    """Execute a notebook to ``out``, which is replaced only by a whole one."""
    with locked(out, out.name):
        execute(notebook, given, begun(out))
        os.replace(begun(out), out)
    return out


def execute(notebook: Path, given: dict[str, Any], out: Path | None) -> dict:
    """By papermill, which writes to ``out`` after every cell; None: nothing is written."""
    sys.modules.setdefault("rfc3987_syntax", None)  # seconds of grammar that no notebook needs
    import papermill
    from nbclient.exceptions import DeadKernelError

    try:
        return papermill.execute_notebook(
            str(notebook), out and str(out), given, cwd=str(notebook.parent), kernel_name="python3",
            progress_bar=sys.stderr.isatty(), extra_arguments=["--log-level=CRITICAL"],
        )  # fmt: skip
    except (papermill.PapermillExecutionError, DeadKernelError) as error:
        said = _said(error)
        where = f"The notebook up to there: {out}" if out else f"This was {notebook}."
        raise StoreError(f"{said}\n{hint(said)}{where}") from None
    except KeyboardInterrupt:  # that its kernel died is no news
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise
