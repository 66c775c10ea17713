"""What the report's notebook calls to show figures, tables and listings.

Each appears in JupyterLab as it is, with its caption. What the exporters need beside it, such as
the id that the prose refers to, travels in the output's metadata under "report".
"""

import inspect
import json
import pickle
import re
import textwrap
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from replication.store import ROOT, code_hash, digest, to_json, write_whole
from replication.style import saved, use_style

PREFIXES = {"figure": "fig-", "table": "tab-", "listing": "lst-"}

UNDATED = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""The forms in which a figure is saved: for the PDF and the page, for LaTeX, for notebooks. They
carry neither a date nor a version, so that the same figure gives the same bytes."""

DRAWN = "drawn.json"
"""Beside the figures: from what each was drawn."""

NUMBER = re.compile(r"[-−+±~≈<>≤≥]?\s*\d")
MISSING = {"", "-", "–", "—"}


def figure(drawing: partial, id: str, caption: str, alt: str, folder: Path) -> None:
    """Save what partial(draw, rows) draws as folder/id in three forms, and show it; ``alt`` says
    what one sees in it.

    It is not drawn if ``folder`` has it: drawn by the same code, from the same rows, with the same
    matplotlib, and its files untouched since.
    """
    _check("figure", id, caption)
    if not alt.strip():
        raise ValueError(f"The figure {id} has no alternative text. Say in alt what one sees.")
    notes, given = _notes(folder), _given(drawing)
    if id not in notes or notes[id]["key"] != _key(given, id, folder):
        width = _save(drawing(), id, folder)
        notes[id] = {"key": _key(given, id, folder), "width_in": width}
        write_whole(folder / DRAWN, to_json(notes))
    where = folder.resolve()
    file = where.relative_to(ROOT) if where.is_relative_to(ROOT) else where
    data = {"image/png": b64encode((folder / f"{id}.png").read_bytes()).decode()}
    width = notes[id]["width_in"]
    _show("figure", id, caption, data, alt=alt, file=(file / id).as_posix(), width_in=width)


def table(frame: pd.DataFrame, id: str, caption: str) -> None:
    """Show a table. Cells are Markdown: ``$N^2$``, ``**best**``, a line break is a line break."""
    _show("table", id, caption, {"text/markdown": table_text(frame, id)})


def table_text(frame: pd.DataFrame, id: str) -> str:
    """The same as Markdown; columns of numbers stand on the right."""
    if frame.empty or frame.columns.nlevels > 1:
        raise ValueError(f"The table {id} needs rows, and a single line of column names.")
    columns = [[_cell(value) for value in frame.iloc[:, i]] for i in range(frame.shape[1])]
    rules = ["--:" if _are_numbers(column) else ":--" for column in columns]
    rows = [[_cell(name) for name in frame.columns], rules, *zip(*columns, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def listing(code: Callable | str, id: str, caption: str) -> None:
    """Show the source of a function or class as it stands in its file, or Python in a text."""
    source = code if isinstance(code, str) else inspect.getsource(code)
    source = textwrap.dedent(source).strip("\n")
    _show("listing", id, caption, {"text/markdown": f"~~~~ python\n{source}\n~~~~"})


def tagged(notebook: Path | str, tag: str) -> str:
    """The code of the cell of another notebook that has this tag, to be listed."""
    cells = json.loads(Path(notebook).read_text("utf-8"))["cells"]
    found = [cell for cell in cells if tag in cell["metadata"].get("tags", ())]
    if len(found) != 1:
        raise ValueError(f"{notebook} has {len(found)} cells with the tag {tag}, not one.")
    return "".join(found[0]["source"])


def _check(kind: str, id: str, caption: str) -> None:
    if not re.fullmatch(PREFIXES[kind] + r"[a-z0-9-]+", id):
        raise ValueError(
            f"{id!r} cannot be the id of a {kind}. Choose one such as {PREFIXES[kind]}growth, "
            "of small letters, digits and hyphens."
        )
    if not caption.strip():
        raise ValueError(f"The {kind} {id} has no caption. Say what it shows.")


def _show(kind: str, id: str, caption: str, data: dict, **more) -> None:
    _check(kind, id, caption)
    facts = {"kind": kind, "id": id, "caption": " ".join(caption.split()), **more}
    display(data, raw=True, metadata={"report": facts})
    legend = f"**{kind.capitalize()}** `{id}`. {facts['caption']}"
    display({"text/markdown": legend}, raw=True, metadata={"report": {"kind": "caption"}})


def _notes(folder: Path) -> dict[str, dict]:
    """From what figures were drawn; none if they are damaged: what is not known is drawn again."""
    try:
        found = json.loads((folder / DRAWN).read_text())
        return {id: {"key": str(one["key"]), "width_in": float(one["width_in"])}
                for id, one in found.items()}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _save(drawn: Figure, id: str, folder: Path) -> float:
    """In all forms; the width."""
    for form, undated in UNDATED.items():
        with mpl.rc_context({"svg.hashsalt": id, "svg.fonttype": "path"}):
            write_whole(folder / f"{id}.{form}", saved(drawn, form, metadata=undated))
    plt.close(drawn)
    return float(drawn.get_size_inches()[0])


def _given(drawing: partial) -> bytes:
    """The code that draws and what it draws; before it does, as a fit remembers what was asked."""
    code = code_hash(drawing.func, use_style) + mpl.__version__
    return code.encode() + pickle.dumps((drawing.args, drawing.keywords))


def _key(given: bytes, id: str, folder: Path) -> str:
    """Of what is given, and of the files that are there."""
    files = [folder / f"{id}.{form}" for form in UNDATED]
    return digest(b"".join([given, *(file.read_bytes() for file in files if file.exists())]))[:12]


def _cell(value: object) -> str:
    """A bar would end the cell, so | and \\| in mathematics go by their names."""
    text = _three_digits(value) if isinstance(value, float) else str(value)
    parts = re.split(r"(\$[^$]+\$)", re.sub(r"^-(?=[\d.])", "−", text.strip()))
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    parts[1::2] = [part.replace(r"\|", r"\Vert{}").replace("|", r"\vert{}") for part in parts[1::2]]
    return "".join(parts).replace("\n", "<br>")


def _three_digits(value: float) -> str:
    if 999.5 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    mantissa, _, exponent = f"{value:#.3g}".rstrip(".").partition("e")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if exponent else mantissa


def _are_numbers(cells: list[str]) -> bool:
    bare = [cell.strip("*$ ") for cell in cells]
    return all(cell in MISSING or NUMBER.match(cell) for cell in bare)
