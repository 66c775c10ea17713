"""Every number of the runs at the published width; all others are those of the copy task.

Profile reference trains the copy task of setting paper with half the published width, hence half
its heads. These runs have the published ones, in the batches of the others, so that nothing but the
size of the model differs. Seed 0 was trained first and seen; seeds 1 and 2 were planned then.
"""

from typing import Any

SETTING = "paper"
COMPARED = ("softmax", "linear")
CHANGES: dict[str, dict[str, Any]] = {
    "smoke": {"d_model": 64, "n_heads": 8, "d_ff": 128, "seeds": (0,)},
    "quick": {},
    "reference": {"d_model": 256, "n_heads": 8, "d_ff": 1024, "lengths": (128,),
                  "seeds": (0, 1, 2)},
    "paper": {},
}  # fmt: skip
"""Width, heads and feed-forward layers of the paper and of its authors' code. Profile smoke tries
it; quick has no time for it; profile paper has these sizes anyway."""
STEPS = {"reference": {"softmax": 3500}}
"""Of linear attention all 10,000 updates, two hours of a core. Softmax ends sooner: both were to
have 3500, after the rate has fallen; there softmax was done, and linear attention was not."""
