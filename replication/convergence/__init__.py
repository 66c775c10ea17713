"""Rows of training -> tables, a test of equivalence, and the verdict on claim 1.

Rows are those of ``runs.train_all`` as data frames. Nothing is read and nothing is drawn here.
"""

from replication.convergence.equivalence import Equivalence, differences, equivalence
from replication.convergence.heads import copying_head
from replication.convergence.rule import LEARNT, MARGIN, RULE
from replication.convergence.tables import (
    QUANTITIES,
    bootstrap,
    coverage,
    spikes,
    stability,
    summarise,
    table,
)
from replication.convergence.verdict import claim_1, combine, judge

__all__ = [
    "LEARNT",
    "MARGIN",
    "QUANTITIES",
    "RULE",
    "Equivalence",
    "bootstrap",
    "claim_1",
    "combine",
    "copying_head",
    "coverage",
    "differences",
    "equivalence",
    "judge",
    "spikes",
    "stability",
    "summarise",
    "table",
]
