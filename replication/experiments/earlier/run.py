"""What is run: one unit a trained model, one a run of the times of training steps (``speed``).

A unit's rows have an evaluation each: on held-out words with the right tokens given (teacher
forcing), and at the end also of copies that the model writes by itself, token after token.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import nn

from replication import measure, train
from replication.attention import mechanism
from replication.experiments import training
from replication.experiments.copy_task.task import CopyTask, EarlierCopy, copy
from replication.experiments.earlier.forms import Disturbed
from replication.experiments.earlier.numbers import LAST, WORDS, Run, Study, check
from replication.experiments.earlier.speed import TIMES, speed_units
from replication.experiments.timing import made_runs
from replication.measure.rounds import TooBusyError
from replication.model import Sizes
from replication.store import Kept, Result, Unit

NAME = "earlier"
WHICH = ["suspect", "attention", "length", "seed"]


def task_of(run: Run) -> EarlierCopy:
    return EarlierCopy(run.length, run.symbols)


def new_model(run: Run) -> nn.Module:
    """The model at the start. For one seed, switches and mechanisms share all weights they can."""
    sizes = Sizes(
        run.attention, run.d_model, run.n_heads, run.n_layers, run.d_ff, task_of(run).vocabulary,
        run.length, run.dropout,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(train.hashed("weights", run.seed))
        return Disturbed(sizes, run.switches)


def train_run(run: Run, checkpoint: Path | None = None) -> train.Outcome:
    return train.train(new_model(run), task_of(run), run, checkpoint, progress=False)


def free_running(model: nn.Module, task: CopyTask, count: int = WORDS) -> tuple[float, float]:
    """The shares of symbols and of whole words that are right in copies of held-out words, written
    token after token by full passes: what comes after is not there to be looked at."""
    words = task.words("evaluate", 0, 0, count)[0].tolist()
    pairs = list(zip(copy(model, task, words, "full"), words, strict=True))
    right = sum(a == b for copied, word in pairs for a, b in zip(copied, word, strict=False))
    return right / sum(map(len, words)), sum(a == b for a, b in pairs) / count


def units_of(study: Study) -> list[Unit]:
    return [_unit(run) for run in study.runs()]


def _unit(run: Run) -> Unit:
    code = (train_run, free_running, mechanism(run.attention).attend)
    return Unit(NAME, run.name, run.profile, asdict(run), code, partial(_made, run))


def _made(run: Run, scratch: Path) -> Result:
    outcome = train_run(run, scratch)
    rows = pd.DataFrame(outcome.evaluations)
    written = free_running(outcome.model, task_of(run))
    rows.loc[rows.index[-1], ["free_symbols", "free_words"]] = written
    spent = sum(row["seconds"] for row in outcome.rows)
    facts = {"machine": measure.machine(torch.device(run.device)), "failure": outcome.failure}
    facts |= {"parameters": sum(p.numel() for p in outcome.model.parameters()), "updates": spent}
    return Result(rows, facts)


def units(profile: str) -> list[Unit]:
    return training.of_this_machine(lambda device: _all(check(profile=profile, device=device)))


def _all(study: Study) -> list[Unit]:
    return [*units_of(study), *speed_units(study.profile, study.device)]


def ensure(
    study: Study, folder: Path | None = None, rows: str = "auto", workers: int = 2
) -> tuple[list[Kept], list[str]]:
    """The rows of all units, and the names of those that ``saved`` does not find or that a busy
    machine did not let be timed. Steps are timed after all training."""
    if rows == "saved":
        return training.saved(_all(study), folder)
    how = {"folder": folder, "rows": rows, "threads": study.threads}
    kept = training.ensure(units_of(study), **how, workers=workers, what="suspects")
    try:
        return kept + made_runs(speed_units(study.profile, study.device), folder, rows), []
    except TooBusyError as error:  # what was trained is none the worse for it
        return kept, [f"times of steps: {error}"]


class Evidence(NamedTuple):
    """What the rules, figures and tables take; what was not run is not in it."""

    runs: pd.DataFrame
    """A row a run: suspect, attention, length, seed, updates, batch, loss, accuracy, free_symbols,
    free_words, parameters, seconds."""
    evaluations: pd.DataFrame
    times: pd.DataFrame
    """A row a repeat: contender, N, run, round, time_ms, disturbed."""
    facts: Mapping[str, Any]
    """How the first unit came about."""


def evidence(kept: Iterable[Kept]) -> Evidence:
    kept = list(kept)
    trained = [one for one in kept if "suspect" in one.unit.numbers]
    timed = [one for one in kept if "suspect" not in one.unit.numbers]
    runs = pd.DataFrame(map(_ending, trained), columns=[*WHICH, *ENDING])
    times = _times(timed)
    facts = kept[0].facts if kept else {}
    return Evidence(runs, training.frame(trained, WHICH, WHICH), times, facts)


def _times(timed: list[Kept]) -> pd.DataFrame:
    """Those of all runs; none where a busy machine left too few for an estimate."""
    # not above: its statistics take seconds to import, and no process that trains needs them
    from replication.stats import location

    rows = training.frame(timed, TIMES)
    known = len(rows) and location(rows).value.notna().all()
    return rows if known else rows.iloc[:0]


ENDING = ["updates", "batch", "loss", "accuracy", "free_symbols", "free_words", "work", "seconds"]


def _ending(kept: Kept) -> dict[str, Any]:
    """How a run ended; its losses are means over the last evaluations."""
    numbers, last = kept.unit.numbers, kept.rows.tail(LAST)
    tokens = numbers["steps"] * numbers["batch_size"] * numbers["length"]
    final = kept.rows.iloc[-1]
    return {name: numbers[name] for name in WHICH} | {
        "updates": int(final.step), "batch": numbers["batch_size"], "loss": last.eval_loss.mean(),
        "accuracy": last.token_accuracy.mean(), "free_symbols": final.free_symbols,
        "free_words": final.free_words, "work": 6.0 * kept.facts["parameters"] * tokens,
        "seconds": kept.facts["updates"],
    }  # fmt: skip


def costs(evidence: Evidence) -> list[dict]:
    """The seconds of all updates and their operations: 6 P T, of P parameters over T tokens."""
    if not len(runs := evidence.runs):
        return []
    part = f"why the earlier replication differed ({len(runs)} runs)"
    return [{"Part": part, "Flops": runs.work.sum(), "Measured": runs.seconds.sum()}]
