"""How fast images are drawn at the published sizes; the weights need not be trained for that.

One image by a contender with a memory is drawn whole. Else the time of a byte is measured at some
places and summed with weights (Gauss-Legendre quadrature): exact for costs that grow as N or N^2,
as those that look up, or compute again, all that came before. Both ways are compared. A unit is a
run, by the clock and the rounds of all timings. What a contender keeps is counted in bytes.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
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
from replication.experiments.timing import clock_of, runs_of
from replication.measure.rounds import Cell, Outcome
from replication.model import Sizes
from replication.store import Result, Unit

MECHANISMS = {"linear": "linear", "softmax-cache": "softmax", "softmax": "softmax-textbook",
              "softmax-fused": "softmax", RIVAL: "linear"}  # fmt: skip
"""What each contender is made of; others have the name of a form of a mechanism."""
SPARE = 0.6
"""The share of free memory that may be filled; a contender that needs more is left out."""
Byte = Callable[[int], object]
"""Draws the byte after so many others."""


COLUMNS = ["contender", "batch", "what", "place", "part", "run", "round", "time_ms", "loops",
           "wall_ms", "cpu_ms", "wait_ms", "voluntary", "involuntary", "faults", "slowed",
           "disturbed", "kept_bytes", "peak_bytes", "why"]  # fmt: skip


class Timed(NamedTuple):
    """All rows of a data set: ``what`` is "sample", "whole", "checked", "bytes" or "skipped"."""

    rows: pd.DataFrame
    facts: dict[str, Any]

    @property
    def repeats(self) -> pd.DataFrame:
        return self.rows[self.rows.what.isin(["sample", "whole"])]

    @property
    def sizes(self) -> pd.DataFrame:
        """kept_bytes and peak_bytes of an image, by contender and batch."""
        rows = self.rows[self.rows.what == "bytes"]
        return rows.set_index(["contender", "batch"])[["kept_bytes", "peak_bytes"]]


def speed_units(profile: str, device: str = "auto") -> list[Unit]:
    where = measure.pick_device(device)
    return [unit for speed in SPEEDS[profile] for unit in _units(speed, where)]


def _units(speed: Speed, device: torch.device) -> list[Unit]:
    cards = [mechanism(_made_of(name)[0]) for name in speed.contenders]
    steps = [step for card in cards if (m := card.memory) for step in (m.begin, m.step)]
    code = (timed, *dict.fromkeys([*(card.attend for card in cards), *steps]))
    numbers = speed._asdict() | {"device": str(device), **sizes_of(speed.dataset)}
    make = lambda i: partial(timed, speed, i, device)  # noqa: E731
    return runs_of("images", numbers, code, make, speed.name)


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


def timed(speed: Speed, run: int, device: torch.device, _: Path) -> Result:
    """A row a repeat of a cell: a contender and batch at one place, or at its end a whole image."""
    names = [name for name in speed.contenders if name != RIVAL or _rival_is_here()]
    models = {name: new_model(name, speed.dataset).to(device) for name in names}
    with torch.inference_mode(), clock_of(device) as (timed_by, where):
        drawing, rows = _prepared(speed, models, device)
        # warm, as the bytes before have left the weights in the caches when an image is drawn
        outcome = timed_by(_calls(speed, drawing), speed, run, speed.seconds, warm=True)
        if run == 0:
            rows += [_checked(name, models[name], device) for name in speed.checked
                     if name in models]  # fmt: skip
            rows += [_row(one.contender, one.batch, "bytes", **one.bytes(device))
                     for one in drawing]  # fmt: skip
    facts = {"machine": measure.machine(device), "pinned": where}
    return Result(_frame(outcome, rows, speed), facts | {"outcomes": {"bytes": outcome.sentence()}})


def _rival_is_here() -> bool:
    return mechanism("authors").unavailable("float32") is None


class Drawing(NamedTuple):
    """How a contender draws a byte of a batch, and the bytes that it keeps an image."""

    contender: str
    batch: int
    byte: Byte
    kept: int
    length: int

    def bytes(self, device: torch.device) -> dict[str, int]:
        peak = measure.peak_bytes(partial(self.byte, self.length - 1), device) // self.batch
        return {"kept_bytes": self.kept, "peak_bytes": peak}


def _prepared(
    speed: Speed, models: Mapping[str, nn.Module], device: torch.device
) -> tuple[list[Drawing], list[dict]]:
    """What is to be timed, and rows of what does not fit."""
    drawing, skipped = [], []
    for name, model in models.items():
        for batch in speed.batches if name in WITH_MEMORY else speed.full_batches:
            if why := does_not_fit(name, model, batch, device):
                skipped.append(_row(name, batch, "skipped", why=why))
            else:
                byte, kept = _byte(name, model, batch)
                drawing.append(Drawing(name, batch, byte, kept, model.sizes.length))
    return drawing, skipped


def _calls(speed: Speed, drawing: list[Drawing]) -> dict[Cell, Callable[[], object]]:
    calls = {}
    for one in drawing:
        cell = f"{one.contender}@{one.batch}"
        steps = _steps(speed, one.contender)
        for place, _ in places(one.length, speed.positions):
            calls[cell, place] = partial(_bytes, one.byte, min(place, one.length - steps), steps)
        if one.batch == 1 and one.contender in speed.whole:
            calls[cell, one.length] = partial(_bytes, one.byte, 0, one.length)
    return calls


def _steps(speed: Speed, contender: str) -> int:
    return speed.steps if contender in WITH_MEMORY else 1


def _bytes(byte: Byte, first: int, count: int) -> None:
    for place in range(first, first + count):
        byte(place)


def places(length: int, count: int) -> Iterator[tuple[int, float]]:
    """Where bytes are sampled, and for how many of ``length`` bytes each stands."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        yield int((node + 1) / 2 * length), weight / 2 * length


def _checked(name: str, model: nn.Module, device: torch.device) -> dict:
    """One whole image, as a user would draw it."""
    form = "memory" if name in WITH_MEMORY else "full"
    one = partial(generate, model, torch.zeros(1, 1, dtype=torch.int64), form=form)
    return _row(name, 1, "checked", time_ms=1e3 * measure.cpu_seconds(one, device))


def _row(contender: str, batch: int, what: str, **more: Any) -> dict:
    return {"contender": contender, "batch": batch, "what": what} | more


def _frame(outcome: Outcome, others: list[dict], speed: Speed) -> pd.DataFrame:
    """``place`` is that of the byte; of a whole image the number of its bytes."""
    parts = dict(places(sizes_of(speed.dataset)["bytes"] - 1, speed.positions))
    rows = outcome.rows.rename(columns={"N": "place"})
    rows[["contender", "batch"]] = [cell.split("@") for cell in rows.contender]
    rows = rows.assign(part=rows.place.map(parts), batch=rows.batch.astype(int))
    rows["what"] = np.where(rows.part.isna(), "whole", "sample")
    rows["time_ms"] /= [_steps(speed, one.contender) if one.what == "sample" else 1
                        for one in rows.itertuples()]  # fmt: skip
    late = [_row(*cell.split("@"), "skipped", place=place, why=why)
            for (cell, place), why in outcome.skipped.items()]  # fmt: skip
    found = pd.concat([rows, pd.DataFrame(others + late)], ignore_index=True)
    return found.reindex(columns=COLUMNS)


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
