"""A notebook that is open in JupyterLab: what is on the page, and what a hand can do there."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from selenium.common.exceptions import JavascriptException
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

CELLS = """
    const panel = window.jupyterapp?.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    if (!kernel || !panel.context.isReady) return null;
    const parts = outputs => Array.from({length: outputs.length}, (_, i) => outputs.get(i));
    const error = outputs => parts(outputs).find(part => part.type === "error")?.toJSON() ?? null;
    const drawn = part => Object.keys(part.data ?? {}).some(kind => kind.startsWith("image/"));
    return panel.content.widgets.filter(cell => cell.model.type === "code").map(cell => ({
        name: cell.model.id, count: cell.model.executionCount,
        figures: parts(cell.model.outputs).filter(drawn).length, error: error(cell.model.outputs),
    }));
"""
IDLE = "return window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status"
COUNT_BARS = """
    window.bars = 0;
    const count = () => document.querySelectorAll(".jp-Notebook .widget-hprogress").length;
    new MutationObserver(() => { window.bars = Math.max(window.bars, count()); })
        .observe(document.body, {childList: true, subtree: true});
"""
SHOWN = """
    const figures = ".jp-Notebook .jp-OutputArea-output img:not(.widget-image)";
    return [...document.querySelectorAll(figures)]
        .filter(image => image.complete && image.naturalWidth > 0).length;
"""
PICTURE = """
    const [done, image] = [arguments[0], document.querySelector(".jp-Notebook img.widget-image")];
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    fetch(image.src).then(answer => answer.blob()).then(bytes => reader.readAsDataURL(bytes))
        .catch(() => done(""));
"""
SHOW = "arguments[0].closest('.jp-Cell').scrollIntoView()"


class PageError(AssertionError):
    """A reader would see that something is wrong."""


class Cell(NamedTuple):
    """A code cell, as the page holds it."""

    name: str
    count: int | None
    figures: int
    error: dict | None


class Page:
    """One notebook in the browser. Waiting ends after ``seconds`` in all."""

    def __init__(self, browser: Chrome, pictures: Path, name: str, seconds: float):
        self.browser, self.pictures, self.name = browser, pictures, name
        self.end = time.monotonic() + seconds

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        while not (found := condition()):
            if time.monotonic() > self.end:
                raise PageError(f"{what} was waited for in vain")
            time.sleep(0.3)
        return found

    def open(self, address: str) -> None:
        self.browser.get(address)
        self.until(self.cells, "the notebook with a kernel")
        self.until(self.is_idle, "an idle kernel")
        self.until(lambda: not self.find("#jupyterlab-splash"), "the end of the splash screen")

    def cells(self) -> list[Cell] | None:
        found = self.browser.execute_script(CELLS)
        return found and [Cell(**cell) for cell in found]

    def is_idle(self) -> bool:
        return self.browser.execute_script(IDLE) == "idle"

    def find(self, selector: str) -> list:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> set[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(x => x.textContent)"
        return {text.strip() for text in self.browser.execute_script(script, selector)}

    def photograph(self, what: str) -> None:
        self.browser.save_screenshot(str(self.pictures / f"{self.name}-{what}.png"))

    def choose(self, menu: str, entry: str) -> None:
        """Click on an entry of the menu bar."""
        for kind, label in (("MenuBar", menu), ("Menu", entry)):
            path = f"//div[@class='lm-{kind}-itemLabel'][normalize-space()='{label}']"
            found = self.until(lambda path=path: self.browser.find_elements(By.XPATH, path), label)
            found[0].click()

    def run_all(self) -> list[Cell]:
        """Run all cells. The first error is trouble."""
        self.choose("Edit", "Clear Outputs of All Cells")
        self.until(lambda: all(cell.count is None for cell in self.cells()), "a cleared notebook")
        self.browser.execute_script(COUNT_BARS)
        self.choose("Run", "Run All Cells")
        self.until(self._is_over, "the last cell")
        return self.cells()

    def _is_over(self) -> bool:
        cells = self.cells()
        for cell in cells:
            if cell.error:
                raise PageError(f"cell {cell.name}: {cell.error['ename']}: {cell.error['evalue']}")
        return all(cell.count for cell in cells) and self.is_idle()

    def bars(self) -> int:
        """How many progress bars were seen at a time since the cells began to run."""
        return self.browser.execute_script("return window.bars")

    def images(self) -> int:
        """How many pictures are on the page, read and drawn."""
        return self.browser.execute_script(SHOWN)

    def move_slider(self) -> str:
        """Push the handle one step by the keyboard."""
        handle = self.until(lambda: self.find(".jp-Notebook .noUi-handle"), "the slider")[0]
        self.show(handle, "slider")
        self._changes_picture(lambda: handle.send_keys(Keys.ARROW_RIGHT))
        self.photograph("slider-moved")
        return f"the slider at {handle.get_attribute('aria-valuetext')} changed the picture"

    def change_menu(self) -> str:
        """Choose what is not chosen, in the first menu with a choice."""
        path = ".jp-Notebook .widget-dropdown select:not([disabled])"
        menu = Select(self.until(lambda: self.find(path), "a menu")[0])
        self.show(menu._el, "menus")
        now = self.until(lambda: menu.all_selected_options, "a choice in the menu")[0].text
        other = next(option.text for option in menu.options if option.text != now)
        self._changes_picture(lambda: menu.select_by_visible_text(other))
        self.photograph("menus-changed")
        return f"{other} instead of {now} changed the picture"

    def finish_digits(self) -> str:
        """Press the button of another digit, wait until it is drawn, then give more of it."""
        path = ".jp-Notebook .widget-toggle-button:not(.mod-active)"
        button = self.until(lambda: self.find(path), "a digit to choose")[0]
        self.show(button, "digits")
        chosen = button.text
        self._changes_picture(button.click)
        self.until(self.is_idle, f"the end of digit {chosen}")
        self.photograph("digit-finished")
        return f"digit {chosen} was drawn, {self.move_slider()}"

    def _changes_picture(self, move: Callable[[], None]) -> None:
        before = self.until(self._picture, "the widget's picture")
        move()
        self.until(lambda: self._picture() not in ("", before), "another picture in the widget")

    def _picture(self) -> str:
        """The bytes of the widget's picture, in base 64; nothing while there are none."""
        try:
            return self.browser.execute_async_script(PICTURE)
        except JavascriptException:  # no such picture yet
            return ""

    def show(self, element: Any, what: str) -> None:
        """Scroll to its cell and take a photograph."""
        for _ in range(2):  # cells out of sight are laid out, and grow, when they are scrolled to
            self.browser.execute_script(SHOW, element)
            time.sleep(1)
        self.photograph(what)
