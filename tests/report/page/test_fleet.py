"""The page of a batch by keyboard: sorting, filtering, opening a row, and no other actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kubestow.models.documents.batch import BatchSummary, Row
from kubestow.report.page.fleet.page import render
from tests.report.page.browser import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.full
NAMES = "[...document.querySelectorAll('#clusters tbody tr:not([hidden]) a')].map((each) => each.textContent)"
RING = """() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
}"""
Fleet = Callable[[], Opened]


def row(name: str, placed: int, pods: int, seconds: float | None = None) -> Row:
    return Row(
        name, [f"{name}.json"], "solve", [], exit=0, result=f"results/{name}.json", placed=placed, pods=pods, cluster=name, seconds=seconds
    )


@pytest.fixture
def fleet(window: Page, tmp_path: Path) -> Iterator[Fleet]:
    rows = [row("c2", 9, 10, 2.0), row("c10", 1000, 2000, 10.0), row("b<1", 3, 3), Row("x", ["x.json"], "solve", [], exit=1, reason="bad")]
    file = tmp_path / "index.html"
    known: list[Opened] = []

    def start() -> Opened:
        file.write_bytes(render(BatchSummary(rows, tasks=4, failed=1)))
        (tmp_path / "results").mkdir()
        for each in rows:
            (tmp_path / "results" / f"{each.id}.json").write_text("{}", encoding="utf-8")
        opened = Opened(window, file.stat().st_size)
        opened.listen(tmp_path.as_uri())
        known.append(opened)
        window.goto(file.as_uri())
        window.wait_for_selector("html[data-ready=true]")
        return opened

    yield start
    for opened in known:
        opened.quiet()
        opened.forget()
    window.goto("about:blank")


def sort(opened: Opened, title: str) -> None:
    opened.page.locator("#clusters thead button", has_text=title).focus()
    opened.press("Enter")


def test_columns_sort_by_keyboard_numbers_as_numbers_and_what_is_empty_last(fleet: Fleet) -> None:
    opened = fleet()
    sort(opened, "Placed")
    assert opened.do(NAMES) == ["c10", "c2", "b<1"]  # by the share
    sort(opened, "Seconds")
    assert opened.do(NAMES) == ["c2", "c10", "b<1"]
    assert opened.focused() == "Seconds"
    opened.press("Enter")
    assert opened.do(NAMES) == ["c10", "c2", "b<1"]
    assert opened.page.locator("th[aria-sort]").count() == 1
    assert opened.page.get_attribute("th[aria-sort]", "aria-sort") == "descending"
    assert opened.page.inner_text("#live") == "Sorted by Seconds, descending"
    sort(opened, "Cluster")
    assert opened.do(NAMES) == ["b<1", "c2", "c10"]


def test_words_filter_rows_of_all_tables_and_enter_opens_the_first(fleet: Fleet) -> None:
    opened = fleet()
    opened.press("/")
    assert opened.focused() == "filter"
    opened.page.keyboard.type("SOLVE c10")
    assert opened.do(NAMES) == ["c10"]
    assert opened.page.locator("#failed tbody tr:visible").count() == 0
    assert opened.page.inner_text("#live") == "1 of 4 rows"
    opened.press("Escape")
    assert len(opened.do(NAMES)) == 3
    opened.page.keyboard.type("c10")
    opened.press("Enter")
    assert opened.focused() == "c10"
    opened.press("Enter")
    opened.page.wait_for_url("**/results/c10.json")


def test_every_control_is_reached_with_the_tab_key_and_shows_it(fleet: Fleet) -> None:
    opened = fleet()
    controls = "[...document.querySelectorAll('a, button, input, summary, [tabindex=\"0\"]')]"
    seen = set()
    for _ in range(60):
        opened.press("Tab")
        at = opened.do(f"{controls}.indexOf(document.activeElement)")
        if at in seen or at < 0:
            break
        seen.add(at)
        assert opened.do(RING), f"no visible focus on {opened.focused()!r}"
    assert len(seen) == opened.do(f"{controls}.length")
