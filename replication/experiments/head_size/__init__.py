"""Head sizes (notebook 03): how many symbols can a head of linear attention copy?"""

from replication.experiments.base import Experiment, later

EXPERIMENT = Experiment(
    name="head_size",
    title="head sizes",
    notebook="03_copy_task_training",
    minutes={"smoke": 0.1, "quick": 0.3, "reference": 50, "paper": 9000},
    units=later(f"{__name__}.run:units"),
    evidence=later(f"{__name__}.run:evidence"),
    rules={"remembers": later(f"{__name__}.rules:remembers")},
    costs=later(f"{__name__}.run:costs"),
    check=later(f"{__name__}.run:studies"),
)
