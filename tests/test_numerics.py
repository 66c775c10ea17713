"""Large, tiny and long inputs: results stay finite and precise, memory stays linear."""

import pytest
import torch
import torch.nn.functional as F
from cases import NAMES, assert_all_near

from replication import reference
from replication.attention import (
    elu_plus_one,
    linear_attention,
    linear_attention_step,
    mechanism,
    polynomial_2,
    watch_denominators,
)
from replication.attention.causal_sums import EPS
from replication.measure import peak_bytes

CAUSAL = pytest.mark.parametrize("causal", [False, True])
LONG = 65_536

LONG_BOUND = 2e-6
"""Of float32 against float64 at N = 65,536. Sums travel over 1024 chunks and are rounded by at most
2^-24 in each, so that independent errors add up to 6e-8 sqrt(1024) = 1.9e-6."""

PEAK_BOUND = 6
"""Peak memory of forward and backward at N = 4096, in sizes of V: three gradients and V' are 4,
the rest are sums at the edges of tiles and buffers that do not grow with N."""

LARGE = {name: 1e3 if name == "softmax" else 1e4 for name in NAMES}
"""Up to where gradients are finite. PyTorch's fused kernels compute weights anew in the backward
pass as exp(score - log-sum-exp), and where scores reach 1e8 rounding alone can exceed what exp
can hold (pytorch/pytorch#125674)."""

SIGNS = {"positive": torch.abs, "negative": lambda x: -x.abs(), "mixed": lambda x: x}


def values_and_gradients(attend, *inputs, **options):
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    values = attend(*leaves, **options)
    G = torch.randn(values.shape, generator=torch.Generator().manual_seed(1)).to(values.dtype)
    gradients = torch.autograd.grad(values, leaves, G, allow_unused=True, materialize_grads=True)
    return values.detach(), *gradients


@CAUSAL
@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("name", NAMES)
def test_large_and_tiny_inputs_stay_finite(name, sign, causal):
    inputs = [SIGNS[sign](torch.randn(2, 2, 130, d)) for d in (5, 5, 7)]
    assert mechanism(name)(*(1e4 * x for x in inputs), causal=causal).isfinite().all()
    for scale in (1e-4, LARGE[name]):
        scaled = [scale * x for x in inputs]
        for x in values_and_gradients(mechanism(name), *scaled, causal=causal):
            assert x.isfinite().all()


@CAUSAL
@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("scale", [1e4, 1e-4])
@pytest.mark.parametrize("phi", [elu_plus_one, polynomial_2, torch.relu])
def test_every_feature_map_stays_finite(phi, scale, sign, causal):
    inputs = [SIGNS[sign](torch.randn(2, 2, 130, d)) * scale for d in (5, 5, 7)]
    options = {"causal": causal, "feature_map": phi}
    for x in values_and_gradients(linear_attention, *inputs, **options):
        assert x.isfinite().all()


@CAUSAL
@pytest.mark.parametrize("name", NAMES)
def test_zeros_stay_finite(name, causal):
    inputs = [torch.zeros(1, 2, 70, d) for d in (5, 5, 7)]
    for x in values_and_gradients(mechanism(name), *inputs, causal=causal):
        assert x.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_elu_plus_one_keeps_its_digits_where_elu_loses_them(dtype):
    x = torch.tensor([-8.0, -7.0, -6.5], dtype=dtype)
    exact = x.double().exp()
    assert (elu_plus_one(x) > 0).all()
    assert ((elu_plus_one(x).double() - exact).abs() <= torch.finfo(dtype).eps * exact).all()
    if dtype == torch.bfloat16:
        assert (F.elu(x) + 1 == 0).all()


# Denominators ------------------------------------------------------------------------------


@CAUSAL
def test_a_denominator_is_never_zero(causal):
    Q, K, V = (-torch.rand(1, 2, 70, d) for d in (3, 3, 4))
    with watch_denominators() as seen:
        answer = values_and_gradients(
            linear_attention, Q, K, V, causal=causal, feature_map=torch.relu
        )
    assert seen.smallest == seen.largest == pytest.approx(EPS)
    assert (answer[0] == 0).all()
    assert all(x.isfinite().all() for x in answer)


