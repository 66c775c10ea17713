"""Rows -> one row a run, speeds, and the verdicts on C7 to C10.

An answer is yes, no, or None where it is open. A reduced run can show what the paper says; that it
does not show it says nothing of the published size, so its no is open.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from replication.experiments import training
from replication.experiments.base import Verdict, above, below, by_answers, not_run, signed
from replication.experiments.images.numbers import ALPHA, FEWEST_SEEDS, SIDES, TITLES
from replication.experiments.timing import undecided_in_smoke
from replication.stats import equivalence, mean_interval
from replication.stats.intervals import LEVEL
from replication.stats.levels import TIME, levels, over_units

# One row a run --------------------------------------------------------------------------------


def summarise(trained: Any) -> pd.DataFrame:
    """How every run ended: attention, seed, updates, bits_per_dim, seconds, images seen."""
    ends = trained.evaluations.sort_values("step").groupby(["attention", "seed"]).last()
    ends = ends.reindex(trained.study.attentions, level="attention")
    ends["stopped"] = ends.index.isin(_stopped(trained))
    ends["seen"] = ends.step * trained.study.batch_size
    return ends.reset_index().rename(columns={"step": "updates"})


def _stopped(trained: Any) -> list[tuple[str, int]]:
    return [(row["attention"], row["seed"]) for row in trained.failures]


def at_equal_time(trained: Any) -> pd.DataFrame:
    """Bits of every run that did not stop, at the time of training that all of its seed reached:
    attention, seed, seconds, bits_per_dim, updates; between two evaluations by a straight line."""
    rows, found = [], trained.evaluations.set_index(["attention", "seed"]).sort_values("seconds")
    for seed, runs in found[~found.index.isin(_stopped(trained))].groupby("seed"):
        time = runs.groupby("attention").seconds.max().min()
        for attention, run in runs.groupby("attention"):
            then = (np.interp(time, run.seconds, run[name]) for name in ("bits_per_dim", "step"))
            rows.append((attention, seed, time, *map(float, then)))
    return pd.DataFrame(rows, columns=["attention", "seed", "seconds", "bits_per_dim", "updates"])


def differences(runs: pd.DataFrame, opponent: str, relative: bool = False) -> np.ndarray:
    """Bits of linear - opponent, seed by seed; if ``relative``, as a share of the opponent's."""
    wide = training.paired(runs, "bits_per_dim", ["linear", opponent])
    found = wide.linear - wide[opponent]
    return (found / wide[opponent] if relative else found).to_numpy()


# Speed ----------------------------------------------------------------------------------------


def image_times(timed: Any, only: str | None = None) -> pd.DataFrame:
    """Logarithms of the seconds that a batch of images takes: a row a run, a column (contender,
    batch). Of a whole image where one was timed, else of samples times their parts; or ``only``
    "whole" or "sample"."""
    rows, found = timed.repeats, {}
    parts = rows.drop_duplicates("place").set_index("place").part
    cells = rows.assign(contender=rows.contender + "@" + rows.batch.astype(str), N=rows.place)
    for cell, logs in levels(cells).T.groupby("contender", sort=False):
        seconds = np.exp(logs.droplevel("contender").T) / 1e3
        part = parts.reindex(seconds.columns)
        whole, sampled = seconds.loc[:, part.isna()], seconds.loc[:, part.notna()]
        summed = (sampled * part.dropna()).sum(axis=1, skipna=False)
        name, batch = cell.split("@")
        if only != "sample" and whole.shape[1] and whole.notna().all(axis=None):
            summed = whole.iloc[:, 0]
        elif only == "whole":
            continue
        found[name, int(batch)] = np.log(summed)
    return pd.DataFrame(found)


def _over_runs(logs: pd.Series) -> tuple[float, float, float]:
    """Mean and interval of what is given as logarithms; NaN where there are too few runs."""
    value, low, high, _ = over_units(logs.to_numpy()[:, None], LEVEL, TIME)
    return tuple(float(np.exp(x[0])) for x in (value, low, high))


