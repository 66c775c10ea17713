"""Made-up rows whose crossover is known."""

import math

import numpy as np
import pandas as pd

from replication.crossover import (
    measured_crossover,
)

N = 2 ** np.arange(4, 13)
LINEAR = 0.05 + 0.012 * N
SOFTMAX = 0.03 + 0.004 * N + 2e-5 * N**2
TRUE = (0.008 + math.sqrt(0.008**2 + 4 * 2e-5 * 0.02)) / 4e-5  # 402.5


def rows_of(costs, lengths=N, quantity="time_ms", rounds=1, noise=None):
    """One row a repeat; noise [lengths, rounds, contenders] is added to the logarithms."""
    noise = np.zeros((len(lengths), rounds, len(costs))) if noise is None else noise
    values = np.exp(np.log(np.stack([*costs.values()], -1))[:, None] + noise)
    length, number, name = (i.ravel() for i in np.indices(values.shape))
    return pd.DataFrame(
        {
            "contender": np.array([*costs])[name],
            "direction": "training",
            "causal": True,
            "N": np.asarray(lengths)[length],
            "round": number,
            quantity: values.ravel(),
        }
    )


def machine_noise(rng, rounds, sigma, lengths=9):
    """Lognormal repeats, rounds that slow both contenders, and 3 % of repeats far too slow."""
    shape = (lengths, rounds, 2)
    repeat, common = rng.normal(0, sigma, shape), rng.normal(0, 0.08, (*shape[:2], 1))
    return repeat + common + (rng.random(shape) < 0.03) * np.log(rng.uniform(1.5, 4, shape))


def simulated(seed, rounds=10, sigma=0.05):
    noise = machine_noise(np.random.default_rng(seed), rounds, sigma)
    return rows_of({"linear": LINEAR, "softmax": SOFTMAX}, noise=noise)


def simulated_runs(seed, runs=7, rounds=6, sigma=0.05, drift=0.1):
    """Runs in which the ratio drifts from length to length, the same for all rounds at one."""
    rng = np.random.default_rng(seed)
    costs, found = {"linear": LINEAR, "softmax": SOFTMAX}, []
    for run in range(runs):
        noise = machine_noise(rng, rounds, sigma)
        noise[..., 0] += rng.normal(0, drift, (len(N), 1)) + rng.normal(0, drift)
        found.append(rows_of(costs, noise=noise).assign(run=run))
    return pd.concat(found, ignore_index=True)


def measured(linear, softmax, lengths=N, **options):
    rows = rows_of({"linear": np.asarray(linear), "softmax": np.asarray(softmax)}, lengths)
    return measured_crossover(rows, "linear", "softmax", **options)
