"""What the paper and the earlier replication have published about a crossover, derived again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import statsmodels.api as sm
from numpy.polynomial import Polynomial
from scipy.stats import t as student
from statsmodels.regression.linear_model import RegressionResultsWrapper as Fit

from replication.experiments.crossover.numbers import EARLIER_STEPS, TABLE_1
from replication.experiments.scaling.numbers import figure_1
from replication.stats import LEVEL, Crossover, TooFewError, ask, location, rounded
from replication.stats.crossing import measured_crossover
from replication.stats.levels import TIME, check_level

Model = tuple[int, ...]
"""The powers of N in it, of 0, 1 and 2: (0, 1) is a + b N."""
Powers = tuple[Model, Model]
"""Of the contender's model and of the opponent's."""
LINE_AND_PARABOLA: Powers = ((0, 1), (0, 1, 2))
EARLIER_POWERS: Powers = ((0, 1), (0, 2))
"""The earlier replication's models: linear ~ 1 + N and softmax ~ 1 + N^2."""
REAL, EQUAL = 1e-6, 1e-9
"""A root whose imaginary part is smaller than this, relatively, is real; and coefficients that
differ by less than this differ by rounding alone."""
USEFUL = 4.0
"""A prediction whose interval spans at most this factor says where to look."""


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

    @property
    def says_where(self) -> bool:
        """Whether its interval is narrow enough to be of use."""
        return self.low is not None and self.low > 0 and self.high <= USEFUL * self.low

    def brief(self) -> str:
        """Such as always, never, or 3149† (2402–∞) where it is extrapolated."""
        if self.status == "crosses":
            return self._brief("†" * self.extrapolated, "1", "∞")
        return "always" if self.status == "below" else "never"

    def sentence(self) -> str:
        yes, _ = self._words(None)
        text = {
            "below": f"{yes} at every N",
            "beyond": f"there is no N from which on {yes}",
        }.get(self.status) or f"{yes} from N = {rounded(self.at)} on"
        terms = ("a", "b N", "c N^2")
        models = " and ".join(" + ".join(terms[p] for p in model) for model in self.powers)
        text = f"by the fits {models}, {text}{self._interval('1', 'infinity')}"
        if self.longest < self.at < np.inf:
            text += (f", extrapolated {self.factor:.2g} times beyond the longest measurement, "
                     f"N = {self.longest}")  # fmt: skip
        return f"{text}; the fits miss the measurements by up to {100 * self.misfit:.1f} %"


def papers_crossing() -> float:
    """Where power laws through the two curves of the paper's Figure 1 meet: an extrapolation."""
    logs = {n: np.log(curve[["N", "time_ms"]]) for n, curve in figure_1().groupby("contender")}
    linear, softmax = (np.polyfit(*logs[name].to_numpy().T, 1) for name in ("linear", "softmax"))
    slope, offset = softmax - linear
    return float(np.exp(-offset / slope))


def earlier_steps() -> pd.DataFrame:
    """contender, N, step_ms: the earlier replication's Table 1, divided by its steps."""
    table = pd.DataFrame(dict(TABLE_1)).melt("N", var_name="contender", value_name="seconds")
    return table.assign(step_ms=table.pop("seconds") * 1e3 / EARLIER_STEPS)


def earlier_crossover(
    powers: Powers = EARLIER_POWERS, level: float = LEVEL, table: Mapping = TABLE_1
) -> Fitted:
    """The published crossover, N = 3149, from the published times, with what it left out."""
    N, linear, softmax = (np.array(table[name], float) for name in ("N", "linear", "softmax"))
    return _regressed(N, (linear, softmax), powers, level, ("linear", "softmax"))


