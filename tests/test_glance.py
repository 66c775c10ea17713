"""The figure of all claims, and the tables of claims and of what differs."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from replication import claims
from replication.experiments.base import (
    INCONCLUSIVE,
    NOT,
    NOT_RUN,
    OUTCOMES,
    PARTLY,
    SUPPORTED,
    Verdict,
)
from replication.report import glance, run

CLAIMS = claims.claims()
FOUND = {one.id: Verdict(SUPPORTED, "", {}) for one in CLAIMS}


def test_every_claim_has_a_row_and_each_who_spoke_of_it_an_outcome():
    reference = {one.id: {"outcome": PARTLY} for one in CLAIMS}
    table = glance.outcomes(CLAIMS, FOUND, reference)
    assert list(table.index) == [one.id for one in CLAIMS]
    assert [" ".join(name.split()) for name in table.columns[2:]] == [
        "paper", "earlier replication", "reference run", "this run",
    ]  # fmt: skip
    assert set(table.iloc[:, 2:].stack()) <= {*OUTCOMES, NOT_RUN}
    assert set(table["reference\nrun"]) == {PARTLY}


def test_the_reference_run_stands_once():
    table = glance.outcomes(CLAIMS, FOUND, None, "reference run")
    assert list(table.columns[2:]) == ["paper", "earlier\nreplication", "reference\nrun"]


def test_the_earlier_column_says_what_the_claims_say():
    table = glance.outcomes(CLAIMS, FOUND, None)["earlier\nreplication"]
    assert table[["C1", "C2", "C3", "C4", "E1", "E3"]].to_list() == [
        NOT, PARTLY, NOT, NOT_RUN, SUPPORTED, NOT_RUN,
    ]  # fmt: skip


def test_other_words_of_the_earlier_replication_are_refused():
    strange = replace(CLAIMS[0], earlier="perhaps")
    with pytest.raises(ValueError, match=r"C1 has earlier='perhaps'.*not confirmed"):
        glance.outcomes([strange], FOUND, None)


def test_each_outcome_has_a_mark_that_is_told_apart_in_grey():
    looks = [(look["marker"], look.get("fillstyle", "full")) for _, look in glance.MARKS.values()]
    assert set(glance.MARKS) == {*OUTCOMES, NOT_RUN}
    assert len(set(looks)) == len(looks)


def test_the_figure_has_a_mark_a_cell_and_the_words_tell_the_last_column():
    found = FOUND | {"C1": Verdict(INCONCLUSIVE, "", {})}
    table = glance.outcomes(CLAIMS, found, None)
    (axes,) = glance.marks(table).axes
    marked = [line for line in axes.lines if line.get_marker() != "None"]
    assert len(marked) == 3 * len(CLAIMS) + len(glance.MARKS)
    assert "this run: C1 inconclusive; C2 supported" in glance.in_words(table)


ROWS = [
    {"name": "lr", "paper": "0.1", "code": "0.1", "here": "0.2", "reason": "small"},
    {"name": "betas", "paper": "–", "code": "0.9", "here": "0.9", "reason": "as there"},
    {"name": "d_model", "paper": "–", "code": "8", "here": "4", "reason": "speed"},
    {"name": "seeds", "paper": "–", "code": "–", "here": "0, 1", "reason": "chance"},
    {"name": "steps", "paper": "9", "code": "7", "here": "9", "reason": "as published"},
    {"name": "batch", "paper": "3", "code": "3", "here": "2", "reason": "speed"},
    {"name": "lsh_rounds", "paper": "–", "code": "–", "here": "4", "reason": "as in lsh"},
]


def test_only_what_differs_is_listed_and_a_reason_stands_once():
    table = run.deviations(ROWS)
    assert table.Number.to_list() == ["lr", "d model", "batch"]
    assert table.Why.to_list() == ["small", "speed", ""]
    assert table.Here.to_list() == ["0.2", "4", "2"]
    assert run.unsaid(ROWS) == "seeds: 0, 1; LSH rounds: 4"


def test_the_table_of_rules_tells_what_the_earlier_replication_found():
    table = run.rules(CLAIMS).set_index("")["Claim, in our words"]
    assert "earlier replication: confirmed for time" in table["**C2**"]
    assert "earlier replication: not" not in table["**C4**"]


def test_a_rule_stands_below_what_is_measured_and_its_history_below_it():
    one = replace(CLAIMS[0], quantity="time", rule="Yes if (a) is. No, else. (Since (b) was seen.)")
    plain = replace(CLAIMS[0], quantity="time", rule="Yes if so. (This) or (that).")
    cells = run.rules([one, plain])["Measured, and rule"]
    assert cells[0] == "*Time.*\nYes if (a) is. No, else.\n(Since (b) was seen.)"
    assert cells[1] == "*Time.*\nYes if so. (This) or (that)."


def test_machines_of_one_name_are_told_apart_by_their_systems():
    def unit(system):
        versions = {"torch": "2", "numba": "1"}
        machine = {"processor": "A", "cores": 2, "memory_bytes": 8e9, "device": "cpu",
                   "system": system, "versions": versions, "python": "3", "load": []}  # fmt: skip
        return SimpleNamespace(facts={"machine": machine, "commit": "1", "source": "2"})

    kept = {"scaling": [unit("x"), unit("y")], "decoding": [unit("x")]}
    table = run.provenance(run.Run("quick", Path(), kept, {}, {}))
    assert table.Machine.to_list() == [
        "A, 2\u00a0cores, 8.0\u00a0GB (2 systems)", "A, 2\u00a0cores, 8.0\u00a0GB",
    ]  # fmt: skip
