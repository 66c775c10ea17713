"""Linear attention, Eqs. (4)-(12), and the RNN that it is, Eqs. (16)-(20)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from replication.attention.card import Look, Mechanism, Memory
from replication.attention.causal_sums import EPS, CausalSums, chunk_of
from replication.attention.checks import (
    State,
    check_attention,
    check_features,
    check_is_state,
    check_step,
    confined,
    hidden_keys,
    without_bad,
)
from replication.attention.compiled import CompiledSums, compiled_step, rows_dense
from replication.attention.feature_maps import FeatureMap, elu_plus_one
from replication.attention.kernels import TOKENS, choose_kernel


class DenominatorRange:
    """The smallest and largest denominator met so far; infinite before the first."""

    def __init__(self):
        self.smallest, self.largest = float("inf"), float("-inf")

    def add(self, denominators: Tensor) -> None:
        low, high = torch.aminmax(denominators.detach())
        self.widen(low.item(), high.item())

    def widen(self, low: float, high: float) -> None:
        self.smallest, self.largest = min(self.smallest, low), max(self.largest, high)


_watching: ContextVar[DenominatorRange | None] = ContextVar("watching", default=None)


@contextmanager
def watch_denominators() -> Iterator[DenominatorRange]:
    """Record the range of all denominators of linear attention computed inside the block."""
    outer, inner = _watching.get(), DenominatorRange()
    token = _watching.set(inner)
    try:
        yield inner
    finally:
        _watching.reset(token)
        if outer is not None:
            outer.widen(inner.smallest, inner.largest)


def linear_attention(
    Q: Float[Tensor, "B H N D"],
    K: Float[Tensor, "B H L D"],
    V: Float[Tensor, "B H L M"],
    *,
    causal: bool = False,
    key_lengths: Int[Tensor, " B"] | None = None,
    feature_map: Callable[[Tensor], Tensor] = elu_plus_one,
    state: State | None = None,
    return_state: bool = False,
    kernel: str = "auto",
) -> Float[Tensor, "B H N M"] | tuple[Float[Tensor, "B H N M"], State]:
    """V'_i = phi(Q_i)^T S / phi(Q_i)^T Z, where S and Z sum phi(K_j) V_j^T and phi(K_j).

    Over all keys, Eq. (5), or over those up to i, Eq. (9), if ``causal``. O(N C M) time,
    O(N (D + M)) memory. ``state`` stands for keys that came before these: with
    ``return_state`` a prompt can be read at once and continued token by token, or a long
    sequence be fed in pieces. Keys from ``key_lengths`` on are padding. Sums are kept in
    float32 if the inputs are of a half type. ``kernel`` is "compiled", "pytorch", or "auto",
    which takes the compiled one where it can: ``choose_kernel`` tells which and why.
    """
    check_attention(Q, K, V, causal)
    hidden = hidden_keys(key_lengths, K)
    options = hidden, feature_map, state, return_state
    if choose_kernel(Q, V, causal, feature_map, kernel).kernel == "compiled":
        _check_state(state, (*Q.shape[:2], Q.shape[-1], V.shape[-1]), V)
        result, denominators, after = _compiled(Q, K, V, key_lengths, *options)
    else:
        result, denominators, after = _by_pytorch(Q, K, V, causal, *options)
    if watch := _watching.get():
        watch.add(denominators)
    return (result, after) if return_state else result


def linear_attention_step(
    state: State | None,
    q: Float[Tensor, "B H D"],
    k: Float[Tensor, "B H D"],
    v: Float[Tensor, "B H M"],
    *,
    feature_map: Callable[[Tensor], Tensor] = elu_plus_one,
) -> tuple[Float[Tensor, "B H M"], State]:
    """One token: the state takes k and v in, q reads it out, Eqs. (18)-(20).

    Time and memory do not depend on how many tokens came before. ``None`` is the state before
    the first token, Eqs. (16) and (17). The state that came is left as it was.
    """
    check_step(state, q, k, v)
    dtype, ready = _sum_dtype(v), isinstance(feature_map, FeatureMap)
    phi = feature_map if ready else partial(check_features, feature_map)
    with _exact_sums(v):
        q, k, value = phi(q.to(dtype)), phi(k.to(dtype)), v.to(dtype)
        _check_state(state, (*k.shape, v.shape[-1]), v)
        k1 = k.unsqueeze(-1)
        if state is None:
            state = State(k1 * value.unsqueeze(-2), k)
        else:
            state = State(torch.addcmul(state.s, k1, value.unsqueeze(-2)), state.z + k)
        if not ready:
            _check_denominators(torch.linalg.vecdot(q, state.z))
        return read(state, q).to(v.dtype), state


def _stepped(state: State, q: Tensor, k: Tensor, v: Tensor, kernel: str) -> Tensor:
    """Compiled where that changes the state just as PyTorch would, which says what is wrong."""
    chosen = choose_kernel(q, v, True, elu_plus_one, kernel, TOKENS).kernel
    if chosen == "compiled" and _is_plain(state, q, k, v):
        result, denominators = compiled_step(*state, q, k, v)
        if watch := _watching.get():
            watch.add(denominators)
        return result
    dtype = _sum_dtype(v)
    with _exact_sums(v):
        q, k, value = elu_plus_one(q.to(dtype)), elu_plus_one(k.to(dtype)), v.to(dtype)
        state.s.addcmul_(k.unsqueeze(-1), value.unsqueeze(-2))
        state.z.add_(k)
        return read(state, q).to(v.dtype)


def _is_plain(state: State, q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether a state may be written by its address: it fits, has no gaps, nobody follows it."""
    every, (s, z) = (*state, q, k, v), state
    return (
        s.shape == (*q.shape, v.shape[-1]) and z.shape == q.shape == k.shape
        and all(x.dtype == torch.float32 and x.device == v.device for x in every)
        and s.is_contiguous() and z.is_contiguous()
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in every))
        and s.is_inference() <= torch.is_inference_mode_enabled()
    )  # fmt: skip


