"""What is asked of an experiment's parameters, said in words, before any compute is spent."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from replication.attention import ATTENTIONS
from replication.measure import pick_device
from replication.model import ACTIVATIONS
from replication.tasks import TASKS


def one_of(name: str, value: object, known: Iterable[str]) -> None:
    if value not in (known := list(known)):
        raise ValueError(f"{name}={value!r} is unknown. Choose one of: {', '.join(known)}.")


def tidy(name: str, value: Any, like: Any) -> Any:
    """``value`` as the type of ``like``; "a, b", [a, b] and a are all understood as tuples."""
    if not isinstance(like, tuple):
        return _scalar(name, value, like)
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    values = list(value) if isinstance(value, Iterable) else [value]
    return tuple(_scalar(name, part, like[0]) for part in values)


def _scalar(name: str, value: Any, like: Any) -> Any:
    kind = type(like)
    try:
        converted = kind(value)
        right = not isinstance(value, bool) and (kind is str or converted == float(value))
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right:
        words = {int: "a whole number", float: "a number", str: "a word"}[kind]
        raise ValueError(f"{name}={value!r} is not {words}. Give {words}, for example {like}.")
    return converted


def check(experiment):
    """The experiment, with its device made definite, if it can be run; else an error."""
    e = experiment
    for name in ("attentions", "lengths", "seeds"):
        _some(name, getattr(e, name))
    for attention in e.attentions:
        one_of("attention", attention, ATTENTIONS)
    one_of("activation", e.activation, ACTIVATIONS)
    one_of("positions", e.positions, ("added", "concatenated"))
    for name, least in LEAST.items():
        _at_least(name, getattr(e, name), least)
    for length in e.lengths:
        _long_enough(length, e.setting)
    _heads(e.d_model, e.n_heads)
    _rates(e)
    return replace(e, device=str(pick_device(e.device)))


LEAST = {
    "steps": 0,
    "batch_size": 1,
    "symbols": 2,
    "d_model": 2,
    "n_heads": 1,
    "n_layers": 1,
    "d_ff": 1,
    "lr_drop_after": 0,
    "eval_every": 1,
    "eval_batches": 1,
    "threads": 1,
    "lsh_rounds": 1,
    "lsh_buckets": 2,
    "lsh_chunk": 1,
}


def _some(name: str, values: tuple) -> None:
    if not values:
        raise ValueError(f"{name} is empty, so there is nothing to run. Give at least one.")
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{name} holds {twice[0]!r} more than once. Name each of them once.")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name}={value} is too small. Choose at least {least}.")


def _long_enough(length: int, setting: str) -> None:
    shortest = TASKS[setting].shortest
    if length < shortest:
        raise ValueError(
            f"length={length} is too short for the copy task in the {setting} setting: the words "
            f"to be copied would have fewer than 2 symbols. Choose at least {shortest}."
        )


def _heads(d_model: int, n_heads: int) -> None:
    rest = d_model % n_heads
    if rest:
        near = -(-d_model // n_heads) * n_heads
        raise ValueError(
            f"d_model={d_model} cannot be split over n_heads={n_heads}: {rest} features would be "
            f"left over. Choose a multiple of {n_heads}, for example {near}."
        )


def _rates(e) -> None:
    for name in ("lr", "lr_drop", "eps", "clip"):
        if not 0 < getattr(e, name) < float("inf"):
            raise ValueError(f"{name}={getattr(e, name)} must be positive, like 0.001.")
    if not 0 <= e.weight_decay < float("inf"):
        raise ValueError(f"weight_decay={e.weight_decay} must not be negative. 0 is none.")
    if not 0 <= e.dropout < 1:
        raise ValueError(f"dropout={e.dropout} is a share. Choose it from 0 to below 1.")
    if not (len(e.betas) == 2 and all(0 <= beta < 1 for beta in e.betas)):
        raise ValueError(f"betas={e.betas} must be two numbers from 0 to below 1.")
    if e.attention_dropout:
        raise ValueError(
            f"attention_dropout={e.attention_dropout} cannot be had: linear attention never writes "
            "its weights down, so it would act on some mechanisms only. Set it to 0, and use "
            "dropout, which acts on all."
        )
    if e.lsh_buckets % 2:
        raise ValueError(f"lsh_buckets={e.lsh_buckets} is odd. Choose an even number.")