def speeds(timed: Any) -> pd.DataFrame:
    """A row a contender and batch: seconds of an image or batch with their interval, images a
    second, bytes kept an image and at most in use an image."""
    rows, times, sizes = [], image_times(timed), timed.sizes
    for name, batch in (cell for cell in sizes.index if cell in times):
        seconds, low, high = _over_runs(times[name, batch])
        if not math.isnan(seconds):
            rows.append({"contender": name, "batch": batch, "seconds": seconds, "low": low,
                         "high": high, "images_per_second": batch / seconds,
                         **sizes.loc[(name, batch)]})  # fmt: skip
    return pd.DataFrame(rows, columns=["contender", "batch", "seconds", "low", "high",
                                       "images_per_second", *sizes.columns])  # fmt: skip


def best(timed: Any, contender: str) -> int | None:
    """The batch at which a contender draws most images a second; None if it was not timed."""
    found = speeds(timed)
    found = found[found.contender == contender]
    return None if found.empty else int(found.loc[found.images_per_second.idxmax(), "batch"])


def times_faster(timed: Any, opponent: str, batch: int | None = None) -> dict | None:
    """How many times more images a second linear attention draws, over runs: ratio, low, high, at
    the ``batch`` given or each at its best; and those batches. None if it was not timed."""
    logs, sizes = image_times(timed), {n: batch or best(timed, n) for n in ("linear", opponent)}
    if not set(sizes.items()) <= set(logs):
        return None
    ours, theirs = (logs[cell] - math.log(cell[1]) for cell in sizes.items())
    ratio, low, high = _over_runs(theirs - ours)
    if math.isnan(ratio):
        return None
    return {"ratio": ratio, "low": low, "high": high, "batches": [*sizes.values()]}


def check_sums(timed: Any) -> pd.DataFrame:
    """Whole images beside the sums over samples: contender, whole, summed, off (a share)."""
    once = timed.rows[timed.rows.what == "checked"].set_index("contender").time_ms / 1e3
    whole, summed = (np.exp(image_times(timed, what).mean()) for what in ("whole", "sample"))
    every = {name: value for (name, _), value in whole.items()} | once.to_dict()
    sums = {name: summed.get((name, 1)) for name in every}
    found = pd.DataFrame({"whole": every, "summed": sums}, dtype=float).dropna()
    found = found.assign(off=found.summed / found.whole - 1)
    return found.rename_axis("contender").reset_index()


# Rules: evidence and a claim's numbers in, a verdict out --------------------------------------


