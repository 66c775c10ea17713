"""Everything at a glance: a row a claim, a mark for each who spoke of it, told apart in grey."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication.claims import Claim
from replication.experiments.base import INCONCLUSIVE, NOT, NOT_RUN, PARTLY, SUPPORTED, Verdict
from replication.report.prose import GROUPS
from replication.style import PALETTE, SMALL, WIDTH, grid

EARLIER = {"not confirmed": NOT, "confirmed for": PARTLY, "confirmed": SUPPORTED,
           "its own finding": SUPPORTED, "not examined": NOT_RUN, "not asked": NOT_RUN}  # fmt: skip
"""How the words of ``earlier`` in paper/claims.yaml begin, and the outcome that they tell."""
MARKS = {
    SUPPORTED: ("claimed, found or supported", {"marker": "o", "color": PALETTE[0]}),
    PARTLY: ("in part", {"marker": "o", "color": PALETTE[0], "fillstyle": "left"}),
    NOT: ("not supported", {"marker": "o", "color": PALETTE[3], "fillstyle": "none"}),
    INCONCLUSIVE: ("open", {"marker": "$?$", "color": "0.2"}),
    NOT_RUN: ("not asked or not run", {"marker": "_", "color": "0.6"}),
}
ROW = 0.134
"""Inches between rows."""


def outcomes(
    claims: Sequence[Claim], found: Mapping[str, Verdict], reference: Mapping[str, dict] | None,
    run: str = "this run",
) -> pd.DataFrame:  # fmt: skip
    """A row a claim: by, title, and a column of outcomes for each who spoke of it; ``reference``
    are the verdicts of the reference run, None where it is this very run."""
    rows = {}
    for claim in claims:
        row = {"by": claim.by, "title": claim.title}
        row["paper"] = SUPPORTED if claim.by == "paper" else NOT_RUN
        row["earlier\nreplication"] = _earlier(claim)
        if reference is not None:
            row["reference\nrun"] = reference[claim.id]["outcome"]
        rows[claim.id] = row | {run.replace(" ", "\n"): found[claim.id].outcome}
    return pd.DataFrame.from_dict(rows, orient="index")


def _earlier(claim: Claim) -> str:
    for words, outcome in EARLIER.items():
        if claim.earlier.startswith(words):
            return outcome
    raise ValueError(f"The claim {claim.id} has earlier={claim.earlier!r}. Let it begin with one "
                     f"of: {', '.join(EARLIER)}.")  # fmt: skip


def marks(table: pd.DataFrame) -> Figure:
    """The rows of ``outcomes`` by who made the claim, and below them what a mark means."""
    lines = []
    for by, own in table.groupby("by", sort=False):
        lines += [(GROUPS.get(by, by), None), *own.iterrows()]
    figure, [[axes]] = grid(ROW * (len(lines) + 3.4))
    axes.set(xlim=(0, WIDTH), ylim=(len(lines) + 1.3, -2.1))
    axes.set_axis_off()
    who, right = table.columns[2:], WIDTH - 0.3
    step = 0.6 if len(who) < 4 else 0.52  # the longest title ends at 4.3 inches
    spoke = {name: right - step * (len(who) - 1 - i) for i, name in enumerate(who)}
    for name, x in spoke.items():
        axes.text(x, -1.3, name, ha="center", va="center", size=SMALL)
    for y, (id, row) in enumerate(lines):
        _draw(axes, y, id, row, spoke)
    for x, (words, look) in zip((0.1, 1.95, 2.8, 4.0, 4.8), MARKS.values(), strict=True):
        _mark(axes, x, len(lines) + 0.5, look)
        axes.text(x + 0.1, len(lines) + 0.5, words, va="center", size=SMALL)
    return figure


def _draw(axes: Axes, y: int, id: str, row: pd.Series | None, spoke: Mapping[str, float]) -> None:
    """A claim, or the title of a group of them."""
    if row is None:
        axes.text(0.03, y + 0.1, id, va="center", size=SMALL, style="italic")
        axes.axhline(y + 0.5, color="0.7", lw=0.6)
        return
    axes.text(0.1, y, id, va="center", size=SMALL, weight="bold")
    axes.text(0.5, y, row.title, va="center", size=SMALL)
    axes.axhline(y + 0.5, color="0.9", lw=0.5)
    for name, x in spoke.items():
        _mark(axes, x, y, MARKS[row[name]][1])


def _mark(axes: Axes, x: float, y: float | int, look: dict) -> None:
    axes.plot(x, y, ms=5.5, markerfacecoloralt="white", mew=1.1, clip_on=False, **look)


def in_words(table: pd.DataFrame) -> str:
    """The same for who cannot see it: the last column, claim by claim."""
    last = table.columns[-1]
    said = "; ".join(f"{id} {outcome}" for id, outcome in table[last].items())
    return f"A table of marks, a row a claim. The last column, {' '.join(last.split())}: {said}."
