"""Training: it learns, goes on after anything, stops when it must, and is the authors' recipe."""

import hashlib
import math
import pickle
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context

import pandas as pd
import psutil
import pytest
import torch

from replication import store
from replication.attention import trained
from replication.experiments.copy_task.numbers import ORDER
from replication.experiments.copy_task.run import (
    copies_unit,
    evidence,
    new_model,
    new_training,
    patterns_unit,
    task_of,
    train_run,
    trained_model,
    units_of,
    views,
)
from replication.experiments.copy_task.studies import resolve
from replication.train import CheckpointError, clip_each, read_checkpoint, train

FORK = get_context("forkserver")
FORK.set_forkserver_preload(["replication.experiments.copy_task.run"])
"""Children that need not import PyTorch again, which takes much longer than their runs."""
SMALL = {"lengths": 8, "seeds": 0, "d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64}


def run_of(setting="paper", attention="linear", **overrides):
    (run,) = resolve(setting, "smoke", **(SMALL | {"attentions": attention} | overrides)).runs()
    return run


def without_time(rows):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


@pytest.mark.parametrize("attention", trained())
def test_every_mechanism_learns_a_tiny_set(attention):
    """Words of two symbols, always at the same places: there are 90, and one layer suffices."""
    settings = {"lr": 1e-2, "dropout": 0, "batch_size": 32, "eval_every": 1000, "n_layers": 1}
    outcome = train_run(run_of(attention=attention, steps=200, **settings))
    assert outcome.failure is None
    assert sum(row["accuracy"] for row in outcome.rows[-10:]) / 10 > 0.95
    assert outcome.rows[-1]["loss"] < 0.2 < 2 < outcome.rows[0]["loss"]


def test_rows_say_what_was_measured():
    outcome = train_run(run_of(steps=8, eval_every=3))
    assert [row["step"] for row in outcome.rows] == list(range(1, 9))
    assert [row["step"] for row in outcome.evaluations] == [0, 3, 6, 8]
    for row in outcome.rows:
        assert 0 < row["smallest_denominator"] <= row["largest_denominator"]
        assert row["grad_norm"] > 0
        assert row["seconds"] > 0
    softmax = train_run(run_of(attention="softmax", steps=1)).rows[0]
    assert softmax["smallest_denominator"] is None


def test_a_run_can_be_repeated_bit_by_bit_and_leaves_no_trace():
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    run = run_of(threads=threads + 1, steps=3, eval_every=2, batch_size=2, n_layers=1)
    first, second = train_run(run), train_run(run)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), before)
    assert without_time(first.rows) == without_time(second.rows)
    assert first.evaluations == second.evaluations
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_no_steps_leave_the_model_as_it_began():
    outcome = train_run(run_of(steps=0))
    assert outcome.rows == []
    assert len(outcome.evaluations) == 1
    assert torch.equal(outcome.model.predict.weight, new_model(run_of(steps=0)).predict.weight)


KILLED = {"d_model": 16, "n_layers": 1, "d_ff": 16, "batch_size": 2, "steps": 300, "eval_every": 7}


def train_on(run, path):
    train(new_model(run), task_of(run), run, path, checkpoint_every=5, progress=False)


def test_a_run_that_is_killed_ends_with_the_same_bits(tmp_path):
    """kill -9 three times, at random moments after a new checkpoint, then on to the end."""
    path, dice, run, done = tmp_path / "run.pt", random.Random(0), run_of(**KILLED), [0]
    for _ in range(3):
        before = path.stat().st_ino if path.exists() else None
        child = FORK.Process(target=train_on, args=(run, path))
        child.start()
        while child.is_alive() and (not path.exists() or path.stat().st_ino == before):
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.05))
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL, "the run ended before it was killed"
        done.append(read_checkpoint(path, run)["step"])
    assert done == sorted(set(done)), "a kill undid what a checkpoint had saved"
    resumed, whole = train_run(run, path), train_run(run)
    assert len(resumed.rows) == run.steps
    assert without_time(resumed.rows) == without_time(whole.rows)
    assert resumed.evaluations == whole.evaluations
    for a, b in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("steps", [1, 5])
