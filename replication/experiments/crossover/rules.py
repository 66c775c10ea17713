"""Rows -> what is said: one answer, and all crossovers that were measured."""

from collections.abc import Mapping
from itertools import combinations
from math import isfinite, isnan
from operator import itemgetter
from typing import Any

import pandas as pd

from replication.attention import contenders as cards
from replication.attention import look_of
from replication.experiments.crossover.numbers import is_generation, is_usual
from replication.experiments.crossover.run import CONTENDER, RIVALS, cause, is_busy
from replication.experiments.scaling.contenders import kinds, words
from replication.experiments.scaling.numbers import Scaling
from replication.experiments.scaling.rules import KERNELS, disturbed, left_out
from replication.experiments.scaling.run import Evidence
from replication.measure.rounds import TooBusyError
from replication.stats import NOUNS, Measured, ask, brief, location, measured_crossover, rounded
from replication.stats.levels import typical
from replication.store import Result

VERSION = 1
"""Of what ``answer`` returns; answer.schema.json describes it."""
WORK = {"training": "training", "forward": "running", "generation": "writing tokens by"}


# One question ---------------------------------------------------------------------------------


def answer(scaling: Scaling, evidence: Evidence) -> dict:
    """What was asked, what was found, and on what it rests; a paragraph for people.

    JSON has no infinity: a crossover's ``status`` says what a null stands for.
    """
    rows, machine = evidence.measured, evidence.facts["machine"]
    asked = [(*pair, what) for what in NOUNS for pair in pairs(scaling, rows)]
    found = [x for one in asked if (x := ask(measured_crossover, rows, *one))]
    _check(scaling, found, evidence)
    open_pairs = [x for x in found if _is_unsure(x, evidence)]
    found = [x for x in found if not _is_cut(x, evidence) and x not in open_pairs]
    setting = {name: getattr(scaling, name) for name in ("heads", "head_dim", "dtype", "threads")}
    batches = {str(N): int(batch) for N, batch in rows.groupby("N").batch.first().items()}
    return {
        "version": VERSION,
        "setting": {"mode": scaling.directions[0], "causal": scaling.causal[0]} | setting,
        "batch": batches,
        "machine": {name: machine[name] for name in ("processor", "cores", "load", "device")},
        "crossovers": [_as_dict(crossover) for crossover in found],
        "withheld": [{"contender": x.contender, "opponent": x.opponent,
                      "reason": _beside(evidence)} for x in open_pairs],
        "lengths": sorted(int(N) for N in rows["N"].unique()),
        "runs": evidence.runs,
        "disturbed": float(evidence.rows["disturbed"].astype(float).mean()),
        "skipped": left_out(evidence.rows).reset_index().to_dict("records"),
        "paragraph": _paragraph(scaling, evidence, found, open_pairs),
    }  # fmt: skip


