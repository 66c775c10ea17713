"""The tests of what attention costs: growth, ratios, crossovers, and one more token."""

import math

import pandas as pd

from replication.claims.claim import Evidence, Verdict
from replication.claims.outcome import by_answers, within
from replication.convergence.rule import INCONCLUSIVE, NOT, PARTLY, SUPPORTED
from replication.crossover import Exponent, growth_exponent, measured_crossover
from replication.crossover.rows import median_interval
from replication.crossover.tables import ratios

FEWEST_LENGTHS = 4
LEVEL = 0.95
NAMES = {"time_ms": "time", "peak_bytes": "memory"}
LABELS = {
    "linear": "linear attention", "softmax": "fused softmax", "softmax-textbook":
    "textbook softmax", "lsh-4": "LSH with 4 rounds",
}  # fmt: skip


def layer(evidence: Evidence) -> pd.DataFrame:
    """The rows that the paper's Figure 1 shows: a causal layer, forward and backward."""
    rows = evidence.scaling
    return rows[(rows.subject == "layer") & (rows.direction == "training") & rows.causal]


# Growth ---------------------------------------------------------------------------------------


def grows_linearly(
    evidence: Evidence, from_length: int, time: float, memory: float, rival: str, gap: float
) -> Verdict:
    rows = layer(evidence)
    reached = sorted(set(rows.N[(rows.contender == "linear") & (from_length <= rows.N)]))
    if len(reached) < FEWEST_LENGTHS:
        text = f"Only {len(reached)} lengths from {from_length} on were measured; "
        return Verdict(INCONCLUSIVE, text + f"{FEWEST_LENGTHS} are needed.", {})
    margins = {"time_ms": time, "peak_bytes": memory}
    ours = {what: growth_exponent(rows, "linear", what, shortest=from_length) for what in margins}
    linear = [within(x.low, x.high, 1 - margins[what], 1 + margins[what])
              for what, x in ours.items()]  # fmt: skip
    theirs = _exponents(rows, rival, from_length)
    apart = theirs and all(theirs[w].value >= ours[w].value + gap for w in margins)
    outcome = PARTLY if all(linear) and not apart else by_answers(linear)
    sentences = [_growth("linear", ours), _growth(rival, theirs)]
    values = {name: {what: _as_dict(x) for what, x in found.items()}
              for name, found in (("linear", ours), (rival, theirs))}  # fmt: skip
    return Verdict(outcome, " ".join(filter(None, sentences)), values)


def _exponents(rows: pd.DataFrame, contender: str, from_length: int) -> dict[str, Exponent]:
    """By quantity; empty where fewer than three lengths were reached."""
    try:
        return {what: growth_exponent(rows, contender, what, shortest=from_length)
                for what in NAMES}  # fmt: skip
    except ValueError:
        return {}


def _growth(contender: str, found: dict[str, Exponent]) -> str:
    if not found:
        return ""
    parts = [f"{NAMES[what]} as N^{x.value:.2f} ({x.low:.2f} to {x.high:.2f})"
             for what, x in found.items()]  # fmt: skip
    x = found["time_ms"]
    lengths = f"from N = {x.shortest} to {x.longest}"
    return f"{LABELS[contender].capitalize()} needs {' and '.join(parts)}, {lengths}."


def _as_dict(x: Exponent) -> dict:
    return {name: getattr(x, name) for name in ("value", "low", "high", "shortest", "longest")}


# Ratios and crossovers ------------------------------------------------------------------------


def faster(evidence: Evidence, opponent: str, from_length: int) -> Verdict:
    rows, name = layer(evidence), LABELS[opponent]
    both = rows[rows.contender.isin(["linear", opponent]) & (from_length <= rows.N)]
    if both.groupby("N").contender.nunique().max() != 2:
        text = f"Linear attention and {name} have no length from {from_length} on in common."
        return Verdict(INCONCLUSIVE, text, {})
    found = ratios(both, "linear", opponent).reset_index()
    answers = [
        within(low, high, 1.0, math.inf) for low, high in zip(found.low, found.high, strict=True)
    ]
    values = {"ratios": found.to_dict("records")}
    return Verdict(by_answers(answers), _ratio_words(found, name, answers), values)


def _ratio_words(found: pd.DataFrame, name: str, answers: list[bool | None]) -> str:
    """The ratios at the two ends, and where it is not so or not clear."""
    first, *last = found.iloc[[0, -1]].drop_duplicates().itertuples()
    parts = [
        f"{_times(first.ratio)} times as long as linear attention at N = {first.N:.0f} (95 % "
        f"interval {_times(first.low)} to {_times(first.high)})",
        *(f"{_times(row.ratio)} times at N = {row.N:.0f} ({_times(row.low)} to {_times(row.high)})"
          for row in last),
    ]  # fmt: skip
    other = [f"{N:.0f}" for N, answer in zip(found.N, answers, strict=True) if not answer]
    rest = f"; not shown to be slower at N = {', '.join(other)}" if other else ""
    return f"{name[0].upper()}{name[1:]} takes {' and '.join(parts)}{rest}."


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def crosses_at(evidence: Evidence, subject: str, opponent: str, at: int, factor: int) -> Verdict:
    rows = evidence.scaling[evidence.scaling.subject == subject]
    try:
        found = measured_crossover(rows, "linear", opponent)
    except ValueError as error:
        return Verdict(INCONCLUSIVE, f"The model's steps cannot be compared: {error}", {})
    low, high = found.low, found.high
    sentence = f"In a training step of the model, {found.sentence(LABELS)}."
    values = {name: _finite(getattr(found, name)) for name in ("at", "low", "high")}
    values["longest"] = found.longest
    if low is None or (math.isinf(high) and found.longest < at):
        return Verdict(INCONCLUSIVE, sentence, values)
    answer = within(low, high, at / factor, float(at * factor))
    outcome = {True: SUPPORTED, False: NOT, None: PARTLY}[answer]
    return Verdict(outcome, sentence, values)


def _finite(x: float | None) -> float | None:
    return None if x is None or math.isinf(x) else x


# One more token -------------------------------------------------------------------------------


def constant_cost(evidence: Evidence, time: float, range: int) -> Verdict:
    rows = evidence.decoding
    ours = rows[rows.contender == "linear"]
    shortest, longest = ours.N.min(), ours.N.max()
    if not longest >= range * shortest:
        text = f"One more token was timed from N = {shortest} to {longest} only."
        return Verdict(INCONCLUSIVE, text, {})
    growth, low, high = _growth_of(ours, int(shortest), int(longest))
    same = ours.state_bytes.nunique() == 1
    answers = [bool(same), within(low, high, -math.inf, 1 + time)]
    state = f"has {ours.state_bytes.iloc[0] / 1e6:.2g} MB at every N" if same else "grows"
    sentence = (
        f"The state {state}; a token after {longest} others takes {growth:.2f} times as long as "
        f"after {shortest} (95 % interval {low:.2f} to {high:.2f})."
    )
    values = {"time_growth": growth, "low": low, "high": high, "same_bytes": bool(same)}
    return Verdict(by_answers(answers), sentence, values)


def _growth_of(rows: pd.DataFrame, shortest: int, longest: int) -> tuple[float, float, float]:
    """Time at the longest over that at the shortest, round by round: the median ratio."""
    times = rows.pivot(index="round", columns="N", values="time_ms")
    return median_interval((times[longest] / times[shortest]).to_numpy(), LEVEL)
