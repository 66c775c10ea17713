"""Every number once, with its source; the profiles smoke, quick, reference and paper."""

from replication.config.experiment import PROFILES, Experiment, Numbers, Run, resolve
from replication.config.numbers import ORIGINS, PROFILE_NAMES

__all__ = ["ORIGINS", "PROFILES", "PROFILE_NAMES", "Experiment", "Numbers", "Run", "resolve"]
