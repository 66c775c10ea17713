"""The house rules that a machine can check."""

import ast
import io
import json
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "replication"
DERIVATION = ROOT / "notebooks" / "01_math_derivation.ipynb"
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAX_LINES = 300
MAX_BYTES = 5 * 2**20

LAYERS = (
    {"reference", "attention", "measure", "results", "sources", "crossover", "convergence"},
    {"model", "tasks", "contenders", "scrutiny", "notebooks", "published"},
    {"config"},
    {"scaling_config", "checkpoint", "decode", "decoding_cost", "figures", "claims"},
    {"train", "bench_attention", "bench_training", "explore"},
    {"benchmark", "runs", "explore_state"},
    {"scaling", "answer", "workflow", "sweep", "doctor"},
    {"report"},
    {"cli_scaling", "cli_workflow"},
    {"cli"},
    {"__main__", "__init__"},
)
"""Imports point downwards: a room may enter those of the layers before its own."""

APART = {
    "figures": {"results", "measure"},
    "claims": {"results", "measure"},
    "train": {"results", "figures", "claims"},
    "benchmark": {"results", "figures", "claims"},
}
"""What lies below and is still not entered: figures and claims receive rows and read nothing,
experiments return rows and write nothing."""


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def entered(path: Path) -> set[str]:
    """The rooms of the package that a file imports from."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: import by the full name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("replication.")}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own, below = room(path), set()
    assert own in set().union(*LAYERS), f"{own} is a new room: give it a place in LAYERS"
    for layer in LAYERS[: next(i for i, layer in enumerate(LAYERS) if own in layer)]:
        below |= layer
    assert entered(path) <= below - APART.get(own, set()) | {own}


def test_rooms_that_point_upwards_are_found(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("import replication.train\nfrom replication import cli\nimport torch.nn\n")
    assert entered(file) == {"train", "cli"}


PYTHON = [*SOURCES, *(path for d in ("tests", "tools") for path in sorted((ROOT / d).glob("*.py")))]


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_fits_in_one_s_head(path):
    lines = path.read_text().count("\n")
    assert lines < MAX_LINES, "split it where a reader would"


# Equations ---------------------------------------------------------------------------------


def equations(text: str) -> set[int]:
    """Numbers of equations in prose: (7), (13)-(15)."""
    ranges = re.findall(r"\((\d{1,2})\)(?:\s*-\s*\((\d{1,2})\))?", text)
    return {n for first, last in ranges for n in range(int(first), int(last or first) + 1)}


def cited(path: Path) -> set[int]:
    """Numbers of equations in the comments and docstrings of a file."""
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        is_prose = token.type == tokenize.COMMENT or token.string.startswith(('"""', 'r"""'))
        found |= equations(token.string) if is_prose else set()
    return found


def test_equations_are_read_from_prose():
    assert equations("Eq. (7); Eqs. (13)-(15) and (16)\n-(18), of 2020 (Sec. 3)") == {
        7,
        *range(13, 19),
    }
    assert {2, 3, 5, 12, 13, 14, 15, 17, 20} <= cited(PACKAGE / "reference.py")


def test_every_equation_cited_in_code_is_derived_in_notebook_01():
    if not DERIVATION.exists():
        pytest.skip("notebooks/01_math_derivation.ipynb is not written yet")
    cells = json.loads(DERIVATION.read_text())["cells"]
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    tagged = {int(n) for n in re.findall(r"\\tag\{(\d+)\}", prose)}
    missing = {str(p.relative_to(ROOT)): sorted(cited(p) - tagged) for p in SOURCES}
    assert {path: numbers for path, numbers in missing.items() if numbers} == {}


# Files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        pytest.skip("not a git checkout")
    return [path for name in run.stdout.split("\0") if name and (path := ROOT / name).is_file()]


MACHINE_PATH = re.compile(
    r"(?<![\w.:/~$}-])/(?:home|root|Users|work|tmp|mnt|scratch|opt|srv)/\w|[A-Z]:\\{1,2}Users"
)


def test_no_file_is_too_large_for_git(tracked):
    assert [str(path) for path in tracked if path.stat().st_size > MAX_BYTES] == []


def test_no_file_names_a_folder_of_one_machine(tracked):
    found = {}
    for path in tracked:
        if path.suffix in {".pdf", ".png", ".gz", ".pt"}:
            continue
        for i, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if match := MACHINE_PATH.search(line):
                found[f"{path.relative_to(ROOT)}:{i}"] = match.group()
    assert found == {}


@pytest.mark.parametrize("folder", ["home", "root", "Users", "tmp"])
def test_folders_of_a_machine_are_recognised(folder):
    for text in (f"see /{folder}/me", f'"/{folder}/x"', "C:\\{}\\me".format("Users")):
        assert MACHINE_PATH.search(text)
    for text in (f"https://a.org/{folder}/me", f"a/{folder}/x", "/path/to/python3"):
        assert not MACHINE_PATH.search(text)
