"""What a mechanism does, seen from outside: its errors, who sees whom, its rank, its costs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import signature
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from replication import attention, reference
from replication.attention import Mechanism, mechanism, mechanisms, trained
from replication.attention.lsh import random_rotations
from replication.measure import count_flops, halves, peak_bytes

Attend = Callable[..., Tensor]
"""(Q, K, V) -> V', all [B, H, N, ...]; whether it is causal is decided, but for ``training``."""
Options = Mapping[str, Mapping]
"""By the name of a mechanism, what it is called with beside Q, K and V."""

halves.mend()  # one of these types
TYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
STEPS = "linear-step"
"""The unrolled RNN: linear attention too, and held against the same reference."""


class Problem(NamedTuple):
    """Q, K, V, and the loss's gradient G by V'."""

    Q: Float[Tensor, "B H N D"]
    K: Float[Tensor, "B H N D"]
    V: Float[Tensor, "B H N M"]
    G: Float[Tensor, "B H N M"]


def normal_problem(H: int, N: int, D: int, M: int, seed: int, dtype=torch.float64) -> Problem:
    """Normal numbers rounded to sixteenths: the same problem in every type of ``TYPES``."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((N, D), (N, D), (N, M), (N, M))
    draws = (torch.randn(1, H, *size, generator=generator, dtype=torch.float64) for size in sizes)
    return Problem(*((16 * x).round().div(16).to(dtype) for x in draws))


def implementations(causal: bool, options: Options | None = None) -> dict[str, Attend]:
    """Every mechanism of ours by name; if causal, the unrolled RNN too."""
    given = options or {}
    chosen = {n: partial(mechanism(n), causal=causal, **given.get(n, {})) for n in trained()}
    return chosen | {STEPS: unrolled_steps} if causal else chosen


def unrolled_steps(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Causal linear attention as an RNN: one token after the other, Eqs. (16)-(20)."""
    state, rows = None, []
    for q, k, v in zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True):
        row, state = attention.linear_attention_step(state, q, k, v)
        rows.append(row)
    return torch.stack(rows, 2)


