"""Speech recognition (notebook 07): do errors and times keep their order on free speech?"""

from replication.experiments.base import Experiment, later

EXPERIMENT = Experiment(
    name="speech",
    title="speech",
    notebook="07_speech_recognition",
    minutes={"smoke": 0.3, "quick": 1.2, "reference": 240, "paper": 100_000},
    units=later(f"{__name__}.run:units"),
    evidence=later(f"{__name__}.evidence:evidence"),
    rules={n: later(f"{__name__}.rules:{n}") for n in ("errors_in_order", "fastest_an_epoch")},
    summary=lambda kept: EXPERIMENT.evidence(kept).runs,
    costs=later(f"{__name__}.evidence:costs"),
    check=later(f"{__name__}.run:check"),
)
