"""What is run: one unit a trained model, and what is seen of those that are looked at closer."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import nn

from replication import measure, store, train
from replication.attention import mechanism
from replication.experiments import training
from replication.experiments.copy_task.numbers import ORIGINS
from replication.experiments.copy_task.studies import (
    Run,
    Study,
    fitted,
    rated,
    resolve,
    study_of,
    wider,
)
from replication.experiments.copy_task.task import FORMS, TASKS, CopyTask, copy_text, exact_match
from replication.experiments.studies import run_of
from replication.model import DecoderOnly, EncoderDecoder, Sizes
from replication.store import Kept, Result, Unit

NAME = "copy_task"
MODELS = {"paper": DecoderOnly, "earlier": EncoderDecoder}
"""The paper's model for the copy task, and that of the earlier replication."""
WHICH = ["attention", "length", "seed"]
WIDE, RATE = "width-", "rate-"
"""So the names of units begin of the published width, and of another learning rate."""


# Training -------------------------------------------------------------------------------------


def task_of(run: Run) -> CopyTask:
    return TASKS[run.setting](run.length, run.symbols)


def new_model(run: Run) -> nn.Module:
    """The model at the start. For one seed, mechanisms differ in no weight that they share."""
    mark = f"{run.attention}_"
    options = {k.removeprefix(mark): v for k, v in asdict(run).items() if k.startswith(mark)}
    sizes = Sizes(
        run.attention, run.d_model, run.n_heads, run.n_layers, run.d_ff, task_of(run).vocabulary,
        run.length, run.dropout, run.activation, run.positions, options,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(train.hashed("weights", run.seed))
        return MODELS[run.setting](sizes)


def new_training(run: Run) -> train.Training:
    """A run before its first step."""
    return train.Training(new_model(run), task_of(run), run)


def train_run(run: Run, checkpoint: Path | None = None, progress: bool = False) -> train.Outcome:
    return train.train(new_model(run), task_of(run), run, checkpoint, progress=progress)


def trained_model(unit: Unit, folder: Path | None = None) -> nn.Module:
    run = run_of(Run, unit.numbers)
    return training.trained_model(unit, run, new_model(run), folder)


# Units ----------------------------------------------------------------------------------------


def units_of(studies: Iterable[Study], workers: int = 2) -> list[Unit]:
    """One a run, those that take longest first, so that none is left when all else is done."""
    runs = (run for study in studies for run in study.runs())
    return [
        _unit(run, workers)
        for run in sorted(runs, key=lambda run: (not mechanism(run.attention).seeded, -run.length))
    ]


def wide_units(studies: Iterable[Study], workers: int = 2) -> list[Unit]:
    """The same of models of the published width, which their names tell in place of the setting."""
    return [replace(unit, name=unit.name.replace(study.setting, f"{WIDE}{study.d_model}", 1))
            for study in studies for unit in units_of([study], workers)]  # fmt: skip


def rate_units(studies: Iterable[Study], workers: int = 2) -> list[Unit]:
    """The same at other learning rates, which their names tell in place of the setting."""
    return [replace(unit, name=unit.name.replace(study.setting, f"{RATE}{study.lr:g}", 1))
            for study in studies for unit in units_of([study], workers)]  # fmt: skip


def _unit(run: Run, workers: int = 2) -> Unit:
    card = mechanism(run.attention)
    code = (train_run, card.attend, mechanism(card.cross_attention or card.name).attend)
    return Unit(NAME, run.name, run.profile, asdict(run), code, partial(_made, run, workers))


def _made(run: Run, workers: int, scratch: Path) -> Result:
    return training.result(run, train_run(run, scratch), EVALUATION, workers=workers)


EVALUATION = ["step", "eval_loss", "token_accuracy", "exact_match"]


def units(profile: str) -> list[Unit]:
    def on(device: str) -> list[Unit]:
        studies = [resolve(name, profile, device=device) for name in ORIGINS]
        wide = wide_units(wider(profile, device=device))
        rates = rate_units(rated(profile, device=device))
        return [*units_of(studies), *wide, *rates, *map(patterns_unit, studies)]

    return training.of_this_machine(on)


# What trained models look at, and what they write -----------------------------------------------


def patterns_unit(study: Study, folder: Path | None = None) -> Unit:
    return _view(study, "patterns", _looks, folder)


def copies_unit(study: Study, own_sequence: str, folder: Path | None = None) -> Unit:
    sequence = fitted(own_sequence, study.setting, study.lengths[-1], study.symbols)
    return _view(study, "copies", _copies, folder, sequence=sequence)


def _view(study: Study, what: str, make: Any, folder: Path | None, **more: str) -> Unit:
    """A unit that is made of trained models: one a mechanism, the longest, of the first seed."""
    at = study.lengths[-1], study.seeds[0]
    runs = [_unit(run) for run in study.runs() if (run.length, run.seed) == at]
    numbers = {"runs": [unit.numbers for unit in runs], **more}
    steps = (f for name in study.attentions for f in mechanism(name).code())
    code = (make, *dict.fromkeys((*(part for unit in runs for part in unit.code), *steps)))
    run = partial(_viewed, make, runs, folder, more)
    return Unit(NAME, f"{study.setting}-{what}", study.profile, numbers, code, run)


def _viewed(make: Any, runs: list[Unit], folder: Path | None, more: dict, scratch: Path) -> Result:
    frames = [make(run_of(Run, unit.numbers), trained_model(unit, folder), **more) for unit in runs]
    device = torch.device(runs[0].numbers["device"])
    return Result(pd.concat(frames, ignore_index=True), {"machine": measure.machine(device)})


def views(units: Iterable[Unit], folder: Path | None = None, rows: str = "auto") -> list[Kept]:
    """Views as they are saved, else made of checkpoints that are there; never by training."""
    return [store.ensure(u, folder, rows if store.exists(u, folder) else "auto") for u in units]


def _looks(run: Run, model: nn.Module) -> pd.DataFrame:
    """The weights of the head that copies, for one held-out sequence."""
    words, n = task_of(run).words("evaluate", 0, 0, 1)
    batch = task_of(run).lay_out(words, n).to(torch.device(run.device))
    weights = torch.cat(model.patterns(*(x[:, : 2 * n] for x in batch.inputs)))
    weights = weights.detach().cpu().numpy()
    return copying_head(weights, task_of(run).due(int(n))).assign(attention=run.attention)


def copying_head(weights: Float[np.ndarray, "L H Q K"], due: dict[int, int]) -> pd.DataFrame:
    """Columns layer, head (both from 1), query, key, weight, due, of one out of L x H heads.

    ``due`` maps a query to the key that holds what must be written next. The head with the
    largest mean weight there is taken, and the queries that ``due`` names.
    """
    queries, keys = list(due), list(due.values())
    share = weights[:, :, queries, keys].mean(-1)
    layer, head = np.unravel_index(share.argmax(), share.shape)
    index = pd.MultiIndex.from_product([queries, range(weights.shape[-1])], names=["query", "key"])
    rows = index.to_frame(index=False).assign(weight=weights[layer, head, queries].ravel())
    rows["due"] = rows["key"] == rows["query"].map(due)
    rows.insert(0, "layer", int(layer) + 1)
    rows.insert(1, "head", int(head) + 1)
    return rows


def _copies(run: Run, model: nn.Module, sequence: str) -> pd.DataFrame:
    """In every form that the mechanism has."""
    forms = [form for form in FORMS if form == "full" or mechanism(run.attention).memory]
    rows = {"attention": run.attention, "form": forms, "sequence": sequence}
    rows |= {"copy": [copy_text(model, task_of(run), sequence, form) for form in forms]}
    rows |= {"exact_match": [exact_match(model, task_of(run), 100, form) for form in forms]}
    return pd.DataFrame(rows)


# Evidence -------------------------------------------------------------------------------------


class Trained(NamedTuple):
    """All runs of one setting; attention, length and seed say which run a row is from.

    ``runs`` has a row a run (``rules.summarise``); ``facts`` are the first's, with all commits.
    """

    study: Study
    steps: pd.DataFrame
    evaluations: pd.DataFrame
    runs: pd.DataFrame
    failures: list[dict]
    facts: dict[str, Any]
    patterns: pd.DataFrame | None


class Evidence(NamedTuple):
    settings: Mapping[str, Trained]
    wide: Trained | None = None
    """Setting paper at the published width, where the other runs have less."""
    rates: pd.DataFrame | None = None
    """A row a run of one length and seed at several learning rates: ``lr``, and whether it is the
    ``usual`` one, of a run that is among the others too."""


def evidence(kept: Iterable[Kept]) -> Evidence:
    """From the rows of units: those of runs, and patterns if they are among them."""
    every = list(kept)
    wide, others = ([one for one in every if one.unit.name.startswith(x)] for x in (WIDE, RATE))
    kept = [one for one in every if not one.unit.name.startswith((WIDE, RATE))]
    rows, found = {one.unit.name: one.rows for one in kept}, training.by_run(Run, kept)
    settings = {name: _trained(found[name], rows.get(f"{name}-patterns"))
                for name in ORIGINS if name in found}  # fmt: skip
    wide = sorted(wide, key=lambda one: -one.unit.numbers["steps"])  # of a study are the longest
    wider = _trained(*training.by_run(Run, wide).values()) if wide else None
    return Evidence(settings, wider, _by_rate(others, found.get("paper", {})) if others else None)


def _by_rate(others: list[Kept], main: Mapping[Run, Kept]) -> pd.DataFrame:
    """Runs at other learning rates, after those at the usual one that they are compared with."""
    asked = {tuple(one.unit.numbers[name] for name in WHICH) for one in others}
    usual = [one for run, one in main.items() if tuple(getattr(run, x) for x in WHICH) in asked]
    rows = [ended(one).assign(lr=one.unit.numbers["lr"], usual=is_usual)
            for is_usual, part in ((True, usual), (False, others)) for one in part]  # fmt: skip
    return pd.concat(rows, ignore_index=True).sort_values("lr", kind="stable")


def ended(one: Kept) -> pd.DataFrame:
    """One row: how a run ended (``rules.summarise``), and its floating-point operations, 6 a
    parameter and token; nan of rows that were made before they had the count."""
    # not above: its statistics take seconds to import, and no process that trains needs them
    from replication.experiments.copy_task.rules import summarise

    run = run_of(Run, one.unit.numbers)
    found = summarise(*training.curves({run: one}, WHICH, EVALUATION))
    tokens = run.steps * run.batch_size * run.length
    return found.assign(flops=6.0 * one.facts.get("parameters", np.nan) * tokens)


def _trained(kept: dict[Run, Kept], patterns: pd.DataFrame | None = None) -> Trained:
    # not above: its statistics take seconds to import, and no process that trains needs them
    from replication.experiments.copy_task.rules import summarise

    study = study_of(list(kept))
    ordered = {run: kept[run] for run in study.runs() if run in kept} | kept
    steps, evaluations, failures = training.curves(ordered, WHICH, EVALUATION)
    runs = summarise(steps, evaluations, failures)
    facts = next(iter(ordered.values())).facts
    at = {run.attention: one.facts["commit"] for run, one in kept.items()}
    others = [f"{name}: {commit}" for name, commit in at.items() if commit != facts["commit"]]
    facts = facts | {"commit": facts["commit"] + (f" ({', '.join(others)})" if others else "")}
    return Trained(study, steps, evaluations, runs, failures, facts, patterns)


def summary(kept: Iterable[Kept]) -> pd.DataFrame:
    found = evidence(kept).settings
    return training.by_setting({setting: one.runs for setting, one in found.items()})


def costs(evidence: Evidence) -> list[dict]:
    """By setting the seconds of all updates, and in place of an estimate their operations: 6 P T,
    forward and backward passes of P parameters over T tokens."""
    rows = []
    wide = {"published width": evidence.wide} if evidence.wide else {}
    parts = {f"{name} setting": found for name, found in evidence.settings.items()} | wide
    for name, found in parts.items():
        kinds = {(run.attention, run.length): run for run in found.study.runs()}
        flops = 0.0
        for kind, updates in found.runs.groupby(["attention", "length"]).updates.sum().items():
            run = kinds[kind]
            parameters = sum(p.numel() for p in new_model(run).parameters())
            flops += 6.0 * parameters * updates * run.batch_size * run.length
        part = f"copy task, {name} ({len(found.runs)} runs)"
        rows.append({"Part": part, "Flops": flops, "Measured": float(found.runs.seconds.sum())})
    if (rates := evidence.rates) is not None:
        rows += costs_of("copy task, other rates", rates[~rates.usual])
    return rows


def costs_of(part: str, runs: pd.DataFrame) -> list[dict]:
    """The same of rows that ``ended`` made."""
    flops, seconds = float(runs.flops.sum()), float(runs.seconds.sum())
    return [{"Part": f"{part} ({len(runs)} runs)", "Flops": flops, "Measured": seconds}]