def read(state: State, q: Float[Tensor, "B H C"]) -> Float[Tensor, "B H M"]:
    """What a query phi(q) gets from the state, Eq. (12)."""
    denominator = torch.linalg.vecdot(q, state.z).unsqueeze(-1) + EPS
    if watch := _watching.get():
        watch.add(denominator)
    return (q.unsqueeze(-2) @ state.s).squeeze(-2) / denominator


def _compiled(Q, K, V, key_lengths, hidden, phi, state, return_state) -> tuple:
    """Causal attention by the compiled kernel, which sees neither padding nor a mask."""
    N = torch.full(Q.shape[:1], Q.shape[2])
    lengths = (
        N if key_lengths is None else torch.as_tensor(key_lengths, dtype=torch.int64, device="cpu")
    )
    start = (None, None) if state is None else (x.contiguous() for x in state)
    options = *start, lengths.contiguous(), return_state

    def attend(*tensors):
        result, denominators, finite, *after = CompiledSums.apply(
            *map(rows_dense, tensors), *options
        )
        return result, denominators, State(*after) if return_state else None, finite

    result, denominators, after, finite = attend(Q, K, V)
    if not finite:
        K, V = _masked(hidden, K, V)
        result = without_bad(attend, Q, K, V, causal=True)
    return result, denominators, after


def _by_pytorch(Q, K, V, causal, hidden, phi, state, return_state) -> tuple:
    """Either form, for any type, device and feature map."""
    K, V = _masked(hidden, K, V)
    if not isinstance(phi, FeatureMap):
        Q, K, phi = check_features(phi, Q), check_features(phi, K), identity
        (K,) = _masked(hidden, K)
    _check_state(state, (*V.shape[:2], phi.size(Q.shape[-1]), V.shape[-1]), V)
    form = _causal if causal else _full
    with _exact_sums(V):
        found = confined(
            lambda q, k, v: form(q, k, v, hidden, phi, state, return_state), Q, K, V, causal
        )
    if phi is identity:
        _check_denominators(found[1])
    return found


