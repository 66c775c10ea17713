"""Every number of the study of head sizes; all others are those of the copy task.

It has the earlier replication's setting, in which a word fills the sequence: N - 2 symbols, each at
a place of its own that one key must tell from all others. The width stays, so that small heads are
many and large ones few, and the model has the same parameters.
"""

SETTING = "earlier"
FEATURES = {
    "smoke": (8, 16),
    "quick": (8, 64),
    "reference": (8, 16, 32, 64),
    "paper": (8, 16, 32, 64),
}
"""Features of a head, D. Ours: those of the paper's models, 32, and up to two doublings away."""
LENGTHS = {"smoke": (8,), "quick": (16,), "reference": (32, 64, 128), "paper": (32, 64, 128)}
"""So that words have fewer and more symbols than heads have features: 30 and 62, as many as the
longest of the paper's setting have at N = 64 and 128, and 126, more than any head has features."""
SEEDS = {"smoke": (0,), "quick": (0,), "reference": (0, 1, 2), "paper": (0, 1, 2)}
LINEAR, CONTROL = "linear", "softmax"
"""Softmax is trained with the smallest heads alone: they might be too small for anything."""
FEWEST_SEEDS = 3
ALPHA = 0.05
