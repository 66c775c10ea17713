"""How fast and how lean our kernels are beside their rivals, in one run: ``bench attention``.

Contenders take turns, round by round, in one process. A bar is a ratio within the run, never a
time. With one thread the clock is the processor's, with several it is the wall's.
"""

import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator

import pandas as pd
import torch
from tqdm.auto import tqdm

from replication import measure, store
from replication.attention import FrozenStack, contenders
from replication.attention.authors import ABSENT, is_installed
from replication.experiments.decoding.run import HEADS, LAYERS, WIDTH, stack
from replication.experiments.implementations.scrutiny import slope
from replication.experiments.scaling.contenders import Calls, Group, layer_calls
from replication.experiments.scaling.numbers import LAYER, WALL

LENGTHS = (8, 16, 64, 256, 1024, 4096, 16384)
HEAD_DIMS = (64, 32)
TOKENS = max(LENGTHS)
"""Positions in a batch, so that the batch is proportional to 1 / N as in the paper (Sec. 4.1.2)."""
LONGEST = 1024
"""For softmax attention, whose time grows with N^2."""
BATCHES = (1, 16, 128)
"""Of decoding."""
OPERATIONS = 14
"""D M of these a token and head: S, its products with phi(Q) and phi(K), and their gradients."""
BESIDE = 1024
"""Length of the sequences that are timed beside busy programs, D = 32."""
SPIN = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
"""A program that computes. It ends by itself, should nobody end it."""


def run(options: Namespace) -> int:
    """The command: measure, save, and say which bars are reached."""
    device = measure.pick_device(options.device)
    store.writable(options.out)
    if not is_installed():
        print(ABSENT)
    threads = options.threads or torch.get_num_threads()
    with measure.processes(1, threads) as pool:
        tables, rate, machine = pool.submit(bench, options.rounds, str(device)).result()
    facts = {"machine": machine, "rounds": options.rounds, "gemm_flops_per_s": rate}
    facts |= {"commit": store.commit(), "source": store.code_hash(bench)}
    for name, table in tables.items():
        store.write(options.out / f"{name}-{threads}-threads.csv", table, facts)
    print(per_token(tables["attention"]).round(2).to_string())
    print(bars(**tables, rate=rate).round(3).to_string(index=False))
    print(f"GEMM {rate / 1e9:.0f} GFLOP/s, {threads} threads. Rows: {options.out}")
    return 0


def bench(rounds: int, device: str) -> tuple[dict[str, pd.DataFrame], float, dict]:
    """Everything that is measured, the rate of a large product, and the machine."""
    place = torch.device(device)
    for _ in range(3):  # wake the machine up
        rate = measure.gemm_rate(place, repeats=2)
    tables = {"attention": attention(rounds, place), "decoding": decoders(rounds)}
    tables["busy"] = beside_others(rounds)
    return tables, max(rate, measure.gemm_rate(place)), measure.machine(place)


def attention(
    rounds: int, device: torch.device, lengths: tuple[int, ...] = LENGTHS,
    head_dims: tuple[int, ...] = HEAD_DIMS, tokens: int = TOKENS,
) -> pd.DataFrame:  # fmt: skip
    """A row a repeat of a causal layer forward and backward: us and peak bytes a token."""
    rows, sizes = [], [(D, N) for D in head_dims for N in lengths]
    for D, N in tqdm(sizes, desc="attention", leave=False, disable=None):
        names = [name for name in able() if N <= LONGEST or "softmax" not in name]
        runs = layers(names, tokens, N, D, device)
        memory = {name: measure.peak_bytes(run, device) for name, run in runs.items()}
        rows += [
            {"contender": name, "head_dim": D, "N": N, "round": i,
             "us": time * 1e6 / tokens, "peak_bytes": memory[name] / tokens}
            for i, name, time in measure.interleaved(runs, rounds, device)
        ]  # fmt: skip
    return pd.DataFrame(rows)


def able() -> list[str]:
    """Every contender of linear and softmax attention that can run here."""
    cards = {name: form.mechanism for name, form in contenders().items()}
    return [n for n, card in cards.items() if not (card.shared_keys or card.unavailable("float32"))]


