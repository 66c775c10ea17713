"""The README's commands can be typed and its links followed; `make test-readme` runs them all."""

import re
import shlex
from pathlib import Path

import pytest
from readme_cases import ROOT, anchors, blocks, commands, links

from replication import cli
from replication.workflow import notebooks

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FOUND = {
    program: [c for c in commands() if shlex.split(c)[0] == program]
    for program in ("make", ".venv/bin/replication", "mkdir", ".venv/bin/jupyter")
}


def test_every_command_is_of_a_known_kind():
    assert sorted(commands()) == sorted(command for found in FOUND.values() for command in found)
    assert all(FOUND.values())


@pytest.mark.parametrize("command", FOUND["make"])
def test_make_has_the_target(command):
    assert set(shlex.split(command)[1:2]) <= TARGETS


@pytest.mark.parametrize("command", FOUND[".venv/bin/replication"])
def test_replication_knows_the_command_its_options_and_parameters(command):
    options = cli.parser().parse_args(shlex.split(command)[1:])
    if "notebook" in options:
        given = [(name, values) for name, *values in options.parameters]
        notebooks.read(notebooks.find(options.notebook), given)


def test_papermill_gets_parameters_that_the_notebook_has():
    (command,) = FOUND["mkdir"]
    words = shlex.split(command)
    book = ROOT / next(word for word in words if word.endswith(".ipynb"))
    given = {words[i + 1] for i, word in enumerate(words) if word == "-p" and i > 2}
    assert given
    assert given <= set(notebooks.parameters(book))


@pytest.mark.parametrize("block", blocks("python"))
def test_the_python_runs(block):
    exec(block, {})


@pytest.mark.parametrize("link", links())
def test_links_lead_somewhere(link):
    assert (ROOT / Path(link)).exists()


def test_anchors_are_headings():
    headings = re.findall(r"^#+ (.+)$", TEXT, re.M)
    slugs = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
    assert anchors() <= slugs


def test_every_room_is_in_the_tree_and_no_other():
    tree = next(block for block in re.findall(r"^```\w*\n(.*?)^```$", TEXT, re.M | re.S)
                if "the instruments" in block)  # fmt: skip
    told = {word for line in tree.splitlines() if line.startswith("  ")
            for word in re.findall(r"(\w+)(?:\.py|/)", line[:24])}  # fmt: skip
    rooms = {path.stem for path in (ROOT / "replication").iterdir() if path.suffix in ("", ".py")}
    assert told == {room for room in rooms if not room.startswith("__")}


TEXT = (ROOT / "README.md").read_text()
