"""One run of all experiments as the report takes it: rows, evidence, verdicts, and its tables."""

import re
from collections.abc import Iterable, Sequence
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from replication import claims, experiments, store
from replication.claims import HISTORY, Claim
from replication.experiments.base import Experiment, Verdict
from replication.report.prose import duration, number


class Run(NamedTuple):
    """All that the report says of one profile's results; what was not run is not in it."""

    profile: str
    folder: Path
    kept: dict[str, list[store.Kept]]
    evidence: dict[str, Any]
    verdicts: dict[str, Verdict]

    def of(self, experiment: str) -> Any:
        """The evidence of an experiment, without which there is nothing to tell."""
        if experiment not in self.evidence:
            raise store.StoreError(
                f"There are no results of {experiment} in {self.folder}. Measure them with\n"
                f"    replication run {experiment} --profile {self.profile}"
            )
        return self.evidence[experiment]


def load_run(profile: str, folder: Path | None = None, *, current: bool = True) -> Run:
    """The results of a profile in ``folder``, results/<profile> by default, and what they show.

    Of every experiment the units that are there: others may take hours or a download. Rows that
    are damaged or, if ``current``, of other code than the present are refused. A folder is judged
    by what it holds, whatever lies in results/ and on whatever device it was made.
    """
    kept, evidence = {}, {}
    for name, one in experiments.every().items():
        units = copy_context().run(_as_made, one, profile, folder) if folder else one.units(profile)
        there = [unit for unit in units if store.exists(unit, folder)]
        if there:
            kept[name] = [store.load(unit, folder, current=current) for unit in there]
            evidence[name] = one.evidence(kept[name])
    folder = folder or store.RESULTS / profile
    return Run(profile, folder, kept, evidence, claims.judge(claims.claims(), evidence))


def lacking(profile: str, folder: Path | None = None) -> str:
    """Of which experiments some units are there and others are not: these move verdicts unseen."""
    found = []
    for name, one in experiments.every().items():
        there = [store.exists(unit, folder) for unit in one.units(profile)]
        found += [f"{name} {there.count(False)} of {len(there)}"] * (len(set(there)) == 2)
    return ", ".join(found)


def _as_made(one: Experiment, profile: str, folder: Path) -> list[store.Unit]:
    """Units of the device that made those in ``folder``; to be called in a context of its own."""
    store.FOLDER.set(folder)
    facts = [store.provenance(path) for path in sorted((folder / one.name).glob("*.csv"))]
    made = {_on_any_device(x.get("numbers")): x.get("numbers") for x in facts}
    return [unit if store.exists(unit) else
            replace(unit, numbers=made.get(_on_any_device(unit.numbers), unit.numbers))
            for unit in one.units(profile)]  # fmt: skip


def _on_any_device(numbers: Any) -> str:
    return re.sub(r'"device": "[^"]*"', "", store.to_json(numbers).decode())


def rules(claims: Sequence[Claim]) -> pd.DataFrame:
    """Every claim with its source, what the earlier replication said of it, and a line each: what
    is measured, the rule by which that is judged, and in brackets how the rule came about."""
    found = {one.id: f"; earlier replication: {one.earlier}" for one in claims
             if not one.earlier.startswith(("not examined", "not asked", "its own"))}  # fmt: skip
    return pd.DataFrame(
        {"": f"**{one.id}**",
         "Claim, in our words": f"{one.claim} ({one.by}, {one.where}{found.get(one.id, '')})",
         "Measured, and rule": f"*{one.quantity[0].upper()}{one.quantity[1:]}.*\n"
                               + HISTORY.sub(r"\n(\1)", one.rule)}
        for one in claims
    )  # fmt: skip


def costs(run: Run, flops_per_s: float) -> pd.DataFrame:
    """Estimated before, measured after. Of a part either seconds are ``Estimated`` or ``Allowed``,
    or its ``Flops`` are known, and estimated at so many a second."""
    rows = []
    for name, evidence in run.evidence.items():
        for part in experiments.every()[name].costs(evidence):
            before = part["Flops"] / flops_per_s if "Flops" in part else part.get("Estimated")
            allowed = f"{duration(part['Allowed'])} allowed" if "Allowed" in part else ""
            said = re.sub(r"\b1 runs\b", "1 run", part["Part"])
            rows.append({"Experiment": said, "Measured after": duration(part["Measured"]),
                         "Estimated before": allowed or duration(before)})  # fmt: skip
    return pd.DataFrame(rows, columns=["Experiment", "Estimated before", "Measured after"])


def provenance(run: Run) -> pd.DataFrame:
    """A row an experiment: its units, and whence they come."""
    rows = []
    for name, kept in run.kept.items():
        found = pd.DataFrame(_origin(one.facts) for one in kept)
        systems = found.groupby("Machine")["System"].transform("nunique")
        several = [f" ({n} systems)" * (n > 1) for n in systems]
        found["Machine"] += several  # of one name, but not one machine
        said = {key: "; ".join(dict.fromkeys(found[key])) for key in ("Machine", "Software")}
        load = found["Load"].max()
        rows.append({"Experiment": experiments.every()[name].title, "Units": len(kept),
                     "Commits": " ".join(dict.fromkeys(found["Commit"])),
                     "Source": _joint(found["Source"]), **said,
                     "Load": "–" if pd.isna(load) else number(load)})  # fmt: skip
    return pd.DataFrame(rows)


def _origin(facts: dict) -> dict:
    machine, load = facts["machine"], facts["machine"]["load"]
    size = f"{machine['cores']}\u00a0cores, {number(machine['memory_bytes'] / 1e9)}\u00a0GB"
    device = "" if machine["device"] == "cpu" else f", {machine['device']}"
    return {
        "Commit": f"`{facts['commit']}`",
        "Source": facts["source"],
        "Machine": f"{machine['processor']}, {size}{device}",
        "System": machine.get("system", ""),
        "Software": f"PyTorch {machine['versions']['torch']}, Python {machine['python']}",
        "Load": load[0] if load else float("nan"),
    }


def _joint(sources: Iterable[str]) -> str:
    """The source of all units, or a hash of their sources."""
    known = sorted(set(sources))
    joint = store.digest(" ".join(known).encode())[:12]
    return f"`{known[0] if len(known) == 1 else joint}`"


def deviations(found: Sequence[dict]) -> pd.DataFrame:
    """What differs from the first source that says something; a reason stands once, on top."""
    groups: dict[str, list[dict]] = {}
    for name, *sources, here, reason in map(_to_readers, found):
        said = next((value for value in sources if value != "–"), here)
        if said != here:
            row = dict(zip(list(found[0])[1:-1], (*sources, here), strict=True))
            groups.setdefault(reason, []).append({"number": name} | row)
    rows = [{"why": reason if first is row else ""} | row
            for reason, (first, *others) in groups.items() for row in (first, *others)]  # fmt: skip
    return pd.DataFrame(rows).rename(columns=str.capitalize)


def unsaid(found: Iterable[dict]) -> str:
    """What no source says, with the value here."""
    silent = ((name, here) for name, *sources, here, _ in map(_to_readers, found)
              if set(sources) == {"–"})  # fmt: skip
    return "; ".join(f"{name}: {here}" for name, here in silent)


def _to_readers(one: dict) -> list[str]:
    name, *others = (re.sub(r"\blsh(?![a-z])", "LSH", value) for value in one.values())
    return [name.replace("_", " "), *others]
