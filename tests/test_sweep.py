"""A grid of points: planned, resumed after anything, collected into one tidy table."""

import json
import signal

import pandas as pd
import pytest
from workflow_cases import (
    PLACE,
    TRIAL,
    add_experiment,
    call,
    marked,
    new_project,
    start,
    until,
    write_notebook,
)

from replication.cli import main
from replication.store import StoreError
from replication.workflow import sweep


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = new_project(tmp_path_factory.mktemp("sweep") / PLACE)
    add_experiment(project, "learn", "03_learn", more="workers=workers")
    return project


@pytest.fixture
def notebook(tmp_path):
    return write_notebook(tmp_path / "trial.ipynb", TRIAL, "1")


# The plan -----------------------------------------------------------------------------------


def test_points_are_all_combinations_and_named_after_their_values(notebook):
    grid = sweep.plan(notebook, {"text": ["a", "b"], "number": [1, 2], "broken": [False]})
    jobs = grid.jobs()
    assert [(j.parameters["text"], j.parameters["number"]) for j in jobs] == [
        ("a", 1), ("a", 2), ("b", 1), ("b", 2),
    ]  # fmt: skip
    assert len({job.name for job in jobs}) == 4
    assert jobs[0].name.startswith("points/broken_False-number_1-text_a-")
    assert all((notebook.parent / j.parameters["out"]).resolve() == grid.folder / j.name
               for j in jobs)  # fmt: skip


def test_the_same_command_means_the_same_folder(notebook):
    values = {"text": ["a", "b"], "number": [1, 2]}
    first = sweep.plan(notebook, values)
    assert first == sweep.plan(notebook, dict(values))
    assert first.folder == sweep.plan(notebook, dict(reversed(values.items()))).folder
    assert first.folder != sweep.plan(notebook, values | {"number": [1, 3]}).folder


@pytest.mark.parametrize(
    ("values", "name", "said"),
    [
        ({"out": ["x"]}, None, "out is set by the sweep itself"),
        ({"text": ["a", "b", "a"]}, None, "text holds 'a' twice"),
        ({"text": ["a"]}, "../elsewhere", "cannot name a folder"),
        ({"text": ["a"]}, "", "cannot name a folder"),
        ({"text": ["a"]}, "x" * 300, r"--name 'x{40}' cannot name a folder. Use 1 to 100 letters"),
    ],
)
def test_a_wrong_grid_is_explained(notebook, values, name, said):
    with pytest.raises(ValueError, match=said):
        sweep.plan(notebook, values, name)


def test_a_plan_says_what_is_done_and_how_long_the_rest_takes(notebook, tmp_path, monkeypatch):
    """Values may join a sweep: points that were run are found by their names."""
    monkeypatch.setattr(sweep, "SWEEPS", tmp_path)
    first = sweep.plan(notebook, {"text": ["a", "b"]}, "s")
    done = tmp_path / "s" / f"{first.jobs()[0].name}.done"
    done.parent.mkdir(parents=True)
    done.touch()
    done.with_suffix(".ipynb").write_text('{"metadata": {"papermill": {"duration": 90}}}')
    more = sweep.plan(notebook, {"text": ["a", "b", "c"]}, "s")
    sweep.save(more)
    assert sweep.load(tmp_path / "s") == more
    said = sweep._announce(more, ["b", "c"])
    assert "1 are done, 2 are to be run." in said
    assert "About 3.0 minutes one after the other, by 1 that ran." in said
    done.with_suffix(".ipynb").unlink()
    sweep.save(more)
    assert not done.exists()


def test_a_parameter_without_a_value_is_told(notebook, capsys):
    assert main(["sweep", str(notebook), "-p", "number", "-p", "text", "a", "b"]) == 2
    assert "number has no value" in capsys.readouterr().err


def test_all_is_checked_before_anything_runs_and_a_dry_run_leaves_nothing(project):
    typed = ["sweep", "learn", "--profile", "smoke", "-p", "loud"]
    assert "loud=0 cannot be heard" in call(project, *typed, "1", "0", code=2)
    said = call(project, *typed, "1", "2", "--table", "lern", code=2)
    assert "--table lern is unknown. 03_learn.ipynb makes learn." in said
    said = call(project, *typed, "1", "2", "3", "--dry-run", "--cores", "2")
    assert "0 are done, 3 are to be run." in said
    assert not (project / "results").exists()


