"""What an estimate of the crossover says: numbers, and one sentence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from replication.crossover.fits import Fit, Powers, model_name
from replication.crossover.rows import EXACT

Labels = Mapping[str, str] | None
"""What to call the contenders in a sentence, where not by their names."""
LEVEL = 0.95

VERBS = {
    "time_ms": ("is faster than", "is not faster than"),
    "peak_bytes": ("needs less memory than", "does not need less memory than"),
    "flops": ("needs fewer operations than", "does not need fewer operations than"),
}


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level={level} is no share. Choose one between 0 and 1, such as 0.95.")


def label(name: str, labels: Labels) -> str:
    return (labels or {}).get(name, name)


def rounded(N: float) -> str:
    """A whole number of at most four digits that are not zero: 312, 3149, 12350."""
    return f"{float(f'{N:.4g}'):.0f}"


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """The N from which on the contender costs less than its opponent, as far as is known.

    at, low and high are lengths; they may be 0 (cheaper throughout) and infinity (not cheaper
    at the end), so that comparisons such as ``high < 512`` need no special cases. low and high
    are None where there is no interval.
    """

    contender: str
    opponent: str
    quantity: str
    at: float
    low: float | None
    high: float | None
    level: float
    shortest: int
    longest: int

    @property
    def status(self) -> Literal["below", "crosses", "beyond"]:
        if math.isinf(self.at):
            return "beyond"
        return "crosses" if self.at else "below"

    def _words(self, labels: Labels) -> tuple[str, str]:
        """The statement that the contender is cheaper, and its negation."""
        names = [label(name, labels) for name in (self.contender, self.opponent)]
        yes, no = (f"{names[0]} {verb} {names[1]}" for verb in VERBS[self.quantity])
        return yes, no

    def _interval(self, below: str, beyond: str) -> str:
        if self.low is None and self.status != "crosses":
            return ""
        if self.quantity in EXACT:
            return " (counted exactly: no interval)"
        if self.low is None:
            return f" (no interval: too few rounds or runs for {100 * self.level:g} %)"
        ends = [{0: below, math.inf: beyond}.get(N) or rounded(N) for N in (self.low, self.high)]
        return f" ({100 * self.level:g} % interval {' to '.join(dict.fromkeys(ends))})"


@dataclass(frozen=True, kw_only=True)
class Measured(Crossover):
    """Where the measured ratio passes 1 and stays below 1 up to the longest measurement."""

    crossings: int
    """How often the ratio passes 1, in either direction."""

    def sentence(self, labels: Labels = None) -> str:
        yes, no = self._words(labels)
        if self.status == "beyond":
            text = f"{no} at N = {self.longest}, the longest that both reached"
        elif self.status == "below":
            text = f"{yes} at every length measured, from N = {self.shortest} on"
        else:
            text = f"{yes} from N = {rounded(self.at)} on"
        interval = self._interval(f"below {self.shortest}", f"beyond {self.longest}")
        return text + interval + self._repeats()

    def _repeats(self) -> str:
        if self.crossings <= (self.status == "crosses"):
            return ""
        end = "and this is the last" if self.status == "crosses" else "but not for good"
        places = f"{self.crossings} place{'s' if self.crossings > 1 else ''}"
        return f"; the ratio passes 1 at {places}, {end}"


@dataclass(frozen=True, kw_only=True)
class Fitted(Crossover):
    """Where two fitted costs cross for the last time; infinity if never for good."""

    powers: Powers
    fits: tuple[Fit, Fit] = field(repr=False, compare=False)

    @property
    def extrapolated(self) -> bool:
        return not self.shortest <= self.at <= self.longest

    @property
    def factor(self) -> float:
        """The crossover in units of the longest measurement, or 1 if it is not beyond it."""
        return max(1.0, self.at / self.longest)

    @property
    def misfit(self) -> float:
        """The largest relative difference between a measured value and its fit."""
        return max(float(abs(fit.resid / fit.model.endog).max()) for fit in self.fits)

    def sentence(self, labels: Labels = None) -> str:
        yes, _ = self._words(labels)
        text = {
            "below": f"{yes} at every N",
            "crosses": f"{yes} from N = {rounded(self.at)} on",
            "beyond": f"there is no N from which on {yes}",
        }[self.status]
        models = " and ".join(model_name(powers) for powers in self.powers)
        interval = self._interval("1", "infinity")
        misfit = f"the fits miss the measurements by up to {100 * self.misfit:.1f} %"
        return f"by the fits {models}, {text}{interval}{self._outside()}; {misfit}"

    def _outside(self) -> str:
        if not self.extrapolated:
            return ""
        if self.at < self.shortest:
            return f", extrapolated below the shortest measurement, N = {self.shortest}"
        times = f" {self.factor:.2g} times" if self.status == "crosses" else ""
        return f", extrapolated{times} beyond the longest measurement, N = {self.longest}"