def earlier_method(
    rows: pd.DataFrame, contender: str = "linear", opponent: str = "softmax", *, longest: int = 64,
    powers: Powers = EARLIER_POWERS, level: float = LEVEL,
) -> Fitted:  # fmt: skip
    """What the earlier method would say of our own times, N <= longest, if as many as it had."""
    short, names = rows[rows["N"].between(TABLE_1["N"][0], longest)], (contender, opponent)
    costs = location(short)["value"].unstack("contender").reindex(columns=names).dropna()
    if len(costs) < (fewest := len(TABLE_1["N"])):
        raise TooFewError(f"{len(costs)} lengths up to {longest} were measured, not {fewest}.")
    return _regressed(costs.index.to_numpy(float), costs.to_numpy().T, powers, level, names)


def forecasts(
    rows: pd.DataFrame, contender: str, opponents: Iterable[str], *, level: float = LEVEL
) -> pd.DataFrame:
    """By opponent: what the earlier method predicts from its lengths, and what was measured."""
    full = {"powers": LINE_AND_PARABOLA, "level": level}
    table = {name: {"predicted": ask(earlier_method, rows, contender, name, level=level),
                    "with b N": ask(earlier_method, rows, contender, name, **full),
                    "measured": ask(measured_crossover, rows, contender, name, level=level)}
             for name in opponents}  # fmt: skip
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("opponent").dropna(how="all")


def design(N: np.ndarray, powers: Model) -> np.ndarray:
    return np.asarray(N, float)[:, None] ** np.array(powers)


def last_root(saved: np.ndarray) -> float:
    """The N from which on d0 + d1 N + d2 N^2 stays positive, of these coefficients.

    0 if that is so from N = 1 on; infinity if there is no such N.
    """
    terms = saved[saved != 0]
    if not len(terms) or terms[-1] < 0:
        return np.inf
    roots = Polynomial(saved).roots()
    return float(max(roots.real[np.isreal(roots) & (roots.real >= 1)], default=0.0))


def _regressed(
    N: np.ndarray, costs: Iterable[np.ndarray], powers: Powers, level: float, names: tuple[str, str]
) -> Fitted:
    """By ordinary least squares, as if the noise were of one size at every N."""
    check_level(level)
    both = zip(costs, powers, strict=True)
    fits = tuple(sm.OLS(cost, design(N, model)).fit() for cost, model in both)
    ours, theirs = np.zeros((2, 3))  # coefficients of 1, N and N^2
    ours[[*powers[0]]], theirs[[*powers[1]]] = (fit.params for fit in fits)
    saved = np.where(np.isclose(ours, theirs, rtol=EQUAL, atol=0), 0.0, theirs - ours)
    root = last_root(saved)
    low, high = _fieller(saved, fits, powers, root, level) if 0 < root < np.inf else (None, None)
    return Fitted(
        contender=names[0], opponent=names[1], quantity=TIME, at=root, low=low, high=high,
        level=level, shortest=int(N[0]), longest=int(N[-1]), powers=powers, fits=fits,
    )  # fmt: skip


def _fieller(
    saved: np.ndarray, fits: tuple[Fit, Fit], powers: Powers, root: float, level: float
) -> tuple[float, float]:
    """The N around the root at which equal costs cannot be rejected, as in Fieller's theorem.

    Equal costs at N are kept if saved(N)^2 <= t^2 var(N), a polynomial of degree four in N.
    With two residual degrees of freedom (or one) the delta method is no option: it is
    symmetric, bounded and may go below zero. This set is skew, and unbounded when the growth
    of the opponent is not significant. Of the two fits' degrees of freedom t takes the fewer.
    """
    t, variance = student.ppf((1 + level) / 2, min(fit.df_resid for fit in fits)), np.zeros(5)
    for fit, model in zip(fits, powers, strict=True):
        np.add.at(variance, np.add.outer(model, model), fit.cov_params())
    roots = (Polynomial(saved) ** 2 - t**2 * Polynomial(variance)).roots()
    ends = roots.real[abs(roots.imag) <= REAL * abs(roots)]
    below, above = ends[ends <= root * (1 + REAL)], ends[ends >= root * (1 - REAL)]
    low, high = max(below, default=0.0), min(above, default=np.inf)
    return max(0.0, float(low)), float(high)