def answer(attend: Attend, problem: Problem, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """V' and the loss's gradients by Q, K and V, computed in this type."""
    *leaves, G = (x.detach().to(dtype, copy=True) for x in problem)
    leaves = [x.requires_grad_() for x in leaves]
    values = attend(*leaves)
    unused = {"allow_unused": True, "materialize_grads": True}
    return values.detach(), *torch.autograd.grad(values, leaves, G.to(values.dtype), **unused)


def relative_error(got: Tensor, expected: Tensor) -> float:
    """The largest difference, divided by the largest entry of what is expected."""
    got, expected = got.detach().double(), expected.detach().double()
    return float((got - expected).abs().max() / (expected.abs().max() or 1))


def errors(problem: Problem, causal: bool, options: Options | None = None) -> pd.DataFrame:
    """Against the reference, computed in float64, and installed peers, computed in float32."""
    rows, options = [], options or {}
    for name, attend in implementations(causal, options).items():
        card = mechanism("linear" if name == STEPS else name)
        for against, expected in _witnesses(card, problem, causal, options.get(card.name, {})):
            for kind, dtype in TYPES.items():
                pairs = zip(answer(attend, problem, dtype), expected, strict=True)
                values, *gradients = (relative_error(*pair) for pair in pairs)
                rows.append((name, causal, against, kind, values, max(gradients)))
    columns = ["mechanism", "causal", "against", "type", "values", "gradients"]
    return pd.DataFrame(rows, columns=columns)


def _witnesses(
    card: Mechanism, problem: Problem, causal: bool, options: Mapping
) -> Iterator[tuple[str, tuple]]:
    """Who else computes what this mechanism does, and their answers."""
    family = card.reference or card.name
    slow = partial(reference.batched, family, causal=causal, **hashes(family, problem, options))
    yield "reference", answer(slow, problem, torch.float64)
    for peer in mechanisms().values():
        if peer.is_peer and peer.reference == family and not peer.unavailable("float32"):
            yield peer.name, answer(partial(peer, causal=causal), problem, torch.float32)


def hashes(family: str, problem: Problem, options: Mapping) -> dict:
    """What a reference that hashes asks for: the rotations that the mechanism will draw."""
    if "rotations" not in signature(reference.REFERENCES[family]).parameters:
        return {}
    drawn = {name: options[name] for name in ("rounds", "buckets", "seed")}
    rotations = random_rotations(problem.Q.shape[-1], **drawn).double()
    return {"rotations": rotations, "chunk": options["chunk"]}


def dependence(attend: Attend, problem: Problem) -> np.ndarray:
    """|dV'_i / dV_j| [N, N], the Frobenius norm of the derivative, of the first head.

    One copy of the problem for each entry of V', so that one backward pass gives all rows.
    """
    N, M = problem.V.shape[2:]
    Q, K, V = (x[:1, :1].repeat(N * M, 1, 1, 1) for x in problem[:3])
    one_entry_each = torch.eye(N * M, dtype=V.dtype).view(N * M, 1, N, M)
    V.requires_grad_()
    (rows,) = torch.autograd.grad(attend(Q, K, V), V, one_entry_each)
    return rows.view(N, M, N, M).square().sum((1, 3)).sqrt().numpy()


def influence(attend: Attend, problem: Problem) -> np.ndarray:
    """How far V'_i moves [N, N] if query, key and value j become other numbers; first head.

    Copy j of the problem changes at j. It is held against a copy at the same place of a batch
    of the same size, so that both round alike, and zero means that not one bit has moved.
    """
    generator = torch.Generator().manual_seed(1)
    before = [x[:1, :1].repeat(x.shape[2], 1, 1, 1) for x in problem[:3]]
    after, place = [x.clone() for x in before], torch.arange(len(before[0]))
    for x in after:
        other = torch.randn(len(x), x.shape[-1], generator=generator, dtype=torch.float64)
        x[place, 0, place] = other.to(x.dtype)
    moved = (attend(*after) - attend(*before))[:, 0]
    return moved.abs().amax(-1).T.numpy()


def attention_matrix(attend: Attend, problem: Problem) -> Float[Tensor, "N N"]:
    """The weights of the first head: attention to values that are the identity, V' = A I."""
    Q, K = (x[:1, :1] for x in problem[:2])
    return attend(Q, K, torch.eye(Q.shape[2], dtype=Q.dtype)[None, None])[0, 0]


def denominators(lengths: Iterable[int], H: int, D: int, M: int, seed: int) -> pd.DataFrame:
    """Columns N, causal, smallest, largest: those of linear attention on normal numbers."""
    rows = []
    for N, causal in [(N, causal) for N in lengths for causal in (False, True)]:
        with attention.watch_denominators() as seen:
            mechanism("linear")(*normal_problem(H, N, D, M, seed)[:3], causal=causal)
        rows.append((N, causal, seen.smallest, seen.largest))
    return pd.DataFrame(rows, columns=["N", "causal", "smallest", "largest"])


def costs(name: str, N: int, H: int, D: int, M: int) -> dict:
    """Matrix-product FLOPs and exact peak bytes of a causal forward and backward pass, float32.

    No counter sees into a peer's compiled kernel: its FLOPs are NaN.
    """
    card = mechanism(name)
    run = training(card, *normal_problem(H, N, D, M, seed=0, dtype=torch.float32))
    flops = float("nan") if card.is_peer else count_flops(run)
    return {"mechanism": name, "N": N, "flops": flops, "peak_bytes": peak_bytes(run)}


def training(attend: Attend, Q: Tensor, K: Tensor, V: Tensor, G: Tensor) -> Callable[[], tuple]:
    """A causal pass forward and backward, to be run again and again: gradients come back."""
    shared = getattr(attend, "shared_keys", False)
    leaves = [x.requires_grad_() for x in ((Q, V) if shared else (Q, K, V))]
    return lambda: torch.autograd.grad(attend(Q, K, V, causal=True), leaves, G)


def slope(lengths: ArrayLike, costs: ArrayLike) -> float:
    """p of the power law c N^p that is nearest, by least squares of the logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(costs), 1)[0])
