"""Documents about capacity on the page: the texts, the heat map of failures, and the waves of an upgrade on the map."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.fit import Fit, Growth, TemplateFit
from kubestow.models.documents.placement import Assignment, Cause, Fact, Placement, SnapshotRef, TierResult
from kubestow.models.documents.rebalance_plan import Move
from kubestow.models.documents.sizing import Cost, Misfit, Purchase, ShapeReason, Sizing, Utilisation, WorkloadCost
from kubestow.models.documents.survival import Consequence, Counterexample, Exposure, Scenario, Scenarios, Survival, SurvivalRemedy
from kubestow.models.documents.upgrade import Blocker, NewNode, Upgrade, UpgradeWave
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.report.page import data
from kubestow.report.page.capacity.stand_in import stand_in
from tests.objects import node, pod
from tests.report.page.browser import Open

ZONE = "topology.kubernetes.io/zone"
REF = SnapshotRef("", 4, 6, 1)


def snapshot() -> Snapshot:
    nodes = [node(f"n{i}", labels={ZONE: "ab"[i % 2], "pool": "x" if i < 2 else "y"}) for i in range(4)]
    running = [pod(f"p{i}", node_name=f"n{i % 4}", owner="ReplicaSet/web") for i in range(5)]
    return from_objects([*nodes, *running, pod("new", owner="ReplicaSet/web")])


PLACED = Placement(REF, "exact", "optimal", [TierResult("placed", 1, 1, 0)], [Assignment("default/new", "n2", 1)])
CAUSE = Cause(["default/new"], [Fact("NodeResourcesFit", "Node n0", "the 4 nodes have 1 CPU free")], minimal=True)
SCENARIOS = [
    Scenario(["n0"], "survives", "search", 2, alike=[["n1"]]),
    Scenario(["n2"], "pending", "solver", 1, 1),
    Scenario(["n3"], "unknown", "nothing"),
]
SURVIVAL = Survival(
    REF,
    "node",
    False,
    Scenarios(4, 3, 0, 2, 1),
    [Counterexample(["n2"], ["default/p2"], 1, CAUSE, [Consequence("quorum", "StatefulSet default/db", "1 of its 3 members is left")])],
    SCENARIOS,
    exposed=[Exposure("lost", "Pod default/bare", 1, ["n3"], "1 pod is gone")],
    remedy=SurvivalRemedy(["1:n0"], certified=True, options=["--add-nodes 1:n0"]),
)
FIT = Fit(
    REF,
    1,
    2,
    [TemplateFit("Deployment default/web", 1, 2, 1, 5)],
    PLACED,
    CAUSE,
    [Growth("n0", 4, 3, 3)],
    notes=["a note for the reader"],
)
SIZING = Sizing(
    REF,
    "add",
    "feasible",
    [Purchase("m5", "b", 1, 0.38, ["n3"])],
    Cost(0.38, 0.3),
    TierResult("nodes", 1, 1),
    PLACED,
    utilisation=[Utilisation("", "cpu", 2000, 100, 4000)],
    workloads=[WorkloadCost("Deployment default/web", 1, 0.38)],
)
NOTHING = Sizing(
    REF, "add", "infeasible", [], Cost(0, 0), TierResult("nodes", 0, 0),
    misfits=[Misfit(["default/new"], [ShapeReason("m5", "NodeResourcesFit", "too little <b>CPU</b>")])],
)  # fmt: skip
UPGRADE = Upgrade(
    REF,
    "pool=x",
    ["n0", "n1"],
    0,
    1,
    False,
    True,
    [UpgradeWave(1, ["n0"], [NewNode("n0-new", "n0")], moves=[Move(1, 1, f"default/p{i}", "n0", "n0-new", "drained") for i in (0, 4)])],
    [Blocker("n1", "PodDisruptionBudget", "PodDisruptionBudget default/web", "no eviction is allowed", ["default/p1"], True)],
)
ALL: list[Capacity] = [FIT, SIZING, NOTHING, SURVIVAL, UPGRADE]


def built(document: Capacity) -> dict[str, Any]:
    """The data of the page."""
    shown, drawn = stand_in(snapshot(), document)
    return data.build(shown, drawn, original=snapshot(), capacity=document, version="1")


def test_the_worst_of_each_node_is_what_its_tile_tells() -> None:
    cells = {cell[0]: cell[2:] for cell in built(SURVIVAL)["capacity"]["heat"]["cells"]}
    assert cells["n0"] == [2, 0, 2, "search", 1]
    assert cells["n1"] == [2, 0, 2, "search", 1]  # equal to the failure of n0
    assert cells["n2"] == [4, 1, 1, "solver", 1]
    assert cells["n3"] == [3, 0, 0, "nothing", 1]
    two = Survival(REF, "zone", False, Scenarios(1, 1, 1, 0, 0), [], [Scenario(["a", "b"], "pending", "bound", 5, 3)], atOnce=2)
    heat = built(two)["capacity"]["heat"]
    assert [cell[:4] for cell in heat["cells"]] == [["a", "", 4, 3], ["b", "", 4, 3]]
    assert heat["pairs"] == [[0, 1, 4, 3]]


def test_what_holds_of_the_map_alone_is_not_said_of_the_document() -> None:
    page = built(UPGRADE)
    assert page["title"] == "Upgrade of 2 nodes: 1 wave"
    assert "n0-new" in page["nodes"]["name"]
    assert [len(wave["steps"]) for wave in page["waves"]] == [2]
    assert page["summary"]["facts"] == []
    assert page["summary"]["status"] is None
    assert page["capacity"]["status"] == ["blocked, proved", "bad"]
    assert built(FIT)["summary"]["notes"] == ["a note for the reader"]


def test_money_is_told_as_it_is_paid() -> None:
    found = built(SIZING)["capacity"]
    assert found["facts"][0] == ["Cost per hour", "0.38", "at least 0.30"]
    assert found["buy"] == [["m5", "b", 1, "0.38", "0.38", [3]]]
    assert found["utilisation"][0][-1] == 50


@pytest.mark.full
@pytest.mark.parametrize("document", ALL, ids=lambda document: f"{document.kind}-{getattr(document, 'status', '')}")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_kind_is_drawn_without_complaint(report: Open, document: Capacity, scheme: str) -> None:
    page = report(built(document), color_scheme=scheme)
    assert page.do("!document.getElementById('capacity').hidden")
    text = page.do("document.getElementById('capacity').innerText + document.getElementById('status').innerText")
    told = {
        "Fit": "the 4 nodes have 1 CPU free",
        "Sizing": "0.38" if document is SIZING else "too little <b>CPU</b>",
        "Survival": "not certified",
        "Upgrade": "no eviction is allowed",
    }
    assert told[document.kind] in text
    assert "[object" not in text
    assert "undefined" not in text
    assert page.do("document.documentElement.scrollWidth <= innerWidth")
    page.quiet()


def test_failures_are_reached_by_keyboard_and_say_why(report: Open) -> None:
    page = report(built(SURVIVAL))
    labels = page.do("[...document.querySelectorAll('.heat .heat-cell')].map((cell) => cell.getAttribute('aria-label'))")
    assert labels == [
        "n0: all come back, 2 pods", "n2: at least 1 pod of 1 stay pending", "n1: all come back, 2 pods", "n3: unknown",
    ]  # fmt: skip
    assert page.do("document.querySelectorAll('.heat .heat-cell[tabindex=\"0\"]').length") == 1
    page.do("document.querySelector('.heat .heat-cell').focus()")
    page.press("ArrowRight", "Enter")
    detail = page.do("document.querySelector('.heat-detail').innerText")
    assert "the 4 nodes have 1 CPU free" in detail
    assert "1 of its 3 members is left" in detail
    page.press("ArrowDown")
    assert page.do("document.activeElement.getAttribute('aria-label')") == "n3: unknown"
    page.quiet()


def test_the_waves_of_an_upgrade_are_played_on_the_map(report: Open) -> None:
    page = report(built(UPGRADE))
    assert page.do("document.getElementById('wave').textContent") == "Wave 1 of 1: 2 moves"
    page.do("document.querySelector('#capacity button[aria-label^=\"Show the map after wave 1\"]').click()")
    assert page.do("document.activeElement.id") == "map-title"
    assert "drained" in page.do("document.getElementById('map-notes').textContent")
    page.quiet()
