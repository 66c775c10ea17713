"""Which kernel runs, how it is compiled and kept, and what happens where it cannot be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

from replication.attention import (
    available_kernel,
    choose_kernel,
    compiled,
    elu_plus_one,
    kernels,
    linear_attention,
    polynomial_2,
)

ROOT = Path(__file__).resolve().parent.parent
X = torch.randn(1, 2, 70, 16)

CALL = """
import sys, torch
from replication.attention import linear_attention, available_kernel
assert "numba" not in sys.modules
torch.manual_seed(0)
Q, K, V = (torch.randn(2, 4, 70, 16, requires_grad=True) for _ in "QKV")
values = linear_attention(Q, K, V, causal=True)
values.square().sum().backward()
print(available_kernel().kernel, float(values.sum()), float(K.grad.sum()))
"""


def python(code, **variables):
    """Its output and what it says besides."""
    run = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, kernels.VARIABLE: "auto", "PYTHONPATH": str(ROOT), **variables},
        timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.split(), run.stderr


# The choice --------------------------------------------------------------------------------


def choice(Q=X, causal=True, feature_map=elu_plus_one, kernel="auto"):
    return choose_kernel(Q, Q, causal, feature_map, kernel)


def test_causal_float32_attention_on_a_processor_is_compiled(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "auto")
    assert choice().kernel == "compiled"
    assert "numba" in choice().reason
    assert choice() == available_kernel()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"causal": False}, "not causal"),
        ({"Q": X.double()}, "torch.float64"),
        ({"Q": X.half()}, "torch.float16"),
        ({"Q": X.to("meta")}, "on meta"),
        ({"feature_map": polynomial_2}, "polynomial_2"),
        ({"feature_map": lambda x: x}, "<lambda>"),
        ({"Q": torch.zeros(1, 1, 2, 300)}, "300 features"),
    ],
)
def test_all_else_is_pytorch_s_and_says_why(options, reason, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "auto")
    assert choice(**options).kernel == "pytorch"
    assert reason in choice(**options).reason
    with pytest.raises(ValueError, match='kernel="compiled" cannot compute this'):
        choice(**options, kernel="compiled")
    assert choice(**options, kernel="pytorch").kernel == "pytorch"


def test_the_environment_chooses_where_the_call_does_not(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "pytorch")
    assert choice() == ("pytorch", "REPLICATION_KERNEL=pytorch asks for it")
    assert choice(kernel="compiled").kernel == "compiled"
    monkeypatch.setenv(kernels.VARIABLE, "compiled")
    assert choice().kernel == "compiled"
    assert choice(Q=X.double()).kernel == "pytorch"
    monkeypatch.setenv(kernels.VARIABLE, "fast")
    with pytest.raises(ValueError, match="REPLICATION_KERNEL=fast is unknown"):
        choice()


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match=r"kernel='numba' is unknown\. Choose one of: auto"):
        linear_attention(X, X, X, causal=True, kernel="numba")


def test_the_kernel_that_is_chosen_is_the_one_that_runs(monkeypatch):
    called = []
    monkeypatch.setattr(
        "replication.attention.linear._by_pytorch", lambda *_: called.append(1) or (X, X, None)
    )
    linear_attention(X, X, X, causal=True, kernel="compiled")
    assert not called
    linear_attention(X, X, X, causal=True, kernel="pytorch")
    assert called


# Compiling ---------------------------------------------------------------------------------


def test_it_is_compiled_once_and_kept(tmp_path):
    first, said = python(CALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert "Compiling causal linear attention" in said
    assert str(tmp_path) in said
    again, silent = python(CALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert "Compiling" not in silent
    assert first == again
    assert first[0] == "compiled"


BITS = """
import hashlib, os, torch
from replication.attention.blocks import tile_rows
tile_rows.TILE_ROWS = int(os.environ["TILE_ROWS"])
from replication.attention import linear_attention
digest = hashlib.sha256()
for N, D, M in ((1, 5, 7), (63, 16, 24), (65, 32, 32), (130, 33, 17)):
    torch.manual_seed(N)
    Q, K, V, G = (torch.randn(2, 2, N, size) for size in (D, D, M, M))
    leaves = [x.requires_grad_() for x in (Q, K, V)]
    out, state = linear_attention(*leaves, causal=True, return_state=True, kernel="compiled")
    out.backward(G)
    for x in (out, *state, *(leaf.grad for leaf in leaves)):
        digest.update(x.detach().numpy().tobytes())
