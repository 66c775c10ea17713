"""What one layer costs here, mechanism by mechanism: ``replication ask``."""

import json
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from typing import Any

from replication.experiments.base import Choice
from replication.experiments.crossover.numbers import OWN, QUESTION
from replication.experiments.scaling import add_machine
from replication.experiments.scaling.numbers import Scaling, of_choices, overridden

COMPARED = "linear, authors, softmax, softmax-textbook, lsh-4"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--length", type=int, required=True, help="N, positions of a sequence")
    for name, kind, text in (
        ("batch", int, "sequences; default: 1"),
        ("heads", int, "of the layer; default: 8"),
        ("head-dim", int, "size of a head; default: 64"),
        ("dtype", str, "or float64, bfloat16, float16; default: float32"),
        ("mode", str, "or forward; default: training, forward and backward"),
        ("compare", str, f"contenders; default: {COMPARED}"),
    ):
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument("--seconds", type=float, default=20.0, help="at most; default: 20")
    parser.add_argument("--causal", action=BooleanOptionalAction, default=True,
                        help="with a causal mask or without; default: with")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="for scripts; default: a table")
    add_machine(parser)


def run(options: Namespace) -> int:
    scaling = question(options)
    import pandas as pd

    from replication.experiments.crossover.run import check_size

    check_size(scaling)
    found = answer(scaling)
    if options.json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return 0
    print(pd.DataFrame(found["costs"]).to_string(index=False, float_format="{:.3g}".format))
    print("\n".join(f"{name} is left out: {why}" for name, why in found["left_out"].items()))
    print(found["how"])
    return 0


def question(options: Namespace) -> Scaling:
    """One length of one layer, in one run."""
    batch = 1 if options.batch is None else options.batch
    one = {"seconds": Choice(options.seconds, ""), "runs": Choice(1, ""),
           "repeats": Choice(20, "five stretches of four stand for processes")}  # fmt: skip
    names = ("heads", "head_dim", "dtype", "threads", "device")
    return overridden(of_choices(OWN, QUESTION | one), {
        "contenders": options.compare or COMPARED, "lengths": options.length, "samples": batch,
        "tokens": max(1, batch * options.length), "directions": options.mode,
        "causal": [options.causal], **{name: getattr(options, name) for name in names},
    })  # fmt: skip


def answer(scaling: Scaling) -> dict[str, Any]:
    """The layer, the costs of every contender, the cheapest first, and who was left out, why."""
    from replication import measure
    from replication.experiments.scaling.contenders import kinds, words
    from replication.experiments.scaling.run import measure_kind
    from replication.stats import location, ratios

    groups, device = kinds(scaling)[0], measure.pick_device(scaling.device)
    with measure.processes(1) as pool:
        job = pool.submit(measure_kind, scaling, groups, 0, scaling.seconds, device)
        rows, outcome, _ = job.result()
    measured, called, costs = rows[rows.status == "measured"], words(), []
    batch, times = groups[0].batch, location(measured)
    for (name, N), time in times.sort_values("value").iterrows():
        mine = measured[measured.contender == name]
        by = ratios(measured, times.value.idxmin()[0], name).loc[N] if len(costs) else None
        cost = {"attention": called[name], "ms": batch * time.value, "from": batch * time.low,
                "to": batch * time.high, "MB": batch * mine.peak_bytes.max() / 1e6,
                "times the fastest": 1.0 if by is None else by.value}  # fmt: skip
        costs.append({key: _number(value) for key, value in cost.items()})
    left = rows[rows.status == "skipped"].set_index("contender").reason
    return {"layer": groups[0]._asdict(), "costs": costs, "how": outcome.sentence(),
            "left_out": left.rename(called).to_dict()}  # fmt: skip


def _number(value: Any) -> Any:
    """What is not known is None."""
    return None if isinstance(value, float) and value != value else value
