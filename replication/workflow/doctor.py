"""What this machine can do, tried, and lacks; which rows are there; how long the rest takes."""

import json
import os
import platform
import shutil
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch

from replication import attention, experiments, measure, store
from replication.attention.kernels import VARIABLE
from replication.experiments.base import PROFILES
from replication.measure import halves

DISK_GB, MEMORY_GB = 1, 4
"""What a quick report needs at least."""
QUESTION, PATIENCE = "import sys, replication; print(sys.executable, replication.__file__)", 60
"""What a kernel is asked, and the seconds that it has for an answer."""


class Check(NamedTuple):
    """What was found. Without what is needed no report can be made; the rest is of use."""

    name: str
    is_fine: bool
    is_needed: bool
    found: str
    remedy: str

    def __str__(self) -> str:
        state = "ok" if self.is_fine else "MISSING" if self.is_needed else "note"
        remedy = "" if self.is_fine else f"\n{'':27} -> {self.remedy}"
        return f"{state:8} {self.name:18} {self.found}{remedy}"


def report(options: Namespace) -> int:
    """Print all of it; 1 if something is missing that is needed."""
    found, rows, minutes = list(examine()), units(), durations()
    if options.json:
        checks = [check._asdict() for check in found]
        print(json.dumps({"checks": checks, "units": rows, "minutes": minutes}, indent=2))
    else:
        print(*found, "", *_told(rows, minutes), sep="\n")
    return int(any(check.is_needed and not check.is_fine for check in found))


def examine() -> Iterator[Check]:
    """Try each thing: it says whether it is fine and what it found, or it raises."""
    for name, is_needed, look, remedy in CHECKS:
        try:
            is_fine, found = look()
        except Exception as error:
            is_fine, found = False, (str(error) or type(error).__name__).splitlines()[0]
        yield Check(name, is_fine, is_needed, found, remedy)


def _cores() -> tuple[bool, str]:
    load, facts = os.getloadavg()[0], measure.machine()
    found = f"{facts['cores']} of {facts['processor']}, {facts['threads']} threads, load {load:.1f}"
    return load < 0.5 * facts["cores"], found


def _memory() -> tuple[bool, str]:
    import psutil

    found = psutil.virtual_memory()
    said = f"{found.available / 1e9:.1f} of {found.total / 1e9:.0f} GB free"
    return found.available > MEMORY_GB * 1e9, said


def _disk() -> tuple[bool, str]:
    free, writable = shutil.disk_usage(store.ROOT).free / 1e9, os.access(store.ROOT, os.W_OK)
    found = f"{free:.0f} GB free" + ("" if writable else f", but {store.ROOT} cannot be written")
    return free > DISK_GB and writable, found


def _kernel() -> tuple[bool, str]:
    """Notebooks are run by the kernel python3: it must start, and find this package."""
    from jupyter_client.manager import run_kernel

    said, quiet = [], {"extra_arguments": ["--log-level=CRITICAL"]}
    with run_kernel(kernel_name="python3", **quiet) as client:
        try:
            reply = client.execute_interactive(QUESTION, timeout=PATIENCE, output_hook=said.append)
        except TimeoutError:
            return False, "it starts, but does not answer"
    text = "".join(message["content"].get("text", "") for message in said).strip()
    return reply["content"]["status"] == "ok", text or "it cannot import replication"


def _compiled() -> tuple[bool, str]:
    """Whether it works here, tried; and what causal linear attention runs on by default."""
    found, now = attention.available_kernel(), os.environ.get(VARIABLE, "auto")
    return found.kernel == "compiled", f"{found.reason}; {VARIABLE} is {now}"


def _halves() -> tuple[bool, str]:
    """Whether a product of half types can be computed, as it is or by another way."""
    found = halves.mend()
    return not found, found or "nothing speaks against products in bfloat16"


def _package(name: str, attempt: Callable[[Any], object]) -> tuple[bool, str]:
    """Its version, if it can be imported and does what it is for."""
    module = import_module(name)
    attempt(module)
    return True, f"{name} {getattr(module, '__version__', 'there')}"


