"""What one layer costs here, mechanism by mechanism: ``replication ask``."""

import json
import time
from argparse import ArgumentParser, Namespace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replication.experiments.crossover.question import COMPARED, add_layer, one_length
from replication.experiments.scaling.numbers import Scaling

if TYPE_CHECKING:
    from replication.experiments.crossover.limit import Limit


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--length", type=int, required=True, help="N, positions of a sequence")
    parser.add_argument("--batch", type=int, help="sequences; default: 1")
    add_layer(parser)
    parser.add_argument("--compare", nargs="+", metavar="NAME",
                        help=f"these; default: {' '.join(COMPARED)}")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=20.0, help="at most; default: 20")


def run(options: Namespace) -> int:
    scaling = one_length(options)
    import pandas as pd

    from replication.experiments.crossover.run import Limit, prepare

    prepare(scaling)
    found = answer(scaling, Limit.of_command(options))
    if options.json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return 0
    table = pd.DataFrame(found["costs"]).fillna(float("nan"))
    print(table.to_string(index=False, float_format="{:.3g}".format, na_rep="–"))
    print(*(f"{name} is left out: {why}" for name, why in found["left_out"].items()), found["how"],
          sep="\n")  # fmt: skip
    return 0


def answer(scaling: Scaling, limit: "Limit") -> dict[str, Any]:
    """The layer, the costs of every contender, the cheapest first, and who was left out, why."""
    from replication.experiments.crossover.run import measure_until
    from replication.experiments.scaling.contenders import kinds, words
    from replication.stats import location
    from replication.stats.levels import typical

    group, called, costs = kinds(scaling)[0][0], words(), []
    rows, facts = limit.run(measure_until, scaling, 0, limit, time.time(), Path())
    measured = rows[rows.status == "measured"]
    left = rows[rows.status == "skipped"].set_index("contender").reason.to_dict()
    found = location(measured).droplevel("N") * group.batch
    for name, mine in measured.groupby("contender"):
        if (clean := mine.time_ms[~mine.disturbed.astype(bool)]).empty:
            left[name] = f"load: other programs disturbed all of its {len(mine)} repeats"
            continue
        value, low, high, _ = found.loc[name]
        value = group.batch * typical(clean) if value != value else value  # too few for an interval
        low, high, MB = map(_number, (low, high, group.batch * mine.peak_bytes.max() / 1e6))
        costs.append({"attention": called[name], "ms": value, "from": low, "to": high, "MB": MB})
    costs.sort(key=itemgetter("ms"))
    costs = [cost | {"times the fastest": cost["ms"] / costs[0]["ms"]} for cost in costs]
    return {"layer": group._asdict(), "costs": costs, "how": " ".join(facts["outcomes"].values()),
            "left_out": {called[name]: why for name, why in left.items()}}  # fmt: skip


def _number(value: float) -> float | None:
    """What is not known is None."""
    return None if value != value else value
