"""Rows of the benchmark -> the tables of notebook 04, and the verdicts on its claims."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import pandas as pd

from replication.attention.authors import ABSENT
from replication.experiments import base
from replication.experiments.base import (
    INCONCLUSIVE,
    NOT,
    PARTLY,
    SUPPORTED,
    Verdict,
    apart,
    within,
)
from replication.experiments.scaling.contenders import CELL, words
from replication.experiments.scaling.numbers import LAYER
from replication.experiments.scaling.run import Evidence
from replication.stats import Exponent, TooFewError, ask, growth_exponent, location, ratios
from replication.stats.crossing import measured_crossover

QUANTITIES = ("time_ms", "peak_bytes")
KIND = ["subject", "direction", "causal", "clock"]
PRECISE = 0.10
"""A ratio is precise if its 95 % interval is at most ± this."""
FEWEST_JUDGED = 4
"""Lengths of an exponent by which a claim is judged."""
SLOW = 0.10
"""A host is seen to slow a repeat if the small product beside it takes so much longer."""
KERNELS = {"linear": "our kernel", "authors": "the authors' kernel"}


# What was measured -------------------------------------------------------------------------


def disturbed(rows: pd.DataFrame) -> str:
    """What other programs did meanwhile."""
    timed = rows[rows["status"] == "measured"]
    waiting = timed["wait_ms"].clip(lower=0).sum() / timed["wall_ms"].sum()
    return (
        f"{timed['disturbed'].mean():.0%} of {len(timed)} repeats were disturbed and made again, "
        f"and the thread waited for its core {waiting:.0%} of the time"
    )


def slowed(rows: pd.DataFrame) -> tuple[float, float, float]:
    """How slow the host was: how many times its quiet time the small product of known cost took, at
    least and at most (medians of runs), and the share of undisturbed repeats that saw it slow."""
    calm = rows[(rows["status"] == "measured") & ~rows["disturbed"].astype(bool)]
    by_run = calm.groupby("run")["slowed"].median()
    return float(by_run.min()), float(by_run.max()), float((calm["slowed"] > 1 + SLOW).mean())


def precision(rows: pd.DataFrame) -> pd.DataFrame:
    """Every ratio to linear attention, with its half-width and whether that is precise."""
    found = []
    for key, own in rows.groupby(KIND, sort=False):
        for name in set(own["contender"]) - {"linear"}:
            if (table := ask(ratios, own, "linear", name)) is not None:
                half = (table["high"] / table["low"]) ** 0.5 - 1
                found += [dict(zip(KIND, key, strict=True)) | {"contender": name, "N": N, "half": x}
                          for N, x in half.items()]  # fmt: skip
    table = pd.DataFrame(found, columns=[*KIND, "contender", "N", "half"])
    return table.assign(precise=table["half"] <= PRECISE)


def left_out(rows: pd.DataFrame) -> pd.DataFrame:
    """By subject, contender and cause: how many cells no run has, where, and the first reason."""
    never = rows["status"].eq("skipped").groupby([rows[c] for c in CELL]).transform("all")
    skipped = rows[never].drop_duplicates([*CELL])
    cause = skipped["reason"].str.extract(r"^(time|memory):", expand=False).fillna("not available")
    found = skipped.groupby(["subject", "contender", cause.rename("for want of")])
    return found.agg(
        cells=("N", "size"), shortest=("N", "min"), longest=("N", "max"), first=("reason", "first")
    )


def exponents(rows: pd.DataFrame, shortest: int) -> pd.DataFrame:
    """Of every contender of one layer and quantity; without those of which lengths are too few."""
    found = [
        {"contender": name, "quantity": what} | vars(x)
        for name, what in product(rows["contender"].unique(), QUANTITIES)
        if (x := ask(growth_exponent, rows, name, what, shortest=shortest))
    ]
    return pd.DataFrame(found, columns=["contender", "quantity", *Exponent.__dataclass_fields__])


def longest_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """How many times the cost of linear attention the others', at the longest N of both."""
    found = []
    others = rows.loc[rows["contender"] != "linear", "contender"].unique()
    for name, what in product(others, QUANTITIES):
        last = ratios(rows, "linear", name, what).dropna().tail(1).reset_index()
        found += last.assign(contender=name, quantity=what).to_dict("records")
    return pd.DataFrame(found, columns=["contender", "quantity", "N", "value", "low", "high"])


