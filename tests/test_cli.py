"""What a user types, and what is said when it is wrong."""

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest
from workflow_cases import ROOT, TRIAL, write_notebook

from replication import experiments
from replication.cli import main
from replication.experiments.base import Command, Experiment
from replication.store import StoreError
from replication.workflow import notebooks

BOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["run", "99"], "There is no experiment '99'. Choose one of: "),
        (["run", "nowhere.ipynb"], "There is no file nowhere.ipynb"),
        (["run"], "Name a notebook"),
        (["report", "--profile", "huge"], "invalid choice: 'huge'"),
        (["report", "--cores", "0"], "0 is not between 1 and 1024"),
        (["rum"], "invalid choice: 'rum'"),
    ],
)
def test_a_wrong_command_is_explained_in_a_sentence_before_anything_runs(typed, said, capsys):
    assert main(typed) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.startswith("replication: ")
    assert told.count("\n") == 1


HEAVY = ("torch", "pandas", "numpy", "papermill", "snakemake", "nbformat", "nbconvert", "IPython")


@pytest.mark.parametrize(
    ("typed", "code"), [(["--help"], 0), (["run", "99"], 2), (["report", "--cores", "0"], 2),
                        (["run", "TRIAL", "-p", "number", "x"], 2)],
)  # fmt: skip
def test_help_and_errors_about_arguments_import_nothing_slow(typed, code, trial):
    typed = [str(trial) if word == "TRIAL" else word for word in typed]
    line = f"import sys\nfrom replication.cli import main\ntry:\n    code = main({typed!r})\n"
    line += "except SystemExit as end:\n    code = end.code\n"
    line += f"print('heavy:', [name for name in {HEAVY!r} if name in sys.modules], code)"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    begin = os.times()
    done = subprocess.run([sys.executable, "-c", line], env=env, capture_output=True, text=True)
    assert f"heavy: [] {code}" in done.stdout, done.stdout + done.stderr
    spent = os.times().children_user - begin.children_user
    assert spent < 1, "a tenth of a second of computing, however busy the machine is"


def test_an_experiment_brings_commands_of_one_word_or_two(monkeypatch, capsys):
    def add(parser):
        parser.add_argument("--loud", type=int, default=1)

    def run(options):
        print(f"said {options.loud}")
        return options.loud

    commands = tuple(Command(name, f"helps with {name}", add, run)
                     for name in ("sing", "bench song", "bench tune"))  # fmt: skip
    toy = Experiment(name="toy", title="toy", notebook="09_toy", commands=commands)
    monkeypatch.setattr(experiments, "every", lambda: {"toy": toy})
    assert main(["sing", "--loud", "3"]) == 3
    assert main(["bench", "tune"]) == 1
    assert main(["bench", "drum"]) == 2
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    assert "helps with bench song" in capsys.readouterr().out


@pytest.mark.parametrize("notebook", BOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_was_executed_whole_and_without_errors(notebook):
    book = json.loads(notebook.read_text())
    code = [c for c in book["cells"] if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    outputs = [o for c in code for o in c["outputs"]]
    assert outputs
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert any("parameters" in c["metadata"].get("tags", []) for c in code)


# Parameters ---------------------------------------------------------------------------------


@pytest.fixture
def trial(tmp_path):
    kinds = 'sizes: list = [1]\nrate: float = None\nlsh: dict = {"a": 1}\nplain = 2'
    return write_notebook(tmp_path / "trial.ipynb", TRIAL + kinds, "1")


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("number", "3", 3),
        ("plain", "3", 3),
        ("rate", "1e-3", 0.001),
        ("rate", "2", 2.0),
        ("rate", "None", None),
        ("text", "3", "3"),
        ("text", "None", "None"),
        ("broken", "True", True),
        ("sizes", "[1, 1e-3, a]", [1, 0.001, "a"]),
        ("sizes", "1, 2", [1, 2]),
        ("sizes", "a, 1e-3", ["a", 0.001]),
        ("sizes", "7", [7]),
        ("sizes", "2020-01-01", ["2020-01-01"]),
        ("lsh", "{a: 2}", {"a": 2}),
    ],
)
def test_what_is_typed_is_read_as_the_notebook_declares_it(trial, name, typed, value):
    ((found,),) = notebooks.read(trial, [(name, [typed])]).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("number", "abc", "number='abc' is not a whole number. Give a whole number, such as 1."),
        ("number", "1.5", "is not a whole number"),
        ("rate", "fast", "is not a number. Give a number."),
        ("broken", "2", "is not true or false"),
        ("sizes", "{a: 1}", "is not a list"),
        ("sizes", "[1", "is not a list"),
        ("lsh", "[1]", "is not a mapping"),
        ("numbr", "1", "has no parameter numbr. Did you mean number? It has text, number,"),
    ],
)
def test_a_wrong_parameter_is_told_before_anything_runs(trial, name, typed, said, capsys):
    assert main(["run", str(trial), "-p", name, typed]) == 2
    assert said in capsys.readouterr().err
    assert main(["sweep", str(trial), "-p", name, typed]) == 2
    assert said in capsys.readouterr().err


