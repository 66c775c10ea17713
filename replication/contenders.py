"""What is timed: one attention layer, ours or the authors', as a callable without arguments."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from replication.attention import linear_attention, lsh_attention, softmax_attention

PEERS = find_spec("fast_transformers") is not None
"""Whether the authors' library is installed (``make peers``)."""

NO_PEERS = "The authors' library is not installed, so it is left out. Build it by: make peers"


class Cell(NamedTuple):
    """The size of one measurement."""

    batch: int
    heads: int
    N: int
    head_dim: int
    causal: bool
    direction: str
    """forward, or training: forward and backward."""


def attend(name: str, causal: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The layer called ``name``, for [B, H, N, D]; the authors' is for [B, N, H, D]."""
    layers = {
        "softmax": softmax_attention,
        "softmax-textbook": partial(softmax_attention, fused=False),
        "linear": linear_attention,
        **{f"lsh-{r}": partial(_lsh, rounds=r) for r in (1, 4, 8)},
    }
    if name == "authors":
        return _authors(causal)
    if name not in layers:
        known = ", ".join([*layers, "authors"])
        raise ValueError(f"There is no contender {name!r}. Choose among {known}.")
    return partial(layers[name], causal=causal)


def _lsh(Q: Tensor, K: Tensor, V: Tensor, *, causal: bool, rounds: int) -> Tensor:
    return lsh_attention(Q, V, causal=causal, rounds=rounds)


def _authors(causal: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The authors' C++ kernel behind their own layer, with their feature map elu + 1."""
    if not PEERS:
        raise ValueError(NO_PEERS)
    from fast_transformers.attention import CausalLinearAttention, LinearAttention
    from fast_transformers.masking import FullMask, LengthMask, TriangularCausalMask

    def layer(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        B, N, _, D = Q.shape
        lengths = LengthMask(torch.full((B,), N, device=Q.device), device=Q.device)
        kind = CausalLinearAttention if causal else LinearAttention
        mask = (TriangularCausalMask if causal else FullMask)(N, device=Q.device)
        return kind(D)(Q, K, V, mask, lengths, lengths)

    return layer


def runner(name: str, cell: Cell, device: torch.device, seed: int = 0) -> Callable[[], object]:
    """Inputs drawn once; each call is one forward pass, and one backward pass if training."""
    B, H, N, D = cell.batch, cell.heads, cell.N, cell.head_dim
    shape = (B, N, H, D) if name == "authors" else (B, H, N, D)
    generator = torch.Generator().manual_seed(seed)
    training = cell.direction == "training"
    inputs = [
        torch.randn(shape, generator=generator).to(device).requires_grad_(training)
        for _ in range(3)
    ]
    upstream = torch.randn(shape, generator=generator).to(device)
    layer = attend(name, cell.causal)

    def run() -> object:
        if not training:
            with torch.no_grad():
                return layer(*inputs)
        for x in inputs:
            x.grad = None
        layer(*inputs).backward(upstream)
        return None

    return run
