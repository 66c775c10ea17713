"""Rows of units -> what the rules, figures and tables take."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from replication.experiments.speech.studies import EVALUATION, WHICH, run_of
from replication.store import Kept, Unit


class Evidence(NamedTuple):
    """What the rules, figures and tables take; any part may be empty."""

    evaluations: pd.DataFrame
    errors: pd.DataFrame
    """A row an utterance of the test part and run."""
    pairs: pd.DataFrame
    """setting, utterances, words, model, seed, said, heard, count."""
    runs: pd.DataFrame
    """A row a run: error rates, seconds an epoch, updates, whether it stopped."""
    times: pd.DataFrame
    facts: dict[str, Any]
    """How the first unit came about, and the ``corpus`` of each setting."""

    @property
    def czech(self) -> pd.DataFrame:
        """The runs that decide: on real speech."""
        return self.runs[self.runs.setting == "czech"]


def evidence(kept: Iterable[Kept]) -> Evidence:
    """From the rows of units, of whatever part of them is there."""
    trained, counted, times, facts, corpora = [], [], [], {}, {}
    for one in kept:
        facts = facts or one.facts
        if one.unit.name.startswith("times-"):
            times.append(one)
            continue
        (counted if "run" in one.unit.numbers else trained).append(one)
        corpora.setdefault(run_of(one.unit).setting, one.facts["corpus"])
    found = _frame(counted, [*WHICH, "id", "frames", "phonemes", "substitutions", "deletions",
                             "insertions", "beam_errors"])  # fmt: skip
    runs = pd.DataFrame([_summary(one, found) for one in trained], columns=[*WHICH, *SUMMARY])
    evaluations = _frame(trained, [*WHICH, *EVALUATION]).dropna(subset="error_rate")
    empty = ["contender", "direction", "N", "round", "time_ms", "peak_bytes"]
    timed = pd.concat([t.rows for t in times]) if times else pd.DataFrame(columns=empty)
    return Evidence(evaluations.reset_index(drop=True), found, _pairs(counted), runs,
                    timed.reset_index(drop=True), facts | {"corpora": corpora})  # fmt: skip


def _which(unit: Unit) -> dict[str, Any]:
    return {name: getattr(run_of(unit), name) for name in WHICH}


def _frame(kept: list[Kept], columns: list[str]) -> pd.DataFrame:
    frames = [one.rows.assign(**_which(one.unit)) for one in kept]
    empty = pd.DataFrame(columns=columns)
    return pd.concat(frames, ignore_index=True)[columns] if frames else empty


def _pairs(kept: list[Kept]) -> pd.DataFrame:
    rows = [{**_which(one.unit), "said": a, "heard": b, "count": n}
            for one in kept for a, b, n in one.facts["pairs"]]  # fmt: skip
    return pd.DataFrame(rows, columns=[*WHICH, "said", "heard", "count"])


SUMMARY = ["stopped", "updates", "epochs", "seconds", "seconds_an_epoch", "parameters", "flops",
           "dev_error", "test_error", "beam_error", "insertions", "deletions"]  # fmt: skip


def _summary(one: Kept, found: pd.DataFrame) -> dict[str, Any]:
    """How a run ended: its errors on dev, and on test if they have been counted."""
    run, steps = run_of(one.unit), one.rows[one.rows.step > 0]
    mine = found
    for name in WHICH:
        mine = mine[mine[name] == getattr(run, name)]
    epochs = len(steps) * run.batch_size / max(1, one.facts["utterances"]["train"])
    seconds, said = float(steps.seconds.sum()), mine.phonemes.sum() or float("nan")
    total = (mine.substitutions + mine.deletions + mine.insertions).sum()
    return _which(one.unit) | {
        "stopped": bool(one.facts["failure"]), "updates": len(steps), "epochs": epochs,
        "seconds": seconds, "seconds_an_epoch": seconds / epochs if epochs else float("nan"),
        "parameters": one.facts["parameters"],
        "flops": 6.0 * one.facts["parameters"] * one.facts["frames"] / run.stack * epochs,
        "dev_error": one.rows.error_rate.dropna().iloc[-1],
        "test_error": total / said, "beam_error": mine.beam_errors.sum() / said,
        "insertions": mine.insertions.sum() / said, "deletions": mine.deletions.sum() / said,
    }  # fmt: skip


def summary(kept: Iterable[Kept]) -> pd.DataFrame:
    """One row a run of any settings."""
    return evidence(kept).runs


def costs(evidence: Evidence) -> list[dict]:
    """By setting the seconds of all updates, and in place of an estimate their operations."""
    return [{"Part": f"speech, {setting} ({len(runs)} runs)", "Flops": float(runs.flops.sum()),
             "Measured": float(runs.seconds.sum())}
            for setting, runs in evidence.runs.groupby("setting", sort=False)]  # fmt: skip
