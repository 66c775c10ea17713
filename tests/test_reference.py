"""The equations of the reference agree with each other, as the paper derives them."""

import pytest
import torch
from cases import assert_near

from replication import reference as ref

TIGHT = 1e-12
PHIS = [ref.elu_plus_one, ref.polynomial_2]


@pytest.fixture
def QKV():
    return [torch.randn(6, d, dtype=torch.float64) for d in (3, 3, 4)]


def numerators(q, k, V):
    """Eq. (9) before it is divided, from features: sum_{j<=i} (q_i^T k_j) V_j."""
    return torch.stack([sum(q[i] @ k[j] * V[j] for j in range(i + 1)) for i in range(len(q))])


def test_eq_3_with_the_exponential_similarity_is_eq_2(QKV):
    general = ref.attention(*QKV, ref.softmax_similarity)
    assert_near(general, ref.softmax_attention(*QKV), TIGHT)


def test_eq_8_with_the_exponential_similarity_is_causal_softmax(QKV):
    general = ref.causal_attention(*QKV, ref.softmax_similarity)
    assert_near(general, ref.causal_softmax_attention(*QKV), TIGHT)


def test_eq_2_is_the_softmax_of_pytorch(QKV):
    Q, K, V = QKV
    scores = Q @ K.T / 3**0.5
    assert_near(ref.softmax_attention(Q, K, V), scores.softmax(-1) @ V, TIGHT)
    future = torch.ones(6, 6, dtype=torch.bool).triu(1)
    causal = scores.masked_fill(future, -torch.inf).softmax(-1) @ V
    assert_near(ref.causal_softmax_attention(Q, K, V), causal, TIGHT)


@pytest.mark.parametrize("phi", PHIS)
def test_eq_4_equals_eq_5_by_associativity(QKV, phi):
    eq_4 = ref.attention(*QKV, ref.kernel_similarity(phi), eps=ref.EPS)
    assert_near(ref.linear_attention(*QKV, phi), eq_4, TIGHT)


@pytest.mark.parametrize("phi", PHIS)
def test_eq_9_equals_eq_8_with_a_kernel(QKV, phi):
    eq_8 = ref.causal_attention(*QKV, ref.kernel_similarity(phi), eps=ref.EPS)
    assert_near(ref.causal_linear_attention(*QKV, phi), eq_8, TIGHT)


def test_eps_scales_the_paper_s_result_by_d_over_d_plus_eps(QKV):
    Q, K, _ = QKV
    sim = ref.kernel_similarity(ref.elu_plus_one)
    denominators = torch.stack([sum(sim(q, k) for k in K) for q in Q]).unsqueeze(-1)
    shrink = denominators / (denominators + ref.EPS)
    assert (shrink < 1).all()
    assert_near(ref.linear_attention(*QKV), ref.attention(*QKV, sim) * shrink, TIGHT)


def test_running_sums_give_eq_12(QKV):
    Q, K, V = QKV
    S, Z = ref.causal_sums(K, V)
    rows = [ref.elu_plus_one(q) @ s / (ref.elu_plus_one(q) @ z + ref.EPS)
            for q, s, z in zip(Q, S, Z, strict=True)]  # fmt: skip
    assert_near(ref.causal_linear_attention(Q, K, V), torch.stack(rows), TIGHT)


def test_eqs_13_to_15_equal_automatic_differentiation(QKV):
    q, k, V = (x.requires_grad_() for x in QKV)
    G = torch.randn_like(V)
    wanted = torch.autograd.grad(numerators(q, k, V), (q, k, V), G)
    for by_hand, automatic in zip(ref.numerator_gradients(q, k, V, G), wanted, strict=True):
        assert_near(by_hand, automatic, TIGHT)


def test_eqs_13_to_15_equal_finite_differences(QKV):
    G, step = torch.randn_like(QKV[2]), 1e-5
    by_hand = ref.numerator_gradients(*QKV, G)
    for x, gradient in zip(QKV, by_hand, strict=True):
        slopes = torch.empty_like(x)
        for place in torch.cartesian_prod(*(torch.arange(n) for n in x.shape)):
            ends = []
            for sign in (1, -1):
                x[tuple(place)] += sign * step
                ends.append((numerators(*QKV) * G).sum())
                x[tuple(place)] -= sign * step
            slopes[tuple(place)] = (ends[0] - ends[1]) / (2 * step)
        assert_near(slopes, gradient, 1e-8)


@pytest.mark.parametrize("phi", PHIS)
def test_the_rnn_of_eqs_16_to_20_is_the_transformer_of_eq_1(phi):
    x = torch.randn(9, 4, dtype=torch.float64)
    W_Q, W_K = torch.randn(2, 4, 3, dtype=torch.float64)
    W_V = torch.randn(4, 4, dtype=torch.float64)

    def attend(Q, K, V):
        return ref.causal_linear_attention(Q, K, V, phi)

    parallel = ref.transformer_layer(x, attend, W_Q, W_K, W_V, torch.tanh)
    assert_near(ref.recurrent_layer(x, W_Q, W_K, W_V, torch.tanh, phi), parallel, TIGHT)


def test_degree_2_features_give_the_squared_inner_product():
    q, k = torch.randn(2, 5, dtype=torch.float64)
    assert ref.polynomial_2(q).shape == (25,)
    assert_near(ref.polynomial_2(q) @ ref.polynomial_2(k), (q @ k) ** 2, TIGHT)


def test_eq_7_is_elu_plus_one_and_positive():
    x = torch.linspace(-30, 5, 101, dtype=torch.float64)
    assert_near(ref.elu_plus_one(x), torch.nn.functional.elu(x) + 1, TIGHT)
    assert (ref.elu_plus_one(x) > 0).all()


def test_batched_cuts_keys_at_their_length_and_leaves_padded_queries_zero():
    Q, K, V = (torch.randn(2, 1, 4, d, dtype=torch.float64) for d in (3, 3, 2))
    full = ref.batched("linear", Q, K, V, key_lengths=[4, 2])
    assert_near(full[1, 0], ref.linear_attention(Q[1, 0], K[1, 0, :2], V[1, 0, :2]), TIGHT)
    causal = ref.batched("linear", Q, K, V, causal=True, key_lengths=[4, 2])
    assert (causal[1, 0, 2:] == 0).all()
    assert_near(causal[0, 0], ref.causal_linear_attention(Q[0, 0], K[0, 0], V[0, 0]), TIGHT)
