"""The published width (notebook 03): does a larger model close the gap to softmax?"""

from replication.experiments.base import Experiment, later

EXPERIMENT = Experiment(
    name="published_width",
    title="published width",
    notebook="03_copy_task_training",
    work="training",
    minutes={"smoke": 0.1, "quick": 0, "reference": 120, "paper": 0},
    units=later(f"{__name__}.run:units"),
    evidence=later(f"{__name__}.run:evidence"),
    costs=later(f"{__name__}.run:costs"),
    check=later(f"{__name__}.run:studies"),
)
