"""What one more token costs: rows, exact bytes, and who is left out."""

import time

import pytest
import torch

from replication import decoding_cost
from replication.decoding_cost import (
    HEADS,
    LAYERS,
    PROFILES,
    WIDTH,
    Decoding,
    measure,
    of_profile,
    writer,
)

CPU = torch.device("cpu")


def test_a_row_is_a_repeat_of_a_contender_at_a_length():
    rows = measure(Decoding((3, 5), 2, 60.0), CPU)
    assert list(rows.columns) == ["contender", "N", "round", "time_ms", "state_bytes"]
    assert len(rows) == 2 * 3 * 2
    assert (rows.time_ms > 0).all()


def test_every_length_has_its_turn_in_every_round():
    rows = measure(Decoding((3, 5), 3, 60.0), CPU)
    assert rows["round"].is_monotonic_increasing
    first = rows.drop_duplicates("round").N
    assert set(first) == {3, 5}
    assert rows.groupby("round")[["N", "contender"]].value_counts().eq(1).all()


def test_the_state_has_the_same_bytes_after_any_number_of_tokens():
    D = WIDTH // HEADS
    for N in (1, 7, 100):
        assert writer("linear", N, CPU)[1] == 4 * LAYERS * HEADS * (D * D + D)
        assert writer("softmax", N, CPU)[1] == 4 * LAYERS * 2 * N * WIDTH


@pytest.mark.parametrize("name", ["linear", "softmax", "softmax-again"])
def test_a_writer_writes_one_finite_token(name):
    with torch.inference_mode():
        y = writer(name, 4, CPU)[0]()
    assert y.shape == (1, WIDTH)
    assert y.isfinite().all()


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    measure(Decoding((1,), 1, 0.0), CPU)
    assert torch.get_num_threads() == before


def test_who_is_too_slow_is_left_out():
    assert measure(Decoding((3,), 1, 0.0), CPU).empty


def test_who_must_be_expected_to_be_too_slow_is_not_tried(monkeypatch):
    tried = []

    def slow(name, N, device):
        tried.append((name, N))
        return (lambda: time.sleep(0.05 if name == "softmax-again" else 0.0)), 0

    monkeypatch.setattr(decoding_cost, "writer", slow)
    rows = measure(Decoding((8, 32), 1, 0.1), CPU)
    assert ("softmax-again", 32) not in tried
    assert set(rows[rows.N == 8].contender) == {"linear", "softmax", "softmax-again"}
    assert set(rows[rows.N == 32].contender) == {"linear", "softmax"}


def test_every_profile_sees_lengths_fourfold_and_more():
    for decoding in PROFILES.values():
        assert decoding.lengths[-1] >= 4 * decoding.lengths[0]
    with pytest.raises(ValueError, match="profile='fast' is unknown"):
        of_profile("fast")
