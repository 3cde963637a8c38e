"""The report page in a real browser: what it shows, for whom, and that it harms nobody."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

import report.page as package
from tests.report.page import pagedata
from tests.report.page.browser import Open, Opened, browser, report

__all__ = ["browser", "report"]  # fixtures

Document = dict[str, Any]

EVIL = "<script>window.harm=1</script>"
HOSTILE = (
    EVIL,
    "<img src=x onerror=window.harm=1>",
    "</script><script>window.harm=1</script>",
    '"><svg onload=window.harm=1>&lt;b&gt;',
    "\u202eright\u2067to left\u0000\u2028{{7*7}}'\"`${window.harm=1}",
    "javascript:window.harm=1 " + "long" * 200,
)
KINDS = {
    "nothing": lambda: pagedata.blank(0),
    "empty nodes": lambda: pagedata.blank(3),
    "snapshot": lambda: pagedata.cluster(Random(1), 8, 60),
    "no zones": lambda: pagedata.cluster(Random(2), 14, 60, zones=0),
    "placement": lambda: pagedata.placement(Random(3), 9, 80, 5),
    "plan": lambda: pagedata.plan(Random(4), 6, 60, 4),
    "tiles": lambda: pagedata.cluster(Random(5), 320, 900),
    "groups": lambda: pagedata.aggregated(Random(6), 400, 4000, 80),
    "hostile": lambda: pagedata.hostile(EVIL),
}


def tour(opened: Opened) -> None:
    """Everything once: colourings, measures, all positions, all panels that there are up to three, search, all that is folded."""
    opened.do("document.querySelectorAll('input[name=colour], input[name=measure], input[name=views]').forEach((each) => each.click())")
    if opened.page.locator("#slider").count():
        for _ in range(6):
            opened.do("document.getElementById('previous').click()")
        for _ in range(6):
            opened.do("document.getElementById('next').click()")
    for n in range(min(3, opened.page.locator("#map [data-n]").count())):
        opened.do(f"document.querySelector('#map [data-n=\"{n}\"]').click()")
        opened.do("document.querySelectorAll('summary').forEach((each) => each.click())")
        opened.page.wait_for_timeout(5)
    for query in ("shop", "worker", "no such thing"):
        opened.page.fill("#search", query)
        opened.press("ArrowDown", "Escape")
    opened.do("dispatchEvent(new Event('beforeprint'))")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_document_is_shown_without_an_error(report: Open, kind: str) -> None:
    opened = report(KINDS[kind]())
    tour(opened)
    assert opened.do("document.documentElement.dataset.ready") == "true"
    text = opened.page.inner_text("body")
    assert [word for word in ("undefined", "NaN", "[object") if word in text] == []
    for width, height in ((1280, 900), (1000, 700), (390, 844)):
        opened.page.set_viewport_size({"width": width, "height": height})
        assert opened.do("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    opened.quiet()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_outside_is_text(report: Open, text: str) -> None:
    opened = report(pagedata.hostile(text), width=390)
    tour(opened)
    assert opened.do("window.harm") is None
    assert opened.do("document.scripts.length") == 2
    assert opened.page.locator("img, iframe, object, embed, link, a[href^='javascript']").count() == 0
    assert opened.do("document.querySelector('#panel-title').textContent") == f"2{text}"
    shown = opened.do("[...document.querySelectorAll('#panel .pod .name')].map((each) => each.textContent)")
    assert any(each.endswith(f"/{text}") for each in shown)
    assert opened.do("document.documentElement.scrollWidth") <= 390
    opened.quiet()


def test_the_policy_keeps_out_what_would_be_written_into_the_page(report: Open) -> None:
    opened = report(pagedata.blank(1))
    opened.do("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.harm = 1'}))")
    opened.do("document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/x.png'}))")
    opened.page.wait_for_timeout(100)
    assert opened.do("window.harm") is None
    assert len([error for error in opened.errors if "Content Security Policy" in error]) >= 2, opened.errors


def cells(opened: Opened) -> list[list[int]]:
    """The pods that are drawn in each node."""
    opened.do("dispatchEvent(new Event('beforeprint'))")
    found = opened.do(
        "[...document.querySelectorAll('#map [data-n]')].map((each) => "
        "[Number(each.dataset.n), [...each.querySelectorAll('[data-p]')].map((cell) => Number(cell.dataset.p))])"
    )
    return [sorted(pods) for _, pods in sorted(found)]


def by_node(data: Document, place: list[int]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in data["nodes"]["name"]]
    for p, n in enumerate(place):
        if n >= 0:
            found[n].append(p)
    return found


def labels(opened: Opened) -> list[str]:
    found = opened.do(
        "[...document.querySelectorAll('#map [data-n]')].map((each) => [Number(each.dataset.n), each.getAttribute('aria-label')])"
    )
    return [label for _, label in sorted(found)]


def share(part: int, whole: int) -> int:
    rounded = (200 * part + whole) // (2 * whole)
    return min(99, rounded) if part < whole else max(101, rounded) if part > whole else 100


@pytest.mark.parametrize("seed", range(2))
def test_the_player_shows_what_replaying_the_waves_gives(report: Open, seed: int) -> None:
    data = pagedata.plan(Random(seed), 7, 50, 5, 6)
    opened = report(data)
    place = list(data["pods"]["place"][0])
    opened.page.click("#first")
    assert cells(opened) == by_node(data, place)
    for wave in data["waves"]:
        for step in wave["steps"]:
            place[step["pod"]] = step["to"]
        opened.page.click("#next")
        assert cells(opened) == by_node(data, place)
        used = pagedata.usage(data, place)
        for n, label in enumerate(labels(opened)):
            assert f"CPU {share(used['cpu'][n], data['nodes']['cpu'][n])}%" in label
            assert f"memory {share(used['memory'][n], data['nodes']['memory'][n])}%" in label
            assert re.search(rf", {used['pods'][n]} pods?\b", label)
        assert opened.page.inner_text("#wave").startswith(f"Wave {wave['wave']} of 5")
        assert opened.page.inner_text("#live") == opened.page.inner_text("#wave")
        assert opened.page.locator("#steps tbody tr").count() == len(wave["steps"])
    assert place == data["pods"]["place"][1]
    opened.page.click("#views label:has-text('Before')")
    assert cells(opened) == by_node(data, data["pods"]["place"][0])
    opened.go("wave=2")
    assert opened.page.input_value("#slider") == "2"
    opened.quiet()


def test_the_player_plays_to_the_end_and_can_be_paused(report: Open) -> None:
    opened = report(pagedata.plan(Random(1), 5, 30, 3))
    opened.page.clock.install()
    opened.page.click("#play")
    assert opened.page.inner_text("#wave").startswith("Before")
    assert opened.page.get_attribute("#play", "aria-label") == "Pause"
    opened.page.clock.run_for(1700)
    assert opened.page.inner_text("#wave").startswith("Wave 1")
    opened.page.click("#play")
    opened.page.clock.run_for(5000)
    assert opened.page.inner_text("#wave").startswith("Wave 1")
    opened.page.click("#play")
    opened.page.clock.run_for(9000)
    assert opened.page.inner_text("#wave").startswith("Wave 3")
    assert opened.page.get_attribute("#play", "aria-label") == "Play the waves"
    assert opened.page.is_disabled("#next")


def test_groups_follow_the_waves_by_the_pods_that_have_names(report: Open) -> None:
    data = pagedata.aggregated(Random(3), 350, 3000, 40)
    opened = report(data, "#view=before")
    before = labels(opened)
    opened.page.click("#last")
    after = labels(opened)
    for view, found in ((0, before), (1, after)):
        for n, label in enumerate(found):
            assert re.search(rf", {data['usage'][view]['pods'][n]:,} pods?\b", label)
    assert before != after
    step = data["waves"][0]["steps"][0]
    opened.go(f"node={data['nodes']['name'][step['to']]}&wave=1")
    assert data["named"]["name"][step["pod"]] in opened.page.inner_text("#panel")


def test_links_into_the_page_open_what_they_name_and_follow_what_is_shown(report: Open) -> None:
    data = pagedata.plan(Random(2), 6, 40, 4)
    opened = report(data, "#node=worker-003&wave=2&colour=workload&size=memory")
    assert opened.page.inner_text("#panel-title") == "worker-003"
    assert opened.page.inner_text("#wave").startswith("Wave 2")
    assert opened.page.is_checked("input[value=workload]")
    assert opened.page.is_checked("input[value=memory]")
    opened.page.click("#next")
    opened.page.click("[aria-label='Close the panel']")
    assert opened.do("location.hash") == "#wave=3&colour=workload&size=memory"
    opened.go("node=no-such-node&wave=99")
    assert opened.page.is_hidden("#panel")
    opened.quiet()


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
    opened.page.wait_for_selector("#found button")
    assert opened.page.locator("#map .node.hit").count() == 1
    assert opened.page.inner_text("#live") == "0 nodes, 0 workloads, 1 pod found"
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


def test_a_pod_shows_its_containers_and_rules_and_marks_the_pods_they_tie(report: Open) -> None:
    data = pagedata.cluster(Random(4), 8, 60)
    p = next(p for p, s in enumerate(data["pods"]["shape"]) if data["shapes"][s]["rules"])
    rule = data["shapes"][data["pods"]["shape"][p]]["rules"][0]
    tied = {data["pods"]["workload"][p], *(w for each in data["shapes"][data["pods"]["shape"][p]]["rules"] for w in each["workloads"])}
    opened = report(data)
    opened.do("dispatchEvent(new Event('beforeprint'))")
    opened.page.locator(f"#map [data-p='{p}']").dispatch_event("click")
    body = opened.page.inner_text("#panel details[open]")
    assert rule["rule"] in body
    assert rule["text"] in body
    assert "app" in body
    assert set(opened.do("[...document.querySelectorAll('#map .cell.hit')].map((each) => Number(each.dataset.p))")) == {
        q for q, w in enumerate(data["pods"]["workload"]) if w in tied
    }


def test_causes_ways_out_preferences_and_bounds_are_told(report: Open) -> None:
    opened = report(pagedata.placement(Random(3), 9, 80, 5))
    text = opened.page.inner_text("main")
    for expected in (
        "has 500m of 8 CPU left",
        "add one node like worker-001",
        "--add-nodes 1:worker-001",
        "Gang shop/training",
        "4,800",
        "1.9%",
        "disk=ssd",
        "spec.overhead",
        "while the other pods are where they were placed",
    ):
        assert expected in text
    assert opened.page.locator("figure svg[role=img]").count() == 2
    assert opened.page.get_attribute("figure:nth-of-type(2) svg", "aria-label") == "preferences: 4,711 after 2.6 s, bound 4,800"
    opened.page.click("figure:nth-of-type(2) summary")
    assert opened.page.locator("figure:nth-of-type(2) tbody tr").count() == 14


def test_preferences_of_a_plan_are_told_before_and_after(report: Open) -> None:
    data = pagedata.plan(Random(3), 9, 80, 2)
    data["preferences"] = {"families": [{"family": "taints", "before": -3, "value": 1200, "multiplier": 2}], "workloads": [], "unmet": []}
    row = report(data).page.locator("#preferences-body tbody tr")
    assert row.inner_text().split("\t") == ["taints", "-3", "1,200", "+1,203", "× 2"]


def test_violations_are_an_alert(report: Open) -> None:
    data = pagedata.placement(Random(3), 9, 80, 0)
    data["summary"]["violations"] = [{"pod": "shop/a", "node": "worker-001", "rule": "NodePorts", "why": "port 80 is taken"}]
    opened = report(data)
    assert "port 80 is taken" in opened.page.get_by_role("alert").inner_text()
    assert opened.page.inner_text("#status").split("\n") == ["claims to be optimal", "✕ 1 violation"]


def test_empty_parts_say_so(report: Open) -> None:
    text = report(pagedata.blank(0)).page.inner_text("main")
    for words in (
        "The snapshot has no nodes.",
        "Nothing was to be placed.",
        "No preferences were weighed.",
        "Nothing was searched.",
        "No notes.",
    ):
        assert words in text


def test_what_is_over_its_capacity_is_told_by_word_class_and_number(report: Open) -> None:
    data = pagedata.cluster(Random(1), 6, 30)
    data["nodes"]["cpu"][2] = data["usage"][0]["cpu"][2] - 1
    data["nodes"]["cpu"][3] = data["usage"][0]["cpu"][3]
    opened = report(data)
    opened.do("dispatchEvent(new Event('beforeprint'))")
    assert "CPU 101%" in labels(opened)[2]
    assert "CPU 100%" in labels(opened)[3]
    tones = [
        opened.do(f"[...new Set([...document.querySelectorAll('[data-n=\"{n}\"] .cell')].map((each) => each.classList[1]))]")
        for n in (2, 3)
    ]
    assert tones == [["u6"], ["u5"]]
    assert "url(" in opened.do("getComputedStyle(document.querySelector('[data-n=\"2\"] .cell')).fill")


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => 0.2126 * linear(c[0] / 255) + 0.7152 * linear(c[1] / 255) + 0.0722 * linear(c[2] / 255);
  const behind = (element) => {
    const chain = []; for (let e = element; e; e = e.parentElement) chain.push(getComputedStyle(e).backgroundColor);
    return chain.reverse().reduce((under, colour) => over(rgba(colour), under), [255, 255, 255, 1]);
  };
  const bad = []; let count = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, noscript, .hidden, [hidden], :disabled")) continue;
    const style = getComputedStyle(element);
    const inSvg = element instanceof SVGElement;
    const colour = rgba(inSvg ? style.fill : style.color);
    const ground = inSvg && element.matches(".letter") ? rgba(getComputedStyle(element.previousElementSibling).fill) : behind(element);
    const [a, b] = [light(over(colour, ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    count += 1;
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${element.tagName}.${element.getAttribute("class")} ${node.textContent.slice(0, 40)}`);
  }
  return [count, [...new Set(bad)]];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_enough_contrast(report: Open, theme: Any) -> None:
    data = pagedata.plan(Random(1), 6, 60, 3)
    data["unplaced"] = pagedata.placement(Random(1), 5, 30, 3)["unplaced"]
    data["summary"]["violations"] = [{"pod": "shop/a", "node": "worker-001", "rule": "NodePorts", "why": "port 80 is taken"}]
    opened = report(data, "#node=worker-001&wave=2&colour=workload", color_scheme=theme, reduced_motion="reduce")
    opened.do("dispatchEvent(new Event('beforeprint'))")
    count, bad = opened.do(CONTRAST)
    assert count > 300
    assert bad == []
    opened.page.fill("#search", "shop")
    opened.page.wait_for_selector("#found button")
    assert opened.do(CONTRAST)[1] == []


def test_the_theme_follows_the_system_until_one_is_chosen(report: Open) -> None:
    opened = report(pagedata.blank(2), color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened.do(ground)
    opened.page.emulate_media(color_scheme="light")
    light = opened.do(ground)
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    opened.page.click("#theme label:has-text('Dark')")
    assert opened.do(ground) == dark
    opened.page.reload()
    assert opened.do(ground) == dark
    assert opened.page.is_checked("#theme input[value=dark]")
    opened.page.locator("#theme input[value=dark]").focus()
    opened.press("ArrowLeft")
    assert opened.do(ground) == light
    opened.press("ArrowLeft")
    assert opened.do("document.documentElement.dataset.theme") == "auto"


def test_the_page_works_where_the_browser_keeps_nothing(report: Open) -> None:
    opened = report(pagedata.blank(2))
    opened.page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})")
    opened.page.reload()
    opened.page.wait_for_selector("html[data-ready=true]")
    opened.page.click("#theme label:has-text('Dark')")
    assert opened.do("document.documentElement.dataset.theme") == "dark"
    opened.quiet()


NAMELESS = re.compile(
    r"^\s*- (button|searchbox|textbox|radio|slider|link|dialog|region|group|toolbar|figure|img|table)( \[[^\]]*\])*:?$", re.MULTILINE
)


@pytest.mark.parametrize("kind", ["plan", "placement", "groups"])
def test_every_control_and_region_has_an_accessible_name(report: Open, kind: str) -> None:
    opened = report(KINDS[kind](), "#node=worker-001")
    tree = opened.page.locator("body").aria_snapshot()
    for role in ("banner", "main", "searchbox", "toolbar", "dialog", "radio", "table"):
        assert f"- {role}" in tree
    assert [match.group() for match in NAMELESS.finditer(tree) if "figure" not in match.group() and "group" not in match.group()] == []
    assert '- radio "Workload"' in tree
    assert re.search(r'button "worker-000, zone-a: CPU \d+%, memory \d+%, [\d,]+ pods?', tree)


def test_nothing_moves_for_those_who_asked_for_calm(report: Open) -> None:
    moving = "[...document.querySelectorAll('*')].filter((each) => parseFloat(getComputedStyle(each).transitionDuration) > 0).length"
    scrolls = "getComputedStyle(document.documentElement).scrollBehavior"
    data = pagedata.plan(Random(1), 6, 60, 3)
    opened = report(data, reduced_motion="reduce")
    assert opened.do(moving) == 0
    assert opened.do(scrolls) == "auto"
    opened.page.emulate_media(reduced_motion="no-preference")
    assert opened.do(moving) > 0


def test_print_shows_everything_in_light_and_cuts_nothing(report: Open) -> None:
    data = pagedata.plan(Random(1), 30, 300, 4, 60)
    opened = report(data, "#node=worker-001", width=720, color_scheme="dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    opened.page.wait_for_selector("main details:not([open])", state="detached")
    assert opened.do("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.do("[...document.querySelectorAll('.node svg')].filter((each) => !each.children.length).length") == 0
    assert opened.do("[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth + 1).length") == 0
    buttons = "[...document.querySelectorAll('button:not([data-n])')].filter((each) => !each.matches('td *, li *, p *'))"
    assert opened.do(f"{buttons}.filter((each) => each.checkVisibility()).map((each) => each.textContent)") == []
    assert opened.page.locator("#waves tbody tr").count() == sum(len(wave["steps"]) for wave in data["waves"])
    assert opened.page.is_hidden("#search")
    assert opened.page.pdf().startswith(b"%PDF")
    opened.page.emulate_media(media="screen")
    opened.page.wait_for_selector("main details[open]", state="detached")
    opened.quiet()


def test_fingers_find_the_controls_of_a_phone(report: Open) -> None:
    opened = report(pagedata.plan(Random(1), 20, 200, 3), width=390, height=844, has_touch=True)
    controls = "document.querySelectorAll('button:not(.link):not(.legend-button), .choice span, input[type=search]')"
    boxes = f"[...{controls}].map((each) => each.getBoundingClientRect())"
    assert opened.do(f"{boxes}.length") > 20
    small = opened.do(f"{boxes}.filter((each) => each.width && (each.width < 32 || each.height < 32)).length")
    assert small == 0
    opened.page.locator("#map .node").nth(3).tap()
    assert opened.do("document.getElementById('panel').getBoundingClientRect().width") == 390
    assert opened.do("document.documentElement.scrollWidth") == 390


def test_two_hundred_nodes_are_ready_at_once(report: Open) -> None:
    data = pagedata.plan(Random(1), 200, 4000, 10, 30)
    times = []
    for _ in range(3):
        opened = report(copy.deepcopy(data))
        opened.page.locator("#map [data-n='5']").click()
        opened.page.wait_for_selector("#panel details")
        times.append(opened.do("performance.getEntriesByName('kubestow-ready')[0].startTime"))
    assert opened.size <= 2_000_000
    print(f"200 nodes, 4,000 pods: ready after {min(times):.0f} ms, {opened.size:,} bytes")
    assert min(times) <= 2000, times


def test_five_thousand_nodes_open_and_stay_usable(report: Open) -> None:
    opened = report(pagedata.aggregated(Random(1), 5000, 150_000))
    ready = opened.do("performance.getEntriesByName('kubestow-ready')[0].startTime")
    assert opened.page.locator("#map .tile").count() == 5000
    spent = opened.do("""() => {
      const from = performance.now();
      for (const id of ["first", "next", "last"]) document.getElementById(id).click();
      for (const name of ["workload", "priority", "change"]) document.querySelector(`input[value=${name}]`).click();
      document.body.getBoundingClientRect();
      return performance.now() - from;
    }""")
    print(f"5,000 nodes, 150,000 pods: ready after {ready:.0f} ms, six redraws in {spent:.0f} ms, {opened.size:,} bytes")
    assert spent < 6000
    opened.page.locator("#map [data-n='40']").click()
    opened.page.wait_for_selector("#panel details")
    assert "worker-040" in opened.page.inner_text("#panel-title")
    opened.quiet()


def test_script_and_style_stay_small() -> None:
    folder = Path(package.__path__[0])
    assert sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".js", ".css")) <= 120_000
