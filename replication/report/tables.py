"""Tables of the report: rows and provenance in, frames of words out."""

from collections.abc import Sequence
from datetime import datetime

import pandas as pd

from replication.benchmark import measured
from replication.claims import Claim
from replication.claims.costs import layer
from replication.convergence import judge
from replication.convergence.verdict import nats
from replication.crossover import measured_crossover
from replication.crossover.estimate import Crossover
from replication.crossover.tables import brief
from replication.report.run import Run, Training, main_crossover
from replication.report.words import duration, number
from replication.scaling_config import REPEATS
from replication.train import new_model

CELLS = {"supported": "**supported**", "not supported": "**not supported**"}


def verdicts(claims: Sequence[Claim], run: Run, reference: dict[str, dict] | None) -> pd.DataFrame:
    """One row a claim: who found what; ``reference`` is left out where it is this very run."""
    rows = []
    for claim in claims:
        row = {"Claim": f"**{claim.id}** {claim.title}", "Made by": claim.by}
        row["Earlier replication"] = claim.earlier.partition(":")[0].partition(",")[0]
        if reference is not None:
            row["Reference run"] = _outcome(reference[claim.id]["outcome"])
        rows.append(row | {"This run": _outcome(run.verdicts[claim.id].outcome)})
    return pd.DataFrame(rows)


def _outcome(text: str) -> str:
    return CELLS.get(text, text.replace(" on this hardware", ""))


def rules(claims: Sequence[Claim]) -> pd.DataFrame:
    return pd.DataFrame(
        {"": f"**{claim.id}**", "Claim, in our words": f"{claim.claim} ({claim.by}, {claim.where})",
         "Rule": claim.rule}
        for claim in claims
    )  # fmt: skip


# Convergence ----------------------------------------------------------------------------------

QUESTIONS = ("converges", "reaches", "stable")
ANSWERS = {True: "y", False: "n", None: "o"}


def convergence(run: Run) -> pd.DataFrame:
    """What C1 and E1 are judged by, one row a setting and length: linear first, then softmax."""
    return pd.DataFrame(
        _convergence(setting, judge(runs, run.evidence.published_updates[setting]), runs)
        for setting, found in run.training.items()
        for _, runs in found.runs.groupby("length")
    )


def _convergence(setting: str, cell: dict, runs: pd.DataFrame) -> dict:
    pair, both = cell["difference"], ("linear", "softmax")
    loss = runs.groupby("attention").final_loss.median()
    rates, exact = cell["spikes_per_1000"], cell["exact_match"]
    learnt = [cell[f"{name}_learnt"] for name in both]
    return {
        "Setting": f"*{setting}*",
        "N": cell["length"],
        "≥ 99 %": ", ".join(f"{done}/{all}" for done, all in learnt),
        "Words (%)": ", ".join(f"{100 * exact[name]:.0f}" for name in both),
        "Final loss": ", ".join(f"{loss[name]:.1e}" for name in both),
        "Difference (90 %)": f"{nats(pair['mean'])} ({nats(pair['low'])} to {nats(pair['high'])})",
        "Spikes": ", ".join(f"{rates[name]:.1f}" for name in both),
        "a\u00a0b\u00a0c": "\u00a0".join(ANSWERS[cell[name]] for name in QUESTIONS),
    }


# Crossovers -----------------------------------------------------------------------------------

KERNELS = {"linear": "ours", "authors": "the authors'"}
OPPONENTS = {"softmax-textbook": "textbook softmax", "softmax": "fused softmax"}
QUANTITIES = {"time_ms": "time", "peak_bytes": "memory"}


def crossovers(run: Run) -> pd.DataFrame:
    """From which N on linear attention is cheaper, in every setting that was measured."""
    rows = measured(run.scaling.rows)
    layers = rows[rows.subject == "layer"]
    return pd.DataFrame(
        _crossover(run, kernel, opponent, own)
        for (direction, causal), own in layers.groupby(["direction", "causal"], sort=False)
        for kernel in KERNELS
        for opponent in OPPONENTS
        if {kernel, opponent} <= set(own.contender)
    )


