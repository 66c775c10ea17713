"""How often a cell is called: the same in all profiles, so that no row names it."""

NARROW = 0.10
"""A ratio is known well enough when the 95 % interval of its median is at most this wide,
relatively. Near a crossover the ratio changes about as N does, so N is known as well."""

FEWEST_ROUNDS = 6
"""With fewer not even the smallest and the largest value enclose the median with 95 %."""
MOST_ROUNDS = 60
"""More rounds hardly narrow the interval of what is noisy after so many."""

OVERHEAD_CALLS = 4
"""Calls of a cell that are not kept: the first, one for FLOPs, one for memory, a warm-up."""
FEWEST_CALLS = OVERHEAD_CALLS + FEWEST_ROUNDS

PATIENCE = 2.0
"""A cell is given up when its first calls show that it would take so many times its budget."""
