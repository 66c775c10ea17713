"""Feature maps phi: sim(q, k) = phi(q)^T phi(k), Eq. (4).

A ``FeatureMap`` knows its own derivative, so that causal linear attention can apply it
to one tile of the sequence at a time and never store phi(Q) or phi(K) whole. Any other
callable may be used in its place; PyTorch then differentiates it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from replication.attention.checks import once


class FeatureMap(NamedTuple):
    """phi and its vector-Jacobian product, both over the last axis."""

    name: str
    size: Callable[[int], int]
    """D -> C"""
    write: Callable[[Tensor, Tensor], Tensor]
    """x, out -> phi(x), written to out"""
    pull_back: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    """x, phi(x), the loss's gradient by phi(x), out -> its gradient by x, written to out"""

    def __call__(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and x.requires_grad:
            return _Apply.apply(x, self)
        return self.write(x, x.new_empty(*x.shape[:-1], self.size(x.shape[-1])))


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, feature_map):
        out = x.new_empty(*x.shape[:-1], feature_map.size(x.shape[-1]))
        phi = feature_map.write(x, out)
        ctx.save_for_backward(x, phi)
        ctx.feature_map = feature_map
        return phi

    @staticmethod
    @once
    def backward(ctx, g):
        x, phi = ctx.saved_tensors
        return ctx.feature_map.pull_back(x, phi, g, torch.empty_like(x)), None


def _elu_plus_one(x: Tensor, out: Tensor) -> Tensor:
    """exp(x) for x <= 0, x + 1 above, Eq. (7).

    ``elu(x) + 1`` would compute (exp(x) - 1) + 1, which is 0 in bfloat16 below x = -6.5.
    """
    return torch.clamp(x, max=0, out=out).exp_().add_(x.clamp(min=0))


def _outer_square(x: Tensor, out: Tensor) -> Tensor:
    """All products x_a x_b, so that phi(q)^T phi(k) = (q^T k)^2 and C = D^2 (paper, Sec. 3.2.1)."""
    torch.mul(x.unsqueeze(-1), x.unsqueeze(-2), out=out.unflatten(-1, (x.shape[-1],) * 2))
    return out


def _pull_back_outer_square(x: Tensor, phi: Tensor, g: Tensor, out: Tensor) -> Tensor:
    g = g.unflatten(-1, (x.shape[-1], x.shape[-1]))
    return out.copy_(((g + g.mT) @ x.unsqueeze(-1)).squeeze(-1))


elu_plus_one = FeatureMap(
    "elu_plus_one",
    lambda D: D,
    _elu_plus_one,
    lambda x, phi, g, out: torch.mul(g, phi.clamp(max=1), out=out),
)
polynomial_2 = FeatureMap("polynomial_2", lambda D: D * D, _outer_square, _pull_back_outer_square)
