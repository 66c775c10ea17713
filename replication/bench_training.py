"""Whole models beside their rivals, forward and backward: ``bench training``.

The stack of layers of the authors' copy task (Sec. 4.1.1), fed with the same embedded
sequences: our linear model against the authors' library, our softmax model against
``torch.nn.TransformerEncoder``. No dropout, so that the random numbers do not count.
"""

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from replication.contenders import PEERS
from replication.measure import interleaved, peak_bytes
from replication.model import Layer, Sizes

WIDTH, HEADS, LAYERS, WIDE = 256, 8, 4, 1024
SIZES = {128: 64, 512: 16, 2048: 4}
"""Length: batch. The first is the authors' copy task; the others keep the number of tokens."""

RIVALS = {"linear": "authors", "softmax": "torch"}


def _ours(attention: str) -> nn.Module:
    sizes = Sizes(
        attention=attention, cross_attention=attention, vocabulary=1, length=1, d_model=WIDTH,
        n_heads=HEADS, n_layers=LAYERS, d_ff=WIDE, dropout=0.0, activation="relu",
        positions="added", options={},
    )  # fmt: skip
    return nn.Sequential(*(Layer(sizes, i, causal=True) for i in range(LAYERS)))


def _authors(N: int) -> Callable[[Tensor], Tensor]:
    from fast_transformers.builders import TransformerEncoderBuilder
    from fast_transformers.masking import TriangularCausalMask

    model = TransformerEncoderBuilder.from_kwargs(
        attention_type="causal-linear", n_layers=LAYERS, n_heads=HEADS, dropout=0.0,
        feed_forward_dimensions=WIDE, query_dimensions=WIDTH // HEADS,
        value_dimensions=WIDTH // HEADS, activation="relu", final_normalization=False,
    ).get()  # fmt: skip
    return lambda x: model(x, attn_mask=TriangularCausalMask(N, device=x.device))


def _torch(N: int) -> Callable[[Tensor], Tensor]:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, WIDE, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    mask = nn.Transformer.generate_square_subsequent_mask(N)
    return lambda x: model(x, mask=mask, is_causal=True)


def _step(model: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    def run() -> None:
        model(x).square().mean().backward()

    return run


def measure(rounds: int, lengths: tuple[int, ...] = tuple(SIZES)) -> pd.DataFrame:
    """A row a repeat: model, N, batch, round, time_ms a step, peak_bytes a step."""
    rows = []
    for N in tqdm(lengths, desc="training", leave=False, disable=None):
        x = torch.randn(SIZES[N], N, WIDTH, generator=torch.Generator().manual_seed(N))
        models = {"linear": _ours("linear"), "softmax": _ours("softmax"), "torch": _torch(N)}
        if PEERS:
            models["authors"] = _authors(N)
        runs = {name: _step(model, x) for name, model in models.items()}
        memory = {name: peak_bytes(run) for name, run in runs.items()}
        rows += [
            {"model": name, "N": N, "batch": SIZES[N], "round": i, "time_ms": time * 1e3,
             "peak_bytes": memory[name]}
            for i, name, time in interleaved(runs, rounds)
        ]  # fmt: skip
    return pd.DataFrame(rows)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Ours beside its rival: median milliseconds, megabytes, and the ratio within a round."""
    times = rows.pivot_table(index=["N", "round"], columns="model", values="time_ms")
    memory = rows.groupby(["N", "model"]).peak_bytes.first().unstack() / 1e6
    pairs = {ours: rival for ours, rival in RIVALS.items() if rival in times}
    return pd.concat(
        pd.DataFrame(
            {
                "ours": ours,
                "rival": rival,
                "ms": times[ours].groupby("N").median(),
                "rival ms": times[rival].groupby("N").median(),
                "times faster": (times[rival] / times[ours]).groupby("N").median(),
                "MB": memory[ours],
                "rival MB": memory[rival],
            }
        ).reset_index()
        for ours, rival in pairs.items()
    )


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """What was to be reached, beside what was."""
    softmax, long = table.ours == "softmax", table.N >= 512
    least = softmax.map({True: 1 / 1.05, False: 1.0}).where(softmax | ~long, 1.5)
    return table.assign(bar=least, reached=table["times faster"] >= least)
