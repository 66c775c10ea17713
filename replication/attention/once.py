"""Backward passes that cannot be differentiated say so."""

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor

MESSAGE = (
    "This attention can be differentiated once: its backward pass is written by hand and has no "
    "derivative of its own (once_differentiable). For second derivatives write its equation in "
    "plain PyTorch, as replication.reference does."
)


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, *sources: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(MESSAGE)


def once(backward: Callable) -> Callable:
    """For the backward pass of a Function that saves its inputs: its results refuse to be
    differentiated.

    PyTorch's ``once_differentiable`` looks at the incoming gradients alone. Where they are
    constant, as those of a sum, it would silently take second derivatives for zero.
    """

    @wraps(backward)
    def wrapped(ctx, *gradients):
        with torch.no_grad():
            results = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return results
        results = results if isinstance(results, tuple) else (results,)
        known = (*gradients, *ctx.saved_tensors)
        sources = [x for x in known if isinstance(x, Tensor) and x.requires_grad]
        return tuple(_Refuse.apply(x, *sources) if isinstance(x, Tensor) else x for x in results)

    return wrapped
