"""Do all that the README says, as a stranger would. `make test-readme` calls this.

The last commit is cloned into a folder of its own, and every command of the README's shell
blocks is run there, in order. Each must succeed. What it took is printed at the end.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from readme_cases import ROOT, commands

LASTS_AS_LONG_AS_ONE_LIKES = "make lab"


def obey(command: str, folder: Path) -> float:
    """Run one command as it stands; seconds. What it says is shown if it fails."""
    print(f"$ {command}", flush=True)
    start = time.perf_counter()
    # of make's own variables none: a stranger's shell has them not
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=clean, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout[-5000:]}\nThis failed with {done.returncode}: {command}")
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="readme-") as scratch:
        folder = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        typed = [c for c in commands() if not c.startswith(LASTS_AS_LONG_AS_ONE_LIKES)]
        took = {command: obey(command, folder) for command in typed}
    for command, seconds in took.items():
        print(f"{seconds / 60:6.1f} minutes  {command}")
    print(f"Passed: all {len(took)} commands of the README.")


if __name__ == "__main__":
    main()
