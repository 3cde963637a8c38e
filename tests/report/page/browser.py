"""A real browser for tests of the report page: Debian's Chromium through Playwright's driver. Without one they are skipped, and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kubestow.report.page.render import render

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
    _heard: dict[str, Callable[[Any], None]] = field(default_factory=dict)

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

    def listen(self, address: str) -> None:
        """Hear of complaints, and of requests for anything but the file at ``address``."""
        self._heard = {
            "console": lambda message: self.errors.append(message.text) if message.type in ("error", "warning") else None,
            "pageerror": lambda error: self.errors.append(str(error)),
            "dialog": self.alarm,
            "request": lambda request: None if request.url.startswith((address, "about:")) else self.requests.append(request.url),
        }
        for event, heard in self._heard.items():
            self.page.on(event, heard)  # type: ignore[call-overload]

    def forget(self) -> None:
        """Hear no more."""
        for event, heard in self._heard.items():
            self.page.remove_listener(event, heard)

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


@pytest.fixture(scope="session")
def window(browser: Browser) -> Page:
    """A page that tests share one after the other: opening a new one takes as long as most tests."""
    return browser.new_context().new_page()


_MEDIA: dict[str, Any] = {"media": "null", "color_scheme": "light", "reduced_motion": "no-preference", "forced_colors": "none"}


@pytest.fixture
def report(browser: Browser, window: Page, tmp_path: Path) -> Iterator[Open]:
    """Opens a document as a file: ``report(data, fragment="", width=.., height=.., **media)``, with ``touch=True`` in a window for
    fingers, with ``own=True`` in one of its own, which may be changed for good. A test that opens several sees the last."""
    contexts: list[BrowserContext] = []
    known: list[Opened] = []
    file = tmp_path / "report.html"

    def page_of(touch: bool, own: bool) -> Page:
        if not touch and not own:
            return window
        contexts.append(browser.new_context(has_touch=touch))
        return contexts[-1].new_page()

    def start(
        data: dict[str, Any],
        fragment: str = "",
        *,
        width: int = 1280,
        height: int = 900,
        touch: bool = False,
        own: bool = False,
        **media: Any,
    ) -> Opened:
        file.write_bytes(render(data))
        page = page_of(touch, own)
        page.set_default_timeout(10_000)
        page.goto("about:blank")  # or the same file with another fragment would not be read again
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(**{**_MEDIA, **media})
        opened = Opened(page, file.stat().st_size)
        opened.listen(file.as_uri())
        known.append(opened)
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector("html[data-ready=true]")
        return opened

    yield start
    for opened in known:
        opened.forget()
    window.evaluate("() => { if (location.protocol === 'file:') localStorage.clear(); }")
    for context in contexts:
        context.close()
