"""Decoding: an RNN, a cache, and full forward passes write the same tokens."""

from functools import cache

import pytest
import torch

from replication.experiments.copy_task.run import new_model, task_of, train_run
from replication.experiments.copy_task.studies import resolve
from replication.experiments.copy_task.task import TASKS, copy, copy_text, exact_match

LENGTHS = {"paper": 8, "earlier": 4}


def task_and_run(setting, attention, **overrides):
    (run,) = resolve(setting, "smoke", attentions=attention, seeds=0, **overrides).runs()
    return task_of(run), run


@cache
def trained(setting, attention):
    """A model that copies words of two symbols."""
    task, run = task_and_run(
        setting, attention, lengths=LENGTHS[setting], steps=250, lr=1e-2, lr_drop_after=200,
        dropout=0, batch_size=32, eval_every=1000, n_layers=1,
    )  # fmt: skip
    return task, train_run(run).model


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("setting", TASKS)
def test_a_trained_model_copies_what_it_has_never_seen(setting, attention):
    task, model = trained(setting, attention)
    assert exact_match(model, task, 50, "memory") == 1
    assert exact_match(model, task, 50, "full") == 1
    assert copy_text(model, task, "7 3") == "7 3"


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("setting", TASKS)
def test_all_forms_write_the_same_tokens(setting, attention):
    """Of untrained models too, whose copies are wrong."""
    task, run = task_and_run(setting, attention, lengths=40)
    model = new_model(run).double()
    lengths = [19, 3, 11] if setting == "paper" else [38] * 3
    words = [torch.randint(1, 11, (n,)).tolist() for n in lengths]
    by_memory, by_forward = (copy(model, task, words, form) for form in ("memory", "full"))
    assert by_memory == by_forward
    assert by_memory != words
    if setting == "paper":
        assert [len(word) for word in by_memory] == lengths


def test_words_of_different_lengths_do_not_disturb_each_other():
    task, run = task_and_run("paper", "linear", lengths=40)
    model = new_model(run).double()
    words = [[1, 2, 3], [4] * 19, [5, 6]]
    assert copy(model, task, words) == [copy(model, task, [word])[0] for word in words]


def test_lsh_copies_by_full_forward_passes_alone():
    task, run = task_and_run("paper", "lsh")
    model = new_model(run)
    assert len(copy(model, task, [[1, 2, 3]], "full")[0]) == 3
    with pytest.raises(ValueError, match="Decode it by full forward passes"):
        copy(model, task, [[1, 2, 3]], "memory")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 eleven 2", "does not know eleven"),
        ("1 11 0", "does not know 0, 11"),
        ("", "has 0 symbols, but this model takes 1 to 3"),
        ("1 2 3 4", "has 4 symbols, but this model takes 1 to 3"),
    ],
)
def test_a_text_that_cannot_be_copied_is_refused_in_words(text, complaint):
    task, run = task_and_run("paper", "linear", lengths=8)
    with pytest.raises(ValueError, match=complaint):
        copy_text(new_model(run), task, text)


def test_an_unknown_form_is_refused():
    task, run = task_and_run("paper", "linear")
    with pytest.raises(ValueError, match=r"form='rnn' is unknown. Choose one of: memory, full"):
        copy(new_model(run), task, [[1, 2]], "rnn")
