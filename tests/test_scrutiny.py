"""The instruments of notebook 02 find what they look for: errors, leaks, ranks, slopes."""

import numpy as np
import pandas as pd
import pytest
import torch

from replication import reference
from replication.attention import elu_plus_one, linear_attention, trained
from replication.attention.authors import is_installed
from replication.experiments.derivation import EXPERIMENT as DERIVATION
from replication.experiments.implementations import EXPERIMENT as IMPLEMENTATIONS
from replication.experiments.implementations import bench, scrutiny
from replication.experiments.implementations.scrutiny import Problem, normal_problem
from replication.report.show import tagged
from replication.store import ROOT

N, D, M = 37, 5, 7
LSH = {"lsh": {"rounds": 2, "buckets": 4, "chunk": 4, "seed": 1}}
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
    assert set(rows.mechanism) == set(trained()) | ({"linear-step"} if causal else set())
    assert set(rows.type) == set(scrutiny.TYPES)
    bound = rows.type.map({"float64": 1e-13, "float32": 1e-5, "bfloat16": 4e-2})
    bound[(rows.against == "authors") & (rows.type == "float64")] = 1e-5
    assert (rows["values"] < bound).all()
    assert (rows.gradients < bound).all()


def test_the_authors_are_a_witness_exactly_where_they_are_installed(problem):
    rows = scrutiny.errors(problem, True, LSH)
    assert ("authors" in set(rows.against)) == is_installed()
    theirs = rows[rows.against != "reference"].mechanism
    assert set(theirs) <= {"linear", "linear-step"}


