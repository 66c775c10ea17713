"""LSH attention of the Reformer (Kitaev et al. 2020), the paper's second baseline.

Queries are keys. Similar ones are hashed to the same bucket, sorted by bucket, and attend
within chunks of the sorted order, looking one chunk back. Several rounds of hashing are
joined by their log-sum-exp.

A key that is met in several rounds counts in each of them, as in the library of the paper's
authors; the Reformer's formula would correct for it. Their library takes the plain mean of
the rounds; here they weigh as much as their partition functions, as in the Reformer.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from replication.attention.card import Look, Mechanism, shade
from replication.attention.checks import check_tensors, confined, hidden_keys

CHUNK = 32
"""Positions in a chunk, as in the authors' copy task."""
SELF = -1e5
"""Added to the score of a position with itself: chosen only where there is no other."""


def lsh_attention(
    Q: Float[Tensor, "B H N D"],
    V: Float[Tensor, "B H N M"],
    *,
    causal: bool = False,
    key_lengths: Int[Tensor, " B"] | None = None,
    rounds: int = 4,
    buckets: int = 64,
    chunk: int = CHUNK,
    seed: int = 0,
) -> Float[Tensor, "B H N M"]:
    """Softmax attention over the keys Q_j / |Q_j| that share a chunk with the query.

    O(N (log N + rounds * chunk * (D + M))) time, O(N * rounds * chunk) memory. No query
    sees a later key if ``causal``, but which earlier ones it meets depends on how the whole
    sequence is sorted. The same ``seed`` gives the same hash functions.
    """
    check_tensors(Q=Q, V=V)
    _check_settings(Q, V, rounds, buckets, chunk)
    hidden = hidden_keys(key_lengths, Q)
    if hidden is not None:
        Q, V = Q.masked_fill(hidden, 0), V.masked_fill(hidden, 0)
    rotations = random_rotations(Q.shape[-1], rounds, buckets, seed).to(Q.device)
    dtype = torch.promote_types(V.dtype, torch.float32)

    def attend(_, q, v):
        order = sorted_order(hash_buckets(q, rotations), hidden, chunk)
        return (_attend_in_chunks(q.to(dtype), v.to(dtype), order, hidden, causal, chunk),)

    return confined(attend, Q, Q, V, causal)[0].to(V.dtype)


