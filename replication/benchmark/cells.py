"""What is measured: groups of contenders that take turns, and a call of each of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import torch

from replication.config import Run
from replication.config import resolve as resolve_experiment
from replication.contenders import NO_PEERS, PEERS, Cell, runners
from replication.scaling_config import Scaling
from replication.train import Training

LAYER = "layer"
"""The subject that is one attention layer; the others are models, named by their setting."""
STEP = "step"
"""The direction of a model: forward, backward, clipping and update."""
FLOAT32_ONLY = "The authors' kernel is for float32 only"


class Group(NamedTuple):
    """One size at which contenders are compared; with a contender it is a cell."""

    subject: str
    direction: str
    causal: bool
    heads: int
    head_dim: int
    dtype: str
    N: int
    batch: int

    @classmethod
    def of(cls, row: Mapping) -> "Group":
        """The group that a row belongs to."""
        return cls(*(row[name] for name in cls._fields))

    @property
    def kind(self) -> tuple:
        """All but the size: what one calibration is good for."""
        return self[:-2]

    def sized(self, N: int, batch: int) -> "Group":
        return self._replace(N=N, batch=batch)

    def __str__(self) -> str:
        causal = "causal" if self.causal else "not causal"
        return f"{self.subject} {self.direction} {causal} N = {self.N}"


CELL = ("contender", *Group._fields)
"""The columns that name a cell."""


def groups(scaling: Scaling) -> list[Group]:
    """Shortest first, so that what an interrupted run leaves behind can be used."""
    found = [*_layers(scaling), *_models(scaling)]
    return sorted(found, key=lambda group: group.N)


def contenders(scaling: Scaling, group: Group) -> tuple[str, ...]:
    return scaling.contenders if group.subject == LAYER else scaling.model_contenders


def unavailable(name: str, group: Group) -> str | None:
    """Why a contender cannot take part in a group; None if it can."""
    if name != "authors":
        return None
    return FLOAT32_ONLY if group.dtype != "float32" else None if PEERS else NO_PEERS


def _layers(s: Scaling) -> Iterator[Group]:
    for N, direction, causal in product(s.lengths, s.directions, s.causal):
        batch = max(1, min(s.samples, s.tokens // N))
        yield Group(LAYER, direction, causal, s.heads, s.head_dim, s.dtype, N, batch)


def _models(s: Scaling) -> Iterator[Group]:
    """The published batch, or as much of it as the positions allow."""
    for setting, N in product(s.models, s.model_lengths):
        run = _run("linear", setting, s.model_profile, N)
        batch = max(1, min(run.batch_size, s.model_tokens // N))
        sizes = run.n_heads, run.d_model // run.n_heads
        yield Group(setting, STEP, True, *sizes, "float32", N, batch)


def _run(name: str, setting: str, profile: str, N: int, **more) -> Run:
    """The copy task's run with the attention of contender ``name``; it never evaluates."""
    attention, _, rounds = name.partition("-") if name.startswith("lsh") else (name, "", "")
    hashing = {"lsh_rounds": int(rounds)} if rounds else {}
    chosen = {"attentions": attention, "lengths": N, "seeds": 0, "steps": 10**9, **hashing, **more}
    (run,) = resolve_experiment(setting, profile, **chosen).runs()
    return replace(run, eval_every=run.steps)


def calls(
    names: tuple[str, ...], group: Group, scaling: Scaling, device: torch.device
) -> dict[str, Callable[[], object]]:
    """Each contender as a call without arguments."""
    if group.subject != LAYER:
        return {name: _step(name, group, scaling, device) for name in names}
    cell = Cell(group.batch, group.heads, group.N, group.head_dim, group.causal, group.direction)
    return runners(names, cell, device, getattr(torch, group.dtype))


def _step(name: str, group: Group, scaling: Scaling, device: torch.device) -> Callable[[], object]:
    """A training step as training makes it; parameters and their moments stay in memory."""
    more = {"batch_size": group.batch, "device": str(device)}
    run = _run(name, group.subject, scaling.model_profile, group.N, **more)
    training = Training(run)

    def step() -> None:
        training.advance()
        training.optimiser.zero_grad()  # so that every step needs the memory of the first

    return step
