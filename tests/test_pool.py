"""Results travel as one file: judged anew where they arrive, refused if they are not whole."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from replication import store
from replication.cli import main
from replication.experiments.base import NOT_RUN, not_run
from replication.experiments.crossover.rules import main_crossovers, together
from replication.experiments.speech import run as speech
from replication.report import pool
from replication.report.run import load_run
from replication.stats import measured_crossover

REFERENCE = store.RESULTS / "reference"
(RUN_0,) = (REFERENCE / "decoding").glob("run-0-*.json")


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


def test_crossovers_stand_side_by_side_by_machine(exported, tmp_path):
    run, crossed = pool.unpacked(exported, tmp_path), ("crossover", "scaling")
    evidence = {name: one for name, one in run.evidence.items() if name not in crossed}
    refused = {name: run.evidence[name]._replace(facts={"profile": "smoke"}) for name in crossed}
    text = pool.report({"ours": run, "none": run._replace(evidence={}),
                        "others": run._replace(evidence=evidence),
                        "smoke": run._replace(evidence=refused)})  # fmt: skip
    table = dict(line.strip("| ").split(" | ", 1) for line in text.splitlines() if line[:1] == "|")
    assert table["from which N on"] == "ours | none | others | smoke"
    rows = run.evidence["crossover"], run.evidence["scaling"]
    for kernel, name in (("linear", "our kernel"), ("authors", "the authors' kernel")):
        found = main_crossovers(together(*rows), kernel)["time_ms"]["softmax"].brief()
        assert table[f"{name}: less time than fused softmax"] == f"{found} | – | – | –"
    tiled = measured_crossover(run.evidence["equal_care"].layer, "linear", "softmax-tiled").brief()
    assert table["our kernel: less time than softmax by our tiles"] == f"{tiled} | – | {tiled} | –"
    assert "## Crossovers" not in pool.report({"none": run._replace(evidence={})})


def test_other_machines_may_differ_and_it_is_said(exported, tmp_path):
    run = pool.unpacked(exported, tmp_path)
    id, verdict = next((id, one) for id, one in run.verdicts.items() if one.outcome == "supported")
    theirs = run._replace(verdicts=run.verdicts | {id: verdict._replace(outcome="not supported")})
    text = pool.report({"a": run, "b": theirs, "c": run})
    (line,) = (line for line in text.splitlines() if "they differ" in line)
    assert line.startswith(f"### {id} ")
    assert line.endswith(f": they differ ({verdict.outcome}: a, c; not supported: b)")


def test_who_did_not_run_a_claim_does_not_differ(exported, tmp_path):
    run = pool.unpacked(exported, tmp_path)
    id, verdict = next((id, one) for id, one in run.verdicts.items() if one.outcome != NOT_RUN)
    theirs = run._replace(verdicts=run.verdicts | {id: not_run("Too long.")})
    assert "they differ" not in pool.report({"a": theirs, "b": run})
    assert (
        f": {verdict.outcome}\n" in pool.report({"a": theirs, "b": run}).partition(f"### {id} ")[2]
    )
    none = run._replace(verdicts=dict.fromkeys(run.verdicts, not_run("Too long.")))
    assert f": {NOT_RUN}\n" in pool.report({"a": none, "b": none})


def other_device(exported: Path, to: Path) -> Path:
    """The same file as a machine with CUDA exports it: other numbers, so other names."""
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            facts = json.loads(old.read(Path(name).with_suffix(".json").as_posix()))
            content = old.read(name)
            if "numbers" in facts:
                numbers = json.loads(json.dumps(facts["numbers"]).replace('"cpu"', '"cuda"'))
                unit = store.Unit(facts["experiment"], facts["unit"], "", numbers, (), None)
                name = f"{unit.experiment}/{unit.id}{Path(name).suffix}"
                if name.endswith(".json"):
                    content = json.dumps(facts | {"numbers": numbers}).encode()
            new.writestr(name, content)
    return to


def test_rows_of_another_device_are_judged_alike(exported, tmp_path):
    ours = pool.unpacked(exported, tmp_path / "ours")
    theirs = pool.unpacked(other_device(exported, tmp_path / "cuda.zip"), tmp_path / "theirs")
    assert {name: len(kept) for name, kept in theirs.kept.items()} == {
        name: len(kept) for name, kept in ours.kept.items()
    }
    assert {id: one.evidence for id, one in theirs.verdicts.items()} == {
        id: one.evidence for id, one in ours.verdicts.items()
    }


def test_rows_of_a_corpus_that_is_not_here_are_judged(tmp_path, monkeypatch):
    """Here all but Czech speech was run, there it was."""
    facts = {"machine": {}, "corpus": {}, "utterances": {"train": 8}, "frames": 99, "failure": None,
             "parameters": 9}  # fmt: skip
    rows = pd.DataFrame({"step": [0, 1], "seconds": [None, 1.0], "eval_loss": 1.0,
                         "error_rate": 0.5})  # fmt: skip
    monkeypatch.setattr(store, "RESULTS", tmp_path / "results")
    every = speech.units("smoke")
    czech = next(unit for unit in every if unit.name.startswith("czech"))
    other = next(unit for unit in every if unit.name.startswith("amount"))
    for unit, folder in (czech, tmp_path / "theirs"), (other, None):
        store.make(replace(unit, run=lambda _: store.Result(rows, facts)), folder)
    assert czech.name not in [unit.name for unit in speech.units("smoke")]
    found = load_run("smoke", tmp_path / "theirs")
    assert [one.unit.name for one in found.kept["speech"]] == [czech.name]
    assert czech.name not in [unit.name for unit in speech.units("smoke")]


def cut(name: str, content: bytes):
    yield name, content.rsplit(b"\n", 2)[0] + b"\n" if name.endswith(".csv") else content


def other_rules(name: str, content: bytes):
    yield name, content.replace(pool.rules().encode(), b"0" * 12)


def other_code(name: str, content: bytes):
    if name.endswith(".json") and name != pool.MANIFEST:
        content = json.dumps(json.loads(content) | {"source": "other"}).encode()
    yield name, content


def other_numbers(name: str, content: bytes):
    """Of a version whose profile has other numbers."""
    facts = json.loads(content) if name.startswith("decoding/run-0") and ".json" in name else {}
    if facts:
        facts["numbers"]["seconds"] += 1
        content = json.dumps(facts).encode()
    yield name.replace("decoding/run-0-", "decoding/run-0-x"), content


def stranger(name: str, content: bytes):
    yield name, content
    if name == pool.MANIFEST:
        yield "../../evil.csv", b"1"


def deep(name: str, content: bytes):
    yield name, b"[" * 100_000 if name.endswith(".json") and name != pool.MANIFEST else content


def no_rows(name: str, content: bytes):
    """Forged, with the hash of what is left."""
    table, facts = (f"decoding/{RUN_0.stem}.{end}" for end in ("csv", "json"))
    header = (REFERENCE / table).read_bytes().split(b"\n")[0] + b"\n"
    if name == facts:
        content = json.dumps(json.loads(content) | {"table": store.digest(header)}).encode()
    yield name, header if name == table else content


@pytest.mark.parametrize(
    ("change", "said"),
    [(cut, "is damaged"), (other_rules, "other rules"), (other_code, "is stale"),
     (other_numbers, "is of no unit of this version"), (stranger, "neither rows nor provenance"),
     (deep, "is damaged"), (no_rows, "run-0 has no rows"), (lambda n, c: [], "no item named")],
    ids=["cut", "rules", "code", "numbers", "stranger", "deep", "no rows", "empty"],
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


@pytest.mark.parametrize(
    ("places", "why"),
    [((6, 65), "encrypted"), ((8, 67), "compression method"), ((49,), "while decompressing"),
     ((29,), "it ends too early")],
    ids=["encrypted", "packed in another way", "damaged", "cut"],
)  # fmt: skip
def test_a_damaged_or_encrypted_zip_is_refused_by_name(tmp_path, capsys, places, why):
    """A bit is changed in the header of its file, in its directory, or between them."""
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(pool.MANIFEST, "x" * 999)
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 1
    path.write_bytes(content)
    assert main(["pool", str(path), "--out", str(tmp_path / "pool.md")]) == 2
    said = capsys.readouterr().err
    assert f"{path} is no exported file" in said
    assert why in said
    assert "Traceback" not in said


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


def test_an_export_replaces_nothing_but_an_export(tmp_path, capsys):
    ours = tmp_path / "thesis.zip"
    with zipfile.ZipFile(ours, "w") as packed:
        packed.writestr("chapter.txt", "mine")
    before = ours.read_bytes()
    assert main(["export", "--profile", "reference", "--out", str(ours)]) == 2
    assert "was not exported from here" in capsys.readouterr().err
    assert ours.read_bytes() == before


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
