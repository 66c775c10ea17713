"""Why the earlier replication differed (notebook 08): its deviations as switches on our model."""

from replication.experiments.base import Experiment, later

RULES = ("explains_convergence", "explains_speed", "moves_the_crossover")

EXPERIMENT = Experiment(
    name="earlier",
    title="why the earlier replication differed",
    notebook="08_why_the_earlier_differed",
    minutes={"smoke": 0.4, "quick": 1.5, "reference": 35, "paper": 5000},
    units=later(f"{__name__}.run:units"),
    evidence=later(f"{__name__}.run:evidence"),
    rules={name: later(f"{__name__}.rules:{name}") for name in RULES},
    summary=lambda kept: EXPERIMENT.evidence(kept).runs,
    costs=later(f"{__name__}.run:costs"),
    check=later(f"{__name__}.numbers:check"),
)
