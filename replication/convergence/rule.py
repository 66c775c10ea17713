"""The rule for claim 1 and all its numbers, fixed before the runs that it judges.

The margin was set before any run; what counts as a spike after first trials of the profiles.
"""

import math

LEARNT = 0.99
"""The share of symbols that a model must predict to count as having learnt to copy."""
MARGIN = math.log(10) / 100
"""Losses that differ by less, in nats a token, are the same: one hundredth of log 10, which is
all there is to learn about one of ten symbols. It is the hundredth that LEARNT leaves open."""
ALPHA = 0.05
"""Of each one-sided test; two of them make the 90 % interval that must lie within the margin."""
FEWEST_SEEDS = 3
"""With two, a 90 % interval is 6.3 standard errors wide to either side, and shows nothing."""
SPIKE_WINDOW, SPIKE_FACTOR, SPIKE_RISE = 50, 2.0, math.log(10) / 10
"""A spike is a training loss that exceeds the median of the 50 before it twofold and by a tenth
of log 10 nats: the factor sets aside noise at high losses, the rise noise at low ones."""
MOST_SPIKES = 1.0
"""In 1000 updates. A run with more is called unstable, unless softmax has as many."""

RULE = f"""\
At every length three questions are asked about the linear runs.

(a) Do they converge? Yes if every seed ends with at least {LEARNT:.0%} of the symbols right.

(b) Do they reach the loss of softmax? Yes if the {1 - 2 * ALPHA:.0%} interval of the paired
difference linear - softmax of final losses ends below {MARGIN:.3f} nats a token, no if it begins
above. Open if it does neither, or if neither mechanism learns to copy in most of its seeds.

(c) Are they stable? Yes if no run stops early, none ends more than that margin above its own
lowest loss, and spikes are at most {MOST_SPIKES:g} in 1000 updates, or no more than with softmax.

A no counts for (a) and (b) only after as many updates as were published, and for (a) also if a run
stops early; before that, the question is open.

Supported: three times yes. Partly supported: yes to (a) or (b), but not to all. Not supported:
no to (a) and (b). Inconclusive on this hardware: all else, and always with fewer than
{FEWEST_SEEDS} seeds. Lengths that differ make the claim partly supported if one of them is at least
partly supported; else a no outweighs what is inconclusive."""

SUPPORTED, PARTLY, NOT = "supported", "partly supported", "not supported"
INCONCLUSIVE = "inconclusive on this hardware"
