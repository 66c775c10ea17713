"""One question asked in several runs, each a unit, in a process of its own.

Asked by ``replication crossover`` it has a time limit. Other lengths, sizes or threads are other
units, and the last good one stays until a better one is whole.
"""

import json
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil
import torch

from replication import attention, measure, store
from replication.experiments import timing
from replication.experiments.crossover import generation
from replication.experiments.crossover.numbers import EXACT, OWN, is_generation, resolve
from replication.experiments.scaling import run as scaling_run
from replication.experiments.scaling.contenders import contenders, kinds, layer_calls, obstacle
from replication.experiments.scaling.numbers import Scaling
from replication.experiments.scaling.run import MEMORY_SHARE, Evidence, evidence, measure_run
from replication.measure import halves
from replication.measure.rounds import TooBusyError
from replication.store import Unit

CONTENDER, RIVALS = "linear", ("softmax", "softmax-textbook")
LATER, AROUND, ANSWER = 1.6, 0.7, 1.3
"""In units of what it took to load all that is called, which is longer on a busy machine: for each
process that comes later, which loads it as well; around the rounds, for drawing inputs and writing
rows; and for the answer."""
COUNTING = 0.75
"""Of the time of a process that counts bytes as well, for the rounds."""
LEAST_S = 1.0
"""Of rounds: with less there is nothing to be learned."""
MOST_BESIDE = 0.15
"""The share of all cores that other programs may use while it is told where two cross."""


def units(profile: str) -> list[Unit]:
    return units_of(resolve(profile))


def units_of(scaling: Scaling) -> list[Unit]:
    if not is_generation(scaling):
        return scaling_run.units_of(scaling, "crossover")
    cards = [attention.contenders()[name].mechanism for name in scaling.contenders]
    code = (generation.measure_run, *(step for card in cards for step in card.code()))
    return timing.runs_of("crossover", asdict(scaling), code, lambda i: partial(
        generation.measure_run, scaling, i, scaling.seconds))  # fmt: skip


ensure = partial(scaling_run.ensure, units_of=units_of)


# Questions in a time limit ---------------------------------------------------------------------


class Limit(NamedTuple):
    """So many seconds, and when they end, as the user counts: imports and starts included."""

    seconds: float
    end: float

    @classmethod
    def of(cls, seconds: float, spent: float = 0.0) -> "Limit":
        return cls(seconds, time.time() + seconds - spent)

    @classmethod
    def of_command(cls, options: Namespace) -> "Limit":
        """From the start of this process, if it was started for the command."""
        is_command = getattr(options, "is_command", False)
        age = time.time() - psutil.Process().create_time()
        return cls.of(options.seconds, max(0.0, age) if is_command else 0.0)

    def share(self, processes: int, load_s: float, *, counts: bool = False) -> float:
        """Seconds of rounds for the first of so many processes to come; a refusal if too few."""
        left = self.end - time.time() - load_s * (LATER * (processes - 1) + ANSWER)
        own = (left / processes - AROUND * load_s) * (COUNTING if counts else 1.0)
        if own < LEAST_S:
            said = f"are too few: what is measured takes {load_s:.1f} s to load"
            raise TooBusyError(self.refusal(said))
        return own

    def run(self, call: Callable, *arguments: Any) -> Any:
        """In a process of its own, which is ended when the time is over."""
        try:
            return timing.in_own_process("the question", call, *arguments, end=self.end)
        except TimeoutError:
            raise TooBusyError(self.refusal("ended in the middle of it")) from None

    def refusal(self, what: str) -> str:
        return f"No answer: {self.seconds:g} s {what}. {cause()}"


def cause(load: float | None = None, cores: int | None = None) -> str:
    """Whether other programs are why time was short, and what to do then."""
    load = psutil.getloadavg()[0] if load is None else load
    cores = cores or psutil.cpu_count() or 1
    seen = f"a load of {load:.1f} on {cores} core{'s' if cores > 1 else ''}"
    if load > 1 + cores / 4:  # what asks is one of them
        return f"Other programs compute here ({seen}): close them, or allow more by --seconds."
    return f"Nothing else computes here ({seen}): allow more by --seconds."


