"""A folder, a notebook and a claim are an experiment: all else finds it without a change."""

import json
import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from contributing_cases import add_experiment, examples
from workflow_cases import ROOT, call, importable, new_project


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The worked example of CONTRIBUTING.md, and a report that is nothing but its verdicts."""
    project = new_project(tmp_path_factory.mktemp("toy") / "project")
    shutil.copytree(ROOT / "paper", project / "paper", dirs_exist_ok=True)
    (project / "paper/claims.yaml").unlink()
    add_experiment(project)
    article = nbformat.read(project / "paper/report.ipynb", 4)
    article.cells = [
        nbformat.v4.new_code_cell('profile: str = ""', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(REPORT),
    ]
    nbformat.write(article, project / "paper/report.ipynb")
    return project


REPORT = """
from IPython.display import Markdown
from replication import claims, experiments, store

evidence = {name: one.evidence([store.load(unit, current=True) for unit in one.units(profile)])
            for name, one in experiments.every().items()}
verdicts = claims.judge(claims.claims(), evidence)
claims.save(store.RESULTS / profile, profile, verdicts)
Markdown(" ".join(f"{id}: {one.outcome}." for id, one in verdicts.items()))
"""


def test_every_file_of_the_example_is_found():
    rooms = {name for name in examples() if name.startswith("replication/experiments/rounding/")}
    assert {name.rsplit("/", 1)[1] for name in rooms} == {
        "__init__.py", "numbers.py", "run.py", "rules.py", "figures.py",
    }  # fmt: skip


def test_report_runs_it_and_ends_with_its_verdict_and_the_pdf(project):
    before = sorted((project / "paper").rglob("*"))
    said = call(project, "report", "--profile", "smoke", "--cores", "2")
    assert "09_rounding: 2 of 2 units to be made" in said
    *_, verdict, path = said.strip().splitlines()
    assert verdict.startswith("T1  supported: The largest relative error is ")
    assert path == f"Report of profile smoke: {project / 'build/smoke/report.pdf'}"
    assert (project / "build/smoke/report.pdf").read_bytes().startswith(b"%PDF")
    assert "T1: supported." in (project / "build/smoke/report.html").read_text()
    assert sorted((project / "paper").rglob("*")) == before, "only reference renews paper/"
    assert len(list((project / "results/smoke/rounding").glob("N*.csv"))) == 2


def test_its_notebook_shows_its_figure_and_its_verdict(project):
    book = nbformat.read(project / "build/smoke/09_rounding.ipynb", 4)
    shown = [o for c in book.cells for o in c.get("outputs", []) if o.output_type != "stream"]
    assert any("image/png" in o.get("data", {}) for o in shown)
    assert "supported" in shown[-1]["data"]["text/plain"]


def test_doctor_counts_its_units_and_its_minutes(project, monkeypatch):
    monkeypatch.setenv("REPLICATION_KERNEL", "pytorch")  # a new project would compile the other
    found = json.loads(call(project, "doctor", "--json"))
    assert found["units"]["smoke"] == {"rounding": {"current": 2}}
    assert found["units"]["paper"] == {"rounding": {"missing": 2}}
    assert found["minutes"]["smoke"] > 0
    unit = min((project / "results/smoke/rounding").glob("N64-*.csv"))
    whole = unit.read_text()
    unit.write_text(whole[: len(whole) // 2])
    assert "rounding 1 current, 1 damaged" in call(project, "doctor")
    said = call(project, "render", "--profile", "smoke", code=2)
    assert f"{unit} is damaged" in said.replace("\n", "")
    assert "replication run rounding --profile smoke" in said
    unit.write_text(whole)


def test_a_wrong_parameter_is_told_by_its_own_check(project):
    said = call(project, "run", "rounding", "-p", "profile", "huge", code=2)
    assert "profile='huge' is unknown. Choose one of: smoke, quick" in said


def test_importing_it_needs_nothing_slow(project):
    line = "import sys; from replication import experiments as e; print(*e.every()); "
    line += "print([x for x in ('torch', 'pandas', 'numpy') if x in sys.modules])"
    env = os.environ | {"PYTHONPATH": str(importable(project))}
    command = [sys.executable, "-c", line]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert done.stdout == "rounding\n[]\n", done.stderr
