"""A time limit is one for the whole command, and a refusal names the cause."""

import multiprocessing
import time

import pytest
from workflow_cases import until

from replication.experiments.crossover.run import Limit, cause
from replication.measure.rounds import TooBusyError


def test_a_process_gets_what_loading_for_it_and_those_after_it_leaves():
    limit = Limit.of(40.0, spent=4.0)
    assert limit.share(3, 2.0) == pytest.approx((36 - 2 * 1.6 * 2 - 2.6) / 3 - 1.4, abs=0.5)
    assert limit.share(1, 2.0) == pytest.approx(36 - 2.6 - 1.4, abs=0.5)


def test_a_time_that_starting_alone_takes_is_refused_with_the_cause(monkeypatch):
    monkeypatch.setattr("psutil.getloadavg", lambda: (7.5, 7, 7))
    said = r"No answer: 9 s are too few: .* 2.0 s to load. Other programs compute.*load of 7.5 on"
    with pytest.raises(TooBusyError, match=said):
        Limit.of(9.0, spent=4.0).share(3, 2.0)
    assert cause(0.9, 2).startswith("Nothing else computes here (a load of 0.9 on 2 cores)")


def test_a_process_that_does_not_end_in_time_is_ended():
    begin, spent = time.time(), 5.0
    with pytest.raises(TooBusyError, match="No answer: 10 s ended in the middle of it"):
        Limit.of(10.0, spent).run(time.sleep, 60)
    assert time.time() - begin < 5 + 10, "five seconds, and the end of a process"
    until(lambda: not multiprocessing.active_children())