def steps(rows: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds of a whole training step by model and N, ours beside the earlier ones.

    A step has the largest batch of its model, the published one; where a smaller batch was
    measured it is scaled up. ``published`` has contender, N, step_ms, for the model ``earlier``.
    """
    found = [published.assign(subject="earlier", where="published")]
    for subject, own in rows[rows["subject"] != LAYER].groupby("subject"):
        table = location(own).reset_index().rename(columns={"value": "step_ms"})
        table["step_ms"] *= own["batch"].max()
        found.append(table.assign(subject=subject, where="here"))
    return pd.concat(found).pivot_table("step_ms", ["subject", "N"], ["where", "contender"])


def linear_over(table: pd.DataFrame) -> pd.DataFrame:
    """How many times as long a step takes with linear attention, from the table of ``steps``."""
    others = [name for name in table if name[1] != "linear" and (name[0], "linear") in table]
    return pd.DataFrame({name: table[name[0], "linear"] / table[name] for name in others})


# Rules -------------------------------------------------------------------------------------


def grows_linearly(
    evidence: Evidence, from_length: int, time: float, memory: float, rival: str, gap: float
) -> Verdict:
    rows, margins = evidence.layer, {"time_ms": time, "peak_bytes": memory}
    if evidence.refused:
        return Verdict(INCONCLUSIVE, evidence.refused, {})
    table = exponents(rows, from_length).set_index(["contender", "quantity"])
    values = {name: {what: table.loc[name, what].to_dict() for what in margins
                     if (name, what) in table.index} for name in ("linear", rival)}  # fmt: skip
    ours, theirs = values["linear"], values[rival]
    if any(len(found) < 2 or found["time_ms"]["lengths"] < FEWEST_JUDGED - (found is theirs)
           for found in (ours, theirs)):  # fmt: skip
        text = f"From {from_length} on too few lengths have times: {FEWEST_JUDGED} are needed of "
        return Verdict(INCONCLUSIVE, f"{text}linear attention, and 3 of textbook softmax.", values)
    linear = [within(ours[what]["low"], ours[what]["high"], 1 - margin, 1 + margin)
              for what, margin in margins.items()]  # fmt: skip
    apart = [within(theirs[w]["low"] - ours[w]["high"], theirs[w]["high"] - ours[w]["low"], gap,
                    math.inf) for w in margins]  # fmt: skip
    said = " ".join(_growth(*found) for found in values.items())
    return Verdict(_by_growth(linear, apart), said, values)


def _by_growth(linear: list[bool | None], apart: list[bool | None]) -> str:
    """What is open makes no claim half true: that takes a yes and a no."""
    if all([*linear, *apart]):
        return SUPPORTED
    if linear == [False, False]:
        return NOT
    return PARTLY if any(linear) and False in [*linear, *apart] else INCONCLUSIVE


def _growth(contender: str, found: dict[str, dict]) -> str:
    time, memory = found["time_ms"], found["peak_bytes"]
    return (
        f"{words()[contender].capitalize()} needs time as N^{time['value']:.2f} ({time['low']:.2f} "
        f"to {time['high']:.2f}) and memory as N^{memory['value']:.2f}, from N = "
        f"{time['shortest']:.0f} to {time['longest']:.0f}; no time is off its power law "
        f"by more than a factor of {1 + time['misfit']:.3f}."
    )


def faster(evidence: Evidence, opponent: str, from_length: int) -> Verdict:
    """The outcome is of our kernel; the authors' is judged beside it."""
    if evidence.refused:
        return Verdict(INCONCLUSIVE, evidence.refused, {})
    found = {kernel: faster_by(evidence.layer, kernel, opponent, from_length) for kernel in KERNELS}
    ours, theirs = found.values()
    beside = f"By the authors' kernel it is {theirs.outcome}. {theirs.evidence}"
    if "authors" not in set(evidence.layer.contender):
        beside = ABSENT.partition(",")[0] + ", so that only our kernel is judged."
    values = {kernel: {"outcome": one.outcome} | one.values for kernel, one in found.items()}
    return Verdict(ours.outcome, f"{ours.evidence} {beside}", values)


def faster_by(rows: pd.DataFrame, kernel: str, opponent: str, from_length: int) -> Verdict:
    """By one kernel, from this length on."""
    name = words()[opponent]
    long = rows[from_length <= rows.N]
    found = ask(ratios, long, kernel, opponent)
    if found is None or not len(found := found.dropna()):
        text = f"{name} have no length from {from_length} on in common that was timed undisturbed."
        return Verdict(INCONCLUSIVE, f"{KERNELS[kernel].capitalize()} and {text}", {})
    found = found.reset_index()
    answers = [within(x.low, x.high, 1.0, math.inf) for x in found.itertuples()]
    text = _ratio_words(found, name, KERNELS[kernel], answers)
    return Verdict(base.by_answers(answers), text, {"ratios": found.to_dict("records")})


def _times(ratio: float, more: int) -> str:
    """With so many digits more than two or three."""
    return f"{ratio:.{more + (2 if ratio < 2 else 1 if ratio < 10 else 0)}f}"


def _ratio_words(found: pd.DataFrame, name: str, kernel: str, answers: list[bool | None]) -> str:
    """The ratios at the two ends, and where it is not so or not clear."""
    first, *last = found.iloc[[0, -1]].drop_duplicates().itertuples()
    value, low, high = apart((first.value, first.low, first.high), _times)
    parts = [f"{value} times as long as {kernel} at N = {first.N:.0f} (95 % interval {low} to "
             f"{high})"]  # fmt: skip
    for row in last:
        value, *ends = apart((row.value, row.low, row.high), _times)
        parts.append(f"{value} times at N = {row.N:.0f} ({' to '.join(ends)})")
    rest = []
    for word, said in (("the faster", False), ("not shown to be slower", None)):
        N = [f"{N:.0f}" for N, answer in zip(found.N, answers, strict=True) if answer is said]
        rest += [f"; it is {word} at N = {', '.join(N)}"] * bool(N)
    return f"{name[0].upper()}{name[1:]} takes {' and '.join(parts)}{''.join(rest)}."


def leads(verdicts: Mapping[str, tuple[str, Verdict]]) -> pd.DataFrame:
    """The ratios that decided such claims, a row a claim and kernel, at the shortest length and at
    the longest ones. ``verdicts`` has the opponent and the verdict by the claim's id."""
    found = {}
    for id, (opponent, verdict) in verdicts.items():
        by_kernel = {"linear": verdict.values} if "ratios" in verdict.values else verdict.values
        for kernel, one in by_kernel.items():
            if ratios := one.get("ratios"):
                outcome = one.get("outcome", verdict.outcome)
                rival = words()[opponent]
                key = id, rival[0].upper() + rival[1:], kernel, outcome
                found[key] = {int(x["N"]): x for x in ratios}
    ends = {end for own in found.values() for end in (min(own), max(own))}
    rows = []
    for (id, rival, kernel, outcome), own in found.items():
        cells = {f"N = {N}": _interval(own[N]) if N in own else "–" for N in sorted(ends)}
        names = {"Claim": id, "Rival": rival, "Kernel": KERNELS[kernel].replace(" kernel", "")}
        rows.append(names | cells | {"Verdict": outcome})
    return pd.DataFrame(rows)


def _interval(ratio: Mapping[str, Any]) -> str:
    ends = (ratio[name] for name in ("value", "low", "high"))
    return "{} ({} to {})".format(*apart(ends, _times))


def crosses_at(evidence: Evidence, subject: str, opponent: str, at: int, factor: int) -> Verdict:
    rows = evidence.measured
    try:
        found = measured_crossover(rows[rows.subject == subject], "linear", opponent)
    except TooFewError as error:
        return Verdict(INCONCLUSIVE, f"The model's steps cannot be compared: {error}", {})
    if evidence.refused:
        return Verdict(INCONCLUSIVE, evidence.refused, {})
    values = found.ends() | {"longest": found.longest}
    sentence = (
        f"In a training step of a model of the same sizes, {found.sentence(words())}. This is "
        "another program on other hardware than the earlier replication's."
    )
    if math.isinf(found.high) and found.longest < at:
        return Verdict(INCONCLUSIVE, sentence, values)
    answer = within(found.low, found.high, at / factor, float(at * factor))
    return Verdict({True: SUPPORTED, False: NOT, None: PARTLY}[answer], sentence, values)
