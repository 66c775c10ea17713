"""The authors' own library, pytorch-fast-transformers, gives the same values and gradients.

Its tensors are [N, L, H, D] and float32; the order of sums differs, so that a few digits do.
"""

import pytest
import torch
from cases import assert_all_near, assert_near

from replication.attention import (
    linear_attention,
    linear_attention_step,
    lsh,
    lsh_attention,
    softmax_attention,
)

pytest.importorskip(
    "fast_transformers", reason="the authors' library is absent; install it by make peers"
)

from fast_transformers.attention.causal_linear_attention import CausalLinearAttention
from fast_transformers.attention.full_attention import FullAttention
from fast_transformers.attention.linear_attention import LinearAttention
from fast_transformers.attention.reformer_attention import ReformerAttention
from fast_transformers.masking import FullMask, LengthMask, TriangularCausalMask
from fast_transformers.recurrent.attention.self_attention.linear_attention import (
    RecurrentLinearAttention,
)

BOUND = 1e-4
"""Of two float32 results. Theirs multiplies by the inverse of the denominator and rounds in
elu(x) + 1, where exp(x) - 1 + 1 keeps 6e-8 of absolute, not relative, precision."""

D, M = 5, 7


def authors(module, Q, K, V, causal, lengths):
    """Call one of their modules with our layout."""
    N, L = Q.shape[2], K.shape[2]
    mask = TriangularCausalMask(N) if causal else FullMask(N, L)
    own = LengthMask(torch.full((len(Q),), L) if lengths is None else lengths, max_len=L)
    queries = LengthMask(torch.full((len(Q),), N), max_len=N)
    theirs = (x.transpose(1, 2) for x in (Q, K, V))
    return module(*theirs, mask, queries, own).transpose(1, 2)


def both(ours, theirs, *sizes):
    """Values and gradients of the same inputs, ours and theirs."""
    leaves = [torch.randn(2, 2, *size, requires_grad=True) for size in sizes]
    values = ours(*leaves), theirs(*leaves)
    G = torch.randn_like(values[0])
    return [(v, *torch.autograd.grad(v, leaves, G)) for v in values]


PADDING = pytest.mark.parametrize("padded", [False, True])


@PADDING
@pytest.mark.parametrize("N", [1, 2, 63, 64, 65, 300])
def test_causal_linear_attention_is_that_of_the_authors(N, padded):
    lengths = torch.tensor([N, 1 + N // 3]) if padded else None
    module = CausalLinearAttention(D)
    pair = both(
        lambda *x: linear_attention(*x, causal=True, key_lengths=lengths),
        lambda *x: authors(module, *x, True, lengths),
        (N, D), (N, D), (N, M),
    )  # fmt: skip
    assert_all_near(*pair, BOUND)


@PADDING
@pytest.mark.parametrize(("N", "L"), [(1, 1), (65, 65), (300, 300), (7, 300), (300, 2)])
def test_linear_attention_is_that_of_the_authors(N, L, padded):
    lengths = torch.tensor([L, 1 + L // 3]) if padded else None
    module = LinearAttention(D)
    pair = both(
        lambda *x: linear_attention(*x, key_lengths=lengths),
        lambda *x: authors(module, *x, False, lengths),
        (N, D), (L, D), (L, M),
    )  # fmt: skip
    assert_all_near(*pair, BOUND)


@PADDING
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("N", [1, 65, 300])
def test_softmax_attention_is_that_of_the_authors(N, fused, causal, padded):
    lengths = torch.tensor([N, 1 + N // 3]) if padded else None
    module = FullAttention(attention_dropout=0.0)
    pair = both(
        lambda *x: softmax_attention(*x, causal=causal, key_lengths=lengths, fused=fused),
        lambda *x: authors(module, *x, causal, lengths),
        (N, D), (N, D), (N, M),
    )  # fmt: skip
    assert_all_near(*pair, BOUND)


def test_a_recurrent_step_is_that_of_the_authors():
    module, N = RecurrentLinearAttention(D), 100

    def unrolled(step):
        def run(Q, K, V):
            state, rows = None, []
            for q, k, v in zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True):
                row, state = step(state, q, k, v)
                rows.append(row)
            s, z = state
            return torch.cat((torch.stack(rows, 2), s, z.unsqueeze(-1).expand_as(s)), 2)

        return run

    ours, theirs = linear_attention_step, lambda state, q, k, v: module(q, k, v, state)
    assert_all_near(*both(unrolled(ours), unrolled(theirs), (N, D), (N, D), (N, M)), BOUND)


def full_buckets(planes, chunk):
    """Vectors in random order that fill every bucket with as many as a chunk holds."""
    x = torch.randn(5000, D)
    buckets = torch.cat((x @ planes.T, -x @ planes.T), 1).argmax(1)
    rows = [torch.nonzero(buckets == i)[:chunk, 0] for i in range(2 * len(planes))]
    return x[torch.cat(rows)[torch.randperm(chunk * len(rows))]]


@pytest.mark.parametrize("causal", [False, True])
def test_one_round_of_lsh_is_that_of_the_authors(causal, monkeypatch):
    """With their hash. They average rounds where the Reformer weighs them, so one is compared;
    their sort leaves the order within a bucket open, so a chunk holds exactly one bucket."""
    module = ReformerAttention(chunk_size=8, bits=4, rounds=1, masked=True, attention_dropout=0.0)
    torch.manual_seed(3)
    planes = torch.nn.init.normal_(torch.empty(4, D))
    Q = torch.stack([full_buckets(planes, 8) for _ in range(4)]).view(2, 2, 64, D)
    V = torch.randn(2, 2, 64, D)
    torch.manual_seed(3)
    theirs = authors(module, Q, Q, V, causal, None)
    monkeypatch.setattr(lsh, "random_rotations", lambda *_: planes.T.unsqueeze(0))
    ours = lsh_attention(Q, V, causal=causal, rounds=1, buckets=8, chunk=8)
    assert_near(ours, theirs, BOUND)
