"""Every number of the copy task once, with its source.

Sources: *paper*, Katharopoulos et al. 2020, Sec. 4.1.1; *authors' code*,
idiap/linear-transformer-experiments (causal-copy) with pytorch-fast-transformers 0.4.0;
*article* and *their code*, Do & Bergner 2022, jbergner1/DM2022-LinearTransformers (LinTrans.jl).
"""

import math

from replication.experiments.base import Origin
from replication.experiments.studies import because

# What the rules count by, fixed before the runs that they judge; only what a spike is was set after
# first trials of the profiles. Their words are in paper/claims.yaml.

LEARNT = 0.99
"""The share of symbols that a model must predict to count as having learnt to copy."""
MARGIN = math.log(10) / 100
"""Losses that differ by less, in nats a token, are the same: one hundredth of log 10, which is
all there is to learn about one of ten symbols. It is the hundredth that LEARNT leaves open."""
FACTOR = 2.0
"""Nor may the loss of linear attention be this many times that of softmax: the paper draws losses
on a logarithmic scale, on which the margin says nothing once softmax is far below it."""
LAST = 0.1
"""A run ends with the mean of the evaluations in this last part of its updates, as one jitters."""
ALPHA = 0.05
"""Of each one-sided test; two of them make the 90 % interval that must lie within a margin."""
FEWEST_SEEDS = 3
"""With two, a 90 % interval is 6.3 standard errors wide to either side, and shows nothing."""
SPIKE_WINDOW, SPIKE_FACTOR, SPIKE_RISE = 50, 2.0, math.log(10) / 10
"""In a spike the training loss exceeds the median of the 50 before it twofold and by a tenth of
log 10 nats: the factor sets aside noise at high losses, the rise noise at low ones. Updates of
this kind that follow one another are one spike."""
MOST_SPIKES = 1.0
"""In 1000 updates. Runs that certainly have more are unstable, unless softmax has as many."""
SHORTEST = {"paper": 8, "earlier": 4}
"""The shortest sequences whose words have two symbols."""
# Published and chosen -------------------------------------------------------------------------

ORDER = ("softmax", "linear", "lsh")
"""The mechanisms of the paper, in the order of our tables."""
_PUBLISHED = {
    "lengths": ((128,), (128,), (8, 16, 32, 64), (8,)),
    "symbols": (10, 10, 10, 10),
    "attentions": (ORDER, ORDER, ("softmax", "linear"), ("linear",)),
    "seeds": (None, None, None, None),
    "steps": (10_000, 10_000, 3000, 3000),
    "batch_size": (64, 64, 8, 8),
    "lr": (1e-3, 1e-3, 1e-3, 1e-4),
    "lr_drop_after": (3000, 3000, None, None),
    "lr_drop": (0.1, 0.1, None, None),
    "betas": (None, (0.9, 0.999), None, (0.9, 0.999)),
    "eps": (None, 1e-8, None, 1e-8),
    "weight_decay": (None, 0.01, None, 0.0),
    "clip": (None, 1.0, None, None),
    "dropout": (None, 0.1, None, 0.1),
    "attention_dropout": (None, 0.1, None, 0.1),
    "d_model": (None, 256, 512, 512),
    "n_heads": (8, 8, 8, 8),
    "n_layers": (4, 4, 4, 4),
    "d_ff": (None, 1024, None, 1024),
    "activation": (None, "relu", "relu or elu_plus_one", "relu, elu_plus_one in the decoder"),
    "positions": (None, "concatenated", None, "added"),
    "lsh_rounds": (4, 4, None, None),
    "lsh_buckets": (None, 64, None, None),
    "lsh_chunk": (None, 32, None, None),
    "eval_every": (None, 100, None, None),
    "eval_batches": (None, 20, None, None),
}
"""By the paper, by the authors' code; by the article, by its code."""
ORIGINS = {
    setting: {name: Origin(*found[at : at + 2]) for name, found in _PUBLISHED.items()}
    for setting, at in (("paper", 0), ("earlier", 2))
}
TITLES = {"paper": ("paper", "authors' code"), "earlier": ("article", "their code")}

