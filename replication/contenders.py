"""What is timed: one attention layer, ours or the authors', as a callable without arguments."""

from collections.abc import Callable, Iterable
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
    return runners([name], cell, device, seed=seed)[name]


def runners(
    names: Iterable[str],
    cell: Cell,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> dict[str, Callable[[], object]]:
    """As ``runner``, for contenders that share their inputs, which then stay in memory once."""
    shape = (cell.batch, cell.heads, cell.N, cell.head_dim)
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, generator=generator).to(device, dtype) for _ in range(4)]
    training, layouts = cell.direction == "training", {}

    def inputs(name: str) -> list[Tensor]:
        theirs = name == "authors"
        if theirs not in layouts:
            laid = [x.detach().transpose(1, 2).contiguous() if theirs else x for x in tensors]
            layouts[theirs] = [*(x.requires_grad_(training) for x in laid[:3]), laid[3]]
        return layouts[theirs]

    return {name: _call(attend(name, cell.causal), *inputs(name), training) for name in names}


def _call(
    layer: Callable, Q: Tensor, K: Tensor, V: Tensor, upstream: Tensor, training: bool
) -> Callable[[], object]:
    """Gradients do not outlive a call, so that each call needs the memory of the first."""

    @torch.no_grad()
    def forward() -> Tensor:
        return layer(Q, K, V)

    def forward_and_backward() -> None:
        layer(Q, K, V).backward(upstream)
        Q.grad = K.grad = V.grad = None

    return forward_and_backward if training else forward
