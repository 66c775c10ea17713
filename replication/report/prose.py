"""Prose with values in it: a Markdown cell of the report is a template that the run fills.

``{{ whole(N) }}`` stands for a value, ``{% if below %} ... {% endif %}`` for a sentence that
depends on one (Jinja, which nbconvert uses too). The names are those of the notebook's code cells.
Its last one calls ``fill``, whose output holds the filled texts; the exporters take them from
there. In JupyterLab one reads the templates; ``replication render`` leaves a filled copy in build/.
"""

import copy
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from symtable import symtable
from typing import Any

from replication.experiments.base import listed

TEMPLATE = re.compile(r"\{\{|\{%")
VALUE = re.compile(r"\{\{.*?\}\}", re.S)
SMALL = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
MINUS = "\N{MINUS SIGN}"
GROUPS = {"paper": "Claimed by the paper", "this report": "Asked by this report",
          "earlier replication": "Found by the earlier replication"}  # fmt: skip
"""Claims by who made them."""
Real = float | int


class MissingValueError(ValueError):
    """A sentence asks for what the run did not give. The message names every place."""


# Numbers as they stand in a sentence -------------------------------------------------------------


def number(value: Real | None, digits: int = 2) -> str:
    """With so many digits that say something; whole from there on."""
    if _there(value) == 0:
        return "0"
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:.{max(0, digits - 1 - size)}f}".replace("-", MINUS)


def times(value: Real | None) -> str:
    """A ratio: 6.2 ×."""
    return f"{number(value)}\N{NO-BREAK SPACE}×"


def whole(value: Real | None) -> str:
    """A count or a length, to the unit: 64, 3149, 65536."""
    return f"{round(_there(value))}".replace("-", MINUS)


def _there(value: Any) -> Any:
    """A value that is missing or not finite stops the build."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise MissingValueError(f"it is {value}. Run the experiments again, or mend the sentence.")
    return value


def duration(seconds: Real | None) -> str:
    """In the unit in which one would say it."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if _there(seconds) >= 1.5 * size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds)} seconds"


def powers(text: str) -> str:
    """N^1.04 in a sentence becomes mathematics, 5% gets its space and 28 x 28 its sign."""
    text = re.sub(r"(?<=\d) x (?=\d)", " × ", re.sub(r"(?<=\d)%", " %", text))
    return re.sub(r"N\^(\d+\.\d+)", r"$N^{\1}$", text)


def small(count: int) -> str:
    """A count in a sentence: in letters up to ten."""
    return SMALL[count] if count < len(SMALL) else str(count)


def from_which(found: Any) -> str:
    """On which lengths a contender is cheaper by a Crossover, after "is faster than ..."."""
    if found.status == "below":
        return found.everywhere
    if found.edge:
        return found.edge
    if found.status == "beyond":
        return f"at most below N = {whole(found.longest)}, the longest length measured"
    ends = found.brief().partition("(")[2].rstrip(")")
    why = f"95 % interval {ends}" if ends else "bytes are exact; between two lengths interpolated"
    return f"from N = {whole(found.at)} on ({why})"


def for_certain(ratio: Any, rival: str) -> str:
    """The same by the interval of the ratio alone, at the lengths measured: from which on it lies
    above 1, up to which the rival is the faster, and where the two cannot be told apart."""
    known = ratio.dropna(subset=["low", "high"])
    sure = (known.low > 1)[::-1].cummin()[::-1].astype(bool)
    if not sure.any():
        return "at no length for certain"
    first = known.index[sure][0]
    before, alike = known[known.index < first], "the two cannot be told apart"
    behind = before.index[before.high < 1]
    rest = before[before.index > max(behind, default=0)]
    even = rest.index[rest.low <= 1]
    if not len(before):
        return f"at every length measured, from N = {first} on"
    words = f"for certain from N = {first} on"
    words += f", {rival} up to N = {behind[-1]}" if len(behind) else ""
    if not len(even):
        return words
    place = "in between" if len(behind) else "below"
    all_of_many = len(even) == len(rest) > 3
    where = place if all_of_many else f"at N = {listed(map(str, even))}"
    return f"{words}; {where} {alike}"