print(digest.hexdigest())
"""


def test_tiles_of_four_rows_and_of_eight_give_the_same_bits(tmp_path):
    """So the tiles of a processor that is not here are tried here, too."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    found = [python(BITS, TILE_ROWS=rows, **cache)[0] for rows in ("4", "8")]
    assert found[0] == found[1]
    assert len(list((tmp_path / "replication").iterdir())) == 2, "each has a cache of its own"


def test_without_a_folder_to_write_to_it_is_compiled_all_the_same(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    found, said = python(CALL, NUMBA_CACHE_DIR=str(blocked))
    assert found[0] == "compiled"
    assert "no folder to keep it in" in said


def test_a_folder_that_becomes_read_only_stops_nothing(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    found, said = python(CALL, NUMBA_CACHE_DIR=str(tmp_path))
    assert found[0] == "compiled"
    assert "no folder to keep it in" in said


def test_code_of_other_sources_is_never_taken_from_the_disk(tmp_path, monkeypatch):
    before = kernels._folder()
    shutil.copytree(Path(kernels.__file__).parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels.py"))
    assert kernels._folder() == before
    with (tmp_path / "blocks" / "registers.py").open("a") as file:
        file.write("\n")
    assert kernels._folder() != before


@pytest.mark.parametrize(
    "broken",
    ["sys.modules['numba'] = None", "import numba; numba.njit = lambda *a, **k: 1 / 0"],
    ids=["absent", "failing"],
)
def test_where_numba_fails_pytorch_computes_the_same_and_says_so(broken):
    good, _ = python(CALL, REPLICATION_KERNEL="pytorch")
    call = CALL.replace('assert "numba" not in sys.modules', broken)
    found, said = python(call)
    assert found[0] == "pytorch"
    assert found[1:] == good[1:]
    assert "The compiled kernel for causal linear attention cannot be used: numba fails" in said


def test_who_insists_on_it_is_told_why_it_cannot_be(monkeypatch):
    monkeypatch.setattr(kernels, "_load", lambda _: (None, "numba fails (ImportError: none)"))
    monkeypatch.setenv(kernels.VARIABLE, "compiled")
    with pytest.raises(RuntimeError, match=r"REPLICATION_KERNEL=compiled asks .* numba fails"):
        linear_attention(X, X, X, causal=True)
    monkeypatch.setenv(kernels.VARIABLE, "auto")
    with pytest.raises(RuntimeError, match=r'kernel="compiled" asks .* numba fails'):
        linear_attention(X, X, X, causal=True, kernel="compiled")


# Processes ---------------------------------------------------------------------------------


def attended(i: int) -> torch.Tensor:
    """Values and gradients of sequence i, by two threads of the kernel; PyTorch's own threads
    do not survive a fork, so that a loader allows its workers one."""
    Q, K, V = torch.randn(3, 8, 4, 300, 32, generator=torch.Generator().manual_seed(i))
    leaves = [x.requires_grad_() for x in (Q, K, V)]
    with mock.patch.object(torch, "get_num_threads", return_value=2):
        values = linear_attention(*leaves, causal=True, kernel="compiled")
        values.backward(values.detach())
    return torch.stack([values.detach(), *(x.grad for x in leaves)])


class Attended(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return attended(i)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_loader_compute_the_same_bits(start):
    """Also those that are forked from a process whose own threads have computed before."""
    wanted = [attended(i) for i in range(4)]
    loader = torch.utils.data.DataLoader(
        Attended(), batch_size=None, num_workers=2, multiprocessing_context=start, timeout=120
    )
    found = list(loader)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_gets_threads_of_its_own():
    """Those of its parent are not in it, though the list of them is."""
    assert compiled._pool() is compiled._pool()
    child = os.fork()
    if child == 0:
        os._exit(compiled._pool.cache_info().currsize)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
