"""The instruments, on cases whose answer is known."""

import os
from pathlib import Path

import pytest
import torch

from replication import attention, measure
from replication.attention import Mechanism
from replication.experiments.scaling.contenders import Group, layer_calls
from replication.measure import count_flops, peak_bytes

MB = 1 << 20
CPU = torch.device("cpu")


def test_peak_counts_what_lives_at_the_same_time():
    def run():
        a = torch.empty(MB, dtype=torch.uint8)
        b = torch.empty(2 * MB, dtype=torch.uint8)
        del a
        return b, torch.empty(MB // 2, dtype=torch.uint8)

    assert measure.peak_bytes(run) == 3 * MB


def test_peak_does_not_count_what_existed_before():
    before = torch.zeros(8 * MB, dtype=torch.uint8)
    assert measure.peak_bytes(before.zero_) == 0


def test_flops_of_a_matrix_product_are_2nmk():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert measure.count_flops(lambda: a @ b) == 2 * 3 * 5 * 7


def test_contenders_take_turns_in_random_order_after_a_warm_up():
    calls = []
    runs = {name: lambda name=name: calls.append(name) for name in "abc"}
    rows = list(measure.interleaved(runs, 9))
    assert calls[:3] == list("abc")
    assert calls[3:] == [name for _, name, _ in rows]
    turns = ["".join(name for i, name, _ in rows if i == turn) for turn in range(9)]
    assert all(sorted(turn) == list("abc") for turn in turns)
    assert len(set(turns)) > 2
    assert all(seconds >= 0 for *_, seconds in rows)


def test_a_process_of_its_own_has_the_allocator_s_settings_and_its_threads():
    before = dict(os.environ)
    with measure.processes("1", threads=1) as pool:
        facts = pool.submit(measure.machine).result()
        begun = pool.submit(Path("/proc/self/environ").read_bytes).result().decode()
    assert facts["allocator"] == measure.ALLOCATOR
    started = dict(setting.split("=", 1) for setting in begun.split("\0") if setting)
    assert started.items() >= (measure.ALLOCATOR | measure.PASSIVE).items(), "glibc reads these"
    assert facts["threads"] == 1
    assert dict(os.environ) == before


def test_what_is_set_between_two_processes_is_handed_on(monkeypatch):
    for value in ("one", "two"):
        monkeypatch.setenv("REPLICATION_TEST", value)
        with measure.processes(1) as pool:
            assert pool.submit(os.getenv, "REPLICATION_TEST").result() == value


def test_an_unknown_device_is_told():
    with pytest.raises(ValueError, match=r'cannot be used here.*Choose "auto"'):
        measure.pick_device("abacus")


def test_machine_names_processor_threads_and_versions():
    facts = measure.machine()
    assert facts["processor"]
    assert facts["threads"] >= 1
    assert facts["versions"]["torch"] == torch.__version__


def test_flops_of_fused_attention_are_those_of_its_two_products():
    q, k, v = (torch.randn(1, 2, 64, 16) for _ in range(3))
    run = torch.nn.functional.scaled_dot_product_attention
    assert measure.count_flops(lambda: run(q, k, v)) == 2 * (2 * 2 * 64 * 64 * 16)


def test_products_added_in_place_are_counted():
    a, b, out = torch.randn(2, 3, 5), torch.randn(2, 5, 7), torch.zeros(2, 3, 7)
    assert measure.count_flops(lambda: out.baddbmm_(a, b)) == 2 * 2 * 3 * 5 * 7


@pytest.mark.parametrize("kept", [True, False])
def test_memory_is_counted_exactly_whether_tensors_are_kept_or_freed(kept):
    def run():
        alive = []
        for _ in range(3):
            alive = [*alive, torch.empty(1000)] if kept else []
            torch.empty(500)
        return alive

    assert measure.peak_bytes(run) == (3 * 4000 + 2000 if kept else 2000)


# Of contenders ---------------------------------------------------------------------------


def layer(N, head_dim=8, batch=2, heads=2, causal=True, direction="training") -> Group:
    return Group("layer", direction, causal, "thread", heads, head_dim, "float32", N, batch)


def test_every_call_of_a_contender_needs_the_memory_of_its_first():
    calls = layer_calls(["linear", "softmax", "lsh-1"], layer(33), CPU)
    for call in calls.values():
        assert peak_bytes(call) == peak_bytes(call) > 0


def test_textbook_softmax_keeps_its_matrix_and_fused_softmax_does_not():
    size = layer(512, batch=1, causal=False, direction="forward")
    calls = layer_calls(["softmax", "softmax-textbook"], size, CPU)
    memory = {name: peak_bytes(call) for name, call in calls.items()}
    matrix = 4 * 2 * 512**2
    assert memory["softmax-textbook"] >= 2 * matrix > matrix > memory["softmax"]


def test_products_of_fused_softmax_are_counted_two_forward_and_five_backward():
    product = 2 * 2 * 3 * 65 * 65 * 8
    for direction, products in (("forward", 2), ("training", 7)):
        size = layer(65, heads=3, direction=direction)
        assert count_flops(layer_calls(["softmax"], size, CPU)["softmax"]) == (products * product)


def test_what_is_somebody_else_s_gets_its_own_layout_without_a_copy(monkeypatch):
    seen = []

    def theirs(Q, K, V, *, causal):
        seen.append([x.transpose(1, 2).is_contiguous() for x in (Q, K, V)])
        return V

    softmax = attention.mechanism("softmax")
    peer = Mechanism(name="peer", attend=theirs, look=softmax.look, time_power=1, memory_power=1,
                     is_peer=True)  # fmt: skip
    known = attention.contenders() | {"peer": peer.contenders()[0]}
    monkeypatch.setattr(attention, "contenders", lambda: known)
    calls = layer_calls(["linear", "peer"], layer(5, direction="forward"), CPU)
    for call in calls.values():
        call()
    assert seen == [[True] * 3]
