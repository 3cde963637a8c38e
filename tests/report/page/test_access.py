"""The page for all eyes, ears, fingers and printers."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.report.page import pagedata
from tests.report.page.browser import Open

pytestmark = pytest.mark.full

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
    if (element.closest("script, noscript, .hidden, [hidden], :disabled, [aria-disabled=true]")) continue;
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


NAMELESS = re.compile(
    r"^\s*- (button|searchbox|textbox|radio|slider|link|dialog|region|group|toolbar|figure|img|table)( \[[^\]]*\])*:?$", re.MULTILINE
)


@pytest.mark.parametrize("kind", ["plan", "placement", "groups"])
def test_every_control_and_region_has_an_accessible_name(report: Open, kind: str) -> None:
    opened = report(pagedata.DOCUMENTS[kind](), "#node=worker-001")
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
    opened = report(pagedata.plan(Random(1), 20, 200, 3), width=390, height=844, touch=True)
    controls = "document.querySelectorAll('button:not(.link):not(.legend-button), .choice span, input[type=search]')"
    boxes = f"[...{controls}].map((each) => each.getBoundingClientRect())"
    assert opened.do(f"{boxes}.length") > 20
    small = opened.do(f"{boxes}.filter((each) => each.width && (each.width < 32 || each.height < 32)).length")
    assert small == 0
    opened.page.locator("#map .node").nth(3).tap()
    assert opened.do("document.getElementById('panel').getBoundingClientRect().width") == 390
    assert opened.do("document.documentElement.scrollWidth") == 390


STRUCTURE = """() => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  const named = (name) => [...document.querySelectorAll(`[${name}]`)].flatMap((each) => each.getAttribute(name).split(" "));
  return {
    levels: shown("h1, h2, h3, h4").map((each) => Number(each.tagName[1])),
    twice: ids.filter((id, i) => ids.indexOf(id) !== i),
    lost: ["aria-labelledby", "aria-describedby", "aria-controls", "for"].flatMap(named).filter((id) => !ids.includes(id)),
    live: [...document.querySelectorAll("[aria-live], output, [role=status], [role=alert]")]
      .filter((each) => each.ariaLive !== "off").map((each) => each.id),
    cells: shown("table").filter((each) => !each.querySelector("th[scope=col]") || !each.caption).length,
  };
}"""


@pytest.mark.parametrize("kind", ["snapshot", "plan", "placement", "groups"])
def test_headings_are_in_order_and_references_lead_somewhere(report: Open, kind: str) -> None:
    opened = report(pagedata.DOCUMENTS[kind](), "#node=worker-001")
    opened.do("document.querySelector('#panel summary').click()")
    opened.page.fill("#search", "worker")
    opened.page.wait_for_selector("#found section")
    found = opened.do(STRUCTURE)
    levels = found["levels"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    assert (found["twice"], found["lost"], found["cells"]) == ([], [], 0)
    assert found["live"] == ["violations", "live"]  # nothing is said twice


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_chosen_stands_out_where_the_system_has_its_own_colours(report: Open, theme: Any) -> None:
    opened = report(pagedata.plan(Random(1), 6, 60, 3), "#wave=2&colour=workload", forced_colors="active", color_scheme=theme)
    looks = (
        "[...document.querySelectorAll('#colour input')].map((each) => [each.checked, getComputedStyle(each.nextSibling).backgroundColor])"
    )
    chosen = {colour for checked, colour in opened.do(looks) if checked}
    assert len(chosen) == 1
    assert chosen.isdisjoint(colour for checked, colour in opened.do(looks) if not checked)
    opened.do("dispatchEvent(new Event('beforeprint'))")
    fills = opened.do("[...new Set([...document.querySelectorAll('#map .cell')].map((each) => getComputedStyle(each).fill))]")
    assert len(fills) > 3


def test_the_page_fits_at_twice_the_size(report: Open) -> None:
    opened = report(pagedata.plan(Random(1), 6, 60, 3), "#wave=2&node=worker-001", width=640, height=450, reduced_motion="reduce")
    assert opened.do("document.documentElement.scrollWidth") <= 640
    opened.press("Escape")
    opened.do("document.getElementById('map').scrollIntoView()")
    covered = opened.do("(() => { const box = document.getElementById('player').getBoundingClientRect(); return box.bottom; })()")
    assert covered < 450 / 2


def test_paper_says_which_state_the_map_is_of(report: Open) -> None:
    opened = report(pagedata.plan(Random(1), 6, 60, 3), "#wave=2")
    assert opened.page.is_hidden("#map-notes .paper")
    opened.page.emulate_media(media="print")
    assert opened.page.inner_text("#map-notes .paper") == "The map shows the state after wave 2"


@pytest.mark.parametrize("width", [390, 1280])
def test_buttons_are_not_broken_over_lines_by_long_names(report: Open, width: int) -> None:
    data = pagedata.cluster(Random(1), 4, 40)
    data["workloads"][0]["name"] = "Deployment " + "a-very-long-namespace-of-a-team/" + "and-a-name-that-goes-on-" * 4
    opened = report(data, "#colour=workload", width=width)
    opened.page.fill("#search", "goes-on")
    opened.page.wait_for_selector("#mark .link")
    assert opened.do("document.querySelector('#mark .link').getClientRects().length") == 1
    assert opened.do("document.querySelector('#mark .link').offsetHeight") < 30


def test_the_sign_of_a_pod_that_folds_is_beside_the_first_line_of_its_name(report: Open) -> None:
    data = pagedata.cluster(Random(1), 3, 30)
    data["pods"]["name"] = [f"{each}-{'x' * 70}" for each in data["pods"]["name"]]
    opened = report(data, "#node=worker-001")
    sign = "getComputedStyle(document.querySelector('#panel .pod summary'), '::before')"
    assert opened.do("document.querySelector('#panel .pod summary .who').offsetHeight") > 30
    assert float(opened.do(f"{sign}.height").removesuffix("px")) < 25
    assert opened.do(f"{sign}.alignSelf") == "start"
