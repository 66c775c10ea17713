"""A notebook is run whole or not at all; what is stale is run again, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import nbformat
import pandas as pd
import pytest
from report_cases import FACTS
from workflow_cases import PLACE, ROOT, TRIAL, call, limited, new_project, start, write_notebook

from replication import notebooks, results, workflow
from replication.cli import main
from replication.config import ORIGINS, PROFILES
from replication.notebooks import Job
from replication.sources import PACKAGE
from replication.workflow import plan


@pytest.fixture
def trial(tmp_path):
    return write_notebook(tmp_path / "trial.ipynb", TRIAL, "1")


# One notebook -------------------------------------------------------------------------------


def test_a_run_is_quiet_and_a_failing_one_leaves_the_earlier_result(trial, tmp_path, capfd):
    write_notebook(trial, TRIAL, "assert not broken, 'asked to fail'")
    out = tmp_path / "done.ipynb"
    typed = ["run", str(trial), "--out", str(out), "-p", "number"]
    assert main([*typed, "2"]) == 0
    assert capfd.readouterr().err == ""
    before = out.read_bytes()
    assert main([*typed, "3", "-p", "broken", "true"]) == 2
    said = capfd.readouterr().err
    assert "AssertionError: asked to fail" in said
    assert said.splitlines()[-1] == f"The notebook up to there: {tmp_path / 'done.part.ipynb'}"
    assert out.read_bytes() == before
    assert main([*typed, "3"]) == 0
    assert not (tmp_path / "done.part.ipynb").exists()


# What a notebook comes from ----------------------------------------------------------------


def test_a_notebook_comes_from_what_it_imports_and_from_no_more(tmp_path):
    cells = ("%matplotlib inline\nimport replication.figures.style as s", "!ls\nimport json")
    book = write_notebook(tmp_path / "a.ipynb", TRIAL, *cells)
    assert notebooks.source_files(book) == [PACKAGE / "figures" / "style.py"]
    write_notebook(book, TRIAL, "from replication.train import train")
    found = notebooks.source_files(book)
    parts = {PACKAGE / name for name in ("train.py", "model/layers.py", "config/numbers.py")}
    assert parts <= set(found)
    assert not {PACKAGE / "figures" / "style.py", PACKAGE / "cli.py"} & set(found)


def test_only_training_gets_cores_and_only_timing_runs_alone(tmp_path):
    roles = {path.name[:2]: notebooks.role(path) for path in notebooks.every()}
    assert roles["01"] == "reading"
    assert roles["03"] == "training"
    assert roles.get("04", "timing") == "timing"


# The report ---------------------------------------------------------------------------------

LOG = """
import json, time
from pathlib import Path
begin = time.time()
time.sleep(0.5)
for table in %r:
    for file in (Path(f"../results/smoke/{table}{suffix}") for suffix in (".csv", ".json")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
with open("../log", "a") as file:
    entry = dict(number="%s", begin=begin, end=time.time(), profile=profile, %s)
    print(json.dumps(entry), file=file)
"""
TRAINED = [
    f"copy_task/{replace(experiment, device='cpu').name}/{table}"
    for experiment in (PROFILES[setting, "smoke"] for setting in ORIGINS)
    for table in ("evaluations", "runs", "patterns", *(f"steps-{x}" for x in experiment.attentions))
]
TIMED = ["scaling", "scaling_plan", "decoding", "crossover/a-layer/repeats"]


@pytest.fixture
def project(tmp_path):
    project = new_project(tmp_path / PLACE)
    (project / "replication" / "extra.py").write_text("VALUE = 1\n")
    known = 'profile: str = "quick"'
    for number, also, more, imports, tables in (
        ("01", "", "", "", ()),
        ("03", "workers: int = 1\nrows: str = ''", "workers=workers, rows=rows", "extra", TRAINED),
        ("04", "rows: str = ''", "rows=rows", "", TIMED),
        ("05", "", "", "", ()),
    ):
        cells = (f"from replication import {imports or 'sources'}", LOG % (tables, number, more))
        write_notebook(project / f"notebooks/{number}_x.ipynb", f"{known}\n{also}", *cells)
    return project


def log(project):
    entries = [json.loads(line) for line in (project / "log").read_text().splitlines()]
    (project / "log").unlink()
    return {entry["number"]: entry for entry in entries}


def test_a_report_runs_what_is_stale_in_order_and_a_failure_spoils_nothing(project):
    typed = ["report", "--profile", "smoke", "--cores", "2"]
    said, runs = call(project, *typed, "--fresh"), log(project)
    assert "There is no paper/report.ipynb: only pages are made." in said
    assert set(runs) == {"01", "03", "04", "05"}
    assert {entry["profile"] for entry in runs.values()} == {"smoke"}
    assert (runs["03"]["workers"], runs["03"]["rows"], runs["04"]["rows"]) == (2, "fresh", "fresh")
    assert runs["05"]["begin"] > runs["04"]["end"], "05 reads the rows of 04"
    timed = runs.pop("04")
    for number, other in runs.items():
        apart = other["end"] < timed["begin"] or other["begin"] > timed["end"]
        assert apart, f"{number} ran beside the clock of 04"
    assert "<html" in (project / "build/smoke/03_x.html").read_text()

    later = time.time() + 100
    os.utime(project / "replication" / "extra.py", (later, later))
    with (project / "replication" / "train.py").open("a") as file:
        file.write("# a change that none of these notebooks imports\n")
    assert "Nothing to do" in call(project, *typed)
    assert not (project / "log").exists()

    before = (project / "build/smoke/04_x.ipynb").read_bytes()
    (project / "replication" / "extra.py").write_text("VALUE = 2\n")
    write_notebook(project / "notebooks/04_x.ipynb", "x: int = 1", "raise ValueError('broken')")
    said = call(project, *typed[:-1], "1", code=1)
    assert "03_x: updated input files" in said
    runs = log(project)
    assert set(runs) == {"03"}
    assert (runs["03"]["workers"], runs["03"]["rows"]) == (1, "auto")
    assert "Not made: 04_x, 04_x.html\n" in said
    assert "Not made: 05_x, 05_x.html\nIt waits for what could not be made" in said
    assert said.count("ValueError: broken") == 1
    assert said.rstrip().endswith("then call the same again.")
    assert (project / "build/smoke/04_x.ipynb").read_bytes() == before


def keep(project, *numbers) -> None:
    """Leave the project these notebooks alone."""
    for path in (project / "notebooks").iterdir():
        if path.name[:2] not in numbers:
            path.unlink()


def test_what_was_deleted_is_made_again_and_fresh_goes_on_if_it_was_broken_off(project):
    keep(project, "03", "04")
    typed = ["report", "--profile", "smoke", "--cores", "2"]
    call(project, *typed)
    assert set(log(project)) == {"03", "04"}
    (project / "results/smoke/decoding.json").unlink()
    call(project, *typed)
    assert set(log(project)) == {"04"}
    timing = (project / "notebooks/04_x.ipynb").read_text()
    (project / "notebooks/04_x.ipynb").write_text(timing.replace("time.sleep", "time.broken"))
    call(project, *typed, "--fresh", code=1)
    assert set(log(project)) == {"03"}
    (project / "notebooks/04_x.ipynb").write_text(timing)
    call(project, *typed, "--fresh")
    runs = log(project)
    assert set(runs) == {"04"}, "03 was made anew before it was broken off"
    assert runs["04"]["rows"] == "fresh"
    assert not (project / "build/smoke/.fresh").exists()


@pytest.mark.parametrize(("number", "tables"), [("01", []), ("03", TRAINED), ("04", TIMED)])
def test_a_job_of_which_a_table_was_deleted_is_not_done(number, tables, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    job = Job("x", tmp_path / f"{number}_x.ipynb", {"profile": "smoke"})
    for table in tables:
        assert not plan.has_tables(job)
        results.save(tmp_path / "smoke", table, pd.DataFrame({"x": [1]}), {})
    assert plan.has_tables(job)
    for table in tables:
        (tmp_path / "smoke" / f"{table}.json").rename(tmp_path / "lost")
        assert not plan.has_tables(job)
        (tmp_path / "lost").rename(tmp_path / "smoke" / f"{table}.json")


def test_a_page_that_cannot_be_made_and_a_failing_snakemake_are_told(project):
    keep(project, "01")
    typed = ["report", "--profile", "smoke", "--cores", "2"]
    said = call(project, *typed, code=1, preexec_fn=limited)  # notebooks fit, pages do not
    assert "Not made: 01_x.html\n" in said
    assert "File too large" in said
    assert f"All of it: {project / 'build/smoke/01_x.page.log'}" in said
    assert "Input Notebook" not in said, "papermill has nothing to do with it"
    with (project / "Snakefile").open("a") as file:
        file.write("\n\nonsuccess:\n    raise ValueError('after all was made')\n")
    said = call(project, *typed, code=2)
    assert "All files were made, but Snakemake ended with code 1" in said
    assert "after all was made" in said


@pytest.mark.parametrize(("executor", "workers"), [("local", 8), ("slurm", 1)])
def test_a_job_on_a_cluster_does_not_ask_for_the_cores_of_this_machine(project, executor, workers):
    config = workflow.Drive(project, {"profile": "smoke"}, 8, executor)._command()[-3:]
    assert config == ["--config", "profile=smoke", f"executor={executor}"]
    options = ["--cores", "8", "--dry-run", "--printshellcmds"]
    command = [sys.executable, "-m", "snakemake", *options, *config]
    env = os.environ | {"PYTHONPATH": str(project.with_name("importable"))}
    said = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert f"-p workers {workers} " in said.stdout.replace("\n", " "), said.stderr
    assert ("threads: 8" in said.stdout) == (executor == "local")


def test_only_the_driver_drops_what_was_lost(tmp_path):
    job = Job("03_x", tmp_path / "03_x.ipynb", {"profile": "smoke"})
    (tmp_path / "03_x.done").touch()
    workflow.prepare(tmp_path, [job])
    assert (tmp_path / "03_x.yaml").read_text() == "profile: smoke\n"
    assert (tmp_path / "03_x.done").exists()
    workflow.drop_lost(tmp_path, [job])
    assert not (tmp_path / "03_x.done").exists()


def test_a_report_comes_from_its_sources_and_not_from_what_an_editor_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "PAPER", tmp_path / "paper")
    shutil.copytree(ROOT / "paper", plan.PAPER)
    before = workflow.report_sources()
    names = {str(path.relative_to(plan.PAPER)) for path in before if path.is_relative_to(tmp_path)}
    assert names >= {"report.ipynb", "claims.yaml", "references.bib", "template/article.typ"}
    assert not names & {"report.pdf", "report.html"}
    for left in (".ipynb_checkpoints/report-checkpoint.ipynb", ".~report.ipynb", "Untitled.ipynb",
                 "template/article.typ~", "template/.#article.typ"):  # fmt: skip
        (plan.PAPER / left).parent.mkdir(exist_ok=True)
        (plan.PAPER / left).touch()
    assert workflow.report_sources() == before


def test_reports_of_two_profiles_at_once_do_not_take_each_other_s_place(project):
    shutil.copytree(ROOT / "paper", project / "paper")
    cells = [
        nbformat.v4.new_code_cell('profile: str = ""', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            "from IPython.display import Markdown\nMarkdown(f'Profile {profile}.')"
        ),
    ]
    facts = {"report": FACTS, "language_info": {"name": "python"}}
    book = nbformat.v4.new_notebook(cells=cells, metadata=facts)
    nbformat.write(book, project / "paper/report.ipynb")
    both = {name: start(project, "render", "--profile", name) for name in ("smoke", "quick")}
    for name, process in both.items():
        said = "".join(process.communicate())
        assert process.returncode == 0, said
        page = (project / f"build/{name}/report.html").read_text()
        assert f"Profile {name}." in page
        assert (project / f"build/{name}/report.pdf").read_bytes().startswith(b"%PDF")
