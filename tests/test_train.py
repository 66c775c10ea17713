"""Training: it learns, goes on after anything, stops when it must, and is the authors' recipe."""

import math
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
import torch

from replication.checkpoint import CheckpointError, CheckpointFile
from replication.config import resolve
from replication.runs import checkpoint_path, train_all
from replication.train import Training, clip_each, new_model, train, trained_model

SMALL = {"lengths": 8, "seeds": 0, "d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64}


def run_of(setting="paper", attention="linear", **overrides):
    (run,) = resolve(setting, "smoke", **(SMALL | {"attentions": attention} | overrides)).runs()
    return run


def without_time(rows):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


@pytest.mark.parametrize("attention", ["softmax", "softmax-textbook", "linear", "lsh"])
def test_every_mechanism_learns_a_tiny_set(attention):
    """Words of two symbols, always at the same places: there are 90, and one layer suffices."""
    settings = {"lr": 1e-2, "dropout": 0, "batch_size": 32, "eval_every": 1000, "n_layers": 1}
    outcome = train(run_of(attention=attention, steps=200, **settings))
    assert outcome.failure is None
    assert sum(row["accuracy"] for row in outcome.rows[-10:]) / 10 > 0.95
    assert outcome.rows[-1]["loss"] < 0.2 < 2 < outcome.rows[0]["loss"]


def test_rows_say_what_was_measured():
    outcome = train(run_of(steps=8, eval_every=3))
    assert [row["step"] for row in outcome.rows] == list(range(1, 9))
    assert [row["step"] for row in outcome.evaluations] == [0, 3, 6, 8]
    for row in outcome.rows:
        assert 0 < row["smallest_denominator"] <= row["largest_denominator"]
        assert row["grad_norm"] > 0
        assert row["seconds"] > 0
    softmax = train(run_of(attention="softmax", steps=1)).rows[0]
    assert softmax["smallest_denominator"] is None


def test_a_run_can_be_repeated_bit_by_bit_and_leaves_no_trace():
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    run = run_of(threads=threads + 1)
    first, second = train(run), train(run)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), before)
    assert without_time(first.rows) == without_time(second.rows)
    assert first.evaluations == second.evaluations
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_no_steps_leave_the_model_as_it_began():
    outcome = train(run_of(steps=0))
    assert outcome.rows == []
    assert len(outcome.evaluations) == 1
    assert torch.equal(outcome.model.predict.weight, new_model(run_of(steps=0)).predict.weight)


KILLED = {"d_model": 16, "n_layers": 1, "d_ff": 16, "batch_size": 2, "steps": 400, "eval_every": 7}
CHILD = f"""
import sys
from replication.config import resolve
from replication.train import train
(run,) = resolve("paper", "smoke", attentions="linear", **{SMALL | KILLED}).runs()
train(run, sys.argv[1], checkpoint_every=5, progress=False)
"""


def test_a_run_that_is_killed_ends_with_the_same_bits(tmp_path):
    """kill -9 three times, at random moments after a new checkpoint, then on to the end."""
    path, dice, run, done = tmp_path / "run.pt", random.Random(0), run_of(**KILLED), [0]
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", CHILD, str(path)]) as child:
            before = path.stat().st_ino if path.exists() else None
            while child.poll() is None and (not path.exists() or path.stat().st_ino == before):
                time.sleep(0.001)
            time.sleep(dice.uniform(0, 0.15))
            child.kill()
        assert child.returncode == -signal.SIGKILL, "the run ended before it was killed"
        done.append(CheckpointFile(path).load(run).step)
    assert done == sorted(set(done)), "a kill undid what a checkpoint had saved"
    resumed, whole = train(run, path), train(run)
    assert len(resumed.rows) == run.steps
    assert without_time(resumed.rows) == without_time(whole.rows)
    assert resumed.evaluations == whole.evaluations
    for a, b in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("steps", [1, 5])
def test_a_finished_run_is_not_trained_again(tmp_path, steps):
    run = run_of(steps=steps)
    first = train(run, tmp_path / "run.pt")
    content = (tmp_path / "run.pt").read_bytes()
    again = train(run, tmp_path / "run.pt")
    assert again.rows == first.rows
    assert (tmp_path / "run.pt").read_bytes() == content
    model = trained_model(run, tmp_path / "run.pt")
    assert torch.equal(model.predict.weight, first.model.predict.weight)


