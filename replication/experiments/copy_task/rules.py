"""Rows of training -> one row a run, tables over seeds, and the verdicts on C1, C5 and E1.

Asked about the linear runs at every length: (a) do they converge, do they reach the loss of softmax
(b) as a difference and (c) as a ratio, (d) are they stable? An answer is yes or no if an interval
says so, and None where it is open.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.rates import confint_poisson

from replication.experiments import base, training
from replication.experiments.base import INCONCLUSIVE, NOT, PARTLY, SUPPORTED, Verdict, by_answers
from replication.experiments.copy_task import cells, numbers
from replication.experiments.copy_task.numbers import FACTOR, FEWEST_SEEDS, LEARNT, MARGIN
from replication.stats import bootstrap, equivalence, mean_interval
from replication.stats.intervals import Equivalence

RUN = ["length", "attention", "seed"]
QUANTITIES = ("final_loss", "token_accuracy", "exact_match", "updates_to_99")

# One row a run --------------------------------------------------------------------------------


def summarise(
    steps: pd.DataFrame, evaluations: pd.DataFrame, failures: Iterable[dict] = ()
) -> pd.DataFrame:
    """How every run ended, when it had learnt to copy, and how smooth its way was."""
    stopped = {tuple(row[name] for name in RUN) for row in failures}
    ways = dict(iter(steps.sort_values("step", kind="stable").groupby(RUN, sort=False)))
    rows = []
    for run, found in evaluations.sort_values("step", kind="stable").groupby(RUN, sort=False):
        row = dict(zip(RUN, run, strict=True)) | {"stopped": run in stopped}
        rows.append(row | _ending(found) | _way(ways.get(run, steps.iloc[:0])))
    return pd.DataFrame(rows)


def _ending(found: pd.DataFrame) -> dict:
    late = found.step > (1 - numbers.LAST) * found.step.max()
    last = found[late | (found.step == found.step.max())].mean(numeric_only=True)
    learnt = found.step[found.token_accuracy >= LEARNT]
    return {
        "final_loss": last.eval_loss, "token_accuracy": last.token_accuracy,
        "exact_match": last.exact_match, "updates_to_99": learnt.min() if len(learnt) else math.inf,
        "above_lowest": last.eval_loss - found.eval_loss.min(),
    }  # fmt: skip


def _way(steps: pd.DataFrame) -> dict:
    norms = steps.grad_norm.quantile([0.5, 0.99, 1]).to_list()
    return {
        "updates": len(steps), "spikes": int(spikes(steps.loss).sum()), "grad_norm": norms[0],
        "grad_norm_99": norms[1], "grad_norm_max": norms[2],
        "smallest_denominator": steps.smallest_denominator.min(), "seconds": steps.seconds.sum(),
    }  # fmt: skip


def spikes(losses: pd.Series) -> pd.Series:
    """True where a spike begins."""
    high = too_high(losses)
    return high & ~high.shift(fill_value=False)


def too_high(losses: pd.Series) -> pd.Series:
    """True at every update of a spike. A loss that is not finite is one."""
    before = losses.rolling(numbers.SPIKE_WINDOW, min_periods=1).median().shift()
    limit = np.maximum(numbers.SPIKE_FACTOR * before, before + numbers.SPIKE_RISE)
    return (losses > limit) | ~np.isfinite(losses)


# Over seeds -----------------------------------------------------------------------------------


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """Median over seeds and its interval: columns length, attention, seeds, quantity, ..."""
    rows = []
    for (length, attention), group in runs.groupby(["length", "attention"], sort=False):
        head = {"length": length, "attention": attention, "seeds": len(group)}
        for name in QUANTITIES:
            low, high = bootstrap(group[name])
            middle = float(np.median(group[name]))
            rows.append(head | {"quantity": name, "median": middle, "low": low, "high": high})
    return pd.DataFrame(rows)


def stability(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a length and mechanism: what question (d) looks at, and gradient norms."""
    groups = runs.groupby(["length", "attention"], sort=False)
    found = groups.agg(
        runs=("seed", "size"), stopped=("stopped", "sum"), spikes=("spikes", "sum"),
        above_lowest=("above_lowest", "max"), grad_norm=("grad_norm", "median"),
        grad_norm_99=("grad_norm_99", "median"), grad_norm_max=("grad_norm_max", "max"),
        smallest_denominator=("smallest_denominator", "min"),
    )  # fmt: skip
    found.insert(3, "spikes_per_1000", 1000 * found.spikes / groups.updates.sum().clip(lower=1))
    return found.reset_index()


def differences(runs: pd.DataFrame, opponent: str = "softmax") -> pd.DataFrame:
    """Final loss of linear - opponent by length and seed, of pairs that both went to the end."""
    both, by = ["linear", opponent], ["length", "seed"]
    wide = training.paired(runs[~runs.stopped], "final_loss", both, by=by)
    return (wide.linear - wide[opponent]).rename("difference").reset_index()


