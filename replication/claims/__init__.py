"""Rows -> verdicts, by the rules in paper/claims.yaml. Nothing is read or drawn here."""

from replication.claims.claim import OUTCOMES, Claim, Evidence, Verdict, parse
from replication.claims.rules import TESTS, judge

__all__ = ["OUTCOMES", "TESTS", "Claim", "Evidence", "Verdict", "judge", "parse"]
