"""What a mechanism does, seen from outside: its errors, who sees whom, its rank, its costs."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from replication import reference
from replication.attention import ATTENTIONS, linear_attention_step, watch_denominators
from replication.attention.lsh import random_rotations
from replication.measure import count_flops, peak_bytes

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(Q, K, V) -> V', all [B, H, N, ...]; whether it is causal is decided."""

TYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


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


# Implementations ----------------------------------------------------------------------------


def implementations(causal: bool, lsh: dict | None = None) -> dict[str, Attend]:
    """Every mechanism by name, ``lsh`` with these settings; if causal, the unrolled RNN too."""
    chosen = {
        name: partial(attend, causal=causal, **((lsh or {}) if name == "lsh" else {}))
        for name, attend in ATTENTIONS.items()
    }
    return chosen | {"linear-step": unrolled_steps} if causal else chosen


def unrolled_steps(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Causal linear attention as an RNN: one token after the other, Eqs. (16)-(20)."""
    state, rows = None, []
    for q, k, v in zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True):
        row, state = linear_attention_step(state, q, k, v)
        rows.append(row)
    return torch.stack(rows, 2)


def by_reference(family: str, causal: bool, D: int, lsh: dict) -> Attend:
    """The equations of softmax, linear or lsh as loops; ``lsh`` holds all settings of it."""
    if family != "lsh":
        return partial(reference.batched, family, causal=causal)
    rotations = random_rotations(D, lsh["rounds"], lsh["buckets"], lsh["seed"]).double()
    options = {"rotations": rotations, "chunk": lsh["chunk"]}
    return partial(reference.batched, family, causal=causal, **options)


def by_authors(family: str, causal: bool, N: int, D: int) -> Attend | None:
    """The authors' library, ``pytorch-fast-transformers``, for our order of axes.

    None if it is not installed, and for LSH, where it draws other hashes and averages rounds.
    """
    if find_spec("fast_transformers") is None or family == "lsh":
        return None
    from fast_transformers.attention import CausalLinearAttention, FullAttention, LinearAttention
    from fast_transformers.masking import FullMask, LengthMask, TriangularCausalMask

    module = FullAttention(attention_dropout=0.0)
    if family == "linear":
        module = (CausalLinearAttention if causal else LinearAttention)(D)
    mask = TriangularCausalMask(N) if causal else FullMask(N)
    lengths = LengthMask(torch.tensor([N]))

    def attend(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        swapped = (x.transpose(1, 2) for x in (Q, K, V))
        return module(*swapped, mask, lengths, lengths).transpose(1, 2)

    return attend


# Errors -------------------------------------------------------------------------------------


def answer(attend: Attend, problem: Problem, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """V' and the loss's gradients by Q, K and V, computed in this type."""
    *leaves, G = (x.detach().to(dtype, copy=True) for x in problem)
    leaves = [x.requires_grad_() for x in leaves]
    values = attend(*leaves)
    gradients = torch.autograd.grad(
        values, leaves, G.to(values.dtype), allow_unused=True, materialize_grads=True
    )
    return values.detach(), *gradients


def relative_error(got: Tensor, expected: Tensor) -> float:
    """The largest difference, divided by the largest entry of what is expected."""
    got, expected = got.detach().double(), expected.detach().double()
    return float((got - expected).abs().max() / (expected.abs().max() or 1))


def errors(problem: Problem, causal: bool, lsh: dict) -> pd.DataFrame:
    """Columns mechanism, causal, against, type, values, gradients.

    Against the reference, computed in float64, and, where they are installed, the authors'
    modules, whose causal kernel knows float32 alone.
    """
    rows, witnesses = [], _witnesses(problem, causal, lsh)
    for name, attend in implementations(causal, lsh).items():
        for against, expected in witnesses[name.partition("-")[0]].items():
            head = {"mechanism": name, "causal": causal, "against": against}
            rows += [head | row for row in _errors_by_type(attend, problem, expected)]
    return pd.DataFrame(rows)


def _witnesses(problem: Problem, causal: bool, lsh: dict) -> dict[str, dict[str, tuple]]:
    """Answers by family, then by who gave them."""
    N, D = problem.Q.shape[-2:]
    found = {}
    for family in ("softmax", "linear", "lsh"):
        slow = by_reference(family, causal, D, lsh)
        found[family] = {"reference": answer(slow, problem, torch.float64)}
        if theirs := by_authors(family, causal, N, D):
            found[family]["authors"] = answer(theirs, problem, torch.float32)
    return found


def _errors_by_type(attend: Attend, problem: Problem, expected: tuple) -> Iterator[dict]:
    for name, dtype in TYPES.items():
        pairs = zip(answer(attend, problem, dtype), expected, strict=True)
        values, *gradients = (relative_error(*pair) for pair in pairs)
        yield {"type": name, "values": values, "gradients": max(gradients)}


# Who sees whom ------------------------------------------------------------------------------


def dependence(attend: Attend, problem: Problem) -> np.ndarray:
    """|dV'_i / dV_j| [N, N], the Frobenius norm of the derivative, of the first head.

    One copy of the problem for each entry of V', so that one backward pass gives all rows.
    """
    Q, K, V = (x[:1, :1] for x in problem[:3])
    N, M = V.shape[2:]
    Q, K, V = (x.repeat(N * M, 1, 1, 1) for x in (Q, K, V))
    one_entry_each = torch.eye(N * M, dtype=V.dtype).view(N * M, 1, N, M)
    V.requires_grad_()
    (rows,) = torch.autograd.grad(attend(Q, K, V), V, one_entry_each)
    return rows.view(N, M, N, M).square().sum((1, 3)).sqrt().numpy()


def influence(attend: Attend, problem: Problem, seed: int = 1) -> np.ndarray:
    """How far V'_i moves [N, N] if query, key and value j become other numbers; first head.

    Copy j of the problem changes at j. It is held against a copy at the same place of a batch
    of the same size, so that both round alike, and zero means that not one bit has moved.
    """
    generator = torch.Generator().manual_seed(seed)
    before = [x[:1, :1].repeat(x.shape[2], 1, 1, 1) for x in problem[:3]]
    after, place = [x.clone() for x in before], torch.arange(len(before[0]))
    for x in after:
        other = torch.randn(len(x), x.shape[-1], generator=generator, dtype=torch.float64)
        x[place, 0, place] = other.to(x.dtype)
    moved = (attend(*after) - attend(*before))[:, 0]
    return moved.abs().amax(-1).T.numpy()


# Rank ---------------------------------------------------------------------------------------


def attention_matrix(attend: Attend, problem: Problem) -> Float[Tensor, "N N"]:
    """The weights of the first head: attention to values that are the identity, V' = A I."""
    Q, K = (x[:1, :1] for x in problem[:2])
    return attend(Q, K, torch.eye(Q.shape[2], dtype=Q.dtype)[None, None])[0, 0]


def block_below(A: Float[Tensor, "N N"]) -> Float[Tensor, "later earlier"]:
    """How the second half of the sequence attends to the first."""
    half = len(A) // 2
    return A[half:, :half]


# Denominators -------------------------------------------------------------------------------


def denominators(lengths: Iterable[int], H: int, D: int, M: int, seed: int) -> pd.DataFrame:
    """Columns N, causal, smallest, largest: those of linear attention on normal numbers."""
    rows = []
    for N in lengths:
        problem = normal_problem(H, N, D, M, seed)
        for causal in (False, True):
            with watch_denominators() as seen:
                ATTENTIONS["linear"](*problem[:3], causal=causal)
            rows.append((N, causal, seen.smallest, seen.largest))
    return pd.DataFrame(rows, columns=["N", "causal", "smallest", "largest"])


# Costs --------------------------------------------------------------------------------------


def costs(name: str, N: int, H: int, D: int, M: int) -> dict:
    """Matrix-product FLOPs and exact peak bytes of a causal forward and backward pass.

    In float32. ``authors`` is their causal linear attention, whose compiled kernel no counter
    sees into: its FLOPs are NaN.
    """
    problem = normal_problem(H, N, D, M, seed=0, dtype=torch.float32)
    authors = name == "authors"
    attend = by_authors("linear", True, N, D) if authors else implementations(True)[name]
    leaves = [x.requires_grad_() for x in problem[:3]]
    if name == "lsh":
        leaves.pop(1)

    def run():
        return torch.autograd.grad(attend(*problem[:3]), leaves, problem.G)

    flops = float("nan") if authors else count_flops(run)
    return {"mechanism": name, "N": N, "flops": flops, "peak_bytes": peak_bytes(run)}


def slope(lengths: ArrayLike, costs: ArrayLike) -> float:
    """p of the power law c N^p that is nearest, by least squares of the logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(costs), 1)[0])
