"""What the Snakefile works on, and how Snakemake is driven: alone, watched, and resumable."""

from replication.workflow.alone import WorkflowError, alone
from replication.workflow.drive import Drive, explain
from replication.workflow.plan import PAPER, overview, prepare, report_jobs, report_sources

__all__ = [
    "PAPER",
    "Drive",
    "WorkflowError",
    "alone",
    "explain",
    "overview",
    "prepare",
    "report_jobs",
    "report_sources",
]
