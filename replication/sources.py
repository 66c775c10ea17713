"""Which source files a result comes from, so that it is stale when they change, and only then."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
STORES = ("results.py", "sources.py")
NUMBERS = ("config/numbers.py", "scaling_config.py")
APART = {PACKAGE / name for name in STORES + NUMBERS}
"""What only stores and looks up, and the numbers of profiles: those that a run had are recorded
with it and compared, so others make another run, not a stale one."""


def files(*rooms: str) -> list[Path]:
    """The files of these rooms of the package and of all that they import, in order.

    A room is a module or a folder of them, such as "train" or "benchmark".
    """
    waiting, found = [path for room in rooms for path in _room(room)], set()
    while waiting:
        path = waiting.pop()
        if path not in found and path not in APART:
            found.add(path)
            waiting.extend(_imported(path))
    return sorted(found)


def hash_of(*rooms: str) -> str:
    """One short hash of those files."""
    digest = hashlib.sha256()
    for path in files(*rooms):
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _room(name: str) -> list[Path]:
    file, folder = PACKAGE / f"{name}.py", PACKAGE / name
    found = [file] if file.exists() else sorted(folder.rglob("*.py"))
    if not found:
        raise ValueError(f"The package has no room {name!r}. Name a module or folder of it.")
    return found


def _imported(path: Path) -> Iterator[Path]:
    """The files of the package that a file imports, with the packages they lie in."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield from _along(name.split("."))


def _along(parts: list[str]) -> Iterator[Path]:
    """Every file on the way to a dotted name: packages, the module, not what is in it."""
    if parts[0] != PACKAGE.name:
        return
    here = PACKAGE
    for part in parts[1:]:
        here = here / part
        for file in (here.with_suffix(".py"), here / "__init__.py"):
            if file.exists():
                yield file