def test_a_name_given_twice_is_not_half_ignored(trial, capsys):
    assert main(["run", str(trial), "-p", "number", "1", "-p", "number", "2"]) == 2
    assert "number is given twice" in capsys.readouterr().err


def test_a_file_of_parameters_is_read_before_anything_runs(trial, tmp_path, monkeypatch, capsys):
    ran, file = [], tmp_path / "given.json"
    monkeypatch.setattr(notebooks, "run", lambda *given, **_: ran.append(given))
    typed = ["run", str(trial), "-f", str(file), "-p", "number", "2"]
    assert main(typed) == 2
    file.write_text('{"numbr": 1}')
    assert main(typed) == 2
    missing, wrong = capsys.readouterr().err.splitlines()
    assert missing.startswith(f"replication: {file} cannot be read as a JSON file of parameters")
    assert "has no parameter numbr. Did you mean number?" in wrong
    assert not ran
    file.write_text('{"number": 1, "text": "b"}')
    assert main(typed) == 0
    assert ran[0][1] == {"number": 2, "text": "b"}


def test_help_shows_the_parameters_of_a_notebook(trial, capsys):
    assert main(["run", "--help", str(trial)]) == 0
    assert main(["sweep", str(trial), "--help"]) == 0
    parts = capsys.readouterr().out.split("Parameters of trial.ipynb")[1:]
    assert len(parts) == 2
    for part in parts:
        assert "number: int = 1" in part
        assert "how often" in part


def test_parameters_are_read_as_papermill_reads_them(trial):
    import papermill

    theirs = papermill.inspect_notebook(str(trial))
    ours = notebooks.parameters(trial)
    assert list(ours) == list(theirs)
    for name, one in theirs.items():
        assert ours[name].help == one["help"]
        assert ours[name].default == eval(one["default"])


@pytest.mark.parametrize("line", ["a, b = 1, 2", "x = 2 * 3", "x: int", "x = y = 1", "x.y = 1"])
def test_a_parameter_that_is_no_literal_is_told_with_its_line_and_notebook(trial, line, capsys):
    write_notebook(trial, f"number: int = 1\n{line}", "1")
    assert main(["run", str(trial)]) == 2
    told = capsys.readouterr().err
    assert "trial.ipynb: line 2 is no `name: kind = literal`" in told
    assert "Traceback" not in told


# One notebook -------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["", ".", "trial.ipynb", "page.html", str(BOOKS[0])])
def test_an_out_that_cannot_be_is_refused_before_anything_runs(trial, out, capsys, monkeypatch):
    """A notebook is replaced only if it was executed by this very command."""
    monkeypatch.setattr(notebooks, "run", None)
    monkeypatch.chdir(trial.parent)
    assert main(["run", str(trial), "--out", out]) == 2
    said = capsys.readouterr().err
    assert ("was not made by replication run" if "ipynb" in out else "names no notebook") in said


@pytest.mark.parametrize("name", ["done.part.ipynb", "done.html"])
def test_what_a_run_would_write_beside_its_out_replaces_nothing(trial, tmp_path, name, capsys):
    ours = tmp_path / name
    ours.write_bytes(trial.read_bytes())
    source = ours if ours.suffix == ".ipynb" else trial
    assert main(["run", str(source), "--out", str(tmp_path / "done.ipynb"), "--page"]) == 2
    assert f"would replace {ours if ours.suffix == '.html' else name}" in capsys.readouterr().err
    assert ours.read_bytes() == trial.read_bytes()