def ask_now(
    scaling: Scaling, folder: Path, limit: Limit, answer: Callable[[Evidence], dict]
) -> dict:
    """All runs anew in their time, and the answer; the last good ones stay until there is one."""
    prepare(scaling)
    check_contenders(scaling)
    every = units_of(scaling)
    with TemporaryDirectory(prefix=".asking-", dir=store.writable(folder)) as aside:
        limit.run(load, scaling)  # compiled, if that was not done yet
        for i, unit in enumerate(every):
            timed = replace(unit, run=partial(measure_until, scaling, i, limit))
            limit.run(store.make, timed, Path(aside))
        found = answer(_evidence([store.load(unit, Path(aside)) for unit in every]))
        store.move(every, Path(aside), folder)
    return found


def measure_until(scaling: Scaling, run: int, limit: Limit, scratch: Path) -> store.Result:
    """A run that takes its share of what is left, when all that it calls is loaded."""
    generates = is_generation(scaling)
    load_s = measure.seconds(partial(load, scaling))
    share = limit.share(scaling.runs - run, load_s, counts=run == 0 and not generates)
    begun, before = time.monotonic(), _of_others()
    result = (generation.measure_run if generates else measure_run)(scaling, run, share, scratch)
    beside = (_of_others() - before) / (time.monotonic() - begun) / (psutil.cpu_count() or 1)
    return result._replace(facts=result.facts | {"beside": round(max(0.0, beside), 3)})


def _of_others() -> float:
    """Seconds that all cores have computed so far, without those of this process."""
    times = psutil.cpu_times()._asdict()
    resting = ("idle", "iowait", "steal", "guest", "guest_nice")  # guests are counted as users
    return sum(s for name, s in times.items() if name not in resting) - time.process_time()


def load(scaling: Scaling) -> None:
    """Every contender once at the shortest length: compiling may take longer than all the rest."""
    device, (shortest, *_) = measure.pick_device(scaling.device), kinds(scaling)[0]
    free, generates = float(measure.free_bytes(device)), is_generation(scaling)
    why = generation.hindrance if generates else obstacle
    names = [n for n in contenders(scaling, shortest) if not why(n, shortest, free)]
    writers = (generation.writer(name, shortest, device).call for name in names)
    with torch.inference_mode(generates):
        for call in writers if generates else layer_calls(names, shortest, device).values():
            call()


def prepare(scaling: Scaling) -> None:
    """Refuse what cannot be allocated, before anything tries to; mend products of half types."""
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
    forms = [attention.contenders()[name] for name in able]
    ways = [form.mechanism.memory and (form.mechanism.memory, form.options) for form in forms]
    twice = [name for name, way in zip(able, ways, strict=True) if way and ways.count(way) > 1]
    if is_generation(scaling) and twice:
        raise ValueError(f"{' and '.join(twice)} write tokens by the same code. Name one of them.")


def others(root: Path) -> list[Evidence]:
    """What ``replication crossover`` has left there, question by question."""
    found: dict[str, list[store.Kept]] = {}
    for one in store.read_folder(root / OWN / "crossover"):
        numbers = {name: value for name, value in one.unit.numbers.items() if name != "run"}
        found.setdefault(json.dumps(numbers, sort_keys=True), []).append(one)
    return [one for one in map(_evidence, found.values()) if not is_busy(one.facts)]


def _evidence(runs: list[store.Kept]) -> Evidence:
    found = evidence(runs)
    beside = median(one.facts.get("beside", 0.0) for one in runs)
    return found._replace(facts=found.facts | {"beside": beside})


def is_busy(facts: dict[str, Any]) -> bool:
    """Whether other programs had so much of the cores that nearly equal times tell nothing: cores
    that share a cache or arithmetic slow one contender more than another, in CPU time, too."""
    return facts.get("beside", 0.0) > MOST_BESIDE and facts["machine"]["device"] == "cpu"
