"""From which N on linear attention pays: measured rows in, one paragraph or JSON out."""

import math
from typing import NamedTuple

import pandas as pd

from replication.benchmark import measured
from replication.crossover import Measured, measured_crossover
from replication.crossover.crossing import crossings_by_run
from replication.crossover.estimate import rounded
from replication.scaling_config import Scaling

FUSED, TEXTBOOK = "softmax", "softmax-textbook"
LABELS = {
    "linear": "linear attention",
    FUSED: "fused softmax",
    TEXTBOOK: "textbook softmax",
    "authors": "the authors' kernel",
    **{f"lsh-{n}": f"LSH attention with {n} round{'s' if n > 1 else ''}" for n in (1, 4, 8)},
}
QUESTIONS = [(what, rival) for what in ("time_ms", "peak_bytes") for rival in (FUSED, TEXTBOOK)]


class Answer(NamedTuple):
    """What was asked, what was found, and on what it rests."""

    scaling: Scaling
    crossovers: tuple[Measured, ...]
    rows: pd.DataFrame
    processor: str
    threads: int


def answer(scaling: Scaling, rows: pd.DataFrame, facts: dict) -> Answer:
    """The crossovers in time and memory against both forms of softmax."""
    try:
        found = [measured_crossover(measured(rows), "linear", r, what) for what, r in QUESTIONS]
    except ValueError as error:
        raise ValueError(
            f"{scaling.seconds:.3g} s a run were not enough to compare the contenders at two "
            f"lengths: {error} Allow more time."
        ) from error
    return Answer(scaling, tuple(found), rows, facts["processor"], facts["threads"])


def paragraph(a: Answer) -> str:
    """What a person can act on."""
    s = a.scaling
    causal = "causal" if s.causal[0] else "bidirectional"
    work = {"training": "training", "forward": "running"}[s.directions[0]]
    threads = f"{a.threads} thread{'s' if a.threads > 1 else ''}"
    first, *others = (crossover.sentence(LABELS) for crossover in a.crossovers)
    found = ". It ".join([first, *(text.removeprefix(LABELS["linear"] + " ") for text in others)])
    return (
        f"On this machine ({a.processor}, {threads}), {work} one {causal} attention layer with "
        f"{s.heads} heads of {s.head_dim} in {s.dtype}: {found}. {_advice(a.crossovers[0])} "
        f"{_basis(a.rows)}"
    )


def _advice(time: Measured) -> str:
    """What to choose, by time and against the better form of softmax."""
    if time.status == "below":
        return f"So take linear attention from N = {time.shortest} on, the shortest measured."
    if time.status == "beyond":
        return f"So take fused softmax up to N = {time.longest}, as far as both were measured."
    low, high = (time.at, time.at) if time.low is None else (time.low, time.high)
    if rounded(low) == rounded(high):
        return f"So take fused softmax below N = {rounded(low)} and linear attention above."
    shorter = f"take fused softmax below N = {rounded(low)}" if low else "for short N take either"
    above = f"above N = {rounded(high)}" if math.isfinite(high) else f"far above N = {time.longest}"
    return f"So {shorter} and linear attention {above}; in between it differs from run to run."


def _basis(rows: pd.DataFrame) -> str:
    kept = measured(rows)
    lengths = sorted(kept["N"].unique())
    fewest = int(kept.groupby(["run", "N"])["round"].nunique().min())
    text = f"Measured at {len(lengths)} lengths from N = {lengths[0]} to {lengths[-1]} in "
    text += f"{kept['run'].nunique()} runs of at least {fewest} rounds; of their crossovers the "
    text += "median is given, and the range as interval."
    if skipped := sorted(_skipped(rows)["N"].unique()):
        text += " Some contenders were too dear for the budget at N = "
        text += f"{', '.join(map(str, skipped))}."
    return text


def _skipped(rows: pd.DataFrame) -> pd.DataFrame:
    """The cells that no run has measured, a row each."""
    never = rows["status"].eq("skipped").groupby([rows["contender"], rows["N"]]).transform("all")
    return rows[never].drop_duplicates(["contender", "N"])


def as_dict(a: Answer) -> dict:
    """For scripts. JSON has no infinity: ``status`` says what a null stands for."""
    skipped = _skipped(a.rows)
    noisy = a.rows[a.rows["status"] == "noisy"].drop_duplicates(["contender", "N"])
    return {
        "setting": {
            "mode": a.scaling.directions[0],
            "causal": a.scaling.causal[0],
            **{name: getattr(a.scaling, name) for name in ("heads", "head_dim", "dtype")},
        },
        "machine": {"processor": a.processor, "threads": a.threads},
        "crossovers": [_crossover(crossover) for crossover in a.crossovers],
        "runs": {r: _runs(a.rows, r) for r in (FUSED, TEXTBOOK)},
        "lengths": sorted(measured(a.rows)["N"].unique().tolist()),
        "noisy": noisy[["contender", "N"]].to_dict("records"),
        "skipped": skipped[["contender", "N", "reason"]].to_dict("records"),
        "paragraph": paragraph(a),
    }


def _runs(rows: pd.DataFrame, opponent: str) -> list[float | None]:
    """The crossover in time of every run."""
    found = crossings_by_run(measured(rows), "linear", opponent).tolist()
    return [at if math.isfinite(at) else None for at in found]


def _crossover(c: Measured) -> dict:
    """``at`` is 0 if linear is cheaper at every length measured, and null if not at the last."""
    ends = {name: getattr(c, name) for name in ("at", "low", "high")}
    finite = {n: v if v is not None and math.isfinite(v) else None for n, v in ends.items()}
    names = ("contender", "opponent", "quantity", "status", "level", "shortest", "longest")
    return {name: getattr(c, name) for name in names} | finite | {"sentence": c.sentence(LABELS)}
