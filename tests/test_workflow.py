"""What is stale is run again, in order, and nothing else; a failure spoils nothing."""

import json
import os
import subprocess
import sys

import pytest
from workflow_cases import PLACE, add_experiment, call, importable, limited, new_project

from replication import workflow
from replication.workflow import Job

TYPED = ("report", "--profile", "quick", "--cores", "2")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Four experiments in three notebooks, made anew once; the tests change it in order."""
    project = new_project(tmp_path_factory.mktemp("workflow") / PLACE)
    add_experiment(project, "learn", "03_learn", more="workers=workers")
    add_experiment(project, "clock", "04_clock", alone=True)
    add_experiment(project, "beside", "04_clock")
    add_experiment(project, "judge", "05_judge", needs=["clock", "beside"])
    book = project / "notebooks/04_clock.ipynb"  # shows both experiments
    one = "kept = store.ensure_all(run.units(profile, loud), folder)"
    other = "from replication.experiments.clock import run as clock"
    both = f"{other}\\n{one}\\nstore.ensure_all(clock.units(profile), folder)"
    book.write_text(book.read_text().replace(one, both))
    return project


def log(project):
    """Who has run since it was last asked."""
    path = project / "log"
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    path.unlink(missing_ok=True)
    return {entry["name"]: entry for entry in entries}


def test_a_report_runs_all_in_order_and_the_clock_by_itself(project):
    said, runs = call(project, *TYPED), log(project)
    assert "There is no paper/report.ipynb: only pages are made." in said
    assert "04_clock: 4 of 4 units to be made" in said
    assert set(runs) == {"learn", "beside", "judge"}
    assert {entry["profile"] for entry in runs.values()} == {"quick"}
    assert runs["learn"]["workers"] == 2
    timed = runs.pop("beside")
    assert runs["judge"]["begin"] > timed["end"], "it reads the rows of the clock"
    for name, other in runs.items():
        beside = other["end"] >= timed["begin"] and other["begin"] <= timed["end"]
        assert not beside, f"{name} ran beside the clock"
    assert "<html" in (project / "build/quick/03_learn.html").read_text()
    assert 'href="03_learn.html"' in (project / "build/quick/index.html").read_text()
    assert "running: 04_clock\n" in said, "the step that runs is named"
    assert len(list((project / "results/quick").glob("*/u*.csv"))) == 8


def test_comments_docstrings_and_other_code_run_nothing(project):
    run = project / "replication/experiments/learn/run.py"
    said = "(i, scratch) -> 'x':  # so\n    '''Say.'''"
    run.write_text('"""Told."""\n' + run.read_text().replace("(i, scratch):", said))
    with (project / "replication/measure/__init__.py").open("a") as file:
        file.write("\n\nUNUSED = 3\n")
    assert "Nothing to do" in call(project, *TYPED)
    assert not log(project)


def test_fresh_makes_all_anew_and_resumes_after_a_failure_that_is_told_once_and_spoils_nothing(
    project,
):
    made = {path: json.loads(path.read_text())["started"] for path in provenances(project)}
    book, page = project / "notebooks/04_clock.ipynb", project / "build/quick/04_clock.ipynb"
    good, before = book.read_text(), page.read_bytes()
    book.write_text(good.replace("begin = time.time()", "begin = time.broken()"))
    said = call(project, *TYPED[:-1], "1", "--fresh", code=1)
    runs = log(project)
    assert set(runs) == {"learn"}
    assert runs["learn"]["workers"] == 1
    assert "Not made: 04_clock\n" in said
    assert "Not made: 05_judge\nIt waits for what could not be made" in said
    assert said.count("has no attribute 'broken'") == 1
    assert said.rstrip().endswith("then call the same again.")
    assert page.read_bytes() == before
    book.write_text(good)
    call(project, *TYPED, "--fresh")
    assert set(log(project)) == {"beside", "judge"}, "the first was made anew before"
    assert all(json.loads(path.read_text())["started"] > made[path] for path in made)
    assert not (project / "build/quick/.fresh").exists()


def provenances(project):
    return sorted((project / "results/quick").glob("*/u*.json"))


def test_a_lost_or_damaged_unit_is_made_again_and_no_other_job(project):
    """And who reads its rows. A step of Snakemake's own that fails is told, too."""
    units = sorted((project / "results/quick/beside").glob("u*.csv"))
    units[0].unlink()
    units[1].write_text(units[1].read_text()[:-3])
    snakefile = project / "Snakefile"
    good = snakefile.read_text()
    snakefile.write_text(f"{good}\n\nonsuccess:\n    raise ValueError('after all was made')\n")
    said = call(project, *TYPED, code=1)
    snakefile.write_text(good)
    assert "04_clock: 2 of 4 units to be made" in said
    assert set(log(project)) == {"beside", "judge"}
    assert "Not made: Snakemake's own last step" in said
    assert "after all was made" in said


def test_changed_code_runs_what_uses_it_and_a_page_that_cannot_be_made_is_told(project):
    numbers = project / "replication/experiments/learn/numbers.py"
    numbers.write_text(numbers.read_text().replace("VALUE = 1", "VALUE = 2"))
    book = project / "notebooks/03_learn.ipynb"
    book.write_text(book.read_text().replace("begin = time", "print('&' * 40_000); begin = time"))
    said = call(project, *TYPED, code=1, preexec_fn=limited)  # notebooks fit, pages do not
    assert set(log(project)) == {"learn"}
    assert "Not made: 03_learn\n" in said
    assert "File too large" in said
    assert "A file may not grow so large here" in said


def test_a_job_on_a_cluster_does_not_ask_for_the_cores_of_this_machine(project):
    config = workflow.Drive(project, {"profile": "quick"}, 8, "slurm")._command()[-3:]
    assert config == ["--config", "profile=quick", "executor=slurm"]
    options = ["--cores", "8", "--dry-run", "--printshellcmds"]
    command = [sys.executable, "-m", "snakemake", *options, *config]
    env = os.environ | {"PYTHONPATH": str(importable(project))}
    said = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert "-p workers 1 " in said.stdout.replace("\n", " "), said.stderr
    assert "threads: 8" not in said.stdout


def test_parameters_are_written_once_so_that_nothing_looks_new(tmp_path):
    job = Job("03_x", tmp_path / "03_x.ipynb", {"profile": "smoke"})
    workflow.prepare(tmp_path, [job])
    path = tmp_path / "03_x.json"
    assert json.loads(path.read_text()) == {"profile": "smoke"}
    before = path.stat().st_mtime_ns
    workflow.prepare(tmp_path, [job])
    assert path.stat().st_mtime_ns == before


def test_a_report_comes_from_its_sources_and_not_from_what_an_editor_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "PAPER", tmp_path)
    made = ("report.ipynb", "claims.yaml", "references.bib", "template/article.typ",
            "template/article.html", "template/math.lua")  # fmt: skip
    left = ("report.pdf", ".~report.ipynb", "Untitled.ipynb", "template/article.typ~",
            "template/.#article.typ", ".ipynb_checkpoints/report-checkpoint.ipynb")  # fmt: skip
    for name in (*left, *made[1:]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert workflow.report_files() == [], "there is no article"
    (tmp_path / "report.ipynb").touch()
    assert workflow.report_files() == sorted(tmp_path / name for name in made)
