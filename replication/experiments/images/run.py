"""What is run: one unit a trained model, one for the images that the first seed of a mechanism
draws, one a run of the speed of generation on a data set (``speed.py``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import UInt8
from torch import nn

from replication import measure, store, train
from replication.attention import contenders
from replication.data import DataError, load
from replication.experiments import training
from replication.experiments.base import a_folder, positive, tidy
from replication.experiments.images.generation import generate
from replication.experiments.images.likelihood import VALUES
from replication.experiments.images.speed import Timed, speed_units
from replication.experiments.images.studies import Run, Study, resolve, study_of
from replication.experiments.images.task import ImageTask, PixelModel
from replication.experiments.studies import run_of
from replication.experiments.timing import made_runs
from replication.measure.rounds import TooBusyError
from replication.model import Sizes
from replication.store import Kept, Result, Unit

NAME = "images"
WHICH = ["attention", "seed"]
EVALUATION = ["step", "bits_per_dim", "bits_error", "images"]
SAMPLES, GIVEN, COPIES = 10, 4, 3
"""Images drawn freely; test images that are continued; how often each."""


def check(
    *, profile: str = "quick", settings: str = "", temperature: float = 1.0, data: str = "",
    **given: Any,
) -> dict[str, Study]:  # fmt: skip
    positive("temperature", tidy("temperature", temperature, 1.0))
    a_folder("data", data)
    return resolve(profile, settings, **given)


# Training -------------------------------------------------------------------------------------


def new_model(run: Run) -> nn.Module:
    """The model at the start. For one seed, mechanisms differ in no weight that they share."""
    form = contenders()[run.attention]
    options = dict(form.options)
    if form.mechanism.seeded:
        options |= {"buckets": run.lsh_buckets, "chunk": run.lsh_chunk}
    sizes = Sizes(
        form.mechanism.name, run.d_model, run.n_heads, run.n_layers, run.d_ff, VALUES, run.length,
        run.dropout, "relu", "concatenated", options,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(train.hashed("weights", run.seed))
        return PixelModel(sizes, run.mixtures)


def task_of(numbers: Run | Study, data: str = "") -> ImageTask:
    """The task of a run. Its bytes are pinned, so how they are fetched makes no rows stale."""
    return ImageTask(load(numbers.dataset, data), numbers.side)


def train_run(
    run: Run, task: ImageTask, checkpoint: Path | None = None, progress: bool = False
) -> train.Outcome:
    return train.train(new_model(run), task, run, checkpoint, progress=progress)


def trained_model(unit: Unit, folder: Path | None = None) -> nn.Module:
    run = run_of(Run, unit.numbers)
    return training.trained_model(unit, run, new_model(run), folder)


# Units ----------------------------------------------------------------------------------------


def units_of(studies: Iterable[Study], workers: int = 2, data: str = "") -> list[Unit]:
    """One a run, those that take longest first, so that none is left when all else is done."""
    runs = (run for study in studies for run in study.runs())
    slow = sorted(runs, key=lambda run: (-run.length, not run.attention.startswith("lsh")))
    return [_unit(run, workers, data) for run in slow]


def _unit(run: Run, workers: int = 2, data: str = "") -> Unit:
    code = (train_run, ImageTask, contenders()[run.attention].mechanism.attend)
    make = partial(_made, run, workers, data)
    return Unit(NAME, run.name, run.profile, asdict(run), code, make)


def _made(run: Run, workers: int, data: str, scratch: Path) -> Result:
    outcome = train_run(run, task_of(run, data), scratch)
    return training.result(run, outcome, EVALUATION, workers=workers)


def units(profile: str) -> list[Unit]:
    def on(device: str) -> list[Unit]:
        studies = resolve(profile, device=device).values()
        drawn = (unit for study in studies for unit in samples_units(study))
        return [*units_of(studies), *drawn, *speed_units(profile, device)]

    return training.of_this_machine(on)


def ensure(
    studies: Mapping[str, Study], speeds: Iterable[Unit], folder: Path | None = None,
    rows: str = "auto", workers: int = 2, data: str = "",
) -> tuple[list[Kept], list[str]]:  # fmt: skip
    """The rows of all that can be had, and in words what cannot. Training first, then the images
    drawn, then the timings, which have the machine to themselves. ``saved`` runs nothing."""
    if rows == "saved":
        drawn = (unit for study in studies.values() for unit in samples_units(study))
        found = [*units_of(studies.values()), *drawn, *speeds]
        kept, names = training.saved(found, folder)
        return kept, [f"{name}: no rows are saved" for name in names]
    kept, missing = [], []
    for study in studies.values():
        mine, drawn = units_of([study], workers, data), samples_units(study, folder, data)
        try:
            if rows == "fresh" or not all(store.is_current(u, folder) for u in (*mine, *drawn)):
                load(study.dataset, data)  # once, before several processes ask
            kept += training.ensure(mine, drawn, folder=folder, rows=rows, workers=workers,
                                    what=study.setting, threads=study.threads)  # fmt: skip
        except DataError as error:
            missing.append(f"{study.setting}: {error}")
    try:
        return kept + made_runs(list(speeds), folder, rows), missing
    except TooBusyError as error:  # what was trained is none the worse for it
        return kept, [*missing, f"times: {error}"]


# What trained models draw ---------------------------------------------------------------------


def samples_units(study: Study, folder: Path | None = None, data: str = "") -> list[Unit]:
    """Images of each mechanism, first seed: drawn freely, and from the upper half of others."""
    first = [run for run in study.runs() if run.seed == study.seeds[0]]
    return [_samples_unit(study, run, folder, data) for run in first]


def _samples_unit(study: Study, run: Run, folder: Path | None, data: str) -> Unit:
    trained = _unit(run)
    numbers = {"run": trained.numbers, "counts": [SAMPLES, GIVEN, COPIES]}
    code = (drawn, *trained.code, *contenders()[run.attention].mechanism.code())
    make = partial(_samples, study, trained, folder, data)
    name = f"{study.setting}-{run.attention}-samples"
    return Unit(NAME, name, study.profile, numbers, tuple(dict.fromkeys(code)), make)


def _samples(study: Study, unit: Unit, folder: Path | None, data: str, scratch: Path) -> Result:
    model = trained_model(unit, folder)
    rows = drawn(unit.numbers["attention"], model, task_of(study, data))
    return Result(rows, {"machine": measure.machine()})


def drawn(attention: str, model: nn.Module, task: ImageTask) -> pd.DataFrame:
    """A row an image; ``pixels`` are its bytes in hexadecimal. All mechanisms are given the same
    beginnings and the same random numbers."""
    which = [int(np.flatnonzero(task.test_labels == label)[0]) for label in CHOSEN[:GIVEN]]
    originals, half = task.test[which], task.test.shape[1] // 2
    free = generate(model, task.test[:SAMPLES, :1], seed=0)
    halves = originals[:, :half].repeat_interleave(COPIES, 0)
    finished = generate(model, halves, seed=1)
    rows = [("sample", i, 0, 1, x) for i, x in enumerate(free)]
    rows += [("original", i, 0, half, x) for i, x in enumerate(originals)]
    rows += [("completion", i // COPIES, i % COPIES, half, x) for i, x in enumerate(finished)]
    columns = ["kind", "image", "copy", "given", "pixels"]
    frame = pd.DataFrame(rows, columns=columns).assign(attention=attention)
    return frame.assign(pixels=[bytes(x.cpu().numpy()).hex() for x in frame.pixels])


CHOSEN = (3, 5, 7, 8)
"""Labels whose first test image is continued."""


def pictures(rows: pd.DataFrame, study: Study) -> UInt8[np.ndarray, "n side side colours"]:
    values = np.stack([np.frombuffer(bytes.fromhex(x), np.uint8) for x in rows.pixels])
    return values.reshape(len(values), study.side, study.side, -1)


# Evidence -------------------------------------------------------------------------------------


class Trained(NamedTuple):
    """All runs of one setting; attention and seed say which run a row is from."""

    study: Study
    steps: pd.DataFrame
    evaluations: pd.DataFrame
    """With the ``seconds`` that all updates before it took."""
    failures: list[dict]
    facts: dict[str, Any]
    """How the first run came about."""
    samples: pd.DataFrame | None


class Evidence(NamedTuple):
    """What the rules, figures and tables take; what was not run is not in it."""

    settings: Mapping[str, Trained]
    speeds: Mapping[str, Timed]


def evidence(kept: Iterable[Kept]) -> Evidence:
    kept = list(kept)
    samples: dict[str, list[pd.DataFrame]] = {}
    for one in kept:
        if "counts" in one.unit.numbers:
            setting = run_of(Run, one.unit.numbers["run"]).setting
            samples.setdefault(setting, []).append(one.rows)
    settings = {name: _trained(runs, pd.concat(samples[name]) if name in samples else None)
                for name, runs in training.by_run(Run, kept).items()}  # fmt: skip
    timed: dict[str, list[Kept]] = {}
    for one in kept:
        if one.unit.name.startswith("speed-"):
            timed.setdefault(one.unit.numbers["dataset"], []).append(one)
    speeds = {dataset: Timed(training.frame(runs, []), runs[0].facts)
              for dataset, runs in timed.items()}  # fmt: skip
    return Evidence(settings, speeds)


def _trained(kept: dict[Run, Kept], samples: pd.DataFrame | None) -> Trained:
    ordered = dict(sorted(kept.items(), key=lambda pair: (pair[0].seed, pair[0].attention)))
    curves = training.curves(ordered, WHICH, EVALUATION)
    facts = next(iter(kept.values())).facts
    return Trained(study_of(list(kept)), *curves, facts, samples)


def summary(kept: Iterable[Kept]) -> pd.DataFrame:
    from replication.experiments.images.rules import summarise

    found = evidence(kept).settings
    return training.by_setting({name: summarise(one) for name, one in found.items()})


def costs(evidence: Evidence) -> list[dict]:
    """By setting the seconds of all updates, and their operations: 6 a parameter and byte."""
    rows = []
    for name, found in evidence.settings.items():
        runs = list(found.study.runs())
        work = sum(float(run.steps) * run.batch_size * run.length for run in runs)
        part = f"images, {name} ({len(runs)} runs)"
        flops, seconds = 6.0 * found.facts["parameters"] * work, float(found.steps.seconds.sum())
        rows.append({"Part": part, "Flops": flops, "Measured": seconds})
    return rows
