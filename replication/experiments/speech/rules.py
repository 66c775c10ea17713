"""Rows -> the verdicts on C11, the order of errors, and C12, who is fastest an epoch."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from replication.experiments.base import Verdict, by_answers, not_run, within
from replication.experiments.speech.evidence import Evidence
from replication.experiments.speech.numbers import (
    FEWEST_SEEDS,
    FRAMES_A_SECOND,
    MOST_ERROR,
    TABLE_3,
    WSJ_FRAMES,
    WSJ_HOURS,
)
from replication.stats import mean_interval, median_interval

WORDS = {"softmax": "softmax", "linear": "linear attention", "lsh": "LSH", "bilstm": "the Bi-LSTM",
         "softmax-textbook": "textbook softmax"}  # fmt: skip
NAMES = {"softmax": "Softmax", "linear": "Linear", "lsh": "LSH", "bilstm": "Bi-LSTM"}


# C11: the order of errors -----------------------------------------------------------------------


def errors_in_order(evidence: Evidence, order: list[str]) -> Verdict:
    """Neighbours in the published order, compared by pairs of runs of one seed."""
    if evidence.czech.test_error.isna().all():
        return not_run("No model was trained on real speech.")
    found = [_pair(evidence.czech, better, worse) for better, worse in pairwise(order)]
    outcome = by_answers([one["answer"] for one in found])
    rates = evidence.czech.groupby("model").test_error.mean()
    levels = ", ".join(f"{WORDS[m]} {100 * rates[m]:.1f} %" for m in order if m in rates)
    said = "; ".join(one["said"] for one in found)
    return Verdict(outcome, f"Phoneme error rates: {levels}. {said[0].upper()}{said[1:]}.",
                   {"pairs": found, "error_rates": rates.to_dict()})  # fmt: skip


def _pair(runs: pd.DataFrame, better: str, worse: str) -> dict[str, Any]:
    """Does ``worse`` make more errors? Open with few seeds, or where a model has hardly learnt."""
    wide = runs[~runs.stopped].pivot(index="seed", columns="model", values="test_error")
    wide = wide.reindex(columns=[better, worse]).dropna()
    difference, seeds = wide[worse] - wide[better], len(wide)
    names, head = f"{WORDS[worse]} minus {WORDS[better]}", {"better": better, "worse": worse}
    head |= {"seeds": seeds, "answer": None}
    if seeds < FEWEST_SEEDS:
        return head | {"said": f"{names} is open with {seeds} seeds of {FEWEST_SEEDS}"}
    low, high = mean_interval(difference, 0.05)
    text = (f"{names} is {_points(difference.mean())} points (95 % interval {_points(low)} to "
            f"{_points(high)})")  # fmt: skip
    head |= {"mean": float(difference.mean()), "low": low, "high": high}
    if wide.mean().max() > MOST_ERROR:
        most = f"more than {100 * MOST_ERROR:.0f} errors in 100 phonemes"
        return head | {"said": f"{text}, open as one of them makes {most}"}
    return head | {"answer": True if low > 0 else False if high < 0 else None, "said": text}


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "\N{MINUS SIGN}")


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
    first = fastest_from(found, opponents)
    since = f"from {first} frames on" if first else "at no length that was measured"
    text = f"At {at} frames {'; '.join(parts)}. It is shown to be the fastest of the four {since}."
    return Verdict(by_answers(answers), text, {"ratios": found.to_dict("records"), "from": first})


def _interval(row: pd.Series) -> str:
    if np.isnan(row.low):
        return " (too few rounds for an interval)"
    return f" ({row.low:.2f} to {row.high:.2f})"


def ratios(times: pd.DataFrame, direction: str) -> pd.DataFrame:
    """contender, N, ratio, low, high: its time over that of linear attention in the same round."""
    rows = []
    for N, group in times[times.direction == direction].groupby("N"):
        wide = group.pivot(index="round", columns="contender", values="time_ms")
        for name in wide.columns.drop("linear", errors="ignore"):
            values = median_interval((wide[name] / wide.linear).to_numpy())
            rows.append((name, int(N), *values))
    return pd.DataFrame(rows, columns=["contender", "N", "ratio", "low", "high"])


def fastest_from(found: pd.DataFrame, opponents: list[str]) -> int | None:
    """The shortest measured length from which on every opponent takes longer, by the interval;
    None if there is none."""
    slower = found[found.contender.isin(opponents)].groupby("N").low.min()[::-1] > 1
    longer = slower.index[slower.cummin().astype(bool)]
    return int(longer[-1]) if len(longer) else None


# Tables -------------------------------------------------------------------------------------------


def table_3(evidence: Evidence, an_epoch: float, at: int) -> pd.DataFrame:
    """The paper's Table 3 beside ours: errors of what was trained, seconds an epoch at its sizes.

    ``an_epoch`` is how many utterances of ``at`` frames make an epoch of the paper's corpus. The
    smallest time of all rounds is taken: other programs can only make a repeat longer.
    """
    times, rows = evidence.times, []
    steps = times[(times.direction == "train") & (at == times.N)].groupby("contender").time_ms.min()
    heard = times[(times.direction == "infer") & (at == times.N)].groupby("contender").time_ms.min()
    rates = evidence.czech.groupby("model")[["test_error", "beam_error"]].agg(["mean", "size"])
    for model, (error, seconds) in TABLE_3.items():
        timed = "softmax-textbook" if model == "softmax" else model
        known = model in rates.index
        rows.append({
            "model": model, "paper_error": error, "paper_seconds": seconds,
            "seeds": int(rates.loc[model, ("test_error", "size")]) if known else 0,
            "error": 100 * rates.loc[model, ("test_error", "mean")] if known else math.nan,
            "beam_error": 100 * rates.loc[model, ("beam_error", "mean")] if known else math.nan,
            "seconds": steps.get(timed, math.nan) * an_epoch / 1e3,
            "real_time_factor": heard.get(timed, math.nan) / (10 * at),
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("model")


def overview(evidence: Evidence) -> pd.DataFrame:
    """The same in words, a row a model; seconds as multiples of those of linear attention, too."""
    found = table_3(evidence, WSJ_HOURS * 3600 * FRAMES_A_SECOND / WSJ_FRAMES, WSJ_FRAMES)
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
