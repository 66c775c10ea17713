"""Made-up rows of training on the copy task, and what C1's rule says of them."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd

from replication.experiments.copy_task import EXPERIMENT
from replication.experiments.copy_task.rules import summarise
from replication.experiments.copy_task.run import Evidence

UPDATES = 2000
GOOD, BAD = (0.004, 0.999), (1.2, 0.55)


def one_run(attention, seed, ending=GOOD, *, length=32, spikes_at=(), updates=UPDATES):
    """Rows of a run whose loss falls smoothly from log 10 to its ending, but for spikes."""
    which = {"attention": attention, "length": length, "seed": seed}
    loss, accuracy = ending
    step = np.arange(1, updates + 1)
    losses = loss + (math.log(10) - loss) * np.exp(-8 * step / updates)
    losses[list(spikes_at)] += 2
    way = {"loss": losses, "grad_norm": 1 + losses, "seconds": 0.01}
    steps = pd.DataFrame({"step": step, **way, "smallest_denominator": 3.0}).assign(**which)
    at = [0, updates // 2, updates]
    found = {"eval_loss": [2.3, 1.5, loss], "token_accuracy": [0.1, 0.4, accuracy]}
    evaluations = pd.DataFrame({"step": at, **found, "exact_match": [0, 0, accuracy**16]})
    return steps, evaluations.assign(**which)


def summary(linear, softmax, failures=(), **options):
    """Summarised rows with one ending a seed."""
    runs = [("linear", *end) for end in enumerate(linear)]
    runs += [("softmax", *end) for end in enumerate(softmax)]
    spiky = options.pop("spikes_at", ())
    frames = [one_run(a, s, e, spikes_at=spiky if a == "linear" else (), **options)
              for a, s, e in runs]  # fmt: skip
    return summarise(*map(pd.concat, zip(*frames, strict=True)), failures)


def near(loss, n=3):
    """Endings close to one another."""
    return [(loss + 0.0005 * i, 0.999 if loss < 0.05 else 0.5) for i in range(n)]


def evidence_of(runs, published=UPDATES):
    """Both settings have these runs."""
    found = SimpleNamespace(runs=runs, study=SimpleNamespace(published_updates=published))
    return Evidence({"paper": found, "earlier": found})


def claim_1(runs, published=UPDATES):
    return EXPERIMENT.rules["converges"](evidence_of(runs, published), setting="paper")


def cell_of(claim):
    return claim.values["lengths"][0]
