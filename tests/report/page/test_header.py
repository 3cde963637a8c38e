"""The header of the page, the buttons of the player, and the audit of a snapshot without a result."""

from __future__ import annotations

from random import Random

import pytest

from tests.report.page import pagedata
from tests.report.page.browser import Open

pytestmark = pytest.mark.full


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_the_hint_in_the_search_is_not_clipped(report: Open, width: int) -> None:
    opened = report(pagedata.plan(Random(1), 5, 30, 3), width=width)
    room = opened.do("""() => {
        const field = document.querySelector('#search'), style = getComputedStyle(field);
        const context = document.createElement('canvas').getContext('2d');
        context.font = style.font;
        const inside = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        return inside - context.measureText(field.placeholder).width;
    }""")
    assert room >= 20  # other fonts are wider


def test_the_buttons_of_the_player_are_drawn(report: Open) -> None:
    """As shapes: many fonts have no such characters, and show nothing or a box."""
    opened = report(pagedata.plan(Random(1), 5, 30, 3))
    assert opened.page.locator("#player button").count() == 5
    for name in ("first", "previous", "play", "next", "last"):
        assert opened.page.inner_text(f"#{name}") == ""
        box = opened.do(f"document.querySelector('#{name} path').getBoundingClientRect().toJSON()")
        assert box["width"] > 4
        assert box["height"] > 8
    before = opened.do("document.querySelector('#play path').getAttribute('d')")
    opened.page.click("#play")
    assert opened.do("document.querySelector('#play path').getAttribute('d')") != before
    opened.page.click("#play")
    assert opened.do("document.querySelector('#play path').getAttribute('d')") == before


def test_the_cluster_and_the_time_stand_below_the_title(report: Open) -> None:
    data = pagedata.blank(2)
    assert report(data).page.is_hidden("#origin")
    data["snapshot"]["origin"] = "cluster prod-eu, captured 2026-11-20 10:05 UTC"
    assert report(data).page.inner_text("header #origin") == "cluster prod-eu, captured 2026-11-20 10:05 UTC"


def test_the_audit_of_a_snapshot(report: Open) -> None:
    data = pagedata.blank(2)
    assert report(data).page.is_hidden("#audit")
    found = {"severity": "error", "code": "KS101", "object": "Pod default/<b>p", "message": "is wrong", "fix": "mend it"}
    data["audit"] = {"findings": [found, {**found, "severity": "info"}], "more": 1200, "notChecked": ["whether it rains"]}
    opened = report(data)
    assert opened.page.inner_text("#audit-title") == "Audit 1,202"
    cells = opened.page.locator("#audit tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["✕ error", "KS101", "Pod default/<b>p", "is wrong", "mend it"]
    assert "1,200 more are left out" in opened.page.inner_text("#audit")
    data["audit"] = {"findings": [], "more": 0, "notChecked": []}
    assert "No findings." in report(data).page.inner_text("#audit")
