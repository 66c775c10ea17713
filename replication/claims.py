"""Every claim, judged in one place by the rule and the numbers that paper/claims.yaml gives."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from replication import experiments, store
from replication.experiments.base import NOT_RUN, Verdict, listed, one_of, some

FILE = store.PAPER / "claims.yaml"


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
    experiment: str
    test: str
    numbers: dict[str, Any]
    rule: str


def claims() -> list[Claim]:
    return parse(FILE.read_text())


def parse(text: str) -> list[Claim]:
    """The claims of a YAML file, if all of them are whole; rules with their numbers filled in."""
    import yaml

    entries = yaml.safe_load(text)
    if not (isinstance(entries, list) and entries and all(isinstance(x, dict) for x in entries)):
        raise ValueError("The claims file holds no list of claims. See paper/claims.yaml.")
    found = [_claim(entry) for entry in entries]
    some("The list of ids", [claim.id for claim in found])
    return found


def _claim(entry: dict) -> Claim:
    names, which = {field.name for field in fields(Claim)}, f"The claim {entry.get('id', '')!r}"
    if missing := sorted(names - set(entry)):
        raise ValueError(f"{which} lacks {', '.join(missing)}. Give every claim all entries.")
    if surplus := sorted(set(entry) - names):
        raise ValueError(f"{which} has unknown entries: {', '.join(surplus)}.")
    one_of(f"{which}: experiment", entry["experiment"], experiments.every())
    one_of(f"{which}: test", entry["test"], experiments.every()[entry["experiment"]].rules)
    rule = entry["rule"].format(**entry["numbers"])
    return Claim(**entry | {"rule": re.sub(r"(?<=\d)%", " %", rule)})


def judge(claims: Sequence[Claim], evidence: Mapping[str, Any]) -> dict[str, Verdict]:
    """The verdict on every claim by its id; ``evidence`` has those experiments that were run."""
    found = {claim.id: Verdict(NOT_RUN, "Not run here.", {}) for claim in claims}
    for claim in claims:
        if claim.experiment in evidence:
            rule = experiments.every()[claim.experiment].rules[claim.test]
            found[claim.id] = rule(evidence[claim.experiment], **claim.numbers)
    return found


def judge_with(experiment: str, evidence: Any) -> dict[str, Verdict]:
    """The verdicts on an experiment's own claims, as its notebook shows them."""
    own = [claim for claim in claims() if claim.experiment == experiment]
    return judge(own, {experiment: evidence})


# What notebooks show, as Markdown -------------------------------------------------------------

OUTCOME = r"supported|not supported|partly supported|inconclusive"
HISTORY = re.compile(r"(?<=\.) \(([A-Z].*\.)\)$", re.DOTALL)
"""The end of a rule, in brackets: what was changed, and what had been seen by then."""
SEMICOLON = r"|; (?![^(]*\))"
"""None within brackets."""


def sentences(text: str, end: str = "") -> list[str]:
    return re.split(r"(?<=[.?]) (?=[A-Z])" + end, text)


def rules_in_words(asked: Iterable[Claim]) -> str:
    """What is claimed, and below it the rule, a line a sentence and an outcome; its history is
    folded. Claims that have their rule in common share the lines."""
    by_rule: dict[str, list[Claim]] = {}
    for claim in asked:
        by_rule.setdefault(claim.rule, []).append(claim)
    found = []
    for rule, own in by_rule.items():
        found += [f"**{one.id}, {one.title}** ({one.where}): {one.claim}" for one in own]
        found += [f"The rule of {listed(one.id for one in own)}:"] * (len(own) > 1)
        found.append("\n".join(f"- {line}" for line in _lines(HISTORY.sub("", rule))))
        if history := HISTORY.search(rule):
            summary = "<summary>What was changed, and when</summary>"
            found.append(f"<details>{summary}\n\n{history[1]}\n\n</details>")
    return "\n\n".join(found)


def _lines(rule: str) -> list[str]:
    """Sentences; one that tells of outcomes is taken apart into these."""
    case = rf"[,;] (?=(?:{OUTCOME}) if |else )"
    parts = [re.split(case, one) if re.match(rf"(?i:{OUTCOME}) if ", one) else [one]
             for one in sentences(rule)]  # fmt: skip
    return [re.sub(rf"^((?:else )?(?i:{OUTCOME}))\b(?= if |,|\.|$)", r"**\1**", line)
            for own in parts for line in own]  # fmt: skip


def origin(profile: str, made: Iterable[Mapping[str, Any]]) -> str:
    """Of which profile, source and machine the outputs of a notebook are, by provenances."""
    if not (made := sorted(made, key=lambda one: one.get("started", ""))):  # the first had none
        return f"Of profile {profile} there are no rows here."
    commits = [f"`{commit}`" for commit in dict.fromkeys(one["commit"] for one in made)]
    many = f"{len(commits)} commits, the last of them " if len(commits) > 1 else "commit "
    places = " and ".join(dict.fromkeys(place(one) for one in made))
    usual = "" if profile == "quick" else " Run unchanged, this notebook measures profile `quick`."
    return f"**Shown is profile {profile}**, measured at {many}{commits[-1]} on {places}.{usual}"


def place(made: Mapping[str, Any]) -> str:
    """The machine of a provenance: two with different systems are two."""
    machine = made["machine"]
    device = "" if machine["device"] == "cpu" else f", {machine['device']}"
    return f"{machine['processor']} ({machine['cores']} cores{device}, {machine['system']})"


def in_short(verdicts: Mapping[str, Verdict]) -> str:
    """A line a claim: id, title, outcome."""
    return "\n".join(f"- {one.id}, {one.title}: **{verdicts[one.id].outcome}**"
                     for one in claims() if one.id in verdicts)  # fmt: skip


def in_full(verdicts: Mapping[str, Verdict], profile: str) -> str:
    """Of every claim what it says, the outcome, and the evidence, a line a sentence or part."""
    found = []
    for one in (one for one in claims() if one.id in verdicts):
        outcome, seen, _ = verdicts[one.id]
        found.append(f"**{one.id}, {one.title}; profile {profile}: {outcome}.** {one.claim}")
        found.append("\n".join(f"- {line}" for line in sentences(seen, SEMICOLON)))
    return "\n\n".join(found)


def save(folder: Path, profile: str, verdicts: Mapping[str, Verdict], **more: Any) -> Path:
    """verdicts.json: every claim with its outcome, evidence and numbers, for machines."""
    said = ("title", "by", "where", "rule")
    found = {claim.id: {name: getattr(claim, name) for name in said}
             | verdicts[claim.id]._asdict() for claim in claims()}  # fmt: skip
    path = folder / "verdicts.json"
    content = store.to_json({"profile": profile, "claims": found} | more)
    known = json.loads(content, parse_constant=lambda _: None)  # JSON has neither NaN nor infinity
    store.write_whole(path, store.to_json(known))
    return path


def load(profile: str, folder: Path | None = None) -> dict[str, Any] | None:
    """What ``save`` wrote; None if that profile was not judged here.

    Verdicts by other rules than the present ones are refused: they cannot be compared.
    """
    path = (folder or store.RESULTS / profile) / "verdicts.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        rules = {id: one["rule"] for id, one in found["claims"].items()}
        whole = all({"outcome", "evidence"} <= set(one) for one in found["claims"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole or rules != {claim.id: claim.rule for claim in claims()}:
        other = "were reached by other rules than paper/claims.yaml has now"
        why = other if whole else "are damaged"
        raise store.StoreError(f"The verdicts in {path} {why}. Judge again with\n"
                               f"    replication render --profile {profile}")  # fmt: skip
    return found
