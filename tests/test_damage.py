"""Files that were cut, emptied, overwritten or made by others are refused by name, in words."""

import hashlib
import json
import os
import pickle
import random
from dataclasses import replace
from functools import partial
from io import BytesIO

import pandas as pd
import pytest
import torch

from replication import claims, store
from replication.experiments.copy_task.run import new_training
from replication.experiments.copy_task.studies import resolve
from replication.train import CheckpointError, read_checkpoint
from replication.workflow import doctor

ROWS = pd.DataFrame({"N": [1, 2, 3], "time_ms": [0.5, 0.25, 1.0]})
RANDOM = random.Random(0).randbytes(999)


def make(_):
    return store.Result(ROWS, {"machine": {"cores": 2}})


@pytest.fixture
def unit(tmp_path):
    unit = store.Unit("toy", "one", "smoke", {"N": 3}, (make,), make)
    store.make(unit, tmp_path)
    return unit


def without(content: bytes, *names: str) -> bytes:
    return json.dumps({k: v for k, v in json.loads(content).items() if k not in names}).encode()


TABLES = {
    "cut at a line": lambda old: old[: old.index(b"\n", 20) + 1],
    "emptied": lambda old: b"",
    "random bytes": lambda old: RANDOM,
    "a column renamed": lambda old: old.replace(b"time_ms", b"time_us"),
    "a value inf": lambda old: old.replace(b"0.25", b"inf"),
    "another digit": lambda old: old.replace(b"0.25", b"0.26"),
}
PROVENANCES = {
    "cut": lambda old: old[:50],
    "emptied": lambda old: b"",
    "random bytes": lambda old: RANDOM,
    "a list": lambda old: b"[1, 2]",
    "a number": lambda old: b"3",
    "of another unit": lambda old: old.replace(b'"N": 3', b'"N": 4'),
    "without its table": lambda old: without(old, "table"),
    "without its source": lambda old: without(old, "source"),
    "without its numbers": lambda old: without(old, "numbers"),
}


@pytest.mark.parametrize("damage", [*TABLES.items(), *PROVENANCES.items()], ids=lambda d: d[0])
def test_a_damaged_unit_is_named_with_its_remedy_and_made_again(unit, tmp_path, damage):
    how, change = damage
    path = unit.path(tmp_path)
    path = path if TABLES.get(how) is change else path.with_suffix(".json")
    path.write_bytes(change(path.read_bytes()))
    said = rf"{path.stem}.* is damaged: .*Measure it with\n    replication run toy --profile smoke"
    for read in (store.load, partial(store.ensure, rows="saved")):
        with pytest.raises(store.StoreError, match=f"(?s){said}"):
            read(unit, tmp_path)
    with pytest.raises(store.StoreError, match=r"one-\w{8}\."):
        store.read_folder(tmp_path)
    assert not store.is_current(unit, tmp_path)
    store.retire([unit], tmp_path)
    again = store.ensure(unit, tmp_path)
    assert again.is_current
    assert again.rows.equals(ROWS)


def test_a_fact_that_a_provenance_lacks_is_named(unit, tmp_path):
    path = unit.path(tmp_path).with_suffix(".json")
    path.write_bytes(without(path.read_bytes(), "machine"))
    facts = store.load(unit, tmp_path).facts
    with pytest.raises(store.StoreError, match=f"{path} is damaged: it lacks machine. Measure it"):
        facts["machine"]
    assert type(pickle.loads(pickle.dumps(facts))) is dict


VERDICTS = {
    "emptied": b"", "random bytes": RANDOM, "a list": b"[]", "without claims": b"{}",
    "a claim without its rule": b'{"claims": {"C1": {}}}', "cut": b'{"claims": {"C1"',
}  # fmt: skip


@pytest.mark.parametrize("content", VERDICTS.values(), ids=VERDICTS)
def test_damaged_verdicts_are_named_with_their_remedy(content, tmp_path):
    (tmp_path / "verdicts.json").write_bytes(content)
    said = r"verdicts\.json are damaged\. Judge again with\n    replication render --profile smoke"
    with pytest.raises(store.StoreError, match=said):
        claims.load("smoke", tmp_path)


def test_the_doctor_passes_over_damaged_provenances(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    (tmp_path / "reference/toy").mkdir(parents=True)
    (tmp_path / "reference/toy/x.json").write_bytes(RANDOM)
    assert set(doctor.durations()) == {"smoke", "quick", "reference", "paper"}


class Hostile:
    def __reduce__(self):
        return os.system, ("touch pwned",)


def test_a_checkpoint_of_another_run_or_of_a_stranger_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = {"d_model": 8, "n_heads": 1, "n_layers": 1, "d_ff": 8}
    (run,) = resolve("paper", "smoke", attentions="linear", lengths=8, seeds=0, **sizes).runs()
    path = tmp_path / "run.pt"
    new_training(run).save(path)
    with pytest.raises(
        CheckpointError, match=r"belongs to another run: seed is 0 there and 1 here"
    ):
        read_checkpoint(path, replace(run, seed=1))
    buffer = BytesIO()
    torch.save({"run": Hostile()}, buffer)
    for content in (buffer.getvalue(), pickle.dumps(Hostile()), RANDOM, b""):
        path.write_bytes(hashlib.sha256(content).digest() + content)
        with pytest.raises(CheckpointError, match=r"is damaged.*Delete it") as refusal:
            read_checkpoint(path, run)
        assert "weights_only" not in str(refusal.value)
    assert not (tmp_path / "pwned").exists()
