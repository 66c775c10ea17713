"""The scaling benchmark: a run is a unit, measured once, added to, never mixed."""

import json
import shutil
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import pytest
import torch

from replication import measure, store
from replication.experiments import timing
from replication.experiments.copy_task import studies as copy_task
from replication.experiments.scaling import EXPERIMENT, rules, run
from replication.experiments.scaling.contenders import (
    Group,
    code_of,
    contenders,
    kinds,
    layer_calls,
    models_of,
    obstacle,
    step_calls,
)
from replication.experiments.scaling.numbers import PROFILES_OWN, Scaling, reasons, resolve
from replication.measure.rounds import TooBusyError
from replication.stats import measured_crossover
from replication.store import StoreError

CPU = torch.device("cpu")
TINY = {"contenders": "linear, softmax", "lengths": "8, 16, 64", "other_lengths": [],
        "thread_lengths": [], "seconds": 20, "model_lengths": "8, 16, 32"}  # fmt: skip
SMALL = resolve("smoke", **TINY)


def layer(N, head_dim=8, batch=2, heads=2, causal=True, direction="training") -> Group:
    return Group("layer", direction, causal, "thread", heads, head_dim, "float32", N, batch)


# What is measured --------------------------------------------------------------------------


def test_the_first_kind_is_what_the_claims_are_about():
    for profile in ("quick", "reference"):
        first = kinds(resolve(profile))[0]
        assert {(g.subject, g.direction, g.causal, g.clock) for g in first} == {
            ("layer", "training", True, "thread")
        }
        assert [g.N for g in first] == list(resolve(profile).lengths)
        assert first[-1].batch == 1


def test_textbook_softmax_has_lengths_enough_for_an_exponent():
    for profile, fewest in (("quick", 3), ("reference", 5)):
        s = resolve(profile)
        names = [g.N for g in kinds(s)[0] if "softmax-textbook" in contenders(s, g)]
        assert len(names) >= fewest
    assert names[-1] == 8192


def test_all_threads_and_other_settings_are_kinds_of_their_own():
    reference = resolve("reference")
    found = {(g[0].subject, g[0].direction, g[0].causal, g[0].clock)
             for g in kinds(reference, models_of(reference))}  # fmt: skip
    assert ("layer", "training", True, "wall") in found
    assert {("layer", "forward", True, "thread"), ("layer", "training", False, "thread"),
            ("earlier", "step", True, "thread")} <= found  # fmt: skip
    several = kinds(resolve("quick", threads=2))
    assert {groups[0].clock for groups in several} == {"wall"}


def test_what_needs_more_memory_than_is_free_says_so():
    assert obstacle("softmax-textbook", layer(8192, 64, 1, 8), 1e9).startswith("memory: up to ")
    assert obstacle("softmax", layer(8192, 64, 1, 8), 1e9) == ""


@pytest.mark.parametrize("profile", PROFILES_OWN)
def test_every_number_of_a_profile_has_a_reason(profile):
    named = {row["name"] for row in reasons(profile) if row["reason"]}
    assert named == set(Scaling.__dataclass_fields__) - {"profile"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"lengths": 64}, "one length shows no growth"),
        ({"contenders": "magic"}, "contenders='magic' is unknown"),
        ({"seconds": 0}, "seconds=0.0 must be positive"),
        ({"threads": 100000}, "are too many for this machine"),
        ({"threads": 0}, "threads=0 is too small"),
        ({"lengths": "0, 8"}, "N=0 is too small"),
    ],
)
def test_what_cannot_be_measured_is_told(wrong, said):
    with pytest.raises(ValueError, match=said):
        resolve("smoke", **wrong)


def test_a_unit_is_stale_with_its_own_mechanisms_alone():
    sources = {name: store.code_hash(*code_of([name])) for name in ("linear", "lsh-1", "lsh-4")}
    assert len(set(sources.values())) == 3
    ours, more = (run.units_of(resolve("smoke", **TINY | {"contenders": c}))[0].source
                  for c in ("linear, softmax", "linear, softmax, lsh-1"))  # fmt: skip
    assert ours != more
    assert ours == run.units_of(resolve("smoke", **TINY | {"heads": 4}))[0].source


def test_a_unit_knows_the_models_it_times_by_their_numbers_not_by_profiles(monkeypatch):
    before = run.units_of(SMALL)[0]
    assert before.numbers["model_numbers"]["earlier"]["d_model"] == 32
    wider = copy_task.STUDIES | {
        key: replace(study, d_model=64, n_heads=4)
        for key, study in copy_task.STUDIES.items() if key == ("earlier", "smoke")
    }  # fmt: skip
    monkeypatch.setattr(copy_task, "STUDIES", wider)
    after = run.units_of(SMALL)[0]
    assert after.id != before.id
    named = [
        text.split()[0]
        for text in store.code._texts(
            frozenset(
                store.code.Name(f.__module__, f.__qualname__) for f in (run.measure_run, step_calls)
            )
        )
    ]
    assert {"new_training", "Training"} <= set(named)
    assert not {"CHOICES", "STUDIES", "resolve"} & set(named)


