"""Numbers that others have published, each with its source. Nothing here was measured by us.

*The paper* is Katharopoulos et al. 2020, arXiv:2006.16236; *the earlier replication* is Do &
Bergner 2022. Columns are those of our own rows, so that both can be put into one table.
"""

from types import MappingProxyType

import numpy as np
import pandas as pd

from replication.crossover import TABLE_1

PAPER_MACHINE = "one GTX 1080 Ti with 11 GB"
"""The paper, Sec. 4.1.2."""
EARLIER_MACHINE = "one Quadro P4000 with 8 GB"
"""The earlier replication, Sec. 3.5."""

LONGEST = MappingProxyType({"linear": 2**16, "softmax": 2**12, "lsh-4": 2**14, "lsh-8": 2**14})
"""How far each curve of the paper's Figure 1 goes: softmax and LSH end where memory does."""

FIGURE_1 = (
    ("linear", 2**9, 0.61, 12.3),
    ("linear", 2**10, 1.21, 24.2),
    ("linear", 2**11, 2.47, 48.6),
    ("linear", 2**12, 5.04, 97.5),
    ("linear", 2**13, 9.83, 195.0),
    ("linear", 2**14, 21.2, 388.0),
    ("linear", 2**16, 97.8, 1544.0),
    ("softmax", 2**9, 1.4, 46.0),
    ("softmax", 2**10, 4.7, 173.0),
    ("softmax", 2**11, 17.5, 670.0),
    ("softmax", 2**12, 68.1, 2620.0),
)
"""Contender, N, milliseconds and megabytes a sample, forward and backward. The paper, Figure 1,
which gives no numbers: these are read off its pixels, to 2 %, and those of ``ROUGH`` to 5 %."""
READ_TO, ROUGHLY = 0.02, 0.05
ROUGH = {("softmax", 2**9, "time_ms"), ("softmax", 2**9, "peak_bytes"),
         ("softmax", 2**10, "peak_bytes")}  # fmt: skip

EARLIER_ENDS = MappingProxyType({
    8: {"softmax": 1.29, "linear": 0.00}, 16: {"softmax": 1.81, "linear": 1.80},
    32: {"softmax": 2.15, "linear": 0.00}, 64: {"softmax": 2.24, "linear": 2.19},
})  # fmt: skip
"""Where the curves of the earlier replication's Figures 2 and 5 end, by N, in nats per token: read
off, and divided by the batch that their levels fit, 8 for softmax and 32 for linear attention. Its
softmax at N = 32 ends between 2.08 and 2.22."""

EARLIER_STEPS = 3000
"""Training steps behind each time of the earlier replication's Table 1."""


def figure_1() -> pd.DataFrame:
    """contender, N, time_ms, peak_bytes, and the relative error of reading each of the two.

    A megabyte counts as 10^6 bytes; the figure does not say which it means.
    """
    table = pd.DataFrame(FIGURE_1, columns=["contender", "N", "time_ms", "peak_bytes"])
    table["peak_bytes"] *= 1e6
    for what in ("time_ms", "peak_bytes"):
        rough = [
            (*point, what) in ROUGH for point in zip(table["contender"], table["N"], strict=True)
        ]
        table[f"{what}_error"] = np.where(rough, ROUGHLY, READ_TO)
    return table


def earlier_steps() -> pd.DataFrame:
    """contender, N, step_ms: the earlier replication's Table 1, divided by its steps."""
    table = pd.DataFrame(dict(TABLE_1)).melt("N", var_name="contender", value_name="seconds")
    return table.assign(step_ms=table.pop("seconds") * 1e3 / EARLIER_STEPS)
