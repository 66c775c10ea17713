"""Rows of the benchmark -> growth, crossover and interval. No disk, no clock, no drawing."""

from replication.crossover.crossing import fitted_crossover, measured_crossover
from replication.crossover.earlier import TABLE_1, earlier_crossover, earlier_method
from replication.crossover.estimate import Fitted, Measured
from replication.crossover.growth import Comparison, Exponent, compare_models, growth_exponent

__all__ = [
    "TABLE_1",
    "Comparison",
    "Exponent",
    "Fitted",
    "Measured",
    "compare_models",
    "earlier_crossover",
    "earlier_method",
    "fitted_crossover",
    "growth_exponent",
    "measured_crossover",
]
