"""Scaling: how time and memory grow with N, of one layer and of whole models (notebook 04)."""

from functools import partial

from replication.experiments.base import Experiment, later, whole
from replication.experiments.scaling.numbers import Scaling, resolve

ADD = 0, 1000
"""How many runs may be asked for at once."""


def _check(profile: str = "quick", add: int | None = None, **given) -> Scaling:
    if add is not None:
        whole("add", add, *ADD)
    return resolve(profile, **given)


def costs(what: str, evidence) -> list[dict]:
    """Of a benchmark that is called so: every run had its seconds."""
    allowed = evidence.facts["numbers"]["seconds"] * evidence.runs
    return [{"Part": f"{what}, {evidence.runs} runs", "Allowed": allowed,
             "Measured": evidence.facts["measured_seconds"]}]  # fmt: skip


EXPERIMENT = Experiment(
    name="scaling",
    title="scaling benchmark",
    notebook="04_scaling_benchmarks",
    alone=True,
    minutes={"smoke": 0.7, "quick": 1.7, "reference": 27.0},
    units=later(f"{__name__}.run:units"),
    evidence=later(f"{__name__}.run:evidence"),
    rules={rule: later(f"{__name__}.rules:{rule}")
           for rule in ("grows_linearly", "faster", "crosses_at")},
    costs=partial(costs, "scaling benchmark"),
    check=_check,
)  # fmt: skip