def test_a_finished_run_is_not_trained_again(tmp_path, steps):
    run = run_of(steps=steps)
    first = train_run(run, tmp_path / "run.pt")
    content = (tmp_path / "run.pt").read_bytes()
    again = train_run(run, tmp_path / "run.pt")
    assert again.rows == first.rows
    assert (tmp_path / "run.pt").read_bytes() == content


@pytest.mark.parametrize("place", [0, 40, 2000, -1])
def test_a_damaged_checkpoint_is_refused_with_a_remedy(tmp_path, place):
    path = tmp_path / "run.pt"
    train_run(run_of(steps=2), path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"is damaged.*Delete it"):
        train_run(run_of(steps=2), path)


@pytest.mark.parametrize("content", [b"", b"x" * 10, b"x" * 1000])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "run.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        train_run(run_of(), tmp_path / "run.pt")


class Shout:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return print, ("run by a checkpoint",)


@pytest.mark.parametrize("kind", ["code", "a pickle", "no run", "other weights"])
def test_a_crafted_checkpoint_is_refused_in_our_own_words(tmp_path, capsys, kind):
    """Its hash is right. Torch's own error would advise to load it without weights_only."""
    run, path = run_of(steps=2), tmp_path / "run.pt"
    if kind == "a pickle":
        content = pickle.dumps(Shout())
    else:
        whole = {"run": asdict(run), "model": {}, "optimiser": {}, "step": 1}
        torch.save({"code": Shout(), "no run": {}, "other weights": whole}[kind], path)
        content = path.read_bytes()
    path.write_bytes(hashlib.sha256(content).digest() + content)
    with pytest.raises(CheckpointError, match=r"is damaged: it .*Delete it") as error:
        train_run(run, path)
    assert "weights_only" not in str(error.value)
    assert "run by a checkpoint" not in capsys.readouterr().out


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    train_run(run_of(steps=2), tmp_path / "run.pt")
    with pytest.raises(CheckpointError, match=r"another run: steps is 2 there and 3 here"):
        train_run(run_of(steps=3), tmp_path / "run.pt")


@pytest.mark.parametrize("attention", ["softmax", "linear"])
def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_rows(tmp_path, attention):
    run = run_of(attention=attention, steps=50, lr=1e38)
    with pytest.warns(UserWarning, match=r"stopped at step \d+: loss nan"):
        outcome = train_run(run, tmp_path / "run.pt")
    assert 2 <= len(outcome.rows) < 50
    assert math.isfinite(outcome.rows[0]["loss"])
    assert not math.isfinite(outcome.rows[-1]["loss"])
    for words in (
        f"step {len(outcome.rows)}",
        "gradient norm",
        "lr 1e+38",
        "smaller learning rate",
    ):
        assert words in outcome.failure
    assert ("denominators" in outcome.failure) == (attention == "linear")
    with pytest.warns(UserWarning, match="stopped at step"):
        again = train_run(run, tmp_path / "run.pt")
    assert len(again.rows) == len(outcome.rows)


def test_the_learning_rate_drops_after_the_given_update():
    rows = train_run(run_of(steps=5, lr=1e-2, lr_drop_after=3, lr_drop=0.1)).rows
    assert [row["lr"] for row in rows] == pytest.approx([1e-2] * 3 + [1e-3] * 2)


def test_gradients_are_clipped_one_tensor_at_a_time():
    """Queries, keys and values count as tensors of their own, as in the authors' library."""
    training = new_training(run_of())
    model = training.model
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    model.norm.bias.grad *= 1e-3
    project = model.layers[0].attention.project
    parts = [part.clone() for part in project.weight.grad.chunk(3)]
    small, total = model.norm.bias.grad.clone(), 0.0
    for parameter in model.parameters():
        total += parameter.grad.pow(2).sum().item()
    assert clip_each(model, 1.0).item() == pytest.approx(total**0.5, rel=1e-5)
    assert torch.equal(model.norm.bias.grad, small)
    for before, after in zip(parts, project.weight.grad.chunk(3), strict=True):
        torch.testing.assert_close(after, before / before.norm(), rtol=1e-4, atol=1e-7)


