"""Rows -> the verdict on X3, and what of a lead is the method's."""

import math

import pandas as pd

from replication.experiments.base import INCONCLUSIVE, Verdict
from replication.experiments.equal_care.numbers import OPPONENTS
from replication.experiments.scaling.contenders import words
from replication.experiments.scaling.rules import faster_by
from replication.experiments.scaling.run import Evidence
from replication.stats import ask, measured_crossover, ratios

EQUAL, FUSED = OPPONENTS


def pays(evidence: Evidence, from_length: int) -> Verdict:
    """Is linear attention faster than softmax of equal care from this length on?"""
    elsewhere = evidence.facts["machine"]["device"] != "cpu" and "Our tiles are for processors."
    if why := evidence.refused or elsewhere:
        return Verdict(INCONCLUSIVE, why, {})
    found = faster_by(evidence.layer, "linear", EQUAL, from_length)
    crossing = ask(measured_crossover, evidence.layer, "linear", EQUAL)
    said = f" Training one causal layer, {crossing.sentence(words())}." if crossing else ""
    return found._replace(evidence=found.evidence + said)


def shares(evidence: Evidence) -> pd.DataFrame:
    """By N, how many times as long softmax takes: of equal care, which is the method's part,
    and fused; and the method's share of the latter, of logarithms, where both take longer."""
    found = pd.DataFrame({name: ratios(evidence.layer, "linear", name)["value"]
                          for name in OPPONENTS}).dropna()  # fmt: skip
    share = found[EQUAL].map(math.log) / found[FUSED].map(math.log)
    return found.assign(share=share.where(found.min(axis=1) > 1))
