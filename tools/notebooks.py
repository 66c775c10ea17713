"""Execute notebooks on the saved rows of the reference run, and keep what they show: `make
notebooks`. Sources and parameters stay as they are; nothing is measured or trained, and weights
that lie beside the rows are not looked at: a clone has none."""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

from replication.store import RESULTS, write_whole
from replication.workflow import notebooks

PROFILE = "reference"
BAR = "application/vnd.jupyter.widget-view+json"


def shown(outputs: list) -> list:
    """Without progress bars and warnings, which belong to one run."""
    kept = (one for one in outputs if one.get("name") != "stderr")
    return [one for one in kept if BAR not in one.get("data", {})]


def renew(path: Path) -> None:
    given, wanted = notebooks.parameters(path), {"profile": PROFILE, "rows": "saved"}
    with TemporaryDirectory() as folder:
        rows_alone = shutil.ignore_patterns("*.pt")
        shutil.copytree(RESULTS / PROFILE, Path(folder, PROFILE), ignore=rows_alone)
        chosen = {k: v for k, v in (wanted | {"out": folder}).items() if k in given}
        done = notebooks.execute(path, chosen, None)
    made = {cell.id: cell for cell in done.cells}
    book = nbformat.read(path, 4)
    book.metadata.pop("widgets", None)
    for count, cell in enumerate((c for c in book.cells if c.cell_type == "code"), 1):
        cell.execution_count, cell.outputs = count, shown(made[cell.id].outputs)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    write_whole(path, (nbformat.writes(book) + "\n").encode())


if __name__ == "__main__":
    for which in sys.argv[1:] or sorted(p.name[:2] for p in notebooks.NOTEBOOKS.glob("0*.ipynb")):
        path = notebooks.find(which)
        print(path.name, flush=True)
        renew(path)
