"""Rows of units -> what the rules, figures and tables take."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from replication.experiments import training
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
    """How the first unit came about, and as ``corpora`` the corpus of each setting."""

    @property
    def czech(self) -> pd.DataFrame:
        """The runs that decide: on real speech."""
        return self.runs[self.runs.setting == "czech"]


def evidence(kept: Iterable[Kept]) -> Evidence:
    kept, corpora = list(kept), {}
    trained = [one for one in kept if "seed" in one.unit.numbers]
    counted = [one for one in kept if "run" in one.unit.numbers]
    timed = [one for one in kept if "timing" in one.unit.numbers]
    for one in trained + counted:
        corpora.setdefault(run_of(one.unit).setting, one.facts["corpus"])
    errors = training.frame(counted, [*WHICH, *ERRORS], WHICH)[[*WHICH, *ERRORS]]
    runs = pd.DataFrame([_summary(one, errors) for one in trained], columns=[*WHICH, *SUMMARY])
    evaluations = training.frame(trained, [*WHICH, *EVALUATION], WHICH)[[*WHICH, *EVALUATION]]
    evaluations = evaluations.dropna(subset="error_rate").reset_index(drop=True)
    heard = [(_which(one.unit).values(), one.facts["pairs"]) for one in counted]
    pairs = pd.DataFrame(
        [(*which, *pair) for which, found in heard for pair in found],
        columns=[*WHICH, "said", "heard", "count"],
    )
    facts = (kept[0].facts if kept else {}) | {"corpora": corpora}
    return Evidence(evaluations, errors, pairs, runs, training.frame(timed, TIMES), facts)


def _which(unit: Unit) -> dict[str, Any]:
    return {name: getattr(run_of(unit), name) for name in WHICH}


ERRORS = ["id", "frames", "phonemes", "substitutions", "deletions", "insertions", "beam_errors"]
TIMES = ["contender", "direction", "N", "run", "round", "time_ms", "disturbed", "peak_bytes"]
SUMMARY = ["stopped", "updates", "epochs", "seconds", "seconds_an_epoch", "parameters", "flops",
           "dev_error", "test_error", "beam_error", "insertions", "deletions"]  # fmt: skip


def _summary(one: Kept, found: pd.DataFrame) -> dict[str, Any]:
    """How a run ended: its errors on dev, and on test if they have been counted."""
    run, which, steps = run_of(one.unit), _which(one.unit), one.rows[one.rows.step > 0]
    mine = found[(found[WHICH] == pd.Series(which)).all(axis=1)]
    epochs = len(steps) * run.batch_size / max(1, one.facts["utterances"]["train"])
    seconds, said = float(steps.seconds.sum()), mine.phonemes.sum() or float("nan")
    total = (mine.substitutions + mine.deletions + mine.insertions).sum()
    return which | {
        "stopped": bool(one.facts["failure"]), "updates": len(steps), "epochs": epochs,
        "seconds": seconds, "seconds_an_epoch": seconds / epochs if epochs else float("nan"),
        "parameters": one.facts["parameters"],
        "flops": 6.0 * one.facts["parameters"] * one.facts["frames"] / run.stack * epochs,
        "dev_error": one.rows.error_rate.dropna().iloc[-1],
        "test_error": total / said, "beam_error": mine.beam_errors.sum() / said,
        "insertions": mine.insertions.sum() / said, "deletions": mine.deletions.sum() / said,
    }  # fmt: skip


def costs(evidence: Evidence) -> list[dict]:
    """By setting the seconds of all updates, and in place of an estimate their operations."""
    return [{"Part": f"speech, {setting} ({len(runs)} runs)", "Flops": float(runs.flops.sum()),
             "Measured": float(runs.seconds.sum())}
            for setting, runs in evidence.runs.groupby("setting", sort=False)]  # fmt: skip
