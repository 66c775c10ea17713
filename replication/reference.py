"""The equations, written down literally: loops, float64, nothing fast.

One sequence and one head: Q, K are [N, D], V is [N, M]. A subscript is a row, so that K_j is
row j of K written as a column. Numbers in brackets are those of the paper (Katharopoulos et
al. 2020). Never timed; everything in ``replication.attention`` is held against this file.
"""

from collections.abc import Callable

import torch
from torch import Tensor

EPS = 1e-6
"""Added to the denominators of linear attention, as in the authors' code; not in the paper."""

Map = Callable[[Tensor], Tensor]
Similarity = Callable[[Tensor, Tensor], Tensor]


# Feature maps and similarities ------------------------------------------------------------


def elu_plus_one(x: Tensor) -> Tensor:
    """phi(x) = elu(x) + 1, Eq. (7)."""
    return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))


def polynomial_2(x: Tensor) -> Tensor:
    """phi(x) holds x_a x_b for all a, b, so that phi(q)^T phi(k) = (q^T k)^2 (Sec. 3.2.1)."""
    return torch.stack([a * b for a in x.unbind(-1) for b in x.unbind(-1)], -1)


def softmax_similarity(q: Tensor, k: Tensor) -> Tensor:
    """sim(q, k) = exp(q^T k / sqrt(D)), which makes Eq. (3) the softmax of Eq. (2)."""
    return torch.exp(q @ k / len(q) ** 0.5)


def kernel_similarity(phi: Map) -> Similarity:
    """sim(q, k) = phi(q)^T phi(k), which makes Eq. (3) the kernel form of Eq. (4)."""
    return lambda q, k: phi(q) @ phi(k)


# Attention --------------------------------------------------------------------------------


def softmax_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """V' = softmax(Q K^T / sqrt(D)) V, Eq. (2), row by row."""
    rows = []
    for q in Q:
        scores = torch.stack([q @ k for k in K]) / Q.shape[1] ** 0.5
        weights = torch.exp(scores - scores.max())
        rows.append(sum(w * v for w, v in zip(weights, V, strict=True)) / weights.sum())
    return torch.stack(rows)


def causal_softmax_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Eq. (8) with the similarity of Eq. (2): row i sees the rows up to i."""
    N = range(len(Q))
    return torch.cat([softmax_attention(Q[i : i + 1], K[: i + 1], V[: i + 1]) for i in N])


def attention(Q: Tensor, K: Tensor, V: Tensor, sim: Similarity, eps: float = 0.0) -> Tensor:
    """V'_i = sum_j sim(Q_i, K_j) V_j / sum_j sim(Q_i, K_j), Eq. (3)."""
    return torch.stack([_weighted_mean(q, K, V, sim, eps) for q in Q])


def causal_attention(Q: Tensor, K: Tensor, V: Tensor, sim: Similarity, eps: float = 0.0) -> Tensor:
    """Eq. (3) with sums that end at j = i, Eq. (8)."""
    return torch.stack(
        [_weighted_mean(q, K[: i + 1], V[: i + 1], sim, eps) for i, q in enumerate(Q)]
    )


def _weighted_mean(q: Tensor, K: Tensor, V: Tensor, sim: Similarity, eps: float) -> Tensor:
    weights = [sim(q, k) for k in K]
    return sum(w * v for w, v in zip(weights, V, strict=True)) / (sum(weights) + eps)


def linear_attention(Q: Tensor, K: Tensor, V: Tensor, phi: Map = elu_plus_one) -> Tensor:
    """V'_i = phi(Q_i)^T sum_j phi(K_j) V_j^T / phi(Q_i)^T sum_j phi(K_j), Eq. (5)."""
    S = sum(torch.outer(phi(k), v) for k, v in zip(K, V, strict=True))
    Z = sum(phi(k) for k in K)
    return torch.stack([phi(q) @ S / (phi(q) @ Z + EPS) for q in Q])


def causal_sums(K: Tensor, V: Tensor, phi: Map = elu_plus_one) -> tuple[Tensor, Tensor]:
    """S_i = sum_{j<=i} phi(K_j) V_j^T and Z_i = sum_{j<=i} phi(K_j), Eqs. (10) and (11)."""
    S, Z = [], []
    for i in range(len(K)):
        S.append(sum(torch.outer(phi(K[j]), V[j]) for j in range(i + 1)))
        Z.append(sum(phi(K[j]) for j in range(i + 1)))
    return torch.stack(S), torch.stack(Z)


def causal_linear_attention(Q: Tensor, K: Tensor, V: Tensor, phi: Map = elu_plus_one) -> Tensor:
    """V'_i = phi(Q_i)^T S_i / phi(Q_i)^T Z_i, Eqs. (9) and (12), as the RNN of (16)-(20)."""
    s, z, rows = torch.zeros(()), torch.zeros(()), []
    for q, k, v in zip(Q, K, V, strict=True):
        s, z = s + torch.outer(phi(k), v), z + phi(k)
        rows.append(phi(q) @ s / (phi(q) @ z + EPS))
    return torch.stack(rows)


