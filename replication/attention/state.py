"""The state of the RNN that linear attention is, and what a step asks of it and its token."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from replication.attention.checks import check_tensors


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


def check_in_place(state: State, q: Tensor, k: Tensor, v: Tensor) -> None:
    if torch.is_grad_enabled() and any(x.requires_grad for x in (*state, q, k, v)):
        raise ValueError(
            "A step in place has no gradients, but they are asked for. Call it inside of "
            "torch.inference_mode(), or use linear_attention_step."
        )
    if not (state.s.is_contiguous() and state.z.is_contiguous()):
        raise ValueError(
            "The state has gaps in memory, so that it cannot be changed in place. Copy it once: "
            "State(state.s.contiguous(), state.z.contiguous())."
        )
