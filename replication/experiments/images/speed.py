"""How fast images are drawn at the published sizes; the weights need not be trained for that.

One image by a contender with a memory is drawn whole, in every round. Else the time of a byte is
measured at some places and summed with weights (Gauss-Legendre quadrature): exact for costs that
grow as N or N^2, as those that look up, or compute again, all that came before. Both ways are
compared. Times on a processor are CPU times of one thread. What a contender keeps an image is
counted in bytes, exactly.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from replication import measure
from replication.attention import contenders, mechanism
from replication.experiments.images.generation import generate, stepper
from replication.experiments.images.likelihood import VALUES, draw
from replication.experiments.images.numbers import (
    COLOURS,
    ORIGINS,
    RIVAL,
    SIDES,
    SPEEDS,
    WITH_MEMORY,
    Speed,
)
from replication.experiments.images.task import PixelModel
from replication.model import Sizes
from replication.store import Result, Unit

MECHANISMS = {"linear": "linear", "softmax-cache": "softmax", "softmax": "softmax-textbook",
              "softmax-fused": "softmax", RIVAL: "linear"}  # fmt: skip
"""What each contender is made of; others have the name of a form of a mechanism."""
SPARE = 0.6
"""The share of free memory that may be filled; a contender that needs more is left out."""
Byte = Callable[[int], object]
"""Draws the byte after so many others."""


class Timed(NamedTuple):
    """Rows of one data set: contender, batch, position, part, round, seconds, bytes."""

    rows: pd.DataFrame
    facts: dict[str, Any]

    @property
    def measured(self) -> pd.DataFrame:
        return self.rows[self.rows.what == "sample"]


def speed_units(profile: str, device: str = "auto") -> list[Unit]:
    where = str(measure.pick_device(device))
    return [_unit(speed, where) for speed in SPEEDS[profile]]


def _unit(speed: Speed, device: str) -> Unit:
    cards = [mechanism(_made_of(name)[0]) for name in speed.contenders]
    steps = [step for card in cards if (m := card.memory) for step in (m.begin, m.step)]
    own = [*(card.attend for card in cards), *steps]
    numbers = speed._asdict() | {"device": device, **sizes_of(speed.dataset)}
    make = partial(_made, speed, device)
    return Unit("images", speed.name, speed.profile, numbers, (timed, *dict.fromkeys(own)), make)


def _made(speed: Speed, device: str, scratch: Path) -> Result:
    torch.set_num_threads(speed.threads)
    rows = pd.DataFrame(timed(speed, torch.device(device)))
    return Result(rows, {"machine": measure.machine(torch.device(device))})


# What is timed ---------------------------------------------------------------------------------


def sizes_of(dataset: str) -> dict[str, int]:
    """As published."""
    names = ("d_model", "n_heads", "n_layers", "d_ff", "mixtures", "lsh_buckets", "lsh_chunk")
    found = {name: ORIGINS[dataset][name].published for name in names}
    return found | {"bytes": SIDES[dataset] ** 2 * COLOURS[dataset]}


def new_model(contender: str, dataset: str) -> nn.Module:
    """Of the published size, weights as drawn."""
    of, (name, options) = sizes_of(dataset), _made_of(contender)
    if mechanism(name).seeded:
        options = options | {"buckets": of["lsh_buckets"], "chunk": of["lsh_chunk"]}
    sizes = Sizes(name, of["d_model"], of["n_heads"], of["n_layers"], of["d_ff"], VALUES,
                  of["bytes"] - 1, 0.0, "relu", "concatenated", options)  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = PixelModel(sizes, of["mixtures"])
        return (_with_authors_layers(model) if contender == RIVAL else model).eval()


def _made_of(contender: str) -> tuple[str, dict]:
    if contender in MECHANISMS:
        return MECHANISMS[contender], {}
    form = contenders()[contender]
    return form.mechanism.name, dict(form.options)


def _with_authors_layers(model: PixelModel) -> nn.Module:
    """Their recurrent encoder between our embedding and our mixture."""
    from fast_transformers.builders import RecurrentEncoderBuilder

    s = model.sizes
    model.theirs = RecurrentEncoderBuilder.from_kwargs(
        attention_type="linear", n_layers=s.n_layers, n_heads=s.n_heads, dropout=0.0,
        feed_forward_dimensions=s.d_ff, query_dimensions=s.d_model // s.n_heads,
        value_dimensions=s.d_model // s.n_heads, activation="relu", final_normalization=True,
    ).get()  # fmt: skip
    return model


def _byte(contender: str, model: nn.Module, batch: int) -> tuple[Byte, int]:
    """How a contender draws one byte, and the bytes that it keeps an image."""
    device, total = next(model.parameters()).device, model.sizes.length
    tokens = torch.randint(VALUES, (batch, total), device=device)
    random = torch.rand(batch, 2, dtype=torch.float64, device=device)
    if contender not in WITH_MEMORY:
        return lambda place: draw(model(tokens[:, :place])[:, -1], random), 0
    if contender == RIVAL:
        return _authors_byte(model, tokens, random), 0
    memory = model.begin(batch, total)
    kept = model.layers[0].attention.card.memory.nbytes
    size = sum(kept(own, total) for own, _ in memory) // batch
    step = stepper(model, memory)
    return lambda place: draw(step(tokens[:, place], place), random), size


def _authors_byte(model: nn.Module, tokens: Tensor, random: Tensor) -> Byte:
    state = None

    def byte(place: int) -> Tensor:
        nonlocal state
        x, state = model.theirs(model.embedding.step(tokens[:, place], place), state=state)
        return draw(model.predict(x), random)

    return byte


# Timing ------------------------------------------------------------------------------------------


def timed(speed: Speed, device: torch.device) -> list[dict]:
    """A row a repeat. All contenders and batches take turns, round by round."""
    names = [name for name in speed.contenders if name != RIVAL or _rival_is_here()]
    models = {name: new_model(name, speed.dataset).to(device) for name in names}
    with torch.inference_mode():
        drawing, rows = _prepared(speed, models, device)
        for i in range(speed.rounds):
            for one in drawing:
                rows += _round(speed, i, *one)
        again = [name for name in speed.whole if name in models and name not in WITH_MEMORY]
        rows += [_whole(name, models[name], device) for name in again]
    return rows


def _rival_is_here() -> bool:
    return mechanism("authors").unavailable("float32") is None


Drawing = tuple[str, int, nn.Module, Byte, dict[str, int]]
"""A contender, its batch, its model, how it draws a byte, and its bytes an image."""


def _prepared(
    speed: Speed, models: Mapping, device: torch.device
) -> tuple[list[Drawing], list[dict]]:
    """What is to be timed, and rows of what does not fit."""
    drawing, skipped = [], []
    for batch, (name, model) in product(
        sorted({*speed.batches, *speed.full_batches}), models.items()
    ):
        if batch not in (speed.batches if name in WITH_MEMORY else speed.full_batches):
            continue
        if why := does_not_fit(name, model, batch, device):
            skipped.append(_row(name, batch, "skipped", why=why))
            continue
        byte, kept = _byte(name, model, batch)
        peak = measure.peak_bytes(partial(byte, model.sizes.length - 1), device) // batch
        drawing.append((name, batch, model, byte, {"kept_bytes": kept, "peak_bytes": peak}))
    return drawing, skipped


def _round(
    speed: Speed, i: int, name: str, batch: int, model: nn.Module, byte: Byte, size: dict[str, int]
) -> list[dict]:
    device, length = next(model.parameters()).device, model.sizes.length
    count, rows = speed.steps if name in WITH_MEMORY else 1, []
    for place, part in places(length, speed.positions):
        one = partial(_bytes, byte, min(place, length - count), count)
        time = measure.cpu_seconds(one, device) / count
        more = {"position": place, "part": part, "round": i, "seconds": time}
        rows.append(_row(name, batch, "sample", **more, **size))
    if batch == 1 and name in speed.whole and name in WITH_MEMORY:
        rows.append(_whole(name, model, device, byte, i))
    return rows


def _bytes(byte: Byte, place: int, count: int) -> None:
    for i in range(count):
        byte(place + i)


def places(length: int, count: int) -> Iterator[tuple[int, float]]:
    """Where bytes are sampled, and for how many of ``length`` bytes each stands."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        yield int((node + 1) / 2 * length), weight / 2 * length


