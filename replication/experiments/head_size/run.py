"""What is run: models of the copy task, a unit each, with heads of several sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from replication.experiments import training
from replication.experiments.copy_task import run as copying
from replication.experiments.copy_task.studies import STUDIES, Run, Study, resolve, shared
from replication.experiments.head_size import numbers
from replication.experiments.studies import run_of
from replication.store import Kept, Unit


def studies(profile: str, **given: Any) -> dict[int, Study]:
    """By the features of a head; softmax with the smallest heads alone."""
    sizes, width = numbers.FEATURES[profile], STUDIES[numbers.SETTING, profile].d_model
    fixed = {"lengths": numbers.LENGTHS[profile], "seeds": numbers.SEEDS[profile]}
    fixed |= {"attentions": numbers.LINEAR} | shared(given)
    both = {"attentions": (numbers.CONTROL, numbers.LINEAR)}
    own = {D: {"n_heads": width // D} | (both if min(sizes) == D else {}) for D in sizes}
    return {D: resolve(numbers.SETTING, profile, **fixed | own[D]) for D in sizes}


def units_of(studies: Mapping[int, Study]) -> list[Unit]:
    """One a run of the copy task; the size of its heads stands for the setting in its name."""
    return [replace(one, experiment="head_size",
                    name=one.name.replace(study.setting, f"heads-of-{D}", 1))
            for D, study in studies.items() for one in copying.units_of([study])]  # fmt: skip


def ensure(
    studies: Mapping[int, Study], folder: Path | None = None, rows: str = "auto", workers: int = 2
) -> list[Kept]:
    """All runs, as saved or trained now; if only saved ones may be used, those that there are."""
    units = units_of(studies)
    if rows == "saved":
        return training.saved(units, folder)[0]
    return training.ensure(units, folder=folder, rows=rows, workers=workers, what="head sizes")


def units(profile: str) -> list[Unit]:
    return training.of_this_machine(lambda device: units_of(studies(profile, device=device)))


def evidence(kept: Iterable[Kept]) -> pd.DataFrame:
    """A row a run: how it ended, the features of its heads, and the symbols of its words."""
    rows = []
    for one in kept:
        run = run_of(Run, one.unit.numbers)
        which = {"features": run.d_model // run.n_heads, "symbols": copying.task_of(run).most}
        rows.append(copying.ended(one).assign(**which))
    return pd.concat(rows, ignore_index=True)


def costs(runs: pd.DataFrame) -> list[dict]:
    return copying.costs_of("head sizes", runs)
