"""Every number of the copy task once, with its source.

Sources: *paper*, Katharopoulos et al. 2020, Sec. 4.1.1; *authors' code*,
idiap/linear-transformer-experiments (causal-copy) with pytorch-fast-transformers 0.4.0;
*article* and *their code*, Do & Bergner 2022, jbergner1/DM2022-LinearTransformers (LinTrans.jl).
``None`` means that a source does not say. A profile takes what was published, else what the
code does, unless a ``Choice`` names another value and why.
"""

from typing import Any, NamedTuple


class Origin(NamedTuple):
    """What was published, and what the code behind it does."""

    published: Any = None
    code: Any = None


class Choice(NamedTuple):
    """A value of our own."""

    value: Any
    reason: str


ORIGINS = {
    "paper": {
        "lengths": Origin((128,), (128,)),
        "symbols": Origin(10, 10),
        "attentions": Origin(("softmax", "linear", "lsh"), ("softmax", "linear", "lsh")),
        "seeds": Origin(),
        "steps": Origin(10_000, 10_000),
        "batch_size": Origin(64, 64),
        "lr": Origin(1e-3, 1e-3),
        "lr_drop_after": Origin(3000, 3000),
        "lr_drop": Origin(0.1, 0.1),
        "betas": Origin(None, (0.9, 0.999)),
        "eps": Origin(None, 1e-8),
        "weight_decay": Origin(None, 0.01),
        "clip": Origin(None, 1.0),
        "dropout": Origin(None, 0.1),
        "attention_dropout": Origin(None, 0.1),
        "d_model": Origin(None, 256),
        "n_heads": Origin(8, 8),
        "n_layers": Origin(4, 4),
        "d_ff": Origin(None, 1024),
        "activation": Origin(None, "relu"),
        "positions": Origin(None, "concatenated"),
        "lsh_rounds": Origin(4, 4),
        "lsh_buckets": Origin(None, 64),
        "lsh_chunk": Origin(None, 32),
        "eval_every": Origin(None, 100),
        "eval_batches": Origin(None, 20),
    },
    "earlier": {
        "lengths": Origin((8, 16, 32, 64), (8,)),
        "symbols": Origin(10, 10),
        "attentions": Origin(("softmax", "linear"), ("linear",)),
        "seeds": Origin(),
        "steps": Origin(3000, 3000),
        "batch_size": Origin(8, 8),
        "lr": Origin(1e-3, 1e-4),
        "lr_drop_after": Origin(),
        "lr_drop": Origin(),
        "betas": Origin(None, (0.9, 0.999)),
        "eps": Origin(None, 1e-8),
        "weight_decay": Origin(None, 0.0),
        "clip": Origin(),
        "dropout": Origin(None, 0.1),
        "attention_dropout": Origin(None, 0.1),
        "d_model": Origin(512, 512),
        "n_heads": Origin(8, 8),
        "n_layers": Origin(4, 4),
        "d_ff": Origin(None, 1024),
        "activation": Origin("relu or elu_plus_one", "relu, elu_plus_one in the decoder"),
        "positions": Origin(None, "added"),
        "lsh_rounds": Origin(),
        "lsh_buckets": Origin(),
        "lsh_chunk": Origin(),
        "eval_every": Origin(),
        "eval_batches": Origin(),
    },
}

OUR_OWN = {"threads": Origin(), "device": Origin()}
"""What only this replication has to choose."""

SOURCES = {"paper": ("paper", "authors' code"), "earlier": ("article", "their code")}
PROFILE_NAMES = ("smoke", "quick", "reference", "paper")

SPEED = "shortens the run to the time of this profile"
HEADS = "heads of 32 features, as in the authors' code"
SAME = "as in the paper's setting, so that both are trained alike"

COMMON = {
    "paper": {
        "attention_dropout": Choice(
            0.0, "linear attention writes no weights down to be dropped: off for all, not for some"
        ),
        "seeds": Choice((0, 1, 2), "enough to see whether a difference is larger than chance"),
        "eval_every": Choice(100, "once an epoch of the authors' code"),
        "threads": Choice(1, "seeds run side by side; a fixed number makes runs repeatable"),
        "device": Choice("auto", "CUDA where there is one, else the CPU"),
    },
    "earlier": {
        "attention_dropout": Choice(0.0, "off for all, as in the paper's setting"),
        "activation": Choice("relu", "the same for both mechanisms, in encoder and decoder"),
        "lr": Choice(1e-3, "as the article states it"),
        "lengths": Choice((8, 16, 32, 64), "as the article states them"),
        "attentions": Choice(("softmax", "linear"), "as in the article's figures"),
        "seeds": Choice((0, 1, 2), "the article shows one run a length"),
        "lr_drop_after": Choice(3000, SAME),
        "lr_drop": Choice(0.1, SAME),
        "weight_decay": Choice(0.01, SAME),
        "clip": Choice(1.0, SAME),
        "lsh_rounds": Choice(4, SAME),
        "lsh_buckets": Choice(64, SAME),
        "lsh_chunk": Choice(32, SAME),
        "eval_every": Choice(100, SAME),
        "eval_batches": Choice(20, SAME),
        "threads": Choice(1, "seeds run side by side; a fixed number makes runs repeatable"),
        "device": Choice("auto", "CUDA where there is one, else the CPU"),
    },
}
"""What all profiles of a setting choose."""

