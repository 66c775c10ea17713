"""What is run: a unit a trained model, a unit of its errors; the times are those of ``speed``.

A trained model stays in the checkpoint beside its rows; its errors on the test part are counted
from there.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import soundfile
import torch
from torch import nn

from replication import measure, store, train
from replication.experiments import training
from replication.experiments.base import a_folder, between, fits, whole
from replication.experiments.speech import corpus
from replication.experiments.speech.decoding import error_rate, errors, greedy, prefix_beam
from replication.experiments.speech.models import functions_of, new_model
from replication.experiments.speech.numbers import FRAMES_A_SECOND, NAME
from replication.experiments.speech.speed import times_of
from replication.experiments.speech.studies import (
    EVALUATION,
    SETTINGS,
    TIMINGS,
    Run,
    Study,
    resolve,
    run_of,
)
from replication.experiments.speech.synthetic import sound, synthetic
from replication.experiments.speech.task import SpeechTask, needed_frames
from replication.experiments.timing import made_runs
from replication.measure.rounds import TooBusyError
from replication.store import Kept, Result, Unit

EXAMPLE, LIKELY = 3, 0.004
"""The utterance of the test part that rows of synthetic speech keep, and how likely a class is at
least that they keep of it. With fewer than 250 classes the most likely is always kept."""


def check(
    *, profile: str = "quick", speech_folder: str = "", utterance: int = 0, **given: Any
) -> dict[str, Study]:
    a_folder("speech_folder", speech_folder)
    studies = {name: resolve(name, profile, **given) for name in SETTINGS}
    for study in studies.values():
        fits("batch_size", study.batch_size, study.batch_size * study.longest * study.d_model)
    whole("utterance", utterance, 0)
    between("utterance", utterance, 0, studies["czech"].tested - 1)
    return studies


# Training -------------------------------------------------------------------------------------


def task_of(run: Run) -> SpeechTask:
    hide = (run.hide_mels, run.hide_frames)
    return _task(run.words, run.utterances, run.tested, run.stack, run.longest, hide)


@lru_cache(maxsize=8)
def _task(words: int, utterances: int, tested: int, stack: int, longest: int, hide: tuple) -> Any:
    if words:
        heard = synthetic(utterances, words, tested)
    else:
        heard = corpus.czech(most={"train": utterances, "dev": tested, "test": tested})
    return SpeechTask(heard, stack, longest, hide)


def _model_for(run: Run, task: SpeechTask) -> nn.Module:
    frames = max(len(one.features) for part in task.parts.values() for one in part)
    return new_model(run, len(task.symbols), -(-frames // run.stack))


def train_run(run: Run, checkpoint: Path | None = None, progress: bool = False) -> train.Outcome:
    task = task_of(run)
    return train.train(_model_for(run, task), task, run, checkpoint, progress=progress)


def trained_model(unit: Unit, folder: Path | None = None) -> nn.Module:
    run = run_of(unit)
    return training.trained_model(unit, run, _model_for(run, task_of(run)), folder)


# Units ----------------------------------------------------------------------------------------


def runs_of(studies: Iterable[Study]) -> list[Unit]:
    """A unit a run; those of one corpus together, so that a process reads it once."""
    return [_unit(run) for study in studies for run in study.runs()]


def _unit(run: Run) -> Unit:
    code = (train_run, *functions_of(run.model))
    return Unit(NAME, run.name, run.profile, asdict(run), code, partial(_made, run))


def _made(run: Run, scratch: Path) -> Result:
    outcome, task = train_run(run, scratch), task_of(run)
    frames = sum(len(one.features) for one in task.parts["train"])
    heard = {name: len(part) for name, part in task.parts.items()}
    return training.result(run, outcome, EVALUATION, corpus=_counts(task), frames=frames,
                           utterances=heard)  # fmt: skip


def _counts(task: SpeechTask) -> dict[str, int]:
    """Those of the task, and the utterances of dev and test that no path can say."""
    tested = [*task.parts["dev"], *task.parts["test"]]
    short = sum(-(-len(one.features) // task.stack) < needed_frames(one.phonemes) for one in tested)
    return {**task.counts, "tested, shorter than its phonemes": short}


def errors_of(runs: Iterable[Unit], folder: Path | None = None) -> list[Unit]:
    """Of every run a unit of its errors on the test part: a row an utterance."""
    return [
        Unit(NAME, f"errors-{unit.name}", unit.profile, {"run": unit.numbers},
             (counted, *unit.code), partial(_errors, unit, folder))
        for unit in runs
    ]  # fmt: skip


def _errors(unit: Unit, folder: Path | None, scratch: Path) -> Result:
    return counted(run_of(unit), trained_model(unit, folder))


def counted(run: Run, model: nn.Module) -> Result:
    """Counts alone: neither sound nor text of real speech is kept. What was heard for what, over
    all of them; and of synthetic speech how likely a model found what in one utterance."""
    task, rows, pairs = task_of(run), [], Counter()
    for one in task.parts["test"]:
        logs = task.posteriors(model, one)
        said = task.labels(one.phonemes)
        found = errors(said, greedy(logs.unsqueeze(0), torch.tensor([len(logs)]))[0])
        by_beam = errors(said, prefix_beam(logs.numpy(), run.beam))
        pairs.update(found.pairs)
        rows.append({"id": one.id, "frames": len(one.features), **found._asdict(),
                     "beam_errors": by_beam.total})  # fmt: skip
    heard = [[_symbol(task, a), _symbol(task, b), n] for (a, b), n in sorted(pairs.items())]
    facts = {"machine": measure.machine(torch.device(run.device)), "corpus": dict(task.counts)}
    facts |= {"pairs": heard, "example": _example(task, model) if run.words else None}
    return Result(pd.DataFrame(rows).drop(columns="pairs"), facts)


def _example(task: SpeechTask, model: nn.Module) -> dict[str, Any]:
    one = task.parts["test"][EXAMPLE % len(task.parts["test"])]
    found = task.posteriors(model, one).exp()
    likely = [[t, i, round(float(found[t, i]), 5)] for t, i in (found > LIKELY).nonzero().tolist()]
    return {"id": one.id, "said": list(one.phonemes), "symbols": list(task.symbols),
            "frames": len(found), "likely": likely}  # fmt: skip


def _symbol(task: SpeechTask, label: str) -> str:
    return task.symbols[int(label)] if label else ""


def possible(units: Iterable[Unit], folder: Path | None = None) -> tuple[list[Unit], str]:
    """The units that are saved or can be made here, and why others cannot: words, or none."""
    units, why = list(units), ""
    wanting = [u for u in units if _is_czech(u) and not store.is_current(u, folder)]
    if wanting:
        run = run_of(wanting[0])
        why = corpus.lacking({"train": run.utterances, "dev": run.tested, "test": run.tested})
    return [u for u in units if not (why and u in wanting)], why


def _is_czech(unit: Unit) -> bool:
    return unit.numbers.get("run", unit.numbers).get("setting") == "czech"


# All of a profile -----------------------------------------------------------------------------


def units(profile: str) -> list[Unit]:
    """Czech speech is not among them where all else was run without it."""

    def on(device: str) -> list[Unit]:
        runs = runs_of(resolve(name, profile, device=device) for name in SETTINGS)
        return [*runs, *errors_of(runs)]

    found = [*training.of_this_machine(on), *times_of(TIMINGS[profile])]
    without = any(map(store.exists, found)) and not any(found[0].path().parent.glob("czech-*.csv"))
    return [unit for unit in found if not (without and _is_czech(unit))]


def ensure(
    studies: Iterable[Study], folder: Path | None = None, rows: str = "auto", workers: int = 2
) -> tuple[list[Kept], str]:
    """All that is saved or can be had here, trained side by side, then timed; and what cannot."""
    every = runs_of(studies)
    times = times_of(TIMINGS[every[0].profile])
    if rows == "saved":
        kept, missing = training.saved([*every, *errors_of(every, folder), *times], folder)
        wanting = [run_of(unit) for unit in every if unit.name in missing]
        lacking = dict.fromkeys(f"{run.model} ({run.setting})" for run in wanting)
        if kept:
            return kept, f"No rows are saved of {', '.join(lacking)}." if lacking else ""
    runs, why = possible(every, folder)
    trained = training.ensure(runs, errors_of(runs, folder), folder=folder, rows=rows, threads=1,
                              workers=workers, what="speech")  # fmt: skip
    try:
        return trained + made_runs(times, folder, rows), why
    except TooBusyError as error:  # what was trained is none the worse for it
        return trained, f"{why} No times. {error}".strip()


# A closer look --------------------------------------------------------------------------------


class Heard(NamedTuple):
    """One utterance of the test part, and what models made of it."""

    id: str
    said: list[str]
    symbols: list[str]
    posteriors: dict[str, torch.Tensor]
    """By model, probabilities [n, V]."""
    run: Run

    @property
    def seconds_a_frame(self) -> float:
        return self.run.stack / FRAMES_A_SECOND

    @property
    def heard(self) -> dict[str, list[str]]:
        """By model, the most probable path."""
        paths = {m: greedy(p.unsqueeze(0), torch.tensor([len(p)]))[0]
                 for m, p in self.posteriors.items()}  # fmt: skip
        return {m: [self.symbols[i] for i in path] for m, path in paths.items()}

    @property
    def error_rates(self) -> dict[str, float]:
        return {m: error_rate([errors(self.said, x)]) for m, x in self.heard.items()}

    def sound(self) -> tuple[np.ndarray, int]:
        """Samples, and how many of them make a second."""
        if self.run.words:
            return sound(int(self.id.split("/")[1]), self.run.words)
        wave, rate = soundfile.read(corpus.sounds(corpus.find())[self.id], always_2d=True)
        return wave.mean(1), rate


def listen(runs: Iterable[Unit], which: int, folder: Path | None = None) -> Heard | None:
    """Utterance ``which`` of the test part, by every model whose weights are here; else as its rows
    keep it, of synthetic speech; None if neither is there."""
    runs = list(runs)
    done = [unit for unit in runs if store.exists(unit, folder)]
    there = [unit for unit in done if unit.scratch(folder).exists()]
    if there:
        run = run_of(there[0])
        task = task_of(run)
        one = task.parts["test"][which % len(task.parts["test"])]
        found = {run_of(u).model: task.posteriors(trained_model(u, folder), one).exp()
                 for u in there}  # fmt: skip
        return Heard(one.id, list(one.phonemes), list(task.symbols), found, run)
    units = [unit for unit in errors_of(runs, folder) if store.exists(unit, folder)]
    kept = {run_of(u).model: store.load(u, folder).facts.get("example") for u in units}
    kept = {model: one for model, one in kept.items() if one}
    if which != EXAMPLE or not kept:
        return None
    first, run = next(iter(kept.values())), run_of(units[0])
    found = {model: _dense(one) for model, one in kept.items()}
    return Heard(first["id"], first["said"], first["symbols"], found, run)


def _dense(example: dict[str, Any]) -> torch.Tensor:
    found = torch.zeros(example["frames"], len(example["symbols"]))
    for t, i, p in example["likely"]:
        found[t, i] = p
    return found
