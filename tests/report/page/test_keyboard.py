"""Everything by keyboard: the map, the controls, the search, the panel."""

from __future__ import annotations

from random import Random

import pytest

from tests.report.page import pagedata
from tests.report.page.browser import Open

pytestmark = pytest.mark.full


def test_the_keyboard_walks_through_the_map(report: Open) -> None:
    opened = report(pagedata.cluster(Random(1), 24, 100))
    assert opened.page.locator("#map [tabindex='0']").count() == 1
    opened.page.locator("#map [tabindex='0']").focus()
    opened.press("ArrowRight")
    assert opened.focused() == "1"
    opened.press("End")
    assert opened.focused() == "23"
    opened.press("ArrowRight", "ArrowLeft")
    assert opened.focused() == "22"
    opened.press("Home", "ArrowDown")
    box = "(() => {{ const box = {}.getBoundingClientRect(); return [box.left, box.top]; }})()"
    below, first = (opened.do(box.format(where)) for where in ("document.activeElement", "document.querySelector('[data-n=\"0\"]')"))
    assert below[0] == first[0]
    assert below[1] > first[1]
    opened.press("ArrowUp")
    assert opened.focused() == "0"
    assert opened.page.locator("#map [tabindex='0']").count() == 1
    opened.press("Enter")
    assert opened.focused() == "panel-title"
    opened.press("Escape")
    assert opened.focused() == "0"
    assert opened.page.is_hidden("#panel")


def test_every_control_is_reached_with_the_tab_key(report: Open) -> None:
    data = pagedata.plan(Random(1), 5, 30, 3)
    data["unplaced"] = pagedata.placement(Random(1), 5, 30, 3)["unplaced"]
    opened = report(data, "#node=worker-001&wave=1&colour=workload")
    seen = set()
    controls = "[...document.querySelectorAll('a, button, input, summary, [tabindex]')]"
    opened.do("document.activeElement.blur()")
    for _ in range(250):
        opened.press("Tab")
        at = opened.do(f"{controls}.indexOf(document.activeElement)")
        if at in seen or at < 0:
            break
        ring = opened.do(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e.type === 'radio' ? e.nextSibling : e);"
            " return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1; })()"
        )
        assert ring, f"no visible focus on {opened.focused()!r}"
        seen.add(at)
    wanted = opened.do(
        f"{controls}.map((each, i) => [each, i]).filter(([each]) => each.checkVisibility() && !each.disabled && each.tabIndex >= 0"
        " && !(each.type === 'radio' && !each.checked && document.querySelector(`[name=${each.name}]:checked`)))"
        ".filter(([each]) => !(each.type === 'radio' && each.name === 'views' && each !== document.querySelector('[name=views]')))"
        ".map(([, i]) => i)"
    )
    assert set(wanted) <= seen, [opened.do(f"{controls}[{i}].outerHTML").splitlines()[0][:120] for i in set(wanted) - seen]


def test_search_marks_lists_and_opens(report: Open) -> None:
    data = pagedata.cluster(Random(1), 12, 80)
    target = data["pods"]["name"][17]
    opened = report(data)
    opened.press("/")
    assert opened.focused() == "search"
    opened.page.keyboard.type(target)
    opened.page.wait_for_selector("#live:text-is('0 nodes, 0 workloads, 1 pod found')")  # each key before it found more
    assert opened.page.locator("#map .node.hit").count() == 1
    opened.press("Enter")
    assert opened.page.inner_text("#panel-title") == data["nodes"]["name"][data["pods"]["place"][0][17]]
    assert opened.page.locator("#panel details[open]").count() == 1
    assert target in opened.page.inner_text("#panel details[open] summary")
    opened.press("Escape", "/")
    opened.page.keyboard.type("nothing like it")
    opened.page.wait_for_selector("#found .empty")
    opened.press("Escape")
    assert opened.page.input_value("#search") == ""
    assert opened.page.locator("#map.marking").count() == 0


def test_the_focus_stays_where_it_is_while_the_waves_go_on(report: Open) -> None:
    data = pagedata.plan(Random(1), 4, 60, 3)
    stays = next(p for p, n in enumerate(data["pods"]["place"][1]) if n == 1 and data["pods"]["state"][p] == 0)
    opened = report(data, "#node=worker-001&wave=1")
    row = f"#panel details[data-p='{stays}']"
    opened.page.locator(f"{row} > summary").focus()
    opened.press("Enter")
    opened.do("document.getElementById('panel').scrollTop = 9")
    opened.do("document.getElementById('next').click()")  # as the player does by itself
    assert opened.do("document.activeElement.closest('details').dataset.p") == str(stays)
    assert opened.page.locator(f"{row}[open]").count() == 1
    assert opened.do("document.getElementById('panel').scrollTop") == 9
    opened.page.locator("#panel header button").focus()
    opened.do("document.getElementById('previous').click()")
    assert opened.focused() == "panel-title"
    opened.page.locator("#previous").focus()
    opened.press("Enter")
    assert opened.focused() == "previous"


def test_the_search_opens_a_pod_that_a_crowded_panel_leaves_out_at_first(report: Open) -> None:
    data = pagedata.cluster(Random(1), 1, 1200, zones=0)
    least = min(range(1200), key=lambda p: (data["shapes"][data["pods"]["shape"][p]]["cpu"], -p))
    opened = report(data, "#node=worker-000")
    assert opened.page.locator(f"#panel [data-p='{least}']").count() == 0
    opened.page.fill("#search", data["pods"]["name"][least])
    opened.press("Enter")
    opened.page.wait_for_selector(f"#panel [data-p='{least}'][open]")
    assert opened.page.locator("#panel .pod").count() == 1200


def test_only_tables_that_scroll_are_stops_of_the_tab_key(report: Open) -> None:
    opened = report(pagedata.placement(Random(3), 9, 80, 5))
    stops = "document.querySelectorAll('.scroll[tabindex]').length"
    opened.page.wait_for_timeout(50)
    assert opened.do(stops) == 0
    opened.page.set_viewport_size({"width": 390, "height": 844})
    opened.page.wait_for_selector(".scroll[tabindex]")
    wide = "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth + 1).length"
    assert opened.do(stops) == opened.do(wide)
