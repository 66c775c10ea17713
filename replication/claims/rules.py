"""The tests that paper/claims.yaml names: evidence and a claim's numbers in, a verdict out."""

from collections.abc import Sequence

import pandas as pd
from statsmodels.stats.weightstats import DescrStatsW

from replication.claims.claim import Claim, Evidence, Verdict
from replication.claims.costs import constant_cost, crosses_at, faster, grows_linearly
from replication.claims.outcome import by_answers
from replication.convergence import claim_1, differences
from replication.convergence.rule import FEWEST_SEEDS, SUPPORTED
from replication.convergence.verdict import instability, nats


def judge(claims: Sequence[Claim], evidence: Evidence) -> dict[str, Verdict]:
    """The verdict on every claim, by its id."""
    return {claim.id: TESTS[claim.test](evidence, **claim.numbers) for claim in claims}


def converges(evidence: Evidence, setting: str) -> Verdict:
    """The rule of ``convergence``, for all lengths of a setting."""
    found = claim_1(evidence.runs[setting], evidence.published_updates[setting])
    return Verdict(found["verdict"], found["evidence"], {"lengths": found["values"]})


def does_not_converge(evidence: Evidence, setting: str) -> Verdict:
    """Is linear attention unstable or unlike softmax, length by length?"""
    found = claim_1(evidence.runs[setting], evidence.published_updates[setting])
    answers = [_fails(cell) for cell in found["values"]]
    words = [_failure(*pair) for pair in zip(answers, found["values"], strict=True)]
    return Verdict(by_answers(answers), "; ".join(words) + ".", {"lengths": found["values"]})


def _fails(cell: dict) -> bool | None:
    """Not to have shown that C1 holds is no evidence against it."""
    if cell["seeds"] < FEWEST_SEEDS:
        return None
    if False in (cell["converges"], cell["reaches"], cell["stable"]):
        return True
    return False if cell["verdict"] == SUPPORTED else None


def _failure(fails: bool | None, cell: dict) -> str:
    pair = cell["difference"]
    seen = instability(cell) or ("stable" if fails is not None else "open")
    apart = f"losses differ by {nats(pair['mean'])} nats per token" if pair["n"] > 1 else "one seed"
    return f"N = {cell['length']}: {seen}, {apart}"


def ends_lower(evidence: Evidence, setting: str, opponent: str) -> Verdict:
    """Is the final loss of linear attention below the opponent's, seed by seed?"""
    answers, words, values = [], [], {}
    for length, runs in evidence.runs[setting].groupby("length"):
        enough = bool(runs.updates.max() >= evidence.published_updates[setting])
        answer, text, found = _lower(differences(runs, opponent).difference, opponent, enough)
        answers.append(answer)
        words.append(f"N = {length}: {text}")
        values[str(length)] = found
    return Verdict(by_answers(answers), "; ".join(words) + ".", values)


def _lower(found: pd.Series, opponent: str, enough: bool) -> tuple[bool | None, str, dict]:
    n = len(found)
    if n < FEWEST_SEEDS:
        return None, f"{n} seeds of both, fewer than {FEWEST_SEEDS}", {"seeds": n}
    mean, (low, high) = float(found.mean()), DescrStatsW(found).tconfint_mean(0.05)
    values = {"seeds": n, "mean": mean, "low": float(low), "high": float(high)}
    text = (
        f"linear minus {opponent} is {nats(mean)} nats per token (95 % interval {nats(low)} to "
        f"{nats(high)})"
    )
    if high < 0:
        return True, text, values
    return (False if low > 0 and enough else None), text, values


TESTS = {
    test.__name__: test
    for test in (
        converges, does_not_converge, ends_lower, grows_linearly, faster, constant_cost, crosses_at,
    )
}  # fmt: skip