SPEED = "shortens the run to the time of this profile"
HEADS = "heads of 32 features, as in the authors' code"
SETTLE = "lets the last fifth of a shorter run settle"
SAME = "as in the paper's setting, so that both are trained alike"
FRESH = "fresh samples cannot be overfitted"
SMALL = "a small model bears it, so that fewer steps are needed"
QUARTER = "a quarter of the length, as 32 is of 128"
EXACT = "finds the step at which 99 % are reached more exactly"
FOUR, TWICE = "four times d_model, as in the authors' code", "twice d_model, as in their code"


COMMON = {
    "paper": {
        **because("linear attention writes no weights down to be dropped: off for all, not for "
                  "some", attention_dropout=0.0),
        **because("enough to see whether a difference is larger than chance", seeds=(0, 1, 2)),
        **because("once an epoch of the authors' code", eval_every=100),
    },
    "earlier": {
        **because("off for all, as in the paper's setting", attention_dropout=0.0),
        **because("the same for both mechanisms, in encoder and decoder", activation="relu"),
        **because("as the article states it", lr=1e-3),
        **because("as the article states them", lengths=(8, 16, 32, 64)),
        **because("as in the article's figures", attentions=("softmax", "linear")),
        **because("the article shows one run a length", seeds=(0, 1, 2)),
        **because(SAME, lr_drop_after=3000, lr_drop=0.1, weight_decay=0.01, clip=1.0, lsh_rounds=4,
                  lsh_buckets=64, lsh_chunk=32, eval_every=100, eval_batches=20),
    },
}  # fmt: skip
"""What all profiles of a setting choose."""
CHOICES = {
    ("paper", "reference"): {
        **because("128 as published; 64, where LSH too can be trained", lengths=(64, 128)),
        **because("five tell more than three", seeds=(0, 1, 2, 3, 4)),
        **because("half the width of the authors' code and a quarter of the batch, so that a run "
                  "takes 40 minutes of one core instead of five hours", d_model=128, batch_size=16),
        **because("fresh samples cannot be overfitted, and drawing it takes a third of a step",
                  dropout=0.0),
        **because(HEADS, n_heads=4), **because(FOUR, d_ff=512),
        **because("1600 sequences in the last tenth of the updates", eval_batches=10),
    },
    ("paper", "quick"): {
        **because(SPEED, lengths=(32,), steps=1000, d_model=64, n_layers=2),
        **because("shortest of three trials of softmax and linear attention in which all copy 99 %",
                  batch_size=16, lr=4e-3),
        **because("160 held-out sequences", eval_batches=10),
        **because(SETTLE, lr_drop_after=800), **because(FRESH, dropout=0.0),
        **because("LSH costs most by far; one round costs a quarter of four", lsh_rounds=1),
        **because(HEADS, n_heads=2), **because(FOUR, d_ff=256), **because(QUARTER, lsh_chunk=8),
    },
    ("paper", "smoke"): {
        **because(SPEED, lengths=(16,), steps=8, batch_size=4, d_model=32, n_heads=4, n_layers=2,
                  d_ff=64, eval_every=4, eval_batches=2, seeds=(0, 1)),
        **because(QUARTER, lsh_chunk=4),
    },
    ("earlier", "reference"): {
        **because("seven tenths of the updates: at a constant rate the end is an instant of what "
                  "jitters", lr_drop_after=2100),
        **because("the article shows one run a length; five tell more than three",
                  seeds=(0, 1, 2, 3, 4)),
        **because("512 held-out words, so that whole words are told to some percent",
                  eval_batches=64),
        **because(SPEED, d_model=128, n_layers=2), **because(FRESH, dropout=0.0),
        **because(HEADS, n_heads=4), **because(TWICE, d_ff=256),
    },
    ("earlier", "quick"): {
        **because(SPEED, lengths=(8, 16), steps=600, d_model=64, n_layers=2, eval_batches=5),
        **because("lets the end of a shorter run settle", lr_drop_after=500),
        **because("fewer steps are needed, and 16 cost little more than 8", batch_size=16),
        **because(SMALL, lr=3e-3), **because(FRESH, dropout=0.0), **because(HEADS, n_heads=2),
        **because(TWICE, d_ff=128), **because(EXACT, eval_every=50),
    },
    ("earlier", "smoke"): because(
        SPEED, lengths=(8, 16), steps=8, d_model=32, n_heads=4, n_layers=2, d_ff=64, eval_every=4,
        eval_batches=2, seeds=(0, 1),
    ),
}  # fmt: skip
"""What each profile chooses beyond that. ``paper`` has the published sizes."""
AT_LENGTHS = {
    ("paper", "reference"): {
        64: {
            **because(SPEED, steps=2600, eval_batches=5), **because(SETTLE, lr_drop_after=2100),
            **because("a smaller model bears it, so that fewer steps are needed", lr=2e-3),
            **because(QUARTER, lsh_chunk=16), **because(EXACT, eval_every=50),
        },
        128: because("a run of LSH takes two and a half hours", attentions=("softmax", "linear")),
    },
}  # fmt: skip
"""What holds at one length alone, as long as nobody chooses otherwise."""
WIDER = {
    "reference": {"d_model": 256, "n_heads": 8, "d_ff": 1024, "lengths": (128,),
                  "seeds": (0, 1, 2)},
    "smoke": {"d_model": 64, "n_heads": 8, "d_ff": 128, "seeds": (0,)},
}  # fmt: skip
"""Setting paper with the width, heads and feed-forward layers of the paper and of its authors'
code, where a profile has less; its other numbers stay. Quick has no time for it, profile paper has
these anyway. A run of reference takes one core one to two hours."""
RATES = {"reference": (1e-3, 4e-3, 8e-3), "smoke": (1e-2,)}
"""Setting paper at its shortest length, first seed, with other learning rates than the profile's,
for all mechanisms alike: is one of them held back by a rate that suits the others? In reference
half the rate, twice and four times; what tells is the loss on held-out words."""

