"""The drawings of notebook 07: what is heard, what CTC makes of it, errors, curves and times."""

from collections.abc import Mapping, Sequence
from io import BytesIO

import jiwer
import numpy as np
import pandas as pd
import soundfile
from IPython.display import Audio
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication.attention import look_of
from replication.attention.card import Look
from replication.experiments.speech.decoding import BLANK
from replication.experiments.speech.numbers import FRAMES_A_SECOND, WSJ_FRAMES, WSJ_LONGEST
from replication.experiments.speech.rules import typical_times
from replication.style import SMALL, WIDTH, grid, legend, line, log_ticks, powers_of_two

BILSTM = Look("Bi-LSTM", "the bidirectional LSTM", "#cc78bc", "P", (0, (5, 1, 1, 1, 1, 1)))
LEAST = 0.3
"""The probability above which a phoneme is named, and half of that above which it is drawn."""
A_LINE, NOTHING = 24, "·"
"""Phonemes in a line of text; and in place of one that was not heard."""


def look(name: str) -> Look:
    return BILSTM if name == "bilstm" else look_of(name)


def _line(name: str) -> dict:
    return line(look(name)) | {"ms": 4.5}


def utterance(samples: np.ndarray, rate: int, frames: np.ndarray) -> Figure:
    """The wave, above what a model hears: 40 filterbanks every 10 ms."""
    figure = Figure(figsize=(WIDTH, 3.0))
    rows = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    seconds = len(frames) / FRAMES_A_SECOND
    rows[0].plot(np.arange(len(samples)) / rate, samples, lw=0.4, color="0.25")
    rows[0].set_ylabel("sound")
    rows[0].set_yticks([])
    image = rows[1].imshow(frames.T, origin="lower", aspect="auto", vmin=-2.5, vmax=2.5,
                           extent=(0, seconds, 0.5, frames.shape[1] + 0.5))  # fmt: skip
    rows[1].set(xlabel="seconds", ylabel="mel filter", xlim=(0, seconds))
    rows[1].grid(visible=False)
    figure.colorbar(image, ax=rows[1], label="deviations", pad=0.01)
    return figure


def player(samples: np.ndarray, rate: int, seconds: float = 3.0) -> Audio:
    """The first seconds, as MP3: about 8 kB each, where a notebook's own form takes 60."""
    soundfile.write(file := BytesIO(), samples[: int(seconds * rate)], rate, format="MP3")
    found = Audio(file.getvalue())
    found.mimetype = "audio/mpeg"
    return found


def beside(said: Sequence[str], heard: Mapping[str, Sequence[str]]) -> str:
    """As text: below every phoneme what each model heard, in brackets what it inserted."""
    rows = {"said": said} | {look(name).label: _at_each(said, own) for name, own in heard.items()}
    wide = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    margin = 1 + max(map(len, rows))
    padded = [(name.ljust(margin), [*map(str.ljust, own, wide)]) for name, own in rows.items()]
    return "\n\n".join(
        "\n".join(" ".join([name, *cells[i : i + A_LINE]]).rstrip() for name, cells in padded)
        for i in range(0, len(said), A_LINE)
    )


def _at_each(said: Sequence[str], heard: Sequence[str]) -> list[str]:
    """What was heard at each phoneme, with the fewest errors."""
    cells = [NOTHING] * len(said)
    for part in jiwer.process_words(" ".join(said), " ".join(heard)).alignments[0]:
        own = heard[part.hyp_start_idx : part.hyp_end_idx]
        if part.type == "insert":
            cells[max(0, part.ref_start_idx - 1)] += f"({' '.join(own)})"
        elif own:
            cells[part.ref_start_idx : part.ref_end_idx] = own
    return cells


def alignment(
    posteriors: Mapping[str, np.ndarray], symbols: Sequence[str], seconds_a_frame: float,
    seconds: float = 3.0,
) -> Figure:  # fmt: skip
    """Posteriors over the first seconds, a panel a model: phonemes in colour, blank in grey."""
    size, frames = len(posteriors), round(seconds / seconds_a_frame)
    posteriors = {name: found[:frames] for name, found in posteriors.items()}
    figure, panels = grid(0.7 + 1.15 * size, size, sharex=True, sharey=True)
    for [axes], (name, found) in zip(panels, posteriors.items(), strict=True):
        at = (np.arange(len(found)) + 0.5) * seconds_a_frame
        axes.fill_between(at, found[:, BLANK], color="0.88", lw=0, label="blank")
        for label in range(1, found.shape[1]):
            if found[:, label].max() > LEAST / 2:
                axes.plot(at, found[:, label], lw=0.9)
        _name_peaks(axes, found, at, symbols)
        axes.set_title(look(name).label, loc="left")
        axes.set_ylim(0, 1.12)
    panels[-1, 0].set_xlabel("seconds")
    figure.supylabel("probability", fontsize=9)
    return figure


