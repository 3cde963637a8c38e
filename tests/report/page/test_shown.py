"""The parts of every kind of document that the page shows."""

from __future__ import annotations

from random import Random

import pytest

from tests.report.page import pagedata
from tests.report.page.browser import Open
from tests.report.page.reading import labels, tour

pytestmark = pytest.mark.full


@pytest.mark.parametrize("kind", pagedata.DOCUMENTS)
def test_every_kind_of_document_is_shown_without_an_error(report: Open, kind: str) -> None:
    opened = report(pagedata.DOCUMENTS[kind]())
    tour(opened)
    assert opened.do("document.documentElement.dataset.ready") == "true"
    text = opened.page.inner_text("body")
    assert [word for word in ("undefined", "NaN", "[object") if word in text] == []
    for width, height in ((1280, 900), (1000, 700), (390, 844)):
        opened.page.set_viewport_size({"width": width, "height": height})
        assert opened.do("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    opened.quiet()


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
        "given the places of the other pods",
    ):
        assert expected in text
    assert opened.page.locator("figure svg[role=img]").count() == 2
    assert opened.page.get_attribute("figure:nth-of-type(2) svg", "aria-label") == "preferences: 4,711 after 2.6 s, bound ≤ 4,800"
    opened.page.click("figure:nth-of-type(2) summary")
    opened.page.wait_for_selector("figure:nth-of-type(2) tbody tr")
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


def test_tiers_that_the_status_leaves_out_have_a_badge_of_their_own(report: Open) -> None:
    data = pagedata.placement(Random(3), 9, 80, 0)
    data["summary"]["statusWords"] = ["placed and preferences: optimal", "evenness of the nodes: gap 66.6 %"]
    badges = report(data).page.inner_text("#status").split("\n")
    assert badges[:2] == ["✓ placed and preferences: optimal", "! evenness of the nodes: gap 66.6 %"]


