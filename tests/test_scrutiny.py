"""The instruments of notebook 02 find what they look for: errors, leaks, ranks, slopes."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from replication import scrutiny
from replication.attention import ATTENTIONS, elu_plus_one, linear_attention
from replication.scrutiny import Problem, normal_problem

N, D, M = 37, 5, 7
LSH = {"rounds": 2, "buckets": 4, "chunk": 4, "seed": 1}
CAUSAL = pytest.mark.parametrize("causal", [False, True])


@pytest.fixture
def problem() -> Problem:
    return normal_problem(2, N, D, M, seed=0)


def test_a_problem_is_the_same_in_every_type(problem):
    for dtype in scrutiny.TYPES.values():
        for x, y in zip(problem, normal_problem(2, N, D, M, seed=0, dtype=dtype), strict=True):
            assert torch.equal(x, y.double())
    assert not torch.equal(problem.Q, normal_problem(2, N, D, M, seed=1).Q)


@CAUSAL
def test_errors_are_rounding_for_every_mechanism_and_type(causal, problem):
    rows = scrutiny.errors(problem, causal, LSH)
    assert set(rows.mechanism) == set(ATTENTIONS) | ({"linear-step"} if causal else set())
    assert set(rows.type) == set(scrutiny.TYPES)
    bound = rows.type.map({"float64": 1e-13, "float32": 1e-5, "bfloat16": 4e-2})
    bound[(rows.against == "authors") & (rows.type == "float64")] = 1e-5
    assert (rows["values"] < bound).all()
    assert (rows.gradients < bound).all()


def test_the_authors_are_a_witness_exactly_where_they_are_installed(problem):
    rows = scrutiny.errors(problem, True, LSH)
    installed = find_spec("fast_transformers") is not None
    assert ("authors" in set(rows.against)) == installed
    assert rows[rows.mechanism == "lsh"].against.eq("reference").all()


def test_a_wrong_value_and_a_wrong_gradient_are_told_apart(problem, monkeypatch):
    """Values times 1.01; then the same values, with half the gradient."""
    right = scrutiny.implementations(True, LSH)["linear"]
    wrong = {
        "value": lambda *QKV: 1.01 * right(*QKV),
        "gradient": lambda *QKV: (right(*QKV) + right(*QKV).detach()) / 2,
    }
    monkeypatch.setattr(
        scrutiny, "implementations", lambda *_: {f"linear-{k}": wrong[k] for k in wrong}
    )
    rows = scrutiny.errors(problem, True, LSH).query("type == 'float64' and against == 'reference'")
    value, gradient = rows.to_dict("records")
    assert value["values"] == pytest.approx(0.01)
    assert gradient["values"] < 1e-13
    assert gradient["gradients"] == pytest.approx(0.5)


@CAUSAL
def test_dependence_is_the_weight_times_the_root_of_m(causal, problem):
    """V'_i = sum_j A_ij V_j, so that the derivative by V_j is A_ij times the identity of M."""
    for attend in scrutiny.implementations(causal, LSH).values():
        A = scrutiny.attention_matrix(attend, problem)
        assert np.allclose(scrutiny.dependence(attend, problem), A * M**0.5, atol=1e-12)
        assert torch.allclose(A.sum(1), torch.ones(N, dtype=A.dtype), atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "softmax-textbook", "linear", "linear-step"])
def test_nothing_looks_ahead_under_a_causal_mask(name, problem):
    attend = scrutiny.implementations(True)[name]
    for matrix in (scrutiny.dependence(attend, problem), scrutiny.influence(attend, problem)):
        assert (np.triu(matrix, 1) == 0).all()
        assert (matrix[np.tril_indices(N)] > 0).all()


def test_lsh_takes_no_value_from_the_future_but_its_order(problem):
    attend = scrutiny.implementations(True, LSH)["lsh"]
    assert (np.triu(scrutiny.dependence(attend, problem), 1) == 0).all()
    assert (np.triu(scrutiny.influence(attend, problem), 1) > 0).any()


def test_a_leak_of_one_position_is_found(problem):
    """Position 3 gets a thousandth of value 9."""

    def leaky(Q, K, V):
        values = linear_attention(Q, K, V, causal=True).clone()
        values[:, :, 3] += V[:, :, 9] / 1000
        return values

    for matrix in (scrutiny.dependence(leaky, problem), scrutiny.influence(leaky, problem)):
        assert np.argwhere(np.triu(matrix, 1)).tolist() == [[3, 9]]


def test_linear_attention_has_rank_c_and_softmax_has_rank_n(problem):
    full, causal = scrutiny.implementations(False), scrutiny.implementations(True)
    rank = torch.linalg.matrix_rank
    assert rank(scrutiny.attention_matrix(full["linear"], problem)) == D
    assert rank(scrutiny.attention_matrix(full["softmax"], problem)) == N
    below = scrutiny.block_below(scrutiny.attention_matrix(causal["linear"], problem))
    assert below.shape == (N - N // 2, N // 2)
    assert rank(below) == D


def test_denominators_are_those_of_eq_12():
    rows = scrutiny.denominators([1, N], 2, D, M, seed=0)
    problem = normal_problem(2, N, D, M, seed=0)
    weights = elu_plus_one(problem.Q) @ elu_plus_one(problem.K).mT
    for causal, sums in ((False, weights.sum(-1)), (True, weights.tril().sum(-1))):
        row = rows[(rows.N == N) & (rows.causal == causal)].iloc[0]
        assert row.smallest == pytest.approx(float(sums.min()), abs=1e-5)
        assert row.largest == pytest.approx(float(sums.max()), abs=1e-5)
    alone = rows[rows.N == 1]
    assert alone.smallest.nunique() == 1


def test_flops_of_softmax_are_those_of_its_products():
    """Forward Q K^T and A V; backward two for each. The fused form computes scores once more."""
    D = 8
    product = 2 * 2 * N * N * D
    assert scrutiny.costs("softmax-textbook", N, 2, D, D)["flops"] == 6 * product
    assert scrutiny.costs("softmax", N, 2, D, D)["flops"] == 7 * product


def test_costs_of_linear_attention_double_with_the_length():
    short, long = (scrutiny.costs("linear", n, 2, D, M) for n in (1024, 2048))
    assert long["flops"] == 2 * short["flops"]
    assert 1.7 < long["peak_bytes"] / short["peak_bytes"] < 2.1


@pytest.mark.skipif(not find_spec("fast_transformers"), reason="needs the authors' library")
def test_the_kernel_of_the_authors_is_weighed_but_not_counted():
    row = scrutiny.costs("authors", 64, 2, D, M)
    assert np.isnan(row["flops"])
    assert row["peak_bytes"] > 4 * 2 * 64 * (D + D + M)  # the gradients alone


def test_a_slope_is_the_power():
    assert scrutiny.slope([2, 4, 16], [3 * 2**1.5, 3 * 4**1.5, 3 * 16**1.5]) == pytest.approx(1.5)
