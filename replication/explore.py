"""Questions to click on: measured rows in, a widget out; where nobody can click, a picture."""

import os
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import ipywidgets
import pandas as pd
from matplotlib.figure import Figure

from replication.crossover import Measured, measured_crossover
from replication.crossover.estimate import LEVEL, Labels
from replication.crossover.rows import TIME
from replication.crossover.tables import ratios
from replication.figures import crossover as draw

SETTING = {
    "subject": "what",
    "direction": "passes",
    "causal": "causal",
    "heads": "heads",
    "head_dim": "head size",
    "dtype": "numbers",
    "threads": "threads",
}
"""The columns that tell settings apart, and what they are called on the screen."""
ASKED = {"opponent": "against", "quantity": "quantity"}
QUANTITIES = {"time_ms": "time", "peak_bytes": "memory", "flops": "operations"}
FIRST = {"subject": "layer", "direction": "training", "causal": True, "heads": 8, "head_dim": 64,
         "dtype": "float32", "opponent": "softmax", "quantity": TIME}  # fmt: skip
"""What is shown before anybody has chosen, if the rows have it."""

Choice = dict[str, Any]
"""A value for each name of SETTING and ASKED."""


def comparable(runs: Iterable[pd.DataFrame], contender: str) -> pd.DataFrame:
    """Measured rows of several runs, with those that share two lengths with the contender.

    A setting that two runs have is taken from the first of them.
    """
    rows = pd.concat(dict(enumerate(runs)), names=["place"]).reset_index("place")
    first = rows.groupby([*SETTING])["place"].transform("min")
    rows = rows[rows["place"] == first].drop(columns="place")
    kept = [_rivals(group, contender) for _, group in rows.groupby([*SETTING])]
    kept = [group for group in kept if group["contender"].nunique() > 1]
    if not kept:
        raise ValueError(
            f"No contender was measured at two lengths together with {contender!r}, so there is "
            "nothing to choose from. Measure more, by: replication bench scaling"
        )
    return pd.concat(kept, ignore_index=True)


def _rivals(rows: pd.DataFrame, contender: str) -> pd.DataFrame:
    """Rows of one setting at the contender's lengths, without those who share fewer than two."""
    shared = rows[rows["N"].isin(rows.loc[rows["contender"] == contender, "N"])]
    return shared[shared.groupby("contender")["N"].transform("nunique") >= 2]


def choose(rows: pd.DataFrame, contender: str, wish: Mapping) -> tuple[Choice, dict[str, list]]:
    """The choice nearest to a wish, and what else could be chosen, name by name.

    What is offered for a name depends on what is chosen for the names before it.
    """
    chosen, offers = {}, {}
    for name in SETTING:
        offers[name] = sorted(rows[name].unique().tolist())
        chosen[name] = _pick(name, offers[name], wish)
        rows = rows[rows[name] == chosen[name]]
    offers["opponent"] = [name for name in rows["contender"].unique() if name != contender]
    chosen["opponent"] = _pick("opponent", offers["opponent"], wish)
    both = rows[rows["contender"].isin([contender, chosen["opponent"]])]
    offers["quantity"] = [name for name in QUANTITIES if both[name].notna().all()]
    chosen["quantity"] = _pick("quantity", offers["quantity"], wish)
    return chosen, offers


def _pick(name: str, offered: list, wish: Mapping) -> Any:
    for value in (wish.get(name), FIRST.get(name)):
        if value in offered:
            return value
    return offered[0]


def view(
    rows: pd.DataFrame, contender: str, chosen: Choice, level: float = LEVEL
) -> tuple[Figure, Measured]:
    """The ratio over N, drawn, and the crossover."""
    mine = rows[(rows[[*SETTING]] == pd.Series({n: chosen[n] for n in SETTING})).all(axis=1)]
    question = mine, contender, chosen["opponent"], chosen["quantity"]
    found = measured_crossover(*question, level=level)
    return draw.ratios({_title(chosen): [(ratios(*question, level=level), found)]}), found


def _title(chosen: Choice) -> str:
    causal = "causal" if chosen["causal"] else "not causal"
    what = "attention layer" if chosen["subject"] == "layer" else f"{chosen['subject']} model"
    return (
        f"{what}, {chosen['direction']}, {causal}, {chosen['heads']} heads of "
        f"{chosen['head_dim']}, {chosen['dtype']}, threads: {chosen['threads']}"
    )


def crossover_widget(
    rows: pd.DataFrame, contender: str, labels: Labels = None, level: float = LEVEL
) -> ipywidgets.VBox:
    """Menus, the picture and the sentence that answer what the menus ask."""
    menus = {name: _menu(text) for name, text in (SETTING | ASKED).items()}
    picture = ipywidgets.Image(format="png", layout={"width": "720px", "max_width": "100%"})
    sentence = ipywidgets.HTML()

    def redraw(_=None) -> None:
        wish = {name: menu.value for name, menu in menus.items()}
        chosen, offers = choose(rows, contender, wish)
        for name, menu in menus.items():
            menu.unobserve(redraw, "value")
            menu.options = [(_word(name, value, labels), value) for value in offers[name]]
            menu.value, menu.disabled = chosen[name], len(offers[name]) == 1
            menu.observe(redraw, "value")
        figure, found = view(rows, contender, chosen, level)
        picture.value, text = png(figure), found.sentence(labels)
        sentence.value = f"{text[0].upper()}{text[1:]}."

    for menu in menus.values():
        menu.observe(redraw, "value")
    redraw()
    grid = ipywidgets.GridBox([*menus.values()], layout={"grid_template_columns": "repeat(3, 1fr)"})
    return ipywidgets.VBox([grid, picture, sentence])


def _menu(text: str) -> ipywidgets.Dropdown:
    return ipywidgets.Dropdown(description=text, layout={"width": "95%"})


def _word(name: str, value: Any, labels: Labels) -> str:
    words = {"opponent": labels or {}, "quantity": QUANTITIES, "causal": {True: "yes", False: "no"}}
    return str(words.get(name, {}).get(value, value))


def png(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def somebody_clicks() -> bool:
    """Whether this kernel belongs to a notebook open in JupyterLab, not to papermill."""
    return "JPY_SESSION_NAME" in os.environ


def crossover_explorer(
    rows: pd.DataFrame, contender: str, labels: Labels = None, level: float = LEVEL
) -> ipywidgets.VBox | Figure:
    """The widget; where nobody can use it, the picture that it would show first."""
    if somebody_clicks():
        return crossover_widget(rows, contender, labels, level)
    chosen, _ = choose(rows, contender, {})
    return view(rows, contender, chosen, level)[0]