def test_empty_parts_say_so(report: Open) -> None:
    text = report(pagedata.blank(0)).page.inner_text("main")
    for words in (
        "The snapshot has no nodes.",
        "There were no pods to place.",
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


@pytest.mark.parametrize("fragment", ["", "#view=before", "#wave=2"])
def test_the_map_is_as_wide_as_the_page_whatever_the_list_of_steps_says(report: Open, fragment: str) -> None:
    data = pagedata.plan(Random(1), 6, 40, 3)
    data["waves"][1]["steps"] = []
    opened = report(data, fragment)
    assert opened.do("document.getElementById('map').offsetWidth / document.getElementById('main').clientWidth") > 0.9


@pytest.mark.parametrize("share", [0.5, 0.85, 0.97, 1])
def test_a_node_with_zones_looks_as_full_as_it_is_where_no_pod_is_tied(report: Open, share: float) -> None:
    data = pagedata.cluster(Random(1), 3, 40)
    used = data["usage"][0]["cpu"][0]
    data["pods"]["zones"] = {}
    data["nodes"]["cpu"][0] = round(used / share)
    opened = report(data)
    opened.do("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator("[data-n='0'] .numa").count() == 1
    top = opened.do("Math.min(...[...document.querySelectorAll('[data-n=\"0\"] .cell')].map((each) => Number(each.getAttribute('y'))))")
    assert top == pytest.approx(64 * (1 - share), abs=0.2)


@pytest.mark.parametrize("nodes", [6, 40, 100])
def test_every_cell_that_holds_a_letter_has_one(report: Open, nodes: int) -> None:
    opened = report(pagedata.cluster(Random(2), nodes, nodes * 12), "#colour=workload")
    opened.do("dispatchEvent(new Event('beforeprint'))")
    bare = opened.do("""() => {
      const letter = document.querySelector("#map .letter");
      const size = parseFloat(getComputedStyle(letter).fontSize);
      const wide = (cell) => ["width", "height"].every((side) => Number(cell.getAttribute(side)) > size + 0.01);
      const cells = [...document.querySelectorAll("#map .cell:not(.w8)")].filter(wide);
      return [cells.length, cells.filter((cell) => !(cell.nextSibling && cell.nextSibling.matches(".letter"))).length];
    }""")
    assert bare[0] > nodes
    assert bare[1] == 0


def test_tiles_take_the_priority_that_asks_for_most(report: Open) -> None:
    data = pagedata.aggregated(Random(3), 350, 3000, 40)
    opened = report(data, "#colour=priority")
    sums: dict[tuple[int, int], int] = {}
    groups = data["groups"]
    for n, priority, shape, count in zip(groups["node"], groups["priority"], groups["shape"], groups["count"][1], strict=True):
        sums[n, priority] = sums.get((n, priority), 0) + data["shapes"][shape]["cpu"] * count
    tones = opened.do(
        "[...document.querySelectorAll('#map .tile:not(.none)')].map((each) =>"
        " [Number(each.dataset.n), each.className.match(/ (u\\d)/)[1]])"
    )
    names = ["u0", "u2", "u3", "u5"]
    for n, tone in tones:
        here = {priority: asks for (at, priority), asks in sums.items() if at == n}
        assert here[names.index(tone)] == max(here.values())
    assert len({tone for _, tone in tones}) > 1


def test_pods_of_a_snapshot_are_pending_not_unplaced(report: Open) -> None:
    data = pagedata.placement(Random(3), 9, 80, 5)
    assert report(data).page.inner_text("#status").split("\n")[-1] == "! 5 not placed"
    data |= {"kind": "Snapshot", "title": "Snapshot"}
    opened = report(data)
    assert opened.page.inner_text("#status").split("\n")[-1] == "! 5 pending"
    assert opened.page.inner_text("#unplaced-title") == "Pending 5"


def test_obstacles_are_told_at_the_top_and_belong_to_plans(report: Open) -> None:
    data = pagedata.plan(Random(1), 6, 40, 3)
    data["nodes"]["flags"] = [4, 16, 32, 0, 0, 0]
    opened = report(data)
    assert "! 1 obstacle" in opened.page.inner_text("#status").split("\n")
    assert [words in opened.page.inner_text("#map-notes") for words in ("freed by", "to drain, not emptied", "free before")] == [True] * 3
    assert "to drain, not emptied" in labels(opened)[1]
    data["obstacles"] = []
    assert "All goals were reached" in report(data).page.inner_text("#obstacles")
    assert report(pagedata.cluster(Random(1), 4, 20)).page.is_hidden("#obstacles")


def test_a_rollout_that_halts_gives_no_proof_without_facts(report: Open) -> None:
    data = pagedata.placement(Random(3), 9, 80, 1)
    data["unplaced"][0]["cause"]["facts"] = []
    text = report(data).page.inner_text("#unplaced")
    assert "rules it out" not in text
    assert "add one node like worker-001" in text


def test_what_is_almost_full_does_not_read_like_full(report: Open) -> None:
    data = pagedata.cluster(Random(1), 3, 10)
    data["usage"][0]["cpu"][1], data["nodes"]["cpu"][1] = 16_990, 17_000
    data["usage"][0]["memory"][1], data["nodes"]["memory"][1] = (17 << 30) - (9 << 20), 17 << 30
    panel = report(data, "#node=worker-001").page.inner_text("#panel .levels")
    assert "99% 16990m of 17000m" in panel
    assert "99% 17,399 MiB of 17,408 MiB" in panel


def test_the_list_of_pods_says_what_its_columns_are(report: Open) -> None:
    for data in (pagedata.cluster(Random(1), 3, 30), pagedata.aggregated(Random(3), 350, 3000, 40)):
        opened = report(data, "#node=worker-001")
        head, cells = (
            opened.do(
                f"[...document.querySelector('#panel {part}').querySelectorAll('.num')]"
                ".map((each) => [each.textContent, each.getBoundingClientRect().right])"
            )
            for part in (".pod-head", ".pod summary")
        )
        assert [text for text, _ in head] == ["CPU", "Memory"]
        assert [right for _, right in head] == [right for _, right in cells]


def test_labels_of_a_chart_stand_beside_its_lines(report: Open) -> None:
    data = pagedata.placement(Random(3), 9, 80, 5)
    data["search"] += [
        {"label": "late", "points": [[9.5, 100_000, None], [9.8, 100_400, 100_600], [10, 100_500, 100_500]]},
        {"label": "near", "points": [[0.1, -52_000, -51_999], [8, -51_001, -51_000], [10, -51_001, -51_000]]},
        {"label": "flat", "points": [[0.1, 3, None], [8, 3, 3]]},
        {"label": "moves", "fewer": True, "points": [[0.1, 400, 200], [10, 312, 228]]},
    ]
    opened = report(data)
    overlaps = opened.do("""() => {
      const found = [];
      for (const drawing of document.querySelectorAll("figure svg")) {
        const texts = [...drawing.querySelectorAll("text")].map((each) => [each.textContent, each.getBBox()]);
        const lines = [...drawing.querySelectorAll("path, circle")].map((each) => ["line", each.getBBox()]);
        const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y + 3 < b.y + b.height - 3 && b.y + 3 < a.y + a.height - 3;
        texts.forEach(([text, box], i) => [...texts.slice(i + 1), ...lines].forEach(([other, its]) => {
          if (meet(box, its)) found.push([text, other]);
        }));
        const wide = drawing.viewBox.baseVal.width;
        texts.forEach(([text, box]) => (box.x < 0 || box.x + box.width > wide) && found.push([text, "edge"]));
      }
      return found;
    }""")
    assert overlaps == []
    assert opened.do("document.querySelectorAll('figure svg').length") == 6
    first = opened.do("[...document.querySelectorAll('figure svg')[1].querySelectorAll('text')].map((each) => each.textContent)")
    points = data["search"][1]["points"]
    assert first[:4] == [f"{points[0][1]:,}", f"≤ {points[2][2]:,}", "4,711", "≤ 4,800"]
    costs = opened.do("[...document.querySelectorAll('figure svg')[5].querySelectorAll('text')].map((each) => each.textContent)")
    assert costs[:4] == ["400", "≥ 200", "312", "≥ 228"]
    assert opened.do("document.querySelectorAll('figure svg')[5].getAttribute('aria-label')") == "moves: 312 after 10 s, bound ≥ 228"


def test_a_link_to_a_node_brings_it_into_sight(report: Open) -> None:
    seen = """(n) => { const box = document.querySelector(`[data-n="${n}"]`).getBoundingClientRect();
      return box.top >= document.getElementById("player").getBoundingClientRect().bottom && box.bottom <= innerHeight
        && document.querySelector(`[data-n="${n}"] .cell`) !== null; }"""
    data = pagedata.plan(Random(2), 150, 600, 4)
    busy = [n for n, count in enumerate(data["usage"][1]["pods"]) if count]
    opened = report(data, f"#node=worker-{busy[-1]:03}")
    opened.page.wait_for_function(seen, arg=busy[-1])
    opened.go(f"node=worker-{busy[60]:03}")
    opened.page.wait_for_function(seen, arg=busy[60])
    before = opened.do("scrollY")
    opened.go(f"node=worker-{busy[61]:03}")  # in sight already
    assert opened.do("scrollY") == before


def test_a_jump_down_the_map_lands_on_drawn_nodes(report: Open) -> None:
    opened = report(pagedata.plan(Random(2), 300, 3000, 4), reduced_motion="no-preference")
    blank = opened.do("""() => new Promise((done) => {
      document.querySelector("[data-n='299']").scrollIntoView({ block: "end" });
      const landed = scrollY;
      requestAnimationFrame(() => requestAnimationFrame(() => {
        const near = [...document.querySelectorAll("#map [data-n]")].filter((each) => each.getBoundingClientRect().bottom > 0
          && each.getBoundingClientRect().top < innerHeight);
        done([landed > 1000 && landed === scrollY, near.length, near.filter((each) => !each.querySelector(".tank")).length]);
      }));
    })""")
    assert blank[0], "the page scrolls by and by, past nodes that are not drawn"
    assert blank[1] > 0
    assert blank[2] == 0