# The notebook's side -----------------------------------------------------------------------------


def fill(notebook: Path | str, names: Mapping[str, Any]) -> None:
    """Fill all Markdown cells of the notebook at this path, and show that it is done."""
    from IPython.display import display

    cells = json.loads(Path(notebook).read_text("utf-8"))["cells"]
    texts, places, problems = {}, bound(cells), []
    for number, cell in enumerate(cells, 1):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and TEMPLATE.search(source):
            try:
                _refuse_rebound(source, places)
                texts[cell["id"]] = {"source": source, "text": render(source, names)}
            except Exception as error:
                problems.append(f"cell {number}: {_first(source, names)}: {error}")
    if problems:
        raise MissingValueError("\n".join(problems))
    said = f"The prose of {len(texts)} cells is filled in the report and in build/."
    about = {"kind": "prose", "cells": texts}
    display({"text/markdown": said}, raw=True, metadata={"report": about})


def bound(cells: list[dict]) -> dict[str, list[int]]:
    """By name, the numbers of the code cells that give it a value."""
    found = {}
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code":
            for symbol in symtable("".join(cell["source"]), f"cell {number}", "exec").get_symbols():
                if symbol.is_assigned() or symbol.is_imported():
                    found.setdefault(symbol.get_name(), []).append(number)
    return found


def _refuse_rebound(source: str, places: Mapping[str, list[int]]) -> None:
    """All cells have run before the first sentence is filled: it would tell the last value."""
    from jinja2 import meta

    for name in sorted(meta.find_undeclared_variables(_rules().parse(source))):
        if len(where := places.get(name, [])) > 1:
            cells = listed(map(str, where))
            raise MissingValueError(f"{name} is set in cells {cells}. Give each a name of its own.")


def render(source: str, names: Mapping[str, Any]) -> str:
    """One text. A name that is missing, None, or a number that was given no digits is an error."""
    return _rules().from_string(source).render(names)


def _rules() -> Any:
    from jinja2 import Environment, StrictUndefined

    rules = {"undefined": StrictUndefined, "finalize": _said, "comment_start_string": "{##"}
    return Environment(**rules)


def _said(value: Any) -> Any:
    if isinstance(_there(value), (float, bool)):
        raise MissingValueError(f"it is {value}. Say it by number, whole or times.")
    return value


def _first(source: str, names: Mapping[str, Any]) -> str:
    """The first value that cannot be said; the beginning of the text if it is none of them."""
    for value in VALUE.findall(source):
        try:
            render(value, names)
        except Exception:
            return value
    return repr(source[:60])


# The exporters' side -----------------------------------------------------------------------------


def facts(output: dict) -> dict:
    """What ``show`` or ``fill`` says of an output."""
    return output.get("metadata", {}).get("report", {})


def _texts(notebook: dict) -> dict[str, dict[str, str]]:
    found = (facts(output) for cell in notebook.cells for output in cell.get("outputs", ()))
    return next((fact["cells"] for fact in found if fact.get("kind") == "prose"), {})


def filled(notebook: dict) -> dict:
    """A copy whose Markdown cells read as the run filled them."""
    done, texts = copy.deepcopy(notebook), _texts(notebook)
    for cell in done.cells:
        if cell.cell_type == "markdown" and cell.get("id") in texts:
            cell.source = texts[cell.id]["text"]
    return done


def problems(notebook: dict) -> Iterator[str]:
    """Templates that were not filled, or were changed afterwards."""
    texts = _texts(notebook)
    for number, cell in enumerate(notebook.cells, 1):
        said = texts.get(cell.get("id"))
        if cell.cell_type != "markdown":
            continue
        if said and cell.source not in said.values():
            yield f"cell {number} was changed after its values were filled in. Execute it again."
        elif not said and (open_ := VALUE.search(cell.source) or TEMPLATE.search(cell.source)):
            yield f"cell {number} asks for {open_[0]}, and no cell fills it. Execute the notebook."
