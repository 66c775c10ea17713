"""Rows -> what each suspect explains, and the verdicts on E3 to E5.

A suspect's verdict is one of ``WORDS``. What was not run has none.
"""

from math import isfinite, isnan
from typing import Any

import numpy as np
import pandas as pd

from replication.experiments.base import Verdict, by_answers, listed, not_run, signed, within
from replication.experiments.crossover.earlier import Fitted, earlier_crossover
from replication.experiments.crossover.numbers import EARLIER_ENDS, EARLIER_STEPS, TABLE_1
from replication.experiments.earlier.numbers import (
    ALL,
    BATCH_FACTOR,
    CONVERGENCE,
    DOUBLE_SLOWER,
    NONE,
    PUBLISHED_UPDATES,
    SPEED,
    Suspect,
    double_seconds,
)
from replication.experiments.timing import undecided_in_smoke
from replication.stats import location
from replication.stats.intervals import LEVEL
from replication.stats.levels import TIME, levels, over_units

WORDS = ("explains", "contributes", "does not")
MISLEADS, OPEN = "misleads", "open"
CALLED = {WORDS[-1]: "does not explain", OPEN: "stays open"}
"""To readers."""
OF_SEVERAL = {"explains": "explain it", "contributes": "contribute",
              "misleads": "mislead, by low losses that are no copies",
              "does not": "do not explain it", "open": "stay open"}  # fmt: skip
OF_ONE = CALLED | {"explains": "explains it", "does not": "does not explain it",
                   "misleads": "misleads, by a low loss that is no copy"}  # fmt: skip
LENGTHS = TABLE_1["N"]


def verdict_of(share: float, explains: float, contributes: float) -> str:
    if isnan(share):
        return OPEN
    return WORDS[0] if share >= explains else WORDS[1] if share >= contributes else WORDS[2]


# Convergence ----------------------------------------------------------------------------------


def losses(runs: pd.DataFrame) -> pd.DataFrame:
    """By attention, length and suspect: medians over seeds, and where their curve ends."""
    names = ["loss", "accuracy", "free_symbols", "free_words", "updates", "batch"]
    runs = runs.astype(dict.fromkeys(names, float))  # also where there is none
    found = runs.groupby(["attention", "length", "suspect"], sort=False)[names].median()
    found = found.reset_index()
    found["theirs"] = [EARLIER_ENDS.get(n, {}).get(a, np.nan)
                       for a, n in zip(found.attention, found.length, strict=True)]  # fmt: skip
    return found


def shares(found: pd.DataFrame, margin: float, learnt: float) -> pd.DataFrame:
    """Of each suspect alone, a row a curve: its part of the way from our loss to theirs, where that
    ends so much higher; and what of its accuracy is gone without help, where it has learnt."""
    ours = found[found.suspect == NONE].set_index(["attention", "length"]).loss
    alone = found[found.suspect.isin(CONVERGENCE)].copy()
    base = [ours.get(key, np.nan) for key in zip(alone.attention, alone.length, strict=True)]
    gap = (alone.theirs - base).where(lambda x: x > margin)
    borrowed = (alone.accuracy - alone.free_symbols).where(alone.accuracy >= learnt, 0.0)
    return alone.assign(share=(alone.loss - base) / gap, borrowed=borrowed)


def convergence_verdicts(
    runs: pd.DataFrame, margin: float, explains: float, contributes: float, learnt: float
) -> dict[str, dict[str, Any]]:
    """By suspect that was tried: its share, the most it borrows, and the verdict."""
    found = shares(losses(runs), margin, learnt)
    verdicts = {}
    for name, mine in found.groupby("suspect"):
        share, borrowed = float(mine["share"].median()), float(mine.borrowed.max())
        verdict = verdict_of(share, explains, contributes)
        if borrowed >= contributes and verdict in (WORDS[-1], OPEN):
            verdict = MISLEADS
        known = share if isfinite(share) else None  # JSON knows no NaN
        verdicts[name] = {"share": known, "borrowed": borrowed, "verdict": verdict}
    return {name: verdicts[name] for name in CONVERGENCE if name in verdicts}


def explains_convergence(
    evidence: Any, margin: float, explains: float, contributes: float, learnt: float
) -> Verdict:
    """E3: with all switches on, do losses end where theirs end?"""
    found = losses(evidence.runs)
    every = found[(found.suspect == ALL) & found.theirs.notna()]
    every = every.sort_values(["length", "attention"], ascending=[True, False])
    if every.empty:
        return not_run("No model with all switches on was trained.")
    base = found[found.suspect == NONE].set_index(["attention", "length"]).loss
    ours = every.join(base.rename("ours"), on=["attention", "length"]).ours
    asked = every[~(abs(every.theirs - ours) <= margin)]
    near = abs(asked.loss - asked.theirs) <= margin
    early = asked.updates < PUBLISHED_UPDATES
    answers = [True if yes else None if soon else False
               for yes, soon in zip(near, early, strict=True)]  # fmt: skip
    each = convergence_verdicts(evidence.runs, margin, explains, contributes, learnt)
    ends = ", ".join(f"{one.attention} at {one.loss:.2f} for N = {one.length} (theirs "
                     f"{one.theirs:.2f})" for one in asked.itertuples())  # fmt: skip
    text = (f"Of their {len(every)} curves {len(asked)} end elsewhere than ours do with no switch "
            f"on; with all switches on, {sum(near)} of these end where theirs do{': ' * bool(ends)}"
            f"{ends}, in nats per token. ")  # fmt: skip
    text += _in_words(each, CONVERGENCE)
    values = {"ends": every[["attention", "length", "loss", "theirs"]].to_dict("records"),
              "asked": len(asked), "near": int(sum(near))}  # fmt: skip
    return Verdict(by_answers(answers), text, values | {"suspects": each})


