"""Markdown cells filled by the run: a value that is missing stops the build and is named."""

import copy
import json
import math

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from replication.report import prose
from replication.report.prose import MissingValueError, from_which, render
from replication.stats import Measured

NAMES = {"N": 64, "time": 1.5, "lost": math.nan, "nothing": None, "seen": {"C1": "so"}}


def test_values_and_conditions_are_filled():
    text = "N = {{ N }}{% if N > 8 %}, long{% endif %}; {{ seen.C1 }}; {{ '%.1f' % time }}."
    assert render(text, NAMES) == "N = 64, long; so; 1.5."


def test_identifiers_of_headings_and_mathematics_stay():
    text = r"# A {#sec-a}" + "\n\n" + r"$\frac{\phi(Q_i)^T S_i}{Z^{2}}$ {{ N }}"
    assert render(text, NAMES) == text.replace("{{ N }}", "64")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ other }}", "'other' is undefined"),
        ("{{ seen.C2 }}", "no attribute 'C2'"),
        ("{{ lost }}", "it is nan"),
        ("{{ nothing }}", "it is None"),
        ("{{ time }}", "it is 1.5. Say it by number, whole or times"),
        ("{{ N > 8 }}", "it is True"),
        ("{% if N %}never closed", "endif"),
    ],
)
def test_what_cannot_be_said_is_an_error(text, said):
    with pytest.raises(Exception, match=said):
        render(text, NAMES)


def shown(folder, *texts):
    """A notebook of Markdown cells, and what filling it shows."""
    book = new_notebook(cells=[*map(new_markdown_cell, texts), new_code_cell("fill")])
    nbformat.write(book, folder / "a.ipynb")
    InteractiveShell.instance()
    with capture_output() as caught:
        prose.fill(folder / "a.ipynb", NAMES)
    (output,) = caught.outputs
    book.cells[-1].outputs = [
        nbformat.v4.new_output("display_data", output.data, metadata=output.metadata)
    ]
    return book


def test_filled_texts_travel_in_the_output(tmp_path):
    book = shown(tmp_path, "Plain.", "N = {{ N }}.")
    assert [cell.source for cell in prose.filled(book).cells[:2]] == ["Plain.", "N = 64."]
    assert book.cells[1].source == "N = {{ N }}."
    for sound in (book, prose.filled(book)):
        assert list(prose.problems(sound)) == []
    json.dumps(book)


def test_every_place_is_named(tmp_path):
    with pytest.raises(MissingValueError) as error:
        shown(tmp_path, "{{ N }} and {{ lost }}", "fine {{ N }}", "{{ other }}")
    assert str(error.value).splitlines() == [
        "cell 1: {{ lost }}: it is nan. Run the experiments again, or mend the sentence.",
        "cell 3: {{ other }}: 'other' is undefined",
    ]


def test_a_name_that_two_cells_set_is_refused_where_a_sentence_says_it(tmp_path):
    """A sentence on losses once told two ratios of times, as a later cell took its name."""
    first, later = new_code_cell("N = 1\nseen = {}"), new_code_cell("for N in (2, 3): pass")
    inner = new_code_cell("[seen for seen in (1, 2)]")
    book = new_notebook(cells=[first, new_markdown_cell("{{ seen.C1 }}"), later, inner])
    nbformat.write(book, tmp_path / "a.ipynb")
    assert prose.bound(book.cells) == {"N": [1, 3], "seen": [1]}
    InteractiveShell.instance()
    with capture_output():
        prose.fill(tmp_path / "a.ipynb", NAMES)
    book.cells[1].source = "N = {{ N }}."
    nbformat.write(book, tmp_path / "a.ipynb")
    with pytest.raises(MissingValueError, match="N is set in cells 1 and 3"):
        prose.fill(tmp_path / "a.ipynb", NAMES)


def test_a_text_that_was_not_filled_or_changed_afterwards_is_told(tmp_path):
    book = shown(tmp_path, "N = {{ N }}.")
    late = copy.deepcopy(book)
    late.cells[0].source = "N was {{ N }}."
    assert "cell 1 was changed after its values were filled in" in next(prose.problems(late))
    bare = new_notebook(cells=[new_markdown_cell("N = {{ N }}.")])
    assert "cell 1 asks for {{ N }}, and no cell fills it" in next(prose.problems(bare))


@pytest.mark.parametrize(("unsure", "said"), [
    ((), ", from N = 2 on"), ((8,), " except N = 8 (open)"),
    ((2, 4, 8), " except N = 2, 4 and 8 (open)")])  # fmt: skip
def test_lengths_at_which_a_lead_is_not_certain_are_named(unsure, said):
    ends = {"at": 0.0, "low": 0.0, "high": 9.0, "level": 0.95, "shortest": 2, "longest": 64}
    names = {"contender": "linear", "opponent": "softmax", "quantity": "time_ms"}
    found = Measured(**names, **ends, crossings=0, unsure=unsure)
    assert from_which(found) == f"at every length measured{said}"
    assert found.sentence() == f"linear is faster than softmax {from_which(found)}"
