"""Which code a result comes from, so that it is stale when that changes, and only then.

The unit of code is a definition: a function, a class or a constant at the top of a module. From
the functions that make a result, every definition of this package that they name, and that those
name in turn, is followed and hashed as a syntax tree. So comments, docstrings, formatting,
annotations of arguments, the order of definitions and the room in which one stands do not count;
neither does a mechanism that is looked up by its name, unless it is one of those functions.
"""

import ast
import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from replication.store.files import digest

PACKAGE = Path(__file__).resolve().parent.parent
LATER = re.compile(rf"({PACKAGE.name})?((?:\.\w+)+):(\w*)")
"""A function that a text names and that is imported when it is called, "module:name". In f"{ROOM}
.run:units" the module is below the one that says so; after f"{ROOM}.rules:{name}" it is any."""


class Name(NamedTuple):
    """A definition, or with an empty ``symbol`` a module."""

    module: str
    symbol: str


def code_hash(*entries: Callable) -> str:
    """Twelve digits that change with the code behind these functions, and with nothing else."""
    options, names = set(), set()
    for entry in entries:
        if isinstance(entry, partial):
            options.add(json.dumps([entry.keywords, entry.args], default=repr, sort_keys=True))
        while isinstance(entry, partial):
            entry = entry.func
        names.add(Name(entry.__module__, entry.__qualname__.split(".")[0]))
    return _digest([*sorted(options), *_texts(frozenset(names))])


def notebook_hash(source: str) -> str:
    """The same for the code of a notebook, given as one text: what it imports of the package."""
    return _digest(_texts(frozenset(_used(ast.parse(source), {}, ""))))


def commit() -> str:
    """What is checked out, with a + if files beside results differ; "unknown" without git."""
    made = [f":!{folder}" for folder in ("results", "figures", "paper/report.pdf")]
    asked = ["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", ".", *made]
    git = ["git", "-C", str(PACKAGE.parent)]
    try:
        head, status = (subprocess.run([*git, *one], capture_output=True, text=True).stdout.strip()
                        for one in asked)  # fmt: skip
    except OSError:
        return "unknown"
    return head + "+" * bool(status) or "unknown"


def _digest(texts: Iterable[str]) -> str:
    return digest("".join(f"{text}\0" for text in texts).encode())[:12]


@cache
def _texts(entries: frozenset[Name]) -> tuple[str, ...]:
    """The syntax tree of every definition behind the entries, in an order of its own."""
    waiting, found, seen = list(entries), [], set()
    while waiting:
        name = waiting.pop()
        if name in seen or not name.symbol:
            continue
        seen.add(name)
        text, names = _behind(name)
        found.extend(text)
        waiting.extend(names)
    return tuple(sorted(found))


@cache
def _behind(name: Name) -> tuple[list[str], list[Name]]:
    """The syntax tree of a definition, none of what is imported, and the names that it mentions."""
    here = _definitions(name.module)
    node = here.get(name.symbol)
    if node is None or isinstance(node, Name):
        return [], [node] if node else []
    return [f"{name.symbol} {ast.dump(node)}"], list(_used(node, here, name.module))


@cache
def _definitions(module: str) -> dict[str, ast.AST | Name]:
    """What a module binds at its top, within if, try and with, too: syntax trees, or imports."""
    path, found = _file(module), {}
    waiting = _Bare().visit(ast.parse(path.read_text(encoding="utf-8"))).body if path else []
    while waiting:
        statement, *waiting = waiting
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            waiting = statement.body + waiting
        found.update(_bound(statement))
    return found


def _bound(statement: ast.stmt) -> Iterator[tuple[str, ast.AST | Name]]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name, statement
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from _imports(statement)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = getattr(statement, "targets", None) or [statement.target]
        for node in (node for target in targets for node in ast.walk(target)):
            if isinstance(node, ast.Name):
                yield node.id, statement


def _imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Name]]:
    """The names that an import binds, those of the package alone."""
    for alias in statement.names:
        module, symbol = getattr(statement, "module", None) or "", alias.name
        if isinstance(statement, ast.Import) or _file(f"{module}.{symbol}"):
            module, symbol = f"{module}.{symbol}".strip("."), ""
        if _file(module):
            yield alias.asname or alias.name.split(".")[-1], Name(module, symbol)


@cache
def _file(module: str) -> Path | None:
    """The file of a module of this package; None for those of others."""
    first, *rest = module.split(".")
    here = PACKAGE.joinpath(*rest)
    files = [here / "__init__.py", *([here.with_suffix(".py")] if rest else [])]
    return next((f for f in files if f.exists()), None) if first == PACKAGE.name else None


def _used(node: ast.AST, here: dict[str, ast.AST | Name], module: str) -> Iterator[Name]:
    """The names of the package that a definition mentions; those it imports inside, too."""
    parts = list(ast.walk(node))
    inside = [part for part in parts if isinstance(part, (ast.Import, ast.ImportFrom))]
    own = here | {name: target for part in inside for name, target in _imports(part)}
    for part in parts:
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            target = own.get(part.value.id)
            if isinstance(target, Name) and not target.symbol:
                yield Name(target.module, part.attr)
        elif isinstance(part, ast.Name) and part.id in own:
            target = own[part.id]
            yield target if isinstance(target, Name) else Name(module, part.id)
        elif isinstance(part, ast.Constant) and (said := LATER.fullmatch(str(part.value))):
            there = (said[1] or module) + said[2]
            yield from (
                Name(there, name) for name in ([said[3]] if said[3] else _definitions(there))
            )
        elif part in inside:
            yield from dict(_imports(part)).values()


class _Bare(ast.NodeTransformer):
    """Without docstrings and without what only a reader or a type checker looks at."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.visit_ClassDef(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node
