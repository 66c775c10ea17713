"""Results travel as one file: judged anew where they arrive, refused if they are not whole."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from replication import store
from replication.cli import main
from replication.report import pool

REFERENCE = store.RESULTS / "reference"


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "ours.zip"
    assert main(["export", "--profile", "reference", "--out", str(path)]) == 0
    return path


def changed(path: Path, to: Path, change) -> Path:
    """A copy of an exported file whose content was changed by name."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            for other, content in change(name, old.read(name)):
                new.writestr(other, content)
    return to


def test_what_was_exported_is_judged_as_it_was_here(exported, tmp_path):
    run = pool.unpacked(exported, tmp_path)
    committed = json.loads((REFERENCE / "verdicts.json").read_text())["claims"]
    assert {id: one.outcome for id, one in run.verdicts.items()} == {
        id: one["outcome"] for id, one in committed.items()
    }


def test_several_machines_stand_side_by_side(exported, tmp_path, capsys):
    other = shutil.copy(exported, tmp_path / "theirs.zip")
    out = tmp_path / "pool.md"
    assert main(["pool", str(exported), str(other), "--out", str(out)]) == 0
    text = out.read_text()
    assert text in capsys.readouterr().out
    assert "| claim | ours | theirs |" in text
    assert "they differ" not in text


def test_other_machines_may_differ_and_it_is_said(exported, tmp_path):
    run = pool.unpacked(exported, tmp_path)
    id, verdict = next(iter(run.verdicts.items()))
    theirs = run._replace(verdicts=run.verdicts | {id: verdict._replace(outcome="not supported")})
    assert f"### {id}" in pool.report({"a": run, "b": theirs})
    assert pool.report({"a": run, "b": theirs}).count("they differ") == 1


def cut(name: str, content: bytes):
    yield name, content.rsplit(b"\n", 2)[0] + b"\n" if name.endswith(".csv") else content


def other_rules(name: str, content: bytes):
    yield name, content.replace(pool.rules().encode(), b"0" * 12)


def other_code(name: str, content: bytes):
    if name.endswith(".json") and name != pool.MANIFEST:
        content = json.dumps(json.loads(content) | {"source": "other"}).encode()
    yield name, content


def stranger(name: str, content: bytes):
    yield name, content
    if name == pool.MANIFEST:
        yield "../../evil.csv", b"1"


@pytest.mark.parametrize(
    ("change", "said"),
    [(cut, "is damaged"), (other_rules, "other rules"), (other_code, "is stale"),
     (stranger, "neither rows nor provenance"), (lambda n, c: [], "no item named")],
    ids=["cut", "rules", "code", "stranger", "empty"],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told_and_nothing_is_written(
    exported, tmp_path, capsys, change, said
):
    bad, out = changed(exported, tmp_path / "bad.zip", change), tmp_path / "pool.md"
    assert main(["pool", str(exported), str(bad), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "bad.zip" in error
    assert "Traceback" not in error
    assert not out.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and noise", b"{}"])
def test_what_is_no_exported_file_is_refused(tmp_path, capsys, content):
    path = tmp_path / "bad.zip"
    path.write_bytes(content)
    assert main(["pool", str(path), "--out", str(tmp_path / "pool.md")]) == 2
    assert "is no exported file" in capsys.readouterr().err


def test_two_machines_need_two_names(exported, tmp_path, capsys):
    assert main(["pool", str(exported), str(exported)]) == 2
    assert "Two files are called ours" in capsys.readouterr().err


def test_a_pool_replaces_nothing_but_its_own_report(exported, tmp_path, capsys):
    ours = tmp_path / "README.md"
    ours.write_text("mine")
    for out in (ours, exported, tmp_path):
        assert main(["pool", str(exported), "--out", str(out)]) == 2
        assert "name a new .md file" in capsys.readouterr().err
    assert ours.read_text() == "mine"
    assert zipfile.is_zipfile(exported)


def test_a_file_s_name_does_not_say_where_it_is_unpacked(exported, tmp_path, monkeypatch):
    inner = tmp_path / "tmp" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(inner))
    shutil.copy(exported, tmp_path / "...zip")
    main(["pool", str(tmp_path / "...zip"), "--out", str(tmp_path / "p.md")])
    assert not any(inner.iterdir())
    assert [x.name for x in inner.parent.iterdir()] == ["inner"]


def test_there_must_be_something_to_export(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    assert main(["export", "--profile", "smoke", "--out", str(tmp_path / "a.zip")]) == 2
    assert "There is nothing to export" in capsys.readouterr().err
    assert main(["export", "--profile", "smoke", "--out", str(tmp_path)]) == 2
