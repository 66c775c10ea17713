"""Instruments: the clock, exact peak memory, counted FLOPs, and what machine this is."""

import os
import platform
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from multiprocessing import active_children, forkserver, get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from pathlib import Path
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, bmm_flop, sdpa_flop_count


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(memory_bytes() // 4 * 3),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""glibc's settings that keep freed memory, in pages of 2 MB. Without them every large tensor is
given back to the system and faulted in again, 4 kB at a time, and the clock measures page faults
instead of arithmetic. Beyond three quarters of the machine's memory it is given back all the same:
fragments of a heap that only grows would fill the machine."""

PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
"""A thread that is done sleeps at the barrier. By default libgomp spins there, on the core for
which the others wait: beside other programs that costs most of the time."""

PRELOADED = ["torch", "numba", "pandas", "scipy.stats"]
"""Seconds to import, and done once: processes are copies of one that has them and computed nothing
yet. Addresses of code are the same in all of one program, then; what is computed with is not."""
_servers: set[int] = set()
"""Of which processes are copies: those that were started here."""

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's notes would fill notebooks

VERSIONS = ("torch", "numpy", "numba", "pandas", "statsmodels", "pytorch-fast-transformers")


def pick_device(name: str = "auto") -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device={name!r} cannot be used here ({str(error).splitlines()[0]}). "
            'Choose "auto", "cpu", or install a PyTorch build for it.'
        ) from error
    return device


@contextmanager
def processes(count: int | str = 1, threads: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """Processes of their own, started with ``ALLOCATOR`` and ``PASSIVE``: a process takes such
    settings when it starts, and the kernel of a notebook is running already.

    They end with this one however it ends, and at once if the block is left by an error.
    """
    before = set(active_children())
    with patch.dict(os.environ, ALLOCATOR | PASSIVE):
        pool = ProcessPoolExecutor(int(count), _context(), _begin, (dict(os.environ), threads))
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - before:
                child.terminate()
            raise
        pool.shutdown()


def _context() -> BaseContext:
    """How processes are started: as copies, where that is safe and nobody else's settings rule."""
    running = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if sys.platform != "linux" or running not in {None, *_servers}:
        return get_context("spawn")
    forkserver.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    _servers.add(forkserver._forkserver._forkserver_pid)
    return get_context("forkserver")


def _begin(environment: dict[str, str], threads: int | None) -> None:
    """In a new process: settings, threads, and a watch that ends it after the one it works for."""

    def watch() -> None:
        wait([parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    if threads is not None:
        torch.set_num_threads(threads)


def seconds(run: Callable[[], object], device: torch.device | None = None) -> float:
    """Wall time of one call; waits for CUDA before and after."""
    wait = torch.cuda.synchronize if device is not None and device.type == "cuda" else int
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def cpu_seconds(run: Callable[[], object], device: torch.device | None = None) -> float:
    """Of one call: CPU time if one thread works; wall time of several threads, and of CUDA."""
    if torch.get_num_threads() > 1 or (device is not None and device.type == "cuda"):
        return seconds(run, device)
    start = time.process_time()
    run()
    return time.process_time() - start


def interleaved(
    runs: dict[str, Callable[[], object]], rounds: int, device: torch.device | None = None
) -> Iterator[tuple[int, str, float]]:
    """(round, name, cpu_seconds): all contenders once a round, in random order, after a warm-up."""
    for run in runs.values():
        run()
    order = random.Random(0)
    for i in range(rounds):
        for name in order.sample(list(runs), len(runs)):
            yield i, name, cpu_seconds(runs[name], device)


def peak_bytes(run: Callable[[], object], device: torch.device | None = None) -> int:
    """The most bytes of tensors allocated at once by ``run`` beyond what existed before.

    Exact and free of noise: counted from allocation events, not from the process's size.
    """
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = run()  # kept until the profile ends, so that its bytes count
    del result
    events = record.profiler.kineto_results.events()
    changes = (event.nbytes() for event in events if event.name() == "[memory]")
    return max(accumulate(changes, initial=0))


FUSED = "_scaled_dot_product_flash_attention_for_cpu"
UNCOUNTED = {
    getattr(torch.ops.aten, FUSED): lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    # Five products of the size of the forward pass's two: scores anew, dP, dQ, dK and dV.
    getattr(torch.ops.aten, FUSED + "_backward"): (
        lambda _, q, k, v, *__, **___: sdpa_flop_count(q, k, v) * 5 // 2
    ),
    torch.ops.aten.baddbmm_: lambda _, a, b, *__, **___: bmm_flop(a, b),
}
"""What PyTorch's counter passes over: products added in place, and fused attention on a CPU.
All N^2 pairs of the latter are counted, as on CUDA, though a causal mask's blocks are skipped."""


def count_flops(run: Callable[[], object]) -> int:
    """Floating-point operations of all matrix products in ``run``, forward and backward.

    Those of a compiled kernel cannot be seen: PyTorch's computes the same in its place.
    """
    pytorch = patch.dict(os.environ, REPLICATION_KERNEL="pytorch")
    with pytorch, FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter:
        run()
    return counter.get_total_flops()


def gemm_rate(device: torch.device, size: int = 2048, repeats: int = 7) -> float:
    """FLOP/s of a large float32 matrix product: what this machine can do at best."""
    a = torch.randn(size, size, device=device)
    out = torch.empty_like(a)
    times = [seconds(lambda: torch.mm(a, a, out=out), device) for _ in range(repeats)]
    return 2 * size**3 / min(times)


def machine(device: torch.device | None = None) -> dict:
    """What a reader needs to know of the machine and the software behind a number."""
    on_cuda = device is not None and device.type == "cuda"
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": memory_bytes(),
        "load": list(os.getloadavg()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in VERSIONS},
        "kernel": os.environ.get("REPLICATION_KERNEL", "auto"),
        "allocator": {name: value for name, value in sorted(os.environ.items())
                      if name.startswith(("MALLOC_", "GLIBC_TUNABLES"))},
        "device": torch.cuda.get_device_name(device) if on_cuda else "cpu",
        **({"cuda": torch.version.cuda} if on_cuda else {}),
    }  # fmt: skip


def free_bytes(device: torch.device) -> int:
    """What could be allocated now, of the device or of this machine, within its container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [memory_bytes()]
    with suppress(OSError, KeyError):  # no Linux
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        limits.append(int(facts["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):  # no control group of version 2, or none with a limit
        most, used = (Path(f"/sys/fs/cgroup/memory.{x}").read_text() for x in ("max", "current"))
        limits.append(int(most) - int(used))
    return min(limits)


def _processor() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(name)
