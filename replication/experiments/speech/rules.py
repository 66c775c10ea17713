"""Rows -> the verdicts on C11, the order of errors, and C12, who is fastest an epoch."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from replication import stats
from replication.experiments import training
from replication.experiments.base import Verdict, above, by_answers, not_run, signed, within
from replication.experiments.speech import numbers
from replication.experiments.speech.evidence import Evidence
from replication.stats.levels import typical

WORDS = {"softmax": "softmax", "linear": "linear attention", "lsh": "LSH", "bilstm": "the Bi-LSTM",
         "softmax-textbook": "textbook softmax"}  # fmt: skip
NAMES = {"softmax": "Softmax", "linear": "Linear", "lsh": "LSH", "bilstm": "Bi-LSTM"}


# C11: the order of errors -----------------------------------------------------------------------


def errors_in_order(evidence: Evidence, order: list[str]) -> Verdict:
    """Neighbours in the published order, compared by pairs of runs of one seed."""
    if evidence.czech.test_error.isna().all():
        return not_run("No model was trained on real speech.")
    asked = list(pairwise(order))
    found = [_pair(evidence.czech, better, worse) for better, worse in asked]
    outcome = by_answers([one["answer"] for one in found])
    rates = evidence.czech.groupby("model").test_error.mean().dropna()
    there = [model for model in order if model in rates]
    levels = ", ".join(f"{WORDS[model]} {100 * rates[model]:.1f} %" for model in there)
    beside = [_pair(evidence.czech, *pair) for pair in pairwise(there) if pair not in asked]
    said = "; ".join(one["said"] for one in found) + ". "
    said += "".join(f"Of those that were trained, {one['seen']}, which the rule does not ask. "
                    for one in beside if "seen" in one)  # fmt: skip
    text = f"Phoneme error rates: {levels}. {said[0].upper()}{said[1:].rstrip()}"
    values = {"pairs": found, "error_rates": rates.to_dict()}
    return Verdict(outcome, _fewest(rates, order) + text, values)


def _fewest(rates: pd.Series, order: list[str]) -> str:
    """Who makes the fewest errors here, beside the published order; nothing to say of one model."""
    if len(rates) < 2:
        return ""
    name = WORDS[rates.idxmin()]
    theirs = {order[0]: ", as in the paper", order[-1]: "; in the paper it makes the most"}
    text = f"{name[0].upper()}{name[1:]} makes the fewest errors here"
    return f"{text}{theirs.get(rates.idxmin(), '')}. "


def _pair(runs: pd.DataFrame, better: str, worse: str) -> dict[str, Any]:
    """Does ``worse`` make more errors? Open with few seeds, or where a model has hardly learnt."""
    wide = training.paired(runs[~runs.stopped], "test_error", [better, worse], of="model")
    difference, seeds = wide[worse] - wide[better], len(wide)
    names, head = f"{WORDS[worse]} minus {WORDS[better]}", {"better": better, "worse": worse}
    head |= {"seeds": seeds, "answer": None}
    if seeds < numbers.FEWEST_SEEDS:
        absent = [WORDS[name] for name in (better, worse) if name not in set(runs.model)]
        why = f"as {absent[0]} was not trained" if absent else \
              f"with {seeds} seeds of {numbers.FEWEST_SEEDS}"  # fmt: skip
        return head | {"said": f"{names} is open {why}"}
    mean, (low, high) = float(difference.mean()), stats.mean_interval(difference, 0.05)
    points = [signed(100 * x, 1) for x in (mean, low, high)]
    text = "{} is {} points (95 % interval {} to {})".format(names, *points)
    head |= {"mean": mean, "low": low, "high": high, "seen": text}
    if wide.mean().max() > numbers.MOST_ERROR:
        most = f"more than {100 * numbers.MOST_ERROR:.0f} errors in 100 phonemes"
        return head | {"said": f"{text}, open as one of them makes {most}"}
    return head | {"answer": above(low, high), "said": text}


# C12: who is fastest ------------------------------------------------------------------------------


def fastest_an_epoch(evidence: Evidence, opponents: list[str], at: int) -> Verdict:
    """A training step of published size at the paper's mean length, which makes up its epochs."""
    found = ratios(evidence.times, "train")
    here = found[at == found.N].set_index("contender")
    missing = [name for name in opponents if name not in here.index]
    if missing:
        return not_run(f"No training step at {at} frames of {missing[0]} was timed.")
    rows = [here.loc[name] for name in opponents]
    answers = [within(row.low, row.high, 1.0, math.inf) for row in rows]
    parts = [f"{WORDS[row.name]} takes {row.ratio:.2f} times as long as linear attention"
             f"{_interval(row)}" for row in rows]  # fmt: skip
    text = f"At {at} frames {'; '.join(parts)}. It is shown to be the fastest of the four "
    values = {"ratios": found.to_dict("records"), "from": fastest_from(found, opponents)}
    return Verdict(by_answers(answers), f"{text}{since(found, opponents)}.", values)


