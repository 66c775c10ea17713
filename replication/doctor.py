"""What this machine can do, what it lacks, which rows are there, and how long the rest would take.

Each thing is tried, not guessed.
"""

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
    """Try each thing: it says what it found, or it raises."""
    for name, is_needed, look, remedy in CHECKS:
        try:
            yield Check(name, True, is_needed, look(), remedy)
        except Exception as error:
            said = (str(error) or type(error).__name__).splitlines()[0]
            yield Check(name, False, is_needed, said, remedy)


def _if(fine: bool, found: str) -> str:
    if not fine:
        raise RuntimeError(found)
    return found


def _cores() -> str:
    load, facts = os.getloadavg()[0], measure.machine()
    found = f"{facts['cores']} of {facts['processor']}, {facts['threads']} threads, load {load:.1f}"
    return _if(load < 0.5 * facts["cores"], found)


def _memory() -> str:
    import psutil

    found = psutil.virtual_memory()
    said = f"{found.available / 1e9:.1f} of {found.total / 1e9:.0f} GB free"
    return _if(found.available > MEMORY_GB * 1e9, said)


def _disk() -> str:
    free, writable = shutil.disk_usage(store.ROOT).free / 1e9, os.access(store.ROOT, os.W_OK)
    found = f"{free:.0f} GB free" + ("" if writable else f", but {store.ROOT} cannot be written")
    return _if(free > DISK_GB and writable, found)


def _kernel() -> str:
    """Notebooks are run by the kernel python3: it must start, and find this package."""
    from jupyter_client.manager import run_kernel

    said, quiet = [], {"extra_arguments": ["--log-level=CRITICAL"]}
    with run_kernel(kernel_name="python3", **quiet) as client:
        try:
            reply = client.execute_interactive(QUESTION, timeout=PATIENCE, output_hook=said.append)
        except TimeoutError:
            raise RuntimeError("it starts, but does not answer") from None
    text = "".join(message["content"].get("text", "") for message in said).strip()
    return _if(reply["content"]["status"] == "ok", text or "it cannot import replication")


def _compiled() -> str:
    """Whether it works here, tried; and what causal linear attention runs on by default."""
    found, now = attention.available_kernel(), os.environ.get(VARIABLE, "auto")
    return _if(found.kernel == "compiled", f"{found.reason}; {VARIABLE} is {now}")


def _halves() -> str:
    """Whether a product of half types can be computed, as it is or by another way."""
    found = halves.mend()
    return _if(not found, found or "nothing speaks against products in bfloat16")


def _package(name: str, attempt: Callable[[Any], object]) -> str:
    """Its version, if it can be imported and does what it is for."""
    module = import_module(name)
    attempt(module)
    return f"{name} {getattr(module, '__version__', 'there')}"


def _mechanism(card: attention.Mechanism) -> str:
    why = card.unavailable("float32")
    return _if(not why, why or card.look.label)


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
    ("Python", True, lambda: _if(sys.version_info >= (3, 11), PYTHON), "make PYTHON=/path/to/it"),
    ("CUDA", False, torch.cuda.get_device_name, "all runs on the CPU; profile paper is for a GPU"),
    ("cores", False, _cores, "others compute here: times will be noisy"),
    ("memory", False, _memory, f"below {MEMORY_GB} GB the longest sequences are left out"),
    ("allocator", False, lambda: _if(LIBC == "glibc", LIBC), "times may include page faults"),
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
    return {profile: sum((one.minutes.get(profile, 0) * (1 if one.work == "timing" else slower)
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