def _name_peaks(axes: Axes, found: np.ndarray, at: np.ndarray, symbols: Sequence[str]) -> None:
    """The phonemes of the most probable path, each where it is first said."""
    path, before = found.argmax(1), BLANK
    for i, label in enumerate(path):
        if label not in (BLANK, before) and found[i, label] > LEAST:
            place = (at[i], found[i, label])
            axes.annotate(symbols[label], place, (0, 1), textcoords="offset points", ha="center",
                          size=SMALL)  # fmt: skip
        before = label


def by_phoneme(pairs: pd.DataFrame, most: int = 24) -> Figure:
    """How much more often linear attention misses a phoneme than softmax, frequent ones first."""
    said = pairs[pairs.said.notna() & (pairs.said != "")]
    counts = said.groupby("said")["count"].sum().sort_values(ascending=False).iloc[:most]
    all_of, right = (
        rows.pivot_table("count", "said", "model", aggfunc="sum").reindex(
            index=counts.index, columns=["linear", "softmax"], fill_value=0)
        for rows in (said, said[said.said == said.heard])
    )  # fmt: skip
    shares = right.fillna(0) / all_of
    more = 100 * (shares.softmax - shares.linear)  # what is missed is what is not right
    figure, [[axes]] = grid(2.6)
    colours = [look("linear" if x > 0 else "softmax").colour for x in more]
    axes.bar(range(len(more)), more, color=colours)
    axes.axhline(0, color="0.3", lw=0.9)
    axes.set_xticks(range(len(more)), more.index)
    axes.set_xlabel("phoneme, from frequent to rare")
    axes.set_ylabel("missed: linear \N{MINUS SIGN} softmax (points)")
    return figure


def curves(evaluations: pd.DataFrame) -> Figure:
    """Errors on dev over updates, a panel a study, of most utterances; thick lines are medians."""
    studies = dict(iter(evaluations.groupby("setting", sort=False)))
    figure, [panels] = grid(2.8, 1, len(studies), sharey=True)
    for axes, (setting, rows) in zip(panels, studies.items(), strict=True):
        largest = rows[rows.utterances == rows.utterances.max()]
        for name, group in largest.groupby("model", sort=False):
            _draw_curve(axes, name, group)
        axes.set(title=f"{setting}, {largest.utterances.iloc[0]} utterances", xlabel="updates")
    panels[0].set_ylabel("phoneme error rate (%)")
    panels[0].set_ylim(0, min(110, 5 + 100 * evaluations.error_rate.max()))
    legend(figure, panels)
    return figure


def _draw_curve(axes: Axes, name: str, rows: pd.DataFrame) -> None:
    wide = 100 * rows.pivot(index="step", columns="seed", values="error_rate")
    axes.plot(wide, color=look(name).colour, lw=0.6, alpha=0.6)
    axes.plot(wide.index, wide.median(axis=1), label=look(name).label, lw=1.8,
              markevery=max(1, len(wide) // 6), **_line(name))  # fmt: skip


def growth(runs: pd.DataFrame) -> Figure:
    """Errors on synthetic speech, by the words heard in training and by those of an utterance."""
    settings = [name for name in ("amount", "length") if (runs.setting == name).any()]
    figure, [panels] = grid(2.8, 1, len(settings), sharey=True)
    for axes, setting in zip(panels, settings, strict=True):
        mine = runs[runs.setting == setting].assign(heard=lambda x: x.utterances * x.words)
        over = "heard" if setting == "amount" else "words"
        for name, group in mine.groupby("model", sort=False):
            middle = 100 * group.groupby(over).test_error.mean()
            axes.plot(middle.index, middle, label=look(name).label, lw=1.6, **_line(name))
        powers_of_two(axes, sorted(mine[over].unique()))
        axes.set_xlabel("words heard in training" if over == "heard" else "words an utterance")
    panels[0].set_ylabel("phoneme error rate (%)")
    legend(figure, panels)
    return figure


def times(rows: pd.DataFrame) -> Figure:
    """Time and memory of an utterance over its length, by models of published size."""
    figure, chosen = Figure(figsize=(WIDTH, 2.5)), rows[rows.direction == "train"]
    panels = figure.subplots(1, 2)
    peaks = chosen.groupby(["contender", "N"]).peak_bytes.max() / 1e6
    what = (typical_times(rows, "train"), "ms an utterance"), (peaks, "MB an utterance")
    for axes, (found, label) in zip(panels, what, strict=True):
        for name in chosen.contender.unique():
            axes.plot(found[name], label=look(name).label, lw=1.6, **_line(name))
        for frames in (WSJ_FRAMES, WSJ_LONGEST):
            axes.axvline(frames, color="0.6", lw=0.8, ls=":", zorder=0)
        axes.set(xscale="log", yscale="log", xlabel="frames", ylabel=label)
        log_ticks(axes.xaxis)
        log_ticks(axes.yaxis)
    legend(figure, panels, columns=3)
    return figure
