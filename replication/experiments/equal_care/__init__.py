"""Equal care: linear attention beside softmax by the same tiles and compiler (notebook 05)."""

from functools import partial

from replication.experiments.base import Experiment, later
from replication.experiments.scaling import costs

EXPERIMENT = Experiment(
    name="equal_care",
    title="softmax of equal care",
    notebook="05_crossover_estimate",
    alone=True,
    minutes={"smoke": 0.1, "quick": 0.4, "reference": 5},
    units=later(f"{__name__}.run:units"),
    evidence=later("replication.experiments.scaling.run:evidence"),
    rules={"pays": later(f"{__name__}.rules:pays")},
    costs=partial(costs, "softmax of equal care"),
    answers=later(f"{__name__}.rules:answers"),
)