def _whole(
    name: str, model: nn.Module, device: torch.device, byte: Byte | None = None,
    round: int | None = None,
) -> dict:  # fmt: skip
    """A whole image: every byte of the memory that is there, or by full passes, once."""
    one = partial(generate, model, torch.zeros(1, 1, dtype=torch.int64), form="full")
    if byte:
        one = partial(_bytes, byte, 0, model.sizes.length)
    return _row(name, 1, "whole", round=round, seconds=measure.cpu_seconds(one, device))


def _row(name: str, batch: int, what: str, **more: Any) -> dict:
    empty = dict.fromkeys(
        ("position", "part", "round", "seconds", "kept_bytes", "peak_bytes", "why")
    )
    return {"contender": name, "batch": batch, "what": what} | empty | more


def does_not_fit(name: str, model: nn.Module, batch: int, device: torch.device) -> str | None:
    """Why a batch cannot be held; None if it can."""
    s = model.sizes
    width = s.length if name not in WITH_MEMORY or name == "softmax-cache" else s.d_model
    need = 4 * batch * s.d_model * width * 2 * s.n_layers
    if name not in WITH_MEMORY:
        need = (
            4 * batch * s.length * (8 * s.d_ff + (s.n_heads * s.length if name == "softmax" else 0))
        )
    free = measure.free_bytes(device)
    if need <= SPARE * free:
        return None
    return f"needs about {need / 1e9:.1f} GB, of {free / 1e9:.1f} GB that are free"
