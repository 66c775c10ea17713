"""One question asked in several runs, because runs differ by more than the rounds of one.

What else a machine does lasts for seconds or minutes: longer than the rounds at one length, which
therefore agree with each other and not with those of the next run. repeats.csv holds the rows of
all runs, told apart by the column run, and is written anew after each of them; a run that is
killed is the only one lost.
"""

from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from tqdm.auto import tqdm

from replication import results
from replication.benchmark import measure_now, measured
from replication.scaling.run import differing, identity
from replication.scaling_config import RUNS, Scaling, for_repeats, resolve

ROWS = "repeats"
MEASURE = "replication crossover"


class Repeats(NamedTuple):
    """The rows of all runs, and how they came about."""

    rows: pd.DataFrame
    facts: dict


def setting_name(scaling: Scaling) -> str:
    """Such as training-causal-8x64-float32: the layer that a crossover was asked for."""
    causal = "causal" if scaling.causal[0] else "bidirectional"
    size = f"{scaling.heads}x{scaling.head_dim}"
    return "-".join([scaling.directions[0], causal, size, scaling.dtype])


def beside(folder: Path, profile: str) -> Path:
    """Where the repeats of a profile's main question are, if ``folder`` has its benchmark."""
    return folder / "crossover" / setting_name(for_repeats(resolve(profile)))


def run_repeats(scaling: Scaling, folder: Path, device: torch.device) -> Repeats:
    """All runs of a question. Those of the same that were broken off there go on."""
    with results.held(folder, ROWS):
        now = identity(scaling, device)
        found, facts = _begun(folder, now)
        for run in tqdm(range(len(found), RUNS), unit="run", leave=False, disable=None):
            found.append(measure_now(scaling, device).assign(run=run))
            facts["runs"] = len(found)
            results.save(folder, ROWS, pd.concat(found, ignore_index=True), facts)
    return load_repeats(folder)


def load_repeats(folder: Path, remedy: str = MEASURE) -> Repeats:
    rows, facts = results.load(folder, ROWS, remedy)
    return Repeats(rows.assign(reason=rows["reason"].astype(object).fillna("")), facts)


def all_runs(facts: dict) -> bool:
    return facts["runs"] == RUNS


def timed(repeats: Repeats) -> pd.DataFrame:
    """The rows that hold measurements, as the estimates take them."""
    return measured(repeats.rows)


def _begun(folder: Path, now: dict) -> tuple[list[pd.DataFrame], dict]:
    """The runs of the same that are there, if some are still missing; else none."""
    try:
        rows, facts = load_repeats(folder)
        if not all_runs(facts) and not differing(facts, now):
            return [own for _, own in rows.groupby("run")], facts
    except (results.ResultsError, KeyError):
        pass
    return [], now
