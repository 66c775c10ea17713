"""From answers to an outcome. An answer is True, False, or None where the rows leave it open."""

from collections.abc import Sequence

from replication.convergence.rule import INCONCLUSIVE, NOT, PARTLY, SUPPORTED


def by_answers(answers: Sequence[bool | None]) -> str:
    """Supported if all are yes, partly if some are, not if all are no; else inconclusive."""
    if answers and all(answers):
        return SUPPORTED
    if any(answers):
        return PARTLY
    return NOT if answers and all(answer is False for answer in answers) else INCONCLUSIVE


def within(low: float, high: float, least: float, most: float) -> bool | None:
    """Does an interval lie inside a range (yes), outside (no), or across its end (open)?"""
    if least <= low and high <= most:
        return True
    return False if high < least or low > most else None
