"""Can a busy machine fool `replication crossover`? `make test-load` calls this.

The question is asked on the machine as it is, and with 1, 2 and 4 programs that compute beside it,
three times each. Every answer must lie within 10 % of the median of those without them, or be a
refusal that says why. The programs end by themselves. It takes about twelve minutes.
"""

import json
import subprocess
import sys
import tempfile
import time
from statistics import median

SECONDS, ASKED, BESIDE = 60, 3, (0, 1, 2, 4)
LIMIT = 3 * SECONDS
"""More than a question with its processes can take: programs beside it end by then."""
WITHIN = 0.10
SPIN = f"import time\nend = time.time() + {LIMIT}\nwhile time.time() < end: pass"


def ask(folder: str) -> dict | str:
    """The crossovers in time by contender and opponent; or why there is no answer."""
    command = [sys.executable, "-m", "replication", "crossover", "--json", "--out", folder,
               "--seconds", str(SECONDS)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1]
        assert said.startswith("replication: No answer"), done.stderr
        return said
    times = [c for c in json.loads(done.stdout)["crossovers"] if c["quantity"] == "time_ms"]
    return {f"{c['contender']} / {c['opponent']}": _length(c) for c in times}


def _length(crossover: dict) -> float:
    """Where it is; ahead throughout counts as the shortest length, never as infinity."""
    outside = {"below": float(crossover["shortest"]), "beyond": float("inf")}
    return outside.get(crossover["status"]) or crossover["at"]


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
                print(f"{count} beside it: {answer}", flush=True)
    quiet = [answer for answer in found[0] if isinstance(answer, dict)]
    if not quiet:
        sys.exit("This machine is too busy already: there is nothing to compare with.")
    wrong = []
    for pair in quiet[0]:
        usual = median(answer[pair] for answer in quiet)
        answers = [(n, a[pair]) for n, every in found.items() for a in every if isinstance(a, dict)]
        wrong += [(pair, n, at) for n, at in answers if not abs(at / usual - 1) <= WITHIN
                  and at != usual]  # fmt: skip
    answered = sum(isinstance(answer, dict) for every in found.values() for answer in every)
    print(f"{answered} answers, {ASKED * len(BESIDE) - answered} refusals.")
    if wrong:
        sys.exit(f"Too far from the median without load: {wrong}")
    print(f"Passed: every answer within {WITHIN:.0%}, or a refusal.")


if __name__ == "__main__":
    main()
