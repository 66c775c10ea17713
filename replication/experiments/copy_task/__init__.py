"""The copy task (notebook 03): does linear attention learn as stably as softmax, and as much?"""

from typing import Any

from replication.experiments.base import Command, Experiment, bench_arguments, fits, later

RULES = ("converges", "does_not_converge", "ends_lower")


def check(
    *, profile: str = "quick", setting: str = "paper, earlier", own_sequence: str = "1",
    **given: Any,
) -> dict[str, Any]:  # fmt: skip
    from replication.experiments.copy_task import studies

    chosen = [studies.chosen(name.strip(), profile, given) for name in str(setting).split(",")]
    for study in chosen:
        tokens = study.batch_size * study.lengths[-1]
        fits("lengths", study.lengths[-1], tokens * study.d_model * study.n_layers)
        studies.fitted(own_sequence, study.setting, study.lengths[-1], study.symbols)
    return {study.setting: studies.usable(study) for study in chosen}


EXPERIMENT = Experiment(
    name="copy_task",
    title="copy task",
    notebook="03_copy_task_training",
    minutes={"smoke": 0.5, "quick": 2.6, "reference": 600, "paper": 30000},
    units=later(f"{__name__}.run:units"),
    evidence=later(f"{__name__}.run:evidence"),
    rules={name: later(f"{__name__}.rules:{name}") for name in RULES},
    summary=later(f"{__name__}.run:summary"),
    costs=later(f"{__name__}.run:costs"),
    commands=(
        Command(
            "bench training",
            "whole models, forward and backward, on the CPU",
            bench_arguments,
            later(f"{__name__}.bench:command"),
        ),
    ),
    check=check,
)
