"""What one more token costs after N others: config in, rows out.

The paper's Sec. 3.4 and 4.2: run as an RNN, a linear transformer needs the same time and memory
for every token. Its rivals are softmax attention with a cache of keys and values (the paper's
"stateful softmax"), and without one, so that all that was written is computed again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
import torch
from torch import Tensor
from tqdm.auto import tqdm

from replication.config.validate import one_of
from replication.measure import seconds
from replication.model import Layer, Sizes
from replication.model.layers import Cache

LAYERS, WIDTH, HEADS = 8, 256, 8
"""The model of the paper's MNIST experiment (Sec. 4.2.1)."""
TOKENS = 16
"""Tokens that are written at every length, so that the clock has something to measure."""
Writer = tuple[Callable[[], Tensor], int]
"""A call that writes tokens, and the bytes that it remembers."""
CONTENDERS = ("linear", "softmax", "softmax-again")
"""The RNN; softmax with a cache; softmax that computes everything again."""


@dataclass(frozen=True)
class Decoding:
    """Lengths of what was written before, rounds, and what one call may take."""

    lengths: tuple[int, ...]
    rounds: int
    call_seconds: float


PROFILES = {
    "smoke": Decoding((8, 16, 32), 6, 1.0),
    "quick": Decoding((64, 256, 1024, 4096), 9, 1.0),
    "reference": Decoding((64, 256, 1024, 4096, 16384), 25, 5.0),
    "paper": Decoding((64, 256, 784, 1024, 3072, 4096, 16384, 65536), 25, 60.0),
}
"""784 and 3072 are the lengths of the paper's images; the others go up in fours."""


def of_profile(profile: str) -> Decoding:
    one_of("profile", profile, PROFILES)
    return PROFILES[profile]


def measure(decoding: Decoding, device: torch.device) -> pd.DataFrame:
    """A row a repeat: contender, N, round, time_ms a token, state_bytes.

    Every length has its turn in every round, so that what drifts between rounds leaves the ratio of
    two lengths as it is; the order turns round with each, so that none is always first. A contender
    whose call takes longer than allowed, or must be expected to, is left out from that N on. One
    thread computes: the products of a single token are too small to share.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return pd.DataFrame(_rows(decoding, device))
    finally:
        torch.set_num_threads(before)


def _rows(decoding: Decoding, device: torch.device) -> Iterator[dict]:
    ready = dict(_ready(decoding, device))
    for i in tqdm(range(decoding.rounds), desc="decoding", unit="round", leave=False, disable=None):
        turns = list(ready.items())
        for (name, N), (run, state_bytes) in turns if i % 2 else reversed(turns):
            run()  # a model that writes has just written: its weights are in the cache
            time_ms = seconds(run, device) * 1e3 / tokens_of(name)
            yield {"contender": name, "N": N, "round": i, "time_ms": time_ms,
                   "state_bytes": state_bytes}  # fmt: skip


def _ready(decoding: Decoding, device: torch.device) -> Iterator[tuple[tuple[str, int], Writer]]:
    """The calls that are timed, by contender and length, each tried once."""
    for name in CONTENDERS:
        expected = 0.0
        for before, N in pairwise((1, *decoding.lengths)):
            if expected * N / before > decoding.call_seconds:
                break
            ready = writer(name, N, device)
            expected = seconds(ready[0], device)
            if expected <= decoding.call_seconds:
                yield (name, N), ready


def stack(attention: str, device: torch.device | str = "cpu") -> list[Layer]:
    """The layers of the model, ready to write."""
    sizes = Sizes(
        attention=attention, cross_attention=attention, vocabulary=1, length=1, d_model=WIDTH,
        n_heads=HEADS, n_layers=LAYERS, d_ff=4 * WIDTH, dropout=0.0, activation="relu",
        positions="added", options={},
    )  # fmt: skip
    return [Layer(sizes, i, causal=True).to(device).eval() for i in range(LAYERS)]


def tokens_of(name: str) -> int:
    """What one call of a contender writes: computing all again takes long enough for one."""
    return 1 if name == "softmax-again" else TOKENS


def writer(name: str, N: int, device: torch.device) -> Writer:
    """A call that writes tokens after N others at batch 1, and the bytes that it remembers."""
    layers = stack(name.removesuffix("-again"), device)
    if name == "softmax-again":
        return _again(layers, N, device), 0
    memories = [layer.begin(1, N + TOKENS, None) for layer in layers]
    x = torch.randn(1, WIDTH, device=device)

    def write() -> Tensor:
        for position in range(N, N + TOKENS):
            y = x
            for layer, memory in zip(layers, memories, strict=True):
                y = layer.step(y, position, memory)
        return y

    return write, sum(_bytes(own, N) for own, _ in memories)


def _again(layers: list[Layer], N: int, device: torch.device) -> Callable[[], Tensor]:
    written = torch.randn(1, N + 1, WIDTH, device=device)

    def write() -> Tensor:
        y = written
        for layer in layers:
            y = layer(y)
        return y[:, -1]

    return write


def _bytes(memory: tuple[Tensor, ...], N: int) -> int:
    """Of a state all, of a cache the part that N tokens fill."""
    parts = (part[:, :, :N] if isinstance(memory, Cache) else part for part in memory)
    return sum(part.numel() * part.element_size() for part in parts)
