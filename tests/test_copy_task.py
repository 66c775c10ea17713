"""The copy task: what is predicted and counted, and that nothing else decides it."""

from collections import Counter
from math import log

import pytest
import torch

from replication.experiments.copy_task.numbers import SHORTEST
from replication.experiments.copy_task.task import TASKS, EarlierCopy, PaperCopy


@pytest.mark.parametrize(("length", "n"), [(128, (32, 62)), (64, (16, 30)), (33, (8, 15))])
def test_paper_words_have_the_lengths_of_the_authors_code(length, n):
    _, lengths = PaperCopy(length, 10).words("train", 0, 1, 4000)
    assert (lengths.min(), lengths.max()) == n
    assert len(lengths.unique()) == n[1] - n[0] + 1


@pytest.mark.parametrize("length", [8, 9, 32, 128])
def test_paper_sequence_is_word_separator_word_zeros(length):
    (x,), targets, mask = PaperCopy(length, 10).batch("train", 3, 5, 50)
    for row, target, counted in zip(x.tolist(), targets.tolist(), mask.tolist(), strict=True):
        n = row.index(0)
        word = row[:n]
        assert row == word + [0] + word + [0] * (length - 2 * n - 1)
        assert all(1 <= symbol <= 10 for symbol in word)
        assert target == [*row[1:], 0]
        predicted = [t for t, c in zip(target, counted, strict=True) if c]
        assert predicted == [0, *word]
        assert counted.index(True) == n - 1


def test_earlier_sequence_has_start_word_end():
    (source, given), targets, mask = EarlierCopy(9, 10).batch("train", 3, 5, 50)
    assert source.shape == (50, 9)
    assert (source[:, 0] == 0).all()
    assert (source[:, -1] == 11).all()
    assert ((source[:, 1:-1] >= 1) & (source[:, 1:-1] <= 10)).all()
    assert torch.equal(given, source[:, :-1])
    assert torch.equal(targets, source[:, 1:])
    assert mask.all()


@pytest.mark.parametrize("setting", TASKS)
def test_a_batch_depends_on_stream_seed_and_step_alone(setting):
    keys = [("train", 0, 1), ("train", 0, 2), ("train", 1, 1), ("evaluate", 0, 1)]
    first = [TASKS[setting](32, 10).batch(*key, 16).inputs[0] for key in keys]
    torch.manual_seed(5)
    task = TASKS[setting](32, 10)
    again = [task.batch(*key, 16).inputs[0] for key in reversed(keys)][::-1]
    for i, a in enumerate(first):
        assert torch.equal(a, again[i])
        assert all(not torch.equal(a, b) for b in first[:i])


@pytest.mark.parametrize("setting", TASKS)
def test_training_never_draws_what_is_evaluated(setting):
    """Words of two symbols: all 100 are drawn, none by both."""
    task = TASKS[setting](SHORTEST[setting], 10)
    drawn = {
        stream: {tuple(w) for w in task.words(stream, 0, 0, 5000)[0].tolist()}
        for stream in ("train", "evaluate")
    }
    assert len(drawn["train"]) == 90
    assert len(drawn["evaluate"]) == 10
    assert not drawn["train"] & drawn["evaluate"]


@pytest.mark.parametrize("stream", ["train", "evaluate"])
def test_every_place_has_every_symbol_equally_often(stream):
    words, _ = EarlierCopy(5, 10).words(stream, 0, 0, 20_000)
    for place in words.T.tolist():
        assert all(abs(count - 2000) < 5 * 2000**0.5 for count in Counter(place).values())


LEVELS = {8: (19.07, 10.10), 16: (19.15, 14.35), 32: (18.97, 16.55), 64: (18.78, 17.54)}
"""Read off the earlier replication's figures, where losses are summed over a batch of 8."""


@pytest.mark.parametrize("length", LEVELS)
def test_levels_are_those_of_the_earlier_figures(length):
    levels = EarlierCopy(length, 10).levels()
    assert 8 * levels["frequencies"] == pytest.approx(LEVELS[length][0], abs=0.008)
    assert 8 * levels["bag"] == pytest.approx(LEVELS[length][1], abs=0.008)


@pytest.mark.parametrize("length", [8, 32])
def test_levels_are_the_losses_of_such_predictions(length):
    task = EarlierCopy(length, 10)
    targets = task.batch("train", 0, 0, 20_000).targets.tolist()
    overall = Counter(token for row in targets for token in row)
    total = overall.total()
    frequencies = -sum(count / total * log(count / total) for count in overall.values())
    bag = 0.0
    for row in targets:
        *word, _ = row
        bag -= sum(log(word.count(token) / len(word)) for token in word) / len(row)
    assert task.levels()["frequencies"] == pytest.approx(frequencies, rel=2e-3)
    assert task.levels()["bag"] == pytest.approx(bag / len(targets), rel=5e-3)


@pytest.mark.parametrize(
    ("word", "complaint"),
    [([1, 12], "does not know 12"), ([0], "does not know 0"), ([1] * 16, "16 symbols")],
)
def test_words_that_cannot_be_copied_are_refused(word, complaint):
    with pytest.raises(ValueError, match=complaint):
        PaperCopy(32, 10).prompt([word])