def _masked(hidden: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Zeros in place of what is hidden."""
    return tensors if hidden is None else tuple(x.masked_fill(hidden, 0) for x in tensors)


def _full(Q, K, V, hidden, phi, state, return_state) -> tuple[Tensor, Tensor, State]:
    """Every query sees every key, Eqs. (5) and (6)."""
    q, k, v = (x.to(_sum_dtype(V)) for x in (phi(Q), phi(K), V))
    if hidden is not None:
        k = k.masked_fill(hidden, 0)
    after = State(k.mT @ v, k.sum(-2))
    if state is not None:
        after = State(after.s + state.s, after.z + state.z)
    denominators = q @ after.z.unsqueeze(-1) + EPS
    return (q @ after.s / denominators).to(V.dtype), denominators, after


def _causal(Q, K, V, hidden, phi, state, return_state) -> tuple[Tensor, Tensor, State | None]:
    """Query i sees the keys up to i, Eqs. (9)-(12)."""
    joined, dtype = None, _sum_dtype(V)
    if state is not None:
        joined = torch.cat((state.s, state.z.unsqueeze(-1)), -1)
    elif return_state or chunk_of(V.shape[2]) < V.shape[2]:
        joined = V.new_zeros(*V.shape[:2], phi.size(Q.shape[-1]), V.shape[-1] + 1, dtype=dtype)
    result, denominators, joined = CausalSums.apply(Q, K, V, joined, phi, hidden, dtype)
    after = None if joined is None else State(joined[..., :-1], joined[..., -1])
    return result, denominators, after


identity = FeatureMap(
    "identity", lambda D: D, lambda x, out: out.copy_(x), lambda x, phi, g, out: out.copy_(g)
)
"""Stands in where a callable was applied before."""


def _sum_dtype(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _exact_sums(x: Tensor) -> AbstractContextManager:
    """Autocast would add up in half precision what must not be."""
    if x.device.type in ("cpu", "cuda") and torch.is_autocast_enabled(x.device.type):
        return torch.autocast(x.device.type, enabled=False)
    return nullcontext()


def _check_state(state: State | None, shape: tuple[int, ...], V: Tensor) -> None:
    if state is None:
        return
    check_is_state(state)
    if state.s.shape != shape or state.z.shape != shape[:-1]:
        raise ValueError(
            f"The state has shapes {list(state.s.shape)} and {list(state.z.shape)}, but these "
            f"inputs need {list(shape)} and {list(shape[:-1])}. Use the state that the same "
            "batch, heads and feature map returned."
        )
    if state.s.dtype != _sum_dtype(V) or state.s.device != V.device:
        raise ValueError(
            f"The state is {state.s.dtype} on {state.s.device}, but {V.dtype} inputs on {V.device} "
            f"need {_sum_dtype(V)} there. Convert the state."
        )


def _check_denominators(denominators: Tensor) -> None:
    low = denominators.detach().min()
    if low <= 0:
        raise ValueError(
            f"The feature map gave a denominator of {low.item():.3g}. phi(q)^T phi(k) must not be "
            "negative (paper, Sec. 3.2). Use a map with non-negative features, like elu_plus_one."
        )


# The memory of a model, updated in place ----------------------------------------------------------


def _begin(like: Tensor, batch: int, heads: int, length: int, size: int) -> State:
    """Eqs. (16) and (17)."""
    shape, dtype = (batch, heads, size), _sum_dtype(like)
    return State(like.new_zeros(*shape, size, dtype=dtype), like.new_zeros(*shape, dtype=dtype))


def _step(memory: State, position: int, q: Tensor, k: Tensor, v: Tensor, *,
          kernel: str = "auto") -> Tensor:  # fmt: skip
    """Eqs. (18)-(20), without what follows attention."""
    return _stepped(memory, q, k, v, kernel)


def _look(memory: State, q: Float[Tensor, "B H D"], length: int) -> Float[Tensor, "B H M"]:
    """Eq. (20) alone."""
    with _exact_sums(q):
        return read(memory, elu_plus_one(q.to(memory.z.dtype))).to(q.dtype)


def _gather(K: Float[Tensor, "B H N D"], V: Float[Tensor, "B H N M"]) -> State:
    with _exact_sums(V):
        k, v = elu_plus_one(K.to(_sum_dtype(V))), V.to(_sum_dtype(V))
        return State(k.mT @ v, k.sum(-2))


def _nbytes(memory: State, N: int) -> int:
    return sum(part.numel() * part.element_size() for part in memory)


PLAIN = Look("linear, by PyTorch", "our kernel by PyTorch", "#56a0d3", "h", (0, (4, 1)), True)

CARD = Mechanism(
    name="linear",
    attend=linear_attention,
    look=(LOOK := Look("linear", "linear attention", "#0173b2", "o", "-")),
    variants={"linear": ({}, LOOK), "linear-pytorch": ({"kernel": "pytorch"}, PLAIN)},
    time_power=1,
    memory_power=1,
    memory=Memory("state", _begin, _step, _look, _gather, _nbytes),
    order=10,
)
