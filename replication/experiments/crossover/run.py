"""One question asked in several runs, each a unit, in a process of its own.

Asked by ``replication crossover`` it has a time limit. Other lengths, sizes or threads are other
units, and the last good one stays until a better one is whole.
"""

import json
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from replication import attention, measure, store
from replication.experiments.crossover import generation
from replication.experiments.crossover.limit import Limit
from replication.experiments.crossover.numbers import OWN, resolve
from replication.experiments.crossover.question import EXACT, is_generation
from replication.experiments.scaling import run as scaling_run
from replication.experiments.scaling.contenders import contenders, kinds, layer_calls, obstacle
from replication.experiments.scaling.numbers import Scaling
from replication.experiments.scaling.run import MEMORY_SHARE, Evidence, evidence, measure_run
from replication.measure import halves
from replication.store import Unit

CONTENDER, RIVALS = "linear", ("softmax", "softmax-textbook")


class OwnUnit(Unit):
    """Of a question that no notebook asks."""

    remedy = "replication crossover"


def units(profile: str) -> list[Unit]:
    return units_of(resolve(profile))


def units_of(scaling: Scaling) -> list[Unit]:
    if is_generation(scaling):
        return _generated(scaling)
    kind = OwnUnit if scaling.profile == OWN else Unit
    return scaling_run.units_of(scaling, "crossover", kind)


def _generated(scaling: Scaling) -> list[Unit]:
    cards = [attention.contenders()[name].mechanism for name in scaling.contenders]
    code = (generation.measure_run, *(step for card in cards for step in card.code()))
    return scaling_run.runs_of("crossover", asdict(scaling), code, lambda i: partial(
        generation.measure_run, scaling, i, scaling.seconds), OwnUnit)  # fmt: skip


def ensure(
    scaling: Scaling, folder: Path | None = None, rows: str = "auto", add: int | None = None
) -> Evidence:
    """The runs that ``folder`` has of these numbers, and those that are missing or stale."""
    return scaling_run.ensure_runs(units_of(scaling), folder, rows, add)


def ask_now(scaling: Scaling, folder: Path, limit: Limit) -> Evidence:
    """All runs anew, in the time that they have together; the last stay until all are there."""
    prepare(scaling)
    check_contenders(scaling)
    every = units_of(scaling)
    with TemporaryDirectory(prefix=".asking-", dir=store.writable(folder)) as aside:
        for i, unit in enumerate(every):
            timed = replace(unit, run=partial(measure_until, scaling, i, limit, time.time()))
            limit.run(store.make, timed, Path(aside))
        store.move(every, Path(aside), folder)
    return evidence([store.load(unit, folder) for unit in every])


def measure_until(
    scaling: Scaling, run: int, limit: Limit, begun: float, scratch: Path
) -> store.Result:
    """A run that takes its share of what is left, when all that it calls is loaded."""
    start, generates = time.time() - begun, is_generation(scaling)
    if not generates:
        load(scaling)
    share = limit.share(scaling.runs - run, start, counts=run == 0 and not generates)
    return (generation.measure_run if generates else measure_run)(scaling, run, share, scratch)


def load(scaling: Scaling) -> None:
    """Call every contender once at the shortest length: what is compiled or loaded then can take
    longer than all that is measured."""
    device, (shortest, *_) = measure.pick_device(scaling.device), kinds(scaling)[0]
    free = float(measure.free_bytes(device))
    names = [n for n in contenders(scaling, shortest) if not obstacle(n, shortest, free)]
    for call in layer_calls(names, shortest, device).values():
        call()


def prepare(scaling: Scaling) -> None:
    """Refuse what cannot be allocated here, before anything tries to; mend processors that cannot
    do what they announce, in half types."""
    if scaling.dtype not in EXACT:
        halves.mend()
    free = measure.free_bytes(measure.pick_device(scaling.device))
    for group in kinds(scaling)[0]:
        values = group.batch * group.heads * (4 * group.N * group.head_dim + group.head_dim**2)
        if contenders(scaling, group) and 4 * values > free:
            raise ValueError(
                f"N = {group.N} with {group.heads} heads of {group.head_dim} needs at least "
                f"{4 * values / 1e9:,.3g} GB for its inputs and a state; {free / 1e9:.3g} GB are "
                "free. Choose shorter lengths, or fewer or smaller heads."
            )


def check_contenders(scaling: Scaling) -> None:
    """Refuse a comparison of which fewer than two can take part, or of one with itself."""
    free, groups = measure.free_bytes(measure.pick_device(scaling.device)), kinds(scaling)[0]
    why = generation.hindrance if is_generation(scaling) else obstacle
    reasons = {name: [why(name, one, MEMORY_SHARE * free) for one in groups
                      if name in contenders(scaling, one)]
               for name in scaling.contenders}  # fmt: skip
    able = [name for name, found in reasons.items() if not all(found)]
    if len(able) < 2:
        unable = "; ".join(f"{name}: {found[0]}" for name, found in reasons.items() if all(found))
        raise ValueError(f"Fewer than two can be compared. Left out: {unable}. Name others.")
    memories = [attention.contenders()[name].mechanism.memory for name in able]
    twice = [name for name, memory in zip(able, memories, strict=True)
             if memory is not None and memories.count(memory) > 1]  # fmt: skip
    if is_generation(scaling) and twice:
        raise ValueError(f"{' and '.join(twice)} write tokens by the same code. Name one of them.")


def others(root: Path) -> list[Evidence]:
    """What ``replication crossover`` has left there, question by question."""
    found: dict[str, list[store.Kept]] = {}
    for one in store.read_folder(root / OWN / "crossover"):
        numbers = {name: value for name, value in one.unit.numbers.items() if name != "run"}
        found.setdefault(json.dumps(numbers, sort_keys=True), []).append(one)
    return [evidence(runs) for runs in found.values()]
