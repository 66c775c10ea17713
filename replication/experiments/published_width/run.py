"""What is run: models of the copy task of the published width, a unit each."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from replication.experiments import training
from replication.experiments.copy_task import run as copying
from replication.experiments.copy_task import variants
from replication.experiments.copy_task.numbers import LAST
from replication.experiments.copy_task.studies import Run, Study, resolve
from replication.experiments.published_width.numbers import CHANGES, COMPARED, SETTING, STEPS
from replication.store import Kept, Unit

units_of = partial(variants.units_of, "published_width", "width-{width}")
ensure = partial(variants.ensure, units_of, "published width")


def studies(profile: str, **given: Any) -> dict[str, Study]:
    """By mechanism; none where a profile has no such runs."""
    if not (own := CHANGES[profile]):
        return {}
    own = own | variants.shared(given)
    steps = STEPS.get(profile, {})
    return {name: resolve(SETTING, profile, attentions=name,
                          **({"steps": steps[name]} if name in steps else {}) | own)
            for name in COMPARED}  # fmt: skip


def units(profile: str) -> list[Unit]:
    """Of a profile as it stands."""
    return training.of_this_machine(lambda device: units_of(studies(profile, device=device)))


class Wide(NamedTuple):
    """Runs of the published width: how each ended, and all evaluations."""

    run: Run
    """The numbers of the first; mechanism, seed and updates apart, of all."""
    ends: pd.DataFrame
    evaluations: pd.DataFrame


def evidence(kept: Iterable[Kept]) -> Wide:
    kept = list(kept)
    runs = training.by_run(Run, kept)[SETTING]
    _, evaluations, _ = training.curves(runs, copying.WHICH, copying.EVALUATION)
    return Wide(next(iter(runs)), pd.concat(map(variants.ended, kept)), evaluations)


def costs(evidence: Wide) -> list[dict]:
    return variants.costs("published width", evidence.ends)


def beside(wide: Wide, narrow: pd.DataFrame) -> pd.DataFrame:
    """A row a width and mechanism, of the seeds that both have: means of all evaluations in the
    last tenth of the updates of the wide one, which the narrow one may exceed."""
    ends = wide.evaluations.groupby("attention").step.max()
    parts = {"wide": wide.evaluations, "narrow": narrow[narrow.length == wide.run.length]}
    rows = pd.concat(parts, names=["model"]).reset_index("model")
    last = rows.attention.map(ends)
    rows = rows[((1 - LAST) * last < rows.step) & (rows.step <= last)]
    rows = rows.set_index(["attention", "seed"])
    both = rows.groupby(level=[0, 1]).model.nunique() == len(parts)
    rows = rows[both.reindex(rows.index).to_numpy()].reset_index()
    columns = ["eval_loss", "token_accuracy", "exact_match"]
    return rows.groupby(["model", "attention"])[columns].mean()
