"""What one more token costs after N others.

The paper's Sec. 3.4 and 4.2: run as an RNN, a linear transformer needs the same time and memory
for every token. Its rivals are softmax attention with a cache of keys and values, and without one,
so that all that was written is computed again.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from replication import attention, measure
from replication.experiments.base import INCONCLUSIVE, Verdict, apart, by_answers, one_of, within
from replication.experiments.scaling import run as scaling
from replication.experiments.scaling.numbers import SEED
from replication.experiments.timing import runs_of
from replication.measure.clock import pinned
from replication.measure.rounds import TooBusyError, measure_rounds
from replication.model import Layer, Sizes
from replication.stats import ratios
from replication.store import Result, Unit

LAYERS, WIDTH, HEADS = 8, 256, 8
"""The model of the paper's MNIST experiment (Sec. 4.2.1)."""
TOKENS = 16
"""Tokens that are written in one call, so that the clock has something to measure."""
AGAIN = "-again"
"""Of a contender that remembers nothing, and computes everything again for one more token."""
CONTENDERS = ("linear", "softmax", "softmax-again")
"""The RNN; softmax with a cache, the paper's "stateful softmax"; softmax without one."""


class Decoding(NamedTuple):
    """Lengths of what was written before, runs, and what one of them may take."""

    profile: str
    lengths: tuple[int, ...]
    runs: int
    repeats: int
    seconds: float
    again_until: int
    contenders: tuple[str, ...] = CONTENDERS


PROFILES = {
    "smoke": Decoding("smoke", (8, 16, 32), 1, 10, 30.0, 32),
    "quick": Decoding("quick", (64, 512, 4096), 3, 6, 6.0, 512),
    "reference": Decoding("reference", (64, 256, 1024, 4096, 16384), 5, 8, 40.0, 4096),
    "paper": Decoding("paper", (64, 256, 784, 1024, 3072, 4096, 16384, 65536), 6, 12, 600.0, 16384),
}
"""784 and 3072 are the lengths of the paper's images; the others go up in fours. Undisturbed
repeats, and seconds, are of one run; who computes everything again ends where that takes long."""


def units(profile: str) -> list[Unit]:
    one_of("profile", profile, PROFILES)
    return units_of(PROFILES[profile])


def units_of(decoding: Decoding) -> list[Unit]:
    cards = [attention.mechanism(name.removesuffix(AGAIN)) for name in decoding.contenders]
    memories = [card.memory for card in cards]
    steps = [step for m in memories for step in (m.begin, m.step, m.nbytes)]
    code, own = (measure_run, *(card.attend for card in cards), *steps), decoding._asdict()
    return runs_of("decoding", own, code, lambda i: partial(measure_run, decoding, i))


ensure = partial(scaling.ensure, units_of=units)


def measure_run(decoding: Decoding, run: int, _: Path) -> Result:
    """A row a repeat: contender, N, time_ms a token, state_bytes, and what the clock saw.

    The weights are in the cache when a repeat begins, as in a model that has just written. One
    pinned thread computes: the products of a single token are too small to share.
    """
    with torch.inference_mode(), pinned() as where:
        ready = {(name, N): writer(name, N, torch.device("cpu"))
                 for name in decoding.contenders for N in decoding.lengths
                 if decoding.again_until >= N or not name.endswith(AGAIN)}  # fmt: skip
        outcome = measure_rounds(
            {cell: call for cell, (call, _) in ready.items()}, budget_s=decoding.seconds,
            repeats=decoding.repeats, rng=np.random.default_rng([SEED, run]), run=run,
            believe=decoding.profile == "smoke", warm=True,
        )  # fmt: skip
    if outcome.state == "too busy":
        raise TooBusyError(outcome.sentence())
    rows = outcome.rows.assign(status="measured", reason="")
    cells = list(zip(rows["contender"], rows["N"], strict=True))
    rows["time_ms"] /= [1 if name.endswith(AGAIN) else TOKENS for name, _ in cells]
    rows["state_bytes"] = [ready[cell][1] for cell in cells]
    return Result(rows, {"pinned": where, "outcomes": {"tokens": outcome.sentence()},
                         "machine": measure.machine()})  # fmt: skip


def stack(attention: str, device: torch.device | str = "cpu") -> list[Layer]:
    """The layers of the model, ready to write."""
    sizes = Sizes(attention=attention, d_model=WIDTH, n_heads=HEADS, n_layers=LAYERS,
                  d_ff=4 * WIDTH)  # fmt: skip
    return [Layer(sizes, i, causal=True).to(device).eval() for i in range(LAYERS)]


def writer(name: str, N: int, device: torch.device) -> tuple[Callable[[], Tensor], int]:
    """A call that writes tokens after N others at batch 1, and the bytes that it remembers."""
    own = name.removesuffix(AGAIN)
    layers = stack(own, device)
    if name.endswith(AGAIN):
        all_tokens = torch.randn(1, N + 1, WIDTH, device=device)
        return lambda: torch.nn.Sequential(*layers)(all_tokens)[:, -1], 0
    memories = [layer.begin(1, N + TOKENS, None) for layer in layers]
    frozen, x = attention.FrozenStack(layers), torch.randn(1, WIDTH, device=device)

    def write() -> Tensor:
        for position in range(N, N + TOKENS):
            y = frozen.step(x, position, memories)
        return y

    nbytes = attention.mechanism(own).memory.nbytes
    return write, sum(nbytes(memory, N) for memory, _ in memories)


def constant_cost(evidence: scaling.Evidence, time: float, range: int) -> Verdict:
    """Is one more token as cheap after many as after few? The ratio is taken run by run."""
    ours = evidence.rows[evidence.rows.contender == "linear"]
    shortest, longest = ours.N.min(), ours.N.max()
    if not longest >= range * shortest or evidence.refused:
        text = f"One more token was timed from N = {shortest} to {longest} only."
        return Verdict(INCONCLUSIVE, evidence.refused or text, {})
    growth, low, high = grown(evidence.rows, "linear")
    if growth != growth:
        return Verdict(INCONCLUSIVE, "Too few repeats were undisturbed to tell.", {})
    same = bool(ours.state_bytes.nunique() == 1)
    answers = [same, within(low, high, -inf, 1 + time)]
    state = f"has {ours.state_bytes.iloc[0] / 1e6:.2g} MB at every N" if same else "grows"
    said = apart((growth, low, high), lambda x, more: f"{x:.{2 + more}f}")
    sentence = (
        f"The state {state}; a token after {longest} others takes {said[0]} times as long as "
        f"after {shortest} (95 % interval {said[1]} to {said[2]})."
    )
    values = {"time_growth": growth, "low": low, "high": high, "same_bytes": same}
    return Verdict(by_answers(answers), sentence, values)


def grown(rows: pd.DataFrame, contender: str) -> tuple[float, float, float]:
    """A token after the most others over one after the fewest, with its interval."""
    own = rows[rows.contender == contender]
    ends = own[own.N.isin([own.N.min(), own.N.max()])]
    named = ends.assign(contender=np.where(own.N.min() == ends.N, "few", "many"), N=1)
    return tuple(ratios(named, "few", "many").iloc[0][["value", "low", "high"]])
