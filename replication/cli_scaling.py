"""The commands ``crossover`` and ``bench scaling``. No science here."""

import argparse
import json
from pathlib import Path

from replication import measure, results

CALIBRATION_SHARE = 0.2
"""The part of ``crossover``'s time that is left to calibration and bookkeeping."""


def add(commands) -> None:
    """``replication crossover``."""
    parser = commands.add_parser(
        "crossover", help="from which length on linear attention pays on this machine"
    )
    parser.add_argument("--heads", type=int, default=None, help="default: 8")
    parser.add_argument("--head-dim", type=int, default=None, help="default: 64")
    parser.add_argument("--dtype", default="float32", help="or float64, bfloat16, float16")
    parser.add_argument("--mode", default="training", help="or forward")
    parser.add_argument("--causal", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seconds", type=float, default=60.0, help="about how long it may take")
    parser.add_argument("--lengths", default=None, help="such as 64,128,256; default: 8 to 8192")
    parser.add_argument("--json", action="store_true", help="for scripts")
    _add_machine(parser)
    parser.set_defaults(run=_crossover)


def add_bench(kinds) -> None:
    """``replication bench scaling``."""
    parser = kinds.add_parser("scaling", help="time, memory and FLOPs against the length")
    parser.add_argument("--profile", default="quick", help="smoke, quick, reference or paper")
    parser.add_argument("--contenders", default=None, help="such as linear,softmax; default: all")
    parser.add_argument("--lengths", default=None, help="such as 64,128,256")
    parser.add_argument("--seconds", type=float, default=None, help="for all cells together")
    parser.add_argument("--memory-gb", type=float, default=None, help="default: most of the free")
    parser.add_argument("--out", type=Path, default=None, help="default: results/PROFILE")
    parser.add_argument("--again", action="store_true", help="forget what was measured there")
    _add_machine(parser)
    parser.set_defaults(run=_bench_scaling)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=None, help="default: PyTorch's choice")
    parser.add_argument("--device", default="auto")


def _device(options: argparse.Namespace):
    """The device, after all that must be so before anything is timed."""
    import torch

    device = measure.pick_device(options.device)
    if options.threads is not None and options.threads < 1:
        raise ValueError(f"--threads {options.threads} is too few. Choose at least 1.")
    measure.restart_with_allocator()
    if options.threads:
        torch.set_num_threads(options.threads)
    return device


def _crossover(options: argparse.Namespace) -> int:
    from replication.answer import answer, as_dict, paragraph
    from replication.benchmark import measure_now
    from replication.scaling_config import for_crossover

    scaling = for_crossover(
        options.seconds * (1 - CALIBRATION_SHARE), heads=options.heads, head_dim=options.head_dim,
        dtype=options.dtype, directions=options.mode, causal=[options.causal],
        lengths=options.lengths,
    )  # fmt: skip
    device = _device(options)
    found = answer(scaling, measure_now(scaling, device), measure.machine(device))
    text = json.dumps(as_dict(found), indent=2, allow_nan=False) if options.json else None
    print(text or paragraph(found))
    return 0


def _bench_scaling(options: argparse.Namespace) -> int:
    from replication.scaling import run_scaling, summary
    from replication.scaling_config import resolve

    scaling = resolve(
        options.profile, contenders=options.contenders, lengths=options.lengths,
        seconds=options.seconds,
    )  # fmt: skip
    if options.memory_gb is not None and not options.memory_gb > 0:
        raise ValueError(f"--memory-gb {options.memory_gb} is no memory. Give a positive number.")
    memory = None if options.memory_gb is None else options.memory_gb * 1e9
    folder = options.out or results.RESULTS / options.profile
    outcome = run_scaling(
        scaling, folder, _device(options), memory_bytes=memory, again=options.again
    )
    print(summary(outcome))
    print(f"Rows, plan and provenance: {folder}")
    return 0
