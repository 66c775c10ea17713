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
from replication.benchmark import measure_plan, measured, prepare, skipped_rows
from replication.scaling.run import differing, give_back, identity, now_utc
from replication.scaling_config import RUNS, Scaling, for_repeats

ROWS = "repeats"


class Repeats(NamedTuple):
    """The rows of all runs, and how they came about."""

    rows: pd.DataFrame
    facts: dict

    @property
    def runs(self) -> int:
        return self.rows["run"].nunique()


def setting_name(scaling: Scaling) -> str:
    """Such as training-causal-8x64-float32: the layer that a crossover was asked for."""
    causal = "causal" if scaling.causal[0] else "bidirectional"
    size = f"{scaling.heads}x{scaling.head_dim}"
    return "-".join([scaling.directions[0], causal, size, scaling.dtype])


def beside(folder: Path, profile: str) -> Path:
    """Where the repeats of a profile's main question are, if ``folder`` has its benchmark."""
    return folder / "crossover" / setting_name(for_repeats(profile))


def run_repeats(scaling: Scaling, folder: Path, device: torch.device) -> Repeats:
    """All runs of a question. If some of the same were broken off there, the others follow."""
    with results.held(folder, ROWS):
        now = identity(scaling, device)
        begun = _begun(folder, now)
        found = [own for _, own in begun.rows.groupby("run")] if begun else []
        facts = begun.facts if begun else now | {"sessions": []}
        facts["sessions"].append({"started": now_utc(), "load": now["machine"]["load"]})
        planned = prepare(scaling, device).plan
        for run in tqdm(range(len(found), RUNS), unit="run", leave=False, disable=None):
            found.append(_run(planned, scaling, device).assign(run=run))
            facts["finished"] = now_utc()
            results.save(folder, ROWS, pd.concat(found, ignore_index=True), facts)
    return load_repeats(folder)


def _run(planned: pd.DataFrame, scaling: Scaling, device: torch.device) -> pd.DataFrame:
    rows = skipped_rows(planned)
    for group, _ in measure_plan(planned, scaling, device):
        rows += group
        give_back()
    return pd.DataFrame(rows)


def load_repeats(folder: Path, remedy: str = "replication crossover") -> Repeats:
    rows, facts = results.load(folder, ROWS, remedy)
    return Repeats(rows.assign(reason=rows["reason"].astype(object).fillna("")), facts)


def timed(repeats: Repeats) -> pd.DataFrame:
    """The rows that hold measurements, as the estimates take them."""
    return measured(repeats.rows)


def _begun(folder: Path, now: dict) -> Repeats | None:
    """The runs of the same that are there, if some are still missing."""
    try:
        found = load_repeats(folder)
        return found if found.runs < RUNS and not differing(found.facts, now) else None
    except (results.ResultsError, KeyError):
        return None
