"""A grid of points: planned, resumed after anything, collected into one tidy table."""

import json
import shutil
import signal

import pandas as pd
import pytest
from workflow_cases import (
    PLACE,
    ROOT,
    TRIAL,
    call,
    marked,
    new_project,
    start,
    until,
    write_notebook,
)

from replication import sweep
from replication.cli import main
from replication.notebooks import find
from replication.results import ResultsError


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / PLACE)


@pytest.fixture
def notebook(tmp_path):
    return write_notebook(tmp_path / "trial.ipynb", TRIAL, "1")


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
        ({"text": ["a"]}, "../elsewhere", "makes no folder"),
    ],
)
def test_a_wrong_grid_is_explained(notebook, values, name, said):
    with pytest.raises(ValueError, match=said):
        sweep.plan(notebook, values, name)


def test_values_may_join_a_sweep_but_points_that_were_run_are_not_lost(notebook, tmp_path):
    def grid(*texts):
        return sweep.plan(notebook, {"text": list(texts)}, "mine")._replace(folder=tmp_path / "s")

    sweep.save(grid("a", "b"))
    sweep.save(grid("c"))  # nothing was run yet
    sweep.save(grid("a", "b"))
    done = tmp_path / "s" / f"{grid('a', 'b').jobs()[0].name}.done"
    done.parent.mkdir(parents=True)
    done.touch()
    sweep.save(grid("a", "b", "c"))
    assert sweep.load(tmp_path / "s") == grid("a", "b", "c")
    with pytest.raises(ValueError, match=r"holds another sweep: trial\.ipynb"):
        sweep.save(grid("b", "c"))
    (tmp_path / "s" / "plan.json").write_text('{"notebook": ')
    with pytest.raises(ResultsError, match=r"plan\.json cannot be read .*Delete it"):
        sweep.save(grid("a", "b"))


def test_a_parameter_without_a_value_is_told(notebook, capsys):
    assert main(["sweep", str(notebook), "-p", "number", "-p", "text", "a", "b"]) == 2
    assert "number has no value" in capsys.readouterr().err


def test_nothing_is_tried_where_it_may_not_be(tmp_path):
    grid = sweep.plan(find("03"), {"seeds": [[0], [1]], "profile": ["smoke"]})
    assert sweep.estimate(grid._replace(folder=tmp_path), may_try=False) is None
    assert not list(tmp_path.iterdir())


NASTY = [
    "; touch pwned #",
    "$(touch pwned)`touch pwned`",
    "a\nb: {c} 'd' \"e\" \\f %s {wildcards.job}",
    "é 漢 🙂 | > pwned & true",
]


def test_what_a_user_types_reaches_the_notebook_and_no_shell(project):
    said = call(project, "sweep", "trial.ipynb", "-p", "text", *NASTY, "-p", "number", "2",
                "--table", "rows", "--cores", "2", "--name", "nasty")  # fmt: skip
    table = pd.read_csv(project / "results/sweeps/nasty/table.csv")
    assert list(table.columns) == ["number", "text", "said", "length"]
    assert table.text.tolist() == NASTY
    assert table.said.tolist() == [text * 2 for text in NASTY]
    assert not list(project.rglob("pwned*"))
    assert "4 are to be run" in said
    assert "how long it takes will show with the first point" in said
    facts = json.loads((project / "results/sweeps/nasty/table.json").read_text())
    assert (facts["planned"], facts["finished"], len(facts["points"])) == (4, 4, 4)
    for name, point in facts["points"].items():
        assert point["tables"] == [f"{name}/rows.csv"]
        assert point["seconds"] > 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_is_stopped_goes_on_by_the_same_command(project, how):
    typed = ["sweep", "trial.ipynb", "-p", "text", "a", "b", "-p", "patience", "100",
             "--table", "rows", "--cores", "2", "--name", "mine"]  # fmt: skip
    folder = project / "results/sweeps/mine"
    child = start(project, *typed)
    until(lambda: len(list(folder.glob("points/*/begun-*"))) == 2)
    child.send_signal(how)
    said = child.communicate()[1]
    if how == signal.SIGKILL:
        assert marked(folder), "nothing was left running, so this shows nothing"
    else:
        assert child.returncode == 130
        assert "call the same command again" in said
        assert not marked(folder)
    assert "2 rows of 2 points" in call(project, *typed)
    assert not marked(folder)
    assert len(list(folder.glob("points/*/begun-*"))) == 4
    assert len(list(folder.glob("points/*/ended-*"))) == 2
    assert pd.read_csv(folder / "table.csv").said.tolist() == ["a", "b"]


def test_points_that_failed_are_explained_though_the_table_cannot_be_collected(project):
    typed = ["sweep", "trial.ipynb", "--table", "none", "-p", "broken", "false", "true"]
    said = call(project, *typed, code=2)
    assert "ValueError: asked to fail" in said
    assert "has left no none.csv" in said


def test_a_damaged_or_missing_table_is_told(notebook, tmp_path):
    grid = sweep.plan(notebook, {"text": ["a"]}, table="rows")._replace(folder=tmp_path / "s")
    (job,) = grid.jobs()
    with pytest.raises(ResultsError, match=r"No point of .* is finished"):
        sweep.collect(grid)
    (grid.folder / job.name).mkdir(parents=True)
    (grid.folder / f"{job.name}.done").touch()
    grid.executed(job).write_text('{"metadata": {"papermill": {"duration": 1.5}}}')
    with pytest.raises(ResultsError, match=r"has left no rows.csv .*--table"):
        sweep.collect(grid)
    (grid.folder / job.name / "rows.csv").write_bytes(b"\xff\xfe\x00damaged")
    (grid.folder / job.name / "rows.json").write_text("{}")
    with pytest.raises(ResultsError, match="cannot be read"):
        sweep.collect(grid)
    assert not (grid.folder / "table.csv").exists()
    durations = sweep.collect(grid._replace(table=None))
    assert durations.to_dict("records") == [{"text": "a", "seconds": 1.5}]


def test_a_trial_tells_how_long_a_real_sweep_takes_and_its_table_is_tidy(project):
    (source,) = (ROOT / "notebooks").glob("03_*.ipynb")
    (project / "notebooks").mkdir()
    shutil.copy(source, project / "notebooks")
    typed = ["sweep", "03", "--profile", "smoke", "-p", "setting", "paper", "-p", "lengths", "8",
             "-p", "seeds", "[0, 1]", "-p", "steps", "4", "--cores", "2"]  # fmt: skip
    wrong = call(project, *typed, "-p", "attentions", "magic", "--name", "wrong", code=2)
    assert "='magic' is unknown" in wrong
    kept = project / "results/sweeps/wrong/trial.part.ipynb"
    assert wrong.splitlines()[-1] == f"The notebook up to there: {kept}"
    assert kept.exists()
    typed += ["-p", "attentions", "linear", "--name", "real"]
    assert "Trial" not in call(project, *typed, "--dry-run")
    said = call(project, *typed)
    assert not list((project / "results/sweeps/real").glob("trial*"))
    assert "by a trial of 3 updates of attentions_linear-lengths_8-" in said
    table = pd.read_csv(project / "results/sweeps/real/table.csv")
    given = table[["profile", "setting", "attentions", "lengths", "seeds", "steps"]]
    assert given.to_dict("records") == [
        {"profile": "smoke", "setting": "paper", "attentions": "linear", "lengths": 8,
         "seeds": "[0, 1]", "steps": 4}
    ] * 2  # fmt: skip
    assert table.seed.tolist() == [0, 1]
    assert (table.updates == 4).all()
    assert (table.final_loss > 0).all()