def random_rotations(D: int, rounds: int, buckets: int, seed: int) -> Float[Tensor, "R D half"]:
    """One random projection a round, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rounds, D, buckets // 2, generator=generator)


@torch.no_grad()
def hash_buckets(
    Q: Float[Tensor, "B H N D"], rotations: Float[Tensor, "R D half"]
) -> Int[Tensor, "B H R N"]:
    """h(x) = argmax of (x R, -x R), in float32 at least."""
    x = Q.to(torch.promote_types(Q.dtype, torch.float32)).unsqueeze(2)
    projected = x @ rotations.to(x.dtype)
    return torch.cat((projected, -projected), -1).argmax(-1)


def sorted_order(
    hashes: Int[Tensor, "B H R N"], hidden: Tensor | None, chunk: int
) -> Int[Tensor, "B H R S"]:
    """Positions by bucket, then by place; -1 fills the last chunk up. Padding comes last."""
    N = hashes.shape[-1]
    if hidden is not None:
        hashes = hashes.masked_fill(hidden.mT, hashes.max() + 1)
    order = hashes.argsort(dim=-1, stable=True)
    return F.pad(order, (0, -N % chunk), value=-1)


def _attend_in_chunks(Q, V, order, hidden, causal: bool, chunk: int) -> Tensor:
    """Every round on its own, back in the original order, then their weighted mean."""
    B, H, R, S = order.shape
    N, M = V.shape[2:]
    place = order.unflatten(-1, (-1, chunk))
    q, v = (_gather(x, order).unflatten(3, (-1, chunk)) for x in (Q, V))
    k = F.normalize(q, dim=-1)
    k, v, key_place = (_with_previous(x) for x in (k, v, place))
    scores = q @ k.mT / Q.shape[-1] ** 0.5
    scores = _masked(scores, place, key_place, hidden, causal)
    total = scores.logsumexp(-1)
    result = (scores - total.unsqueeze(-1)).exp() @ v
    return _join_rounds(result.reshape(B, H, R, S, M), total.reshape(B, H, R, S), order, N)


def _gather(x: Tensor, order: Tensor) -> Tensor:
    """x [B, H, N, F] in the order of every round: [B, H, R, S, F]."""
    index = order.clamp(min=0).flatten(2).unsqueeze(-1)
    return x.gather(2, index.expand(-1, -1, -1, x.shape[-1])).unflatten(2, order.shape[2:])


def _with_previous(x: Tensor) -> Tensor:
    """[B, H, R, n, c, ...] -> [B, H, R, n, 2 c, ...]: every chunk after the one before it.

    Before the first chunk stand zeros, whose place -1 marks them as no keys.
    """
    first = torch.full_like(x[:, :, :, :1], -1 if x.dtype == torch.int64 else 0)
    return torch.cat((torch.cat((first, x[:, :, :, :-1]), 3), x), 4)


def _masked(scores: Tensor, place: Tensor, key_place: Tensor, hidden, causal: bool) -> Tensor:
    place, key_place = place.unsqueeze(-1), key_place.unsqueeze(-2)
    none = key_place < 0
    if hidden is not None:
        B, H, R, n, _, width = key_place.shape
        flat = key_place.clamp(min=0).reshape(B, -1)
        none = none | hidden.view(B, -1).gather(1, flat).view(B, H, R, n, 1, width)
    if causal:
        none = none | (key_place > place)
    scores = scores.masked_fill(none, torch.finfo(scores.dtype).min)
    return scores + SELF * (place == key_place).to(scores.dtype)


def _join_rounds(result: Tensor, total: Tensor, order: Tensor, N: int) -> Tensor:
    """Rounds weigh as much as their partition functions: sum_r exp(z_r - z) o_r."""
    inverse = order[..., :N].argsort(-1)
    total = total[..., :N].gather(-1, inverse)
    index = inverse.unsqueeze(-1).expand(*inverse.shape, result.shape[-1])
    weight = total.softmax(2).unsqueeze(-1)
    return (weight * result[..., :N, :].gather(3, index)).sum(2)


def _check_settings(Q: Tensor, V: Tensor, rounds: int, buckets: int, chunk: int) -> None:
    if Q.shape[2] != V.shape[2]:
        raise ValueError(
            f"LSH attention has one vector for query and key, so Q and V need the same length, but "
            f"Q is {list(Q.shape)} and V {list(V.shape)}. It cannot do cross attention."
        )
    for name, value, least in (("rounds", rounds, 1), ("buckets", buckets, 2), ("chunk", chunk, 1)):
        if value < least:
            raise ValueError(f"{name}={value} is too small. Choose at least {least}.")
    if buckets % 2:
        raise ValueError(f"buckets={buckets} is odd, but a bucket is a direction or its opposite.")


GREEN = "#029e73"


def _variant(rounds: int, marker: str, lighter: float) -> tuple[dict, Look]:
    label = f"LSH, {rounds} round{'s' * (rounds > 1)}"
    words = f"LSH with {rounds} round{'s' * (rounds > 1)}"
    look = Look(label, words, shade(GREEN, lighter), marker, "-.", fine=rounds != 4)
    return {"rounds": rounds}, look


CARD = Mechanism(
    name="lsh",
    attend=lsh_attention,
    look=Look("LSH", "LSH attention", GREEN, "^", "-."),
    time_power=1,
    memory_power=1,
    shared_keys=True,
    cross_attention="softmax",
    seeded=True,
    variants={
        "lsh-1": _variant(1, "^", 0.5),
        "lsh-4": _variant(4, "v", 0.0),
        "lsh-8": _variant(8, "<", -0.4),
    },
    order=40,
)
