"""Models of the copy task with some of its numbers changed, as units of another experiment."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from replication.experiments import training
from replication.experiments.copy_task import run as copying
from replication.experiments.copy_task.studies import Run, Study
from replication.experiments.studies import run_of
from replication.store import Kept, Unit

SHARED = ("steps", "batch_size", "lr", "seeds", "device")


def shared(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the notebook has chosen for the copy task and for these runs alike."""
    return {name: given[name] for name in SHARED if given.get(name) is not None}


def units_of(experiment: str, name: str, studies: Mapping[Any, Study]) -> list[Unit]:
    """One a run; what is changed, as "width-{width}" or "heads-of-{features}" says it, stands for
    the setting."""
    found = []
    for study in studies.values():
        own = name.format(width=study.d_model, features=study.d_model // study.n_heads)
        found += [replace(one, experiment=experiment, name=one.name.replace(study.setting, own, 1))
                  for one in copying.units_of([study])]  # fmt: skip
    return found


def ensure(
    units_of: Callable[[Mapping[Any, Study]], list[Unit]], title: str, studies: Mapping[Any, Study],
    folder: Path | None = None, rows: str = "auto", workers: int = 2,
) -> list[Kept]:  # fmt: skip
    """All runs, as saved or trained now; if only saved ones may be used, those that there are."""
    units = units_of(studies)
    if rows == "saved":
        return training.saved(units, folder)[0]
    return training.ensure(units, folder=folder, rows=rows, workers=workers, what=title)


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
