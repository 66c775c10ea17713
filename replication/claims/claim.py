"""What a claim is, what it is judged by, and what a verdict says."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import pandas as pd
import yaml

from replication.convergence.rule import INCONCLUSIVE, NOT, PARTLY, SUPPORTED

OUTCOMES = (SUPPORTED, PARTLY, NOT, INCONCLUSIVE)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One entry of paper/claims.yaml."""

    id: str
    title: str
    by: str
    where: str
    claim: str
    earlier: str
    quantity: str
    test: str
    numbers: dict[str, Any]
    rule: str


class Evidence(NamedTuple):
    """The rows of one run of the experiments."""

    runs: dict[str, pd.DataFrame]
    """By setting, one row a trained model: ``convergence.summarise``."""
    published_updates: dict[str, int]
    scaling: pd.DataFrame
    """Measured rows of the scaling benchmark."""
    decoding: pd.DataFrame
    """Rows of ``decoding_cost``."""


class Verdict(NamedTuple):
    """An outcome, what was seen in one sentence, and the numbers behind it."""

    outcome: str
    evidence: str
    values: dict[str, Any]


def parse(text: str, known_tests: Iterable[str]) -> list[Claim]:
    """The claims of a YAML file, if all of them are whole; rules with their numbers filled in."""
    entries = yaml.safe_load(text)
    if not isinstance(entries, list) or not entries:
        raise ValueError("The claims file holds no list of claims. See paper/claims.yaml.")
    claims = [_claim(entry, set(known_tests)) for entry in entries]
    ids = [claim.id for claim in claims]
    twice = sorted({id for id in ids if ids.count(id) > 1})
    if twice:
        raise ValueError(f"The claim id {twice[0]} is given twice. Ids must differ.")
    return claims


def _claim(entry: dict, known_tests: set[str]) -> Claim:
    names = {field.name for field in fields(Claim)}
    which = f"The claim {entry.get('id', '')!r}"
    if missing := sorted(names - set(entry)):
        raise ValueError(f"{which} lacks {', '.join(missing)}. Give every claim all entries.")
    if surplus := sorted(set(entry) - names):
        raise ValueError(f"{which} has unknown entries: {', '.join(surplus)}.")
    if entry["test"] not in known_tests:
        raise ValueError(
            f"{which} asks for the test {entry['test']!r}, which is unknown. Choose one of: "
            f"{', '.join(sorted(known_tests))}."
        )
    rule = entry["rule"].format(**entry["numbers"])
    return Claim(**entry | {"rule": re.sub(r"(?<=\d)%", " %", rule)})
