"""The drawings of notebook 06: curves, images, completions, images a second, memory.

Rows are those of ``run.Trained`` and ``speed.Timed``. Thin lines are seeds, thick ones medians.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from replication.attention import look_of
from replication.attention.card import Look
from replication.experiments.images.numbers import CONTENDERS, PAPER, RIVAL, TITLES, Published
from replication.experiments.images.rules import speeds
from replication.experiments.images.run import pictures
from replication.style import SMALL, WIDTH, grid, legend, line, log_ticks

CACHE = Look("softmax, cache", "softmax with a cache", "#d55e00", "p", (0, (1, 1)))
LOOKS = {"softmax": "softmax-textbook", "softmax-fused": "softmax"}
LABELS = {"softmax": "softmax, textbook", "softmax-fused": "softmax, fused",
          "authors": "linear, authors'"}  # fmt: skip
GIVEN = "#de8f05"


def look(contender: str) -> Look:
    return CACHE if contender == "softmax-cache" else look_of(LOOKS.get(contender, contender))


def label(contender: str) -> str:
    return LABELS.get(contender) or look(contender).label


def curves(trained: Any) -> Figure:
    """Bits per dimension on test images, by updates and by the seconds that these took."""
    (figure, [panels]), rows = grid(2.9, 1, 2, sharey=True), trained.evaluations.query("step > 0")
    for axes, x in zip(panels, ("step", "seconds"), strict=True):
        _draw_curves(axes, rows, trained.study.attentions, x)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    panels[0].set(xlabel="updates", ylabel="bits per dimension")
    panels[1].set_xlabel("seconds of updates")
    panels[0].set_ylim(0.97 * rows.bits_per_dim.min(), 1.03 * rows.bits_per_dim.max())
    legend(figure, panels)
    return figure


def _draw_curves(axes: Axes, rows: pd.DataFrame, attentions: Iterable[str], x: str) -> None:
    for name in attentions:
        mine, one = rows[rows.attention == name], look_of(name)
        for _, seed in mine.groupby("seed"):
            axes.plot(seed[x], seed.bits_per_dim, color=one.colour, lw=0.6, alpha=0.6)
        middle = mine.groupby("step", as_index=False)[["seconds", "bits_per_dim"]].median()
        axes.plot(middle[x], middle.bits_per_dim, ms=4, label=one.label, **line(one))


def samples(trained: Any) -> Figure:
    """Images drawn from nothing but their first byte, one row a mechanism."""
    rows = trained.samples[trained.samples.kind == "sample"]
    names = [name for name in trained.study.attentions if name in set(rows.attention)]
    figure, panels = grid(0.7 * len(names) + 0.1, len(names))
    for [axes], name in zip(panels, names, strict=True):
        _strip(axes, pictures(rows[rows.attention == name], trained.study))
        axes.set_ylabel(look_of(name).label, rotation=0, ha="right", va="center", size=SMALL)
    return figure


def completions(trained: Any, height: float = 0.54) -> Figure:
    """Original, the half that is given, and what each mechanism makes of it, in inches an image."""
    rows, study = trained.samples, trained.study
    first = rows[rows.attention == rows.attention.iloc[0]]
    originals = pictures(first[first.kind == "original"], study)
    given = int(first[first.kind == "original"].given.iloc[0])
    halves = originals.reshape(len(originals), -1).copy()
    halves[:, given:] = 0
    names = [name for name in study.attentions if name in set(rows.attention)]
    figure = Figure(figsize=(WIDTH, height * len(originals) + 0.3))
    panels = figure.subplots(len(originals), 2 + len(names), squeeze=False, width_ratios=[
        1, 1, *(rows[rows.kind == "completion"]["copy"].max() + 1 for _ in names)])  # fmt: skip
    for i, row in enumerate(panels):
        _strip(row[0], originals[i : i + 1])
        _strip(row[1], halves.reshape(originals.shape)[i : i + 1])
        for axes, name in zip(row[2:], names, strict=True):
            mine = rows[(rows.attention == name) & (rows.kind == "completion") & (rows.image == i)]
            _strip(axes, pictures(mine, study))
    for axes, title in zip(panels[0], ("original", "given", *(look_of(n).label for n in names)),
                           strict=True):  # fmt: skip
        axes.set_title(title, size=SMALL)
    return figure


def picture(values: np.ndarray, given: int = 0) -> Figure:
    """One image [side, side, colours]; a line under the rows that were given."""
    figure = Figure(figsize=(2.2, 2.2))
    axes = figure.subplots()
    _strip(axes, values[None], gap=0)
    if given > 1:
        axes.axhline(given / values.shape[1] / values.shape[2] - 0.5, color=GIVEN, lw=1.5)
    return figure


def _strip(axes: Axes, images: np.ndarray, gap: int = 1) -> None:
    """Images side by side."""
    padded = np.pad(images, ((0, 0), (0, 0), (0, gap), (0, 0)), constant_values=96)
    strip = np.concatenate(list(padded), 1)[:, : padded.shape[2] * len(images) - gap]
    axes.imshow(strip.squeeze(-1) if strip.shape[-1] == 1 else strip, cmap="gray", vmin=0, vmax=255)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.grid(False)


def throughput(timed: Mapping[str, Any]) -> Figure:
    """Images a second by batch, and below them the paper's; one panel a data set."""
    tables = {dataset: speeds(found) for dataset, found in timed.items()}
    there = set().union(*(table.contender for table in tables.values()))
    names = [name for name in (*CONTENDERS, RIVAL) if name in there]
    figure, [panels] = grid(0.8 + 0.36 * len(names), 1, len(timed), sharey=True)
    for axes, (dataset, table) in zip(panels, tables.items(), strict=True):
        for row, name in enumerate(names):
            _draw_speeds(axes, row, name, table[table.contender == name].sort_values("batch"))
            if name in PAPER[dataset]:
                _draw_published(axes, row, PAPER[dataset][name])
        axes.set(title=TITLES[dataset], xscale="log", xlabel="images a second")
        axes.margins(x=0.1)
        log_ticks(axes.xaxis)
    panels[0].set_yticks(range(len(names)), [label(name) for name in names])
    panels[0].set_ylim(len(names) - 0.45, -0.6)
    legend(figure, panels, columns=2)
    return figure