NOTES = {
    "paper": [
        ("evaluation", None, "fresh samples", "fresh samples that training can never draw",
         "a tenth of all words is held out by a check digit"),
        ("query, key, value", None, "three products", "one product",
         "faster; drawn and clipped as three, so the same model"),
        ("LSH rounds", None, "plain mean", "weighted by their partition functions",
         "as the Reformer defines it (Kitaev et al. 2020)"),
    ],
    "earlier": [
        ("decoder", None, "sees what it must predict", "causal",
         "a copy that can be read off is not learnt"),
        ("encoder", "all layers", "only 2 of 4 have an effect", "all layers", "as in the article"),
        ("heads of linear", "as softmax", "64 of 8 features", "as softmax", "as in the article"),
        ("optimiser", None, "Adam", "RAdam", SAME),
        ("token embedding", None, "divided by the root of 512", "as drawn",
         "positions would outweigh it"),
        ("position embedding", None, "trained", "fixed", "as in the paper's setting"),
        ("final normalisation", None, None, "LayerNorm", SAME),
        ("loss", "summed over the batch", "summed over the batch", "mean per token",
         "does not depend on the batch; times batch size it is theirs"),
        ("cross attention of lsh", None, None, "softmax",
         "LSH cannot look from one sequence into another"),
        ("evaluation", None, None, "fresh samples that training can never draw",
         "a tenth of all words is held out by a check digit"),
    ],
}  # fmt: skip
"""Deviations that are not numbers: name, published, code, here, reason."""
