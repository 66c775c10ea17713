"""Rows -> Figure: losses of the wide and of the narrow model, a panel a mechanism."""

import pandas as pd
from matplotlib.figure import Figure

from replication.attention import look_of
from replication.experiments.published_width.numbers import COMPARED
from replication.experiments.published_width.run import Wide
from replication.style import grid, log_ticks


def curves(wide: Wide, narrow: pd.DataFrame, narrow_width: int) -> Figure:
    """Loss on held-out data over updates, on a log scale, of the seeds of the wide model; of the
    narrow one to its end, which may be later."""
    same = narrow[(narrow.length == wide.run.length) & narrow.seed.isin(wide.evaluations.seed)]
    figure, [panels] = grid(2.6, 1, len(COMPARED), sharey=True)
    parts = ((same, narrow_width, {"lw": 1.2, "ls": (0, (3, 1.5)), "color": "0.35"}),
             (wide.evaluations, wide.run.d_model, {"lw": 1.8}))  # fmt: skip
    for axes, name in zip(panels, COMPARED, strict=True):
        for rows, width, look in parts:
            label = f"width {width}"
            for _, one in rows[rows.attention == name].groupby("seed"):
                axes.plot(one.step, one.eval_loss, label=label,
                          **{"color": look_of(name).colour} | look)  # fmt: skip
                label = None
        if wide.run.lr_drop_after < wide.evaluations.step.max():
            axes.axvline(wide.run.lr_drop_after, color="0.6", lw=1, zorder=0)
        axes.set(title=look_of(name).words, xlabel="updates", yscale="log")
        axes.legend(loc="upper right")
        log_ticks(axes.yaxis)
    panels[0].set_ylabel("loss (nats per token)")
    return figure
