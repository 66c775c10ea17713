"""The published width (notebook 03): does a larger model close the gap to softmax?"""

from typing import Any

from replication.experiments.base import Experiment, later

HERE = "replication.experiments.published_width"


def check(*, profile: str = "quick", **given: Any) -> Any:
    """The studies, of those parameters of the notebook that they share with it."""
    from replication.experiments.copy_task.variants import SHARED
    from replication.experiments.published_width.run import studies

    return studies(profile, **{name: given.get(name) for name in SHARED})


EXPERIMENT = Experiment(
    name="published_width",
    title="published width",
    notebook="03_copy_task_training",
    work="training",
    minutes={"smoke": 0.1, "quick": 0, "reference": 70, "paper": 0},
    units=later(f"{HERE}.run:units"),
    evidence=later(f"{HERE}.run:evidence"),
    costs=later(f"{HERE}.run:costs"),
    check=check,
)
