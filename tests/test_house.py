"""The house rules that a machine can check."""

import ast
import io
import json
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from replication import experiments

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "replication"
DERIVATION = ROOT / "notebooks" / f"{experiments.find('derivation').notebook}.ipynb"
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAX_LINES, MAX_TEST_LINES = 330, 420
MAX_BYTES = 5 * 2**20
MAX_ROOMS, MAX_FILES, MAX_PACKAGE = 14, 137, 19_811
"""As large as the house is now. It may shrink; only what users can newly do, or can no longer lose,
may make it grow."""
GROW = "raise MAX_FILES and MAX_PACKAGE if what is new needs it, else delete something"
MAX_CELL = 15

LAYERS = (
    {"reference", "store", "style", "attention", "stats"},
    {"measure", "model", "train", "data"},
    {"experiments"},
    {"claims", "workflow"},
    {"report"},
    {"cli"},
)
"""Imports point downwards: a room may enter those of the layers before its own, and of its own."""

APART = {
    "attention": {"reference", "store", "style", "stats"},
    "stats": {"store", "style"},
    "train": {"measure"},
}
"""What could be entered and is not: a mechanism knows itself alone, statistics take rows."""

NEIGHBOURS = {
    "crossover": {"scaling"},
    "scaling": {"copy_task"},
    "head_size": {"copy_task"},
    "equal_care": {"crossover", "scaling"},
    "decoding": {"scaling"},
    "implementations": {"decoding", "scaling"},
    "earlier": {"copy_task", "crossover"},
}
"""Experiments that build on others: the crossover repeats the benchmark's question, the benchmark
times the steps of the copy task's models, whose heads and width are also tried in other sizes, one
token is timed in runs like the benchmark's, the kernels are benched by its layers and with a
decoding step, and the earlier replication copied words and extrapolated a crossover."""
SETTINGS = {"earlier"}
"""Names of experiments that a setting of the copy task has as well: as words they name that."""
PROGRAM = {"__main__", "__init__"}


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
    own, open_rooms = room(path), set()
    if own in PROGRAM:
        return
    assert own in set().union(*LAYERS), f"{own} is a new room: give it a place in LAYERS"
    for layer in LAYERS[: 1 + next(i for i, layer in enumerate(LAYERS) if own in layer)]:
        open_rooms |= layer
    assert entered(path) <= open_rooms - APART.get(own, set()) | {own}


def test_rooms_that_point_upwards_are_found(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("import replication.train\nfrom replication import cli\nimport torch.nn\n")
    assert entered(file) == {"train", "cli"}


def test_the_house_is_small():
    rooms = {room(path) for path in SOURCES} - PROGRAM
    assert len(rooms) <= MAX_ROOMS, sorted(rooms)
    assert len(LAYERS) <= 6
    lines = sum(path.read_text().count("\n") for path in SOURCES)
    assert len(SOURCES) <= MAX_FILES, f"{len(SOURCES)} files: {GROW}"
    assert lines <= MAX_PACKAGE, f"{lines} lines: {GROW}"


SOUND = "data:audio/"
MAX_SOUND = 60_000


def test_no_sound_of_the_corpus_is_committed():
    """It has a licence of its own: who runs notebook 07 hears it. Synthetic speech has none."""
    books = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "paper").glob("*.ipynb")]
    assert books
    for text in (book.read_text() for book in books):
        if SOUND in text:
            assert re.search("Study `(amount|length)`, utterance", text)
            assert "Study `czech`, utterance" not in text
            assert text.count(SOUND) == 1
            assert len(re.search(rf"{SOUND}[\w/;,+=]*", text)[0]) < MAX_SOUND


# Experiments ------------------------------------------------------------------------------------


def folder_of(path: Path) -> str:
    """The experiment whose room a file is in; empty if it is in none."""
    parts = path.relative_to(PACKAGE).parts
    return parts[1] if parts[0] == "experiments" and len(parts) > 2 else ""


def named(path: Path) -> set[str]:
    """The experiments that a file names: imports from their rooms, words that are their names."""
    names, found = set(experiments.every()), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and node.value in names - SETTINGS:
            found.add(f"replication.experiments.{node.value}")
    inside = [name.split(".") for name in found if name.startswith("replication.experiments.")]
    return {parts[2] for parts in inside} & names


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_an_experiment_is_named_in_its_own_room_alone(path):
    own = folder_of(path)
    assert named(path) <= {own} | NEIGHBOURS.get(own, set())


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_notebook_is_named_in_the_room_of_its_experiment_alone(path):
    numbers = {one.notebook[:2] for one in experiments.every().values()}
    said = set(re.findall(r"(?:notebook |\")(\d\d)(?=[\s_\".,;:)])", path.read_text()))
    own = folder_of(path)
    of_own = {one.notebook[:2] for one in experiments.every().values() if one.name == own}
    assert said & numbers <= of_own


def test_experiments_that_are_named_are_found(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("from replication.experiments.scaling.run import x\nname = 'copy_task'\n")
    assert named(file) == {"scaling", "copy_task"}


# Notebooks and the report -----------------------------------------------------------------------


def code_cells(path: Path) -> list[str]:
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_code_cells_of_the_report_are_short():
    cells = code_cells(ROOT / "paper" / "report.ipynb")
    assert [cell for cell in cells if cell.count("\n") >= MAX_CELL] == []


def test_the_report_is_committed_without_outputs():
    """Its PDF shows what it gives; outputs beside it would be of some earlier rows."""
    cells = json.loads((ROOT / "paper" / "report.ipynb").read_text())["cells"]
    assert [cell["id"] for cell in cells if cell.get("outputs")] == []


def test_every_figure_table_and_listing_of_the_report_is_named_in_its_text():
    cells = json.loads((ROOT / "paper" / "report.ipynb").read_text())["cells"]
    code = "\n".join(code_cells(ROOT / "paper" / "report.ipynb"))
    shown = set(re.findall(r"[\"']((?:fig|tab|lst)-[a-z0-9-]+)[\"']", code))
    shown |= {cell["metadata"]["report"]["id"] for cell in cells if "report" in cell["metadata"]}
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert len(shown) > 20
    assert shown <= set(re.findall(r"\]\(#([a-z0-9-]+)\)", prose))


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebooks_define_no_class_and_no_long_function(path):
    for cell in code_cells(path):
        lines = (line for line in cell.splitlines() if not line.startswith(("%", "!")))
        for node in ast.walk(ast.parse("\n".join(lines))):
            assert not isinstance(node, ast.ClassDef)
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno <= 6, node.name


PYTHON = [*SOURCES, *(path for d in ("tests", "tools") for path in sorted((ROOT / d).glob("*.py")))]


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_fits_in_one_s_head(path):
    most = MAX_LINES if path in SOURCES else MAX_TEST_LINES
    assert path.read_text().count("\n") < most, "split it where a reader would"


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


def test_every_equation_cited_in_code_is_derived_in_its_notebook():
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
