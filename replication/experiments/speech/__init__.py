"""Speech recognition (notebook 07): do errors and times keep their order on free speech?"""

from replication.experiments.base import Experiment, later

HERE = "replication.experiments.speech"

EXPERIMENT = Experiment(
    name="speech",
    title="speech",
    notebook="07_speech_recognition",
    work="training",
    minutes={"smoke": 0.3, "quick": 1.2, "reference": 240, "paper": 100_000},
    units=later(f"{HERE}.run:units"),
    in_parts=True,
    evidence=later(f"{HERE}.evidence:evidence"),
    rules={name: later(f"{HERE}.rules:{name}") for name in ("errors_in_order", "fastest_an_epoch")},
    summary=later(f"{HERE}.evidence:summary"),
    costs=later(f"{HERE}.evidence:costs"),
    check=later(f"{HERE}.run:check"),
)
