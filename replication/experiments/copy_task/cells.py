"""A cell is what was seen at one length: its answers, and what they rest on, in words."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from replication.attention import look_of
from replication.experiments.base import signed
from replication.experiments.copy_task.numbers import FACTOR, FEWEST_SEEDS, LEARNT, MARGIN

ENDS = ("mean", "low", "high")


def answers(cell: dict) -> list[bool | None]:
    return [cell[name] for name in ("converges", "reaches", "same_factor", "stable")]


def steady(cell: dict) -> bool | None:
    """Whether spikes are certainly few enough; that they are too many ``instability`` says."""
    return True if cell["spike_interval"][1] <= cell["spikes_allowed"] else None


def called(attention: str) -> str:
    """To readers: softmax, linear, LSH."""
    return look_of(attention).label.partition(",")[0]


def nats(value: float) -> str:
    return signed(value, 4 if abs(value) < 0.1 else 2)


def fold(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def interval(mean: float, low: float, high: float, name: str) -> str:
    return f"{nats(mean)} nats per token ({name} {nats(low)} to {nats(high)}"


def failure(fails: bool | None, cell: dict) -> str:
    """What is against convergence at one length."""
    pair, times, seen = cell["difference"], cell["factor"], [instability(cell)]
    if cell["same_factor"] is False:
        seen.append(f"{fold(times['mean'])} times the loss of softmax")
    words = ", ".join(filter(None, seen)) or {None: "open", False: "stable"}.get(fails, "unlike")
    apart = f"losses differ by {nats(pair['mean'])} nats per token" if pair["n"] > 1 else "one seed"
    return f"N = {cell['length']}: {words}, {apart}"


def still(cell: dict) -> str:
    """What is copied in spite of a loss that is many times that of softmax."""
    times, exact = fold(cell["factor"]["mean"]), 100 * cell["exact_match"]["linear"]
    return (f" At N = {cell['length']}, with {times} times the loss, linear attention copies "
            f"{exact:.1f} % of the words whole (median).")  # fmt: skip


def sentence(cell: dict) -> str:
    """What was seen at one length, and what is missing."""
    both, exact, pair = ("linear", "softmax"), cell["exact_match"], cell["difference"]
    learnt = " and ".join("{1} of {2} {0}".format(name, *cell[f"{name}_learnt"]) for name in both)
    words = " and ".join(f"{100 * exact[name]:.0f} %" for name in both if name in exact)
    found = [f"{_size(cell)}: {learnt} runs copy at least {100 * LEARNT:g} % of the symbols "
             f"(whole words: {words}, medians)"]  # fmt: skip
    if pair["n"] > 1:
        ends = interval(pair["mean"], pair["low"], pair["high"], "90 % interval")
        found.append(f"linear minus softmax is {ends}, margin {MARGIN:.3f})")
    if (times := cell["factor"])["mean"]:
        ends = f"{fold(times['low'])} to {fold(times['high'])}, {FACTOR:g} allowed"
        found.append(f"its loss is {fold(times['mean'])} times that of softmax ({ends})")
    found.append(instability(cell) or _calm(cell))
    if missing := _missing(cell):
        found.append(f"undecided for lack of {missing}")
    return "; ".join(found) + "."


def aside(cell: dict) -> str:
    """What was seen at a length that decides nothing beside the others."""
    ends = " and ".join(f"{loss:.2g} ({called(name)})" for name, loss in cell["final_loss"].items())
    few = f"with {cell['seeds']} of {FEWEST_SEEDS} seeds"
    short = cell["updates"] < cell["published_updates"]
    less = "with fewer updates" if short else "with less width"
    why = few if cell["seeds"] < FEWEST_SEEDS else less
    return f"{_size(cell)} decides nothing, {why}: losses end at {ends} nats per token."


def _size(cell: dict) -> str:
    width = f"Width {cell['width']}, " if "width" in cell else ""
    return f"{width}N = {cell['length']}"


def _calm(cell: dict) -> str:
    if steady(cell):
        return "all linear runs are stable"
    low, high = cell["spike_interval"]
    rate, most = cell["spikes_per_1000"].get("linear", 0), cell["spikes_allowed"]
    return (f"{rate:.1f} spikes in 1000 linear updates ({low:.1f} to {high:.1f}, {most:.2g} "
            "allowed) leave stability open")  # fmt: skip


def instability(cell: dict) -> str:
    """Each respect in which the linear runs of one length are not stable; empty if in none."""
    rates, found = {"linear": 0, "softmax": 0} | cell["spikes_per_1000"], []
    if cell["linear_stopped"]:
        found.append(f"{cell['linear_stopped']} linear runs stopped early")
    if cell["above_lowest"] > MARGIN:
        found.append(f"a linear run ends {cell['above_lowest']:.3f} above its own lowest loss")
    if cell["spike_interval"][0] > cell["spikes_allowed"]:
        most = f"{cell['spikes_allowed']:.2g} allowed; softmax {rates['softmax']:.1f}"
        found.append(f"{rates['linear']:.1f} spikes in 1000 linear updates ({most})")
    return ", ".join(found)


def _missing(cell: dict) -> str:
    """What might have decided a question that is open."""
    if cell["seeds"] < FEWEST_SEEDS:
        return f"at least {FEWEST_SEEDS} seeds of both"
    if None not in answers(cell)[:3]:
        return ""
    if cell["updates"] < cell["published_updates"]:
        return f"updates: {cell['updates']} of {cell['published_updates']} were made"
    learnt = (2 * a > b for a, b in (cell["linear_learnt"], cell["softmax_learnt"]))
    return "more seeds" if any(learnt) else "a mechanism that learns to copy"


def overview(evidence: Any, judged: Mapping[str, list[dict]]) -> pd.DataFrame:
    """What C1 and E1 are judged by, ``judged`` by setting and length; linear before softmax. The
    cells of a setting's wider model, which have a width, stand behind its others."""
    parts = [(f"{setting},\u00a0wide" if "width" in cell else setting,
              evidence.wide.runs if "width" in cell else found.runs, cell)
             for setting, found in evidence.settings.items()
             for cell in sorted(judged[setting], key=lambda one: "width" in one)]  # fmt: skip
    return pd.DataFrame(_line(setting, cell, runs) for setting, runs, cell in parts)


def _line(setting: str, cell: dict, runs: pd.DataFrame) -> dict:
    pair, times, letters = cell["difference"], cell["factor"], {True: "y", False: "n"}
    loss = runs[runs.length == cell["length"]].groupby("attention").final_loss.median()
    both = [name for name in ("linear", "softmax") if name in loss]
    ratio = times["mean"] and "{} ({} to {})".format(*map(fold, times.values()))
    apart = pair["n"] > 1 and "{}\n({},\u00a0{})".format(*map(nats, map(pair.get, ENDS)))
    return {
        "Setting": f"*{setting}*",
        "N": cell["length"],
        "≥ 99 %": ", ".join("{}/{}".format(*cell[f"{name}_learnt"]) for name in both),
        "Words (%)": ", ".join(f"{100 * cell['exact_match'][name]:.0f}" for name in both),
        "Final loss": ", ".join(nats(loss[name]).lstrip("+") for name in both),
        "Difference (90 %)": apart or "–",
        "Ratio (90 %)": ratio or "–",
        "Spikes": ", ".join(f"{cell['spikes_per_1000'][name]:.1f}" for name in both),
        "a\u00a0b\u00a0c\u00a0d": "\u00a0".join(letters.get(one, "o") for one in answers(cell)),
    }
