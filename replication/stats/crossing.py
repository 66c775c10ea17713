"""From which N on one contender is cheaper than another, as far as was measured.

Between lengths the mean over units of the log ratio is interpolated (PCHIP, in log N); the answer
is where it passes 0 for good. Its interval has the lengths at which the interval of the ratio
contains 1, whose ends are interpolated likewise: what is interpolated run by run would scatter
less between lengths than at them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator

from replication.stats.intervals import LEVEL
from replication.stats.levels import EXACT, TIME, TooFewError, log_ratios, over_units

PER_OCTAVE = 96
"""Points between N and 2 N at which ratios are looked at; between them a straight line."""
Labels = Mapping[str, str] | None
"""What to call the contenders in a sentence, where not by their names."""
VERBS = {
    "time_ms": ("is faster than", "is not faster than"),
    "peak_bytes": ("needs less memory than", "does not need less memory than"),
}


def rounded(N: float) -> str:
    """A whole number of at most four digits that are not zero: 312, 3149, 12350."""
    return f"{float(f'{N:.4g}'):.0f}"


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """The N from which on the contender costs less than its opponent, as far as is known.

    at, low and high are lengths; they may be 0 (cheaper throughout) and infinity (not cheaper
    at the end). low and high are None where there is no interval.
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
    def status(self) -> str:
        """below, crosses or beyond."""
        return "beyond" if isinf(self.at) else "crosses" if self.at else "below"

    def _words(self, labels: Labels) -> tuple[str, ...]:
        """The statement that the contender is cheaper, and its negation."""
        ours, theirs = ((labels or {}).get(n, n) for n in (self.contender, self.opponent))
        return tuple(f"{ours} {verb} {theirs}" for verb in VERBS[self.quantity])

    def _interval(self, below: str, beyond: str) -> str:
        if self.quantity in EXACT and self.status == "crosses":
            return " (counted exactly: no interval)"
        if self.low is None or (self.low == self.high and self.status != "crosses"):
            return ""
        ends = [{0: below, inf: beyond}.get(N) or rounded(N) for N in (self.low, self.high)]
        return f" ({100 * self.level:g} % interval {' to '.join(dict.fromkeys(ends))})"

    def _brief(self, mark: str, below: str, beyond: str) -> str:
        """A number with its mark and interval; 0 and infinity are what lies outside."""
        at, *ends = (
            {0: below, inf: beyond}.get(N) or (rounded(N) if N < 1e6 else f"{N:.0e}")
            for N in (self.at, self.low, self.high)
            if N is not None
        )
        if self.status != "crosses":
            return at
        return f"{at}{mark} ({'–'.join(ends)})" if ends else f"{at}{mark}"

    def ends(self) -> dict[str, float | None]:
        """For a file, which has no infinity: ``status`` says what a None stands for."""
        found = {name: getattr(self, name) for name in ("at", "low", "high")}
        return {name: None if x is None or isinf(x) else float(x) for name, x in found.items()}


@dataclass(frozen=True, kw_only=True)
class Measured(Crossover):
    """Where the measured ratio passes 1 and stays below 1 up to the longest measurement."""

    crossings: int
    """How often the ratio passes 1, in either direction."""
    unsure: tuple[int, ...] = ()
    """The lengths measured at which the interval of the ratio contains 1."""

    @property
    def edge(self) -> str:
        """What is said if the shortest length alone cannot tell the two apart; lengths double."""
        if self.status != "crosses" or self.low != 0 or self.high >= 2 * self.shortest:
            return ""
        above = f"above N = {self.shortest}, where they cannot be told apart"
        return f"at every length measured {above}"

    @property
    def everywhere(self) -> str:
        """What is said if it is cheaper at every length, certainly or not."""
        seen = "at every length measured"
        places = [f"{N}" for N in self.unsure]
        if not places:
            return f"{seen}, from N = {self.shortest} on"
        listed = " and ".join(filter(None, (", ".join(places[:-1]), *places[-1:])))
        return f"{seen} except N = {listed} (open)"

    def brief(self) -> str:
        """Such as 312 (295–330), >4096, 151‡ where it is the last of several, <2, or <2 (open at 8)
        where it is cheaper throughout, though not certainly at N = 8."""
        text = self._brief("‡" * (self.crossings > 1), f"<{self.shortest}", f">{self.longest}")
        places = ", ".join(map(str, self.unsure)) if self.status == "below" else ""
        return f"{text} (open at {places})" if places else text

    def sentence(self, labels: Labels = None) -> str:
        yes, no = self._words(labels)
        if self.edge:
            return f"{yes} {self.edge}"
        text = {
            "beyond": f"{no} at N = {self.longest}, the longest that both reached",
            "below": f"{yes} {self.everywhere}",
        }.get(self.status) or f"{yes} from N = {rounded(self.at)} on"
        interval = self._interval(f"below {self.shortest}", f"beyond {self.longest}")
        interval = "" if self.status == "below" else interval
        if self.crossings <= (self.status == "crosses"):
            return text + interval
        end = "and this is the last" if self.status == "crosses" else "but not for good"
        places = f"{self.crossings} place{'s' if self.crossings > 1 else ''}"
        return f"{text}{interval}; the ratio passes 1 at {places}, {end}"


def measured_crossover(
    rows: pd.DataFrame, contender: str, opponent: str, quantity: str = TIME, *, level: float = LEVEL
) -> Measured:
    """Where the contender's cost falls below the opponent's and stays below."""
    N, logs = log_ratios(rows, contender, opponent, quantity)
    if len(N) < 2:
        raise TooFewError(
            f"{len(N)} lengths have undisturbed repeats enough of both {contender} and {opponent}, "
            "but at least 2 are needed. Measure more of them."
        )
    mean, least, most, _ = over_units(logs, level, quantity)
    if np.isnan(mean).any():
        raise TooFewError(
            f"Too few repeats of {contender} and {opponent} were undisturbed for a crossover."
        )
    x = np.log(N)
    points = np.linspace(x[0], x[-1], 1 + int(PER_OCTAVE * np.log2(N[-1] / N[0])))
    at, low, high = (_last_not_cheaper(np.exp(points), PchipInterpolator(x, band)(points))
                     for band in (mean, most, least))  # fmt: skip
    low, high = (None, None) if quantity in EXACT else (min(low, at), max(high, at))
    passes = int(np.count_nonzero(np.diff(mean > 0)))
    return Measured(
        contender=contender, opponent=opponent, quantity=quantity, at=at, low=low, high=high,
        level=level, shortest=int(N[0]), longest=int(N[-1]), crossings=passes,
        unsure=() if quantity in EXACT else tuple(N[(least <= 0) & (most >= 0)].tolist()),
    )  # fmt: skip


def _last_not_cheaper(points: np.ndarray, saved: np.ndarray) -> float:
    """0 if cheaper throughout; infinity if not at the end."""
    dearer = np.flatnonzero(saved <= 0)
    if not len(dearer):
        return 0.0
    if (last := dearer[-1]) + 1 == len(points):
        return inf
    share = -saved[last] / (saved[last + 1] - saved[last])
    return float(points[last] * (points[last + 1] / points[last]) ** share)
