"""What the report's notebook calls to show figures, tables, listings and algorithms.

Each appears in JupyterLab as it is, with its caption. What the exporters need beside it, such as
the id that the prose refers to, travels in the output's metadata under "report".
"""

import inspect
import re
import textwrap
from base64 import b64encode
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from replication.results import ROOT, write_whole

PREFIXES = {"figure": "fig-", "table": "tab-", "listing": "lst-", "algorithm": "alg-"}

UNDATED = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""The forms in which a figure is saved: for the PDF and the page, for LaTeX, for notebooks. They
carry neither a date nor a version, so that the same figure gives the same bytes."""

NUMBER = re.compile(r"[-−+±~≈<>≤≥]?\s*\d")
MISSING = {"", "-", "–", "—"}


def figure(fig: Figure, id: str, caption: str, alt: str, folder: Path) -> None:
    """Save a figure as folder/id in three forms and show it; ``alt`` says what one sees in it."""
    _check("figure", id, caption)
    if not alt.strip():
        raise ValueError(f"The figure {id} has no alternative text. Say in alt what one sees.")
    pictures = {form: _draw(fig, id, form) for form in UNDATED}
    for form, content in pictures.items():
        write_whole(folder / f"{id}.{form}", content)
    plt.close(fig)
    where = folder.resolve()
    file = where.relative_to(ROOT) if where.is_relative_to(ROOT) else where
    data = {"image/png": b64encode(pictures["png"]).decode()}
    width = float(fig.get_size_inches()[0])
    _show("figure", id, caption, data, alt=alt, file=(file / id).as_posix(), width_in=width)


def table(
    frame: pd.DataFrame, id: str, caption: str, align: str | None = None, index: bool = False
) -> None:
    """Show a table. Cells are Markdown: ``$N^2$``, ``**best**``, a line break is a line break.

    ``align`` has one letter a column, l, c or r; otherwise columns of numbers stand on the right.
    """
    frame = frame.reset_index() if index else frame
    if frame.empty or frame.columns.nlevels > 1:
        raise ValueError(f"The table {id} needs rows, and a single line of column names.")
    columns = [[_cell(value) for value in frame.iloc[:, i]] for i in range(frame.shape[1])]
    align = align or "".join("r" if _are_numbers(column) else "l" for column in columns)
    if len(align) != len(columns) or set(align) - set("lcr"):
        raise ValueError(
            f"align={align!r} does not fit the table {id} of {len(columns)} columns. "
            "Give one of the letters l, c, r for each."
        )
    rules = [{"l": ":--", "c": ":-:", "r": "--:"}[letter] for letter in align]
    rows = [[_cell(name) for name in frame.columns], rules, *zip(*columns, strict=True)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    _show("table", id, caption, {"text/markdown": text})


def listing(code: Callable | str, id: str, caption: str, language: str = "python") -> None:
    """Show the source of a function or class as it stands in its file, or a text."""
    source = code if isinstance(code, str) else inspect.getsource(code)
    source = textwrap.dedent(source).strip("\n")
    _show("listing", id, caption, {"text/markdown": f"~~~~ {language}\n{source}\n~~~~"})


def algorithm(lines: Sequence[str], id: str, caption: str) -> None:
    """Show numbered pseudo-code: a line of Markdown each, indented by four blanks a level.

    What follows ▷ is a comment.
    """
    steps = []
    for number, line in enumerate(lines, 1):
        level, odd = divmod(len(line) - len(line.lstrip(" ")), 4)
        if odd:
            raise ValueError(f"Indent line {number} of {id} by four blanks a level: {line!r}")
        steps.append(f"{number}. {'&emsp;' * level}{line.strip()}")
    _show("algorithm", id, caption, {"text/markdown": "\n".join(steps)})


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


def _draw(fig: Figure, id: str, form: str) -> bytes:
    buffer = BytesIO()
    with mpl.rc_context({"svg.hashsalt": id, "svg.fonttype": "path"}):
        fig.savefig(buffer, format=form, metadata=UNDATED[form])
    return buffer.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, float):
        value = _three_digits(value)
    text = re.sub(r"^-(?=[\d.])", "−", str(value).strip())
    parts = re.split(r"(\$[^$]+\$)", text)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    parts[1::2] = [re.sub(r"(\\?)\|", _bar, part) for part in parts[1::2]]
    return "".join(parts).replace("\n", "<br>")


def _three_digits(value: float) -> str:
    if 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    mantissa, _, exponent = f"{value:#.3g}".rstrip(".").partition("e")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if exponent else mantissa


def _bar(match: re.Match) -> str:
    """A bar would end the cell, so | and \\| in mathematics go by their names."""
    return r"\Vert{}" if match[1] else r"\vert{}"


def _are_numbers(cells: list[str]) -> bool:
    bare = [cell.strip("*$ ") for cell in cells]
    return all(cell in MISSING or NUMBER.match(cell) for cell in bare)
