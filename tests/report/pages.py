"""Report pages as a user has them: written by the command, opened from the disk in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.report.page.browser import Opened, executable

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Request

#: Does something with a browser, and has what that returns.
Chromium = Callable[[Callable[["Browser"], Any]], Any]

#: Runs before the page's own script: what the content security policy refuses, and when the first picture is drawn, are kept where the
#: test can read them. The page's script is the last thing in the file, so that the document is complete when it has run.
_WATCH = """
window.refused = [];
addEventListener("securitypolicyviolation", (event) => window.refused.push(event.violatedDirective));
window.drawn = new Promise((done) => addEventListener("DOMContentLoaded",
  () => requestAnimationFrame(() => setTimeout(() => done(performance.now())))));
"""


def command(*words: str | Path) -> Result:
    """Run kubestow in this process."""
    return CliRunner().invoke(cli.main, [str(word) for word in words])


def embedded(page: bytes) -> dict[str, Any]:
    """The data that a page carries."""
    _, _, rest = page.decode("utf-8").partition('id="data">')
    found: dict[str, Any] = json.loads(rest.partition("</script>")[0])
    return found


@contextlib.contextmanager
def browsing(path: str) -> Iterator[Chromium]:
    """The browser at ``path``, in a thread of its own: a thread has at most one driver of Playwright, and other tests keep theirs."""
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with ThreadPoolExecutor(1) as thread:
        driver = thread.submit(sync_playwright().start).result()
        started = thread.submit(driver.chromium.launch, executable_path=path, args=["--no-sandbox"] if root else []).result()
        yield lambda work: thread.submit(work, started).result()
        thread.submit(started.close).result()
        thread.submit(driver.stop).result()


@contextlib.contextmanager
def found_browser() -> Iterator[Chromium]:
    """The browser that is installed; without one the test is skipped, and says so."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pages are not opened in a browser")
    path = executable()
    if path is None:
        pytest.skip("no Chromium on PATH nor in KUBESTOW_CHROMIUM: pages are not opened in a browser")
    with browsing(path) as run:
        yield run


@contextlib.contextmanager
def visit(browser: Browser, file: Path, fragment: str = "", *, width: int = 1280, height: int = 800, **options: Any) -> Iterator[Opened]:
    """A report file in a window of its own, ready for use. At the end nothing may have been complained of in the console, asked for from
    anywhere, or refused by the page's policy. ``options``: of Playwright's browser context."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    try:
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.add_init_script(_WATCH)
        opened = Opened(page, file.stat().st_size)

        def heard(message: ConsoleMessage) -> None:
            opened.errors.append(f"{message.type}: {message.text}")

        def asked(request: Request) -> None:
            if request.url.partition("#")[0] != file.as_uri():
                opened.requests.append(request.url)

        page.on("console", heard)
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("dialog", opened.alarm)
        page.on("request", asked)
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector("html[data-ready=true]")
        yield opened
        opened.quiet()
        assert opened.do("window.refused") == []
    finally:
        context.close()


def interactive(opened: Opened) -> float:
    """Milliseconds from the start of the navigation until all controls work and the first picture is drawn."""
    ready, drawn = opened.do("window.drawn.then((at) => [performance.getEntriesByName('kubestow-ready')[0].startTime, at])")
    assert ready <= drawn
    return float(drawn)
