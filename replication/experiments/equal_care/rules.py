"""Rows -> the verdict on X3, and what of a lead is the method's."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch

from replication.attention import look_of
from replication.attention.compiled import sizes_of
from replication.experiments.base import INCONCLUSIVE, Verdict
from replication.experiments.equal_care.numbers import OPPONENTS
from replication.experiments.scaling.contenders import words
from replication.experiments.scaling.rules import KERNELS, faster_by
from replication.experiments.scaling.run import Evidence
from replication.stats import ask, brief, measured_crossover, ratios

EQUAL, FUSED = OPPONENTS


def undecided(evidence: Evidence) -> str:
    elsewhere = evidence.facts["machine"]["device"] != "cpu"
    return evidence.refused or "Our tiles are for processors." * elsewhere


def pays(evidence: Evidence, from_length: int) -> Verdict:
    """Is linear attention faster than softmax of equal care from this length on?"""
    if why := undecided(evidence):
        return Verdict(INCONCLUSIVE, why, {})
    found = faster_by(evidence.layer, "linear", EQUAL, from_length)
    crossing = ask(measured_crossover, evidence.layer, "linear", EQUAL)
    said = f" Training one causal layer, {crossing.sentence(words())}." if crossing else ""
    whole = whole_until(*evidence.layer[["heads", "head_dim"]].iloc[0])
    said += (f" Up to N = {whole} our kernel compares all pairs of positions, as softmax does: a "
             "lead there is not that of linear growth.")  # fmt: skip
    more = found.values | {"whole_until": whole}
    return found._replace(evidence=found.evidence + said, values=more)


def whole_until(heads: int, features: int) -> int:
    """The longest sequences that our kernel leaves in one block, of which it compares all pairs."""
    lengths = range(16, 1024, 16)
    asked = [torch.empty(1, int(heads), N, int(features), device="meta") for N in lengths]
    return max(x.shape[2] for x in asked if sizes_of(x, x).block >= x.shape[2])


def answers(every: Mapping[str, Any]) -> dict[str, str]:
    """From which N on it is faster, in words, if that was measured."""
    one = every.get("equal_care")
    if not one or undecided(one):
        return {}
    found = brief(ask(measured_crossover, one.layer, "linear", EQUAL))
    return {f"{KERNELS['linear']}: less time than {look_of(EQUAL).words}": found}


def shares(evidence: Evidence) -> pd.DataFrame:
    """By N, how many times as long softmax takes: of equal care, which is the method's part,
    and fused; and the method's share of the latter, of logarithms, where both take longer."""
    found = pd.DataFrame({name: ratios(evidence.layer, "linear", name)["value"]
                          for name in OPPONENTS}).dropna()  # fmt: skip
    share = found[EQUAL].map(math.log) / found[FUSED].map(math.log)
    return found.assign(share=share.where(found.min(axis=1) > 1))
