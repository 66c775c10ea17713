"""Layers that write one token after another: all but attention in one compiled call a layer.

At small batches a step is bound by the memory that holds the weights and by the many small calls
around them. So weights are copied once into the order in which they are used, and the mixture of
heads, both norms, both dense layers and the next layer's projection are one call. Attention and
its memory, a state or a cache, stay with the caller: they are the same care for all mechanisms.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from replication.attention.compiled import share
from replication.attention.kernels import TOKENS, passes, wanted_kernel

Pair = tuple[Tensor, Tensor]
"""Weight and bias."""

ROWS = 16
"""Sequences that a thread takes at a time."""


class LayerWeights(NamedTuple):
    """T(x) = LayerNorm(y + W2 relu(W1 y)), y = LayerNorm(x + mix A(project x)), Eq. (1)."""

    project: Pair
    mix: Pair
    norm: Pair
    widen: Pair
    narrow: Pair
    norm_ff: Pair


class FrozenLayers:
    """A stack of layers as its weights are now; what training changes later is not seen."""

    def __init__(self, layers: Sequence[LayerWeights], heads: int, eps: float = 1e-5):
        _check(layers)
        self.heads, self.eps = heads, eps
        self.wide, self.d = layers[0].widen[0].shape
        self._kept = [tuple(map(_ordered, layer)) for layer in layers]  # as long as addresses
        pairs = [[(w.data_ptr(), b.data_ptr()) for w, b in layer] for layer in self._kept]
        nothing = (0, 0)
        ahead = [pair[0] for pair in pairs[1:]] + [nothing]
        self._weights = [
            sum((*own[1:], following), ()) for own, following in zip(pairs, ahead, strict=True)
        ]
        self._first = (*nothing * 5, *pairs[0][0])

    @torch.inference_mode()
    def step(
        self, x: Float[Tensor, "B d"], attend: Callable[[int, Tensor, Tensor, Tensor], Tensor]
    ) -> Float[Tensor, "B d"]:
        """What the layers make of one token; attend(layer, q, k, v) -> y, all [B, H, D]."""
        x, qkv = x.clone(memory_format=torch.contiguous_format), x.new_empty(len(x), 3 * self.d)
        q, k, v = qkv.view(len(x), 3, self.heads, -1).unbind(1)
        self._run(self._first, x, x, qkv)
        for i, weights in enumerate(self._weights):
            self._run(weights, x, attend(i, q, k, v).to(x.dtype).contiguous(), qkv)
        return x

    def _run(self, weights: tuple[int, ...], x: Tensor, y: Tensor, qkv: Tensor) -> None:
        kernel, groups = passes(TOKENS)["layer"], -(-len(x) // ROWS)
        sizes = x.data_ptr(), y.data_ptr(), qkv.data_ptr(), self.d, self.wide, self.eps

        def run(part: tuple[int, int], room: Tensor) -> bool:
            first, last = (min(len(x), n * ROWS) for n in part)
            return kernel.run(first, last, weights, *sizes, room.data_ptr())

        floats = kernel.floats(groups * ROWS, self.d, self.wide)
        share(run, groups, groups * ROWS * self.d * self.wide, floats, x)


def _ordered(pair: Pair) -> Pair:
    """A matrix [n, m] as panels [n / 16, m, 16]; vectors as they are."""
    weight, bias = (x.detach().clone(memory_format=torch.contiguous_format) for x in pair)
    if weight.ndim == 2:
        weight = weight.unflatten(0, (-1, 16)).mT.contiguous()
    return weight, bias


def _check(layers: Sequence[LayerWeights]) -> None:
    for name, pair in ((n, p) for layer in layers for n, p in layer._asdict().items()):
        for x in pair:
            if x.dtype != torch.float32 or x.device.type != "cpu":
                raise ValueError(
                    f"{name} is {x.dtype} on {x.device}, but frozen layers are float32 on a "
                    "processor. Use the layers themselves."
                )
        if any(n % 16 for n in pair[0].shape):
            raise ValueError(
                f"{name} has shape {list(pair[0].shape)}, but frozen layers need multiples of 16. "
                "Use the layers themselves."
            )


PARTS = ("project", "mix", "norm", "widen", "narrow", "norm_ff")


class FrozenStack:
    """``step`` of every layer in turn: compiled where that is possible, else the layers' own."""

    def __init__(self, layers: Iterable[nn.Module]):
        self.layers, self.frozen = (layers := list(layers)), None
        self.reason = _obstacle(layers)
        if self.reason is None:
            weights = [LayerWeights(*_pairs(layer)) for layer in layers]
            first = layers[0]
            self.frozen = FrozenLayers(weights, first.attention.heads, first.norm.eps)

    def step(self, x: Float[Tensor, "B d"], position: int, memories: list[tuple]) -> Tensor:
        """What the layers make of one token; their memories take it in, in place."""
        if self.frozen is None:
            for layer, memory in zip(self.layers, memories, strict=True):
                x = layer.step(x, position, memory)
            return x

        def attend(i: int, *qkv: Tensor) -> Tensor:
            return self.layers[i].attention.remember(position, memories[i][0], *qkv)

        return self.frozen.step(x, attend)


def _pairs(layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
    modules = (getattr(layer.attention, name, None) or getattr(layer, name) for name in PARTS)
    return [(module.weight, module.bias) for module in modules]


def _obstacle(layers: Sequence[nn.Module]) -> str | None:
    """Why layers cannot be frozen; None if they can."""
    found = wanted_kernel(TOKENS)
    if found.kernel != "compiled":
        return found.reason
    if any(layer.cross is not None for layer in layers):
        return "they look at a source as well"
    if any(getattr(layer.attention.project, "parts", 1) != 3 for layer in layers):
        return "queries and keys are shared"
    alike = {(layer.attention.heads, layer.norm.eps, layer.norm_ff.eps, *layer.widen.weight.shape)
             for layer in layers}  # fmt: skip
    if len(alike) > 1:
        return "their sizes differ"
    if any(layer.activation is not F.relu for layer in layers):
        return "their activation is not relu"
    weights = [p for layer in layers for p in layer.parameters()]
    if any(str(p.dtype) != "torch.float32" or p.device.type != "cpu" for p in weights):
        return "their weights are not float32 on a processor"
    return "their sizes are no multiples of 16" if any(len(p) % 16 for p in weights) else None