def _interval(row: pd.Series) -> str:
    if np.isnan(row.low):
        return " (too few runs for an interval)"
    return f" ({row.low:.2f} to {row.high:.2f})"


def typical_times(times: pd.DataFrame, direction: str) -> pd.Series:
    """By contender and N, in ms, over runs; where these are too few, of all undisturbed repeats."""
    rows = times[times.direction == direction]
    calm = rows[~rows.disturbed.astype(bool)].groupby(["contender", "N"]).time_ms
    found = calm.agg(typical).reindex(rows.groupby(["contender", "N"]).size().index)
    return found if rows.empty else stats.location(rows).value.reindex(found.index).fillna(found)


def ratios(times: pd.DataFrame, direction: str) -> pd.DataFrame:
    """contender, N, ratio, low, high: its time over that of linear attention, by the estimator of
    all times; without an interval where runs are too few for one."""
    rows, found = times[times.direction == direction], {}
    level = typical_times(times, direction)
    for name in rows.contender.unique():
        if name != "linear":
            plain = (level[name] / level["linear"]).dropna()
            found[name] = stats.ratios(rows, "linear", name).reindex(plain.index)
            found[name]["value"] = found[name].value.fillna(plain)
    if not found:
        return pd.DataFrame(columns=["contender", "N", "ratio", "low", "high"])
    table = pd.concat(found, names=["contender"]).drop(columns="units").reset_index()
    return table.rename(columns={"value": "ratio"})


def fastest_from(found: pd.DataFrame, opponents: list[str]) -> int | None:
    """The shortest measured length from which on every opponent takes longer, by the interval."""
    slower = found[found.contender.isin(opponents)].groupby("N").low.min()[::-1] > 1
    longer = slower.index[slower.cummin().astype(bool)]
    return int(longer[-1]) if len(longer) else None


def since(found: pd.DataFrame, opponents: list[str]) -> str:
    """The same in words. The shortest length that was measured need not be where it begins."""
    first = fastest_from(found, opponents)
    if first is None:
        return "at no length that was measured"
    at_all = first == found[found.contender.isin(opponents)].N.min()
    return f"{'at every length measured, ' if at_all else ''}from {first} frames on"


# Tables -------------------------------------------------------------------------------------------


def by_length(times: pd.DataFrame) -> pd.DataFrame:
    """A column a contender: by length the seconds of an epoch of the paper's 80 hours, were they
    cut into utterances so long, and the real-time factor."""
    heard, found = numbers.WSJ_HOURS * 3.6 * numbers.FRAMES_A_SECOND, {}
    for title, way, scale in (("s an epoch", "train", heard), ("real-time factor", "infer", 0.1)):
        level = typical_times(times, way).unstack("contender")
        level = level.reindex(columns=times.contender.unique())
        found[title] = level.mul(scale / level.index, axis=0)
    return pd.concat(found)


def table_3(evidence: Evidence, at: int) -> pd.DataFrame:
    """The paper's Table 3 beside ours: errors of what was trained; times at the paper's sizes, in
    utterances of ``at`` frames, of softmax the textbook form, as the paper had it."""
    titles = ["paper_error", "paper_seconds"]
    found = pd.DataFrame.from_dict(numbers.TABLE_3, orient="index", columns=titles)
    found.index.name = "model"
    runs = evidence.czech.groupby("model")
    found["seeds"] = runs.size().reindex(found.index, fill_value=0)
    found[["error", "beam_error"]] = 100 * runs[["test_error", "beam_error"]].mean()
    here = by_length(evidence.times).query("N == @at").droplevel("N").T
    here = here.drop("softmax", errors="ignore").rename({"softmax-textbook": "softmax"})
    here = here.reindex(found.index, columns=["s an epoch", "real-time factor"])
    return found.assign(seconds=here["s an epoch"], real_time_factor=here["real-time factor"])


def overview(evidence: Evidence) -> pd.DataFrame:
    """The same in words, a row a model; seconds as multiples of those of linear attention, too."""
    found = table_3(evidence, numbers.WSJ_FRAMES)
    ours, theirs = (found[name] / found[name]["linear"] for name in ("seconds", "paper_seconds"))
    return pd.DataFrame(
        {"Model": NAMES[model], "Errors, paper (%)": f"{row.paper_error:.2f}",
         "Errors, here (%)": _known(row.error, ".1f", f" ({row.seeds:.0f})"),
         "By beam (%)": _known(row.beam_error, ".1f"),
         "Epoch, paper (s)": f"{row.paper_seconds:.0f} ({theirs[model]:.2f} times)",
         "Epoch, here (s)": _known(row.seconds, ".0f", f" ({ours[model]:.2f} times)"),
         "Real-time factor": _known(row.real_time_factor, ".3f")}
        for model, row in found.iterrows()
    )  # fmt: skip


def _known(value: float, form: str, after: str = "") -> str:
    return "–" if math.isnan(value) else f"{value:{form}}{after}"
