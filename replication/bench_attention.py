"""How fast and how lean our kernels are beside the authors', in one run: ``bench attention``.

Contenders take turns, round by round, in one process with the same threads. A bar is a ratio
within the run, never a time.
"""

from collections.abc import Iterator

import pandas as pd
import torch
from tqdm.auto import tqdm

from replication.contenders import NO_PEERS, PEERS, Cell, runner
from replication.decoding_cost import HEADS, LAYERS, WIDTH, stack
from replication.measure import count_flops, gemm_rate, interleaved, peak_bytes, seconds

LENGTHS = (64, 128, 256, 512, 1024, 4096, 16384)
HEAD_DIMS = (64, 32)
TOKENS = max(LENGTHS)
"""Positions in a batch, so that the batch is proportional to 1 / N as in the paper (Sec. 4.1.2)."""


def measure(rounds: int, device: torch.device) -> pd.DataFrame:
    """A row a repeat: contender, head_dim, N, batch, round, time_ms, peak_bytes, flops."""
    contenders = ["linear", *(["authors"] if PEERS else [])]
    sizes = [(D, N) for D in HEAD_DIMS for N in LENGTHS]
    rows = []
    for D, N in tqdm(sizes, desc="attention", leave=False, disable=None):
        cell = Cell(TOKENS // N, HEADS, N, D, True, "training")
        rows += _cell(cell, contenders, rounds, device)
    return pd.DataFrame(rows)


def _cell(cell: Cell, names: list[str], rounds: int, device: torch.device) -> Iterator[dict]:
    runs = {name: runner(name, cell, device) for name in names}
    memory = {name: peak_bytes(run, device) for name, run in runs.items()}
    flops = {name: count_flops(run) for name, run in runs.items() if name != "authors"}
    for i, name, time in interleaved(runs, rounds, device):
        yield {
            "contender": name,
            **cell._asdict(),
            "round": i,
            "time_ms": time * 1e3 / cell.batch,
            "peak_bytes": memory[name] / cell.batch,
            "flops": flops.get(name, float("nan")) / cell.batch,
        }


def measure_decoding(rounds: int, tokens: int = 50) -> pd.DataFrame:
    """One token through 8 layers of width 256 at batch 1, as an RNN; ours and the authors'."""
    runs = {"linear": _our_decoder()}
    if PEERS:
        runs["authors"] = _authors_decoder()
    with torch.inference_mode():
        timed = interleaved({name: lambda r=r: r(tokens) for name, r in runs.items()}, rounds)
        return pd.DataFrame(
            {"contender": name, "round": i, "time_ms_per_token": time * 1e3 / tokens}
            for i, name, time in timed
        )


def _our_decoder():
    layers, x = stack("linear"), torch.randn(1, WIDTH)

    def run(tokens: int) -> None:
        memories = [layer.begin(1, tokens, None) for layer in layers]
        for position in range(tokens):
            y = x
            for layer, memory in zip(layers, memories, strict=True):
                y = layer.step(y, position, memory)

    return run


def _authors_decoder():
    from fast_transformers.builders import RecurrentEncoderBuilder

    model = RecurrentEncoderBuilder.from_kwargs(
        attention_type="linear", n_layers=LAYERS, n_heads=HEADS, feed_forward_dimensions=4 * WIDTH,
        query_dimensions=WIDTH // HEADS, value_dimensions=WIDTH // HEADS,
    ).get().eval()  # fmt: skip
    x = torch.randn(1, WIDTH)

    def run(tokens: int) -> None:
        state = None
        for _ in range(tokens):
            _, state = model(x, state=state)

    return run


def ratios(rows: pd.DataFrame, rival: str) -> pd.Series:
    """Median over rounds of (rival's time / ours), by head_dim and N."""
    times = rows.pivot_table(
        index=["head_dim", "N", "round"], columns="contender", values="time_ms"
    )
    return (times[rival] / times["linear"]).groupby(level=["head_dim", "N"]).median()


def memory_exponent(rows: pd.DataFrame, D: int) -> float:
    """Slope of log peak memory a sample on log N for linear attention, at N of 1024 and more.

    Below that the state, C x (M + 1) numbers a head whatever N is, is not yet negligible.
    """
    ours = rows[(rows.contender == "linear") & (rows.head_dim == D)].query("N >= 1024")
    cells = ours.groupby("N").peak_bytes.first()
    logs = torch.tensor([list(cells.index), list(cells)]).double().log()
    x, y = logs - logs.mean(1, keepdim=True)
    return float((x @ y) / (x @ x))


def bars(rows: pd.DataFrame, decoding: pd.DataFrame, rate: float) -> pd.DataFrame:
    """What was to be reached, what was, and whether."""
    table = []

    def bar(what: str, value: float, least: float, unit: str = "x") -> None:
        table.append(
            {"what": what, "measured": value, "bar": least, "unit": unit, "reached": value >= least}
        )

    ours = rows[rows.contender == "linear"]
    at_4096 = ours[(ours.head_dim == 64) & (ours.N == 4096)]
    share = at_4096.flops.iloc[0] / (at_4096.time_ms.median() / 1e3) / rate
    bar("share of the GEMM rate, D = 64, N = 4096", share, 0.4, "of 1")
    slope = memory_exponent(rows, 64)
    bar(
        "0.02 less the distance of the memory exponent from 1, N >= 1024",
        0.02 - abs(slope - 1),
        0,
        "",
    )
    if PEERS:
        speed = ratios(rows, "authors")
        for N in (1024, 4096, 16384):
            bar(f"faster than the authors' kernel, D = 64, N = {N}", speed[64, N], 3)
        bar("the same, slowest of all D and N", speed.min(), 1)
        bar(
            "the same, slowest with N >= 256",
            speed[speed.index.get_level_values("N") >= 256].min(),
            2,
        )
        memory = rows.groupby(["contender", "head_dim", "N"]).peak_bytes.first()
        bar(
            "authors' memory over ours, least",
            (memory["authors"] / memory["linear"]).min(),
            1 / 1.1,
        )
        step = decoding.groupby("contender").time_ms_per_token.median()
        bar("decoding step, authors' time over ours", step["authors"] / step["linear"], 2)
    return pd.DataFrame(table)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Median milliseconds a sample and exact peak megabytes a sample, by size."""
    cells = rows.groupby(["head_dim", "N", "contender"])
    wide = pd.concat(
        {"ms": cells.time_ms.median().unstack(), "MB": cells.peak_bytes.first().unstack() / 1e6},
        axis=1,
    )
    return wide.round(2)


def bench(rounds: int, device: torch.device) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """Everything that ``bench attention`` measures."""
    if not PEERS:
        print(NO_PEERS)
    for _ in range(3):  # wake the machine up
        seconds(lambda: gemm_rate(device, repeats=2))
    rate = gemm_rate(device)
    rows, decoding = measure(rounds, device), measure_decoding(rounds)
    return rows, decoding, max(rate, gemm_rate(device))
