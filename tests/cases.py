"""Problems of awkward sizes and their answers by the reference, shared by the tests.

The reference's loops take seconds at N = 200, so that each answer is computed once, for one
batch entry at a time: an entry that fills its length has the same answer with and without
padding elsewhere, and the two forms of softmax attention have the same answers altogether.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from replication import reference
from replication.attention import mechanism, trained
from replication.attention.lsh import random_rotations

H, D, M = 2, 5, 7
SIZES = (1, 2, 63, 64, 65, 200)
"""Around the chunk of linear attention, 64, and far beyond it."""

LSH = {"rounds": 2, "buckets": 8, "chunk": 8, "seed": 1}
"""Small enough that chunks and buckets matter at every size above 16."""

NAMES = tuple(trained())
"""Every mechanism that a model of ours can have, from its card."""
WITH_KEYS = tuple(name for name in NAMES if mechanism(name).cross_attention in ("", name))
"""Those that can look into another sequence."""


class Case(NamedTuple):
    """Queries, keys, and what a query may see."""

    N: int
    L: int
    causal: bool = False
    padded: bool = False

    @property
    def lengths(self) -> list[int]:
        """Of the keys, one for each batch entry; a second long one would take too long."""
        if self.padded:
            return [self.L, 1 + self.L // 3]
        return [self.L] if self.L > 50 else [self.L, self.L]

    @property
    def key_lengths(self) -> Tensor | None:
        return torch.tensor(self.lengths) if self.padded else None

    def defined(self, name: str) -> Tensor:
        """True at the queries that are no padding: [B, 1, N, 1]."""
        lengths = torch.tensor(self.lengths)
        if not self.causal and not mechanism(name).shared_keys:
            lengths = torch.full_like(lengths, self.N)
        return (torch.arange(self.N) < lengths[:, None])[:, None, :, None]


Answer = tuple[Tensor, Tensor, Tensor, Tensor]
"""V' and the loss's gradients by Q, K and V."""


def grid(*shape: int, seed: int) -> Tensor:
    """Normal numbers rounded to sixteenths: exact in every type, which then share an answer."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * 16).round() / 16


def inputs(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Q, K, V and the loss's gradient G by V'."""
    B = len(case.lengths)
    sizes = ((case.N, D), (case.L, D), (case.L, M), (case.N, M))
    return tuple(grid(2, H, *size, seed=i)[:B] for i, size in enumerate(sizes))


def solve(attend, case: Case, name: str, dtype=torch.float64, device="cpu", **options) -> Answer:
    """The answer of a mechanism, with rows of padding set to zero."""
    *leaves, G = (x.to(device, dtype) for x in inputs(case))
    leaves = [x.requires_grad_() for x in leaves]
    lengths = {} if case.key_lengths is None else {"key_lengths": case.key_lengths.to(device)}
    values = attend(*leaves, causal=case.causal, **lengths, **options)
    values = values.masked_fill(~case.defined(name).to(device), 0)
    gradients = torch.autograd.grad(
        values, leaves, G.to(values.dtype), allow_unused=True, materialize_grads=True
    )
    return values.detach(), *gradients


def expected(name: str, case: Case, phi: str = "elu_plus_one") -> Answer:
    """The answer of the reference."""
    twin = mechanism(name).reference or name
    shape = (case.N, case.L, case.causal)
    entries = [_entry(twin, *shape, b, length, phi) for b, length in enumerate(case.lengths)]
    return tuple(torch.cat(parts) for parts in zip(*entries, strict=True))


@cache
def _entry(name: str, N: int, L: int, causal: bool, b: int, length: int, phi: str) -> Answer:
    case = Case(N, L, causal, padded=True)
    leaves = [x[b : b + 1].requires_grad_() for x in inputs(case)[:3]]
    G = inputs(case)[3][b : b + 1].clone()
    if causal or name == "lsh":
        G[:, :, length:] = 0
    values = reference.batched(
        name, *leaves, causal=causal, key_lengths=[length], **_reference_options(name, phi)
    )
    gradients = torch.autograd.grad(values, leaves, G, allow_unused=True, materialize_grads=True)
    return values.detach(), *gradients


def _reference_options(name: str, phi: str) -> dict:
    if name == "lsh":
        rotations = random_rotations(D, LSH["rounds"], LSH["buckets"], LSH["seed"])
        return {"rotations": rotations.double(), "chunk": LSH["chunk"]}
    return {"phi": getattr(reference, phi)} if name == "linear" else {}


def options(name: str) -> dict:
    return LSH if name == "lsh" else {}


def assert_near(actual: Tensor, expected: Tensor, bound: float, floor: float = 0.1) -> None:
    """The largest difference, divided by the largest entry (or ``floor``), is within bound."""
    assert actual.shape == expected.shape
    difference = (actual.double().cpu() - expected.double().cpu()).abs().max()
    largest = expected.double().abs().max().clamp(min=floor).cpu()
    assert difference / largest <= bound, f"off by {difference / largest:.3g}, not {bound:.3g}"


BOUNDS = {
    torch.float64: 1e-12,
    torch.float32: 5e-5,
    torch.float16: 6e-3,
    torch.bfloat16: 4e-2,
}
"""Largest errors that rounding explains: neighbours of 1 are 2^-52, 2^-23, 2^-10 and 2^-7 away.
Half types may lose five times that, as textbook softmax rounds its scores. The wider ones may
lose more: where there is one key, gradients are the rest of sums that cancel."""


def assert_all_near(actual, expected, bound: float) -> None:
    for a, e in zip(actual, expected, strict=True):
        assert_near(a, e, bound)
