"""How long the profiles would take here: from the steps of runs that were made, roughly."""

import json
import time
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.optimize import nnls

from replication import measure, results
from replication.config import ORIGINS, PROFILE_NAMES, PROFILES, Numbers, Run
from replication.scaling_config import PROFILES as SCALING
from replication.scaling_config import REPEATS
from replication.train import new_model


class Basis(NamedTuple):
    """Runs to reckon from: what a step took, for each kind of model; and by which machine."""

    profile: str
    steps: pd.DataFrame
    machine: dict
    workers: int
    rate: float | None
    """FLOP/s of its matrix products; None if it is not known."""


def durations(results_folder: Path = results.RESULTS) -> str:
    """A line a profile, and what the figures rest on."""
    rate = _rate_here()
    speed = f"A large matrix product runs at {rate / 1e9:.0f} GFLOP/s here."
    basis = next(filter(None, (_basis(results_folder / p) for p in BASES)), None)
    if basis is None:
        return f"{speed} How long a profile takes is not known before one has run here."
    slower = (basis.rate or rate) / rate
    lines = [_line(profile, basis, slower) for profile in PROFILE_NAMES]
    return "\n".join([speed, *lines, _origin(basis)])


def _rate_here(seconds: float = 2.0) -> float:
    """The best of as many matrix products as fit into the time."""
    end, best = time.perf_counter() + seconds, 0.0
    while time.perf_counter() < end:
        best = max(best, measure.gemm_rate(torch.device("cpu"), repeats=1))
    return best


BASES = ("reference", "quick", "smoke")
"""The longest runs tell most."""


def _basis(folder: Path) -> Basis | None:
    tables = sorted(folder.glob("copy_task/*/runs.csv"))
    if not tables:
        return None
    loaded = [results.load(path.parent, "runs", "replication run 03") for path in tables]
    steps = pd.concat([_step_times(*found) for found in loaded])
    facts = loaded[0][1]
    return Basis(folder.name, steps, facts["machine"], facts["workers"], _rate(folder))


def _rate(folder: Path) -> float | None:
    path = folder / "scaling.json"
    return json.loads(path.read_text()).get("gemm_flops_per_s") if path.exists() else None


def _step_times(runs: pd.DataFrame, facts: dict) -> pd.DataFrame:
    """Of every run what a step took, and the size of its work."""
    shared = {field.name: facts["config"][field.name] for field in fields(Numbers)}
    shared["betas"] = tuple(shared["betas"])  # JSON knows lists only
    rows = []
    for row in runs[runs.updates > 0].itertuples():
        run = Run(**shared, attention=row.attention, length=row.length, seed=row.seed)
        rows.append((row.attention, row.seconds / row.updates, *_work(run)))
    return pd.DataFrame(rows, columns=["attention", "seconds", "tensors", "operations"])


def _work(run: Run) -> tuple[int, float]:
    """What a step's time grows with: calls of small operations, and arithmetic."""
    sizes = [parameter.numel() for parameter in new_model(run).parameters()]
    return len(sizes), 6.0 * sum(sizes) * run.batch_size * run.length


def _costs(steps: pd.DataFrame) -> dict[str, np.ndarray]:
    """Seconds a tensor and seconds an operation, for every mechanism."""
    return {
        attention: nnls(group[["tensors", "operations"]].to_numpy(float), group.seconds)[0]
        for attention, group in steps.groupby("attention")
    }


def training_seconds(profile: str, basis: Basis) -> float:
    """Of all runs of notebook 03, as many side by side as there were in the basis."""
    costs, total = _costs(basis.steps), 0.0
    for setting in ORIGINS:
        experiment = PROFILES[setting, profile]
        for run in experiment.runs():
            if run.seed == experiment.seeds[0]:
                total += _step(run, costs) * run.steps * len(experiment.seeds)
    return total / basis.workers


def _step(run: Run, costs: dict[str, np.ndarray]) -> float:
    """Seconds of an update; by a mechanism that is not in the basis, those of the dearest."""
    known = [costs[run.attention]] if run.attention in costs else costs.values()
    return max(float(np.dot(cost, _work(run))) for cost in known)


def _line(profile: str, basis: Basis, slower: float) -> str:
    training = training_seconds(profile, basis) * slower
    timing = SCALING[profile].seconds + REPEATS[profile][1]
    return f"  {profile:10} training {_words(training):>12}, timing {_words(timing):>12}"


def _words(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _origin(basis: Basis) -> str:
    where = f"on {basis.machine['processor']}, {basis.machine['cores']} cores"
    speed = f" at {basis.rate / 1e9:.0f} GFLOP/s" if basis.rate else ""
    return (
        f"Roughly, from the steps of profile {basis.profile}, made {where}{speed}; pages and "
        "report come on top."
    )