def on_par(evidence: Any, dataset: str, margin: float, opponents: list[str]) -> Verdict:
    """C7: bits at most ``margin`` above softmax's, and below those of every LSH that was run."""
    found = [one for one in evidence.settings.values() if one.study.dataset == dataset]
    if not found:
        return not_run(f"No model was trained on {TITLES[dataset]}.")
    trained = max(found, key=lambda one: (len(one.study.seeds), one.study.side))
    runs, n = summarise(trained), len(trained.study.seeds)
    finished = runs[~runs.stopped]
    enough = runs.updates.max() >= (trained.study.published_updates or math.inf)
    pair = equivalence(differences(finished, "softmax", relative=True), margin, ALPHA)
    answers = {"softmax": below(pair.low, pair.high, margin)}
    for name in opponents:
        if len(values := differences(finished, name)):
            answers[name] = _below(values)
    if not enough or n < FEWEST_SEEDS:
        answers = {name: answer if n >= FEWEST_SEEDS and answer else None
                   for name, answer in answers.items()}  # fmt: skip
    values = {"setting": trained.study.setting, "seeds": n, "bits": _bits(runs),
              "relative": pair.as_dict(), "answers": answers}  # fmt: skip
    seen = []
    for one in found:
        bits = _bits(summarise(one))
        words = ", ".join(f"{WORDS[name]} {value:.3f}" for name, value in bits.items())
        if one is not trained and {"linear", "softmax"} <= set(bits):
            off, few = bits["linear"] / bits["softmax"] - 1, len(one.study.seeds)
            words += f" ({few} seed{'s' * (few > 1)}, linear {signed(100 * off, 1)} %)"
        seen.append(f"{one.study.side} x {one.study.side}: {words}")
    less = "" if n >= FEWEST_SEEDS else f", fewer than {FEWEST_SEEDS}, so nothing is decided"
    size = f"{trained.study.side} x {trained.study.side}"
    whole = "reduced models" if any(is_reduced(one.study) for one in found) else "published size"
    text = f"Bits per dimension on {TITLES[dataset]}, {whole}: {'; '.join(seen)}. " \
           f"By {n} seed{'s' * (n > 1)} at {size}{less}"  # fmt: skip
    if n >= 2:
        ends = [f"{signed(100 * share, 1)} %" for share in (pair.mean, pair.low, pair.high)]
        text += "; linear is {} from softmax (90 % interval {} to {}, ".format(*ends)
        text += f"margin {margin:.0%})"
    text += "".join(_beside_lsh(finished, name) for name in opponents)
    return Verdict(by_answers(list(answers.values())), text + ".", values)


def _beside_lsh(runs: pd.DataFrame, name: str) -> str:
    """What is seen of one kind of LSH, after a semicolon."""
    values = differences(runs, name)
    if len(values) < 2:
        return f"; {WORDS[name]} was not compared"
    ends = [signed(x, 3) for x in (values.mean(), *mean_interval(values, ALPHA))]
    return f"; linear minus {WORDS[name]} is {{}} bits (95 % interval {{}} to {{}})".format(*ends)


def is_reduced(study: Any) -> bool:
    """Whether images or model are smaller than published."""
    published = {name: study.sources.origins[name].published for name in ("d_model", "n_layers")}
    published["side"] = SIDES[study.dataset]
    return any(getattr(study, name) < size for name, size in published.items())


def _below(values: np.ndarray) -> bool | None:
    if len(values) < FEWEST_SEEDS:
        return None
    return below(*mean_interval(values, ALPHA))


def draws_faster(evidence: Any, opponent: str, **factors: int | float) -> Verdict:
    """C8: the ratio of images a second, each at its best batch, against a factor a data set."""
    answers, words, values = [], [], {}
    off, where = _sums_above(evidence, opponent)
    for dataset, factor in factors.items():
        timed = evidence.speeds.get(dataset)
        found = timed and times_faster(timed, opponent)
        if not found:
            answers.append(None)
            words.append(f"{TITLES[dataset]}: not run here")
            continue
        counts = timed.facts["machine"]["device"] != "cpu"
        yes, no = found["low"] > factor, found["high"] < factor
        answers.append(True if yes else False if no and counts else None)
        less = "" if counts or yes else ", on a processor, which cannot refute what a GPU showed"
        if yes and (begin := found["low"] / (1 + off)) <= factor:
            less = f"; the interval begins at {begin:,.0f} if sums over sampled bytes err as on "
            less += f"{where}, {signed(100 * off, 0)} %"
        alike = times_faster(timed, opponent, 1)
        sizes = "{} at a time against {}".format(*found["batches"])
        one = f"; both one at a time: {_times(alike)}" if alike else ""
        words.append(
            f"{TITLES[dataset]}, published size, each at its best batch as in the paper, {sizes}: "
            f"{_times(found)} (claimed: more than {factor:,.0f}{less}){one}"
        )
        values[dataset] = found | {"alike": alike}
    if not values:
        return not_run("The speed of generation was not measured.")
    answers = undecided_in_smoke(answers, next(iter(evidence.speeds.values())).facts)
    return Verdict(by_answers(answers), "; ".join(words) + ".", values)


