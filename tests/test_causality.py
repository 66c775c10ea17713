"""The past does not depend on the future, and nothing on padding: bit for bit, NaN included."""

import pytest
import torch
from cases import NAMES, WITH_KEYS

from replication.attention import lsh_attention, mechanism

N = 200
FUTURES = {"other numbers": None, "nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf}
LSH = {"rounds": 2, "buckets": 16, "chunk": 8}


@pytest.fixture
def QKV():
    return [torch.randn(2, 2, N, d) for d in (5, 5, 7)]


def replaced(x, start, number=None):
    x = x.clone()
    x[:, :, start:] = 100 * torch.randn_like(x[:, :, start:]) if number is None else number
    return x


@pytest.mark.parametrize("start", [1, 63, 64, 65, 130, 199])
@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize("name", WITH_KEYS)
def test_the_future_changes_nothing_in_the_past(name, future, start, QKV):
    attend = mechanism(name)
    before = attend(*QKV, causal=True)
    after = attend(*(replaced(x, start, FUTURES[future]) for x in QKV), causal=True)
    assert torch.equal(before[:, :, :start], after[:, :, :start])
    assert not torch.isclose(before[:, :, start:], after[:, :, start:]).any()


@pytest.mark.parametrize("start", [1, 64, 130])
@pytest.mark.parametrize("name", WITH_KEYS)
def test_the_past_has_no_gradient_by_the_future(name, start, QKV):
    leaves = [x.requires_grad_() for x in QKV]
    past = mechanism(name)(*leaves, causal=True)[:, :, :start]
    for gradient in torch.autograd.grad(past.square().sum(), leaves):
        assert (gradient[:, :, start:] == 0).all()
    assert (gradient[:, :, :start] != 0).any()


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("j", [0, 63, 64, 150])
@pytest.mark.parametrize("which", ["K", "V"])
@pytest.mark.parametrize("name", WITH_KEYS)
def test_a_bad_key_or_value_reaches_exactly_the_queries_that_see_it(name, which, j, number, QKV):
    good = mechanism(name)(*QKV, causal=True)
    QKV["QKV".index(which)][1, 0, j, 2] = number
    bad = mechanism(name)(*QKV, causal=True)
    assert torch.equal(bad[0], good[0])
    assert torch.equal(bad[1, 1], good[1, 1])
    assert torch.equal(bad[1, 0, :j], good[1, 0, :j])
    assert bad[1, 0, j:].isnan().all()
    everyone = mechanism(name)(*QKV)
    assert everyone[1, 0].isnan().all()
    assert everyone[0].isfinite().all()
    assert everyone[1, 1].isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", WITH_KEYS)
def test_a_bad_query_spoils_its_own_row_alone(name, causal, QKV):
    good = mechanism(name)(*QKV, causal=causal)
    QKV[0][1, 0, 70, 2] = torch.nan
    bad = mechanism(name)(*QKV, causal=causal)
    assert bad[1, 0, 70].isnan().all()
    bad[1, 0, 70] = good[1, 0, 70]
    assert torch.equal(bad, good)


@pytest.mark.parametrize("number", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_stands_in_padding_has_no_effect(name, causal, number, QKV):
    """On the values and gradients of all that is no padding; the gradients of padding are zero."""
    lengths = torch.tensor([N, 70])
    shared = mechanism(name).shared_keys
    own = slice(70) if causal or shared else slice(None)

    def run(Q, K, V):
        leaves = [x.clone().requires_grad_() for x in ((Q, V) if shared else (Q, K, V))]
        values = mechanism(name).attend(*leaves, causal=causal, key_lengths=lengths)
        loss = values[0].square().sum() + values[1, :, own].square().sum()
        return [values[0], values[1, :, own], *torch.autograd.grad(loss, leaves)]

    clean = run(*QKV)
    for x in (QKV[0], QKV[2]) if shared else QKV[1:]:
        x[1, :, 70:] = number
    dirty = run(*QKV)
    assert all(torch.equal(a, b) for a, b in zip(clean, dirty, strict=True))
    for gradient in dirty[3:]:
        assert (gradient[1, :, 70:] == 0).all()


# LSH attention sorts the whole sequence, so that the future decides which earlier keys are met.


@pytest.mark.parametrize("start", [1, 64, 150])
@pytest.mark.parametrize("future", FUTURES)
def test_later_values_change_nothing_in_lsh(future, start, QKV):
    Q, _, V = QKV
    before = lsh_attention(Q, V, causal=True, **LSH)
    after = lsh_attention(Q, replaced(V, start, FUTURES[future]), causal=True, **LSH)
    assert torch.equal(before[:, :, :start], after[:, :, :start])
    assert not torch.equal(before[:, :, start:], after[:, :, start:])


def test_later_queries_change_which_keys_lsh_meets_but_bring_no_value_in(QKV):
    Q, _, V = QKV
    start, other = 120, replaced(Q, 120)
    before = lsh_attention(Q, V, causal=True, **LSH)
    after = lsh_attention(other, V, causal=True, **LSH)
    assert not torch.allclose(before[:, :, :start], after[:, :, :start])
    again = lsh_attention(other, replaced(V, start), causal=True, **LSH)
    assert torch.equal(again[:, :, :start], after[:, :, :start])


@pytest.mark.parametrize("j", [1, 64, 150])
def test_a_bad_query_in_lsh_leaves_earlier_rows_finite_and_spoils_the_later_ones(j, QKV):
    Q, _, V = QKV
    Q[1, 0, j, 2] = torch.nan
    values = lsh_attention(Q, V, causal=True, **LSH)
    assert values[0].isfinite().all()
    assert values[1, 1].isfinite().all()
    assert values[1, 0, :j].isfinite().all()
    assert values[1, 0, j:].isnan().all()
