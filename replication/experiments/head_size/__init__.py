"""Head sizes (notebook 03): how many symbols can a head of linear attention copy?"""

from typing import Any

from replication.experiments.base import Experiment, later

HERE = "replication.experiments.head_size"


def check(*, profile: str = "quick", **given: Any) -> Any:
    """The studies by head size, of those parameters of the notebook that they share with it."""
    from replication.experiments.copy_task.variants import SHARED
    from replication.experiments.head_size.run import studies

    return studies(profile, **{name: given.get(name) for name in SHARED})


EXPERIMENT = Experiment(
    name="head_size",
    title="head sizes",
    notebook="03_copy_task_training",
    work="training",
    minutes={"smoke": 0.1, "quick": 0.6, "reference": 50, "paper": 9000},
    units=later(f"{HERE}.run:units"),
    evidence=later(f"{HERE}.run:evidence"),
    rules={"remembers": later(f"{HERE}.rules:remembers")},
    costs=later(f"{HERE}.run:costs"),
    check=check,
)
