"""Rows -> the verdict on X2: do words that have more symbols than a head has features get lost?"""

import numpy as np
import pandas as pd

from replication.experiments.base import INCONCLUSIVE, NOT, PARTLY, SUPPORTED, Verdict, above
from replication.experiments.head_size.numbers import ALPHA, CONTROL, FEWEST_SEEDS, LINEAR
from replication.stats import mean_interval


def by_seed(runs: pd.DataFrame) -> pd.DataFrame:
    """The mean share of words copied whole, by seed: of words that fit a head (n <= D), of longer
    ones, and of softmax with the smallest heads. Seeds that lack a run are left out."""
    trained = runs.groupby("seed").seed.transform("size")
    runs = runs[trained == trained.max()]
    linear, control = (runs[runs.attention == name] for name in (LINEAR, CONTROL))
    fits = linear.symbols <= linear.features
    parts = {"fit": linear[fits], "longer": linear[~fits], "softmax": control}
    return pd.DataFrame({name: one.groupby("seed").exact_match.mean()
                         for name, one in parts.items()}).dropna()  # fmt: skip


def losing(runs: pd.DataFrame, fit: pd.Series, lost: float) -> dict[tuple[int, int], bool]:
    """By features of a head and symbols of longer words: whether these certainly are lost there."""
    longer = runs[(runs.attention == LINEAR) & (runs.symbols > runs.features)]
    shares = longer.pivot(index="seed", columns=["features", "symbols"], values="exact_match")
    less = shares.loc[fit.index].rsub(fit, axis=0)
    return {size: above(*_spread(less[size])[1:], lost) is True for size in less}


def by_size(runs: pd.DataFrame) -> str:
    """A sentence a length: the mean share of words that linear attention copies, of all seeds."""
    linear = runs[runs.attention == LINEAR]
    words = []
    for n, group in linear.groupby("symbols"):
        shares = 100 * group.groupby("features").exact_match.mean()
        each, sizes = (", ".join(f"{x:.0f}" for x in part) for part in (shares, shares.index))
        words.append(f"Of words of {n} symbols heads of {sizes} features copy {each} %.")
    return " ".join(words)


def remembers(runs: pd.DataFrame, kept: float, lost: float) -> Verdict:
    """X2: words that fit are copied, longer ones are lost, and softmax loses none."""
    found, seen = by_seed(runs), by_size(runs)
    if len(found) < FEWEST_SEEDS:
        few = f"Seeds with all runs: {len(found)} of {FEWEST_SEEDS}, so nothing is decided."
        return Verdict(INCONCLUSIVE, f"{seen} {few}", {})
    spread = {name: _spread(found[name], least=0.0) for name in found}
    spread["difference"] = _spread(found.fit - found.longer)
    fit, softmax = (above(*spread[name][1:], kept) for name in ("fit", "softmax"))
    worse, sizes = above(*spread["difference"][1:], lost), losing(runs, found.fit, lost)
    where = [f"D = {D} and {n} symbols" for (D, n), is_lost in sizes.items() if is_lost]
    text = (
        f"{seen} Words are longer than heads have features at {len(sizes)} sizes; {100 * lost:.0f} "
        f"points fewer of them are certainly copied at {len(where)}{': ' * bool(where)}"
        f"{', '.join(where)}. On average {_percent(spread['longer'])} of such words are copied, "
        f"{_percent(spread['fit'])} of those that fit: {_percent(spread['difference'], 'points')} "
        f"fewer. Softmax with heads of {runs.features.min()} copies {_percent(spread['softmax'])}. "
        f"Seeds: {len(found)}; intervals end at 0 and 100 %."
    )
    values = {name: dict(zip(("mean", "low", "high"), one, strict=True))
              for name, one in spread.items()}  # fmt: skip
    values |= {"lost_at": len(where), "sizes": len(sizes)}
    return Verdict(_outcome(worse, fit and softmax and all(sizes.values())), text, values)


def _spread(shares: pd.Series, least: float = -1.0) -> tuple[float, float, float]:
    """The mean and its interval, which ends where shares (from 0) or their differences end."""
    return float(np.mean(shares)), *np.clip(mean_interval(shares, ALPHA), least, 1.0).tolist()


def _outcome(worse: bool | None, rest: bool | None) -> str:
    if not worse:
        return INCONCLUSIVE if worse is None else NOT
    return SUPPORTED if rest else PARTLY


def _percent(spread: tuple[float, float, float], unit: str = "%") -> str:
    mean, low, high = (f"{100 * x:.0f}".replace("-", "\N{MINUS SIGN}") for x in spread)
    return f"{mean} {unit} ({low} to {high})"
