"""Rows and plan of the benchmark -> the tables of notebook 04. No disk, no drawing."""

from collections.abc import Iterator

import pandas as pd

from replication.benchmark import LAYER
from replication.crossover import growth_exponent
from replication.crossover.tables import FEWEST, ratios

QUANTITIES = ("time_ms", "peak_bytes", "flops")
REFERENCE = "linear"
KIND = ["subject", "direction", "causal"]
OWN, PUBLISHED = "here", "published"


# The plan ----------------------------------------------------------------------------------


def costs(plan: pd.DataFrame) -> pd.DataFrame:
    """By kind of measurement: how many cells, and what was predicted and spent, in seconds.

    Predicted are the fewest rounds, spent are all. ``call`` compares the same on both sides: how
    many times its predicted time a call took, the median over cells.
    """
    kept = plan[plan["status"] != "skipped"]
    kept = kept.assign(call=kept["measured_call_ms"] / kept["predicted_call_ms"])
    spent = kept.groupby(KIND)[["predicted_seconds", "measured_seconds"]].sum()
    states = plan.groupby(KIND)["status"].value_counts().unstack(fill_value=0)
    states = states.reindex(columns=["measured", "noisy", "skipped"], fill_value=0)
    return states.join(spent).join(kept.groupby(KIND)["call"].median())


def left_out(plan: pd.DataFrame) -> pd.DataFrame:
    """By subject, contender and cause: how many cells were skipped, where, and the first reason."""
    skipped = plan[plan["status"] == "skipped"]
    cause = skipped["reason"].str.extract(r"^(time|memory):", expand=False).fillna("not available")
    found = skipped.groupby(["subject", "contender", cause.rename("for want of")])
    return found.agg(
        cells=("N", "size"), shortest=("N", "min"), longest=("N", "max"), first=("reason", "first")
    )


def noisy_cells(plan: pd.DataFrame) -> pd.DataFrame:
    """By kind of measurement: contenders and N whose ratio to linear attention stayed unsure."""
    noisy = plan[plan["status"] == "noisy"].astype({"N": str})
    lengths = noisy.groupby([*KIND, "contender"], sort=False)["N"].agg(", ".join).reset_index()
    lengths["cells"] = lengths["contender"] + ": " + lengths["N"]
    return lengths.groupby(KIND)["cells"].agg("; ".join).to_frame()


# Growth and ratios -------------------------------------------------------------------------


def key_numbers(rows: pd.DataFrame, shortest: int) -> pd.DataFrame:
    """One number a row: exponents at N >= shortest, and ratios at the longest common N."""
    return pd.concat([exponents(rows, shortest), longest_ratios(rows)], ignore_index=True)


def exponents(rows: pd.DataFrame, shortest: int) -> pd.DataFrame:
    """Of every contender and quantity of a layer; without a value where lengths are too few."""
    found = []
    for setting, own, quantity in _curves(rows):
        long = own[own["N"] >= shortest]
        row = setting | {"number": "exponent", "quantity": quantity, "lengths": long["N"].nunique()}
        if row["lengths"] >= FEWEST[growth_exponent]:
            x = growth_exponent(long, setting["contender"], quantity)
            names = ("shortest", "longest", "value", "low", "high")
            row |= {name: getattr(x, name) for name in names}
        found.append(row)
    columns = ["direction", "causal", "contender", "number", "quantity", "lengths",
               "shortest", "longest", "value", "low", "high"]  # fmt: skip
    return pd.DataFrame(found).reindex(columns=columns)


def longest_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """How many times the cost of linear attention the others', at the longest N of both."""
    found = []
    for setting, own, quantity in _curves(rows):
        same = (rows["direction"] == setting["direction"]) & (rows["causal"] == setting["causal"])
        ours = rows[same & (rows["contender"] == REFERENCE)]
        if setting["contender"] == REFERENCE or not set(own["N"]) & set(ours["N"]):
            continue
        last = ratios(pd.concat([ours, own]), REFERENCE, setting["contender"], quantity).iloc[-1]
        row = setting | {"number": "ratio", "quantity": quantity, "lengths": 1}
        row |= {"shortest": last.name, "longest": last.name, "value": last["ratio"]}
        found.append(row | {"low": last["low"], "high": last["high"]})
    return pd.DataFrame(found)


def _curves(rows: pd.DataFrame) -> Iterator[tuple[dict, pd.DataFrame, str]]:
    """The rows of each contender of a layer in each setting, for each quantity it has."""
    names = ["direction", "causal", "contender"]
    for key, own in rows[rows["subject"] == LAYER].groupby(names, sort=False):
        for quantity in QUANTITIES:
            known = own.dropna(subset=quantity)
            if len(known):
                yield dict(zip(names, key, strict=True)), known, quantity


# Work and whole models ---------------------------------------------------------------------


def work(rows: pd.DataFrame, flops_per_s: float) -> pd.DataFrame:
    """Median cells of a layer with counted FLOPs; ``share`` of the machine's rate of products."""
    layers = rows[rows["subject"] == LAYER].dropna(subset="flops")
    cells = layers.groupby(["direction", "causal", "contender", "N"], sort=False)
    found = cells[["time_ms", "flops"]].median().reset_index()
    return found.assign(share=found["flops"] / (found["time_ms"] * 1e-3) / flops_per_s)


def steps(rows: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds of a whole training step by model and N, ours beside the earlier ones.

    A step has the largest batch of its model, the published one; where a smaller batch was
    measured it is scaled up. ``published`` has contender, N, step_ms, for the model ``earlier``.
    """
    models = rows[rows["subject"] != LAYER]
    batch = models.groupby("subject")["batch"].transform("max")
    ours = models.assign(step_ms=models["time_ms"] * batch, where=OWN)
    theirs = published.assign(subject="earlier", where=PUBLISHED)
    both = pd.concat([ours, theirs])[["subject", "N", "where", "contender", "step_ms"]]
    return both.pivot_table("step_ms", ["subject", "N"], ["where", "contender"], aggfunc="median")


def linear_over(table: pd.DataFrame) -> pd.DataFrame:
    """How many times as long a step takes with linear attention, from the table of ``steps``."""
    others = [name for name in table if name[1] != REFERENCE and (name[0], REFERENCE) in table]
    return pd.DataFrame({name: table[name[0], REFERENCE] / table[name] for name in others})