def test_updates_are_those_of_radam_with_decoupled_decay():
    """Liu et al. 2020, Algorithm 2, literally, with weight decay as in the authors' code."""
    run = run_of(steps=30, dropout=0)
    training = new_training(run)
    weights = training.model.predict.weight
    p = weights.detach().double().clone()
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    b1, b2 = run.betas
    longest = 2 / (1 - b2) - 1
    for t in range(1, run.steps + 1):
        training.advance()
        g = weights.grad.double()
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p -= run.lr * run.weight_decay * p
        rho = longest - 2 * t * b2**t / (1 - b2**t)
        if rho > 5:
            top, bottom = (rho - 4) * (rho - 2) * longest, (longest - 4) * (longest - 2) * rho
            scale = (v / (1 - b2**t)).sqrt() + run.eps / math.sqrt(1 - b2**t)
            p -= run.lr * math.sqrt(top / bottom) * m / (1 - b1**t) / scale
        else:
            p -= run.lr * m / (1 - b1**t)
    torch.testing.assert_close(weights.detach().double(), p, rtol=1e-4, atol=1e-6)


def test_all_mechanisms_see_the_same_first_batch():
    """Before the first update the losses differ by attention alone, so only little."""
    losses = [
        train_run(run_of(attention=name, steps=1, dropout=0)).rows[0]["loss"] for name in ORDER
    ]
    assert max(losses) - min(losses) < 0.2
    assert len(set(losses)) == 3


# Units ----------------------------------------------------------------------------------------


def study_of_two(**overrides):
    given = SMALL | {"attentions": "softmax, linear", "seeds": [0, 1], "steps": 3}
    return resolve("paper", "smoke", **(given | overrides))


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory):
    """A study of four runs, two at a time, and where its units lie."""
    folder, units = tmp_path_factory.mktemp("units"), units_of([study_of_two()])
    with ProcessPoolExecutor(2, FORK) as pool:
        return folder, store.ensure_all(units, folder, "auto", pool)


def test_all_runs_of_a_study_are_trained_side_by_side(side_by_side):
    folder, kept = side_by_side
    found = evidence(kept).settings["paper"]
    assert found.study == study_of_two()
    assert len(found.steps) == 12
    assert len(found.evaluations) == 8
    assert list(found.runs.attention) == ["softmax", "linear"] * 2
    assert not found.failures
    run = list(found.study.runs())[-1]
    alone = train_run(run)
    steps = found.steps[found.steps.attention.eq("linear") & found.steps.seed.eq(1)]
    assert steps.loss.tolist() == pytest.approx([row["loss"] for row in alone.rows], rel=1e-5)
    ends = found.evaluations.iloc[-1][["step", "eval_loss", "token_accuracy", "exact_match"]]
    assert ends.to_dict() == alone.evaluations[-1]
    (unit,) = (one.unit for one in kept if one.unit.name == run.name)
    model = trained_model(unit, folder)
    assert torch.equal(model.predict.weight, alone.model.predict.weight)


def test_rows_of_a_unit_hold_updates_and_evaluations(side_by_side):
    _, kept = side_by_side
    (rows,) = (one.rows for one in kept if one.unit.name == "paper-softmax-8-seed0")
    assert rows.step.tolist() == [0, 1, 2, 3]
    assert rows.eval_loss.notna().tolist() == [True, False, False, True]
    assert rows.loss.notna().tolist() == [False, True, True, True]
    assert all(float(f"{x:.6g}") == x for x in rows.loss[1:])


def test_finished_units_are_not_trained_again(side_by_side, monkeypatch):
    folder, kept = side_by_side
    monkeypatch.setattr("replication.experiments.copy_task.run.train_run", None)
    again = store.ensure_all([one.unit for one in kept], folder)
    for before, after in zip(kept, again, strict=True):
        pd.testing.assert_frame_equal(before.rows, after.rows)


def test_what_takes_longest_begins_first():
    study = resolve("earlier", "smoke", attentions=ORDER, seeds=0)
    names = [unit.name for unit in units_of([study])]
    assert names[:2] == ["earlier-lsh-16-seed0", "earlier-lsh-8-seed0"]
    assert names[-1] == "earlier-linear-8-seed0"


