"""Numbers in sentences: digits, units, and a stop where one is missing."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from replication.report.prose import (
    MissingValueError,
    duration,
    for_certain,
    from_which,
    listed,
    number,
    powers,
    small,
    times,
    whole,
)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0123456, 2, "0.012"), (1.249, 2, "1.2"), (9.96, 2, "10"), (99.6, 2, "100"),
        (1234.5, 2, "1234"), (3148.7, 5, "3148.7"), (-0.5, 2, "−0.50"), (0, 3, "0"),
        (16, 2, "16"), (0.999, 1, "1"),
    ],
)  # fmt: skip
def test_a_number_has_the_digits_that_say_something(value, digits, text):
    assert number(value, digits) == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_missing_number_stops_the_build_and_is_named(value):
    for said in (number, times, whole, duration):
        with pytest.raises(MissingValueError, match=f"it is {value}. Run the experiments again"):
            said(value)


def test_whole_numbers_are_not_rounded():
    assert [whole(N) for N in (8, 64.0, 3148.7, 65536)] == ["8", "64", "3149", "65536"]


def test_words_have_units():
    assert times(6.24).split("\N{NO-BREAK SPACE}") == ["6.2", "×"]
    assert [duration(s) for s in (3, 89, 120, 7200)] == [
        "3.0 seconds", "89 seconds", "2.0 minutes", "2.0 hours",
    ]  # fmt: skip
    assert [listed("a"), listed("ab"), listed("abc")] == ["a", "a and b", "a, b and c"]
    assert [small(0), small(10), small(11)] == ["none", "ten", "11"]
    assert powers("time as N^1.04 (0.92)") == "time as $N^{1.04}$ (0.92)"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("below", "at every length measured, from N = 8 on"),
        ("beyond", "at most below N = 4096, the longest length measured"),
    ],
)
def test_a_crossover_that_was_not_met_is_told_by_the_lengths_measured(status, words, unhooked):
    everywhere = "at every length measured, from N = 8 on"
    found = SimpleNamespace(status=status, longest=4096, edge="", everywhere=everywhere)
    assert from_which(found) == words


@pytest.mark.parametrize(("ends", "said"), [
    ([(2, 3), (4, 5)], "at every length measured, from N = 8 on"),
    ([(0.5, 0.9), (0.9, 1.2), (1.1, 2)],
     "for certain from N = 32 on, softmax up to N = 8; at N = 16 the two cannot be told apart"),
    ([(0.9, 1.1), (0.9, 1.2), (1.1, 2)],
     "for certain from N = 32 on; at N = 8 and 16 the two cannot be told apart"),
    ([(0.5, 0.9), *[(0.9, 1.2)] * 4, (1.1, 2)],
     "for certain from N = 256 on, softmax up to N = 8; in between the two cannot be told apart"),
    ([(1.1, 1.2), (0.9, 1.2), (1.1, 2)],
     "for certain from N = 32 on; at N = 16 the two cannot be told apart"),
    ([(0.5, 0.6), (1.2, 1.3)], "for certain from N = 16 on, softmax up to N = 8"),
    ([(1.2, 1.3), (0.5, 1.3)], "at no length for certain"),
])  # fmt: skip
def test_what_is_certain_is_told_by_intervals_at_the_lengths_measured(ends, said):
    lengths = pd.Index([8 * 2**i for i in range(len(ends))], name="N")
    assert for_certain(pd.DataFrame(ends, lengths, ["low", "high"]), "softmax") == said
