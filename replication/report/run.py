"""One run of all experiments as the report takes it: rows, evidence, verdicts, and its tables."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from replication import claims, experiments, store
from replication.claims import Claim
from replication.experiments.base import NOT_RUN, Verdict
from replication.report.prose import duration, listed, number


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

    Rows that are damaged or, if ``current``, of other code than the present are refused; so is an
    experiment of which only some units are there, unless it can be told in parts.
    """
    folder, kept, evidence = folder or store.RESULTS / profile, {}, {}
    for name, one in experiments.every().items():
        units = one.units(profile)
        there = [unit for unit in units if store.exists(unit, folder)]
        if there:
            units = there if one.in_parts else units
            kept[name] = [store.load(unit, folder, current=current) for unit in units]
            evidence[name] = one.evidence(kept[name])
    return Run(profile, folder, kept, evidence, claims.judge(claims.claims(), evidence))


# Tables of words ----------------------------------------------------------------------------------


def verdicts(
    claims: Sequence[Claim], found: Mapping[str, Verdict], reference: Mapping[str, dict] | None
) -> pd.DataFrame:
    """One row a claim: who found what; ``reference`` is left out where it is this very run.

    Claims of an experiment that neither has run share one row.
    """
    rows, open_claims = [], {}
    for claim in claims:
        known = {found[claim.id].outcome, (reference or {}).get(claim.id, {}).get("outcome")}
        if known <= {NOT_RUN, None}:
            open_claims.setdefault((claim.experiment, claim.by), []).append(claim.id)
            continue
        row = {"Claim": f"**{claim.id}** {claim.title}", "Made by": claim.by}
        row["Earlier replication"] = claim.earlier.partition(":")[0].partition(",")[0]
        if reference is not None:
            row["Reference run"] = _outcome(reference[claim.id]["outcome"])
        rows.append(row | {"This run": _outcome(found[claim.id].outcome)})
    for (name, by), ids in open_claims.items():
        which = listed(ids)
        title = f"**{which}** {experiments.every()[name].title}"
        rows.append({"Claim": title, "Made by": by, "This run": NOT_RUN})
    return pd.DataFrame(rows).fillna("–")


def _outcome(text: str) -> str:
    bold = {"supported": "**supported**", "not supported": "**not supported**"}
    return bold.get(text, text.replace(" on this hardware", ""))


def rules(claims: Sequence[Claim]) -> pd.DataFrame:
    return pd.DataFrame(
        {"": f"**{claim.id}**", "Claim, in our words": f"{claim.claim} ({claim.by}, {claim.where})",
         "Rule": claim.rule}
        for claim in claims
    )  # fmt: skip


def costs(run: Run, flops_per_s: float) -> pd.DataFrame:
    """Estimated before, measured after. Of a part either seconds are ``Estimated`` or ``Allowed``,
    or its ``Flops`` are known, and estimated at so many a second."""
    rows = []
    for name, evidence in run.evidence.items():
        for part in experiments.every()[name].costs(evidence):
            before = part["Flops"] / flops_per_s if "Flops" in part else part.get("Estimated")
            allowed = f"{duration(part['Allowed'])} allowed" if "Allowed" in part else ""
            rows.append({"Experiment": part["Part"], "Measured after": duration(part["Measured"]),
                         "Estimated before": allowed or duration(before)})  # fmt: skip
    return pd.DataFrame(rows, columns=["Experiment", "Estimated before", "Measured after"])


def provenance(run: Run) -> pd.DataFrame:
    """A row an experiment, or more if its units come from several commits or machines."""
    titles = {name: one.title for name, one in experiments.every().items()}
    units = [(titles[name], one.facts) for name, kept in run.kept.items() for one in kept]
    rows = pd.DataFrame({"Experiment": title} | _origin(facts) for title, facts in units)
    groups = rows.groupby(["Experiment", "Commit", "Machine", "Software"], sort=False)
    found = groups.agg(
        Units=("Source", "size"), Source=("Source", _joint), Load=("Load", "max")
    ).reset_index()
    found["Load"] = ["–" if pd.isna(load) else number(load) for load in found["Load"]]
    return found[["Experiment", "Units", "Commit", "Source", "Machine", "Software", "Load"]]


def _origin(facts: dict) -> dict:
    machine, load = facts["machine"], facts["machine"]["load"]
    place = f"{machine['processor']}, {machine['cores']} cores"
    return {
        "Commit": f"`{facts['commit']}`",
        "Source": facts["source"],
        "Machine": f"{place}, {number(machine['memory_bytes'] / 2**30)} GiB, {machine['device']}",
        "Software": f"PyTorch {machine['versions']['torch']}, Python {machine['python']}",
        "Load": load[0] if load else float("nan"),
    }


def _joint(sources: Iterable[str]) -> str:
    """The source of all units, or a hash of their sources."""
    known = sorted(set(sources))
    joint = hashlib.sha256(" ".join(known).encode()).hexdigest()[:12]
    return f"`{known[0] if len(known) == 1 else joint}`"


def deviations(found: Iterable[dict]) -> pd.DataFrame:
    """What differs from the published numbers, and why."""
    frame = pd.DataFrame(found).rename(columns=str.capitalize)
    return frame.assign(Name=frame["Name"].map(lambda name: name.replace("_", " ")))
