"""What one more token costs after N others, of one attention layer: generation.

Who has a memory takes a key and a value in and looks; who has none computes all again.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from replication import attention, measure
from replication.experiments.crossover.numbers import GENERATION
from replication.experiments.scaling.contenders import Group, contenders, kinds, obstacle
from replication.experiments.scaling.numbers import SEED, THREAD, Scaling
from replication.experiments.scaling.run import MEMORY_SHARE, table_of
from replication.measure.clock import pinned
from replication.measure.rounds import TooBusyError, measure_rounds
from replication.store import Result

TOKENS = 16
"""Tokens of one call, so that the clock has something to measure: each is the one after N."""


class Writer(NamedTuple):
    """A call, the tokens that it writes, and the bytes that are kept from token to token."""

    call: Callable[[], object]
    tokens: int
    nbytes: int


def writer(name: str, group: Group, device: torch.device) -> Writer:
    """Of a contender, after N tokens of every sequence in the batch."""
    form, dtype = attention.contenders()[name], getattr(torch, group.dtype)
    shape, N = (group.batch, group.heads), group.N
    memory = form.mechanism.memory
    if memory is None:
        x = torch.randn(3, *shape, N + 1, group.head_dim, device=device, dtype=dtype)
        again = partial(form.mechanism, *x, causal=True, **form.options)
        return Writer(again, 1, sum(one[:, :, :N].numel() * one.element_size() for one in x))
    q, k, v = torch.randn(3, *shape, group.head_dim, device=device, dtype=dtype)
    kept = memory.begin(q, *shape, N + 1, group.head_dim)

    def write() -> None:
        for _ in range(TOKENS):
            memory.step(kept, N, q, k, v, **form.options)

    return Writer(write, TOKENS, memory.nbytes(kept, N))


def measure_run(scaling: Scaling, run: int, seconds: float, _: Path) -> Result:
    """A row a repeat: time and bytes of one token of one sequence, and what the clock saw."""
    device, groups = measure.pick_device(scaling.device), kinds(scaling)[0]
    on_thread = groups[0].clock == THREAD
    with torch.inference_mode(), pinned() if on_thread else nullcontext({}) as where:
        if not on_thread:
            torch.set_num_threads(scaling.threads)
        ready, skipped = _writers(scaling, groups, device)
        calls = {cell: partial(_done, one.call, device) for cell, one in ready.items()}
        outcome = measure_rounds(
            calls, budget_s=seconds, repeats=scaling.repeats, run=run, kind=groups[0].clock,
            rng=np.random.default_rng([SEED, run]), warm=True,
        )  # fmt: skip
    if outcome.state == "too busy":
        raise TooBusyError(outcome.sentence())
    cells = list(zip(outcome.rows["contender"], outcome.rows["N"], strict=True))
    outcome.rows["time_ms"] /= [ready[cell].tokens for cell in cells]
    kept = {cell: ready[cell].nbytes for cell in cells}
    rows = table_of(groups, outcome, skipped | outcome.skipped, kept)
    return Result(rows, {"outcomes": {GENERATION: outcome.sentence()}, "pinned": where,
                         "machine": measure.machine(device)})  # fmt: skip


def _done(call: Callable[[], object], device: torch.device) -> None:
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()


def _writers(scaling: Scaling, groups: list[Group], device: torch.device) -> tuple[dict, dict]:
    """By contender and length; and why some are left out."""
    ready, skipped, free = {}, {}, MEMORY_SHARE * measure.free_bytes(device)
    for group, name in ((one, name) for one in groups for name in contenders(scaling, one)):
        if why := hindrance(name, group, free):
            skipped[name, group.N] = why
        else:
            ready[name, group.N] = writer(name, group, device)
            free -= _bytes(group)
    return ready, skipped


def hindrance(name: str, group: Group, free: float) -> str:
    """Why a contender cannot write tokens; empty if it can."""
    card = attention.contenders()[name].mechanism
    if card.is_peer:
        return "somebody else's program, which is timed in whole layers alone"
    if card.memory is None:
        return obstacle(name, group, free)
    if why := card.unavailable(group.dtype):
        return why
    needed = _bytes(group)
    too_large = f"memory: up to {needed / 1e9:.3g} GB needed, {free / 1e9:.3g} GB are free"
    return too_large if needed > free else ""


def _bytes(group: Group) -> int:
    """Of a cache, or of a state if that is larger."""
    D, each = group.head_dim, max(4, getattr(torch, group.dtype).itemsize)
    return group.batch * group.heads * each * D * max(3 * (group.N + 1), D + 1)
