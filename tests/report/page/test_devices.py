"""Devices as the page gets and shows them."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.placement import Assignment, DeviceResult, Placement, Rollout, RolloutPod, SnapshotRef, Wave
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.page.data import build
from tests.devices import DRIVER, claim, devices, exactly, got, published, snapshot, using
from tests.objects import Object, node
from tests.report.page.browser import Open
from tests.report.page.consistency import KEYS, check

Data = dict[str, Any]


def _placement(*assignments: Assignment, **more: Any) -> Placement:
    return Placement(SnapshotRef("", 2, 2, 1), "exact", "feasible", [], list(assignments), [], **more)


def _gets(name: str, device: str, of: str, **more: Any) -> DeviceResult:
    return DeviceResult(name, "r", DRIVER, of, device, **more)


def _taken(data: Data) -> list[tuple[Any, ...]]:
    """Each device of a claim: pool/name, claim, pods, when."""
    found, taken = data["devices"], data["devices"]["taken"]
    names = [f"{found['pools'][pool][1]}/{name}" for pool, name in zip(found["pool"], found["name"], strict=True)]
    people = data["pods"]["name"] if data["pods"] else None
    users = [[people[p] if people else p for p in pods] for pods in taken["pods"]]
    return list(zip((names[i] for i in taken["device"]), taken["claim"], users, taken["when"], strict=True))


def _reached(data: Data) -> list[list[str]]:
    found = data["devices"]
    return [[found["name"][i] for i in found["sites"][s]] for s in found["site"]]


def _two_nodes() -> list[Object]:
    return [node("a"), node("b"), published("a", devices("g0", "g1"), of="a"), published("b", devices("g0"), of="b")]


def test_without_devices_the_page_says_nothing_of_them() -> None:
    data = build(snapshot(node("a"), using("p", node_name="a")), None, version="1")
    assert data.keys() == KEYS


def test_nodes_have_the_devices_that_they_reach() -> None:
    network = published("net", devices("line"), pool="net", allNodes=True)
    assert _reached(build(snapshot(*_two_nodes(), network), None, version="1")) == [["g0", "g1", "line"], ["g0", "line"]]


def test_allocated_devices_are_told_with_the_pods_of_their_claim() -> None:
    """Also those of pools that are published no more, and of claims that no pod has."""
    held = [
        claim("shared", exactly(), gets=[got("a", "g1")]),
        claim("own", exactly(), owner="q", gets=[got("gone", "g7")]),
        claim("left", exactly(), gets=[got("b", "g0")]),
    ]
    pods = [using("p", "shared", node_name="a"), using("q", "shared", made=["own"], node_name="a")]
    found = _taken(build(snapshot(*_two_nodes(), *held, *pods), None, version="1"))
    assert found == [
        ("a/g1", "default/shared", ["default/p", "default/q"], 1),
        ("gone/g7", "default/own", ["default/q"], 1),
        ("b/g0", "default/left", [], 1),
    ]


def test_claims_of_extended_resources_are_their_owners() -> None:
    held = claim("made", exactly(), owner="p", gets=[got("a", "g0")])
    found = _taken(build(snapshot(*_two_nodes(), held, using("p", node_name="a")), None, version="1"))
    assert found == [("a/g0", "default/made", ["default/p"], 1)]


def test_a_result_adds_its_devices_to_those_that_claims_have() -> None:
    held = claim("held", exactly(), gets=[got("a", "g0")])
    data_of = snapshot(*_two_nodes(), held, claim("c", exactly()), using("p", "held", node_name="a"), using("q", "c"), using("r", "c"))
    given = [_gets("default/c", "g1", "a")]
    result = _placement(Assignment("default/q", "a", 1, devices=given), Assignment("default/r", "a", 2, devices=given))
    data = build(data_of, result, version="1")
    assert _taken(data) == [
        ("a/g0", "default/held", ["default/p"], 3),
        ("a/g1", "default/c", ["default/q", "default/r"], 2),
    ]


def _again(where: str, device: str) -> tuple[Snapshot, Placement]:
    """A running pod with a claim that was made for it is placed again."""
    own = claim("own", exactly(), owner="p", gets=[got("a", "g0")])
    given = _placement(Assignment("default/p", where, 1, devices=[_gets("default/own", device, where)]))
    return snapshot(*_two_nodes(), own, using("p", made=["own"], node_name="a")), given


@pytest.mark.parametrize(
    ("where", "device", "expected"),
    [("b", "g0", [("a/g0", 1), ("b/g0", 2)]), ("a", "g1", [("a/g0", 1), ("a/g1", 2)]), ("a", "g0", [("a/g0", 3)])],
)
def test_claims_of_pods_that_are_placed_anew_are_made_again(where: str, device: str, expected: list[tuple[str, int]]) -> None:
    data_of, result = _again(where, device)
    assert [(each[0], each[3]) for each in _taken(build(data_of, result, version="1"))] == expected


def test_a_rollout_gives_devices_to_new_pods_once_old_ones_have_gone() -> None:
    own = claim("own", exactly(), owner="old", gets=[got("b", "g0")])
    data_of = snapshot(*_two_nodes(), own, using("old", made=["own"], node_name="b"), using("new"))
    given = [_gets("default/new/own", "g0", "b")]
    waves = [Wave(1, [], [], ["default/old"]), Wave(2, [RolloutPod("default/new", "b", 1, given)], [], [])]
    rollout = Rollout("Deployment default/w", "RollingUpdate", 1, 0, 1, True, False, waves)
    result = _placement(Assignment("default/new", "b", 1, devices=given), rollout=rollout)
    found = _taken(build(data_of, result, version="1"))
    assert found == [("b/g0", "default/own", ["default/old"], 1), ("b/g0", "default/new/own", ["default/new"], 2)]


def _shares() -> Snapshot:
    card = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}, "slots": {"value": "7"}}}
    share = got("a", "g0", shareID="4f6a0f0c-0c1e-4d8f-9a0b-3f6b0f0c0c1e", consumedCapacity={"memory": "10Gi", "slots": "1"})
    return snapshot(
        node("a"), published("a", devices("g0", **card), of="a"), claim("c", exactly(), gets=[share]),
        claim("w", exactly(), gets=[got("a", "g0", adminAccess=True)]), using("p", "c", node_name="a"), using("q", made=["d"]),
        using("w", "w", node_name="a"),
    )  # fmt: skip


def _more_of_it(amount: str) -> Placement:
    more = _gets("default/q/d", "g0", "a", shareID="x", consumedCapacity={"memory": amount})
    return _placement(Assignment("default/q", "a", 1, devices=[more]))


def test_shares_have_what_they_take_of_the_total() -> None:
    data = build(_shares(), _more_of_it("20Gi"), version="1")
    assert data["devices"]["capacity"] == {"0": [["memory", 80 << 30, True], ["slots", 7, False]]}
    assert data["devices"]["taken"]["amounts"] == [[["memory", 10 << 30], ["slots", 1]], [], [["memory", 20 << 30]]]
    assert data["devices"]["taken"]["how"] == [1, 2, 1]
    check(data, _shares(), _more_of_it("20Gi"))


def test_an_amount_that_is_no_quantity_is_bad_input() -> None:
    with pytest.raises(InputError, match="claim default/q/d: consumedCapacity of device g0"):
        build(_shares(), _more_of_it("much"), version="1")


def test_pods_are_named_where_they_are_shown_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.report.page.pods.MAX_SINGLE_PODS", 1)
    data = build(_shares(), _more_of_it("20Gi"), version="1")
    assert data["devices"]["taken"]["pods"] == [["default/p"], ["default/w"], ["default/q"]]


@pytest.mark.full
def test_a_node_and_its_pods_show_devices(report: Open) -> None:
    opened = report(build(_shares(), _more_of_it("20Gi"), version="1"), "#node=a")
    shown = opened.page.inner_text("#panel [aria-label='Devices of this node']")
    assert f"{DRIVER}/a/g0" in shown
    for words in ("default/c 10 GiB of 80 GiB memory, 1 of 7 slots of default/p", "default/w admin access of default/w"):
        assert words in shown
    assert "together 30 GiB of 80 GiB memory, 1 of 7 slots" in shown
    opened.page.click("#panel details[data-p='1'] summary")
    assert "default/q/d\tr\t" in opened.page.inner_text("#panel [aria-label='Devices of default/q']")
    opened.go("node=a&view=before")
    assert "default/q/d" not in opened.page.inner_text("#panel [aria-label='Devices of this node']")
    opened.quiet()
