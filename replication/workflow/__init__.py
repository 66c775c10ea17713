"""What the Snakefile works on, and how Snakemake is driven: alone, watched, and resumable."""

from replication.workflow.alone import WorkflowError, alone
from replication.workflow.drive import Drive, explain
from replication.workflow.plan import (
    FRESH,
    PAPER,
    drop_all,
    drop_lost,
    overview,
    prepare,
    report_jobs,
    report_sources,
)

__all__ = [
    "FRESH",
    "PAPER",
    "Drive",
    "WorkflowError",
    "alone",
    "drop_all",
    "drop_lost",
    "explain",
    "overview",
    "prepare",
    "report_jobs",
    "report_sources",
]
