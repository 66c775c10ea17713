"""Units of trained runs: how one is made, found again, and put together with others.

A unit's rows have a step each: the update, and beside it the evaluation if there was one. Its
checkpoint stays beside its rows and holds the trained model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn
from tqdm.auto import tqdm

from replication import measure, store, train
from replication.experiments.studies import run_of
from replication.store import Kept, Result, StoreError, Unit


def result(run: Any, outcome: train.Outcome, evaluated: Sequence[str], **facts: Any) -> Result:
    """What a trained run leaves, whatever it learnt."""
    failure = outcome.failure and {"step": len(outcome.rows), "diagnosis": outcome.failure}
    parameters = sum(p.numel() for p in outcome.model.parameters())
    facts |= {"machine": measure.machine(torch.device(run.device)), "parameters": parameters}
    return Result(train.table(outcome, evaluated), facts | {"failure": failure})


def ensure(
    *stages: Iterable[Unit], folder: Path | None, rows: str, workers: int, what: str,
    threads: int | None = None,
) -> list[Kept]:  # fmt: skip
    """All units, as saved or made now, side by side; a stage may need what others have left."""
    stages, kept = [list(units) for units in stages], []
    bar = tqdm(total=sum(map(len, stages)), desc=what, unit="unit", leave=False, disable=None)
    with bar, measure.processes(workers, threads) as pool:
        for units in stages:
            there = len(kept) + len(units)

            def made(unit: Unit, done: int, of: int, there: int = there) -> None:
                bar.set_postfix_str(unit.name, refresh=False)
                bar.update(there - of + done - bar.n)

            kept += store.ensure_all(units, folder, rows, pool, made)
    return kept


def trained_model(unit: Unit, run: Any, model: nn.Module, folder: Path | None) -> nn.Module:
    """The model as a finished unit has left it in its checkpoint. Nothing is trained here."""
    path = unit.scratch(folder)
    if not path.exists():
        raise StoreError(
            f"The weights of {run.name} are not here: there is no checkpoint {path}. Its rows may "
            "be saved without it; nothing is trained unasked. Train it, and all that is compared "
            f"with it, by\n    {unit.remedy} -p rows fresh"
        )
    training = train.Training(model, None, run)
    training.restore(path)
    if training.step < run.steps:
        raise StoreError(
            f"{run.name} has done {training.step} of {run.steps} steps. "
            f"{training.failure or f'Resume it by{chr(10)}    {unit.remedy}'}"
        )
    return training.model.eval()


def saved(units: Iterable[Unit], folder: Path | None) -> tuple[list[Kept], list[str]]:
    """The rows of those units that are there, and the names of the others."""
    units = list(units)
    there = [unit for unit in units if store.exists(unit, folder)]
    missing = [unit.name for unit in units if unit not in there]
    return [store.load(unit, folder) for unit in there], missing


def of_this_machine(units: Callable[[str], list[Unit]]) -> list[Unit]:
    """Units of the device that is here; on a machine with CUDA the CPU's, if only these are."""
    mine, cpu = units("auto"), units("cpu")
    there = any(map(store.exists, cpu)) and not any(map(store.exists, mine))
    return cpu if there else mine


def by_run(kind: type, kept: Iterable[Kept]) -> dict[str, dict[Any, Kept]]:
    """What was trained, by setting and run."""
    found = {}
    for one in kept:
        if "seed" in one.unit.numbers:
            run = run_of(kind, one.unit.numbers)
            found.setdefault(run.setting, {})[run] = one
    return found


def frame(kept: Iterable[Kept], columns: list[str], which: Iterable[str] = ()) -> pd.DataFrame:
    """All their rows; the numbers ``which`` say of which run. Without any, these columns alone."""
    found = []
    for one in kept:
        numbers = one.unit.numbers.get("run", one.unit.numbers)
        found.append(one.rows.assign(**{name: numbers[name] for name in which}))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=columns)


def curves(
    kept: Mapping[Any, Kept], which: list[str], evaluated: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame, list[dict]]:
    """Of rows that are kept by run: all updates; all evaluations, with the ``seconds`` of the
    updates before; what stopped which. The numbers ``which`` say which run a row is from."""
    frames, failures = [], []
    for run, one in kept.items():
        names = {name: getattr(run, name) for name in which}
        frames.append(one.rows.assign(spent=one.rows.seconds.fillna(0).cumsum(), **names))
        if failure := one.facts["failure"]:
            failures.append(names | failure)
    rows = pd.concat(frames, ignore_index=True)
    steps = rows[rows.step > 0][which + train.STEP].reset_index(drop=True)
    found = rows[rows[evaluated[-1]].notna()][[*which, *evaluated, "spent"]]
    found = found.rename(columns={"spent": "seconds"}).reset_index(drop=True)
    return steps, found, failures


def paired(
    runs: pd.DataFrame, value: str, names: list[str], of: str = "attention", by: Any = "seed"
) -> pd.DataFrame:
    """A value in a column for each of these names, by seed, where none of them is missing."""
    return runs.pivot(index=by, columns=of, values=value).reindex(columns=names).dropna()


def by_setting(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One table of those of several settings."""
    return pd.concat(found, names=["setting"]).reset_index("setting").reset_index(drop=True)
