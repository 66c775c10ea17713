"""Full disks, damaged files, Ctrl-C: what was saved stays, and the user is told what to do."""

import errno
import json
import os
import signal
import subprocess
import sys
from multiprocessing import get_context

import nbformat
import pandas as pd
import pytest
from workflow_cases import (
    LIMIT,
    PLACE,
    ROOT,
    TRIAL,
    TRIAL_CELLS,
    call,
    limited,
    new_project,
    start,
    until,
    write_notebook,
)

from replication import store, workflow
from replication.cli import main
from replication.experiments.copy_task.run import new_training
from replication.experiments.copy_task.studies import resolve
from replication.train import CheckpointError, read_checkpoint

ROWS = pd.DataFrame({"x": range(3)})


def child(code: str, *arguments: object, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


SAVE = """
import sys, pandas as pd
from pathlib import Path
from replication import store
store.write(Path(sys.argv[1]) / "rows.csv", pd.DataFrame({"x": range(100_000)}), {"n": 2})
"""


def test_rows_that_do_not_fit_on_the_disk_leave_the_earlier_ones(tmp_path):
    store.write(tmp_path / "rows.csv", ROWS, {"n": 1})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    failed = child(SAVE, tmp_path, preexec_fn=limited)
    assert "OSError: [Errno 27] File too large" in failed.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert child(SAVE, tmp_path).returncode == 0
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 100_000


def save_too_much(training, path):
    limited()
    training.step, training.rows = 2, [{"step": i} for i in range(100_000)]
    try:
        training.save(path)
    except OSError as error:
        sys.exit(error.errno)


def test_a_checkpoint_that_does_not_fit_leaves_the_earlier_one_and_damage_is_found(tmp_path):
    sizes = {"d_model": 8, "n_heads": 1, "n_layers": 1, "d_ff": 8}
    (run,) = resolve("paper", "smoke", attentions="linear", lengths=8, seeds=0, **sizes).runs()
    path, training = tmp_path / "run.pt", new_training(run)
    training.advance()
    training.save(path)
    process = get_context("fork").Process(target=save_too_much, args=(training, path))
    process.start()
    process.join()
    assert process.exitcode == errno.EFBIG
    assert read_checkpoint(path, run)["step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
    content = path.read_bytes()
    for damaged in (content[:-1], b"", content[:40] + b"?" + content[41:]):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"is damaged.*Delete it and call again"):
            read_checkpoint(path, run)


@pytest.fixture
def trial(tmp_path):
    return write_notebook(tmp_path / "trial.ipynb", TRIAL, *TRIAL_CELLS)


def test_a_folder_that_cannot_be_written_is_told(trial, tmp_path, capsys):
    (tmp_path / "taken").write_text("a file in place of a folder")
    assert main(["run", str(trial), "--out", str(tmp_path / "taken" / "done.ipynb")]) == 2
    assert "done.ipynb' names no notebook" in capsys.readouterr().err


def test_a_notebook_that_cannot_save_says_why_and_what_to_do(trial, tmp_path, capsys):
    (tmp_path / "taken").write_text("a file in place of a folder")
    typed = ["run", str(trial), "--out", str(tmp_path / "done.ipynb")]
    assert main([*typed, "-p", "out", str(tmp_path / "taken")]) == 2
    said = capsys.readouterr().err
    assert "FileExistsError" in said
    assert "A file stands where a folder is needed" in said
    assert main([*typed, "-p", "out", str(tmp_path / "free")]) == 0


def test_a_point_that_does_not_fit_on_the_disk_fails_alone_and_goes_on_later(tmp_path):
    project = new_project(tmp_path / PLACE)
    folder, large = project / "results/sweeps/s", str(LIMIT)
    typed = ["sweep", "trial.ipynb", "--table", "saying", "-p", "number", "1", large]
    said = call(project, *typed, "--name", "s", code=1, preexec_fn=limited)
    assert "1 rows of 1 points" in said
    assert "OSError: [Errno 27] File too large" in said
    assert said.count("Not made: ") == 1
    assert "A file may not grow so large here: see ulimit -f, then call again" in said
    assert json.loads((folder / "table.json").read_text())["finished"] == 1
    again = call(project, *typed, "--name", "s", "--dry-run")
    assert "1 are done, 1 are to be run" in again
    assert "by 1 that ran" in again
    another = call(project, *typed[:4], "-p", "text", "a", "b", "--dry-run")
    assert "0 are done, 2 are to be run" in another
    assert "2 rows of 2 points" in call(project, *typed, "--name", "s")
    assert pd.read_csv(folder / "table.csv").said.str.len().tolist() == [1, LIMIT]


def test_ctrl_c_ends_a_run_in_order(trial, tmp_path):
    out = tmp_path / "done.ipynb"
    earlier = '{"metadata": {"papermill": {}}}'
    out.write_text(earlier)
    typed = ["run", str(trial), "--out", str(out), "-p", "out", str(tmp_path / "rows")]
    process = start(ROOT, *typed, "-p", "patience", "100")
    until(lambda: list((tmp_path / "rows").glob("begun-*")))
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("Stopped. What was saved stays")
    assert out.read_text() == earlier


def test_two_do_not_run_into_the_same_notebook(trial, tmp_path, capsys):
    out, rows = tmp_path / "done.ipynb", tmp_path / "rows"
    typed = ["run", str(trial), "--out", str(out), "-p", "out", str(rows), "-p", "patience", "100"]
    first = start(ROOT, *typed)
    until(lambda: list(rows.glob("begun-*")))
    before = sources_of(tmp_path / "done.part.ipynb")
    assert main(typed) == 2
    assert "done.ipynb is being written by another process" in capsys.readouterr().err
    assert sources_of(tmp_path / "done.part.ipynb") == before
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)


