"""The parameters cell of a notebook, and what a user typed held against it."""

import ast
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import papermill
import yaml
from papermill.iorw import NoDatesSafeLoader


class Parameter(NamedTuple):
    """One line of a parameters cell: ``name: kind = default  # help``."""

    name: str
    kind: str
    default: Any
    help: str

    def read(self, text: str) -> Any:
        """What was typed, as the kind that the notebook expects."""
        if self.default is None and text.lower() in ("none", "null"):
            return None
        reader, words, example = KINDS.get(self.kind, KINDS["yaml"])
        try:
            return reader(text)
        except (ValueError, yaml.YAMLError):
            example = example if self.default is None else self.default
            raise ValueError(
                f"{self.name}={text!r} is not {words}. Give {words}, such as {example}."
            ) from None


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _yaml(text: str) -> Any:
    """As papermill reads it: a date stays a word."""
    return yaml.load(text, Loader=NoDatesSafeLoader)


def _list(text: str) -> list:
    """[0, 1], "0, 1" and 0 are all understood."""
    found = _yaml(text)
    if isinstance(found, str):
        found = [part.strip() for part in found.split(",")]
    if isinstance(found, dict) or found is None:
        raise ValueError(text)
    return [_plain(part) for part in (found if isinstance(found, list) else [found])]


def _plain(value: Any) -> Any:
    """Text that is a number becomes one: YAML takes 1e-3 for a word."""
    for kind in (int, float) if isinstance(value, str) else ():
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _dict(text: str) -> dict:
    found = _yaml(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


KINDS = {
    "int": (int, "a whole number", 3),
    "float": (float, "a number", 0.001),
    "str": (str, "a word", "cpu"),
    "bool": (_truth, "true or false", "true"),
    "list": (_list, "a list", [16, 32]),
    "dict": (_dict, "a mapping", {"rounds": 2}),
    "yaml": (_yaml, "a YAML value", 1),
}
"""How each kind is read, what it is called, and an example."""


def parameters(notebook: Path) -> dict[str, Parameter]:
    """The parameters cell, as papermill understands it."""
    found = papermill.inspect_notebook(str(notebook))
    return {name: _parameter(**facts) for name, facts in found.items()}


def _parameter(name: str, inferred_type_name: str, default: str, help: str) -> Parameter:
    value, kind = ast.literal_eval(default), re.match(r"\w+", inferred_type_name)[0]
    return Parameter(name, type(value).__name__ if kind == "None" else kind, value, help)


def accepts(notebook: Path) -> set[str]:
    """The names in a notebook's parameters cell."""
    return set(parameters(notebook))


def read(notebook: Path, typed: Iterable[tuple[str, list[str]]]) -> dict[str, list]:
    """Every name with its values, checked against the parameters cell before anything runs."""
    known, values = parameters(notebook), {}
    for name, texts in typed:
        if name not in known:
            raise ValueError(_unknown(notebook, name, known))
        if name in values:
            raise ValueError(f"{name} is given twice. Name it once, with all its values.")
        if not texts:
            raise ValueError(f"{name} has no value. Give it one, or leave it out.")
        values[name] = [known[name].read(text) for text in texts]
    return values


def _unknown(notebook: Path, name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{notebook.name} has no parameter {name}.{hint} It has {', '.join(known)}."


def describe(notebook: Path) -> str:
    """The parameters of a notebook, a line each."""
    lines = [(f"{p.name}: {p.kind} = {p.default!r}", p.help) for p in parameters(notebook).values()]
    width = min(max((len(left) for left, _ in lines), default=0), 40)
    listed = "\n".join(f"  {left:<{width}}  {help}" for left, help in lines)
    return f"Parameters of {notebook.name} (-p NAME VALUE):\n{listed or '  none'}"