def denominators(Q, K, causal):
    """phi(Q_i)^T Z_i + EPS of all rows and heads, by the reference."""
    phi, found = reference.elu_plus_one, []
    for q, k in zip(Q.flatten(0, 1), K.flatten(0, 1), strict=True):
        Z = reference.causal_sums(k, k)[1]
        found.append((phi(q) * (Z if causal else Z[-1])).sum(-1) + reference.EPS)
    return torch.stack(found)


@CAUSAL
def test_watching_tells_the_true_smallest_and_largest_denominator(causal):
    Q, K, V = (torch.randn(2, 2, 70, d, dtype=torch.float64) for d in (3, 3, 4))
    with watch_denominators() as seen:
        linear_attention(Q, K, V, causal=causal)
    wanted = denominators(Q, K, causal)
    assert seen.smallest == pytest.approx(wanted.min().item(), rel=1e-12)
    assert seen.largest == pytest.approx(wanted.max().item(), rel=1e-12)


def test_watching_sees_every_step():
    Q, K, V = (torch.randn(2, 2, 9, d, dtype=torch.float64) for d in (3, 3, 4))
    wanted, state = denominators(Q, K, causal=True), None
    with watch_denominators() as seen:
        for i in range(9):
            _, state = linear_attention_step(state, Q[:, :, i], K[:, :, i], V[:, :, i])
            upto = wanted[:, : i + 1]
            assert seen.smallest == pytest.approx(upto.min().item(), rel=1e-12)
            assert seen.largest == pytest.approx(upto.max().item(), rel=1e-12)


def test_a_watch_sees_all_inside_its_block_and_nothing_after_it():
    x = torch.ones(1, 1, 1, 1)
    small, large = -x, 9 * x  # denominators exp(-2) and 100
    with watch_denominators() as outer:
        linear_attention(small, small, x)
        with watch_denominators() as inner:
            linear_attention(large, large, x)
    linear_attention(99 * x, 99 * x, x)
    assert (inner.smallest, inner.largest) == pytest.approx((100, 100))
    assert (outer.smallest, outer.largest) == pytest.approx((0.135336, 100), rel=1e-5)


def test_a_watch_ends_when_its_block_fails():
    with pytest.raises(ZeroDivisionError), watch_denominators() as seen:
        raise ZeroDivisionError
    linear_attention(*(torch.ones(1, 1, 1, 1),) * 3)
    assert (seen.smallest, seen.largest) == (float("inf"), float("-inf"))


# Length ------------------------------------------------------------------------------------


def test_float32_is_precise_at_length_65536():
    inputs = [torch.randn(1, 1, LONG, 16) for _ in "QKV"]
    single = values_and_gradients(linear_attention, *inputs, causal=True, kernel="pytorch")
    double = values_and_gradients(linear_attention, *(x.double() for x in inputs), causal=True)
    assert_all_near(single, double, LONG_BOUND)


def peak(N, attend):
    """Bytes of forward and backward of 8 heads, D = M = 64, and bytes of V."""
    Q, K, V, G = (torch.randn(1, 8, N, 64, requires_grad=True) for _ in "QKVG")

    def run():
        return torch.autograd.grad(attend(Q, K, V, causal=True), (Q, K, V), G.detach())

    return peak_bytes(run), V.nbytes


def test_memory_of_causal_linear_attention_grows_exactly_with_length():
    """Every further position takes the same bytes; N x D x M numbers would be 64 sizes of V."""
    (short, _), (middle, size_of_V), (long, _) = (
        peak(N, linear_attention) for N in (2048, 4096, 8192)
    )
    assert long - middle == 2 * (middle - short)
    assert middle <= PEAK_BOUND * size_of_V


def test_the_meter_sees_the_matrix_of_textbook_softmax():
    """So that the bound above could be broken: N x N numbers are N / 64 sizes of V."""
    bytes_, size_of_V = peak(1024, mechanism("softmax-textbook"))
    assert bytes_ > 1024 // 64 * size_of_V
