"""Which kernel computes causal linear attention: the compiled one where it can, else PyTorch's.

The compiled kernel (``causal_blocks``) needs numba, a processor, float32 and phi = elu + 1. It is
translated on first use, in about ten seconds, and kept on disk for the next process. PyTorch's
(``causal_sums``) does all else: CUDA, other types and other feature maps.
"""

import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor

from replication.attention.feature_maps import elu_plus_one

KERNELS = ("auto", "compiled", "pytorch")
VARIABLE = "REPLICATION_KERNEL"
LARGEST = 256
"""Features of a head. Larger sums leave the cache, where PyTorch's products are as fast."""


class Group(NamedTuple):
    """What is compiled together: what it is for, and the functions that compile it. They are named
    in words that ``store.code`` follows, so that a changed block makes results stale."""

    title: str
    makers: tuple[str, ...]


CAUSAL = Group("causal linear attention", (
    "replication.attention.blocks.causal_forward:compile_passes",
    "replication.attention.blocks.causal_backward:compile_passes",
))  # fmt: skip
TOKENS = Group("generation token by token",
               ("replication.attention.blocks.token_rows:compile_passes",))  # fmt: skip
SOFTMAX = Group("tiled softmax attention",
                ("replication.attention.blocks.softmax_blocks:compile_passes",))  # fmt: skip


class Choice(NamedTuple):
    """A kernel and why it is that one."""

    kernel: str
    reason: str


class Pass(NamedTuple):
    """A compiled function, and the floats that its buffers need: Sizes -> a number each."""

    run: Callable[..., bool]
    floats: Callable[..., tuple[int, ...]]


def choose_kernel(
    Q: Tensor, V: Tensor, causal: bool, feature_map: Callable, kernel: str = "auto",
    group: Group = CAUSAL,
) -> Choice:  # fmt: skip
    """The kernel that runs for these inputs, and why.

    ``kernel`` insists on one; "auto" leaves the choice to the environment variable
    REPLICATION_KERNEL and, where that is not set, to what is possible.
    ``group`` is CAUSAL for whole sequences, TOKENS for single tokens.
    """
    wanted, asked = _wanted(kernel)
    if wanted == "pytorch":
        return Choice("pytorch", f"{asked} asks for it")
    obstacle = _obstacle(Q, V, causal, feature_map)
    if obstacle is None:
        found = available_kernel(group)
        obstacle = None if found.kernel == "compiled" else found.reason
        if obstacle and wanted == "compiled":
            raise RuntimeError(f"{asked} asks for the compiled kernel, but {obstacle}.")
    if obstacle and kernel == "compiled":
        raise ValueError(
            f'kernel="compiled" cannot compute this: {obstacle}. Use kernel="auto", which takes '
            "PyTorch's kernel here."
        )
    return Choice("pytorch", obstacle) if obstacle else found


def wanted_kernel(group: Group) -> Choice:
    """What the environment leaves to a group of kernels that has no argument of its own."""
    wanted, asked = _wanted("auto")
    if wanted == "pytorch":
        return Choice("pytorch", f"{asked} asks for it")
    return available_kernel(group)


def _wanted(kernel: str) -> tuple[str, str]:
    """What is asked for, and by whom."""
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r} is unknown. Choose one of: {', '.join(KERNELS)}.")
    if kernel != "auto":
        return kernel, f'kernel="{kernel}"'
    name = os.environ.get(VARIABLE, "auto")
    if name not in KERNELS:
        raise ValueError(f"{VARIABLE}={name} is unknown. Set it to one of: {', '.join(KERNELS)}.")
    return name, f"{VARIABLE}={name}" if VARIABLE in os.environ else "the default"


def _obstacle(Q: Tensor, V: Tensor, causal: bool, feature_map: Callable) -> str | None:
    """Why the compiled kernel cannot compute this; None if it can."""
    if not causal:
        return "attention is not causal, so that a few large products are all there is"
    if Q.device.type != "cpu":
        return f"the inputs are on {Q.device}, and the compiled kernel is for processors"
    if Q.dtype != torch.float32:
        return f"the inputs are {Q.dtype}, and the compiled kernel is for torch.float32"
    if feature_map is not elu_plus_one:
        name = getattr(feature_map, "name", getattr(feature_map, "__name__", "another map"))
        return f"the feature map is {name}, and the compiled kernel has elu_plus_one"
    if max(Q.shape[-1], V.shape[-1]) > LARGEST:
        return f"heads of {max(Q.shape[-1], V.shape[-1])} features are larger than {LARGEST}"
    return None


def available_kernel(group: Group = CAUSAL) -> Choice:
    """Whether the compiled kernel works here; tried, not guessed. Compiles it if need be."""
    passes, reason = _loaded(group)
    return Choice("compiled" if passes else "pytorch", reason)


def passes(group: Group = CAUSAL) -> dict[str, Pass]:
    """The compiled functions of a group by name."""
    found, reason = _loaded(group)
    if found is None:
        raise RuntimeError(f"There is no compiled kernel here: {reason}.")
    return found


_lock = Lock()


def _loaded(group: Group) -> tuple[dict[str, Pass] | None, str]:
    with _lock:  # two threads would compile it twice
        return _load(group)


@cache
def _load(group: Group) -> tuple[dict[str, Pass] | None, str]:
    try:
        import numba

        found = _compile(group)
    except Exception as error:  # whatever it is, PyTorch's kernel computes the same
        reason = f"numba fails ({type(error).__name__}: {str(error).splitlines()[0]})"
        warnings.warn(
            f"The compiled kernel for {group.title} cannot be used: {reason}. PyTorch's kernel "
            "computes the same in its place, two to three times slower. "
            f"Mend it by: pip install numba; silence this by {VARIABLE}=pytorch",
            stacklevel=2,
        )
        return None, reason
    return found, f"numba {numba.__version__} compiled it for this processor"


def _compile(group: Group) -> dict[str, Pass]:
    """From the disk, if an earlier process has left it there."""
    makers = [maker.split(":") for maker in group.makers]
    last = makers[-1][0].rpartition(".")[2]
    with _cache_folder() as folder:
        if folder is None or not any(folder.rglob(f"{last}.*.nbi")):
            kept = f"kept in {folder}" if folder else "for this process: no folder to keep it in"
            print(f"Compiling {group.title} for this processor, {kept} ...", file=sys.stderr,
                  flush=True)  # fmt: skip
        found = {}
        for module, name in makers:
            found |= getattr(import_module(module), name)(cache=folder is not None)
    return {name: Pass(*each) for name, each in found.items()}


@contextmanager
def _cache_folder() -> Iterator[Path | None]:
    """Where numba keeps what it compiles inside the block; None if nothing can be written.

    numba asks for a file's date alone, not for that of what it imports, so that a folder belongs
    to one state of the sources, and to one height of tiles, by which buffers are cut.
    """
    from numba import config

    before, folder = config.CACHE_DIR, _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError:
        yield None
        return
    config.CACHE_DIR = str(folder)
    try:
        yield folder
    finally:
        config.CACHE_DIR = before


def _folder() -> Path:
    from replication.attention.blocks.tile_rows import TILE_ROWS  # not above: it imports numba

    here, digest = Path(__file__).parent, hashlib.sha256(str(TILE_ROWS).encode())
    callers = (here / f"{name}.py" for name in ("compiled", "frozen", "softmax_tiled"))
    for path in (*sorted((here / "blocks").glob("*.py")), *callers):  # sizes come from the callers
        digest.update(path.read_bytes())
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache") / "replication" / digest.hexdigest()[:12]
