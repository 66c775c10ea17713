"""Training steps with the suspects of speed switched on, timed one beside the other.

The clock is the processor's time of this process, which other programs on the machine hardly
lengthen; on CUDA it is the wall's. Contenders take turns in a new random order every round.
"""

import random
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from replication import measure
from replication.attention import mechanism
from replication.experiments.copy_task.task import EarlierCopy
from replication.experiments.earlier.forms import Disturbed, Promoting, their_attention
from replication.experiments.earlier.numbers import ALL, BATCH_FACTOR, SPEED, TIMINGS, Timing
from replication.model import Sizes
from replication.store import Result, Unit

TIMES = ["contender", "N", "round", "time_ms"]
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
    return [_unit(timing, device) for timing in TIMINGS[profile]]


def _unit(timing: Timing, device: str) -> Unit:
    attends = (mechanism(name).attend for name in ("linear", SOFTMAX))
    numbers = timing._asdict() | {"device": device}
    code = (timed, their_attention, *attends)
    name = f"steps-{timing.N}"
    return Unit("earlier", name, timing.profile, numbers, code, partial(_made, timing, device))


def _made(timing: Timing, device: str, scratch: Path) -> Result:
    torch.set_num_threads(timing.threads)
    rows = timed(timing, torch.device(device))
    return Result(rows, {"machine": measure.machine(torch.device(device))})


def timed(timing: Timing, device: torch.device) -> pd.DataFrame:
    """A row a step, after one that warms up."""
    steps = {name: new_step(name, timing, device) for name in CONTENDERS}
    for step in steps.values():
        step()
    order, rows = random.Random(timing.N), []
    for i in range(timing.rounds):
        for name in order.sample(list(steps), len(steps)):
            seconds = measure.cpu_seconds(steps[name], device)
            rows.append((name, timing.N, i, 1e3 * seconds))
    return pd.DataFrame(rows, columns=TIMES)


def new_step(name: str, timing: Timing, device: torch.device) -> Callable[[], None]:
    """One update of a model: forward pass, loss, backward pass, Adam; and what is switched on."""
    attention, switches = CONTENDERS[name]
    task = EarlierCopy(timing.N, timing.symbols)
    sizes = Sizes(attention, timing.d_model, timing.n_heads, timing.n_layers, timing.d_ff,
                  task.vocabulary, timing.N)  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Disturbed(sizes, switches).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True)
    many = BATCH_FACTOR * timing.batch if "batch" in switches else timing.batch
    batch = task.batch("train", 0, 1, many).to(device)
    promoting = Promoting if "double" in switches else nullcontext

    def step() -> None:
        with promoting():
            optimiser.zero_grad()
            task.loss(model, batch)[0].backward()
            optimiser.step()
            if "forwards" in switches:
                with torch.no_grad():
                    task.loss(model, batch)

    return step
