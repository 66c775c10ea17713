"""What is run: models of the copy task, a unit each, with heads of several sizes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from replication.experiments import training
from replication.experiments.copy_task import run as copying
from replication.experiments.copy_task import variants
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

NAME, TITLE = "head_size", "head sizes"


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
    return variants.units_of(NAME, {f"heads-of-{D}": study for D, study in studies.items()})


def units(profile: str) -> list[Unit]:
    """Of a profile as it stands."""
    return training.of_this_machine(lambda device: units_of(studies(profile, device=device)))


def ensure(
    studies: Mapping[int, Study], folder: Path | None = None, rows: str = "auto", workers: int = 2
) -> list[Kept]:
    return variants.ensure(units_of(studies), folder, rows, workers, TITLE)


def evidence(kept: Iterable[Kept]) -> pd.DataFrame:
    """A row a run: how it ended, the features of its heads, and the symbols of its words."""
    rows = []
    for one in kept:
        run = run_of(Run, one.unit.numbers)
        which = {"features": run.d_model // run.n_heads, "symbols": copying.task_of(run).most}
        rows.append(variants.ended(one).assign(**which))
    return pd.concat(rows, ignore_index=True)


def costs(evidence: pd.DataFrame) -> list[dict]:
    return variants.costs(TITLE, evidence)
