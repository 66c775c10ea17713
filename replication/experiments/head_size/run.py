"""What is run: models of the copy task, a unit each, with heads of several sizes."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import pandas as pd

from replication.experiments import training
from replication.experiments.copy_task import run as copying
from replication.experiments.copy_task import variants
from replication.experiments.copy_task.studies import STUDIES, Run, Study, resolve
from replication.experiments.head_size import numbers
from replication.experiments.studies import run_of
from replication.store import Kept, Unit

units_of = partial(variants.units_of, "head_size", "heads-of-{features}")
ensure = partial(variants.ensure, units_of, "head sizes")
costs = partial(variants.costs, "head sizes")


def studies(profile: str, **given: Any) -> dict[int, Study]:
    """By the features of a head; softmax with the smallest heads alone."""
    sizes, width = numbers.FEATURES[profile], STUDIES[numbers.SETTING, profile].d_model
    fixed = {"lengths": numbers.LENGTHS[profile], "seeds": numbers.SEEDS[profile]}
    fixed |= {"attentions": numbers.LINEAR} | variants.shared(given)
    both = {"attentions": (numbers.CONTROL, numbers.LINEAR)}
    own = {D: {"n_heads": width // D} | (both if min(sizes) == D else {}) for D in sizes}
    return {D: resolve(numbers.SETTING, profile, **fixed | own[D]) for D in sizes}


def units(profile: str) -> list[Unit]:
    """Of a profile as it stands."""
    return training.of_this_machine(lambda device: units_of(studies(profile, device=device)))


def evidence(kept: Iterable[Kept]) -> pd.DataFrame:
    """A row a run: how it ended, the features of its heads, and the symbols of its words."""
    rows = []
    for one in kept:
        run = run_of(Run, one.unit.numbers)
        which = {"features": run.d_model // run.n_heads, "symbols": copying.task_of(run).most}
        rows.append(variants.ended(one).assign(**which))
    return pd.concat(rows, ignore_index=True)