def _mechanism(card: attention.Mechanism) -> tuple[bool, str]:
    why = card.unavailable("float32")
    return not why, why or card.look.label


PYTHON, LIBC = f"{platform.python_version()}, {sys.executable}", platform.libc_ver()[0] or "another"
TRIED = (
    ("PyTorch", "torch", str),
    ("papermill", "papermill", str),
    ("Snakemake", "snakemake", str),
    ("pandoc", "replication.report.pandoc", lambda pandoc: pandoc.page("*x*", "x")),
    ("Typst", "typst", lambda typst: typst.compile(b"$ x^2 $", ignore_system_fonts=True)),
    ("fonts", "matplotlib.font_manager",
     lambda fonts: fonts.findfont("DejaVu Sans", fallback_to_default=False)),
)  # fmt: skip
"""A package, and what it is to do; ``make setup`` brings it back."""
CHECKS = [
    ("Python", True, lambda: (sys.version_info >= (3, 11), PYTHON), "make PYTHON=/path/to/it"),
    ("CUDA", False, lambda: (True, torch.cuda.get_device_name()),
     "all runs on the CPU; profile paper is for a GPU"),
    ("cores", False, _cores, "others compute here: times will be noisy"),
    ("memory", False, _memory, f"below {MEMORY_GB} GB the longest sequences are left out"),
    ("allocator", False, lambda: (LIBC == "glibc", LIBC), "times may include page faults"),
    ("disk", True, _disk, f"have {DISK_GB} GB free in a folder that can be written"),
    ("notebook kernel", True, _kernel, f"{sys.executable} -m ipykernel install --sys-prefix"),
    *((title, True, partial(_package, *tried), "make setup") for title, *tried in TRIED),
    ("half types", False, _halves, "they are computed in another way, slower"),
    ("compiled kernel", False, _compiled, "PyTorch's kernel computes the same, slower"),
    *((f"attention {name}", False, partial(_mechanism, card), "others run; see make peers")
      for name, card in attention.mechanisms().items()),
]  # fmt: skip
"""Name, whether it is needed, how it is tried, and what to do if it is not there."""


def units() -> dict[str, dict[str, dict[str, int]]]:
    """How many units of every profile and experiment are current, stale, damaged or missing."""
    every = experiments.every().values()
    return {profile: {one.name: dict(Counter(map(_state, one.units(profile)))) for one in every}
            for profile in PROFILES}  # fmt: skip


def _state(unit: store.Unit) -> str:
    try:
        return "current" if store.load(unit).is_current else "stale"
    except store.StoreError:
        return "damaged" if store.exists(unit) else "missing"


def durations() -> dict[str, float]:
    """Minutes of all notebooks by profile, as recorded on the reference machine; what does not
    read the clock for a fixed time, at the speed of a matrix product here."""
    found = [store.provenance(path).get("gemm_flops_per_s")
             for path in sorted((store.RESULTS / "reference").glob("*/*.json"))]  # fmt: skip
    here = measure.gemm_rate(torch.device("cpu"))
    slower = next(filter(None, found), here) / here
    return {profile: sum((one.minutes.get(profile, 0) * (1 if one.alone else slower)
                          for one in experiments.every().values()), 0.0)
            for profile in PROFILES}  # fmt: skip


def _told(rows: dict[str, dict[str, dict[str, int]]], minutes: dict[str, float]) -> Iterator[str]:
    for profile, parts in rows.items():
        told = [f"{name} {', '.join(f'{n} {state}' for state, n in sorted(counts.items()))}"
                for name, counts in parts.items() if counts]  # fmt: skip
        yield f"  rows of {profile:10} {'; '.join(told) or 'none are needed'}"
    yield "\nAbout how long all notebooks take here, one after the other:"
    for profile, found in minutes.items():
        words = f"{found / 60:.1f} hours" if found > 90 else f"{found:.0f} minutes"
        yield f"  {profile:10} {words if found else 'not known'}"
