"""The instruments, on cases whose answer is known."""

import os
import subprocess
import sys

import pytest
import torch

from replication import measure

MB = 1 << 20


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


def test_contenders_take_turns_after_a_warm_up():
    calls = []
    runs = {name: lambda name=name: calls.append(name) for name in "ab"}
    rows = list(measure.interleaved(runs, 3))
    assert calls == list("ab" * 4)
    assert [(i, name) for i, name, _ in rows] == [(i, n) for i in range(3) for n in "ab"]
    assert all(seconds >= 0 for *_, seconds in rows)


def test_a_process_with_the_wrong_allocator_restarts_itself_and_says_so():
    code = (
        "from replication.measure import *; restart_with_allocator(); print(allocator_is_right())"
    )
    clean = {k: v for k, v in os.environ.items() if k not in measure.ALLOCATOR}
    done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True)
    assert done.stdout.split() == ["True"]
    assert done.stderr.count("Restarting") == 1


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
