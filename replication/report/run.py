"""One run of the experiments as the report takes it: rows, provenance, verdicts."""

import json
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from replication import results, sources
from replication.answer import FUSED, LABELS, TEXTBOOK
from replication.benchmark import measured
from replication.claims import TESTS, Claim, Evidence, Verdict, judge, parse
from replication.claims.costs import layer
from replication.config import ORIGINS, Experiment, resolve
from replication.convergence import summarise
from replication.crossover import Measured, measured_crossover
from replication.scaling import Outcome, Repeats, finished, load_repeats, load_scaling
from replication.scaling.repeats import beside, timed
from replication.scaling.run import as_json
from replication.scaling_config import RUNS, Scaling, for_repeats
from replication.scaling_config import resolve as resolve_scaling

CLAIMS = results.ROOT / "paper" / "claims.yaml"
SETTINGS = ("paper", "earlier")


class Training(NamedTuple):
    """A setting's experiment and what it left."""

    experiment: Experiment
    steps: pd.DataFrame
    evaluations: pd.DataFrame
    runs: pd.DataFrame
    facts: dict


class Run(NamedTuple):
    """All that the report says of one profile's results."""

    profile: str
    training: dict[str, Training]
    scaling: Outcome
    repeats: Repeats
    decoding: pd.DataFrame
    decoding_facts: dict
    evidence: Evidence
    verdicts: dict[str, Verdict]


def claims() -> list[Claim]:
    return parse(CLAIMS.read_text(), TESTS)


def load_run(profile: str, folder: Path = results.RESULTS, *, fresh: bool = True) -> Run:
    """The results of a profile, if they are whole and of its numbers.

    ``fresh`` refuses those of another source than the present.
    """
    remedy, here = f"replication report --profile {profile}", folder / profile
    training = {setting: _training(setting, profile, here, remedy) for setting in SETTINGS}
    scaling = load_scaling(here, remedy)
    repeats = load_repeats(beside(here, profile), remedy)
    decoding, decoding_facts = results.load(here, "decoding", remedy)
    if fresh:
        for setting, found in training.items():
            _check_source(found.facts, "runs", f"the copy task, setting {setting}", remedy)
        _check_source(scaling.facts, "benchmark", "the scaling benchmark", remedy)
        _check_source(repeats.facts, "benchmark", "the repeats of its main question", remedy)
        _check_source(decoding_facts, "decoding_cost", "the cost of a token", remedy)
    _check_benchmark(scaling, profile, f"{remedy} --fresh")
    _check_repeats(repeats, profile, f"{remedy} --fresh")
    evidence = Evidence(
        {setting: found.runs for setting, found in training.items()},
        {setting: ORIGINS[setting]["steps"].published for setting in SETTINGS},
        measured(scaling.rows),
        decoding,
    )
    verdicts = judge(claims(), evidence)
    return Run(profile, training, scaling, repeats, decoding, decoding_facts, evidence, verdicts)


def _training(setting: str, profile: str, here: Path, remedy: str) -> Training:
    """Of this machine's device, else of a processor, as the reference run."""
    mine, plain = resolve(setting, profile), resolve(setting, profile, device="cpu")
    experiment = mine if (here / "copy_task" / mine.name).exists() else plain
    folder = here / "copy_task" / experiment.name
    steps = results.load_parts(folder, "steps", experiment.attentions, remedy)
    evaluations, facts = results.load(folder, "evaluations", remedy)
    runs = summarise(steps, evaluations, facts["failures"])
    return Training(experiment, steps, evaluations, runs, facts)


def _check_source(facts: dict, room: str, what: str, remedy: str) -> None:
    if facts["source"] != sources.hash_of(room):
        raise results.ResultsError(
            f"The results of {what} are stale: they come from the source {facts['source']}, the "
            f"present one is {sources.hash_of(room)}. Measure again with\n    {remedy}"
        )


def _check_benchmark(scaling: Outcome, profile: str, remedy: str) -> None:
    if not finished(scaling.plan):
        left = int((scaling.plan.status == "planned").sum())
        raise results.ResultsError(
            f"The scaling benchmark is not finished: {left} of {len(scaling.plan)} cells are left. "
            f"Go on with\n    replication run 04 --profile {profile}"
        )
    what = f"scaling benchmark in results/{profile} was"
    _check_config(scaling.facts, resolve_scaling(profile), what, remedy)


def _check_repeats(repeats: Repeats, profile: str, remedy: str) -> None:
    if repeats.runs < RUNS:
        raise results.ResultsError(
            f"Of the {RUNS} runs of the crossover {repeats.runs} are done. Go on with"
            f"\n    replication run 04 --profile {profile}"
        )
    what = f"repeats of the crossover in results/{profile} were"
    _check_config(repeats.facts, for_repeats(profile), what, remedy)


def _check_config(facts: dict, scaling: Scaling, what: str, remedy: str) -> None:
    stored, asked = facts["config"], as_json(scaling)
    if others := sorted(name for name in asked if stored.get(name) != asked[name]):
        raise results.ResultsError(
            f"The {what} run with another {', '.join(others)} than the profile's. Measure the "
            f"profile's with\n    {remedy}"
        )


def main_crossover(run: Run, opponent: str) -> Measured:
    """In time, of one causal layer, forward and backward: the median of several runs.

    Where these do not cross, the benchmark's, which reaches more lengths.
    """
    found = measured_crossover(timed(run.repeats), "linear", opponent)
    if found.status == "crosses":
        return found
    return measured_crossover(layer(run.evidence), "linear", opponent)


def save_verdicts(run: Run, folder: Path = results.RESULTS) -> Path:
    """verdicts.json: every claim with its outcome, evidence and numbers, for machines."""
    path = folder / run.profile / "verdicts.json"
    found = {
        claim.id: {
            "title": claim.title, "by": claim.by, "where": claim.where, "rule": claim.rule,
            **run.verdicts[claim.id]._asdict(),
        }
        for claim in claims()
    }  # fmt: skip
    crossovers = {name: main_crossover(run, name).sentence(LABELS) for name in (FUSED, TEXTBOOK)}
    content = {"profile": run.profile, "claims": found, "crossovers": crossovers}
    results.write_whole(path, results.to_json(content))
    return path


def load_crossovers(profile: str, folder: Path = results.RESULTS) -> list[str]:
    """What ``save_verdicts`` wrote of the main crossovers, a sentence each."""
    path = folder / profile / "verdicts.json"
    return list(json.loads(path.read_text())["crossovers"].values())


def load_verdicts(profile: str, folder: Path = results.RESULTS) -> dict[str, dict] | None:
    """What ``save_verdicts`` wrote, by claim; None if that profile was not run here.

    Verdicts by other rules than the present ones are refused: they cannot be compared.
    """
    path = folder / profile / "verdicts.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text())["claims"]
    if {id: x["rule"] for id, x in found.items()} != {c.id: c.rule for c in claims()}:
        raise results.ResultsError(
            f"The verdicts in {path} were reached by other rules than paper/claims.yaml has now. "
            f"Judge again with\n    replication render --profile {profile}"
        )
    return found
