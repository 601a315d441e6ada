"""A page in a headless Chromium, and what it did: errors, requests, long tasks, files offered."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--no-first-run",
    "--window-size=1400,1000", "--force-device-scale-factor=1",
)  # fmt: skip
_PATIENCE = 20.0
# Milliseconds that a page may be busy with one thing after it is loaded.
FLUID = 200.0
# What the page would save as a file is kept in it instead.
_KEEP_FILES = """
window.saved = [];
URL.createObjectURL = (blob) => {
  blob.text().then((text) => window.saved.push(text));
  return "#";
};
HTMLAnchorElement.prototype.click = function () {};
"""
_WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
}).observe({ type: "longtask" });
"""


class Page:
    """One report, opened from its file."""

    def __init__(self, driver: Any, path: Path):
        self.driver, self.path = driver, path
        driver.get_log("browser")
        driver.get_log("performance")
        self.light("light")
        driver.get(path.as_uri())
        self._wait_drawn()

    def reload(self) -> None:
        """The same page as new."""
        self.driver.refresh()
        self._wait_drawn()

    def _wait_drawn(self) -> None:
        self.wait(lambda: self.run("return document.documentElement.dataset.ready === 'yes'"))
        self.settle()

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, done: Callable[[], Any]) -> Any:
        """Until it is so; the clock only ends a wait for what does not come."""
        end = time.monotonic() + _PATIENCE
        while not (value := done()):
            assert time.monotonic() < end, "the page did not get there"
            time.sleep(0.02)
        return value

    def settle(self) -> None:
        """Until what was asked for is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));"
        )

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def column(self, table: str, number: int) -> list[str]:
        """The texts of a column of a table, as shown."""
        return self.run(
            "return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]"
            ".map((row) => row.children[arguments[1]].textContent)",
            table,
            number,
        )

    def box(self, selector: str) -> tuple[float, float, float, float]:
        script = """
        const element = document.querySelector(arguments[0]);
        element.scrollIntoView({ block: "center" });
        const { left, top, width, height } = element.getBoundingClientRect();
        return [left, top, width, height];
        """
        return tuple(self.run(script, selector))

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        values = {"type": kind, "x": x, "y": y, **more}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", values)

    def wheel(self, x: float, y: float, notches: int) -> None:
        """Away from the reader is negative."""
        for _ in range(abs(notches)):
            self.mouse("mouseWheel", x, y, deltaX=0, deltaY=100 if notches > 0 else -100)
        self.settle()

    def drag(self, x: float, y: float, by: tuple[float, float], moves: int = 10) -> None:
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for k in range(1, moves + 1):
            here = (x + by[0] * k / moves, y + by[1] * k / moves)
            self.mouse("mouseMoved", *here, button="left", buttons=1)
        self.mouse("mouseReleased", x + by[0], y + by[1], button="left", clickCount=1)
        self.settle()

    def pinch(self, x: float, y: float, before: float, after: float, moves: int = 8) -> None:
        """Two fingers side by side, so far from the middle before and after."""

        def touch(kind: str, apart: float | None) -> None:
            points = [] if apart is None else [(x - apart, 0), (x + apart, 1)]
            touches = [{"x": at, "y": y, "id": k} for at, k in points]
            values = {"type": kind, "touchPoints": touches}
            self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", values)

        touch("touchStart", before)
        for k in range(1, moves + 1):
            touch("touchMove", before + (after - before) * k / moves)
        touch("touchEnd", None)
        self.settle()

    def click(self, x: float, y: float) -> None:
        self.drag(x, y, (0, 0), moves=0)

    def press(self, selector: str, *keys: str) -> None:
        self.run("document.querySelector(arguments[0]).focus()", selector)
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)
        self.settle()

    def light(self, scheme: str, media: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": features}
        )

    def size(self, width: int, height: int) -> None:
        values = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", values)

    def print_pdf(self) -> bytes:
        answer = self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        return base64.b64decode(answer["data"])

    def background(self) -> str:
        return self.run("return getComputedStyle(document.body).backgroundColor")

    def pixel(self, selector: str, x: float, y: float) -> tuple[int, ...]:
        """A canvas's colour at a share of its width and height."""
        script = """
        const canvas = document.querySelector(arguments[0]);
        const [x, y] = [arguments[1] * canvas.width, arguments[2] * canvas.height];
        const copy = document.createElement("canvas");
        copy.width = copy.height = 1;
        const pen = copy.getContext("2d", { willReadFrequently: true });
        pen.drawImage(canvas, -Math.round(x), -Math.round(y));
        return [...pen.getImageData(0, 0, 1, 1).data];
        """
        return tuple(self.run(script, selector, x, y))

    def saved(self, button: str) -> str:
        """Text of the file that a button saves."""
        self.run(_KEEP_FILES)
        self.find(button).click()
        return str(self.wait(lambda: self.run("return window.saved[0]")))

    @contextmanager
    def long_tasks(self) -> Iterator[list[float]]:
        """Milliseconds of every task over 50 ms in the block, there when it ends."""
        self.run(_WATCH)
        found: list[float] = []
        yield found
        self.settle()
        time.sleep(0.2)  # The browser tells of a task after it.
        found += self.run("return window.longTasks")

    def longest_task(self, act: Callable[[], None]) -> float:
        """Milliseconds of the longest task of what is done to the page as it was loaded.

        Other programs only ever add to it: the best of three.
        """
        best = float("inf")
        for _ in range(3):
            self.reload()
            with self.long_tasks() as tasks:
                act()
            best = min(best, max(tasks, default=0.0))
            if best <= FLUID:
                break
        return best

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for, but for the page's own file and what is in it."""
        logged = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        asked = [
            entry["message"]["params"]["request"]["url"]
            for entry in logged
            if entry["message"]["method"] == "Network.requestWillBeSent"
        ]
        assert self.path.as_uri() in asked
        return [url for url in asked if url != self.path.as_uri() and not url.startswith("data:")]


@contextmanager
def open_browser() -> Iterator[Any]:
    """A driver; skips the test where what it needs is not installed, and says what."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs cpplan[browser]: selenium")
    options = selenium.ChromeOptions()
    binaries = ("chromium", "chromium-browser", "google-chrome")
    binary = next(filter(None, map(shutil.which, binaries)), None)
    server = shutil.which("chromedriver")
    if binary is None or server is None:
        pytest.skip("needs chromium" if binary is None else "needs chromedriver")
    options.binary_location = binary
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(server))
    try:
        yield driver
    finally:
        driver.quit()


def middle(page: Page, selector: str = "canvas.map") -> tuple[float, float]:
    """The middle of an element, in pixels of the window."""
    left, top, width, height = page.box(selector)
    return left + width / 2, top + height / 2


# Opens a report in the browser: of a plan and its source, or of a text.
Open = Callable[..., Page]
