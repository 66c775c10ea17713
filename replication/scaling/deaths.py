"""Where a run died. What the system kills for want of memory can say nothing, but it leaves a mark.

Memory is predicted by what calls allocate. A heap may grow far beyond that, when the blocks that
one call frees do not fit the next. So before each group the plan's facts say that it is begun, and
a group in which the process died twice loses the cell that needs most memory.
"""

import pandas as pd

from replication.benchmark.run import open_groups

BEGUN = "begun"
MOST_DEATHS = 2


def mark(planned: pd.DataFrame, facts: dict) -> None:
    """Say in the facts which group comes next, and how often it has been begun."""
    group = next(map(str, open_groups(planned)), None)
    before, times = facts.get(BEGUN) or (None, 0)
    facts[BEGUN] = [group, times + 1 if group == before else 1] if group else None


def unmark(facts: dict) -> None:
    """The process has not died: it was stopped, or is done."""
    facts[BEGUN] = None


def without_the_deadly(planned: pd.DataFrame, facts: dict) -> pd.DataFrame:
    """The plan without the largest cell of a group in which the process has died too often."""
    first = next(iter(open_groups(planned).items()), None)
    if first is None or facts.get(BEGUN) != [str(first[0]), MOST_DEATHS]:
        return planned
    group, names = first
    own = (planned[[*group._fields]] == pd.Series(group._asdict())).all(axis=1)
    largest = planned.loc[own & planned["contender"].isin(names), "predicted_bytes"].idxmax()
    reason = (
        f"memory: the process was killed {MOST_DEATHS} times while this length was measured; this "
        f"cell needs most, {planned.loc[largest, 'predicted_bytes'] / 1e9:.3g} GB predicted"
    )
    planned.loc[largest, ["status", "reason"]] = "skipped", reason
    unmark(facts)
    return planned
