"""What every mechanism asks of its inputs, its state and its derivatives, said in words."""

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _shapes(**tensors: Tensor) -> str:
    return ", ".join(f"{name} {list(x.shape)}" for name, x in tensors.items())


def check_tensors(**tensors: Tensor) -> None:
    """Four axes, one floating type, one device, equal batch and heads, nothing empty."""
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, not a tensor. Pass a torch.Tensor.")
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {list(x.shape)}, which is not [batch, heads, length, features]. "
                "Split the heads first, for example by x.unflatten(-1, (H, D)).transpose(1, 2)."
            )
        if 0 in x.shape:
            raise ValueError(
                f"{name} has shape {list(x.shape)}: an axis is empty, so there is nothing to "
                "attend to. Leave empty sequences out."
            )
        if x.dtype not in FLOATS:
            raise TypeError(f"{name} is of type {x.dtype}. Convert it by {name}.float().")
        if x.layout != torch.strided:
            raise TypeError(f"{name} is sparse ({x.layout}). Convert it by {name}.to_dense().")
    if len({x.dtype for x in tensors.values()}) > 1:
        types = ", ".join(f"{name} {x.dtype}" for name, x in tensors.items())
        raise TypeError(f"The inputs are of different types: {types}. Convert them to one.")
    if len({x.device for x in tensors.values()}) > 1:
        devices = ", ".join(f"{name} {x.device}" for name, x in tensors.items())
        raise ValueError(f"The inputs are on different devices: {devices}. Move them to one.")
    if len({x.shape[:2] for x in tensors.values()}) > 1:
        raise ValueError(f"Batch and heads differ: {_shapes(**tensors)}. Make both equal.")


def check_attention(Q: Tensor, K: Tensor, V: Tensor, causal: bool) -> None:
    """Queries and keys share D, keys and values share their length; causal needs one length."""
    check_tensors(Q=Q, K=K, V=V)
    if not isinstance(causal, bool):
        raise TypeError(f"causal is {causal!r}. Pass True or False.")
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(
            f"Queries and keys have different sizes: {_shapes(Q=Q, K=K)}. Project both to one D."
        )
    if K.shape[-2] != V.shape[-2]:
        raise ValueError(f"Every key needs its value, but the lengths differ: {_shapes(K=K, V=V)}.")
    if causal and Q.shape[-2] != K.shape[-2]:
        raise ValueError(
            f"Causal attention needs as many queries as keys, but came {_shapes(Q=Q, K=K)}: which "
            "keys lie in a query's past is not defined. Use causal=False for cross attention; to "
            "continue a sequence with linear attention pass state=..."
        )


def hidden_keys(key_lengths: Tensor | None, X: Tensor) -> Tensor | None:
    """key_lengths [B] -> a mask [B, 1, N, 1] that is True at the padding of X [B, H, N, D]."""
    if key_lengths is None:
        return None
    B, _, N, _ = X.shape
    wanted = f"Pass one whole number per batch entry: {B} of them."
    try:
        lengths = torch.as_tensor(key_lengths)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"key_lengths is {str(key_lengths)[:60]!r}. {wanted}") from None
    if lengths.shape != (B,) or lengths.dtype not in WHOLE or lengths.device.type == "meta":
        came = f"shape {list(lengths.shape)} and type {lengths.dtype} on {lengths.device}"
        raise ValueError(f"key_lengths has {came}. {wanted}")
    lengths = lengths.to(X.device)
    if lengths.min() < 1 or lengths.max() > N:
        raise ValueError(
            f"key_lengths goes from {int(lengths.min())} to {int(lengths.max())}, but lengths must "
            f"lie between 1 and the number of keys, {N}."
        )
    return (torch.arange(N, device=X.device) >= lengths.unsqueeze(1))[:, None, :, None]