def test_a_wrong_value_and_a_wrong_gradient_are_told_apart(problem, monkeypatch):
    """Values times 1.01; then the same values, with half the gradient."""
    right = scrutiny.implementations(True, LSH)["linear"]
    wrong = {
        "value": lambda *QKV: 1.01 * right(*QKV),
        "gradient": lambda *QKV: (right(*QKV) + right(*QKV).detach()) / 2,
    }
    found = []
    for attend in wrong.values():
        monkeypatch.setattr(scrutiny, "implementations", lambda *_, a=attend: {"linear": a})
        rows = scrutiny.errors(problem, True, LSH)
        found += rows[(rows.type == "float64") & (rows.against == "reference")].to_dict("records")
    value, gradient = found
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
    A = scrutiny.attention_matrix(causal["linear"], problem)
    assert rank(A[N // 2 :, : N // 2]) == D


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


@pytest.mark.skipif(not is_installed(), reason="needs the authors' library")
def test_the_kernel_of_the_authors_is_weighed_but_not_counted():
    row = scrutiny.costs("authors", 64, 2, D, M)
    assert np.isnan(row["flops"])
    assert row["peak_bytes"] > 4 * 2 * 64 * (D + D + M)  # the gradients alone


def test_a_slope_is_the_power():
    assert scrutiny.slope([2, 4, 16], [3 * 2**1.5, 3 * 4**1.5, 3 * 16**1.5]) == pytest.approx(1.5)


# Notebook 02 shows the heart ------------------------------------------------------------------

CHUNKED = tagged(ROOT / "notebooks/02_attention_implementations.ipynb", "chunked")


@pytest.mark.parametrize("N", [1, 2, 15, 16, 17, 40])
def test_the_chunked_lines_of_notebook_02_compute_eq_12(N):
    Q, K, V, _ = normal_problem(2, N, D, M, seed=0)
    names = {"Q": Q, "K": K, "V": V, "heads": 2, "head_dim": D, "value_dim": M, "torch": torch,
             "reference": reference, "elu_plus_one": elu_plus_one}  # fmt: skip
    exec(CHUNKED, names)
    expected = reference.batched("linear", Q, K, V, causal=True)
    assert scrutiny.relative_error(names["in_chunks"], expected) < 1e-13


def test_the_chunked_lines_are_about_fifteen():
    assert 8 <= len(CHUNKED.splitlines()) <= 16


# Parameters -----------------------------------------------------------------------------------

HASHED = {"rounds": 1, "buckets": 2, "chunk": 1, "seed": 0}
SIZES = {"heads": 1, "head_dim": 1, "value_dim": 1, "positions": 2}
GOOD = {
    "derivation": {"N": 1, "D": 1, "M": 1, "size": 1, "lengths": [1], "seed": 0},
    "implementations": SIZES | {"lengths": [1, 2], "longest": 2, "rank_lengths": [1],
                                "lsh": HASHED, "seed": 0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("experiment", "changed", "said"),
    [
        (DERIVATION, {"N": 0}, "N=0 is too small"),
        (DERIVATION, {"D": 0}, "D=0 is too small"),
        (DERIVATION, {"M": 1.5}, "M=1.5 is not a whole number"),
        (DERIVATION, {"lengths": []}, "lengths is empty"),
        (DERIVATION, {"lengths": [8, 0]}, "lengths=0 is too small"),
        (IMPLEMENTATIONS, {"heads": 0}, "heads=0 is too small"),
        (IMPLEMENTATIONS, {"positions": 1}, "positions=1 is too small"),
        (IMPLEMENTATIONS, {"rank_lengths": []}, "rank_lengths is empty"),
        (IMPLEMENTATIONS, {"lengths": [8, 8]}, "holds 8 more than once"),
        (IMPLEMENTATIONS, {"longest": 1}, "leaves fewer than two"),
        (IMPLEMENTATIONS, {"lsh": HASHED | {"rounds": 0}}, "rounds=0 is too small"),
        (IMPLEMENTATIONS, {"lsh": {"rounds": 2}}, "lsh lacks buckets, chunk, seed"),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_what_leaves_nothing_to_compute_is_refused_in_words(experiment, changed, said):
    experiment.check(**GOOD[experiment.name])
    with pytest.raises(ValueError, match=said):
        experiment.check(**GOOD[experiment.name] | changed)


@pytest.mark.parametrize(
    "changed",
    [{"heads": "3"}, {"positions": "4"}, {"longest": "2"}, {"lengths": ["1", "2"]},
     {"rank_lengths": ["1"]}, {"lsh": HASHED | {"buckets": "4"}}],
    ids=str,
)  # fmt: skip
def test_a_number_in_quotes_is_refused_in_words(changed):
    """The notebook computes with it as it comes, so a text would break it after the check."""
    with pytest.raises(ValueError, match=r"is a text\. Give a whole number, without quotes"):
        IMPLEMENTATIONS.check(**GOOD["implementations"] | changed)


# bench attention ------------------------------------------------------------------------------


def test_bars_are_ratios_within_the_run():
    """Made-up rows in which all rivals take four times as long and as much memory."""
    names = ("linear", "linear-pytorch", "authors", "softmax", "softmax-textbook")
    rows = [
        {"contender": name, "head_dim": D, "N": n, "round": i, "us": us, "peak_bytes": 50 * us}
        for name, us in zip(names, (1.0, 4.0, 4.0, 4.0, 4.0), strict=True)
        for D in bench.HEAD_DIMS for n in bench.LENGTHS for i in range(3)
    ]  # fmt: skip
    decoding = pd.DataFrame(
        {
            "contender": ["linear", "authors"] * 2,
            "batch": [1, 1, 16, 16],
            "us": [1.0, 1.5, 1.0, 1.5],
        }
    )
    busy = pd.DataFrame({"busy": [0, 2, 4], "ms": [1.0, 2.0, 6.0], "explained": [1.0, 2.0, 3.0]})
    rate = bench.OPERATIONS * 64**2 * bench.HEADS * 1e6 * 2  # half of it is reached at D = 64
    found = bench.bars(pd.DataFrame(rows), decoding, busy, rate).set_index("what")
    assert found.measured["share of the GEMM rate, D = 64, N = 4096"] == pytest.approx(0.5)
    assert found.measured[[what for what in found.index if "least from N" in what]].ge(2).all()
    missed = set(found.index[~found.reached])
    assert missed == {
        "share of the GEMM rate, D = 32, N = 4096",
        "authors / linear, decoding, batch 1",
        "share of the slowdown beside 4 programs explained",
    }


def test_the_bench_runs_a_layer_forward_and_backward():
    for run in bench.layers(bench.able(), 2 * N, N, D, torch.device("cpu")).values():
        assert bench.measure.peak_bytes(run) >= 4 * 3 * 2 * 8 * N * D  # three gradients


def test_what_lost_cores_explain(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert [bench.explained(busy) for busy in (0, 1, 2, 3)] == [1, 1, 1.5, 2]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert [bench.explained(busy) for busy in (0, 2, 4)] == [1, 2, 3]
