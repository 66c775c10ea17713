"""Whole models beside their rivals, forward and backward: ``bench training``.

The stack of layers of the authors' copy task (Sec. 4.1.1), at N = 784 that of their model of MNIST
(Sec. 4.2.1), fed with the same embedded sequences: our linear model against the authors' library,
our softmax model against ``torch.nn.TransformerEncoder``. No dropout, so that the random numbers do
not count; a model whose attention costs nothing, all else being the same, says what can be gained.
"""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from replication import measure, store
from replication.attention import mechanism
from replication.model import Layer, Sizes

WIDTH, HEADS, WIDE = 256, 8, 1024
SIZES = {128: (64, 4), 512: (16, 4), 784: (4, 8), 2048: (4, 4)}
"""Length: batch and layers. The first is the authors' copy task, of which 512 and 2048 keep the
number of tokens; 784 is their model of MNIST."""

RIVALS = {"linear": "authors", "softmax": "torch"}
FREE = "no attention"


def command(options: Namespace) -> int:
    """Measure in a process of its own, save the rows, print what was to be reached."""
    store.writable(options.out)
    with measure.processes(1, options.threads) as pool:
        rows = pool.submit(timed, options.rounds).result()
        facts = {"machine": pool.submit(measure.machine).result()}
    facts |= {"commit": store.commit(), "source": store.code_hash(timed), "rounds": options.rounds}
    store.write(options.out / "training.csv", rows, facts)
    print(table(rows).round(2).to_string(index=False))
    return 0


def _ours(attention: str, layers: int) -> nn.Module:
    sizes = Sizes(attention, WIDTH, HEADS, layers, WIDE)
    return nn.Sequential(*(Layer(sizes, i, causal=True) for i in range(layers)))


def _free(layers: int) -> nn.Module:
    """A model that takes the values for what attention makes of them."""
    model = _ours("linear", layers)
    for layer in model:
        layer.attention.card = replace(layer.attention.card, attend=lambda Q, K, V, **_: V)
    return model


def _authors(N: int, layers: int) -> Callable[[Tensor], Tensor]:
    from fast_transformers.builders import TransformerEncoderBuilder
    from fast_transformers.masking import TriangularCausalMask

    model = TransformerEncoderBuilder.from_kwargs(
        attention_type="causal-linear", n_layers=layers, n_heads=HEADS, dropout=0.0,
        feed_forward_dimensions=WIDE, query_dimensions=WIDTH // HEADS,
        value_dimensions=WIDTH // HEADS, activation="relu", final_normalization=False,
    ).get()  # fmt: skip
    return lambda x: model(x, attn_mask=TriangularCausalMask(N, device=x.device))


def _torch(N: int, layers: int) -> Callable[[Tensor], Tensor]:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, WIDE, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    mask = nn.Transformer.generate_square_subsequent_mask(N)
    return lambda x: model(x, mask=mask, is_causal=True)


def _step(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model(x).square().mean().backward()


def timed(rounds: int, lengths: tuple[int, ...] = tuple(SIZES)) -> pd.DataFrame:
    """A row a repeat: model, N, batch, layers, round, time_ms a step, peak_bytes a step."""
    rows = []
    for N in tqdm(lengths, desc="training", leave=False, disable=None):
        batch, layers = SIZES[N]
        x = torch.randn(batch, N, WIDTH, generator=torch.Generator().manual_seed(N))
        models = {name: _ours(name, layers) for name in RIVALS}
        models |= {"torch": _torch(N, layers), FREE: _free(layers)}
        if mechanism("authors").unavailable("float32") is None:
            models["authors"] = _authors(N, layers)
        runs = {name: partial(_step, model, x) for name, model in models.items()}
        memory = {name: measure.peak_bytes(run) for name, run in runs.items()}
        rows += [
            {"model": name, "N": N, "batch": batch, "layers": layers, "round": i,
             "time_ms": time * 1e3, "peak_bytes": memory[name]}
            for i, name, time in measure.interleaved(runs, rounds)
        ]  # fmt: skip
    return pd.DataFrame(rows)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Ours beside its rival: median milliseconds, megabytes, the ratio within a round, what it were
    if attention cost nothing, and the bar that was to be reached."""
    times = rows.pivot_table(index=["N", "round"], columns="model", values="time_ms")
    memory = rows.groupby(["N", "model"]).peak_bytes.first().unstack() / 1e6
    found = []
    for ours, rival in ((a, b) for a, b in RIVALS.items() if b in times):
        ratio, most = ((times[rival] / times[own]).groupby("N").median() for own in (ours, FREE))
        ms, rival_ms = (times[name].groupby("N").median() for name in (ours, rival))
        columns = {"ours": ours, "rival": rival, "ms": ms, "rival ms": rival_ms}
        columns |= {"times faster": ratio, "at most": most}
        columns |= {"MB": memory[ours], "rival MB": memory[rival]}
        found.append(pd.DataFrame(columns).reset_index())
    found = pd.concat(found)
    bar = np.where(found.ours == "softmax", 1 / 1.05, np.where(found.N >= 512, 1.5, 1.0))
    return found.assign(bar=bar, reached=found["times faster"] >= bar)
