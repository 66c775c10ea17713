"""What others have published is quoted as it stands there."""

import pytest

from replication import published
from replication.crossover import growth_exponent


@pytest.mark.parametrize(
    ("contender", "quantity", "slope"),
    [
        ("linear", "time_ms", 1.05),
        ("softmax", "time_ms", 1.87),
        ("linear", "peak_bytes", 1.00),
        ("softmax", "peak_bytes", 1.95),
    ],
)
def test_the_points_of_figure_1_grow_as_its_lines_do(contender, quantity, slope):
    found = growth_exponent(published.figure_1(), contender, quantity)
    assert found.value == pytest.approx(slope, abs=0.01)


def test_figure_1_reaches_as_far_as_memory_did():
    reached = published.figure_1().groupby("contender")["N"].max()
    assert reached.to_dict() == {name: published.LONGEST[name] for name in reached.index}


def test_what_was_hard_to_read_is_marked():
    table = published.figure_1().set_index(["contender", "N"])
    assert (table.loc["linear"].filter(like="error") == published.READ_TO).all(axis=None)
    assert table.loc[("softmax", 512)].filter(like="error").tolist() == [published.ROUGHLY] * 2
    assert table.loc[("softmax", 1024), "time_ms_error"] == published.READ_TO
    assert table.loc[("softmax", 1024), "peak_bytes_error"] == published.ROUGHLY


def test_the_earlier_steps_are_a_3000th_of_the_earlier_seconds():
    table = published.earlier_steps().pivot(index="N", columns="contender", values="step_ms")
    assert table["softmax"][64] == pytest.approx(416 / 3)
    assert table["linear"][8] == pytest.approx(1738 / 3)
    assert list(table.index) == [8, 16, 32, 64]
