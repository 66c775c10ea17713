"""What this machine can do, what it lacks, and how long the profiles would take on it."""

from replication.doctor.checks import Check, examine, table
from replication.doctor.durations import durations

__all__ = ["Check", "durations", "examine", "table"]