def test_who_reads_no_further_is_told_no_error():
    command = f"{sys.executable} -m replication run 03 --help | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_run_is_quiet_and_a_failing_one_leaves_the_earlier_result(trial, tmp_path, capfd):
    write_notebook(trial, TRIAL, "assert not broken, 'asked to fail'")
    out = tmp_path / "done.ipynb"
    typed = ["run", str(trial), "--out", str(out), "--page", "-p", "number"]
    assert main([*typed, "2"]) == 0
    assert capfd.readouterr().err == ""
    assert "asked to fail" in out.with_suffix(".html").read_text()
    before = out.read_bytes()
    assert main([*typed, "3", "-p", "broken", "true"]) == 2
    said = capfd.readouterr().err
    assert "AssertionError: asked to fail" in said
    assert said.splitlines()[-1] == f"The notebook up to there: {tmp_path / 'done.part.ipynb'}"
    assert out.read_bytes() == before


def test_a_full_disk_is_told_in_words_and_a_bug_is_not_hidden(trial, monkeypatch, capsys):
    def fail(number, text):
        def run(*_, **__):
            raise OSError(number, text)

        return run

    monkeypatch.setattr(notebooks, "run", fail(28, "No space left on device"))
    assert main(["run", str(trial)]) == 2
    assert "The disk is full: free some space, then call again." in capsys.readouterr().err
    monkeypatch.setattr(notebooks, "run", fail(9, "Bad file descriptor"))
    with pytest.raises(OSError, match="Bad file"):
        main(["run", str(trial)])


def test_an_error_of_a_library_is_not_told_as_the_user_s(monkeypatch, capsys):
    monkeypatch.setattr("replication.workflow.doctor.report", lambda options: json.loads("{"))
    with pytest.raises(json.JSONDecodeError):
        main(["doctor"])
    assert main(["run", "99"]) == 2
    assert "There is no experiment '99'" in capsys.readouterr().err


def test_what_a_notebook_comes_from_is_the_code_that_it_names(tmp_path):
    book = write_notebook(tmp_path / "a.ipynb", TRIAL, "%matplotlib inline\nimport json", "!ls")
    nothing = notebooks.code_of(book)
    write_notebook(book, TRIAL, "# a remark\nimport json", "1 + 1")
    assert notebooks.code_of(book) == nothing
    write_notebook(book, TRIAL, "from replication.store import plain")
    assert notebooks.code_of(book) != nothing


def test_an_error_that_says_what_to_do_comes_without_a_traceback(trial, tmp_path, capsys):
    code = "from replication.store import StoreError\nraise StoreError('Rows are lost. Measure.')"
    write_notebook(trial, TRIAL, code)
    assert main(["run", str(trial), "--out", str(tmp_path / "done.ipynb")]) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[0] == "replication: Rows are lost. Measure."
    assert "Traceback" not in said


def test_a_disk_that_is_full_needs_no_traceback(trial, tmp_path, capsys):
    write_notebook(trial, TRIAL, "raise OSError(28, 'No space left on device')")
    assert main(["run", str(trial), "--out", str(tmp_path / "done.ipynb")]) == 2
    first, advice, where = capsys.readouterr().err.splitlines()
    assert first == "replication: OSError: [Errno 28] No space left on device"
    assert advice.startswith("The disk is full")
    assert where.startswith("The notebook up to there")


def test_all_such_errors_are_known():
    for name in ("train", "data", "experiments.speech.corpus", "measure.rounds"):
        import_module(f"replication.{name}")
    kinds = {StoreError.__name__, *(kind.__name__ for kind in StoreError.__subclasses__())}
    assert kinds == set(notebooks.SAY_WHAT_TO_DO)


def test_a_profile_without_results_is_not_rendered(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("replication.cli.RESULTS", tmp_path)
    monkeypatch.setattr("replication.report.build.build", None)
    assert main(["render", "--profile", "paper"]) == 2
    assert "Measure them with\n    replication report --profile paper" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_told_before_a_notebook_runs(trial, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "run", None)
    assert main(["run", str(trial), "--out", "/proc/nothing/x.ipynb"]) == 2
    assert "/proc/nothing cannot be written" in capsys.readouterr().err
    assert main(["run", "03", "-p", "out", "/proc/nothing", "--profile", "smoke"]) == 2
    assert "/proc/nothing cannot be written" in capsys.readouterr().err
