"""Models of the copy task with some of its numbers changed, as units of another experiment."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from replication.experiments import training
from replication.experiments.copy_task import run as copying
from replication.experiments.copy_task.studies import Run, Study
from replication.experiments.studies import run_of
from replication.store import Kept, Unit

SHARED = ("steps", "batch_size", "lr", "seeds", "device")
"""What the notebook may choose for the copy task and for these runs alike."""


def units_of(experiment: str, studies: Mapping[str, Study]) -> list[Unit]:
    """One a run; the name of its study, which says what is changed, stands for the setting."""
    return [
        replace(unit, experiment=experiment, name=unit.name.replace(study.setting, name, 1))
        for name, study in studies.items()
        for unit in copying.units_of([study])
    ]


def ensure(
    units: Iterable[Unit], folder: Path | None, rows: str, workers: int, what: str
) -> list[Kept]:
    """All runs, as saved or trained now; if only saved ones may be used, those that there are."""
    if rows == "saved":
        return training.saved(units, folder)[0]
    return training.ensure(units, folder=folder, rows=rows, workers=workers, what=what)


def ended(one: Kept) -> pd.DataFrame:
    """One row: how a run ended (``rules.summarise``), and its floating-point operations, 6 a
    parameter and token."""
    # not above: its statistics take seconds to import, and no process that trains needs them
    from replication.experiments.copy_task.rules import summarise

    run = run_of(Run, one.unit.numbers)
    found = summarise(*training.curves({run: one}, copying.WHICH, copying.EVALUATION))
    tokens = run.steps * run.batch_size * run.length
    return found.assign(flops=6.0 * one.facts["parameters"] * tokens)


def costs(title: str, runs: pd.DataFrame) -> list[dict]:
    flops, seconds = float(runs.flops.sum()), float(runs.seconds.sum())
    return [{"Part": f"{title} ({len(runs)} runs)", "Flops": flops, "Measured": seconds}]
