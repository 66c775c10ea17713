"""What a notebook shows: Markdown that JupyterLab reads too, and figures of the same bytes."""

from functools import partial

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from replication.report import show


def shown(function, *arguments, **named) -> list:
    """The outputs that a cell with this call has: the thing, and its caption."""
    InteractiveShell.instance()
    with capture_output() as caught:
        function(*arguments, **named)
    thing, caption = caught.outputs
    assert caption.metadata["report"] == {"kind": "caption"}
    assert named.get("caption", "A caption.") in caption.data["text/markdown"]
    return thing


def table(frame) -> list[str]:
    """The lines of a table as Markdown."""
    thing = shown(show.table, pd.DataFrame(frame), "tab-x", "A caption.")
    assert thing.metadata["report"] == {"kind": "table", "id": "tab-x", "caption": "A caption."}
    return thing.data["text/markdown"].splitlines()


# Tables ------------------------------------------------------------------------------------


def test_columns_of_numbers_stand_on_the_right():
    frame = {"name": ["a", "b"], "n": [1, 20], "x": [0.5, np.pi], "bold": ["**−3**", "–"]}
    head, rules, *rows = table(frame)
    assert head == "| name | n | x | bold |"
    assert rules == "| :-- | --: | --: | --: |"
    assert rows == ["| a | 1 | 0.500 | **−3** |", "| b | 20 | 3.14 | – |"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.56, "1,235"),
        (100.0, "100"),
        (0.0, "0.00"),
        (-0.0625, "−0.0625"),
        (1.5e-7, r"$1.50 \times 10^{-7}$"),
        (-2.5e9, r"$-2.50 \times 10^{9}$"),
        (2020, "2020"),
        ("two\nlines", "two<br>lines"),
        ("a | b", r"a \| b"),
        (r"$|x| + \|y\|$ | z", r"$\vert{}x\vert{} + \Vert{}y\Vert{}$ \| z"),
        (float("nan"), "nan"),
    ],
)
def test_a_cell_is_written(value, text):
    assert table({"a": [value]})[2] == f"| {text} |"


def test_an_empty_table_is_rejected():
    with pytest.raises(ValueError, match="tab-x needs rows"):
        show.table(pd.DataFrame({"a": []}), "tab-x", "A caption.")


# Figures -----------------------------------------------------------------------------------


calls = []


def points(y):
    calls.append(y)
    fig, ax = plt.subplots(figsize=(3, 2))
    ax.scatter([1, 2], y, label="$N^2$")
    ax.legend()
    return fig


def draw(folder, y=(3, 4)):
    return shown(show.figure, partial(points, y), "fig-x", "A caption.", "Two points.", folder)


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    for folder in ("one", "two"):
        draw(tmp_path / folder)
    for form in ("svg", "pdf", "png"):
        one, two = ((tmp_path / name / f"fig-x.{form}").read_bytes() for name in ("one", "two"))
        assert one == two
        assert b"Date" not in one


def draw_if_need_be(folder, y=(3, 4)):
    """Whether it was drawn."""
    calls.clear()
    assert draw(folder, y).metadata["report"]["width_in"] == 3.0
    return bool(calls)


def test_a_figure_is_drawn_once_from_the_same_rows(tmp_path):
    assert draw_if_need_be(tmp_path)
    assert not draw_if_need_be(tmp_path)
    assert draw_if_need_be(tmp_path, (3, 5))


class Remembers(list):
    """Values that are not the same once they have been looked at, as a fit's are."""

    def __iter__(self):
        self.looked_at = True
        return super().__iter__()


def test_what_drawing_leaves_in_the_rows_does_not_count(tmp_path):
    assert draw_if_need_be(tmp_path, Remembers((3, 4)))
    assert not draw_if_need_be(tmp_path, Remembers((3, 4)))


@pytest.mark.parametrize("form", ["svg", "pdf", "png"])
def test_a_figure_that_is_lost_or_changed_is_drawn_anew(tmp_path, form):
    draw_if_need_be(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / f"fig-x.{form}").write_bytes(b"of other rows")
    assert draw_if_need_be(tmp_path)
    (tmp_path / f"fig-x.{form}").unlink()
    assert draw_if_need_be(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("notes", ["<<<<<<< HEAD", "[]", "3", '{"fig-x": {}}', '{"fig-x": null}'])
def test_a_figure_whose_notes_are_damaged_is_drawn_anew(tmp_path, notes):
    draw_if_need_be(tmp_path)
    (tmp_path / show.DRAWN).write_text(notes)
    assert draw_if_need_be(tmp_path)
    assert not draw_if_need_be(tmp_path)


def test_other_code_draws_anew(tmp_path, monkeypatch):
    draw_if_need_be(tmp_path)
    monkeypatch.setattr(show, "code_hash", lambda *_: "other")
    assert draw_if_need_be(tmp_path)


def test_a_figure_is_closed_and_says_where_it_is(tmp_path):
    thing = draw(tmp_path)
    assert plt.get_fignums() == []
    assert thing.data["image/png"]
    facts = thing.metadata["report"]
    assert facts["file"] == str(tmp_path / "fig-x")
    assert (facts["alt"], facts["width_in"]) == ("Two points.", 3.0)


def test_no_path_of_this_machine_is_kept_of_figures_in_the_repository(tmp_path, monkeypatch):
    monkeypatch.setattr(show, "ROOT", tmp_path)
    facts = draw(tmp_path / "figures" / "smoke").metadata["report"]
    assert facts["file"] == "figures/smoke/fig-x"


# Listings ----------------------------------------------------------------------------------


def test_a_listing_is_the_source_as_it_stands():
    def inner(x):
        return 2 * x  # twice

    text = shown(show.listing, inner, "lst-x", "A caption.").data["text/markdown"]
    assert text == "~~~~ python\ndef inner(x):\n    return 2 * x  # twice\n~~~~"


def test_a_listing_may_be_a_text():
    text = shown(show.listing, "a = 1\n", "lst-x", "A caption.")
    assert text.data["text/markdown"] == "~~~~ python\na = 1\n~~~~"


def test_a_listing_may_be_a_tagged_cell_of_a_notebook(tmp_path):
    tagged = nbformat.v4.new_code_cell("x = 1\ny = 2", metadata={"tags": ["heart"]})
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("z = 3"), tagged])
    nbformat.write(book, tmp_path / "a.ipynb")
    assert show.tagged(tmp_path / "a.ipynb", "heart") == "x = 1\ny = 2"
    with pytest.raises(ValueError, match="has 0 cells with the tag soul, not one"):
        show.tagged(tmp_path / "a.ipynb", "soul")


# All ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["x", "tab-x", "fig-X y", "lst-"])
def test_a_wrong_id_is_rejected(id):
    with pytest.raises(ValueError, match="Choose one such as lst-growth"):
        show.listing("a", id, "A caption.")


def test_a_caption_and_an_alternative_text_are_needed(tmp_path):
    with pytest.raises(ValueError, match="lst-x has no caption"):
        show.listing("x", "lst-x", " ")
    with pytest.raises(ValueError, match="fig-x has no alternative text"):
        show.figure(partial(points, (3, 4)), "fig-x", "A caption.", "", tmp_path)
