"""Numbers as they stand in a sentence. One that is missing or not finite stops the build."""

import math
from collections.abc import Iterable

Real = float | int
MINUS = "\N{MINUS SIGN}"


class MissingNumberError(ValueError):
    """A sentence asks for a number that the run did not give."""


def number(value: Real | None, digits: int = 2, what: str = "a number") -> str:
    """With so many digits that say something; whole from there on, thousands set apart."""
    if value is None or not math.isfinite(value):
        raise MissingNumberError(
            f"The report asks for {what}, which is {value}. Run the experiments again, or mend "
            "the sentence."
        )
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    text = f"{value:,.0f}" if size >= digits - 1 else f"{value:,.{digits - 1 - size}f}"
    return text.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", MINUS)


def times(value: Real, digits: int = 2) -> str:
    """A ratio: 6.2 ×."""
    return f"{number(value, digits, 'a ratio')} ×"


def whole(value: Real) -> str:
    """A count or a length, to the unit: 64, 3149, 65 536."""
    if not math.isfinite(value):
        raise MissingNumberError(f"The report asks for a whole number, which is {value}.")
    text = f"{round(value):,}" if abs(value) >= 10_000 else f"{round(value)}"
    return text.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", MINUS)


def duration(seconds: Real) -> str:
    """In the unit in which one would say it."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{number(seconds / size, 2, 'a duration')} {unit}"
    return f"{number(seconds, 2, 'a duration')} seconds"


def listed(words: Iterable[str]) -> str:
    """a, b and c."""
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last