def check_features(feature_map: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    """feature_map(X), if it is a tensor [B, H, N, C] that is finite wherever X is."""
    if not callable(feature_map):
        raise TypeError(f"feature_map is {feature_map!r}. Pass a function of a tensor.")
    features = feature_map(X)
    name = getattr(feature_map, "__name__", type(feature_map).__name__)
    if not isinstance(features, Tensor) or features.shape[:-1] != X.shape[:-1]:
        came = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(
            f"The feature map {name} turned {list(X.shape)} into {came}. It may change the last "
            "axis alone: [B, H, N, D] -> [B, H, N, C]."
        )
    if features.dtype != X.dtype:
        raise TypeError(f"The feature map {name} turned {X.dtype} into {features.dtype}. Keep it.")
    finite = torch.isfinite(features).all(-1) | ~torch.isfinite(X).all(-1)
    if not finite.all():
        raise ValueError(
            f"The feature map {name} made NaN or infinity out of finite inputs, between "
            f"{X.min().item():.3g} and {X.max().item():.3g}. Use one that is defined there."
        )
    return features


def confined(attend: Callable, Q: Tensor, K: Tensor, V: Tensor, causal: bool) -> tuple:
    """attend(Q, K, V), where a NaN or infinity reaches only the queries that may see it.

    A masked weight is zero, but zero times NaN is NaN: one bad value would spoil the whole
    matrix product, its past included. If the result, first of what attend returns, is not
    finite, bad keys and values are taken out, and the queries that see them become NaN.
    """
    result, *rest = attend(Q, K, V)
    if not torch.isfinite(result.detach().sum(dtype=torch.float32)):
        result = without_bad(attend, Q, K, V, causal)
    return result, *rest


def without_bad(attend: Callable, Q: Tensor, K: Tensor, V: Tensor, causal: bool) -> Tensor:
    """The result where bad keys and values are taken out, and queries that see them are NaN."""
    bad_K, bad_V = (~torch.isfinite(x).all(-1, keepdim=True) for x in (K, V))
    clean = attend(Q, K.masked_fill(bad_K, 0), V.masked_fill(bad_V, 0))[0]
    bad = (bad_K | bad_V).squeeze(-1)
    sees_bad = bad.cummax(-1).values if causal else bad.any(-1, keepdim=True)
    return clean.masked_fill(sees_bad.unsqueeze(-1), torch.nan)


# One token after another ----------------------------------------------------------------------


class State(NamedTuple):
    """All that the RNN remembers, Eqs. (18) and (19). Its size does not depend on N."""

    s: Float[Tensor, "B H C M"]
    z: Float[Tensor, "B H C"]


def check_is_state(state: State) -> None:
    """Two tensors of one type on one device."""
    if not isinstance(state, State):
        raise TypeError(f"The state is a {type(state).__name__}. Pass the State that a step gave.")
    for name, x in state._asdict().items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, not a tensor. Pass a torch.Tensor.")
    if (state.z.dtype, state.z.device) != (state.s.dtype, state.s.device):
        raise ValueError(
            f"The state has s of {state.s.dtype} on {state.s.device} and z of {state.z.dtype} on "
            f"{state.z.device}. Convert both to one type, on one device."
        )


def check_step(state: State | None, q: Tensor, k: Tensor, v: Tensor) -> None:
    if isinstance(v, State):
        raise TypeError("The state comes first: linear_attention_step(state, q, k, v).")
    tokens = {"q": q, "k": k, "v": v}
    for name, x in tokens.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, not a tensor. Pass a torch.Tensor.")
    if state is not None:
        check_is_state(state)
    if not q.ndim == k.ndim == v.ndim == 3:
        raise ValueError(
            f"A step takes one token, [batch, heads, features], but q has shape {list(q.shape)}, "
            f"k {list(k.shape)}, v {list(v.shape)}. Use linear_attention for many at once."
        )
    if q.shape != k.shape or k.shape[:2] != v.shape[:2] or not q.dtype == k.dtype == v.dtype:
        raise ValueError(
            f"q {list(q.shape)} {q.dtype}, k {list(k.shape)} {k.dtype} and v {list(v.shape)} "
            f"{v.dtype} do not belong together. Give q and k one shape, and all of them one batch, "
            "one number of heads and one type."
        )
    check_tensors(**{name: x.unsqueeze(2) for name, x in tokens.items()})


# Derivatives -----------------------------------------------------------------------------------

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
