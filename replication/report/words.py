"""Numbers as they stand in a sentence. One that is missing or not finite stops the build."""

import math
from collections.abc import Iterable

Real = float | int
MINUS = "\N{MINUS SIGN}"


class MissingNumberError(ValueError):
    """A sentence asks for a number that the run did not give."""


def number(value: Real | None, digits: int = 2, what: str = "a number") -> str:
    """With so many digits that say something; whole from there on."""
    _check(value, what)
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    text = f"{value:.0f}" if size >= digits - 1 else f"{value:.{digits - 1 - size}f}"
    return text.replace("-", MINUS)


def times(value: Real, digits: int = 2) -> str:
    """A ratio: 6.2 ×."""
    return f"{number(value, digits, 'a ratio')}\N{NO-BREAK SPACE}×"


def whole(value: Real | None, what: str = "a whole number") -> str:
    """A count or a length, to the unit: 64, 3149, 65536."""
    _check(value, what)
    return f"{round(value)}".replace("-", MINUS)


def _check(value: Real | None, what: str) -> None:
    if value is None or not math.isfinite(value):
        raise MissingNumberError(
            f"The report asks for {what}, which is {value}. Run the experiments again, or mend "
            "the sentence."
        )


def duration(seconds: Real | None) -> str:
    """In the unit in which one would say it."""
    _check(seconds, "a duration")
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds)} seconds"


def listed(words: Iterable[str]) -> str:
    """a, b and c."""
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last
