"""A result is stale by the code that it really runs, and by nothing else."""

import importlib
import re
import sys
from functools import partial

import pytest

from replication.store import code

PACKAGE = {
    "__init__.py": "",
    "heart.py": '''
"""A mechanism."""
SCALE = 2
UNUSED = 3

def kernel(x: int) -> int:
    """Doubles."""
    return SCALE * x  # in place

def other(x):
    return x
''',
    "another.py": "def kernel(x):\n    return -x\n",
    "cards.py": '''
from importlib import import_module

def look_up(name):
    return import_module(f"toyroom.{name}").kernel
''',
    "run.py": '''
from toyroom import cards
from toyroom.heart import kernel

def train(x):
    return cards.look_up("another")(kernel(x))
''',
    "exp/__init__.py": '''
from toyroom.base import later

ROOM = "toyroom.exp"
EXPERIMENT = dict(units=later(f"{ROOM}.rules:judge"), all=later("toyroom.heart:other"))
''',
    "exp/rules.py": "def judge(rows):\n    return rows\n",
    "base.py": "def later(path):\n    return path\n",
}  # fmt: skip


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A package of its own: a run uses a kernel, and looks another one up by its name."""
    root = tmp_path / "toyroom"
    for name, text in PACKAGE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(code, "PACKAGE", root)
    later = code.LATER.pattern.replace("replication", "toyroom")
    monkeypatch.setattr(code, "LATER", re.compile(later))
    monkeypatch.syspath_prepend(tmp_path)
    yield root
    for name in [name for name in sys.modules if name.split(".")[0] == "toyroom"]:
        del sys.modules[name]


def hash_now(*more):
    """Of ``train``, after all that was remembered is forgotten."""
    for remembered in (code._texts, code._behind, code._definitions, code._file):
        remembered.cache_clear()
    return code.code_hash(importlib.import_module("toyroom.run").train, *more)


CHANGES = {
    "a comment": ("heart.py", "# in place", "# elsewhere", False),
    "a docstring": ("heart.py", "Doubles.", "Multiplies by two.", False),
    "an annotation": ("heart.py", "(x: int) -> int", "(x: float)", False),
    "formatting": ("heart.py", "SCALE * x", "(SCALE  *  x)", False),
    "a constant that it does not use": ("heart.py", "UNUSED = 3", "UNUSED = 4", False),
    "a function that it does not use": ("heart.py", "    return x\n", "    return 7\n", False),
    "another mechanism": ("another.py", "-x", "-2 * x", False),
    "a constant that it uses": ("heart.py", "SCALE = 2", "SCALE = 3", True),
    "a function that it uses": ("heart.py", "SCALE * x", "SCALE + x", True),
    "itself": ("run.py", "kernel(x))", "kernel(2 * x))", True),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_unit_is_stale_by_what_it_runs_and_by_nothing_else(room, what):
    name, old, new, stale = CHANGES[what]
    before = hash_now()
    text = (room / name).read_text()
    assert old in text
    (room / name).write_text(text.replace(old, new))
    assert (hash_now() != before) == stale


def test_a_mechanism_that_is_named_beside_counts(room):
    kernel = importlib.import_module("toyroom.another").kernel
    before = hash_now(kernel)
    assert before != hash_now()
    (room / "another.py").write_text("def kernel(x):\n    return -2 * x\n")
    assert hash_now(kernel) != before


@pytest.mark.parametrize(
    ("name", "text", "stale"),
    [("exp/rules.py", "def judge(rows):\n    return 1\n", True),
     ("heart.py", "def other(x):\n    return 2\n", True),
     ("another.py", "def kernel(x):\n    return 3\n", False)],
)  # fmt: skip
def test_a_notebook_follows_what_it_names_also_where_it_is_imported_later(room, name, text, stale):
    source = "from toyroom.exp import EXPERIMENT\nEXPERIMENT  # shown"
    hash_now()
    before = code.notebook_hash(source)
    (room / name).write_text(text)
    hash_now()
    assert (code.notebook_hash(source) != before) == stale
    assert code.notebook_hash("# only\nimport json") == code.notebook_hash("x = 1")


def refuse(*_, **__):
    raise AssertionError


def test_options_of_a_contender_count():
    plain, once, twice = refuse, partial(refuse, rounds=1), partial(refuse, rounds=2)
    assert len({code.code_hash(one) for one in (plain, once, twice)}) == 3


def test_a_compiled_kernel_s_blocks_are_part_of_its_mechanism():
    from replication.attention import linear_attention, lsh_attention

    names = {text.split()[0] for text in code._texts(frozenset(
        {code.Name(linear_attention.__module__, "linear_attention")}))}  # fmt: skip
    assert "compile_passes" in names
    assert {"CAUSAL", "_compile"} <= names
    other = code._texts(frozenset({code.Name(lsh_attention.__module__, "lsh_attention")}))
    assert not any(text.startswith("compile_passes") for text in other)
