"""LSH attention: hashing, sorting, chunks, rounds."""

import pytest
import torch
import torch.nn.functional as F
from cases import BOUNDS, assert_near

from replication import reference
from replication.attention import lsh_attention
from replication.attention.lsh import hash_buckets, random_rotations, sorted_order

TIGHT = BOUNDS[torch.float64]


@pytest.fixture
def QV():
    return [torch.randn(2, 2, 100, d, dtype=torch.float64) for d in (5, 7)]


def full_attention(Q, V, causal):
    """Softmax over the keys Q_j / |Q_j| with j != i; alone, a position keeps its own value."""
    N, D = Q.shape[2:]
    scores = Q @ F.normalize(Q, dim=-1).mT / D**0.5
    seen = torch.ones(N, N, dtype=torch.bool).tril(-1 if causal else N)
    seen = seen & ~torch.eye(N, dtype=torch.bool)
    seen |= torch.diag(~seen.any(-1))
    return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ V


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("chunk", [100, 101, 256])
@pytest.mark.parametrize("rounds", [1, 3])
def test_one_chunk_of_everything_is_softmax_over_all_others(QV, rounds, chunk, causal):
    values = lsh_attention(*QV, causal=causal, rounds=rounds, chunk=chunk)
    assert_near(values, full_attention(*QV, causal), TIGHT)


def test_who_is_alone_keeps_its_own_value(QV):
    Q, V = QV
    assert_near(lsh_attention(Q[:, :, :1], V[:, :, :1]), V[:, :, :1], TIGHT)
    first = lsh_attention(Q, V, causal=True)[:, :, 0]
    assert_near(first, V[:, :, 0], TIGHT)
    padded = lsh_attention(Q, V, key_lengths=torch.tensor([1, 100]))
    assert_near(padded[0, :, 0], V[0, :, 0], TIGHT)


def test_nobody_else_looks_at_itself(QV):
    Q, V = (x.requires_grad_() for x in QV)
    row = lsh_attention(Q, V, rounds=2, chunk=4)[0, 0, 50].sum()
    gradient = torch.autograd.grad(row, V)[0][0, 0].abs().sum(-1)
    assert gradient[50] == 0
    assert 4 <= (gradient > 0).sum() <= 14  # two rounds of 3 or 7 others


def test_a_seed_gives_the_same_and_another_seed_other_results(QV):
    one, same, other = (lsh_attention(*QV, chunk=8, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_hashing_leaves_the_global_random_numbers_alone(QV):
    before = torch.get_rng_state()
    lsh_attention(*QV, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


def test_more_rounds_come_closer_to_full_attention_on_average(QV):
    wanted = full_attention(*QV, False)
    errors = [
        sum(
            (lsh_attention(*QV, rounds=rounds, buckets=8, chunk=8, seed=seed) - wanted)
            .square().mean().item()
            for seed in range(8)
        )
        for rounds in (1, 2, 4, 8)
    ]  # fmt: skip
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 2


@pytest.mark.parametrize("N", [1, 7, 8, 9, 100])
def test_each_round_s_order_is_a_permutation_sorted_by_bucket_then_place(N, QV):
    hashes = hash_buckets(QV[0][:, :, :N], random_rotations(5, 3, 6, seed=0))
    order = sorted_order(hashes, None, chunk=8)
    assert order.shape == (2, 2, 3, -(-N // 8) * 8)
    assert (order[..., N:] == -1).all()
    order = order[..., :N]
    assert torch.equal(order.sort(-1).values, torch.arange(N).expand_as(order))
    keys = hashes.gather(-1, order) * N + order
    assert (keys.diff(dim=-1) > 0).all()


def test_padding_comes_last_in_every_round(QV):
    hidden = (torch.arange(100) >= torch.tensor([[100], [40]]))[:, None, :, None]
    hashes = hash_buckets(QV[0], random_rotations(5, 3, 6, seed=0))
    order = sorted_order(hashes, hidden, chunk=8)
    assert (order[1, ..., :40] < 40).all()
    assert (order[1, ..., 40:100] >= 40).all()


def test_a_bucket_is_the_direction_that_is_nearest(QV):
    rotations = random_rotations(5, 3, 6, seed=0)
    hashes = hash_buckets(QV[0], rotations)
    assert hashes.shape == (2, 2, 3, 100)
    assert set(hashes.unique().tolist()) == set(range(6))
    for r, i in ((0, 0), (1, 50), (2, 99)):
        bucket = reference.lsh_bucket(QV[0][1, 0, i], rotations[r].double())
        assert hashes[1, 0, r, i] == bucket


def test_a_bucket_depends_on_direction_alone_and_its_opposite_is_half_round(QV):
    rotations = random_rotations(5, 3, 6, seed=0)
    hashes = hash_buckets(QV[0], rotations)
    assert torch.equal(hash_buckets(3 * QV[0], rotations), hashes)
    assert torch.equal(hash_buckets(-QV[0], rotations), (hashes + 3) % 6)