def numerator_gradients(q: Tensor, k: Tensor, V: Tensor, G: Tensor) -> tuple[Tensor, ...]:
    """Gradients of the causal numerators, Eqs. (13)-(15).

    q and k are phi(Q) and phi(K); G_i is the gradient with respect to the i-th numerator.
    """
    N = range(len(q))
    dq = [sum(torch.outer(k[j], V[j]) for j in range(i + 1)) @ G[i] for i in N]
    later = [sum(torch.outer(q[j], G[j]) for j in range(i, len(q))) for i in N]
    dk = [later[i] @ V[i] for i in N]
    dV = [later[i].T @ k[i] for i in N]
    return torch.stack(dq), torch.stack(dk), torch.stack(dV)


# The transformer layer and its recurrent form -----------------------------------------------


def transformer_layer(x: Tensor, attend: Callable, W_Q, W_K, W_V, f: Map) -> Tensor:
    """T(x) = f(A(x) + x), Eq. (1), with Q = x W_Q, K = x W_K, V = x W_V from Eq. (2)."""
    return f(attend(x @ W_Q, x @ W_K, x @ W_V) + x)


def recurrent_layer(x: Tensor, W_Q, W_K, W_V, f: Map, phi: Map = elu_plus_one) -> Tensor:
    """The same layer as an RNN with the memories s and z, Eqs. (16)-(20)."""
    s = torch.zeros(len(phi(x[0] @ W_K)), W_V.shape[1], dtype=x.dtype)  # (16)
    z = torch.zeros(len(s), dtype=x.dtype)  # (17)
    y = []
    for x_i in x:
        s = s + torch.outer(phi(x_i @ W_K), x_i @ W_V)  # (18)
        z = z + phi(x_i @ W_K)  # (19)
        q = phi(x_i @ W_Q)
        y.append(f(q @ s / (q @ z + EPS) + x_i))  # (20)
    return torch.stack(y)


# LSH attention (Kitaev et al. 2020) ---------------------------------------------------------


def lsh_bucket(x: Tensor, rotation: Tensor) -> int:
    """h(x) = argmax of (x R, -x R)."""
    projected = x @ rotation
    return int(torch.cat((projected, -projected)).argmax())


def lsh_attention(Q, V, hashes: list[list[int]], chunk: int, causal: bool = False) -> Tensor:
    """Rounds of attention among those close in the order of their buckets, joined.

    In each round positions are sorted by (bucket, place) and cut into chunks; i meets the j
    of its own chunk and of the one before. With z_r the log of the round's sum of weights and
    o_r its output, V'_i = sum_r exp(z_r - z) o_r, where z = log sum_r exp(z_r).
    """
    logs, outputs = [], []
    for buckets in hashes:
        order = sorted(range(len(Q)), key=lambda j: (buckets[j], j))
        block = {j: rank // chunk for rank, j in enumerate(order)}
        pairs = [_lsh_row(i, Q, V, block, causal) for i in range(len(Q))]
        logs.append(torch.stack([log for log, _ in pairs]))
        outputs.append(torch.stack([output for _, output in pairs]))
    share = torch.softmax(torch.stack(logs), 0).unsqueeze(-1)
    return (share * torch.stack(outputs)).sum(0)


def _lsh_row(i: int, Q: Tensor, V: Tensor, block: dict[int, int], causal: bool):
    """The log of the sum of weights and the output of position i in one round."""
    near = [j for j in block if block[i] - 1 <= block[j] <= block[i] and not (causal and j > i)]
    met = [j for j in near if j != i] or [i]
    scores = [Q[i] @ (Q[j] / Q[j].norm()) / Q.shape[1] ** 0.5 for j in met]
    scores = torch.stack(scores) - (1e5 if met == [i] else 0.0)
    weights = torch.softmax(scores, 0)
    return scores.logsumexp(0), sum(w * V[j] for w, j in zip(weights, met, strict=True))


# All of them, for [B, H, N, D] --------------------------------------------------------------


def _softmax(Q, K, V, *, causal):
    return (causal_softmax_attention if causal else softmax_attention)(Q, K, V)


def _linear(Q, K, V, *, causal, phi: Map = elu_plus_one):
    return (causal_linear_attention if causal else linear_attention)(Q, K, V, phi)


def _lsh(Q, K, V, *, causal, rotations, chunk):
    hashes = [[lsh_bucket(x, rotation) for x in Q] for rotation in rotations]
    return lsh_attention(Q, V, hashes, chunk, causal)


REFERENCES = {"softmax": _softmax, "linear": _linear, "lsh": _lsh}
"""By what the card of a mechanism names; (Q, K, V, causal) of one head."""


def batched(name: str, Q, K, V, *, causal=False, key_lengths=None, **options) -> Tensor:
    """The reference for [B, H, N, D]: head by head, keys cut at their length, float64.

    With queries of padded positions (causal, or keys that are queries) those rows are left
    out of what the reference defines, and are zero here.
    """
    Q, K, V = (x.double() for x in (Q, K, V))
    result = Q.new_zeros(*Q.shape[:3], V.shape[-1])
    for b in range(Q.shape[0]):
        length = K.shape[2] if key_lengths is None else int(key_lengths[b])
        queries = length if causal or name == "lsh" else Q.shape[2]
        for h in range(Q.shape[1]):
            one = Q[b, h, :queries], K[b, h, :length], V[b, h, :length]
            result[b, h, :queries] = REFERENCES[name](*one, causal=causal, **options)
    return result
