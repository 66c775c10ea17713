"""Every notebook in a real JupyterLab and a real browser. `make test-browser` calls this.

The server works on a copy of the project, so that no result here is touched. Each notebook is
opened as it is committed, then its outputs are cleared and all its cells are run, through the
menus. No cell may fail, all figures must be drawn, progress must be seen, and the widgets must
answer to a hand. Then the HTML pages of all notebooks and of the report are opened from the disk,
with the network off. Photographs of all are left in build/browser.
"""

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import nbformat
import offline
from lab import ROOT, Lab, browser, copy_project, new_home, started, tools
from page import Page, PageError
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome

from replication import experiments
from replication.workflow import notebooks, report_jobs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from test_notebooks import SMALL

PICTURES = ROOT / "build" / "browser"
WITH_BARS = ("03",)
HANDS = {"01": Page.move_slider, "05": Page.change_menu, "06": Page.finish_digits}
"""What is done to a notebook's widget."""


def make_small(book: Path) -> None:
    """Give a notebook the parameters of the tests, so that it runs in seconds, not in minutes.

    They stand in a cell of their own after the parameters cell, as papermill puts them there. The
    cells that the reader sees stay as they are.
    """
    small = parameterize_notebook(load_notebook_node(str(book)), SMALL[book.name[:2]])
    nbformat.write(small, book)


def first_page(page: Page, lab: Lab, books: list[Path]) -> str:
    """What `make lab` shows first must be the list of the notebooks."""
    page.browser.get(f"{lab.url}/?token={lab.token}")
    names = {book.name for book in books}
    page.until(lambda: names <= page.texts(".jp-DirListing-itemName"), "the list")
    page.until(lambda: not page.find("#jupyterlab-splash"), "the end of the splash screen")
    page.photograph("first")
    return f"opens on the list of {len(names)} notebooks"


def visit(page: Page, lab: Lab, book: Path) -> str:
    """Open, look, run, look again, move. The answer says what was seen."""
    page.open(f"{lab.url}/lab/tree/notebooks/{book.name}?reset")
    page.photograph("open")
    if [python.parent.parent for python in lab.kernels()] != [Path(sys.prefix)]:
        raise PageError(f"the kernels are {lab.kernels()}, not one of {sys.prefix}")
    cells = page.run_all()
    figures, bars = sum(cell.figures for cell in cells), page.bars()
    if not figures:
        raise PageError("there is no figure")
    page.until(lambda: page.images() >= figures, f"the drawing of {figures} figures")
    if page.name in WITH_BARS and not bars:
        raise PageError("no progress bar was seen")
    page.photograph("run")
    seen = [f"{len(cells)} cells ran", f"{figures} figures"]
    seen += ["progress bars"] * bool(bars)
    seen += [HANDS[page.name](page)] if page.name in HANDS else []
    page.choose("Kernel", "Shut Down Kernel")
    page.until(lambda: not lab.kernels(), "the end of the kernel")
    return ", ".join(seen)


def attempt(page: Page, what, lab: Lab | None, *arguments) -> tuple[bool, str]:
    """Whether it went well, and a line on it."""
    begun = time.monotonic()
    try:
        ok, said = True, what(page, lab, *arguments)
    except (PageError, WebDriverException) as error:
        page.photograph("trouble")
        if lab:
            lab.end_kernels()
        ok, said = False, f"FAILED: {str(error).splitlines()[0]}"
    line = f"{page.name}: {said} ({time.monotonic() - begun:.0f} s)"
    print(line, flush=True)
    return ok, line


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", help="numbers of notebooks, such as 01 05; else all")
    parser.add_argument("--pages", action="store_true", help="only pages with the network off")
    parser.add_argument("--seconds", type=float, default=600, help="for one notebook (600)")
    return parser.parse_args()


def every() -> list[Path]:
    return [job.notebook for job in report_jobs("smoke")]


def chosen(which: list[str]) -> list[Path]:
    """The notebooks asked for, with those that must have run before; all if none is named."""
    asked = {notebooks.find(number) for number in which}
    needed = {experiments.find(name).notebook for book in asked
              for one in notebooks.experiments_of(book) for name in one.needs}  # fmt: skip
    return sorted({*asked, *(notebooks.NOTEBOOKS / f"{stem}.ipynb" for stem in needed)}) or every()


def tour(chrome: Chrome, lab: Lab, books: list[Path], seconds: float) -> list[tuple[bool, str]]:
    def page(name):
        return Page(chrome, PICTURES, name, seconds)

    first = [attempt(page("lab"), first_page, lab, every())]
    return first + [attempt(page(book.name[:2]), visit, lab, book) for book in books]


def leaf(chrome: Chrome, lab: Lab | None, pages: list[Path], seconds: float) -> list:
    """Through the pages, without a network."""

    def page(name):
        return Page(chrome, PICTURES, name, seconds)

    first = [attempt(page("network"), offline.what_loads_is_caught, lab, pages[0].parent)]
    return first + [attempt(page(x.stem), offline.stands_alone, lab, x) for x in pages]


def main() -> None:
    asked = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))
    books = chosen(asked.which)
    programs = tools()
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as scratch:
        project, home = copy_project(Path(scratch) / "project"), new_home(Path(scratch) / "home")
        pages, lab = offline.pages_of(project), None
        with ExitStack() as opened:
            if not asked.pages:
                for book in books:
                    make_small(project / "notebooks" / book.name)
                lab = opened.enter_context(started(project, home, PICTURES / "server.log"))
            chrome = opened.enter_context(browser(*programs))
            seen = tour(chrome, lab, books, asked.seconds) if lab else []
            seen += leaf(chrome, lab, pages, asked.seconds)
    print("\n".join(["", "What was seen:", *(line for _, line in seen)]))
    if not all(ok for ok, _ in seen):
        sys.exit(f"Photographs and the server's log: {PICTURES}")


if __name__ == "__main__":
    main()