# Measuring ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run, measured by a process that this one started."""
    folder = tmp_path_factory.mktemp("scaling")
    run.ensure(SMALL, folder)
    return folder


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def test_rows_have_what_the_estimates_take_and_what_else_the_machine_did(folder):
    found = run.ensure(SMALL, folder, "saved")
    rows = found.layer
    assert set(run.COLUMNS) <= set(found.rows)
    assert (rows[["time_ms", "peak_bytes", "cpu_ms", "wall_ms"]] > 0).all(axis=None)
    assert rows.groupby(["contender", "N"]).size().eq(SMALL.repeats).all()
    assert measured_crossover(rows, "linear", "softmax").shortest == 8
    assert found.facts["gemm_flops_per_s"] > 0
    assert set(found.measured.subject) == {"layer", "earlier"}


def test_a_process_of_its_own_has_the_allocator_s_settings_and_says_so(folder):
    facts = run.ensure(SMALL, folder, "saved").facts
    assert facts["machine"]["allocator"] == measure.ALLOCATOR
    assert facts["is_current"]


def test_smoke_decides_nothing(folder):
    found = run.ensure(SMALL, folder, "saved")
    verdict = rules.faster(found, "softmax", 8)
    assert (verdict.outcome, verdict.evidence) == ("inconclusive", run.SMOKE)


@pytest.fixture
def inline(monkeypatch, in_this_process):
    """Measured in this process, by a run that takes no time; ``made`` says which."""
    state = {"made": []}

    def measured(scaling, i, seconds, _, models):
        state["made"].append(i)
        if "raise" in state:
            raise state["raise"]
        return store.Result(state["rows"].assign(run=i), state["facts"])

    monkeypatch.setattr(run, "measure_run", measured)
    return state


def test_missing_runs_are_added_as_many_as_asked_for(folder, tmp_path, inline):
    kept = run.ensure(SMALL, folder, "saved")
    inline |= {"rows": kept.rows, "facts": {"machine": kept.facts["machine"]}}
    three = replace(SMALL, runs=3)
    assert run.ensure(three, tmp_path, add=1).runs == 1
    assert run.ensure(three, tmp_path, add=1).runs == 2
    assert run.ensure(three, tmp_path).runs == 3
    assert run.ensure(three, tmp_path).runs == 3
    assert inline["made"] == [0, 1, 2]
    run.ensure(three, tmp_path, "fresh")
    assert inline["made"] == [0, 1, 2] * 2


def test_a_busy_machine_leaves_the_last_good_unit(copy, inline):
    unit = run.units_of(SMALL)[0]
    before = unit.path(copy).read_bytes()
    inline["raise"] = TooBusyError("No answer, this machine is too busy to measure on.")
    with pytest.raises(TooBusyError, match="too busy"):
        timing.in_own_process("it", store.make, unit, copy)
    assert unit.path(copy).read_bytes() == before


def test_a_process_that_the_system_kills_is_told(tmp_path, inline):
    inline["raise"] = BrokenProcessPool("killed")
    with pytest.raises(StoreError, match=r"killed the process of scaling run-0.*shorter lengths"):
        run.ensure(SMALL, tmp_path)


def test_damage_is_told_with_what_mends_it(copy):
    (path,) = (copy / "scaling").glob("run-0-*.csv")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(StoreError, match=r"is damaged.*\n    replication run scaling"):
        run.ensure(SMALL, copy, "saved")


def test_rows_of_different_machines_are_not_compared(folder):
    (kept,) = [store.load(unit, folder) for unit in run.units_of(SMALL)]
    other = json.loads(json.dumps(kept.facts))
    other["machine"] |= {"processor": "Abacus 3", "threads": 8}
    for profile, remedy in (
        ("smoke", "run scaling --profile smoke -p rows fresh"),
        ("own", "scaling"),
    ):
        mine = kept._replace(unit=replace(kept.unit, profile=profile))
        said = rf"machines: .*Abacus 3 \(cpu, 8 threads\)[^\n]*\n    replication {remedy}$"
        with pytest.raises(StoreError, match=said):
            run.evidence([mine, mine._replace(facts=other)])


def test_other_numbers_are_other_units(folder):
    units, others = (run.units_of(resolve("smoke", **TINY | more))
                     for more in ({}, {"tokens": 128}))  # fmt: skip
    assert not {unit.id for unit in units} & {unit.id for unit in others}
    with pytest.raises(StoreError, match=r"No results at .*\n    replication run scaling"):
        run.ensure(resolve("smoke", **TINY | {"tokens": 128}), folder, "saved")


def test_calls_of_a_kind_make_one_sequence_s_rows():
    groups = [layer(8), layer(16, batch=1)]
    rows, outcome, _ = run.measure_kind(SMALL, groups, 1, 20.0, CPU)
    assert outcome.state == "measured"
    assert set(rows["batch"]) == {1, 2}
    assert rows["peak_bytes"].isna().all(), "bytes are counted in the first run alone"
    assert set(layer_calls(["linear"], groups[0], CPU)) == {"linear"}


# As a user types it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows": "stale"}, "rows='stale' is unknown"),
        ({"profile": "huge"}, "profile='huge' is unknown"),
        ({"contenders": ["magic"]}, "contenders='magic' is unknown"),
        ({"contenders": ""}, "contenders is empty"),
        ({"contenders": ["softmax", "lsh-1"]}, "all are compared with linear"),
        ({"contenders": ["linear"]}, "all are compared with linear"),
        ({"out": " "}, "out=' ' can be no folder"),
        ({"add": -1}, "add=-1 is too small"),
    ],
)
def test_wrong_parameters_of_the_notebook_are_told_before_it_runs(wrong, said):
    with pytest.raises(ValueError, match=said):
        EXPERIMENT.check(**{"profile": "smoke", "out": "", "threads": None} | wrong)
