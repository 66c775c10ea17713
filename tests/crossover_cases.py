"""Made-up rows whose crossover is known."""

import math

import numpy as np
import pandas as pd

from replication.stats import measured_crossover

N = 2 ** np.arange(4, 13)
LINEAR = 0.05 + 0.012 * N
SOFTMAX = 0.03 + 0.004 * N + 2e-5 * N**2
TRUE = (0.008 + math.sqrt(0.008**2 + 4 * 2e-5 * 0.02)) / 4e-5  # 402.5
RUNS, ROUNDS = 3, 4


def rows_of(costs, lengths=N, quantity="time_ms", noise=None):
    """One row a repeat; noise [lengths, contenders, runs, rounds] is added to the logarithms."""
    shape = (len(lengths), len(costs), RUNS, ROUNDS)
    noise = np.zeros(shape) if noise is None else noise
    values = np.exp(np.log(np.stack([*costs.values()], -1))[..., None, None] + noise)
    length, name, run, number = (i.ravel() for i in np.indices(values.shape))
    return pd.DataFrame(
        {
            "contender": np.array([*costs])[name],
            "direction": "training",
            "causal": True,
            "N": np.asarray(lengths)[length],
            "run": run,
            "round": number,
            "disturbed": False,
            "status": "measured",
            quantity: values.ravel(),
        }
    )


def machine_noise(seed, between=0.03, within=0.03, lengths=9, contenders=2):
    """Processes differ from each other; within one, repeats can only be lengthened."""
    rng, shape = np.random.default_rng(seed), (lengths, contenders, RUNS)
    return rng.normal(0, between, shape)[..., None] + rng.exponential(within, (*shape, ROUNDS))


def simulated(seed, **noise):
    return rows_of({"linear": LINEAR, "softmax": SOFTMAX}, noise=machine_noise(seed, **noise))


def measured(linear, softmax, lengths=N, **options):
    rows = rows_of({"linear": np.asarray(linear), "softmax": np.asarray(softmax)}, lengths)
    return measured_crossover(rows, "linear", "softmax", **options)
