"""What one layer costs here, mechanism by mechanism: ``replication ask``."""

import json
import time
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replication.experiments.base import Choice
from replication.experiments.crossover.numbers import OWN, QUESTION
from replication.experiments.crossover.question import GENERATION, direction, in_mode, named
from replication.experiments.scaling import add_machine
from replication.experiments.scaling.numbers import Scaling, of_choices, overridden

if TYPE_CHECKING:
    import pandas as pd

    from replication.experiments.crossover.limit import Limit

COMPARED = ("linear", "authors", "softmax", "softmax-textbook", "lsh-4")


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--length", type=int, required=True, help="N, positions of a sequence")
    for name, kind, text in (
        ("batch", int, "sequences; default: 1"),
        ("heads", int, "of the layer; default: 8"),
        ("head-dim", int, "size of a head; default: 64"),
        ("dtype", str, "or float64, bfloat16, float16; default: float32"),
        ("mode", str, "or forward, or generation: one token more; default: training"),
    ):
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument("--compare", nargs="+", metavar="NAME",
                        help=f"these; default: {' '.join(COMPARED)}")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=20.0, help="at most; default: 20")
    parser.add_argument("--causal", action=BooleanOptionalAction, default=True,
                        help="with a causal mask or without; default: with")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="for scripts; default: a table")
    add_machine(parser)


def run(options: Namespace) -> int:
    scaling = question(options)
    import pandas as pd

    from replication.experiments.crossover.limit import Limit, age_s
    from replication.experiments.crossover.run import check_size, mend_for

    check_size(scaling)
    mend_for(scaling)
    spent = age_s() if getattr(options, "is_command", False) else 0.0
    found = answer(scaling, Limit.of(options.seconds, spent))
    if options.json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return 0
    table = pd.DataFrame(found["costs"]).fillna(float("nan"))
    print(table.to_string(index=False, float_format="{:.3g}".format, na_rep="–"))
    print(*(f"{name} is left out: {why}" for name, why in found["left_out"].items()), found["how"],
          sep="\n")  # fmt: skip
    return 0


def question(options: Namespace) -> Scaling:
    """One length of one layer, in one run."""
    batch = 1 if options.batch is None else options.batch
    one = {"seconds": Choice(options.seconds, ""), "runs": Choice(1, ""),
           "repeats": Choice(20, "five stretches of four stand for processes")}  # fmt: skip
    compared = named(COMPARED if options.compare is None else options.compare, 1)
    names = ("heads", "head_dim", "dtype", "threads", "device")
    found = overridden(of_choices(OWN, QUESTION | one), {
        "contenders": compared, "lengths": options.length, "samples": batch,
        "tokens": max(1, batch * options.length), "directions": direction(options),
        "causal": [options.causal], **{name: getattr(options, name) for name in names},
    })  # fmt: skip
    return in_mode(found, options)


def answer(scaling: Scaling, limit: "Limit") -> dict[str, Any]:
    """The layer, the costs of every contender, the cheapest first, and who was left out, why."""
    from replication.experiments.scaling.contenders import kinds, words
    from replication.stats import location
    from replication.stats.levels import typical

    groups = kinds(scaling)[0]
    rows, sentence = limit.run(_measured, scaling, limit, time.time())
    measured, called, costs = rows[rows.status == "measured"], words(), []
    left = rows[rows.status == "skipped"].set_index("contender").reason.to_dict()
    batch, found = groups[0].batch, location(measured).droplevel("N") * groups[0].batch
    for name, mine in measured.groupby("contender"):
        if (clean := mine.time_ms[~mine.disturbed.astype(bool)]).empty:
            left[name] = f"load: other programs disturbed all of its {len(mine)} repeats"
            continue
        value, low, high, _ = found.loc[name]
        value = batch * typical(clean) if value != value else value  # too few for an interval
        low, high, MB = map(_number, (low, high, batch * mine.peak_bytes.max() / 1e6))
        costs.append({"attention": called[name], "ms": value, "from": low, "to": high, "MB": MB})
    costs.sort(key=itemgetter("ms"))
    costs = [cost | {"times the fastest": cost["ms"] / costs[0]["ms"]} for cost in costs]
    return {"layer": groups[0]._asdict(), "costs": costs, "how": sentence,
            "left_out": {called[name]: why for name, why in left.items()}}  # fmt: skip


def _measured(scaling: Scaling, limit: "Limit", begun: float) -> tuple["pd.DataFrame", str]:
    """In a process of its own: rows, and how they came about."""
    from replication import measure
    from replication.experiments.crossover import generation
    from replication.experiments.crossover.run import is_generation, load
    from replication.experiments.scaling.contenders import kinds
    from replication.experiments.scaling.run import measure_kind

    start, device = time.time() - begun, measure.pick_device(scaling.device)
    if is_generation(scaling):
        made = generation.measure_run(scaling, 0, limit.share(1, start), Path())
        return made.rows, made.facts["outcomes"][GENERATION]
    load(scaling)
    share = limit.share(1, start, counts=True)
    rows, outcome, _ = measure_kind(scaling, kinds(scaling)[0], 0, share, device)
    return rows, outcome.sentence()


def _number(value: Any) -> Any:
    """What is not known is None."""
    return None if isinstance(value, float) and value != value else value