def _draw_speeds(axes: Axes, row: int, name: str, mine: pd.DataFrame) -> None:
    """Batches one below the other, the smallest hollow; it and the largest are written beside."""
    one = look(name)
    for i, (batch, speed) in enumerate(zip(mine.batch, mine.images_per_second, strict=True)):
        place, first = row - 0.35 + 0.35 * i / max(1, len(mine) - 1), i == 0
        axes.plot(speed, place, one.marker, ms=5, mew=1.2, mec=one.colour, ls="",
                  mfc="white" if first else one.colour, label="here, one image" if first and not row
                  else "here, in batches" if not row else None)  # fmt: skip
        if first or i == len(mine) - 1:
            shift, side = ((-6, 0), "right") if first else ((6, 1), "left")
            axes.annotate(f"{batch:.0f}", (speed, place), shift, size=SMALL - 0.5, ha=side,
                          va="center", textcoords="offset points")  # fmt: skip


def _draw_published(axes: Axes, row: int, theirs: Published) -> None:
    dark, first = {"color": "0.2", "ls": ""}, row == 0
    axes.plot(1 / theirs.cpu_seconds, row + 0.33, "x", ms=5, mew=1.3, **dark,
              label="paper, CPU, one image" if first else None)  # fmt: skip
    axes.plot(theirs.images_per_second, row + 0.33, "|", ms=7, mew=2.2, **dark,
              label="paper, GPU, best batch" if first else None)  # fmt: skip


def beside_paper(timed: Mapping[str, Any]) -> pd.DataFrame:
    """A table: one row a data set and contender, ours beside the paper's, if any."""
    rows = []
    for dataset, found in timed.items():
        table = speeds(found)
        for name in (*CONTENDERS, RIVAL):
            if (mine := table[table.contender == name]).empty:
                continue
            _, their_speed, on_cpu, on_gpu = PAPER[dataset].get(name, ("–",) * 4)
            most, one = mine.loc[mine.images_per_second.idxmax()], mine[mine.batch == 1]
            size = f"{most.kept_bytes / 1e6:.2f} MB" if most.kept_bytes else "–"
            rows.append({"Images": TITLES[dataset], "Contender": label(name),
                         "s an image": one.seconds.iloc[0] if len(one) else "–",
                         "images/s": f"{most.images_per_second:.3g} ({most.batch:.0f})",
                         "Kept": size, "Paper, s": on_cpu,
                         "Paper, s, GPU": on_gpu, "Paper, images/s": their_speed})  # fmt: skip
    return pd.DataFrame(rows)


def memory(timed: Mapping[str, Any]) -> Figure:
    """Bytes that are kept for a batch: a state that does not grow, a cache of the whole image."""
    figure, [panels] = grid(2.7, 1, len(timed), sharey=True)
    batches = 2.0 ** np.arange(11)
    for axes, (dataset, found) in zip(panels, timed.items(), strict=True):
        kept = of_memory(found)
        for name, size in kept.items():
            axes.plot(batches, batches * size / 1e9, ms=3, label=label(name), **line(look(name)))
        axes.axhline(11, color="0.6", lw=1, zorder=0)
        axes.annotate("11 GB", (1, 11), size=SMALL, va="bottom")
        axes.set(title=TITLES[dataset], xscale="log", yscale="log", xlabel="images in a batch")
        log_ticks(axes.xaxis)
    panels[0].set_ylabel("GB")
    legend(figure, panels[:1])
    return figure


def of_memory(timed: Any) -> pd.Series:
    """Bytes an image by contender: what it keeps, or, if it keeps nothing, its largest pass."""
    found = timed.sizes.drop(RIVAL, errors="ignore").groupby("contender", sort=False).max()
    return found.kept_bytes.where(found.kept_bytes > 0, found.peak_bytes)
