"""A processor that dies of what it announces is found before it ends a notebook."""

import os
from subprocess import CompletedProcess

import pytest

from replication.measure import halves


@pytest.fixture
def tried(monkeypatch):
    """What the trial of a product ends with, and whether AMX is announced."""

    def pretend(code: int, *, announced: bool = True) -> list:
        calls = []
        monkeypatch.delenv(halves.VARIABLE, raising=False)
        monkeypatch.setattr(halves, "announced", lambda: announced)
        monkeypatch.setattr("subprocess.run", lambda *a, **_: calls.append(a)
                            or CompletedProcess(a, code))  # fmt: skip
        halves.mend.cache_clear()
        return calls

    before = os.environ.get(halves.VARIABLE)
    yield pretend
    os.environ.pop(halves.VARIABLE, None)
    os.environ |= {} if before is None else {halves.VARIABLE: before}
    halves.mend.cache_clear()


def test_a_product_that_kills_is_computed_in_another_way(tried):
    calls = tried(-4)
    assert "announces AMX, but has none" in halves.mend()
    assert os.environ[halves.VARIABLE] == halves.LESS
    assert halves.mend()
    assert len(calls) == 1


@pytest.mark.parametrize(("code", "announced", "trials"), [(0, True, 1), (-4, False, 0)])
def test_where_all_is_well_nothing_is_changed(tried, code, announced, trials):
    calls = tried(code, announced=announced)
    assert halves.mend() == ""
    assert halves.VARIABLE not in os.environ
    assert len(calls) == trials


def test_what_the_user_has_set_stays(tried, monkeypatch):
    calls = tried(-4)
    monkeypatch.setenv(halves.VARIABLE, "AVX2")
    assert halves.mend() == ""
    assert not calls