def test_an_unfinished_model_is_not_handed_out(tmp_path):
    run = run_of(steps=4)
    with pytest.raises(CheckpointError, match=r"no checkpoint .*run.pt. Train paper-smoke-linear"):
        trained_model(run, tmp_path / "run.pt")
    training = Training(run)
    training.advance()
    CheckpointFile(tmp_path / "run.pt").save(training.snapshot())
    with pytest.raises(CheckpointError, match="has done 1 of 4 steps"):
        trained_model(run, tmp_path / "run.pt")


@pytest.mark.parametrize("place", [0, 40, 2000, -1])
def test_a_damaged_checkpoint_is_refused_with_a_remedy(tmp_path, place):
    path = tmp_path / "run.pt"
    train(run_of(steps=2), path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"is damaged.*Delete it"):
        train(run_of(steps=2), path)


@pytest.mark.parametrize("content", [b"", b"x" * 10, b"x" * 1000])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "run.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        train(run_of(), tmp_path / "run.pt")


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    train(run_of(steps=2), tmp_path / "run.pt")
    with pytest.raises(CheckpointError, match=r"another run: steps is 2 there and 3 here"):
        train(run_of(steps=3), tmp_path / "run.pt")


@pytest.mark.parametrize("attention", ["softmax", "linear"])
def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_rows(tmp_path, attention):
    run = run_of(attention=attention, steps=50, lr=1e38)
    with pytest.warns(UserWarning, match=r"stopped at step \d+: loss nan"):
        outcome = train(run, tmp_path / "run.pt")
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
        again = train(run, tmp_path / "run.pt")
    assert len(again.rows) == len(outcome.rows)


def test_the_learning_rate_drops_after_the_given_update():
    rows = train(run_of(steps=5, lr=1e-2, lr_drop_after=3, lr_drop=0.1)).rows
    assert [row["lr"] for row in rows] == pytest.approx([1e-2] * 3 + [1e-3] * 2)


def test_gradients_are_clipped_one_tensor_at_a_time():
    """Queries, keys and values count as tensors of their own, as in the authors' library."""
    training = Training(run_of())
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
    training = Training(run)
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
        train(run_of(attention=name, steps=1, dropout=0)).rows[0]["loss"]
        for name in ("softmax", "linear", "lsh")
    ]
    assert max(losses) - min(losses) < 0.2
    assert len(set(losses)) == 3


def test_all_runs_of_an_experiment_are_trained_side_by_side(tmp_path):
    overrides = SMALL | {"attentions": "softmax, linear", "seeds": [0, 1], "steps": 3}
    experiment = resolve("paper", "smoke", **overrides)
    rows = train_all(experiment, tmp_path)
    runs = list(experiment.runs())
    assert len(rows.steps) == 3 * len(runs) == 12
    assert not rows.failures
    alone = train(runs[-1])
    which = {"attention": "linear", "length": 8, "seed": 1}
    assert without_time(rows.steps[-3:]) == [which | row for row in without_time(alone.rows)]
    model = trained_model(runs[-1], checkpoint_path(tmp_path, runs[-1]))
    assert torch.equal(model.predict.weight, alone.model.predict.weight)


ALL = f"""
import sys
from replication.config import resolve
from replication.runs import train_all
if __name__ == "__main__":
    train_all(resolve("paper", "smoke", **{SMALL | KILLED | {"steps": 10**6}}), sys.argv[1])
"""


def test_runs_end_with_the_process_that_began_them(tmp_path):
    script = tmp_path / "all.py"
    script.write_text(ALL)
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)]) as parent:
        while not list(tmp_path.glob("*.pt")) and parent.poll() is None:
            time.sleep(0.05)
        children = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert children
    assert not psutil.wait_procs(children, timeout=20)[1]


def test_one_broken_run_ends_them_all(tmp_path):
    experiment = resolve("paper", "smoke", **(SMALL | {"attentions": "linear", "seeds": [0, 1]}))
    first = next(experiment.runs())
    checkpoint_path(tmp_path, first).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="is damaged"):
        train_all(experiment, tmp_path, workers=1)


def test_a_model_is_trained_on_a_named_device():
    run = run_of(steps=1)
    assert run.device == ("cuda" if torch.cuda.is_available() else "cpu")
    assert train(replace(run, device="cpu")).rows