CHOICES = {
    ("paper", "paper"): {},
    ("paper", "reference"): {
        "lengths": Choice((64,), SPEED),
        "steps": Choice(2600, SPEED),
        "lr_drop_after": Choice(2100, "lets the last fifth of a shorter run settle"),
        "batch_size": Choice(16, SPEED),
        "lr": Choice(2e-3, "a smaller model bears it, so that fewer steps are needed"),
        "dropout": Choice(0.0, "fresh samples cannot be overfitted"),
        "d_model": Choice(128, SPEED),
        "n_heads": Choice(4, HEADS),
        "d_ff": Choice(512, "four times d_model, as in the authors' code"),
        "lsh_chunk": Choice(16, "a quarter of the length, as 32 is of 128"),
        "eval_every": Choice(50, "finds the step at which 99 % are reached more exactly"),
        "eval_batches": Choice(5, SPEED),
    },
    ("paper", "quick"): {
        "lengths": Choice((32,), SPEED),
        "steps": Choice(1000, SPEED),
        "lr_drop_after": Choice(800, "lets the last fifth of a shorter run settle"),
        "batch_size": Choice(32, SPEED),
        "lr": Choice(3e-3, "a small model bears it, so that fewer steps are needed"),
        "dropout": Choice(0.0, "fresh samples cannot be overfitted"),
        "d_model": Choice(64, SPEED),
        "n_heads": Choice(2, HEADS),
        "n_layers": Choice(2, SPEED),
        "d_ff": Choice(256, "four times d_model, as in the authors' code"),
        "lsh_rounds": Choice(1, "LSH is the dearest by far; one round costs a quarter of four"),
        "lsh_chunk": Choice(8, "a quarter of the length, as 32 is of 128"),
        "eval_batches": Choice(5, SPEED),
    },
    ("paper", "smoke"): {
        "lengths": Choice((16,), SPEED),
        "steps": Choice(8, SPEED),
        "batch_size": Choice(4, SPEED),
        "d_model": Choice(32, SPEED),
        "n_heads": Choice(4, SPEED),
        "n_layers": Choice(2, SPEED),
        "d_ff": Choice(64, SPEED),
        "lsh_chunk": Choice(4, "a quarter of the length, as 32 is of 128"),
        "eval_every": Choice(4, SPEED),
        "eval_batches": Choice(2, SPEED),
        "seeds": Choice((0, 1), SPEED),
    },
    ("earlier", "paper"): {},
    ("earlier", "reference"): {
        "attentions": Choice(
            ("softmax", "linear", "lsh"),
            "the paper's third beside the article's two, so that both settings compare the same",
        ),
        "lsh_chunk": Choice(16, "a quarter of the longest, as 32 is of 128"),
        "dropout": Choice(0.0, "fresh samples cannot be overfitted"),
        "d_model": Choice(128, SPEED),
        "n_heads": Choice(4, HEADS),
        "n_layers": Choice(2, SPEED),
        "d_ff": Choice(256, "twice d_model, as in their code"),
        "eval_batches": Choice(10, SPEED),
    },
    ("earlier", "quick"): {
        "lengths": Choice((8, 16), SPEED),
        "steps": Choice(600, SPEED),
        "lr_drop_after": Choice(500, "lets the end of a shorter run settle"),
        "batch_size": Choice(16, "fewer steps are needed, and 16 cost little more than 8"),
        "lr": Choice(3e-3, "a small model bears it, so that fewer steps are needed"),
        "dropout": Choice(0.0, "fresh samples cannot be overfitted"),
        "d_model": Choice(64, SPEED),
        "n_heads": Choice(2, HEADS),
        "n_layers": Choice(2, SPEED),
        "d_ff": Choice(128, "twice d_model, as in their code"),
        "eval_every": Choice(50, "finds the step at which 99 % are reached more exactly"),
        "eval_batches": Choice(5, SPEED),
    },
    ("earlier", "smoke"): {
        "lengths": Choice((8, 16), SPEED),
        "steps": Choice(8, SPEED),
        "d_model": Choice(32, SPEED),
        "n_heads": Choice(4, SPEED),
        "n_layers": Choice(2, SPEED),
        "d_ff": Choice(64, SPEED),
        "eval_every": Choice(4, SPEED),
        "eval_batches": Choice(2, SPEED),
        "seeds": Choice((0, 1), SPEED),
    },
}
"""What each profile chooses beyond that. ``paper`` has the published sizes."""

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
