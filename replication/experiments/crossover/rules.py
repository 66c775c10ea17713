"""Rows -> what is said: one answer, and all crossovers that were measured."""

from math import isfinite

import pandas as pd

from replication.attention import look_of
from replication.attention.authors import ABSENT
from replication.experiments.crossover.run import CONTENDER, RIVALS
from replication.experiments.scaling.contenders import words
from replication.experiments.scaling.numbers import Scaling
from replication.experiments.scaling.run import Evidence
from replication.experiments.scaling.tables import KERNELS, disturbed, left_out
from replication.measure.rounds import TooBusyError
from replication.stats import Measured, ask, brief, measured_crossover, rounded

QUANTITIES = {"time_ms": "time", "peak_bytes": "memory"}


# One question ---------------------------------------------------------------------------------


def answer(scaling: Scaling, evidence: Evidence) -> dict:
    """What was asked, what was found, and on what it rests; a paragraph for people.

    JSON has no infinity: a crossover's ``status`` says what a null stands for.
    """
    rows, machine = evidence.measured, evidence.facts["machine"]
    kernels = [kernel for kernel in KERNELS if kernel in set(rows["contender"])]
    asked = [(kernel, rival, what) for what in QUANTITIES for kernel in kernels for rival in RIVALS]
    found = [x for one in asked if (x := ask(measured_crossover, rows, *one))]
    _check(found, evidence)
    setting = {name: getattr(scaling, name) for name in ("heads", "head_dim", "dtype", "threads")}
    return {
        "setting": {"mode": scaling.directions[0], "causal": scaling.causal[0]} | setting,
        "machine": {name: machine[name] for name in ("processor", "cores", "load")},
        "crossovers": [_as_dict(crossover) for crossover in found],
        "lengths": sorted(int(N) for N in rows["N"].unique()),
        "runs": evidence.runs,
        "disturbed": float(evidence.rows["disturbed"].astype(float).mean()),
        "skipped": left_out(evidence.rows).reset_index().to_dict("records"),
        "paragraph": _paragraph(scaling, evidence, found),
    }


def _check(found: list[Measured], evidence: Evidence) -> None:
    """No answer is better than one that want of time has cut short."""
    times = [x for x in found if x.quantity == "time_ms" and x.contender == CONTENDER]
    cut = evidence.rows["reason"].str.startswith("time:")
    if not times or (cut.any() and any(x.status == "beyond" for x in times)):
        load = evidence.facts["machine"]["load"][0]
        raise TooBusyError(
            f"No answer: {disturbed(evidence.rows)}, with a load of {load:.1f} on "
            f"{evidence.facts['machine']['cores']} cores, and the time ended before the lengths "
            "that would tell. Allow more by --seconds, or close what computes beside it."
        )


def _as_dict(c: Measured) -> dict:
    ends = {name: _finite(getattr(c, name)) for name in ("at", "low", "high")}
    names = ("contender", "opponent", "quantity", "status", "level", "shortest", "longest")
    return {name: getattr(c, name) for name in names} | ends | {"sentence": c.sentence(words())}


def _finite(x: float | None) -> float | None:
    return float(x) if x is not None and isfinite(x) else None


def _paragraph(s: Scaling, evidence: Evidence, crossovers: list[Measured]) -> str:
    machine, labels = evidence.facts["machine"], words()
    work = "training" if s.directions[0] == "training" else "running"
    threads = "one pinned thread" if s.threads == 1 else f"{s.threads} threads"
    ours = [x for x in crossovers if x.contender == CONTENDER]
    first, *others = (crossover.sentence(labels) for crossover in ours)
    found = ". It ".join([first, *(text.removeprefix(labels["linear"] + " ") for text in others)])
    return (
        f"On this machine ({machine['processor']}, {threads}), {work} one {_mask(s.causal[0])} "
        f"attention layer with {s.heads} heads of {s.head_dim} in {s.dtype}, by our kernel: "
        f"{found}. {_advice(ours[0])} {_by_authors(crossovers)} {_basis(evidence)}"
    )


def _by_authors(crossovers: list[Measured]) -> str:
    times = [x for x in crossovers if x.contender == "authors" and x.quantity == "time_ms"]
    if not times:
        return ABSENT.partition(",")[0] + ", so that only our kernel was asked."
    texts = [x.sentence(words()) for x in times]
    return f"{texts[0][0].upper()}{texts[0][1:]}; " + "; ".join(texts[1:]) + "."


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
    skipped = ", ".join(map(str, sorted(left_out(evidence.rows)["longest"].unique())))
    text = (
        f"Measured at {len(lengths)} lengths from N = {lengths[0]} to {lengths[-1]} in "
        f"{evidence.runs} runs; {disturbed(evidence.rows)}."
    )
    return text + f" Some contenders could not be run up to N = {skipped}." if skipped else text


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
        for what in QUANTITIES
    }  # fmt: skip


def overview(rows: pd.DataFrame, benchmark: Evidence) -> pd.DataFrame:
    """One row a setting, kernel and opponent; ``rows`` has those of training a causal layer."""
    others = benchmark.measured
    others = others[
        (others.subject == "layer") & ~((others.direction == "training") & others.causal)
    ]
    parts = {("training", True): rows} | dict(iter(others.groupby(["direction", "causal"])))
    return pd.DataFrame(
        {"Setting": f"{direction}, {_mask(causal)}",
         "Kernel": KERNELS[kernel], "Against": look_of(opponent).words}
        | {f"Less {title} from": brief(ask(measured_crossover, own, kernel, opponent, quantity))
           for quantity, title in QUANTITIES.items()}
        for (direction, causal), own in parts.items()
        for kernel in KERNELS
        for opponent in RIVALS[::-1]
        if {kernel, opponent} <= set(own.contender)
    )  # fmt: skip