def pairs(scaling: Scaling, rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Every kernel with every rival; of other questions every two, who grows less with N first."""
    there = set(rows["contender"])
    if is_usual(scaling):
        return [(kernel, rival) for kernel in KERNELS if kernel in there for rival in RIVALS]
    named = sorted((name for name in scaling.contenders if name in there),
                   key=lambda name: _growth(scaling, name))  # fmt: skip
    return list(combinations(named, 2))


def _growth(scaling: Scaling, name: str) -> tuple[int, int]:
    card = cards()[name].mechanism
    if not is_generation(scaling):
        return card.time_power, card.order
    kinds = {"state": 0, "cache": 1}
    return (kinds[card.memory.kind] if card.memory else 2), card.order


def _check(scaling: Scaling, found: list[Measured], evidence: Evidence) -> None:
    """No answer is better than one that want of time has cut short."""
    own = [x for x in found if x.quantity == "time_ms"]
    own = [x for x in own if x.contender == CONTENDER or not is_usual(scaling)]
    enough = any if is_usual(scaling) else all
    if own and enough(_is_unsure(x, evidence) for x in own):
        raise TooBusyError(f"No answer: {_beside(evidence)}. Close them, or ask again later.")
    lacking = is_usual(scaling) and RIVALS[0] not in {x.opponent for x in own}
    if lacking or not own or enough(_is_cut(x, evidence) or _is_unsure(x, evidence) for x in own):
        machine = evidence.facts["machine"]
        raise TooBusyError(
            f"No answer: {disturbed(evidence.rows)}, and the time ended before the lengths that "
            f"would tell. {cause(machine['load'][0], machine['cores'])}"
        )


def _is_cut(found: Measured, evidence: Evidence) -> bool:
    """Whether it might cross at lengths for which there was no time."""
    rows = evidence.rows
    missing = rows[rows["reason"].str.startswith("time:") & (rows["N"] > found.longest)]
    either = missing["contender"].isin([found.contender, found.opponent])
    return found.status == "beyond" and bool(either.any())


def _is_unsure(found: Measured, evidence: Evidence) -> bool:
    """Whether other programs may have moved it: where it crosses, or whether it does."""
    moves = found.quantity == "time_ms" and found.status != "below"
    return moves and is_busy(evidence.facts)


def _beside(evidence: Evidence) -> str:
    return (
        f"other programs computed on {evidence.facts['beside']:.0%} of all cores, which can move "
        "where two cross"
    )


def _as_dict(c: Measured) -> dict:
    names = ("contender", "opponent", "quantity", "status", "level", "shortest", "longest")
    return {name: getattr(c, name) for name in names} | c.ends() | {"sentence": c.sentence(words())}


def _paragraph(
    s: Scaling, evidence: Evidence, crossovers: list[Measured], withheld: list[Measured]
) -> str:
    machine = evidence.facts["machine"]
    threads = "one pinned thread" if s.threads == 1 else f"{s.threads} threads"
    which = ", by our kernel" if is_usual(s) else ""
    found = _main(crossovers, evidence, withheld) if is_usual(s) else _joined(crossovers)
    return (
        f"On this machine ({machine['processor']}, {threads}), {WORK[s.directions[0]]} one "
        f"{_mask(s.causal[0])} attention layer with {s.heads} heads of {s.head_dim} in {s.dtype}"
        f"{which}: {found} {_untold(withheld, evidence)}{_basis(evidence)}"
    )


def _untold(crossovers: list[Measured], evidence: Evidence) -> str:
    if not crossovers:
        return ""
    called = words()
    pairs = (f"{called[x.contender]} is faster than {called[x.opponent]}" for x in crossovers)
    return f"It is not said from where on {' and '.join(pairs)}: {_beside(evidence)}. "


def _main(crossovers: list[Measured], evidence: Evidence, withheld: list[Measured]) -> str:
    """Our kernel against both forms of softmax, what to take, and the authors' kernel."""
    labels, ours = words(), [x for x in crossovers if x.contender == CONTENDER]
    first, *others = (crossover.sentence(labels) for crossover in ours)
    found = ". It ".join([first, *(text.removeprefix(labels["linear"] + " ") for text in others)])
    fused = [x for x in ours if (x.opponent, x.quantity) == (RIVALS[0], "time_ms")]
    told = {x.opponent for x in ours if x.quantity == "time_ms"}
    few = [f"There were too few repeats to tell from where on it is faster than {labels[rival]}."
           for rival in RIVALS if rival not in told]  # fmt: skip
    said = [*few, *map(_advice, fused), _by_authors(crossovers, evidence, withheld)]
    return " ".join([f"{found}.", *filter(None, said)])


def _joined(crossovers: list[Measured]) -> str:
    return "; ".join(crossover.sentence(words()) for crossover in crossovers) + "."


def _by_authors(crossovers: list[Measured], evidence: Evidence, withheld: list[Measured]) -> str:
    times = [x for x in crossovers if x.contender == "authors" and x.quantity == "time_ms"]
    if not times and "authors" in set(evidence.measured["contender"]):
        untold = [x for x in withheld if x.contender == "authors"]
        short = "The time was too short to tell from where on the authors' kernel is faster."
        return short if len(untold) < len(RIVALS) else ""
    if not times:
        return "Only our kernel could be asked."
    text = _joined(times)
    return f"{text[0].upper()}{text[1:]}"


def _mask(causal: bool) -> str:
    return "causal" if causal else "bidirectional"


def _advice(time: Measured) -> str:
    """What to choose, by time and against the better form of softmax."""
    if time.status == "below":
        return f"So take linear attention at every length, from N = {time.shortest} on."
    if time.status == "beyond":
        return f"So take fused softmax up to N = {time.longest}, as far as both were measured."
    low, high = time.low, time.high
    if rounded(low) == rounded(high):
        return f"So take fused softmax below N = {rounded(low)} and linear attention above."
    shorter = f"take fused softmax below N = {rounded(low)}" if low else "for short N take either"
    above = f"above N = {rounded(high)}" if isfinite(high) else f"far above N = {time.longest}"
    return f"So {shorter} and linear attention {above}; in between it differs from run to run."


def _basis(evidence: Evidence) -> str:
    lengths = sorted(evidence.measured["N"].unique())
    text = (
        f"Measured at {len(lengths)} lengths from N = {lengths[0]} to {lengths[-1]} in "
        f"{evidence.runs} runs; {disturbed(evidence.rows)}."
    )
    for (_, name, want), one in left_out(evidence.rows).iterrows():
        why = f"for want of {want}" if want in ("time", "memory") else one["first"].rstrip(".")
        text += f" Left out: {words()[name]} from N = {one.shortest} on, {why}."
    return text


def costs(scaling: Scaling, made: Result) -> dict:
    """Of one length: what every contender costs, the cheapest first, and who was left out, why."""
    (group, *_), called, found = kinds(scaling)[0], words(), []
    rows = made.rows[made.rows.status == "measured"]
    left = made.rows[made.rows.status == "skipped"].set_index("contender").reason.to_dict()
    times = location(rows).droplevel("N") * group.batch
    for name, mine in rows.groupby("contender"):
        if (clean := mine.time_ms[~mine.disturbed.astype(bool)]).empty:
            left[name] = f"load: other programs disturbed all of its {len(mine)} repeats"
            continue
        ms, *ends = times.loc[name][["value", "low", "high"]]
        ms = group.batch * typical(clean) if isnan(ms) else ms  # too few for an interval
        rest = (*ends, group.batch * mine.peak_bytes.max() / 1e6)
        low, high, MB = (None if isnan(x) else x for x in rest)
        found.append({"attention": called[name], "ms": ms, "from": low, "to": high, "MB": MB})
    found.sort(key=itemgetter("ms"))
    found = [cost | {"times the fastest": cost["ms"] / found[0]["ms"]} for cost in found]
    how = list(made.facts["outcomes"].values())
    if is_busy(made.facts):
        seen = f"Other programs computed on {made.facts['beside']:.0%} of all cores"
        how.append(f"{seen}, which slows some mechanisms more than others.")
    return {"layer": group._asdict(), "costs": found, "how": " ".join(how),
            "left_out": {called[name]: why for name, why in left.items()}}  # fmt: skip


# All that were measured -----------------------------------------------------------------------


def together(found: Evidence, benchmark: Evidence) -> pd.DataFrame:
    """Training a causal layer at all lengths: the crossover's, and the benchmark's beyond them."""
    short, long = found.layer, benchmark.layer
    return pd.concat([short, long[long["N"] > short["N"].max()]], ignore_index=True)


def main_crossovers(rows: pd.DataFrame, kernel: str = CONTENDER) -> dict[str, dict[str, Measured]]:
    """By quantity and opponent, of the rows of ``together``; without those that have none."""
    return {
        what: {name: x for name in RIVALS[::-1]
               if (x := ask(measured_crossover, rows, kernel, name, what))}
        for what in NOUNS
    }  # fmt: skip


def answers(every: Mapping[str, Any]) -> dict[str, str]:
    """The same in words, by both kernels, as far as rows are there that decide."""
    there = [every[name] for name in ("crossover", "scaling") if name in every]
    if not there or any(one.refused for one in there):
        return {}
    rows = together(there[0], there[-1])
    return {f"{KERNELS[kernel]}: less {title} than {look_of(opponent).words}": brief(found)
            for kernel in KERNELS for what, title in NOUNS.items()
            for opponent, found in main_crossovers(rows, kernel)[what].items()}  # fmt: skip


def overview(rows: pd.DataFrame, benchmark: Evidence) -> pd.DataFrame:
    """One row a setting, kernel and opponent; ``rows`` has those of training a causal layer."""
    rest = benchmark.measured
    rest = rest[(rest.subject == "layer") & ~((rest.direction == "training") & rest.causal)]
    parts = {("training", True): rows} | dict(iter(rest.groupby(["direction", "causal"])))
    return pd.DataFrame(
        {"Setting": f"{direction}, {_mask(causal)}",
         "Kernel": KERNELS[kernel], "Against": look_of(opponent).words}
        | {f"Less {title} from": brief(ask(measured_crossover, own, kernel, opponent, quantity))
           for quantity, title in NOUNS.items()}
        for (direction, causal), own in parts.items()
        for kernel in KERNELS
        for opponent in RIVALS[::-1]
        if {kernel, opponent} <= set(own.contender)
    )  # fmt: skip
