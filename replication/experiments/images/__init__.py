"""Image generation (notebook 06): the paper's main result, pixel by pixel, on real images."""

from typing import Any

from replication.experiments.base import Experiment, later

RULES = ("on_par", "draws_faster", "beats_cache", "lower_in_equal_time")

EXPERIMENT = Experiment(
    name="images",
    title="image generation",
    notebook="06_image_generation",
    minutes={"smoke": 0.4, "quick": 2, "reference": 170, "paper": 50000},
    units=later(f"{__name__}.run:units"),
    evidence=later(f"{__name__}.run:evidence"),
    rules={name: later(f"{__name__}.rules:{name}") for name in RULES},
    summary=later(f"{__name__}.run:summary"),
    costs=later(f"{__name__}.run:costs"),
    check=later(f"{__name__}.run:check"),
)


def __getattr__(name: str) -> Any:
    """``generate``, imported when it is asked for, as it needs PyTorch."""
    if name != "generate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from replication.experiments.images.generation import generate

    return generate
