"""Can a busy machine fool `replication crossover`? `make test-load` calls this.

The question is asked on the machine as it is, and with 1, 2 and 4 programs that compute beside it,
three times each. Every answer must lie within 10 % of the median of those without them or say that
it may be there, by an interval that has it; or be a refusal that says why. The programs end by
themselves. It takes about twelve minutes.
"""

import json
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import NamedTuple

SECONDS, ASKED, BESIDE = 60, 3, (0, 1, 2, 4)
LIMIT = 3 * SECONDS
"""More than a question with its processes can take: programs beside it end by then."""
WITHIN = 0.10
SPIN = f"import time\nend = time.time() + {LIMIT}\nwhile time.time() < end: pass"


class Answer(NamedTuple):
    """From which length on, and the interval; infinity where no length was long enough."""

    at: float
    low: float
    high: float

    @classmethod
    def of(cls, crossover: dict) -> "Answer":
        """JSON has no infinity: beyond the lengths that were measured there is a null."""
        beyond = float("inf")
        at, low, high = (beyond if (x := crossover[name]) is None else x
                         for name in ("at", "low", "high"))  # fmt: skip
        if crossover["status"] == "below":  # ahead at every length that was measured
            at = float(crossover["shortest"])
            high = max(at, high)
        return cls(at, low, high)

    def is_near(self, usual: float) -> bool:
        return self.at == usual or abs(self.at / usual - 1) <= WITHIN

    def agrees_with(self, usual: float) -> bool:
        return self.is_near(usual) or self.low <= usual <= self.high


def ask(folder: str) -> dict[str, Answer] | str:
    """The crossovers in time by contender and opponent; or why there is no answer."""
    command = [sys.executable, "-m", "replication", "crossover", "--json", "--out", folder,
               "--seconds", str(SECONDS)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1]
        assert said.startswith("replication: No answer"), done.stderr
        return said
    answer = json.loads(done.stdout)
    withheld = {(one["contender"], one["opponent"]) for one in answer["withheld"]}
    times = [c for c in answer["crossovers"] if c["quantity"] == "time_ms"]
    assert not withheld & {(c["contender"], c["opponent"]) for c in times}
    return {f"{c['contender']} / {c['opponent']}": Answer.of(c) for c in times}


def beside(count: int, folder: str) -> dict | str:
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        time.sleep(1)
        return ask(folder)
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        for count in BESIDE:
            found[count] = [beside(count, folder) for _ in range(ASKED)]
            for answer in found[count]:
                print(f"{count} beside it: {_said(answer)}", flush=True)
    quiet = [answer for answer in found[0] if isinstance(answer, dict)]
    if not quiet:
        sys.exit("This machine is too busy already: there is nothing to compare with.")
    answers = [(n, a) for n, every in found.items() for a in every if isinstance(a, dict)]
    wrong, compared, busy = [], 0, 0
    for pair in dict.fromkeys(pair for answer in quiet for pair in answer):
        usual = median(answer[pair].at for answer in quiet if pair in answer)
        here = [(n, answer[pair]) for n, answer in answers if pair in answer]
        wrong += [(pair, n, one) for n, one in here if not one.agrees_with(usual)]
        near = sum(one.is_near(usual) for _, one in here)
        compared += len(here)
        busy += sum(n > 0 for n, _ in here)
        print(f"{pair}: {usual:.0f} without load; {near} of {len(here)} answers within "
              f"{WITHIN:.0%} of it.")  # fmt: skip
    refusals = ASKED * len(BESIDE) - len(answers)
    print(f"{len(answers)} times answered, {refusals} times refused.")
    if wrong:
        sys.exit(f"Elsewhere than without load, and sure of it: {wrong}")
    print(f"Passed: each of {compared} crossovers, {busy} of them beside other programs, is where "
          "it is without, or its interval says that it may be.")  # fmt: skip


def _said(answer: dict[str, Answer] | str) -> str:
    if isinstance(answer, str):
        return answer
    return "; ".join(f"{pair} {a.at:.0f} ({a.low:.0f} to {a.high:.0f})"
                     for pair, a in answer.items())  # fmt: skip


if __name__ == "__main__":
    main()