def test_a_unit_is_of_its_own_mechanism_alone():
    units = {unit.numbers["attention"]: unit for unit in units_of([study_of_two(seeds=0)])}
    linear, softmax = units["linear"], units["softmax"]
    assert linear.source != softmax.source
    assert linear.id == units_of([study_of_two(seeds=[0, 7])])[1].id, "other seeds, same unit"


def test_views_are_made_of_checkpoints_and_saved(side_by_side):
    folder, _ = side_by_side
    study = study_of_two()
    units = [patterns_unit(study, folder), copies_unit(study, "3 1", folder)]
    patterns, copies = views(units, folder)
    assert list(patterns.rows.attention.unique()) == ["softmax", "linear"]
    assert patterns.rows.groupby(["attention", "query"]).weight.sum().to_numpy() == (
        pytest.approx(1, abs=1e-5)
    )
    assert copies.rows.form.tolist() == ["memory", "full"] * 2
    assert set(copies.rows.sequence) == {"3 1"}
    assert copies.rows.groupby("attention")["copy"].nunique().eq(1).all()


@pytest.mark.parametrize("rows", ["auto", "saved"])
def test_without_a_checkpoint_a_view_says_so_and_trains_nothing(
    side_by_side, tmp_path, monkeypatch, rows
):
    folder, kept = side_by_side
    for one in kept:
        store.write(one.unit.path(tmp_path), one.rows, one.facts)
    monkeypatch.setattr("replication.train.train", None)
    with pytest.raises(store.StoreError, match=r"weights of paper-softmax-8-seed0 are not here"):
        views([copies_unit(study_of_two(), "7 7", tmp_path)], tmp_path, rows)
    (view,) = views([copies_unit(study_of_two(), "5 5", folder)], folder, rows)
    assert set(view.rows.sequence) == {"5 5"}


def test_an_unfinished_model_is_not_handed_out(tmp_path):
    (unit,) = units_of([study_of_two(attentions="linear", seeds=0, steps=4)])
    with pytest.raises(store.StoreError, match=r"no checkpoint .*nothing is trained unasked"):
        trained_model(unit, tmp_path)
    training = new_training(run_of(steps=4))
    training.advance()
    training.save(unit.scratch(tmp_path))
    with pytest.raises(store.StoreError, match="has done 1 of 4 steps"):
        trained_model(unit, tmp_path)


def test_a_failed_run_is_kept_with_its_diagnosis(tmp_path):
    (unit,) = units_of([study_of_two(attentions="linear", seeds=0, steps=50, lr=1e38)])
    with pytest.warns(UserWarning, match="stopped at step"):
        kept = store.ensure(unit, tmp_path)
    found = evidence([kept]).settings["paper"]
    (failure,) = found.failures
    assert failure["step"] == len(found.steps) < 50
    assert "loss nan" in failure["diagnosis"]
    assert found.runs.stopped.all()


ALL = f"""
import sys
from pathlib import Path
from replication import measure, store
from replication.experiments.copy_task.studies import resolve
from replication.experiments.copy_task.run import units_of
if __name__ == "__main__":
    units = units_of([resolve("paper", "smoke", **{SMALL | KILLED | {"steps": 10**6}})])
    with measure.processes(1) as pool:
        store.ensure_all(units, Path(sys.argv[1]), "auto", pool)
"""


def test_runs_end_with_the_process_that_began_them(tmp_path):
    script = tmp_path / "all.py"
    script.write_text(ALL)
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)]) as parent:
        while not list(tmp_path.rglob("*.pt")) and parent.poll() is None:
            time.sleep(0.05)
        children = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert children
    assert not psutil.wait_procs(children, timeout=20)[1]


def test_one_broken_run_ends_them_all(tmp_path):
    units = units_of([study_of_two(attentions="linear")])
    units[0].scratch(tmp_path).parent.mkdir()
    units[0].scratch(tmp_path).write_bytes(b"damaged")
    with (
        pytest.raises(CheckpointError, match="is damaged"),
        ProcessPoolExecutor(1, FORK) as pool,
    ):
        store.ensure_all(units, tmp_path, "auto", pool)


def test_a_model_is_trained_on_a_named_device():
    run = run_of(steps=1)
    assert run.device == ("cuda" if torch.cuda.is_available() else "cpu")
    assert train_run(replace(run, device="cpu")).rows
