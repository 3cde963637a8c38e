"""The player of the waves, and the map that follows it."""

from __future__ import annotations

import re
from random import Random

import pytest

from tests.report.page import pagedata
from tests.report.page.browser import Open
from tests.report.page.reading import by_node, cells, labels
from tests.report.page.truth import percent

pytestmark = pytest.mark.full


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
            assert f"CPU {percent(used['cpu'][n], data['nodes']['cpu'][n])}%" in label
            assert f"memory {percent(used['memory'][n], data['nodes']['memory'][n])}%" in label
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
    opened = report(pagedata.plan(Random(1), 5, 30, 3), own=True)
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


def test_steps_are_read_on_a_phone_without_broken_names(report: Open) -> None:
    data = pagedata.plan(Random(1), 6, 60, 3)
    data["pods"]["name"] = [f"growth-{p:02}/session-90-mdr7qvz2n2-{p:05}" for p in range(60)]
    opened = report(data, "#wave=1", width=390, height=844)
    steps = opened.do("""() => {
      const list = document.getElementById("steps").getBoundingClientRect();
      return [...document.querySelectorAll("#steps tbody tr")].map((row) => ({
        lines: row.cells[0].querySelector(".name").getClientRects().length,
        inside: row.getBoundingClientRect().bottom <= list.bottom && row.getBoundingClientRect().right <= list.right }));
    }""")
    assert len(steps) == 4
    assert all(step["lines"] == 1 for step in steps)
    assert all(step["inside"] for step in steps[:3])


def test_pending_pods_of_a_plan_are_bound(report: Open) -> None:
    data = pagedata.plan(Random(1), 5, 30, 2)
    step = data["waves"][0]["steps"][0]
    data["pods"]["place"][0][step["pod"]] = step["from"] = -1
    data["usage"][0] = pagedata.usage(data, data["pods"]["place"][0])
    assert "1 binding" in report(data, "#wave=1").page.inner_text("#wave")