def _crossover(run: Run, kernel: str, opponent: str, rows: pd.DataFrame) -> dict:
    direction, causal = rows[["direction", "causal"]].iloc[0]
    found = {q: measured_crossover(rows, kernel, opponent, q) for q in QUANTITIES}
    if (kernel, direction, causal) == ("linear", "training", True):
        found["time_ms"] = main_crossover(run, opponent)
    return {
        "Setting": f"{direction}, {'causal' if causal else 'bidirectional'}",
        "Kernel": KERNELS[kernel],
        "Against": OPPONENTS[opponent],
    } | {f"Less {title} from": brief(found[quantity]) for quantity, title in QUANTITIES.items()}


def main_memory(run: Run, opponent: str) -> Crossover:
    """The same in memory, which the benchmark counts exactly."""
    return measured_crossover(layer(run.evidence), "linear", opponent, "peak_bytes")


# What it cost ---------------------------------------------------------------------------------


def costs(run: Run) -> pd.DataFrame:
    """Estimated before, measured after. Training is estimated by 6 operations per parameter and
    token, at the rate of a large matrix product on as many threads as a run has."""
    rate = run.scaling.facts["gemm_flops_per_s"] / run.scaling.facts["threads"]
    rows = [
        {"Experiment": f"copy task, {setting} setting ({len(found.runs)} runs)",
         "Estimated before": duration(training_flops(found) / rate),
         "Measured after": duration(found.runs.seconds.sum())}
        for setting, found in run.training.items()
    ]  # fmt: skip
    facts = run.scaling.facts
    rows.append(
        {
            "Experiment": "scaling benchmark",
            "Estimated before": duration(facts["predicted_seconds"]),
            "Measured after": duration(facts["measured_seconds"]),
        }
    )
    rows.append(
        {
            "Experiment": f"the main crossover, {run.repeats.runs} runs",
            "Estimated before": f"{duration(REPEATS[run.profile][1])} allowed",
            "Measured after": _lasted(run.repeats.facts),
        }
    )
    return pd.DataFrame(rows)


def _lasted(facts: dict) -> str:
    """From the beginning to the end, if it was done in one go."""
    if len(facts["sessions"]) > 1:
        return "in several parts"
    ends = (facts["sessions"][0]["started"], facts["finished"])
    begin, end = map(datetime.fromisoformat, ends)
    return duration((end - begin).total_seconds())


def training_flops(training: Training) -> float:
    """6 P T: forward and backward passes of P parameters over T tokens."""
    total = 0.0
    for one in training.experiment.runs():
        parameters = sum(p.numel() for p in new_model(one).parameters())
        total += 6.0 * parameters * one.steps * one.batch_size * one.length
    return total


# Provenance -----------------------------------------------------------------------------------


def provenance(run: Run) -> pd.DataFrame:
    parts = {f"copy task, {setting}": found.facts for setting, found in run.training.items()}
    parts |= {"scaling benchmark": run.scaling.facts, "repeats of the crossover": run.repeats.facts}
    parts |= {"one more token": run.decoding_facts}
    return pd.DataFrame(_origin(name, facts) for name, facts in parts.items())


def _origin(name: str, facts: dict) -> dict:
    machine = facts["machine"]
    memory = number(machine["memory_bytes"] / 2**30, 2, "the machine's memory")
    return {
        "Experiment": name,
        "Commit": f"`{facts['commit']}`",
        "Source": f"`{facts['source']}`",
        "Machine": f"{machine['processor']}, {machine['cores']} cores, {memory} GiB, "
        f"{machine['device']}",
        "Software": f"PyTorch {machine['versions']['torch']}, Python {machine['python']}",
        "Load": number(machine["load"][0], 2) if machine["load"] else "–",
    }


def deviations(training: Training) -> pd.DataFrame:
    """What differs from the published numbers, and why."""
    frame = pd.DataFrame(training.experiment.deviations())
    frame = frame.rename(columns=str.capitalize)
    return frame.assign(Name=frame["Name"].map(lambda name: name.replace("_", " ")))
