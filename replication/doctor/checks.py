"""One check a thing that a report needs or can use. Each is tried, not guessed."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

import torch
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import start_new_kernel

from replication import measure
from replication.results import ROOT

GIGA = 1e9
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
    remedy: str = ""


def examine() -> list[Check]:
    return [check() for check in CHECKS]


def table(found: list[Check]) -> str:
    """A line each, and under what is not fine how to mend it."""
    lines = []
    for check in found:
        state = "ok" if check.is_fine else "MISSING" if check.is_needed else "note"
        lines.append(f"{state:8} {check.name:18} {check.found}")
        if not check.is_fine:
            lines.append(f"{'':8} {'':18} -> {check.remedy}")
    return "\n".join(lines)


def _python() -> Check:
    fine = sys.version_info >= (3, 11)
    found = f"{platform.python_version()}, {sys.executable}"
    return Check("Python", fine, True, found, "make PYTHON=/path/to/python3.11")


def _torch() -> Check:
    return Check("PyTorch", True, True, f"{torch.__version__}, {torch.get_num_threads()} threads")


def _cuda() -> Check:
    fine = torch.cuda.is_available()
    found = torch.cuda.get_device_name() if fine else "no NVIDIA GPU that PyTorch can use"
    return Check(
        "CUDA", fine, False, found, "all runs on the CPU; profile paper is meant for a GPU"
    )


def _cores() -> Check:
    facts = measure.machine()
    load = f", load {facts['load'][0]:.1f}" if facts["load"] else ""
    found = f"{facts['cores']} of {facts['processor']}{load}"
    quiet = not facts["load"] or facts["load"][0] < 0.5 * facts["cores"]
    return Check("cores", quiet, False, found, "others compute here: times will be noisy")


def _memory() -> Check:
    total = measure.machine()["memory_bytes"] or 0
    remedy = f"below {MEMORY_GB} GB the longest sequences are left out"
    return Check("memory", total > MEMORY_GB * GIGA, False, f"{total / GIGA:.0f} GB", remedy)


def _allocator() -> Check:
    library = platform.libc_ver()[0] or "not glibc"
    found = f"{library}; what is timed keeps freed memory" if library == "glibc" else library
    return Check("allocator", library == "glibc", False, found, "times may include page faults")


def _disk() -> Check:
    free = shutil.disk_usage(ROOT).free / GIGA
    writable = os.access(ROOT, os.W_OK)
    found = f"{free:.0f} GB free" + ("" if writable else f", but {ROOT} cannot be written")
    remedy = f"have {DISK_GB} GB free in a folder that can be written"
    return Check("disk", free > DISK_GB and writable, True, found, remedy)


def _compiler() -> Check:
    names = (os.environ.get("CXX", "c++"), "g++", "clang++")
    found = next(filter(None, map(shutil.which, names)), None)
    return Check("C++ compiler", bool(found), False, found or "none",
                 "needed for make peers alone; on Debian: apt install g++")  # fmt: skip


def _package(name: str, title: str, needed: bool, remedy: str) -> Callable[[], Check]:
    def check() -> Check:
        try:
            return Check(title, True, needed, f"{name} {version(name)}")
        except PackageNotFoundError:
            return Check(title, False, needed, f"{name} is not installed", remedy)

    return check


def _pandoc() -> Check:
    remedy = "make setup"
    if find_spec("pypandoc") is None:
        return Check("pandoc", False, True, "pypandoc_binary is not installed", remedy)
    import pypandoc

    try:
        return Check("pandoc", True, True, f"pandoc {pypandoc.get_pandoc_version()}")
    except OSError:
        return Check("pandoc", False, True, "pypandoc finds no pandoc", remedy)


def _slurm() -> Check:
    plugin = find_spec("snakemake_executor_plugin_slurm") is not None
    found = f"{_cluster()}, {'with' if plugin else 'without'} Snakemake's plugin"
    remedy = "for --executor slurm: a cluster's login node, and pip install -e .[cluster]"
    return Check("Slurm", plugin and "partition" in found, False, found, remedy)


def _cluster() -> str:
    if not shutil.which("sinfo"):
        return "no sinfo"
    try:
        asked = subprocess.run(SINFO, capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return "no cluster answers"
    partitions = asked.stdout.split()
    return f"partition {', '.join(partitions)}" if partitions else "no cluster answers"


SINFO = ("sinfo", "--noheader", "--format=%P")


def _kernel() -> Check:
    """Notebooks are run by the kernel python3: it must start, and find this package."""
    remedy = f"{sys.executable} -m ipykernel install --sys-prefix"
    try:
        manager, client = start_new_kernel(
            startup_timeout=60, kernel_name="python3", extra_arguments=["--log-level=CRITICAL"]
        )
    except (NoSuchKernel, RuntimeError, OSError) as error:
        return Check("notebook kernel", False, True, f"it does not start: {error}", remedy)
    try:
        found = _imported(client)
    except TimeoutError:
        return Check("notebook kernel", False, True, "it starts, but does not answer", remedy)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    if found is None:
        found = f"{manager.kernel_spec.argv[0]} cannot import replication"
        return Check("notebook kernel", False, True, found, remedy)
    return Check("notebook kernel", True, True, found)


def _imported(client: BlockingKernelClient) -> str | None:
    """The kernel's Python, and where it finds this package; None if it does not."""
    said = []
    reply = client.execute_interactive(QUESTION, timeout=PATIENCE, output_hook=said.append)
    if reply["content"]["status"] != "ok":
        return None
    return "".join(message["content"].get("text", "") for message in said).strip()


CHECKS = (
    _python, _torch, _cuda, _cores, _memory, _allocator, _disk, _kernel,
    _package("papermill", "papermill", True, "make setup"),
    _package("snakemake", "Snakemake", True, "make setup"),
    _pandoc,
    _package("typst", "Typst", True, "make setup"),
    _compiler,
    _package("pytorch-fast-transformers", "authors' library", False, "make peers"),
    _slurm,
)  # fmt: skip
