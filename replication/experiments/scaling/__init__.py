"""Scaling: how time and memory grow with N, of one layer and of whole models (notebook 04)."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from replication.experiments.base import Command, Experiment, at_least, can_be_folder, later
from replication.store import RESULTS

HERE = __name__


def folder(out: str | None, usual: Path) -> Path:
    """Where ``--out`` says that rows go."""
    if out is not None and not can_be_folder(out):
        raise ValueError(f"--out {out[:40]!r} can be no folder. Give one, such as results/own.")
    return Path(out) if out else usual


def add_machine(parser: ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, help="default: one, pinned; more: by wall time")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto; default: auto")


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--profile", default="quick", help="smoke, quick, reference or paper; default: quick")
    add("--contenders", help="such as linear,softmax; default: the profile's")
    add("--lengths", help="such as 64,128,256; default: the profile's")
    add("--seconds", type=float, help="of one run; default: the profile's")
    add("--add", type=int, help="measure so many of the missing runs now; default: all")
    add("--out", help="default: results/PROFILE")
    add("--again", action="store_true",
        help="measure all of it anew; default: only what is missing or stale")  # fmt: skip
    add_machine(parser)


def _bench(options: Namespace) -> int:
    from replication.experiments.scaling.numbers import resolve

    EXPERIMENT.check(profile=options.profile, add=options.add, device=options.device)
    where = folder(options.out, RESULTS / options.profile)
    names = ("contenders", "lengths", "seconds", "threads", "device")
    scaling = resolve(options.profile, **{name: getattr(options, name) for name in names})
    from replication.experiments.scaling.run import ensure
    from replication.experiments.scaling.tables import summary

    found = ensure(scaling, where, "fresh" if options.again else "auto", options.add)
    print(f"{summary(found)}\nRows and provenance: {where / 'scaling'}")
    return 0


def _check(profile: str = "quick", add: int | None = None, **given) -> None:
    from replication.experiments.scaling.numbers import resolve

    if add is not None:
        at_least("add", add, 0)
    resolve(profile, **given)


def _costs(evidence) -> list[dict]:
    allowed = evidence.facts["numbers"]["seconds"] * evidence.runs
    return [{"Part": f"scaling benchmark, {evidence.runs} runs", "Allowed": allowed,
             "Measured": evidence.facts["measured_seconds"]}]  # fmt: skip


EXPERIMENT = Experiment(
    name="scaling",
    title="scaling benchmark",
    notebook="04_scaling_benchmarks",
    work="timing",
    minutes={"smoke": 0.7, "quick": 1.7, "reference": 27.0},
    units=later(f"{HERE}.run:units"),
    in_parts=True,
    evidence=later(f"{HERE}.run:evidence"),
    rules={rule: later(f"{HERE}.tables:{rule}")
           for rule in ("grows_linearly", "faster", "crosses_at")},
    costs=_costs,
    commands=(
        Command("bench scaling", "time, memory and FLOPs against the length", _arguments, _bench),
    ),
    check=_check,
)  # fmt: skip