# The work -----------------------------------------------------------------------------------

NASTY = (
    "$(touch pwned)`touch pwned`; touch pwned #"
    "a\nb: {c} 'd' \"e\" \\f %s {wildcards.job} é 漢 🙂 | > pwned & true"
)


def test_a_sweep_that_is_stopped_or_fails_resumes_and_no_shell_reads_what_is_typed(project):
    """By Ctrl-C it ends all that it began; what a killed one has left, the next one ends."""
    typed = ["sweep", "trial.ipynb", "-p", "broken", "false", "true", "-p", "text", NASTY,
             "-p", "number", "2", "-p", "patience", "100", "--cores", "2",
             "--name", "n"]  # fmt: skip
    folder = project / "results/sweeps/n"
    (project / "wait").touch()
    for begun, how in ((2, signal.SIGINT), (4, signal.SIGKILL)):
        child = start(project, *typed)
        until(lambda begun=begun: len(list(folder.glob("points/*/begun-*"))) == begun)
        child.send_signal(how)
        said = child.communicate()[1]
        if how == signal.SIGINT:
            assert child.returncode == 130
            assert "call the same command again" in said
            assert not marked(folder)
    assert marked(folder), "nothing was left running, so this shows nothing"
    (project / "wait").unlink()
    said = call(project, *typed, code=1)
    assert not marked(folder)
    assert "2 are to be run" in said
    assert "ValueError: asked to fail" in said
    assert "1 rows of 1 points" in said
    assert len(list(folder.glob("points/*/begun-*"))) == 6
    ended = len(list(folder.glob("points/*/ended-*")))
    assert ended in (1, 2), "what was left running may end by itself just before it is ended"
    table = pd.read_csv(folder / "table.csv")
    assert list(table.columns) == ["text", "number", "patience", "broken", "said", "length"]
    assert (table.text[0], table.said[0]) == (NASTY, NASTY * 2)
    assert not list(project.rglob("pwned*"))
    facts = json.loads((folder / "table.json").read_text())
    assert (facts["planned"], facts["finished"], len(facts["points"])) == (2, 1, 1)
    assert all(point["minutes"] > 0 for point in facts["points"].values())


def test_rows_of_an_experiment_are_collected_and_a_damaged_point_is_run_again(project):
    typed = ["sweep", "03", "--profile", "smoke", "-p", "loud", "1", "2", "--name", "real"]
    assert "4 rows of 2 points" in call(project, *typed, "--cores", "2")
    table = pd.read_csv(project / "results/sweeps/real/table.csv")
    assert set(table.columns) == {"loud", "profile", "i", "value"}
    assert table.loud.tolist() == [1, 1, 2, 2]
    assert not (project / "results/smoke").exists(), "a point has a folder of its own"
    assert "2 are done, 0 are to be run" in call(project, *typed, "--dry-run")
    unit = min((project / "results/sweeps/real/points").rglob("u0-*.csv"))
    unit.write_text("i,value\n7,7\n")
    said = call(project, *typed)
    assert "1 are done, 1 are to be run" in said
    assert 7 not in pd.read_csv(project / "results/sweeps/real/table.csv").value.tolist()


def test_where_no_units_are_left_the_table_has_the_times(notebook, tmp_path):
    grid = sweep.plan(notebook, {"text": ["a"]})._replace(folder=tmp_path / "s")
    (job,) = grid.jobs()
    (grid.folder / job.name).mkdir(parents=True)
    (grid.folder / f"{job.name}.done").touch()
    executed = '{"metadata": {"papermill": {"duration": 90}}}'
    (grid.folder / f"{job.name}.ipynb").write_text(executed)
    found = sweep.collect(grid)
    assert found.to_dict("records") == [{"text": "a", "minutes": 1.5}]
    with pytest.raises(StoreError, match="has left no unit of none"):
        sweep.collect(grid._replace(table="none"))
    (grid.folder / job.name / "rows.csv").write_bytes(b"\xff\xfe\x00damaged")
    with pytest.raises(StoreError, match=r"rows\.csv has no provenance that can be read"):
        sweep.collect(grid)