def compared(runs: pd.DataFrame) -> Equivalence:
    """Is the final loss of linear attention that of softmax, within the margin?"""
    return equivalence(differences(runs).difference, MARGIN, numbers.ALPHA)


def factor(runs: pd.DataFrame) -> dict[str, float | None]:
    """How many times the final loss of softmax that of linear attention is: the geometric mean
    over seeds and its 90 % interval, None where there is none."""
    lost = runs[runs.final_loss > 0]
    found = differences(lost.assign(final_loss=np.log(lost.final_loss))).difference
    if len(found) < FEWEST_SEEDS:
        return dict.fromkeys(cells.ENDS)
    ends = found.mean(), *mean_interval(found, 2 * numbers.ALPHA)
    return dict(zip(cells.ENDS, map(math.exp, ends), strict=True))


def spike_interval(runs: pd.DataFrame) -> tuple[float, float]:
    """In 1000 updates, exact for Poisson counts with 95 %. Spikes come in clusters: it is short."""
    if not (updates := int(runs.updates.sum())):
        return 0.0, 0.0
    low, high = confint_poisson(int(runs.spikes.sum()), updates, method="exact-c")
    return 1000 * float(np.nan_to_num(low)), 1000 * float(high)


def by_width(wide: Any, narrow: Any) -> pd.DataFrame:
    """How the runs of both widths ended: means over the seeds that both have."""
    there = narrow.runs[narrow.runs.length.isin(wide.study.lengths)]
    rows = pd.concat({"wide": wide.runs, "narrow": there}, names=["model"]).reset_index("model")
    both = rows.groupby(["length", "attention", "seed"]).model.transform("nunique") == 2
    found = rows[both].groupby(["model", "attention"])
    return found[["final_loss", "token_accuracy", "exact_match"]].mean()


# Four questions -------------------------------------------------------------------------------


def judge(runs: pd.DataFrame, published_updates: int) -> dict[str, Any]:
    """The four answers at one length (None: open), the outcome, and what it rests on."""
    linear, softmax = (runs[runs.attention == name] for name in ("linear", "softmax"))
    learnt = [(one.token_accuracy >= LEARNT) & ~one.stopped for one in (linear, softmax)]
    pair, updates = compared(runs), int(runs.updates.max())
    reached, times = base.below(pair.low, pair.high, MARGIN), factor(runs)
    same = None if times["low"] is None else base.below(times["low"], times["high"], FACTOR)
    rates = stability(runs).set_index("attention").spikes_per_1000.to_dict()
    stopped, seeds = int(linear.stopped.sum()), len(set(linear.seed) & set(softmax.seed))
    cell = {
        "length": int(runs.length.iloc[0]), "seeds": seeds,
        "updates": updates, "published_updates": published_updates,
        "linear_learnt": [int(learnt[0].sum()), len(linear)],
        "softmax_learnt": [int(learnt[1].sum()), len(softmax)],
        "exact_match": runs.groupby("attention", sort=False).exact_match.median().to_dict(),
        "final_loss": runs.groupby("attention", sort=False).final_loss.median().to_dict(),
        "linear_stopped": stopped,
        "above_lowest": float(linear.above_lowest.max()) if len(linear) else 0.0,
        "spikes_per_1000": rates, "difference": pair.as_dict(), "factor": times,
        "spike_interval": spike_interval(linear),
        "spikes_allowed": max(numbers.MOST_SPIKES, spike_interval(softmax)[1]),
    }  # fmt: skip
    early, some_learnt = updates < published_updates, any(one.mean() > 0.5 for one in learnt)
    asked = {  # a run that stopped will never converge; one that was cut short might
        "converges": _counts(bool(learnt[0].all()) if len(linear) else None, early and not stopped),
        "reaches": _counts(reached if some_learnt else None, early),  # else it says nothing
        "same_factor": _counts(same if some_learnt else None, early),
        "stable": False if cells.instability(cell) else cells.steady(cell),
    }
    return cell | asked | {"verdict": outcome(seeds, **asked)}


def _counts(answer: bool | None, early: bool) -> bool | None:
    """A no that came too early is no answer."""
    return None if answer is False and early else answer


def outcome(
    seeds: int, converges: bool | None, reaches: bool | None, same_factor: bool | None,
    stable: bool | None,
) -> str:  # fmt: skip
    if seeds < FEWEST_SEEDS:
        return INCONCLUSIVE
    if converges and reaches and same_factor and stable:
        return SUPPORTED
    if converges or reaches:
        return PARTLY
    return NOT if converges is reaches is False else INCONCLUSIVE


