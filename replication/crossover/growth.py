"""How costs grow with N: the exponent of a power law, and whether a line is enough.

The repeats of one length share what the machine did then and how far a simple law misses that
length, so they are no independent evidence about growth. All regressions here therefore take
the median of each length: as many points as lengths.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.tools.eval_measures import aicc, bic

from replication.crossover.estimate import LEVEL, Labels, check_level, label
from replication.crossover.fits import Fit, Model, model_name, weighted_fit
from replication.crossover.rows import TIME, series

NOUNS = {"time_ms": "time", "peak_bytes": "memory", "flops": "number of operations"}
LINE: Model = (0, 1)
PARABOLA: Model = (0, 1, 2)
FEWEST_LENGTHS = 8
"""Of 6 or 7 lengths AICc prefers the line by 30 or 14 for its few parameters alone."""
EXACT_FIT = 1e-9
"""A relative error that counts as none: below it two likelihoods differ by rounding alone."""
BARELY = 2.0
"""AICc differences below this favour neither model (Burnham & Anderson 2002, Sec. 2.6)."""


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """cost ~ N^value, with its interval."""

    contender: str
    quantity: str
    value: float
    low: float
    high: float
    level: float
    shortest: int
    longest: int
    fit: Fit = field(repr=False, compare=False)

    def sentence(self, labels: Labels = None) -> str:
        interval = f"{100 * self.level:g} % interval {self.low:.2f} to {self.high:.2f}"
        lengths = f"{int(self.fit.nobs)} lengths from {self.shortest} to {self.longest}"
        cost = f"the {NOUNS[self.quantity]} of {label(self.contender, labels)}"
        return f"{cost} grows as N^{self.value:.2f} ({interval}; {lengths})"


def growth_exponent(
    rows: pd.DataFrame,
    contender: str,
    quantity: str = TIME,
    *,
    shortest: int = 1,
    level: float = LEVEL,
) -> Exponent:
    """The slope of log cost over log N at N >= shortest, one median a length.

    The interval is HC3's with Student's t: on medians of lengths that is nearly the jackknife
    over lengths, the cluster-robust choice when clusters are few. For counts without noise it
    says how far the growth is from a power law.
    """
    check_level(level)
    N, cost = series(rows, contender, quantity, shortest, fewest=3)
    model = sm.OLS(np.log(cost), sm.add_constant(np.log(N)))
    fit = model.fit(cov_type="HC3", use_t=True)
    low, high = fit.conf_int(1 - level)[1]
    return Exponent(
        contender=contender,
        quantity=quantity,
        value=float(fit.params[1]),
        low=float(low),
        high=float(high),
        level=level,
        shortest=int(N[0]),
        longest=int(N[-1]),
        fit=fit,
    )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """a + b N against a + b N + c N^2; differences are line minus parabola."""

    contender: str
    quantity: str
    delta_aicc: float
    delta_bic: float
    shortest: int
    longest: int
    line: Fit = field(repr=False, compare=False)
    parabola: Fit = field(repr=False, compare=False)

    @property
    def preferred(self) -> Model:
        """The powers of N in the model with the lower AICc."""
        return PARABOLA if self.delta_aicc > 0 else LINE

    @property
    def quadratic_share(self) -> float:
        """The part that c N^2 has in the fitted cost at the longest N."""
        return float(self.parabola.params[2] * self.longest**2 / self.parabola.fittedvalues[-1])

    def sentence(self, labels: Labels = None) -> str:
        other = LINE if self.preferred == PARABOLA else PARABOLA
        barely = "barely " if abs(self.delta_aicc) < BARELY else ""
        sign = 1 if self.preferred == PARABOLA else -1
        lower, also = sign * self.delta_aicc, sign * self.delta_bic
        by_bic = f"BIC by {also:.1f}" if also > 0 else f"but BIC higher by {-also:.1f}"
        return (
            f"for the {NOUNS[self.quantity]} of {label(self.contender, labels)} "
            f"{model_name(self.preferred)} is {barely}preferred to {model_name(other)} "
            f"(AICc lower by {lower:.1f}, {by_bic}); "
            f"c N^2 is {100 * self.quadratic_share:.0f} % of the fitted cost at N = {self.longest}"
        )


def compare_models(
    rows: pd.DataFrame, contender: str, quantity: str = TIME, *, shortest: int = 1
) -> Comparison:
    """Is the N^2 term needed? By AICc and BIC of relative least squares, N >= shortest."""
    N, cost = series(rows, contender, quantity, shortest, FEWEST_LENGTHS)
    line, parabola = weighted_fit(N, cost, LINE), weighted_fit(N, cost, PARABOLA)
    return Comparison(
        contender=contender,
        quantity=quantity,
        delta_aicc=_criterion(aicc, line) - _criterion(aicc, parabola),
        delta_bic=_criterion(bic, line) - _criterion(bic, parabola),
        shortest=int(N[0]),
        longest=int(N[-1]),
        line=line,
        parabola=parabola,
    )


def _criterion(criterion: Callable, fit: Fit) -> float:
    """AICc or BIC, the variance counted as a parameter."""
    return float(criterion(log_likelihood(fit), fit.nobs, len(fit.params) + 1))


def log_likelihood(fit: Fit) -> float:
    """statsmodels' ``fit.llf``, with a floor under the variance that keeps exact fits finite."""
    variance = max(fit.ssr / fit.nobs, EXACT_FIT**2)
    weights = np.log(fit.model.weights).sum() / 2
    return float(weights - fit.nobs / 2 * (np.log(2 * np.pi * variance) + 1))