# Speed ----------------------------------------------------------------------------------------


def factors(times: pd.DataFrame) -> pd.DataFrame:
    """By suspect, or all together, and N: how many times as long as without it a step takes, over
    the same for softmax where their softmax has it too; and ours, with and without a mask. Means
    and intervals over runs, NaN where there are too few."""
    wide = levels(times)
    both = wide["softmax forwards"] - wide["softmax open"]
    logs = {name: wide[name] - wide["linear open"] for name in (*SPEED, ALL)}
    logs["forwards"], logs[ALL] = logs["forwards"] - both, logs[ALL] - both
    logs |= {"ours": wide["linear"] - wide["softmax"]}
    logs |= {"open": wide["linear open"] - wide["softmax open"]}
    logs |= {"ratio": wide[ALL] - wide["softmax forwards"]}
    rows = []
    for name, found in logs.items():
        *ends, _ = over_units(found.to_numpy(), LEVEL, TIME)
        rows += zip([name] * found.shape[1], found.columns, *map(np.exp, ends), strict=True)
    return pd.DataFrame(rows, columns=["suspect", "N", "factor", "low", "high"])


def published() -> pd.Series:
    """Their ratio by N: seconds of linear over those of softmax."""
    linear, softmax = (np.array(TABLE_1[name]) for name in ("linear", "softmax"))
    return pd.Series(linear / softmax, LENGTHS)


def on_their_card() -> pd.DataFrame:
    """By N: what double precision makes of a step there, at least, alone (batch of 8) and with the
    batch of 32: the time of its arithmetic at the card's peak over their step of softmax."""
    step = np.array(TABLE_1["softmax"]) / EARLIER_STEPS
    alone, batch = ([max(1.0, double_seconds(N, size) / s) for N, s in zip(LENGTHS, step,
                     strict=True)] for size in (8, 8 * BATCH_FACTOR))  # fmt: skip
    return pd.DataFrame({"alone": alone, "batch": batch, "most": DOUBLE_SLOWER}, LENGTHS)


def speed_verdicts(
    found: pd.DataFrame, explains: float, contributes: float
) -> dict[str, dict[str, Any]]:
    """By suspect: its factors, their part of the way on a logarithmic scale, the verdict."""
    wide = found.pivot(index="N", columns="suspect", values="factor")
    way, verdicts = np.log(published().reindex(wide.index) / wide["open"]), {}
    for name in SPEED:
        share = float((np.log(wide[name]) / way).median())
        verdicts[name] = {"share": share, "factors": wide[name].to_dict(),
                          "verdict": verdict_of(share, explains, contributes)}  # fmt: skip
    return verdicts


def card_verdict(found: pd.DataFrame, explains: float, contributes: float) -> dict[str, Any]:
    """The same for double precision on their card, where its least factor is known."""
    ours = found[found.suspect == "open"].set_index("N").factor
    least = on_their_card().alone.reindex(ours.index)
    share = float((np.log(least) / np.log(published().reindex(ours.index) / ours)).median())
    return {"share": share, "verdict": verdict_of(share, explains, contributes)}


def explains_speed(evidence: Any, factor: float, explains: float, contributes: float) -> Verdict:
    """E4: with all switches on, is the ratio theirs?"""
    if evidence.times.empty:
        return not_run("No training step was timed.")
    found = factors(evidence.times)
    on_cpu = evidence.facts["machine"]["device"] == "cpu"
    answers, words, theirs = [], [], published()
    for row in found[found.suspect == "ratio"].itertuples():
        answer = within(row.low, row.high, theirs[row.N] / factor, theirs[row.N] * factor)
        below = answer is False and row.high < theirs[row.N]
        answers.append(None if below and on_cpu else answer)
        ends = f"95 % interval {row.low:.3g} to {row.high:.3g}; theirs {theirs[row.N]:.3g}"
        words.append(f"{row.factor:.3g} at N = {row.N} ({ends})")
    each = speed_verdicts(found, explains, contributes)
    text = (f"With all switches on, a step of linear attention takes as many times as long as one "
            f"of softmax: {', '.join(words)}. {_in_words(each, SPEED)}")  # fmt: skip
    ratios = found[found.suspect == "ratio"].set_index("N").factor.to_dict()
    values = {"ratios": ratios, "suspects": each}
    values |= {"double on their card": card_verdict(found, explains, contributes)}
    return Verdict(by_answers(undecided_in_smoke(answers, evidence.facts)), text, values)


