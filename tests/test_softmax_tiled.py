"""Causal softmax attention in tiles is Eq. (2), values and gradients."""

import pytest
import torch
from cases import BOUNDS, Case, assert_all_near, expected, solve
from hypothesis import given
from hypothesis import strategies as st

from replication.attention import softmax_attention
from replication.attention.softmax_tiled import softmax_attention_tiled
from replication.measure import peak_bytes

SINGLE = BOUNDS[torch.float32]
CASES = [Case(N, N, True, p) for N in (1, 2, 31, 33, 63, 64, 65, 200) for p in (False, True)]


def answer(attend, inputs, **options):
    leaves = [x.detach().requires_grad_() for x in inputs]
    values = attend(*leaves, **options)
    G = torch.randn(values.shape, generator=torch.Generator().manual_seed(1)).to(values.dtype)
    return values.detach(), *torch.autograd.grad(values, leaves, G)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiled_softmax_equals_eq_2(case):
    got = solve(softmax_attention_tiled, case, "softmax", torch.float32)
    assert_all_near(got, expected("softmax", case), SINGLE)


@given(
    sizes=st.tuples(*(st.integers(1, high) for high in (2, 3, 150, 40, 40))),
    data=st.data(),
)
def test_tiled_softmax_equals_double_precision_whatever_the_shape(sizes, data):
    torch.manual_seed(0)  # the same numbers whenever an example is tried again
    B, H, N, D, M = sizes
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, N), min_size=B, max_size=B)))
    inputs = [torch.randn(B, H, N, size) for size in (D, D, M)]
    options = {"causal": True, "key_lengths": lengths}
    got = answer(softmax_attention_tiled, inputs, **options)
    wanted = answer(softmax_attention, [x.double() for x in inputs], fused=False, **options)
    assert_all_near(got, wanted, 4 * SINGLE)  # with one key gradients are what cancelling leaves


@pytest.mark.parametrize("scale", [1e-4, 30.0, 1e3])
def test_large_and_tiny_scores_stay_precise(scale):
    inputs = [scale * torch.randn(2, 2, 130, 8), *torch.randn(2, 2, 2, 130, 8)]
    got = answer(softmax_attention_tiled, inputs, causal=True)
    wanted = answer(softmax_attention, [x.double() for x in inputs], causal=True, fused=False)
    assert_all_near(got, wanted, 2e-3 if scale > 100 else SINGLE)


@pytest.mark.parametrize("which", range(3), ids="QKV")
def test_bad_numbers_reach_the_rows_that_see_them(which):
    inputs = list(torch.randn(3, 2, 2, 130, 8))
    clean = softmax_attention_tiled(*inputs, causal=True)
    inputs[which] = inputs[which].clone()
    inputs[which][1, 0, 70, 2] = torch.nan
    values = softmax_attention_tiled(*inputs, causal=True)
    spoilt = values.isnan().all(-1)
    rows = slice(70, 71) if which == 0 else slice(70, None)
    assert spoilt[1, 0, rows].all()
    assert spoilt.sum() == len(range(130)[rows])
    assert torch.equal(values[~spoilt], clean[~spoilt])


def test_it_stores_no_matrix_of_all_scores_and_its_threads_change_no_bit(monkeypatch):
    inputs, found = torch.randn(3, 1, 4, 1024, 32), []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        found.append(answer(softmax_attention_tiled, inputs, causal=True))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    bytes_ = peak_bytes(lambda: answer(softmax_attention_tiled, inputs, causal=True))
    assert bytes_ < 4 * 1024 * 1024 * 4


def test_what_it_cannot_do_is_refused():
    x = torch.randn(1, 1, 2, 3)
    with pytest.raises(ValueError, match="float64 on cpu, but tiled softmax attention is causal"):
        softmax_attention_tiled(x.double(), x.double(), x.double())
    with pytest.raises(ValueError, match="causal is False"):
        softmax_attention_tiled(x, x, x, causal=False)
    x.requires_grad_()
    values = softmax_attention_tiled(x, x, x)
    (gradient,) = torch.autograd.grad(values.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
