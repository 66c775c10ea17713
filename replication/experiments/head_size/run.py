"""What is run: models of the copy task, a unit each, with heads of several sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from replication.experiments import training
from replication.experiments.copy_task import run as copying
from replication.experiments.copy_task.studies import STUDIES, Run, Study, resolve
from replication.experiments.head_size.numbers import (
    CONTROL,
    FEATURES,
    LENGTHS,
    LINEAR,
    SEEDS,
    SETTING,
)
from replication.experiments.studies import run_of
from replication.store import Kept, Unit

NAME = "head_size"
SHARED = ("steps", "batch_size", "lr", "seeds", "device")
"""What the notebook may choose for the copy task and for these runs alike."""


def studies(profile: str, **given: Any) -> dict[int, Study]:
    """By the features of a head; softmax with the smallest heads alone."""
    width, fixed = STUDIES[SETTING, profile].d_model, {"lengths": LENGTHS[profile]}
    fixed |= {"seeds": SEEDS[profile]} | {k: v for k, v in given.items() if v is not None}
    names = {min(FEATURES[profile]): (CONTROL, LINEAR)}
    return {
        D: resolve(SETTING, profile, n_heads=width // D, attentions=names.get(D, LINEAR), **fixed)
        for D in FEATURES[profile]
    }


def units_of(studies: Mapping[int, Study]) -> list[Unit]:
    """One a run."""
    return [
        replace(unit, experiment=NAME, name=unit.name.replace(SETTING, f"heads-of-{D}"))
        for D, study in studies.items()
        for unit in copying.units_of([study])
    ]


def units(profile: str) -> list[Unit]:
    """Of a profile as it stands."""
    return training.of_this_machine(lambda device: units_of(studies(profile, device=device)))


def ensure(
    studies: Mapping[int, Study], folder: Path | None = None, rows: str = "auto", workers: int = 2
) -> list[Kept]:
    """All runs, as saved or trained now; if only saved ones may be used, those that there are."""
    if rows == "saved":
        return training.saved(units_of(studies), folder)[0]
    return training.ensure(units_of(studies), folder=folder, rows=rows, workers=workers,
                           what="head sizes")  # fmt: skip


def evidence(kept: Iterable[Kept]) -> pd.DataFrame:
    """A row a run: how it ended (``copy_task.rules.summarise``), the features of its heads, the
    symbols of its words, and its floating-point operations, 6 a parameter and token."""
    from replication.experiments.copy_task.rules import summarise

    rows = []
    for one in kept:
        run = run_of(Run, one.unit.numbers)
        ended = summarise(*training.curves({run: one}, copying.WHICH, copying.EVALUATION))
        flops = 6.0 * one.facts["parameters"] * run.steps * run.batch_size * run.length
        which = {"features": run.d_model // run.n_heads, "symbols": copying.task_of(run).most}
        rows.append(ended.assign(**which, flops=flops))
    return pd.concat(rows, ignore_index=True)


def costs(evidence: pd.DataFrame) -> list[dict]:
    part = f"head sizes ({len(evidence)} runs)"
    flops, seconds = float(evidence.flops.sum()), float(evidence.seconds.sum())
    return [{"Part": part, "Flops": flops, "Measured": seconds}]
