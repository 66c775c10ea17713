"""The commands ``crossover`` and ``bench scaling``. No science here."""

import argparse
import json
from pathlib import Path

from replication import measure, results


def add(commands) -> None:
    """``replication crossover``."""
    parser = commands.add_parser(
        "crossover", help="from which length on linear attention pays on this machine"
    )
    parser.add_argument("--heads", type=int, default=None, help="of the layer; default: 8")
    parser.add_argument("--head-dim", type=int, default=None, help="size of a head; default: 64")
    parser.add_argument("--dtype", default="float32", help="or float64, bfloat16, float16; "
                        "default: float32")  # fmt: skip
    parser.add_argument("--mode", default="training", help="or forward; default: training")
    parser.add_argument("--causal", action=argparse.BooleanOptionalAction, default=True,
                        help="with a causal mask or without; default: with")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="about how long it may take; "
                        "default: 60")  # fmt: skip
    parser.add_argument("--lengths", default=None, help="such as 64,128,256; default: 8 to 8192, "
                        "doubling")  # fmt: skip
    parser.add_argument("--tokens", type=int, default=None, help="positions in a batch, which "
                        "shrinks as 1/N; default: 1024")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="for scripts; default: a paragraph")
    parser.add_argument("--out", type=Path, default=results.RESULTS / "crossover",
                        help="where the setting's folder of rows goes; default: "
                        "results/crossover")  # fmt: skip
    _add_machine(parser)
    parser.set_defaults(run=_crossover)


def add_bench(kinds) -> None:
    """``replication bench scaling``."""
    parser = kinds.add_parser("scaling", help="time, memory and FLOPs against the length")
    parser.add_argument("--profile", default="quick", help="smoke, quick, reference or paper; "
                        "default: quick")  # fmt: skip
    parser.add_argument("--contenders", default=None, help="such as linear,softmax; default: the "
                        "profile's")  # fmt: skip
    parser.add_argument("--lengths", default=None, help="such as 64,128,256; default: the "
                        "profile's")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=None, help="for all cells together; "
                        "default: the profile's")  # fmt: skip
    parser.add_argument("--memory-gb", type=float, default=None, help="default: most of the free")
    parser.add_argument("--out", type=Path, default=None, help="default: results/PROFILE")
    parser.add_argument("--again", action="store_true", help="begin anew, unless a run of the "
                        "same was broken off there; default: go on with what is there")  # fmt: skip
    _add_machine(parser)
    parser.set_defaults(run=_bench_scaling)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=None, help="default: PyTorch's choice")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto; default: auto")


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
    """Measured anew, or gone on with if it was broken off; of each setting the last is kept."""
    from replication.answer import answer, as_dict, paragraph
    from replication.scaling import run_repeats
    from replication.scaling.repeats import setting_name
    from replication.scaling_config import for_crossover

    scaling = for_crossover(
        options.seconds, heads=options.heads, head_dim=options.head_dim, dtype=options.dtype,
        directions=options.mode, causal=[options.causal], lengths=options.lengths,
        tokens=options.tokens,
    )  # fmt: skip
    folder = options.out / setting_name(scaling)
    found = answer(scaling, *run_repeats(scaling, folder, _device(options)))
    if options.json:
        print(json.dumps(as_dict(found) | {"folder": str(folder)}, indent=2, allow_nan=False))
    else:
        print(f"{paragraph(found)}\nRows and provenance: {folder}")
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
