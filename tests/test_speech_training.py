"""Speech: the task, training that resumes, units, rules and figures."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
import pytest
import torch
from speech_cases import said, small

from replication import store, train
from replication.experiments.base import INCONCLUSIVE, NOT, NOT_RUN, PARTLY, SUPPORTED, Verdict
from replication.experiments.speech import figures, numbers, rules, run, studies
from replication.experiments.speech.evidence import evidence
from replication.experiments.speech.models import build, new_model
from replication.experiments.speech.task import UNKNOWN, SpeechTask, needed_frames
from replication.measure.rounds import TooBusyError


def sizes(**more) -> studies.Run:
    return replace(next(studies.resolve("czech", "smoke").runs()), n_layers=2, d_model=16, **more)


@pytest.fixture(scope="module")
def tiny() -> Iterator[studies.Run]:
    """A run on a corpus of noise, so that neither network nor espeak-ng is needed."""
    torch.manual_seed(0)
    heard = SpeechTask(small(), 3, 1000, (4, 6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "task_of", lambda _: heard)
        yield next(studies.resolve("czech", "smoke", steps=6, models="linear").runs())


# Task ---------------------------------------------------------------------------------------------


def test_too_short_utterances_are_set_aside_and_counted():
    assert needed_frames("abba") == 5
    some = [said("ok", 30, "abba"), said("short", 12, "abba"), said("long", 999, "ab")]
    task = SpeechTask(small(train=some), 3, 500)
    assert [one.id for one in task.parts["train"]] == ["ok"]
    assert task.counts["shorter than its phonemes"] == task.counts["too long to train on"] == 1
    net = build(sizes(), "linear", 120, len(task.symbols), 99, 0.0)
    assert torch.isfinite(task.loss(net, task.batch("train", 0, 1, 4))[0])


def test_an_utterance_shorter_than_its_phonemes_is_tested_as_errors_and_counted():
    ok, short = said("ok", 30, "abba"), said("short", 6, "abcab")
    net = build(sizes(), "linear", 120, 5, 99, 0.0)
    found = {}
    for name, dev in (("without", [ok]), ("with", [ok, short])):
        task = SpeechTask(small(dev=dev, test=dev), 3, 500)
        assert run._counts(task)["tested, shorter than its phonemes"] == 2 * (name == "with")
        assert task.counts["shorter than its phonemes"] == 0
        found[name] = task.evaluate(net, 1, 9)
    assert found["with"]["eval_loss"] == pytest.approx(found["without"]["eval_loss"] * 4 / 9)
    assert 9 * found["with"]["error_rate"] >= 4 * found["without"]["error_rate"] + 5 - 2
    assert run._counts(task).items() >= task.counts.items()


def test_a_phoneme_that_training_never_heard_is_counted_and_an_error():
    task = SpeechTask(small(test=[said("new", 30, "abž")]), 3, 500)
    assert task.counts["unknown phonemes"] == 1
    assert task.labels("ž") == [task.symbols.index(UNKNOWN)]


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="No utterance can be trained on"):
        SpeechTask(small(train=[said("short", 3, "abc")]), 3, 500)


def test_an_epoch_hears_every_utterance_once():
    task = SpeechTask(small(), 3, 1000)
    lengths = [n for step in (1, 2, 3) for n in task.batch("train", 5, step, 2).lengths.tolist()]
    assert sorted(lengths) == sorted(-(-len(one.features) // 3) for one in task.parts["train"])


def test_the_same_is_hidden_for_the_same_step_and_nothing_in_evaluation():
    task = SpeechTask(small(), 1, 1000, (6, 10))
    one, two, other = (task.batch("train", 0, step, 6).frames for step in (1, 1, 2))
    assert torch.equal(one, two)
    assert one.shape != other.shape or not torch.equal(one, other)
    assert torch.equal(task.batch("evaluate", 0, 0, 1).frames[0], task.parts["dev"][0].features)


# Training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "lsh", "bilstm"])
def test_training_resumes_to_the_same_bits(tiny, tmp_path, model):
    one = replace(tiny, model=model, optimiser=numbers.OPTIMISERS[model], plateau=1)
    task = run.task_of(one)
    torch.set_num_threads(one.threads)  # PyTorch's sums depend on it
    straight = train.train(new_model(one, len(task.symbols), 50), task, one, progress=False)
    half = train.Training(new_model(one, len(task.symbols), 50), task, one)
    half.evaluate()
    for _ in range(3):
        half.advance()
    half.save(tmp_path / "c.pt")
    torch.manual_seed(99)
    again = train.train(
        new_model(replace(one, seed=7), len(task.symbols), 50), task, one, tmp_path / "c.pt",
        progress=False,
    )  # fmt: skip
    for a, b in zip(straight.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert straight.evaluations == again.evaluations


def test_the_rate_is_halved_on_a_plateau():
    losses = [5.0, 4.0, 3.0, 3.5, 3.2, 2.9, 3.0, 3.0, 3.0]
    assert [train.plateaus(losses[:n], 2) for n in range(10)] == [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]


def test_a_model_learns_to_hear_noise():
    heard = small()
    task = SpeechTask(heard._replace(parts=heard.parts | {"dev": heard.parts["train"]}), 2, 1000)
    one = next(studies.resolve("czech", "smoke", models="softmax", steps=60, lr=1e-2,
                               d_model=32, eval_every=30, stack=2, dropout=0.0).runs())  # fmt: skip
    found = train.train(new_model(replace(one, stack=2), 5, 50), task, one, progress=False)
    assert found.evaluations[-1]["eval_loss"] < 0.6 * found.evaluations[0]["eval_loss"]


# Units, rules, figures ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory) -> list[store.Kept]:
    tmp_path = tmp_path_factory.mktemp("speech")
    study = studies.resolve("czech", "smoke", steps=2)
    units = run.runs_of([study])
    units += run.errors_of(units, tmp_path)
    units += run.times_of(replace(studies.TIMINGS["smoke"], lengths=(16,)))
    return store.ensure_all(units, tmp_path)


def test_rows_become_evidence_and_figures(made):
    found = evidence(made)
    assert list(found.runs.model) == list(numbers.MODELS)
    assert found.runs.test_error.notna().all()
    assert (found.runs.updates == 2).all()
    assert set(found.errors.id) == {"d", "e"}
    for draw in (figures.curves(found.evaluations), figures.by_phoneme(found.pairs),
                 figures.times(found.times)):  # fmt: skip
        draw.canvas.draw()


def test_no_text_is_saved(made):
    for one in made:
        assert not {"text", "said", "phoneme"} & set(one.rows.columns)
        assert one.facts.get("example") is None


def test_half_of_the_units_is_evidence_too(made):
    assert evidence([]).runs.empty
    only = evidence([one for one in made if one.unit.name.startswith("times-")])
    assert only.czech.empty
    assert rules.errors_in_order(only, ["softmax", "linear"]).outcome == NOT_RUN
    assert "Not run here" in rules.errors_in_order(only, ["softmax", "linear"]).evidence
    assert "Not run here" in rules.fastest_an_epoch(evidence([]), ["lsh"], 800).evidence


def judged(**rates) -> Verdict:
    """The verdict on four models whose error rates are these, give or take seeds."""
    rows = [{"setting": "czech", "model": m, "seed": s, "stopped": False,
             "test_error": r + 0.001 * s * (-1) ** i}
            for i, (m, r) in enumerate(rates.items()) for s in range(3)]  # fmt: skip
    found = evidence([])._replace(runs=pd.DataFrame(rows))
    return rules.errors_in_order(found, ["softmax", "linear", "lsh", "bilstm"])


def test_the_order_of_errors_is_judged():
    assert judged(softmax=0.1, linear=0.2, lsh=0.3, bilstm=0.4).outcome == SUPPORTED
    assert judged(softmax=0.4, linear=0.3, lsh=0.2, bilstm=0.1).outcome == NOT
    assert judged(softmax=0.1, linear=0.2, lsh=0.4, bilstm=0.3).outcome == PARTLY
    assert judged(softmax=0.7, linear=0.8, lsh=0.9, bilstm=0.95).outcome == INCONCLUSIVE


def test_who_makes_the_fewest_errors_is_told_first_beside_the_paper():
    here = judged(softmax=0.1, linear=0.2, lsh=0.3, bilstm=0.4).evidence
    assert here.startswith("Softmax makes the fewest errors here, as in the paper. Phoneme error")
    here = judged(softmax=0.4, linear=0.3, lsh=0.2, bilstm=0.1).evidence
    first = "The Bi-LSTM makes the fewest errors here; in the paper it makes the most. Phoneme"
    assert here.startswith(first)
    here = judged(softmax=0.4, linear=0.3, lsh=0.5, bilstm=0.6).evidence
    assert here.startswith("Linear attention makes the fewest errors here. Phoneme")
    assert judged(linear=0.3).evidence.startswith("Phoneme")


def test_neighbours_of_a_model_that_was_not_trained_are_told_beside_the_rule():
    found = judged(softmax=0.5, linear=0.7, bilstm=0.4)
    assert "LSH minus linear attention is open as LSH was not trained" in found.evidence
    beside = "Of those that were trained, the Bi-LSTM minus linear attention is −29.8 points"
    assert beside in found.evidence
    assert found.evidence.endswith("), which the rule does not ask.")
    assert "Of those" not in judged(softmax=0.1, linear=0.2, lsh=0.3, bilstm=0.4).evidence


def timed(runs=3, **factors) -> pd.DataFrame:
    rows = [
        {
            "contender": name.replace("_", "-"),
            "direction": "train",
            "N": N,
            "run": run,
            "round": i,
            "time_ms": N * (1 + 0.01 * run) * (factor if N > 100 else 0.5 if factor != 1 else 1),
            "disturbed": i == 3,
            "peak_bytes": 1.0,
        }
        for name, factor in factors.items()
        for N in (100, 800, 2400)
        for run in range(runs)
        for i in range(4)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("runs", "lsh", "outcome"),
    [(3, 2.0, SUPPORTED), (3, 0.9, PARTLY), (1, 2.0, INCONCLUSIVE)],
)
def test_who_is_fastest_is_judged(runs, lsh, outcome):
    times = timed(runs, linear=1, softmax_textbook=3, lsh=lsh, bilstm=1.5)
    found = evidence([])._replace(times=times)
    verdict = rules.fastest_an_epoch(found, ["softmax-textbook", "lsh", "bilstm"], 800)
    assert verdict.outcome == outcome
    assert verdict.values["from"] == (800 if outcome == SUPPORTED else None)
    assert "textbook softmax takes 3.00 times as long" in verdict.evidence


def test_where_the_shortest_length_shows_it_already_the_words_say_so():
    def words(*lows: float) -> str:
        found = pd.DataFrame({"contender": "lsh", "N": [50, 100, 200], "low": lows})
        return rules.since(found.assign(ratio=2.0, high=3.0), ["lsh"])

    assert words(1.5, 1.5, 1.5) == "at every length measured, from 50 frames on"
    assert words(0.5, 1.5, 1.5) == "from 100 frames on"
    assert words(1.5, 0.5, 1.5) == "from 200 frames on"
    assert words(1.5, 1.5, 0.5) == words(*[float("nan")] * 3) == "at no length that was measured"
    times = timed(linear=1, softmax_textbook=3, lsh=2, bilstm=1.5)
    found = evidence([])._replace(times=times[times.N > 100])
    verdict = rules.fastest_an_epoch(found, ["softmax-textbook", "lsh", "bilstm"], 800)
    assert verdict.evidence.endswith("of the four at every length measured, from 800 frames on.")


def test_a_disturbed_repeat_is_not_averaged_in():
    times = timed(linear=1, softmax_textbook=3, lsh=2, bilstm=1.5)
    long = times.assign(time_ms=times.time_ms * (1 + 99 * times.disturbed))
    assert rules.ratios(long, "train").equals(rules.ratios(times, "train"))
    assert rules.typical_times(long, "train").equals(rules.typical_times(times, "train"))


def test_a_busy_machine_keeps_what_was_trained(monkeypatch, made, tmp_path):
    def busy(*_):
        raise TooBusyError("No answer, this machine is too busy to measure on.")

    monkeypatch.setattr(run, "made_runs", busy)
    monkeypatch.setattr(run, "possible", lambda units, _: (units, ""))
    monkeypatch.setattr(run.training, "ensure", lambda *_, **__: made[:1])
    found = run.ensure([studies.resolve("czech", "smoke", models="linear")], tmp_path)
    assert found == (made[:1], "No times. No answer, this machine is too busy to measure on.")


def test_long_utterances_come_in_smaller_batches():
    sizes = {one.words: one.batch_size for one in studies.resolve("length", "reference").runs()}
    assert sizes == {8: 8, 24: 2, 80: 1}
    assert {one.batch_size for one in studies.resolve("amount", "reference").runs()} == {8}


def test_the_published_table_is_in_the_order_of_the_claim():
    errors_there = [error for error, _ in numbers.TABLE_3.values()]
    assert errors_there == sorted(errors_there)
    assert min(numbers.TABLE_3, key=lambda m: numbers.TABLE_3[m][1]) == "linear"