def _sums_above(evidence: Any, contender: str) -> tuple[float, str]:
    """The largest share by which its sums over bytes exceed whole images, and of which images."""
    found = [(float(row.off), TITLES[dataset]) for dataset, timed in evidence.speeds.items()
             for row in check_sums(timed).itertuples() if row.contender == contender]  # fmt: skip
    return max(found, default=(0.0, ""))


def beats_cache(evidence: Any, opponent: str) -> Verdict:
    """C9: the same against softmax with a cache, in batches and for one image: above 1?"""
    answers, words, values = [], [], {}
    for dataset, timed in evidence.speeds.items():
        for how, batch in (("one image", 1), ("in batches", None)):
            found = times_faster(timed, opponent, batch)
            if not found:
                continue
            answers.append(above(found["low"], found["high"], 1.0))
            words.append(f"{TITLES[dataset]}, {how}: {_times(found)}")
            values[f"{dataset}, {how}"] = found
    if not values:
        return not_run("The speed of generation was not measured.")
    answers = undecided_in_smoke(answers, next(iter(evidence.speeds.values())).facts)
    return Verdict(by_answers(answers), f"At published sizes, {'; '.join(words)}.", values)


def lower_in_equal_time(evidence: Any, dataset: str, opponent: str) -> Verdict:
    """C10: bits at equal time of training, linear - opponent, seed by seed."""
    found = [one for one in evidence.settings.values() if one.study.dataset == dataset
             and {"linear", opponent} <= set(one.evaluations.attention)]  # fmt: skip
    if not found:
        return not_run(f"No pair of models was trained on {TITLES[dataset]}.")
    trained = max(found, key=lambda one: (len(one.study.seeds), one.study.side))
    times, side = at_equal_time(trained), trained.study.side
    values = differences(times, opponent)
    if not len(values):
        text = f"No pair of one seed was trained to the end on {TITLES[dataset]}."
        return Verdict(by_answers([]), text, {})
    answer = _below(values)
    if side < SIDES[dataset]:
        answer = answer or None
    mean, ends = float(values.mean()), ""
    levels = ", ".join(f"{WORDS[name]} is at {bits:.2f}" for name, bits in _bits(times).items())
    if len(values) > 1:
        low, high = mean_interval(values, ALPHA)
        ends = f" (95 % interval {signed(low, 3)} to {signed(high, 3)})"
    made = times.groupby("attention").updates.mean()
    text = (
        f"{side} x {side}, {'reduced model' if is_reduced(trained.study) else 'published size'}, "
        f"after {_span(times.seconds)} s of updates: linear minus {opponent} is "
        f"{signed(mean, 3)} bits per dimension{ends}, {len(values)} seeds; on average {levels}, "
        "where 8 are those of a guess. Linear attention made "
        f"{made['linear'] / made[opponent]:.1f} times as many updates in that time."
    )
    found = {"setting": trained.study.setting, "mean": mean, "seeds": len(values)}
    return Verdict(by_answers([answer]), text, found)


def _span(values: pd.Series) -> str:
    low, high = f"{values.min():,.0f}", f"{values.max():,.0f}"
    return low if low == high else f"{low} to {high}"


def _bits(runs: pd.DataFrame) -> dict[str, float]:
    return runs.groupby("attention", sort=False).bits_per_dim.mean().to_dict()


WORDS = {"softmax": "softmax", "linear": "linear", "lsh-1": "LSH with one round",
         "lsh-4": "LSH with four"}  # fmt: skip


def _times(found: dict) -> str:
    def short(x: float) -> str:
        return f"{x:,.0f}" if x >= 100 else f"{x:#.3g}".rstrip(".")

    middle, low, high = (short(found[name]) for name in ("ratio", "low", "high"))
    return f"{middle} times as many images a second ({low} to {high})"
