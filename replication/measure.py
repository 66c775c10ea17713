"""Instruments: the clock, exact peak memory, counted FLOPs, and what machine this is."""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, bmm_flop, sdpa_flop_count

ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
"""glibc's settings that keep freed memory. Without them every large tensor is given back to
the system and faulted in again, and the clock measures page faults instead of arithmetic."""

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's notes would fill notebooks

VERSIONS = ("torch", "numpy", "pandas", "statsmodels", "pytorch-fast-transformers")


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


def allocator_is_right() -> bool:
    """Whether this process was started with the settings of ``ALLOCATOR`` (glibc only)."""
    if platform.libc_ver()[0] != "glibc":
        return True
    return all(os.environ.get(name) == value for name, value in ALLOCATOR.items())


def restart_with_allocator() -> None:
    """Replace this process by itself with the right allocator settings, if it lacks them."""
    if allocator_is_right():
        return
    print("Restarting with glibc settings that keep freed memory, so that the clock does not "
          "measure page faults.", file=sys.stderr, flush=True)  # fmt: skip
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ALLOCATOR})


def seconds(run: Callable[[], object], device: torch.device | None = None) -> float:
    """Wall time of one call; waits for CUDA before and after."""
    wait = torch.cuda.synchronize if device is not None and device.type == "cuda" else _nothing
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def _nothing() -> None:
    pass


def interleaved(
    runs: dict[str, Callable[[], object]], rounds: int, device: torch.device | None = None
) -> Iterator[tuple[int, str, float]]:
    """(round, name, seconds): every contender once a round, in turn, after one warm-up."""
    for run in runs.values():
        seconds(run, device)
    for i in range(rounds):
        for name, run in runs.items():
            yield i, name, seconds(run, device)


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
    now = peak = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


FUSED = "_scaled_dot_product_flash_attention_for_cpu"


def _fused_flops(q: tuple, k: tuple, v: tuple, *_, **__) -> int:
    return sdpa_flop_count(q, k, v)


def _fused_backward_flops(_, q: tuple, k: tuple, v: tuple, *__, **___) -> int:
    """Five products of the size of the forward pass's two: scores anew, dP, dQ, dK and dV."""
    return sdpa_flop_count(q, k, v) * 5 // 2


def _added_product_flops(_, a: tuple, b: tuple, *__, **___) -> int:
    return bmm_flop(a, b)


UNCOUNTED = {
    getattr(torch.ops.aten, FUSED): _fused_flops,
    getattr(torch.ops.aten, FUSED + "_backward"): _fused_backward_flops,
    torch.ops.aten.baddbmm_: _added_product_flops,
}
"""What PyTorch's counter passes over: products added in place, and fused attention on a CPU.
All N^2 pairs of the latter are counted, as on CUDA, though a causal mask's blocks are skipped."""


def count_flops(run: Callable[[], object]) -> int:
    """Floating-point operations of all matrix products in ``run``, forward and backward."""
    with FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter:
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
    facts = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": _memory_bytes(),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in VERSIONS},
        "allocator": {name: os.environ.get(name) for name in ALLOCATOR},
        "device": "cpu",
    }
    if device is not None and device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
        facts["cuda"] = torch.version.cuda
    return facts


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except ImportError:
        return None