def combine(outcomes: Iterable[str]) -> str:
    """Of several lengths: partly if one is at least that; else a no outweighs what is open."""
    if len(found := set(outcomes)) == 1:
        return found.pop()
    return PARTLY if found & {SUPPORTED, PARTLY} else NOT


# Rules: evidence and a claim's numbers in, a verdict out --------------------------------------


def converges(evidence: Any, setting: str) -> Verdict:
    """Does linear attention converge stably, to the loss of softmax, at all lengths?"""
    if not (found := _cells(evidence.settings.get(setting))):
        return _not_run(setting)
    wide = [one | {"width": evidence.wide.study.d_model} for one in _cells(evidence.wide)]
    enough = [one for one in found if one["seeds"] >= FEWEST_SEEDS]
    whole = [one for one in enough if one["updates"] >= one["published_updates"]]
    narrow = whole or enough or found
    decisive = [one for one in wide if one["seeds"] >= FEWEST_SEEDS
                and one["updates"] >= one["published_updates"]] or narrow  # fmt: skip
    words = [*map(cells.sentence, decisive)]
    words += [cells.aside(one) for one in wide + found if one not in decisive]
    outcome = combine(cell["verdict"] for cell in decisive)
    values = {"lengths": found, "wide": wide, "by_width": decisive is not narrow}
    values["decisive"] = [cell["length"] for cell in narrow]
    return Verdict(outcome, " ".join(words), values)


def does_not_converge(evidence: Any, setting: str) -> Verdict:
    """Is linear attention unstable or unlike softmax, length by length?"""
    if not (found := _cells(evidence.settings.get(setting))):
        return _not_run(setting)
    fails = [_fails(cell) for cell in found]
    words = "; ".join(map(cells.failure, fails, found)) + "."
    if not any(cell["stable"] is False for cell in found):
        words += " At no length is linear attention shown to be unstable."
    if certain := [cell for cell in found if cell["same_factor"] is False]:
        words += cells.still(max(certain, key=lambda cell: cell["factor"]["mean"]))
    return Verdict(by_answers(fails), words, {"lengths": found})


def ends_lower(evidence: Any, setting: str, opponent: str) -> Verdict:
    """Is the final loss of linear attention below the opponent's, seed by seed?"""
    if setting not in evidence.settings:
        return _not_run(setting)
    trained, answers, words, values = evidence.settings[setting], [], [], {}
    name = cells.called(opponent)
    against = trained.runs.length[trained.runs.attention == opponent]
    for length, runs in trained.runs[trained.runs.length.isin(against)].groupby("length"):
        published = trained.study.published_updates
        early = bool(runs.updates.max() < published)
        answer, text, values[str(length)] = _lower(differences(runs, opponent).difference, name)
        answers.append(_counts(answer, early))
        few = f" after {runs.updates.max():.0f} of {published} updates" if early else ""
        words.append(f"N = {length}{few}: {text}")
    if not words:
        return Verdict(INCONCLUSIVE, f"No {name} was trained in setting {setting}.", {})
    best, rates = {}, evidence.rates
    if rates is not None:
        means = rates.groupby(["attention", "lr"]).final_loss.mean()
        best, n = means.groupby("attention").min(), rates.seed.nunique()
    if opponent in best:
        if best["linear"] >= best[opponent]:
            answers = [None if answer else answer for answer in answers]
        words.append(
            f"each at the best of {rates.lr.nunique()} learning rates, {n} seed{'s' * (n > 1)}, "
            f"linear ends at {best['linear']:.2g} and {name} at {best[opponent]:.2g}"
        )
        values["at_best_rate"] = {one: float(best[one]) for one in ("linear", opponent)}
    return Verdict(by_answers(answers), "; ".join(words) + ".", values)


def _not_run(setting: str) -> Verdict:
    return base.not_run(f"The setting {setting} has no rows.")


def _cells(trained: Any) -> list[dict[str, Any]]:
    found = trained.runs.groupby("length") if trained else ()
    return [judge(runs, trained.study.published_updates) for _, runs in found]


def _fails(cell: dict) -> bool | None:
    """Not to have shown that C1 holds is no evidence against it."""
    if cell["seeds"] < FEWEST_SEEDS:
        return None
    if False in cells.answers(cell):
        return True
    return False if cell["verdict"] == SUPPORTED else None


def _lower(found: pd.Series, opponent: str) -> tuple[bool | None, str, dict]:
    if (n := len(found)) < FEWEST_SEEDS:
        return None, f"{n} seeds of both, fewer than {FEWEST_SEEDS}", {"seeds": n}
    mean, (low, high) = float(found.mean()), mean_interval(found, 0.05)
    text = f"linear minus {opponent} is {cells.interval(mean, low, high, '95 % interval')})"
    return base.below(low, high), text, {"seeds": n, "mean": mean, "low": low, "high": high}
