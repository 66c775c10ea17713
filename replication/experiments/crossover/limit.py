"""A time limit as the user counts it: imports and the start of measuring processes included.

What measures is given the time that is left; a process that does not end in time is ended, and
the refusal says whether it was for want of time or because of other programs.
"""

import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

import psutil

from replication.experiments.scaling.run import in_own_process
from replication.measure.rounds import TooBusyError

LATER, AROUND, ANSWER = 2.0, 1.0, 1.0
"""In units of what a process took to start, which is longer on a busy machine: for each that comes
later, which loads compiled code as well; around the rounds, for drawing inputs and writing rows;
and for the answer."""
COUNTING = 0.75
"""Of the time of a process that counts bytes as well, for the rounds."""
LEAST_S = 1.0
"""Of rounds: with less there is nothing to be learned."""


class Limit(NamedTuple):
    """So many seconds, and the moment at which they end."""

    seconds: float
    end: float

    @classmethod
    def of(cls, seconds: float, spent: float = 0.0) -> "Limit":
        return cls(seconds, time.time() + seconds - spent)

    @classmethod
    def of_command(cls, options: Namespace) -> "Limit":
        """From the start of this process, if it was started for the command."""
        is_command = getattr(options, "is_command", False)
        age = time.time() - psutil.Process().create_time()
        return cls.of(options.seconds, max(0.0, age) if is_command else 0.0)

    def share(self, processes: int, start_s: float, *, counts: bool = False) -> float:
        """Seconds of rounds for the first of so many processes, of which the others have yet to be
        started, too; a refusal if that is too little."""
        left = self.end - time.time() - start_s * (LATER * (processes - 1) + ANSWER)
        own = (left / processes - AROUND * start_s) * (COUNTING if counts else 1.0)
        if own < LEAST_S:
            said = f"are too few: a process that measures takes {start_s:.1f} s to start"
            raise TooBusyError(self.refusal(said))
        return own

    def run(self, call: Callable, *arguments: Any) -> Any:
        """In a process of its own, which is ended when the time is over."""
        left = max(0.0, self.end - time.time())
        try:
            return in_own_process("the question", call, *arguments, seconds=left)
        except TimeoutError:
            raise TooBusyError(self.refusal("ended in the middle of it")) from None

    def refusal(self, what: str) -> str:
        return f"No answer: {self.seconds:g} s {what}. {cause()}"


def cause(load: float | None = None, cores: int | None = None) -> str:
    """Whether other programs are why time was short, and what to do then."""
    load = psutil.getloadavg()[0] if load is None else load
    cores = cores or psutil.cpu_count() or 1
    seen = f"a load of {load:.1f} on {cores} core{'s' if cores > 1 else ''}"
    if load > 1 + cores / 4:  # what asks is one of them
        return f"Other programs compute here ({seen}): close them, or allow more by --seconds."
    return f"Nothing else computes here ({seen}): allow more by --seconds."
