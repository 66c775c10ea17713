"""pandoc as it comes with the package pypandoc_binary: nothing to install, one version for all."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path


def path() -> str:
    """The program inside the package, whatever other pandoc there may be."""
    package = find_spec("pypandoc")
    found = package and shutil.which("pandoc", path=Path(package.origin).parent / "files")
    if not found:
        raise FileNotFoundError("There is no pandoc here: install the package pypandoc_binary.")
    return found


def main() -> None:
    """The command ``pandoc`` of this environment.

    Where the environment is active, nbconvert's own ``--to latex`` finds it too.
    """
    os.execv(path(), ["pandoc", *sys.argv[1:]])
