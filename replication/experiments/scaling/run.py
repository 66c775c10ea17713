"""Units of the benchmark: one run of all its timings, in a process of its own, each.

What differs from process to process and from hour to hour is part of every interval, so a run is
the unit, on disk and in the estimates. A machine that stays too busy leaves no unit behind.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from replication import measure
from replication.experiments.scaling.contenders import (
    NO_MODELS,
    Group,
    Models,
    code_of,
    contenders,
    kinds,
    layer_calls,
    models_of,
    obstacle,
    step_calls,
)
from replication.experiments.scaling.numbers import LAYER, SEED, THREAD, WALL, Scaling, resolve
from replication.experiments.timing import made_runs, runs_of
from replication.measure.clock import pinned
from replication.measure.rounds import Outcome, TooBusyError, measure_rounds
from replication.store import OWN, Kept, Result, StoreError, Unit

MEMORY_SHARE = 0.8
"""Of the free memory; fragments and others have the rest."""
FIRST_SHARE = 0.65
"""Of a run's time, for what the claims are about; the others share the rest."""
COLUMNS = ("contender", "N", "run", "round", "time_ms", "loops", "wall_ms", "cpu_ms", "wait_ms",
           "voluntary", "involuntary", "faults", "slowed", "disturbed", "status",
           "reason")  # fmt: skip
SMOKE = "Profile smoke believes every repeat, disturbed or not, so it decides nothing."


class Evidence(NamedTuple):
    """A row a repeat, of all runs, told apart by the column run; and how they came about."""

    rows: pd.DataFrame
    facts: dict

    @property
    def runs(self) -> int:
        return self.rows["run"].nunique()

    @property
    def measured(self) -> pd.DataFrame:
        """What decides: of one pinned thread, or of all where that was asked, as on a GPU."""
        rows = self.rows[self.rows["status"] == "measured"].astype({"disturbed": bool})
        return rows[rows["clock"] == (THREAD if (rows["clock"] == THREAD).any() else WALL)]

    @property
    def layer(self) -> pd.DataFrame:
        """What the paper's Figure 1 shows: a causal layer, forward and backward."""
        rows = self.measured
        return rows[(rows.subject == LAYER) & (rows.direction == "training") & rows.causal]

    @property
    def on_threads(self) -> pd.DataFrame:
        """The same on all threads, by wall time."""
        return self.rows[(self.rows["status"] == "measured") & (self.rows["clock"] == WALL)]

    @property
    def refused(self) -> str:
        """Why nothing is decided by these rows; empty if something is."""
        return SMOKE if self.facts.get("profile") == "smoke" else ""


def units(profile: str) -> list[Unit]:
    return units_of(resolve(profile))


def units_of(scaling: Scaling, experiment: str = "scaling") -> list[Unit]:
    models = models_of(scaling)
    names = dict.fromkeys(name for groups in kinds(scaling, models) for group in groups
                          for name in contenders(scaling, group))  # fmt: skip
    code = (measure_run, layer_calls, *([step_calls] if models else []), *code_of(names))
    steps = {name: {k: v for k, v in asdict(run).items() if k != "device"}  # the benchmark's
             for name, run in models.items()}  # fmt: skip
    own = asdict(scaling) | {"model_numbers": steps}
    return runs_of(experiment, own, code, lambda i: partial(
        measure_run, scaling, i, scaling.seconds, models=models))  # fmt: skip


def ensure(
    asked: Any, folder: Path | None = None, rows: str = "auto", add: int | None = None,
    units_of: Callable[[Any], list[Unit]] = units_of,
) -> Evidence:  # fmt: skip
    """What ``folder`` has of these runs, and those that are missing or stale, ``add`` at most."""
    return evidence(made_runs(units_of(asked), folder, rows, add))


def measure_run(
    scaling: Scaling, run: int, seconds: float, _: Path, models: Models = NO_MODELS
) -> Result:
    """All kinds of measurement in turn, the one that claims are about first.

    The time is that of the rounds; what it takes to draw inputs and to count bytes comes on top.
    """
    device, left, every = measure.pick_device(scaling.device), seconds, kinds(scaling, models)
    frames, found = [], {}
    for i, groups in enumerate(every):
        budget = left * FIRST_SHARE if i == 0 < len(every) - 1 else left / (len(every) - i)
        frame, outcome, where = measure_kind(scaling, groups, run, budget, device, models)
        frames.append(frame)
        left -= outcome.seconds
        found[str(groups[0])] = outcome.sentence()
    rate = measure.gemm_rate(device, 1024)
    facts = {"outcomes": found, "pinned": where, "gemm_flops_per_s": rate,
             "machine": measure.machine(device)}  # fmt: skip
    return Result(pd.concat(frames, ignore_index=True), facts)


