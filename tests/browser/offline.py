"""Pages as they are mailed or copied: opened from the disk, by a browser without a network.

They are made in a copy of the project, of the committed notebooks and of the reference run's rows.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from page import Page, PageError
from selenium.webdriver import Chrome

MAKE = """
import shutil
from pathlib import Path
from replication import store
from replication.report import build, pages
from replication.workflow import notebooks

build.build("reference")
for book in notebooks.NOTEBOOKS.glob("[0-9]*.ipynb"):
    pages.write(Path(shutil.copy(book, store.BUILD / "reference")))
pages.write_index(store.BUILD / "reference", "All pages")
"""
NETWORK = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
SEEN = """
    document.querySelectorAll("details").forEach(part => { part.open = true; });
    const loaded = performance.getEntriesByType("resource").map(entry => entry.name)
        .filter(name => !name.startsWith("data:"));
    const has_no_box = node => {
        const box = node.getBoundingClientRect();
        return !(box.width > 0 && box.height > 0);
    };
    const [formulas, figures] = [document.querySelectorAll("math"), document.images];
    return {
        loaded, formulas: formulas.length, figures: figures.length,
        empty: [...formulas].filter(has_no_box).map(formula => formula.textContent),
        undrawn: [...figures].filter(one => !one.complete || !one.naturalWidth).map(one => one.alt),
    };
"""
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'


def pages_of(project: Path) -> list[Path]:
    """All pages of the reference run, of the copy in ``project``."""
    print("Making the pages ...", flush=True)
    env = os.environ | {"PYTHONPATH": str(project)}
    subprocess.run([sys.executable, "-c", MAKE], cwd=project, env=env, check=True)
    return sorted((project / "build" / "reference").glob("*.html"))


@contextmanager
def network_off(chrome: Chrome) -> Iterator[None]:
    conditions = partial(chrome.execute_cdp_cmd, "Network.emulateNetworkConditions")
    chrome.execute_cdp_cmd("Network.enable", {})
    conditions(NETWORK | {"offline": True})
    try:
        yield
    finally:
        conditions(NETWORK)


@contextmanager
def elsewhere(folder: Path) -> Iterator[str]:
    """An address from which a picture can be had, for a browser with a network."""
    (folder / "picture.svg").write_text(PICTURE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/picture.svg"
    finally:
        server.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def seen_on(page: Page, path: Path) -> dict:
    page.browser.get(path.as_uri())
    return page.browser.execute_script(SEEN)


def what_loads_is_caught(page: Page, _: object, folder: Path) -> str:
    """A page with a picture from elsewhere, drawn with a network and not without, and with a
    formula that is none: both are caught."""
    with elsewhere(folder) as address:
        path = folder / "loads.html"
        path.write_text(f'<title>x</title><img alt="it" src="{address}"><math></math>')
        found = [seen_on(page, path)]
        with network_off(page.browser):
            found.append(seen_on(page, path))
    seen = [(one["loaded"], one["undrawn"], len(one["empty"])) for one in found]
    if seen != [([address], [], 1), ([address], ["it"], 1)]:
        raise PageError(f"what a page loads is not caught, or the network was not off: {found}")
    return "a page that loads a picture is caught, and has none with the network off"


def stands_alone(page: Page, _: object, path: Path) -> str:
    """Nothing is loaded, all figures are drawn, all formulas have a place on the page."""
    with network_off(page.browser):
        seen = seen_on(page, path)
    for what in ("loaded", "undrawn", "empty"):
        if seen[what]:
            raise PageError(f"{len(seen[what])} {what}, the first {seen[what][0][:80]!r}")
    page.photograph("offline")
    return f"{seen['formulas']} formulas and {seen['figures']} figures without a network"
