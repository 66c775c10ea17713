"""Training steps with the suspects of speed switched on, timed one beside the other.

A unit is a run: all contenders and lengths in turn, by the clock and the rounds of all timings.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from replication import measure
from replication.attention import mechanism
from replication.experiments.copy_task.task import EarlierCopy
from replication.experiments.earlier.forms import Disturbed, Promoting, their_attention
from replication.experiments.earlier.numbers import ALL, BATCH_FACTOR, SPEED, TIMINGS, Timing
from replication.experiments.timing import clock_of, runs_of
from replication.model import Sizes
from replication.store import Result, Unit

TIMES = ["contender", "N", "run", "round", "time_ms", "disturbed"]
SOFTMAX = "softmax-textbook"
"""Their softmax writes the weights down, as a textbook does."""
OPEN = ("mask",)
"""Their attention knows no mask, so that without one is what a suspect is compared with."""
CONTENDERS = {
    "linear": ("linear", ()),
    "softmax": (SOFTMAX, ()),
    "linear open": ("linear", OPEN),
    "softmax open": (SOFTMAX, OPEN),
    **{name: ("linear", (*OPEN, name)) for name in SPEED},
    "softmax forwards": (SOFTMAX, (*OPEN, "forwards")),
    ALL: ("linear", (*OPEN, *SPEED)),
}
"""By name: a mechanism and its switches. "open" is without a mask."""


def speed_units(profile: str, device: str) -> list[Unit]:
    timing = TIMINGS[profile]
    attends = (mechanism(name).attend for name in ("linear", SOFTMAX))
    numbers, code = timing._asdict() | {"device": device}, (timed, their_attention, *attends)
    make = lambda i: partial(timed, timing, i, torch.device(device))  # noqa: E731
    return runs_of("earlier", numbers, code, make, "steps")


def timed(timing: Timing, run: int, device: torch.device, _: Path) -> Result:
    """A row a repeat."""
    with clock_of(device) as (timed_by, where):
        calls = {(name, N): step for name in CONTENDERS
                 for N, step in new_steps(name, timing, device).items()}  # fmt: skip
        outcome = timed_by(calls, timing, run, timing.seconds)
    facts = {"machine": measure.machine(device), "pinned": where}
    return Result(outcome.rows, facts | {"outcomes": {"steps": outcome.sentence()}})


def new_steps(name: str, timing: Timing, device: torch.device) -> dict[int, Callable[[], None]]:
    """By N one update of a model, which all N share: both passes, Adam, and what is switched on."""
    attention, switches = CONTENDERS[name]
    tasks = {N: EarlierCopy(N, timing.symbols) for N in timing.lengths}
    longest = max(tasks)
    sizes = Sizes(attention, timing.d_model, timing.n_heads, timing.n_layers, timing.d_ff,
                  tasks[longest].vocabulary, longest)  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Disturbed(sizes, switches).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True)
    many = BATCH_FACTOR * timing.batch if "batch" in switches else timing.batch
    promoting = Promoting if "double" in switches else nullcontext

    def step(task: EarlierCopy, batch: Any) -> None:
        with promoting():
            optimiser.zero_grad()
            task.loss(model, batch)[0].backward()
            optimiser.step()
            if "forwards" in switches:
                with torch.no_grad():
                    task.loss(model, batch)

    return {N: partial(step, task, task.batch("train", 0, 1, many).to(device))
            for N, task in tasks.items()}  # fmt: skip
