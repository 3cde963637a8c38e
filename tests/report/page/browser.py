"""A real browser for tests of the report page: Debian's Chromium through Playwright's driver. Without one they are skipped, and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from report.page.render import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Opened:
    """A report in the browser. ``errors``: what the console, the policy or a script had to complain of; ``requests``: addresses other
    than the file's own that the page asked for."""

    page: Page
    size: int
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def do(self, expression: str, argument: Any = None) -> Any:
        """The value of a JavaScript expression or function in the page."""
        return self.page.evaluate(expression, argument)

    def go(self, fragment: str) -> None:
        """Follow a link into the page."""
        self.page.evaluate("(hash) => { location.hash = hash; }", fragment)
        self.page.wait_for_timeout(50)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self) -> str:
        """Id, node index or text of what has the focus."""
        return str(self.do("(document.activeElement.id || document.activeElement.dataset.n || document.activeElement.textContent)"))

    def alarm(self, dialog: Dialog) -> None:
        """A script that is not the page's own would ask for attention like this."""
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def quiet(self) -> None:
        """Nothing was complained of, and nothing left the file."""
        assert self.errors == []
        assert self.requests == []


Open = Callable[..., Opened]


def executable() -> str | None:
    """Chromium's path: the environment's ``KUBESTOW_CHROMIUM``, or the first of the usual names on PATH."""
    given = os.environ.get("KUBESTOW_CHROMIUM")
    return given or next((found for found in map(shutil.which, NAMES) if found), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: the report page is not tested in a browser")
    path = executable()
    if path is None:
        pytest.skip("no Chromium on PATH nor in KUBESTOW_CHROMIUM: the report page is not tested in a browser")
    with api.sync_playwright() as driver:
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        yield started
        started.close()


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a document as a file in a window of its own: ``report(data, fragment="", width=.., height=.., **options of the context)``."""
    contexts: list[BrowserContext] = []

    def start(data: dict[str, Any], fragment: str = "", *, width: int = 1280, height: int = 900, **options: Any) -> Opened:
        file = tmp_path / f"report-{len(contexts)}.html"
        file.write_bytes(render(data))
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        opened = Opened(page, file.stat().st_size)
        page.on("console", lambda message: opened.errors.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("dialog", opened.alarm)
        page.on("request", lambda request: None if request.url.startswith(file.as_uri()) else opened.requests.append(request.url))
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector("html[data-ready=true]")
        return opened

    yield start
    for context in contexts:
        context.close()