def layers(names: Iterable[str], tokens: int, N: int, D: int, device: torch.device) -> Calls:
    """A causal layer forward and backward, called as in the scaling benchmark."""
    size = Group(LAYER, "training", True, WALL, HEADS, D, "float32", N, tokens // N)
    return layer_calls(names, size, device)


def per_token(rows: pd.DataFrame) -> pd.DataFrame:
    """Microseconds a token: a row a head size and length, a column a kernel."""
    return rows.groupby(["head_dim", "N", "contender"]).us.median().unstack()


def decoders(rounds: int) -> pd.DataFrame:
    """One token through 8 layers of width 256, as an RNN; ours and the authors'."""
    layers, rows, tokens = stack("linear"), [], 20
    frozen = FrozenStack(layers)
    for batch in BATCHES:
        x = torch.randn(batch, WIDTH)

        def ours(x: torch.Tensor = x) -> None:
            memories = [layer.begin(len(x), tokens, None) for layer in layers]
            for position in range(tokens):
                frozen.step(x, position, memories)

        runs = {"linear": ours} | ({"authors": _theirs(x, tokens)} if is_installed() else {})
        with torch.inference_mode():
            rows += [
                {"contender": name, "batch": batch, "round": i, "us": time * 1e6 / tokens}
                for i, name, time in measure.interleaved(runs, rounds)
            ]
    return pd.DataFrame(rows)


def _theirs(x: torch.Tensor, tokens: int) -> Callable[[], None]:
    from fast_transformers.builders import RecurrentEncoderBuilder

    model = RecurrentEncoderBuilder.from_kwargs(
        attention_type="linear", n_layers=LAYERS, n_heads=HEADS, feed_forward_dimensions=4 * WIDTH,
        query_dimensions=WIDTH // HEADS, value_dimensions=WIDTH // HEADS,
    ).get().eval()  # fmt: skip

    def run() -> None:
        state = None
        for _ in range(tokens):
            _, state = model(x, state=state)

    return run


def beside_others(rounds: int) -> pd.DataFrame:
    """A row a repeat, by the wall's clock, alone and beside 2 and 4 programs that compute."""
    one, rows = layers(["linear"], TOKENS, BESIDE, 32, torch.device("cpu"))["linear"], []
    for busy in (0, 2, 4):
        others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(busy)]
        try:
            time.sleep(1)
            one()
            rows += [{"busy": busy, "round": i, "ms": measure.seconds(one) * 1e3,
                      "explained": explained(busy)} for i in range(3 * rounds)]  # fmt: skip
        finally:
            for other in others:
                other.kill()
                other.wait()
    return pd.DataFrame(rows)


def explained(busy: int) -> float:
    """How many times as long the lost cores alone make it take."""
    cores, threads = os.cpu_count(), torch.get_num_threads()
    mine = min(threads, cores * threads / (threads + busy))
    return min(threads, cores) / mine


def bars(
    attention: pd.DataFrame, decoding: pd.DataFrame, busy: pd.DataFrame, rate: float
) -> pd.DataFrame:
    """What was to be reached, what was, and whether."""
    found = [*_speeds(attention), *_shares(attention, rate), *_memories(attention)]
    step = decoding.groupby(["batch", "contender"]).us.median().unstack()
    for batch, us in step.iterrows() if "authors" in step else ():
        least = 2 if batch == 1 else 1.3
        found.append((f"authors / linear, decoding, batch {batch}", us.authors / us.linear, least))
    load = busy.groupby("busy")[["ms", "explained"]].median()
    for count, row in load.iloc[1:].iterrows():
        part = row.explained / (row.ms / load.ms[0])
        found.append((f"share of the slowdown beside {count} programs explained", part, 1 / 1.5))
    table = pd.DataFrame(found, columns=["what", "measured", "bar"])
    return table.assign(reached=table.measured >= table.bar)


def _speeds(rows: pd.DataFrame) -> Iterator[tuple[str, float, float]]:
    """Tiled softmax is no bar: it shows what is the mechanism's and what the kernel's."""
    times = rows.pivot(index=["head_dim", "N", "round"], columns="contender", values="us")
    ratios = times.div(times.linear, axis=0).groupby(level=["head_dim", "N"]).median()
    for rival, shortest, least in (("authors", 64, 3.5), ("softmax", 16, 1),
                                   ("softmax-textbook", 16, 1)):  # fmt: skip
        for D, own in ratios.filter([rival]).loc[:, shortest:, :].groupby("head_dim"):
            what = f"{rival} / linear, D = {D}, least from N = {shortest} on"
            yield what, own[rival].min(), least


def _shares(rows: pd.DataFrame, rate: float) -> Iterator[tuple[str, float, float]]:
    us = per_token(rows).linear
    for D, least in ((64, 0.4), (32, 0.3)):
        share = OPERATIONS * D * D * HEADS / (us[D, 4096] * 1e-6) / rate
        yield f"share of the GEMM rate, D = {D}, N = 4096", share, least


def _memories(rows: pd.DataFrame) -> Iterator[tuple[str, float, float]]:
    memory = rows.groupby(["contender", "head_dim", "N"]).peak_bytes.first()
    ratio = (memory["linear-pytorch"] / memory["linear"]).loc[:, 1024:]
    yield "memory, PyTorch's kernel / compiled, least from N = 1024 on", ratio.min(), 1 / 1.1
    long = memory["linear"].loc[64].loc[1024:]
    growth = slope(long.index, long * long.index)
    yield "1 less the distance of the memory exponent from 1", 1 - abs(growth - 1), 0.98