def sources_of(notebook):
    """What is run; results come in while it runs, and a look may come in between."""
    until(lambda: notebook.read_text().rstrip().endswith("}"))
    return [cell.source for cell in nbformat.read(notebook, 4).cells]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("import os; os._exit(9)", "Its process was ended, mostly for want of memory"),
        (
            "import os; from concurrent.futures import ProcessPoolExecutor\n"
            "ProcessPoolExecutor(1).submit(os._exit, 9).result()",
            "Its process was ended, mostly for want of memory",
        ),
        ("bytearray(2**62)", "Memory ran out: use a smaller profile"),
        (
            "raise RuntimeError('DefaultCPUAllocator: can\\'t allocate memory: you tried')",
            "Memory ran out: use a smaller profile",
        ),
    ],
)
def test_want_of_memory_is_told(tmp_path, capsys, code, advice):
    book = write_notebook(tmp_path / "trial.ipynb", TRIAL, code)
    assert main(["run", str(book), "--out", str(tmp_path / "done.ipynb")]) == 2
    assert advice in capsys.readouterr().err


# Alone -------------------------------------------------------------------------------------


def test_two_at_once_in_one_folder_are_refused(tmp_path, trial, monkeypatch, capsys):
    monkeypatch.setattr("replication.workflow.sweep.SWEEPS", tmp_path)
    typed = ["sweep", str(trial), "-p", "number", "1", "2", "--name", "mine"]
    with workflow.alone(tmp_path / "mine"):
        assert main(typed) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'mine'} is being written by another process" in said
    assert "Nothing was changed" in said
    assert not (tmp_path / "mine" / "plan.json").exists()


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue that lists a job in a folder, with commands to see and to cancel it."""
    folder, tools = tmp_path / "work", tmp_path / "bin"
    tools.mkdir()
    for name, lines in (
        ("squeue", f"[ -e {tools}/down ] && {{ echo no answer >&2; exit 1; }}\ncat {tools}/jobs"),
        ("scancel", f"echo $1 >> {tools}/cancelled\n: > {tools}/jobs"),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tools / name).chmod(0o755)
    (tools / "jobs").touch()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return folder, tools


def test_jobs_that_could_not_be_ended_are_ended_by_the_next_driver(queue):
    folder, tools = queue

    def break_off() -> None:
        with workflow.alone(folder):
            (tools / "jobs").write_text(f"41 {folder.parent}\n42 {folder}\n")
            (tools / "down").touch()
            raise RuntimeError("stopped")

    with pytest.raises(store.StoreError, match=r"squeue does not say .*: no answer"):
        break_off()
    with pytest.raises(store.StoreError, match="no answer"), workflow.alone(folder):
        pass
    (tools / "down").unlink()
    with workflow.alone(folder):
        assert (tools / "cancelled").read_text() == "42\n"
