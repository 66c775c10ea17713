"""The earlier replication, point by point: what its code does, what it says, and what we find.

Do & Bergner 2022; the deviations are read in its code, all but the one that says otherwise.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from replication import published
from replication.crossover import earlier_crossover

DEVIATIONS = (
    ("no causal mask in the decoder", "convergence: it sees what it must predict", "mask"),
    ("heads split twice: 64 heads of 8 for linear, 8 of 64 for softmax", "convergence",
     "the same heads for both"),
    ("a literal in double precision in the denominator", "speed: main suspect",
     "float32 throughout"),
    ("generic contraction kernels; the gradient parallel over batch and heads only", "speed",
     "batched products"),
    ("a batch of 32 for linear, 8 for softmax (inferred from its levels)", "speed: about fourfold",
     "the same batch"),
    ("only two of four encoder layers have an effect, in both models", "convergence, mildly",
     "all have"),
    ("Adam at 1e-4, without warm-up or clipping, instead of RAdam at 1e-3", "convergence",
     "RAdam, as in the paper"),
    ("further forward passes inside the timed loop, in both models", "times, not their ratio",
     "steps are timed alone"),
    ("elu + 1 in the feed-forward layers of the linear decoder only", "convergence, mildly",
     "relu in both"),
    ("token embeddings divided by the root of 512 beside positions of size one",
     "convergence, in both", "as drawn"),
    ("positions called fixed are trained", "convergence, mildly, in both", "fixed"),
    ("no seed, no timer; the committed file never calls training", "nothing can be regenerated",
     "seeds and rows are committed"),
)  # fmt: skip


def deviations() -> pd.DataFrame:
    """What differs from the paper, or between its two models, and on what it bears."""
    numbered = [(i, *row) for i, row in enumerate(DEVIATIONS, 1)]
    return pd.DataFrame(numbered, columns=["", "Deviation", "Bears on", "Here"])


def papers_crossing() -> float:
    """Where power laws through the two curves of the paper's Figure 1 meet: an extrapolation."""
    curves = published.figure_1().groupby("contender")
    logs = {name: np.log(curve[["N", "time_ms"]]) for name, curve in curves}
    linear, softmax = (np.polyfit(*logs[name].to_numpy().T, 1) for name in ("linear", "softmax"))
    slope, offset = softmax - linear
    return float(np.exp(-offset / slope))


def _softmax_r2(power: int) -> float:
    """How well its softmax times follow 1 + N^power."""
    return float(earlier_crossover(((0, 1), (0, power))).fits[1].rsquared)


def statements(said: Mapping[str, str], batch: str, memory: str) -> pd.DataFrame:
    """Its statements beside ours.

    ``said`` has by claim a predicate, such as "is supported"; ``batch`` is what was seen with its
    batch, ``memory`` what a step of its model needs.
    """
    line, square = _softmax_r2(1), _softmax_r2(2)
    found = (
        ("Cost is $O(N D^2 M)$, so that N must exceed $D^2$ (Sec. 3.1)",
         "That is the quadratic kernel's. With elu + 1 it is $O(N D M)$."),
        ("The paper claims a crossover at 512 (Sec. 4.3)",
         "It does not: 512 is its shortest length, at which it already leads. Power laws through "
         f"its curves meet near N = {papers_crossing():.0f}."),
        ("Linear transformers are unstable, to losses unlike softmax's (Sec. 4.1)",
         f"E1 {said['E1']}; its losses are sums over different batches "
         "([Section](#sec-convergence))."),
        ("They scale linearly (Sec. 4.2)",
         f"C2 {said['C2']}, from N = 512 on. Its own lengths cannot tell: 1 + N and 1 + N² fit its "
         f"softmax times equally well (R² {line:.3f} and {square:.3f})."),
        ("Softmax is faster up to N = 3149 (Sec. 4.3, Figure 1)",
         f"E2 {said['E2']} ([Section](#sec-earlier))."),
        ("A small batch may be the reason (Sec. 3.5)", batch),
        ("Memory of 8 GB ends at N = 64 (Sec. 3.6)",
         f"A step of its model at N = 64 and batch 8 needs {memory} here."),
        ("Time over steps is constant (Figure 4)", "So it is here; notebook 03, Section 7."),
        ("Code should point to the equations (Sec. 5)",
         "Notebook 01 derives every equation; functions cite the ones they compute, and a test "
         "holds that each is derived."),
    )  # fmt: skip
    return pd.DataFrame(found, columns=["The earlier replication says", "We find"])
