"""The set-up: one set of versions, and a bootstrap that explains itself."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(line) for line in [*PROJECT["dependencies"], *EXTRAS["dev"]]]
PEERS = [Requirement(line) for line in EXTRAS["peers"]]
PIN_LINES = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
]
PINS = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in PIN_LINES}


def test_constraints_are_exact_public_versions():
    """A local suffix such as +cpu would fit few machines, and a range none exactly."""
    assert [line for line in PIN_LINES if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_constraints_are_sorted_and_name_each_package_once():
    names = [canonicalize_name(line.split("==")[0]) for line in PIN_LINES]
    assert names == sorted(set(names))


@pytest.mark.parametrize("need", [*DIRECT, *PEERS], ids=lambda need: need.name)
def test_direct_dependency_is_pinned_within_its_bounds(need):
    assert need.specifier, f"{need.name} has no lower bound in pyproject.toml"
    assert need.specifier.contains(PINS[canonicalize_name(need.name)])


@pytest.mark.parametrize("need", [*DIRECT, *PEERS], ids=lambda need: need.name)
def test_installed_version_is_the_pinned_one(need):
    try:
        installed = version(need.name)
    except PackageNotFoundError:
        if need in PEERS:
            pytest.skip("the authors' library is optional: make peers")
        raise
    assert Version(installed).public == PINS[canonicalize_name(need.name)]


@pytest.mark.parametrize("tool", ["pip", "setuptools", "wheel"])
def test_installer_is_pinned(tool):
    assert tool in PINS


def test_conda_takes_its_versions_from_the_same_files():
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    floor = PROJECT["requires-python"].removeprefix(">=")
    assert conda == [f"python={floor}", "pip", "make"]
    assert pip == {"pip": ["-c constraints.txt", "-e .[dev]"]}


def test_python_floor_is_the_same_everywhere():
    floor = PROJECT["requires-python"].removeprefix(">=")
    parts = f"({floor.replace('.', ', ')})"
    assert f"OLDEST = {parts}" in (ROOT / "tools/bootstrap.py").read_text()
    assert f"sys.version_info < {parts}" in (ROOT / "Makefile").read_text()


def test_citation_names_this_version_and_both_predecessors():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert {"message", "title", "authors"} <= citation.keys()
    first_authors = [work["authors"][0]["family-names"] for work in citation["references"]]
    assert first_authors == ["Katharopoulos", "Do"]


def test_bootstrap_can_be_read_by_python_3_6():
    ast.parse((ROOT / "tools/bootstrap.py").read_text(), feature_version=(3, 6))


# From here on the bootstrap and the Makefile really run, in a bare copy of the project.


@pytest.fixture
def bare(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    return tmp_path


@pytest.fixture
def pretend(tmp_path):
    """A Python that runs a script after one line of pretence, as an executable file."""

    def make(line):
        path = tmp_path / "pretending-python"
        script = f"import runpy, sys; {line}; sys.argv.pop(0)"
        script += "; runpy.run_path(sys.argv[0], run_name='__main__')"
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{script}" "$@"\n')
        path.chmod(0o755)
        return path

    return make


def call(folder, *command, **variables):
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHON" and not k.startswith("MAKE")}
    env = inherited | variables
    run = subprocess.run(command, cwd=folder, env=env, text=True, capture_output=True)
    assert "Traceback" not in run.stderr
    return run


def test_every_target_is_explained_by_make_help():
    targets = re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.M)
    explained = dict(line.split(maxsplit=2)[1:] for line in call(ROOT, "make").stdout.splitlines())
    assert list(explained) == targets


def test_an_old_python_is_told_so(bare, pretend):
    old = pretend("sys.version_info = (3, 8, 18, 'final', 0)")
    run = call(bare, "make", "test", f"PYTHON={old}")
    assert run.returncode != 0
    assert "Python 3.8.18" in run.stderr
    assert "too old, 3.11 or newer is needed" in run.stderr
    assert not (bare / ".venv").exists()


def test_a_missing_python_is_told_so(bare):
    run = call(bare, "make", "test", "PYTHON=no-such-python")
    assert run.returncode != 0
    assert "There is no no-such-python here. Install Python 3.11 or newer" in run.stderr


def test_the_first_python_new_enough_is_chosen(bare, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, works in {"python3.13": 0, "python3.12": 1, "python3.11": 1, "python3": 1}.items():
        (folder / name).write_text(f"#!/bin/sh\n{f'echo {name}' if works else 'exit 1'}\n")
        (folder / name).chmod(0o755)
    run = call(bare, "make", "-n", "setup", PATH=f"{folder}:{os.environ['PATH']}")
    assert run.stdout.splitlines()[-1] == "python3.12 tools/bootstrap.py"


def test_a_python_without_ensurepip_is_told_so(bare, pretend):
    poor = pretend("sys.modules['ensurepip'] = None")
    run = call(bare, "make", "test", f"PYTHON={poor}")
    assert run.returncode != 0
    assert "lacks the module ensurepip" in run.stderr
    assert "-venv" in run.stderr


GREEDY = "sys.path.insert(0, 'tools'); import bootstrap; bootstrap.NEED_GB = 1e6; bootstrap.main()"
BOOTSTRAP = (sys.executable, "-c", f"import sys; {GREEDY}")
"""It stops before it installs anything, saying that the disk is too small."""


def test_too_small_a_disk_is_told_so(bare):
    run = call(bare, *BOOTSTRAP)
    assert run.returncode != 0
    assert re.search(r"Only [\d.]+ GB of disk space are free", run.stderr)
    assert not (bare / ".venv").exists()


def test_a_venv_of_other_making_is_left_alone(bare):
    (bare / ".venv").mkdir()
    (bare / ".venv" / "pyvenv.cfg").write_text("home = elsewhere\n")
    run = call(bare, sys.executable, "tools/bootstrap.py")
    assert run.returncode != 0
    assert ".venv was not made by make" in run.stderr
    assert (bare / ".venv" / "pyvenv.cfg").read_text() == "home = elsewhere\n"


def test_a_failed_installation_shows_its_log_and_is_begun_again(bare):
    (bare / "constraints.txt").write_text("pip==0.0.1\n")  # no such version: fails at once
    leftover = bare / ".venv" / "lib" / "half-installed"
    for told in ("Setting up .venv", "An earlier set-up did not finish. Setting up .venv"):
        run = call(bare, sys.executable, "tools/bootstrap.py", PIP_NO_INDEX="1")
        assert run.returncode != 0
        assert run.stderr.startswith(told)
        assert "The end of .venv/install.log:\n" in run.stderr
        assert "pip==0.0.1" in run.stderr
        assert not leftover.exists()
        leftover.touch()


@pytest.fixture
def finished(bare):
    """A project whose .venv is this one, as far as the bootstrap can see."""
    venv = bare / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (venv / "bin" / "python").chmod(0o755)
    show = "import bootstrap; print(*bootstrap.ingredients(), sep='\\n')"
    (venv / "ready").write_text(call(bare / "tools", sys.executable, "-c", show).stdout)
    return bare


def test_a_finished_venv_is_left_as_it_is_until_its_ingredients_change(finished):
    assert call(finished, *BOOTSTRAP).returncode == 0
    (finished / "constraints.txt").write_text("")
    assert "disk space" in call(finished, *BOOTSTRAP).stderr


@pytest.mark.parametrize("lost", ["package", "file"])
def test_a_venv_that_lacks_a_package_or_a_file_of_one_is_repaired(finished, tmp_path, lost):
    """As if typst, or pandoc inside pypandoc, had been removed."""
    path = finished / ".venv" / "bin" / "python"
    hide = "import importlib.metadata as m, sys; exec(sys.argv.pop(1)); exec(sys.argv.pop(1))"
    trick = {
        "package": "old = m.distribution\ndef new(name):\n"
        "    if name == 'typst': raise m.PackageNotFoundError(name)\n    return old(name)\n"
        "m.distribution = new",
        "file": "import pathlib\nold = pathlib.Path.exists\n"
        "pathlib.Path.exists = lambda self: 'typst/' not in str(self) and old(self)",
    }[lost]
    (tmp_path / "trick.py").write_text(trick)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] || exit 1\nshift; code="$1"; shift\n'
        f'exec "{sys.executable}" -c "{hide}" "$(cat {tmp_path / "trick.py"})" "$code" "$@"\n'
    )
    assert "disk space" in call(finished, *BOOTSTRAP).stderr
    show = "import bootstrap; print(*bootstrap.broken())"
    assert call(finished / "tools", sys.executable, "-c", show).stdout.split() == ["typst"]


def test_the_container_is_set_up_by_the_same_make_with_a_python_that_will_do():
    """It cannot be built here: what it would run can be read."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (image,) = [line.split()[1] for line in lines if line.startswith("FROM ")]
    python = re.fullmatch(r"python:([\d.]+)-slim", image).group(1)
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python)
    assert "RUN make setup" in lines
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"setup", "lab"} <= targets
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".venv", "build"} <= set(ignored)
