"""The command ``replication``: what a user types. No science here."""

import argparse
import sys
from pathlib import Path

from replication import cli_scaling, cli_workflow, measure, results, sources


def parser() -> argparse.ArgumentParser:
    """All commands with all their options."""
    found = argparse.ArgumentParser(
        prog="replication", description="Run and measure the replication on this machine."
    )
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    cli_workflow.add(commands)
    _add_bench(commands)
    cli_scaling.add(commands)
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except (ValueError, results.ResultsError) as error:
        print(f"replication: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        return _storage_trouble(error)
    except KeyboardInterrupt:
        print("\nStopped. What was saved stays: call the same command again to go on.",
              file=sys.stderr)  # fmt: skip
        return 130


def _storage_trouble(error: OSError) -> int:
    """A full disk or a folder that cannot be written is told in words; else it is a bug."""
    from replication.notebooks import hint

    if not (advice := hint(str(error))):
        raise error
    print(f"replication: {error}\n{advice}", end="", file=sys.stderr)
    return 2


def _add_bench(commands) -> None:
    bench = commands.add_parser("bench", help="speed and memory of our code beside its rivals")
    kinds = bench.add_subparsers(dest="kind", required=True, metavar="WHAT")
    attention = kinds.add_parser("attention", help="kernels, and one decoding step")
    attention.add_argument("--device", default="auto")
    attention.set_defaults(run=_bench_attention)
    training = kinds.add_parser("training", help="whole models, forward and backward, on the CPU")
    training.set_defaults(run=_bench_training)
    cli_scaling.add_bench(kinds)
    for kind in (attention, training):
        kind.add_argument("--rounds", type=int, default=9, help="turns of every contender")
        kind.add_argument("--threads", type=int, default=None, help="default: PyTorch's choice")
        kind.add_argument("--out", type=Path, default=results.RESULTS / "bench")


def _prepare(options: argparse.Namespace) -> None:
    """The same allocator and threads for every contender."""
    import torch

    if options.rounds < 1:
        raise ValueError(f"--rounds {options.rounds} measures nothing. Choose at least 1.")
    measure.restart_with_allocator()
    if options.threads:
        torch.set_num_threads(options.threads)


def _facts(options: argparse.Namespace, room: str, device=None) -> dict:
    facts = {"machine": measure.machine(device), "rounds": options.rounds}
    return facts | {"commit": results.commit(), "source": sources.hash_of(room)}


def _bench_attention(options: argparse.Namespace) -> int:
    from replication import bench_attention

    device = measure.pick_device(options.device)
    _prepare(options)
    rows, decoding, rate = bench_attention.bench(options.rounds, device)
    facts = _facts(options, "bench_attention", device) | {"gemm_flops_per_s": rate}
    results.save(options.out, "attention", rows, facts)
    results.save(options.out, "decoding", decoding, facts)
    print(bench_attention.table(rows).to_string())
    print(decoding.groupby("contender").time_ms_per_token.median().round(3).to_string())
    print(bench_attention.bars(rows, decoding, rate).round(3).to_string(index=False))
    print(
        f"GEMM {rate / 1e9:.0f} GFLOP/s, {facts['machine']['threads']} threads. Rows: {options.out}"
    )
    return 0


def _bench_training(options: argparse.Namespace) -> int:
    from replication import bench_training

    _prepare(options)
    rows = bench_training.measure(options.rounds)
    facts = _facts(options, "bench_training")
    results.save(options.out, "training", rows, facts)
    print(bench_training.bars(bench_training.table(rows)).round(2).to_string(index=False))
    print(f"{facts['machine']['threads']} threads. Rows: {options.out}")
    return 0