# Their extrapolation --------------------------------------------------------------------------


def without(found: pd.DataFrame, suspect: str, end: str = "factor") -> Fitted:
    """Their regression of their times, those of linear attention divided by a suspect's factors."""
    by = found[found.suspect == suspect].set_index("N")[end].reindex(LENGTHS).to_numpy()
    return earlier_crossover(table=TABLE_1 | {"linear": np.array(TABLE_1["linear"]) / by})


def moves_the_crossover(evidence: Any, share: float) -> Verdict:
    """E5: where does 3149 go when the suspects are taken out of their times?"""
    if not set(LENGTHS) <= set(evidence.times.N):
        return not_run("Training steps were not timed at all of their lengths.")
    found, limit = factors(evidence.times), share * earlier_crossover().at
    moved = {name: without(found, name).at for name in SPEED}
    most, every = min(moved, key=moved.get), without(found, ALL).at
    ends = [without(found, ALL, end).at for end in ("low", "high")]
    answer = True if ends[0] < limit else False if ends[1] > limit else None
    text = (f"Without the factor that all suspects have here their regression gives "
            f"{_length(every)}. Of the suspects, {SPEED[most].words} moves it most, to "
            f"{_length(moved[most])}.")  # fmt: skip
    finite = {name: at if isfinite(at) else None for name, at in moved.items()}
    values = {"without": finite, "all": every, "ends": ends, "most": most}
    return Verdict(by_answers(undecided_in_smoke([answer], evidence.facts)), text, values)


def _length(at: float) -> str:
    if at == 0:
        return "no crossover: linear attention is faster at every N"
    return f"N = {at:.0f}" if isfinite(at) else "no crossover at all"


# In words -------------------------------------------------------------------------------------


def _in_words(each: dict[str, dict], known: dict[str, Suspect]) -> str:
    """Who explains, contributes, does not, or misleads."""
    groups = {}
    for name, one in each.items():
        groups.setdefault(one["verdict"], []).append(f"“{known[name].words}”")
    said = [f"{listed(groups[word])} {_verb(word, len(groups[word]))}"
            for word in (*WORDS, MISLEADS, OPEN) if word in groups]  # fmt: skip
    return f"Alone, by the rule: {'; '.join(said)}." if said else "No suspect was tried alone."


def _verb(verdict: str, suspects: int) -> str:
    return OF_ONE.get(verdict, verdict) if suspects == 1 else OF_SEVERAL[verdict]


def _way(share: float | None) -> str:
    """A part of the way; 0 is neither +0 nor -0."""
    if share is None:
        return "–"
    percent = float(round(100 * share))
    return f"{signed(percent, 0) if percent else 0} % of the way"


def overview(evidence: Any, convergence: dict, speed: dict) -> pd.DataFrame:
    """A row a suspect; ``convergence`` and ``speed`` are the numbers of claims E3 and E4."""
    rows = []
    for name, one in convergence_verdicts(evidence.runs, **convergence).items():
        seen = _way(one["share"])
        if one["borrowed"] >= convergence["contributes"]:
            seen += f"; without help up to {100 * one['borrowed']:.0f} % of the symbols are lost"
        verdict = CALLED.get(one["verdict"], one["verdict"])
        rows.append((CONVERGENCE[name], "convergence", seen, verdict))
    if len(evidence.times):
        found = factors(evidence.times)
        limits = {name: speed[name] for name in ("explains", "contributes")}
        card, least = card_verdict(found, **limits), on_their_card().alone
        for name, one in speed_verdicts(found, **limits).items():
            span = sorted(one["factors"].values())
            seen = f"factor {span[0]:.2f} to {span[-1]:.2f}"
            verdict = CALLED.get(one["verdict"], one["verdict"])
            if name == "double":
                seen += f"; on their card {least.min():.1f} to {least.max():.1f} at least"
                there = CALLED.get(card["verdict"], card["verdict"])
                verdict += f" (on their card {'too' if there == verdict else there})"
            rows.append((SPEED[name], "speed", seen, verdict))
    return pd.DataFrame(
        {"": one.number, "Suspect": one.words, "Of": of, "Alone": seen, "Verdict": verdict}
        for one, of, seen, verdict in sorted(rows, key=lambda row: row[0].number)
    )


def crossing_table(times: pd.DataFrame) -> pd.DataFrame:
    """By suspect: what their regression says of our steps with it on, and of theirs without it.
    Intervals are those of the fits through four lengths."""
    found, costs = factors(times), location(times).value
    rows = [("none", "linear open", "softmax open", earlier_crossover())]
    for name in (*SPEED, ALL):
        rival = "softmax forwards" if name in ("forwards", ALL) else "softmax open"
        words = SPEED[name].words if name in SPEED else "all together"
        rows.append((words, name, rival, without(found, name)))
    return pd.DataFrame(
        {"Suspect": words, "Our steps with it": earlier_crossover(table={
            "N": LENGTHS, "linear": costs[ours].reindex(LENGTHS),
            "softmax": costs[rival].reindex(LENGTHS)}).brief(),
         "Their times without it": theirs.brief()}
        for words, ours, rival, theirs in rows
    )  # fmt: skip