def measure_kind(
    scaling: Scaling, groups: list[Group], run: int, budget: float, device: torch.device,
    models: Models = NO_MODELS,
) -> tuple[pd.DataFrame, Outcome, dict]:  # fmt: skip
    """Rows of all contenders and lengths of one kind; those left out have one with the reason."""
    free, skipped, calls = MEMORY_SHARE * measure.free_bytes(device), {}, {}
    on_thread = groups[0].clock == THREAD
    counted = groups[0].clock == kinds(scaling)[0][0].clock  # once, by the clock that decides
    with pinned() if on_thread else nullcontext({"threads": torch.get_num_threads()}) as where:
        if not on_thread and scaling.threads > 1:
            torch.set_num_threads(scaling.threads)
        for group in groups:
            why = {name: obstacle(name, group, free) for name in contenders(scaling, group)}
            skipped |= {(name, group.N): text for name, text in why.items() if text}
            names = [name for name, text in why.items() if not text]
            calls |= {(name, group.N): call for name, call in
                      _calls(names, group, device, models).items()}  # fmt: skip
        for cell in {name: (name, N) for name, N in reversed(calls)}.values():
            calls[cell]()  # compiled or loaded before the clock starts
        outcome = measure_rounds(
            calls, budget_s=budget, repeats=scaling.repeats, run=run, kind=groups[0].clock,
            rng=np.random.default_rng([SEED, run]), believe=scaling.profile == "smoke",
        )  # fmt: skip
        if outcome.state == "too busy":
            if groups == kinds(scaling)[0]:
                raise TooBusyError(outcome.sentence())
            skipped |= dict.fromkeys(calls, "load: other programs had the machine")
            outcome = outcome._replace(rows=outcome.rows.iloc[:0])
        counts = {cell: measure.peak_bytes(calls[cell], device) for cell in calls
                  if run == 0 and counted and cell not in outcome.skipped}  # fmt: skip
    return _frame(groups, outcome, skipped | outcome.skipped, counts), outcome, where


def _calls(
    names: list[str], group: Group, device: torch.device, models: Models
) -> dict[str, Callable]:
    if group.subject == LAYER:
        calls = layer_calls(names, group, device)
    else:
        calls = step_calls(names, group, models[group.subject], device)
    if device.type != "cuda":
        return calls
    return {name: partial(_and_wait, call) for name, call in calls.items()}


def _and_wait(call: Callable[[], object]) -> None:
    call()
    torch.cuda.synchronize()


def _frame(groups: list[Group], outcome: Outcome, skipped: dict, counts: dict) -> pd.DataFrame:
    """Times and bytes of one sequence."""
    sizes = pd.DataFrame([group._asdict() for group in groups])
    left_out = [{"contender": name, "N": N, "status": "skipped", "reason": why}
                for (name, N), why in skipped.items()]  # fmt: skip
    bytes_of = pd.DataFrame([(*cell, float(count)) for cell, count in counts.items()],
                            columns=["contender", "N", "peak_bytes"])  # fmt: skip
    rows = pd.concat([outcome.rows.assign(status="measured", reason=""), pd.DataFrame(left_out)])
    rows = (rows.reindex(columns=[*COLUMNS]).merge(sizes, on="N")
            .merge(bytes_of, "left", on=["contender", "N"]))  # fmt: skip
    return rows.assign(**{name: rows[name] / rows["batch"] for name in ("time_ms", "peak_bytes")})


table_of = _frame
"""For other rooms. A new name in its place would make all rows stale."""


def evidence(kept: list[Kept]) -> Evidence:
    check_one_machine(kept)
    rows = pd.concat([part.rows.assign(run=part.facts["numbers"]["run"]) for part in kept],
                     ignore_index=True)  # fmt: skip
    rows["reason"] = rows["reason"].astype(object).fillna("")  # CSV knows no empty text
    spent = {"measured_seconds": sum(part.facts["seconds"] for part in kept),
             "is_current": all(part.is_current for part in kept)}  # fmt: skip
    return Evidence(rows, kept[0].facts | spent)


def check_one_machine(kept: list[Kept]) -> None:
    """Rows of one comparison come from one machine, used in one way."""
    found = {}
    for part in kept:
        machine = part.facts["machine"]
        key = f"{machine['processor']} ({machine['device']}, {machine['threads']} threads)"
        found.setdefault(key, part.unit.name)
    if len(found) > 1:
        where, unit = " and ".join(f"{name} on {m}" for m, name in found.items()), kept[0].unit
        fresh = unit.remedy + " -p rows fresh" * (unit.profile != OWN)
        raise StoreError(f"Rows of one comparison come from different machines: {where}. Measure "
                         f"all of them anew with\n    {fresh}")  # fmt: skip
