"""Equal care: which runs are made, and how the verdict on X3 follows from their rows."""

import numpy as np
import pytest
import torch
from crossover_cases import rows_of

from replication import claims
from replication.attention import available_kernel, mechanism, softmax_attention
from replication.attention.kernels import SOFTMAX
from replication.attention.softmax_tiled import tiled_or_fused
from replication.cli import main
from replication.experiments.base import INCONCLUSIVE, NOT, PARTLY, SUPPORTED
from replication.experiments.equal_care import rules, run
from replication.experiments.equal_care.numbers import resolve
from replication.experiments.scaling.run import Evidence
from replication.report import build
from replication.report.prose import render

LENGTHS = np.array([64, 128, 256, 512, 1024, 2048])


def evidence(ratio, profile="quick", device="cpu"):
    """Of a method whose time is N, where softmax of equal care takes ``ratio`` times as long, and
    fused softmax the square of that."""
    times = {"linear": 1.0 * LENGTHS, "softmax-tiled": ratio * LENGTHS}
    rows = rows_of(times | {"softmax": ratio**2 * LENGTHS}, LENGTHS)
    layer = {"subject": "layer", "direction": "training", "causal": True, "clock": "thread",
             "heads": 8, "head_dim": 64}  # fmt: skip
    facts = {"profile": profile, "machine": {"device": device}}
    return Evidence(rows.assign(status="measured", **layer), facts)


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [
        (LENGTHS / 128, SUPPORTED),
        (LENGTHS / 1024, PARTLY),
        (LENGTHS / 4096, NOT),
    ],
)
def test_the_lead_must_begin_where_the_papers_lengths_do(ratio, outcome):
    found = claims.judge_with("equal_care", evidence(ratio))["X3"]
    assert found.outcome == outcome
    assert "Softmax by our tiles takes" in found.evidence


def test_the_sentence_says_from_where_on():
    found = claims.judge_with("equal_care", evidence(LENGTHS / 128))["X3"]
    assert "linear attention is faster than softmax by our tiles from N = 128 on" in found.evidence


def test_the_lead_of_sequences_in_one_block_is_not_called_the_methods():
    found = claims.judge_with("equal_care", evidence(LENGTHS / 128))["X3"]
    until = found.values["whole_until"]
    assert until == rules.whole_until(8, 64) > rules.whole_until(8, 16)
    assert f"Up to N = {until} our kernel compares all pairs" in found.evidence
    values = {"crossovers": {}, "table": "", "ids": []}
    for known, said in ((found.values, True), ({}, False)):
        told = render(build.ANSWER.read_text(), values | {"claims": {"X3": {"values": known}}})
        assert (f"Up to N = {until} our kernel" in told) is said


@pytest.mark.parametrize("how", [{"profile": "smoke"}, {"device": "NVIDIA A100"}])
def test_smoke_and_a_gpu_decide_nothing(how):
    found = claims.judge_with("equal_care", evidence(LENGTHS / 128, **how))["X3"]
    assert found.outcome == INCONCLUSIVE


def test_the_share_of_the_method_is_one_of_logarithms():
    found = rules.shares(evidence(LENGTHS / 32))
    assert found.share.to_numpy() == pytest.approx(np.full(len(LENGTHS), 0.5))
    assert found["softmax-tiled"].loc[512] == pytest.approx(16)
    slower = rules.shares(evidence(LENGTHS / 128))
    assert slower.share.isna().to_list() == [True, True, False, False, False, False]


def test_it_times_linear_attention_and_both_forms_of_softmax():
    for unit in run.units("reference"):
        assert unit.numbers["contenders"] == ("linear", "softmax-tiled", "softmax")
    assert resolve("reference").lengths[0] == 2
    assert {unit.numbers["run"] for unit in run.units("quick")} == {0, 1, 2}


def test_what_tiles_cannot_compute_the_fused_kernel_does(monkeypatch):
    drawn = [torch.randn(1, 2, 20, 8, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    for causal, dtype in ((False, torch.float32), (True, torch.float64)):
        Q, K, V = (x.to(dtype) for x in drawn)
        expected = softmax_attention(Q, K, V, causal=causal)
        assert torch.equal(tiled_or_fused(Q, K, V, causal=causal), expected)
    monkeypatch.setenv("REPLICATION_KERNEL", "pytorch")
    expected = softmax_attention(*drawn, causal=True)
    assert torch.equal(tiled_or_fused(*drawn, causal=True), expected)


def test_tiles_are_taken_where_they_can_be():
    if available_kernel(SOFTMAX).kernel != "compiled":
        pytest.skip(available_kernel(SOFTMAX).reason)
    Q = torch.randn(1, 2, 70, 8)
    by_tiles = mechanism("softmax-tiled")(Q, Q, Q, causal=True)
    fused = softmax_attention(Q, Q, Q, causal=True)
    assert not torch.equal(by_tiles, fused)  # other sums, other last digits
    torch.testing.assert_close(by_tiles, fused)


def test_shares_need_both_forms():
    rows = evidence(LENGTHS / 32).rows
    none = Evidence(rows[rows.contender != "softmax"], {"profile": "quick"})
    with pytest.raises(ValueError, match='No rows of contender "softmax"'):
        rules.shares(none)


def test_tiles_are_not_compared_where_they_cannot_be(capsys):
    asked = ["crossover", "--compare", "linear", "softmax-tiled"]
    for more in (["--no-causal"], ["--mode", "generation"]):
        assert main([*asked, *more]) == 2
        assert "softmax-tiled works on whole sequences" in capsys.readouterr().err
    assert mechanism("softmax-tiled").unavailable("float64")
