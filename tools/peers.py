"""Build the authors' library, pytorch-fast-transformers, into .venv. `make peers` calls this.

Its set-up compiles for CUDA wherever it finds an `nvcc`, which fails when torch has no CUDA;
in that case it is run with a PATH that lacks `nvcc`.
"""

import importlib.util
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path

import torch
from bootstrap import VENV, CannotGoOnError, install, plainly, say, version

LOG = VENV / "peers.log"


def check_compiler() -> None:
    if not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
        raise CannotGoOnError(
            "The authors' library needs a C++ compiler, and none is found. On Debian or Ubuntu:"
            " sudo apt install g++; on macOS: xcode-select --install. All else works without it."
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        raise CannotGoOnError(
            f"The authors' library needs Python's headers, and {header} is missing."
            f" On Debian or Ubuntu: sudo apt install python{version(2)}-dev"
        )


def path_without(program: str, scratch: str) -> str:
    """PATH, with each folder that has the program replaced by links to all else in it."""
    folders = []
    for folder in os.environ["PATH"].split(os.pathsep):
        if Path(folder, program).exists():
            links = Path(tempfile.mkdtemp(dir=scratch))
            for path in Path(folder).absolute().iterdir():
                if path.name != program:
                    (links / path.name).symlink_to(path)
            folder = str(links)
        folders.append(folder)
    return os.pathsep.join(folders)


def build(scratch: str) -> None:
    say("Building the authors' library: several minutes, see .venv/peers.log")
    env = dict(os.environ)
    if torch.version.cuda is None:
        env["PATH"] = path_without("nvcc", scratch)
    LOG.write_text("")
    install(LOG, "pytorch-fast-transformers", env=env)


def main() -> None:
    if importlib.util.find_spec("fast_transformers"):
        return say("The authors' library is already built.")
    with plainly(), tempfile.TemporaryDirectory() as scratch:
        check_compiler()
        build(scratch)


if __name__ == "__main__":
    main()
