"""Verdicts of DynamicResources on one pod and one node, a feature at a time."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.placement import rejecting_rules
from kubestow.checker.rules.dynamic_resources import search
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.explain.per_node import explain
from tests.checker.rules.dynamic_resources.claims import (
    DRIVER,
    allocated,
    alternative,
    claim,
    device,
    device_class,
    first_available,
    made,
    request,
    result,
    slice_of,
    taken,
    wants,
    why,
    world,
)
from tests.objects import Object, node

ONE = slice_of("s", [device("d0")])
POD = wants("p", "c")
ASKS = claim("c", request())
SIZED = device_class("gpu", f'device.capacity["{DRIVER}"].memory.compareTo(quantity("8Gi")) >= 0')


def gates(version: str = "1.36", **given: bool) -> FeatureGates:
    return FeatureGates(version, tuple(sorted(given.items())))


def said(snapshot: Any, part: str | None, on: str = "n1") -> None:
    text = why(snapshot, on=on)
    assert (text is None) if part is None else (text is not None and part in text), text


# --- before the nodes ---------------------------------------------------------------------------------------------------

_OWNERLESS = claim("m", request())
_MADE = made("m", "p", request())


@pytest.mark.parametrize(
    ("items", "part"),
    [
        ([POD, ASKS], None),
        ([POD], "there is no ResourceClaim default/c"),
        ([POD, claim("c", request(), deletionTimestamp="2026-01-01T00:00:00Z")], "being deleted"),
        ([wants("p", "=m"), _MADE], None),
        ([wants("p", "=m"), _OWNERLESS], "was not created for the pod"),
        ([wants("p", "=m"), made("m", "q", request())], "was not created for the pod"),
        ([POD, claim("c", request(deviceClassName="none"))], "no DeviceClass none"),
        ([POD, claim("c", first_available("r", alternative("a"), alternative("b", deviceClassName="none")))], "no DeviceClass none"),
        ([POD, claim("c", {"name": "r"})], "an unknown type"),
        ([wants("p")], None),
        ([wants("p", "c", "c"), ASKS], "no devices"),
    ],
)
def test_claims_of_a_pod(items: list[Object], part: str | None) -> None:
    said(world(ONE, *items), part)


def test_a_claim_that_is_not_made_yet_keeps_its_pod_waiting() -> None:
    waits = wants("p", "=m")
    del waits["status"]["resourceClaimStatuses"]
    said(world(ONE, waits), "no ResourceClaim exists yet")


def test_a_claim_that_is_not_needed_is_skipped() -> None:
    skips = wants("p", "=m")
    skips["status"]["resourceClaimStatuses"] = [{"name": "e0"}]
    said(world(skips), None, "n2")


def test_an_entry_without_a_name_rejects() -> None:
    empty = wants("p", "c")
    del empty["spec"]["resourceClaims"][0]["resourceClaimName"]
    said(world(ONE, ASKS, empty), "neither")


# --- allocated claims ---------------------------------------------------------------------------------------------------

_ON_N2 = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}
_BROKEN = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["x"]}]}]}


def test_an_allocated_claim_is_used_where_it_is() -> None:
    held = claim("c", request(), status=allocated(result("d0"), nodeSelector=_ON_N2))
    said(world(ONE, POD, held), "allocated elsewhere")
    said(world(ONE, POD, held), None, "n2")


def test_an_allocated_claim_without_a_selector_is_used_everywhere_however_many_hold_it() -> None:
    users = [{"resource": "pods", "name": f"q{i}", "uid": f"{i}"} for i in range(256)]
    said(world(ONE, POD, claim("c", request(), status=allocated(result("d0")) | {"reservedFor": users})), None, "n2")


def test_a_selector_that_cannot_be_parsed_is_an_error() -> None:
    said(world(ONE, POD, claim("c", request(), status=allocated(result("d0"), nodeSelector=_BROKEN))), "cannot be parsed")


_BINDS: Object = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}


@pytest.mark.parametrize(
    ("conditions", "since", "part"),
    [
        (None, "2026-01-01T00:00:00Z", "waits for Ready"),
        (None, None, None),
        ([], "2026-01-01T00:00:00Z", "waits for Ready"),
        ([{"type": "Ready", "status": "True"}], "2026-01-01T00:00:00Z", None),
        ([{"type": "Failed", "status": "True"}], None, "failed for good"),
        ([{"type": "Failed", "status": "False"}, {"type": "Ready", "status": "False"}], None, None),
    ],
)
def test_binding_conditions_of_an_allocated_claim(conditions: list[Object] | None, since: str | None, part: str | None) -> None:
    status = allocated(result("d0", **_BINDS), **({"allocationTimestamp": since} if since else {}))
    if conditions is not None:
        status["devices"] = [{"driver": DRIVER, "pool": "s", "device": "d0", "conditions": conditions}]
    held = claim("c", request(), status=status)
    said(world(ONE, POD, held), part)
    said(world(ONE, POD, held, gates=gates(DRADeviceBindingConditions=False)), None)


def test_a_claim_is_waited_for_until_its_time_is_over() -> None:
    status = allocated(result("d0", **_BINDS), allocationTimestamp="2026-01-01T00:00:00Z")
    snapshot = world(ONE, POD, claim("c", request(), status=status))
    for now, part in (("2026-01-01T00:10:00Z", None), ("2026-01-01T00:10:01Z", "waits for Ready"), ("", "waits for Ready")):
        snapshot.capture = Capture(time=now)
        said(snapshot, part)


# --- devices in use -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "part"),
    [
        (result("d0"), "no devices"),
        (result("d0", adminAccess=True), None),
        (result("d0", pool="other"), None),
        (result("d0", shareID="x"), None),
    ],
)
def test_a_device_of_a_claim_is_in_use_though_no_pod_has_it(held: Object, part: str | None) -> None:
    said(world(ONE, POD, ASKS, claim("other", status=allocated(held))), part)


def test_a_share_occupies_its_device_where_shares_are_not_known() -> None:
    other = claim("other", status=allocated(result("d0", shareID="x")))
    said(world(ONE, POD, ASKS, other, gates=gates(DRAConsumableCapacity=False)), "no devices")


def test_admin_access_takes_what_is_in_use_but_not_twice_in_a_claim() -> None:
    other = claim("other", status=allocated(result("d0")))
    said(world(ONE, POD, claim("c", request(adminAccess=True)), other), None)
    said(world(ONE, POD, claim("c", request(adminAccess=True, count=2)), other), "no devices")
    said(world(ONE, wants("p", "c", "e"), claim("c", request(adminAccess=True)), claim("e", request(adminAccess=True))), None)
    said(world(ONE, wants("p", "c", "e"), claim("c", request(adminAccess=True)), claim("e", request())), "no devices")
    said(world(ONE, wants("p", "e", "c"), claim("c", request(adminAccess=True)), claim("e", request())), None)


# --- pools --------------------------------------------------------------------------------------------------------------

_ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
ZONES = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]


@pytest.mark.parametrize(
    ("slices", "part"),
    [
        ([ONE], None),
        ([slice_of("s", [device("d0")], nodeName="n2")], "no devices"),
        ([slice_of("s", [device("d0")], allNodes=True)], None),
        ([slice_of("s", [device("d0")], nodeSelector=_ZONE)], None),
        ([slice_of("s", [device("d0", nodeName="n1")], perDeviceNodeSelection=True)], None),
        ([slice_of("s", [device("d0", nodeName="n2")], perDeviceNodeSelection=True)], "no devices"),
        ([slice_of("s", [device("d0", nodeSelector=_ZONE)], perDeviceNodeSelection=True)], None),
        ([slice_of("s", [device("d0", allNodes=True)], perDeviceNodeSelection=True)], None),
        ([slice_of("s", [device("d0")], allNodes=False)], "no devices"),  # for nobody
        ([slice_of("s", [device("d0")], nodeSelector=_BROKEN)], "cannot be parsed"),
        ([slice_of("s", [device("d0")], slices=2)], "no devices"),  # incomplete
        ([slice_of("s", [device("d0")], slices=2), slice_of("t", [device("d1")], slices=2, pool="s", nodeName="n2")], None),
        ([slice_of("s", [device("d0")]), slice_of("t", [device("d1")], pool="s", generation=2)], None),
        # a newer generation that this node has no part in makes the pool vanish only where slices are missing
        ([slice_of("s", [device("d0")]), slice_of("t", [device("d1")], pool="s", generation=2, nodeName="n2")], None),
        ([slice_of("s", [device("d0")], slices=2), slice_of("t", [], pool="s", generation=2, nodeName="n2")], "no devices"),
        ([slice_of("s", [device("d0"), device("d0")])], "no devices"),  # invalid
    ],
)
def test_pools(slices: list[Object], part: str | None) -> None:
    said(world(*ZONES, *slices, POD, ASKS), part)


def test_the_highest_generation_counts() -> None:
    old, new = slice_of("s", [device("d0")]), slice_of("t", [device("d1")], pool="s", generation=2)
    assert taken(world(old, new, POD, ASKS), ("p", "n1")) == [["r=d1"]]


def test_incomplete_pools_are_used_before_1_35() -> None:
    said(world(slice_of("s", [device("d0")], slices=2), POD, ASKS, gates=gates("1.34")), None)


def test_the_order_of_pools_slices_and_devices() -> None:
    slices = [
        slice_of("b", [device("d3")], pool="q", slices=2),
        slice_of("a", [device("d2"), device("d1")], pool="q", slices=2),
        slice_of("z", [device("d4")], driver="a.example.com"),
        slice_of("c", [device("d0", bindingConditions=["Ready"])], pool="a"),
    ]
    asked = claim("c", request(count=5))
    assert taken(world(*slices, POD, asked), ("p", "n1")) == [["r=d4", "r=d2", "r=d1", "r=d3", "r=d0"]]


def test_devices_with_binding_conditions_need_their_gate() -> None:
    binds = slice_of("s", [device("d0", bindingConditions=["Ready"])])
    said(world(binds, POD, ASKS), None)
    said(world(binds, POD, ASKS, gates=gates(DRADeviceBindingConditions=False)), "no devices")
    said(world(binds, POD, ASKS, gates=gates(DRAResourceClaimDeviceStatus=False)), "no devices")


# --- counts, All, alternatives ------------------------------------------------------------------------------------------

TWO = slice_of("s", [device("d0"), device("d1")])


def test_count() -> None:
    said(world(TWO, POD, claim("c", request(count=2))), None)
    said(world(TWO, POD, claim("c", request(count=3))), "no devices")
    said(world(TWO, POD, claim("c", request(count=33))), "at most 32")
    said(world(TWO, POD, claim("c", request(allocationMode="Most"))), "not known")


def test_all() -> None:
    everything = claim("c", request(allocationMode="All"))
    assert taken(world(TWO, POD, everything), ("p", "n1")) == [["r=d0", "r=d1"]]
    said(world(TWO, POD, everything), "no devices", "n2")  # none at all
    said(world(TWO, POD, everything, claim("other", status=allocated(result("d1")))), "no devices")
    broken = slice_of("t", [device("d2")], slices=2, driver="else.example.com")
    said(world(TWO, broken, POD, everything), "incomplete")
    said(world(TWO, broken, POD, everything, gates=gates("1.34")), "incomplete")
    said(world(TWO, slice_of("t", [device("x"), device("x")]), POD, everything), "invalid")
    said(world(slice_of("s", [device(f"d{i}") for i in range(33)]), POD, everything), "at most 32")


def test_the_first_alternative_that_lets_all_the_rest_be_served() -> None:
    one = device_class("one", f'device.attributes["{DRIVER}"].kind == "a"')
    slices = slice_of("s", [device("d0", {"kind": "a"}), device("d1", {"kind": "b"})])
    asked = claim("c", first_available("f", alternative("x", deviceClassName="one"), alternative("y")), request("r", deviceClassName="one"))
    assert taken(world(slices, device_class(), one, POD, asked), ("p", "n1")) == [["f/y=d1", "r=d0"]]
    only_x = claim("c", first_available("f", alternative("x", deviceClassName="one"), alternative("y")))
    assert taken(world(slices, device_class(), one, POD, only_x), ("p", "n1")) == [["f/x=d0"]]


def test_alternatives_need_their_gate() -> None:
    said(world(TWO, POD, claim("c", first_available("f", alternative("x"))), gates=gates("1.34", DRAPrioritizedList=False)), "gate")


def test_more_than_32_devices_are_a_dead_end_and_the_next_alternative_is_tried() -> None:
    many = slice_of("s", [device(f"d{i:02}") for i in range(40)])
    asked = claim("c", request("q", count=30), first_available("f", alternative("x", count=3), alternative("y", count=2)))
    (names,) = taken(world(many, POD, asked), ("p", "n1"))
    assert names[30:] == ["f/y=d30", "f/y=d31"]


def test_admin_access_needs_its_gate_even_where_it_is_false() -> None:
    asked = claim("c", request(adminAccess=False))
    said(world(ONE, POD, asked), None)
    said(world(ONE, POD, asked, gates=gates("1.34", DRAAdminAccess=False)), "gate DRAAdminAccess")


# --- selectors ----------------------------------------------------------------------------------------------------------


def test_all_selectors_of_class_and_request_match() -> None:
    sized = slice_of("s", [device("d0", {"kind": "a"}, {"memory": "4Gi"}), device("d1", {"kind": "b"}, {"memory": "8Gi"})])
    assert taken(world(SIZED, sized, POD, ASKS), ("p", "n1")) == [["r=d1"]]
    said(world(SIZED, sized, POD, claim("c", request("r", f'device.attributes["{DRIVER}"].kind == "a"'))), "no devices")


def test_an_error_of_a_selector_ends_the_search() -> None:
    mixed = slice_of("s", [device("d0"), device("d1", {}, {"memory": "8Gi"})])
    said(world(SIZED, mixed, POD, ASKS), "memory")
    # a device that is never asked raises no error
    said(world(SIZED, mixed, POD, ASKS, claim("other", status=allocated(result("d0")))), None)
    said(world(ONE, POD, claim("c", request("r", "device.nothing"))), "nothing")


# --- constraints --------------------------------------------------------------------------------------------------------

LINKS = [device("d0", {"link": "x"}), device("d1", {"link": "y"}), device("d2", {f"{DRIVER}/link": "y"}), device("d3")]


def test_match_and_distinct() -> None:
    slices = slice_of("s", LINKS)
    match, distinct = {"matchAttribute": f"{DRIVER}/link"}, {"distinctAttribute": f"{DRIVER}/link"}
    assert taken(world(slices, POD, claim("c", request(count=2), constraints=[match])), ("p", "n1")) == [["r=d1", "r=d2"]]
    assert taken(world(slices, POD, claim("c", request(count=2), constraints=[distinct])), ("p", "n1")) == [["r=d0", "r=d1"]]
    said(world(slices, POD, claim("c", request(count=3), constraints=[match])), "no devices")
    said(world(slices, POD, claim("c", request(count=3), constraints=[distinct])), "no devices")
    said(world(slices, POD, claim("c", request(), constraints=[{}])), "constraint 0")
    said(world(slices, POD, claim("c", request(), constraints=[distinct]), gates=gates(DRAConsumableCapacity=False)), "constraint 0")
    elsewhere = {"matchAttribute": "other.example.com/link"}
    said(world(slices, POD, claim("c", request(), constraints=[elsewhere])), "no devices")


def test_constraints_of_some_requests() -> None:
    slices = slice_of("s", LINKS)
    match = {"matchAttribute": f"{DRIVER}/link", "requests": ["a", "f/y"]}
    asked = claim("c", request("a"), request("b"), first_available("f", alternative("x", count=9), alternative("y")), constraints=[match])
    assert taken(world(slices, POD, asked), ("p", "n1")) == [["a=d1", "b=d0", "f/y=d2"]]


def test_values_of_different_types_never_match_and_never_clash() -> None:
    slices = slice_of("s", [device("d0", {"a": 1}), device("d1", {"a": True}), device("d2", {"a": "1"})])
    match, distinct = {"matchAttribute": f"{DRIVER}/a"}, {"distinctAttribute": f"{DRIVER}/a"}
    said(world(slices, POD, claim("c", request(count=2), constraints=[match])), "no devices")
    said(world(slices, POD, claim("c", request(count=3), constraints=[distinct])), None)


def test_all_errs_over_a_constraint() -> None:
    match = {"matchAttribute": f"{DRIVER}/link"}
    said(world(slice_of("s", LINKS), POD, claim("c", request(allocationMode="All"), constraints=[match])), "All needs it")


def test_lists_of_attributes() -> None:
    slices = slice_of(
        "s", [device("d0", {"a": {"strings": ["x", "y"]}}), device("d1", {"a": "y"}), device("d2", {"a": {"strings": ["x"]}})]
    )
    on = gates(DRAListTypeAttributes=True)
    match, distinct = {"matchAttribute": f"{DRIVER}/a"}, {"distinctAttribute": f"{DRIVER}/a"}
    pair, three = request(count=2), request(count=3)
    assert taken(world(slices, POD, claim("c", pair, constraints=[match]), gates=on), ("p", "n1")) == [["r=d0", "r=d1"]]
    said(world(slices, POD, claim("c", three, constraints=[match]), gates=on), "no devices")
    assert taken(world(slices, POD, claim("c", pair, constraints=[distinct]), gates=on), ("p", "n1")) == [["r=d1", "r=d2"]]
    said(world(slices, POD, claim("c", pair, constraints=[match])), "no devices")


# --- taints -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "toleration", "part"),
    [
        ("NoSchedule", None, "no devices"),
        ("NoExecute", None, "no devices"),
        ("None", None, None),
        ("Whatever", None, None),
        ("NoSchedule", {"operator": "Exists"}, None),
        ("NoSchedule", {"key": "k", "operator": "Equal", "value": "v"}, None),
        ("NoSchedule", {"key": "k", "value": "v", "effect": "NoSchedule"}, None),
        ("NoSchedule", {"key": "k", "operator": "Equal", "value": "w"}, "no devices"),
        ("NoSchedule", {"key": "j", "operator": "Exists"}, "no devices"),
        ("NoSchedule", {"key": "k", "operator": "Exists", "effect": "NoExecute"}, "no devices"),
    ],
)
def test_taints(effect: str, toleration: Object | None, part: str | None) -> None:
    taint = {"key": "k", "value": "v", "effect": effect}
    asked = claim("c", request(tolerations=[toleration] if toleration else []))
    said(world(slice_of("s", [device("d0", taints=[taint])]), POD, asked), part)
    said(world(slice_of("s", [device("d0", taints=[taint])]), POD, asked, gates=gates(DRADeviceTaints=False)), None)
    rule = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "t"},
        "spec": {"taint": taint, "deviceSelector": {"driver": DRIVER, "device": "d0"}},
    }  # fmt: skip
    said(world(ONE, POD, asked, rule), None)
    said(world(ONE, POD, asked, rule, gates=gates(DRADeviceTaintRules=True)), part)
    said(world(ONE, POD, asked, rule, gates=gates("1.37")), part)
    said(world(slice_of("s", [device("d1")]), POD, asked, rule, gates=gates("1.37")), None)


# --- counters -----------------------------------------------------------------------------------------------------------

COUNTERS = slice_of("k", None, pool="s", slices=2, sharedCounters=[{"name": "card", "counters": {"memory": {"value": "10Gi"}}}])


def part_of(name: str, memory: str, counters: str = "card", counter: str = "memory", **more: Any) -> Object:
    return device(name, consumesCounters=[{"counterSet": counters, "counters": {counter: {"value": memory}}}], **more)


def partitions(*devices: Object, **spec: Any) -> Object:
    return slice_of("s", list(devices), slices=2, **spec)


def test_counters() -> None:
    halves = partitions(part_of("d0", "10Gi"), part_of("d1", "5Gi"), part_of("d2", "5Gi"), part_of("d3", "1Gi"))
    assert taken(world(COUNTERS, halves, POD, claim("c", request(count=2))), ("p", "n1")) == [["r=d1", "r=d2"]]
    said(world(COUNTERS, halves, POD, claim("c", request(count=3))), "no devices")
    said(world(COUNTERS, halves, POD, ASKS, claim("o", status=allocated(result("d2")))), None)
    said(world(COUNTERS, halves, POD, claim("c", request(count=2)), claim("o", status=allocated(result("d2")))), "no devices")
    said(world(COUNTERS, halves, POD, claim("c", request()), claim("o", status=allocated(result("d0")))), "no devices")
    gone = claim("o", status=allocated(result("gone")))  # no longer published
    said(world(COUNTERS, halves, POD, claim("c", request(count=2)), gone), None)
    said(world(COUNTERS, halves, POD, claim("c", request()), gates=gates(DRAPartitionableDevices=False)), "no devices")


def test_counters_serve_the_devices_of_other_nodes_too() -> None:
    counters = slice_of("k", None, pool="s", slices=3, sharedCounters=[{"name": "card", "counters": {"memory": {"value": "10Gi"}}}])
    here = slice_of("s", [part_of("d0", "6Gi")], slices=3)
    there = slice_of("t", [part_of("d1", "6Gi")], slices=3, pool="s", nodeName="n2")
    both = world(counters, here, there, POD, ASKS, wants("q", "e"), claim("e", request()))
    assert taken(both, ("p", "n1"), ("q", "n2")) == [["r=d0"], ["-"]]


@pytest.mark.parametrize(
    "slices",
    [
        [COUNTERS, partitions(part_of("d0", "1Gi", counters="none"))],
        [COUNTERS, partitions(part_of("d0", "1Gi", counter="none"))],
        [slice_of("k", None, pool="s", slices=2, sharedCounters=COUNTERS["spec"]["sharedCounters"] * 2), partitions(part_of("d0", "1"))],
    ],
)
def test_a_pool_with_counters_that_do_not_fit_is_invalid(slices: list[Object]) -> None:
    said(world(*slices, POD, ASKS), "no devices")
    said(world(*slices, POD, claim("c", request(allocationMode="All"))), "invalid")


def test_counters_of_a_refused_candidate_are_given_back() -> None:
    """kubernetes/kubernetes #140436."""
    tainted = part_of("d0", "10Gi", taints=[{"key": "k", "effect": "NoSchedule"}])
    said(world(COUNTERS, partitions(tainted, part_of("d1", "10Gi")), POD, ASKS), None)


def test_all_devices_of_a_request_differ_in_a_distinct_attribute() -> None:
    """kubernetes/kubernetes #140438."""
    slices = slice_of("s", [device("d0", {"a": "x"}), device("d1", {"a": "y"}), device("d2", {"a": "x"})])
    said(world(slices, POD, claim("c", request(count=3), constraints=[{"distinctAttribute": f"{DRIVER}/a"}])), "no devices")


# --- how long it takes --------------------------------------------------------------------------------------------------


def test_devices_that_nothing_tells_apart_are_tried_once() -> None:
    """2^30 combinations otherwise."""
    slices = slice_of("s", [device(f"d{i:02}", {"link": f"{i % 2}", "uuid": f"u{i}"}) for i in range(60)])
    said(world(slices, POD, claim("c", request(count=31), constraints=[{"matchAttribute": f"{DRIVER}/link"}])), "no devices of")


def test_a_search_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_SEARCH_STEPS", 1000)
    parts = [part_of(f"d{i:02}", f"{2**34 + 2**i}") for i in range(31)]
    total = slice_of("k", None, pool="s", slices=2, sharedCounters=[{"name": "card", "counters": {"memory": {"value": f"{2**34 * 12}"}}}])
    said(world(total, partitions(*parts), POD, claim("c", request(count=12))), "steps")


# --- consumable capacity ------------------------------------------------------------------------------------------------


def shared(name: str = "d0", memory: Any = "10Gi", **more: Any) -> Object:
    return device(name, None, {"memory": memory}, allowMultipleAllocations=True, **more)


def sized(name: str, amount: str, **more: Any) -> Object:
    return request(name, capacity={"requests": {"memory": amount}}, **more)


def test_shares_of_a_device() -> None:
    slices = slice_of("s", [shared()])
    said(world(slices, POD, claim("c", sized("a", "4Gi"), sized("b", "6Gi"))), None)
    said(world(slices, POD, claim("c", sized("a", "4Gi"), sized("b", "7Gi"))), "no devices")
    said(world(slices, POD, claim("c", sized("a", "1Gi", count=2))), "no devices")  # two different ones
    said(world(slices, POD, claim("c", request())), None)  # the whole value
    said(world(slices, POD, claim("c", sized("a", "1Gi"), request("b"))), "no devices")
    held = claim("o", status=allocated(result("d0", shareID="x", consumedCapacity={"memory": "6Gi"})))
    said(world(slices, POD, claim("c", sized("a", "4Gi")), held), None)
    said(world(slices, POD, claim("c", sized("a", "5Gi")), held), "no devices")
    said(world(slices, POD, claim("c", sized("a", "4Gi")), claim("o", status=allocated(result("d0")))), "no devices")
    said(world(slices, POD, claim("c", request("a", capacity={"requests": {"cores": "1"}}))), "no devices")
    said(world(slices, POD, claim("c", sized("a", "1Gi")), gates=gates(DRAConsumableCapacity=False)), "gate DRAConsumableCapacity")


def test_capacity_of_devices_that_are_not_shared_is_compared_too() -> None:
    slices = slice_of("s", [device("d0", None, {"memory": "4Gi"}), device("d1", None, {"memory": "8Gi"})])
    assert taken(world(slices, POD, claim("c", sized("a", "5Gi"))), ("p", "n1")) == [["a=d1"]]


@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        ({"default": "2Gi"}, None, "2Gi"),
        ({"default": "2Gi", "validValues": ["1Gi", "4Gi"]}, None, "2Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "2Gi", "4Gi"),
        ({"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "5Gi", None),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi"}}, "500Mi", "1Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi"}}, "5Gi", None),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}, "3500Mi", "5Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "4Gi"}}, "6Gi", "9Gi"),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "5Gi"}}, "7Gi", None),  # 11Gi of 10Gi
    ],
)
def test_policies(policy: Object, asked: str | None, consumed: str | None) -> None:
    """The remaining capacity, given the request, determines the consumed amount."""
    slices = slice_of("s", [shared(memory={"value": "10Gi", "requestPolicy": policy})])
    first = request("a") if asked is None else sized("a", asked)
    said(world(slices, POD, claim("c", first)), None if consumed else "no devices")
    if consumed is not None:
        other = claim("o", status=allocated(result("d0", shareID="x", consumedCapacity={"memory": "10Gi"})))
        said(world(slices, POD, claim("c", first), other), "no devices")
        left = {"memory": f"{10 - int(consumed.removesuffix('Gi'))}Gi"}
        said(world(slices, POD, claim("c", first), claim("o", status=allocated(result("d0", shareID="x", consumedCapacity=left)))), None)
        more = {"memory": f"{10 * 1024 - int(consumed.removesuffix('Gi')) * 1024 + 1}Mi"}
        many = claim("o", status=allocated(result("d0", shareID="x", consumedCapacity=more)))
        said(world(slices, POD, claim("c", first), many), "no devices")


@pytest.mark.parametrize(
    ("span", "asked", "whole", "milli"),
    [
        ({"min": "100m", "step": "100m"}, "150m", "1", "200m"),
        ({"min": "1", "step": "500m"}, "1100m", "2", "1500m"),
        ({"min": "0", "step": "1", "max": "1500m"}, "400m", "1", "1"),
        ({"min": "500m"}, "500m", "500m", "500m"),
        ({"min": "250m", "max": "700m", "step": "250m"}, "600m", None, None),
    ],
)
def test_ranges_with_fractions(span: Object, asked: str, whole: str | None, milli: str | None) -> None:
    """Version 1.37 counts in thousandths. A device with 2 holds the amount and a second share that fills it, and no more."""
    slices = slice_of("s", [shared(memory={"value": "2", "requestPolicy": {"validRange": span}})])
    for gates, consumed in ((FeatureGates("1.36"), whole), (FeatureGates("1.37"), milli)):
        said(world(slices, POD, claim("c", sized("a", asked)), gates=gates), None if consumed else "no devices")
        if consumed is None:
            continue
        thousandths = int(consumed.removesuffix("m")) * (1 if consumed.endswith("m") else 1000)
        for held, part in ((2000 - thousandths, None), (2001 - thousandths, "no devices")):
            other = claim("o", status=allocated(result("d0", shareID="x", consumedCapacity={"memory": f"{held}m"})))
            said(world(slices, POD, claim("c", sized("a", asked)), other, gates=gates), part)


def test_counters_of_a_shared_device_are_charged_once() -> None:
    both = partitions(
        device("d0", None, {"memory": "10Gi"}, allowMultipleAllocations=True,
               consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "6Gi"}}}]),
    )  # fmt: skip
    said(world(COUNTERS, both, POD, claim("c", sized("a", "1Gi"), sized("b", "1Gi"))), None)
    held = claim("o", status=allocated(result("d0", shareID="x", consumedCapacity={"memory": "1Gi"})))
    said(world(COUNTERS, both, POD, claim("c", sized("a", "1Gi")), held), None)


# --- extended resources -------------------------------------------------------------------------------------------------

BACKED = device_class("gpu", extendedResourceName="example.com/gpu")


def provides(name: str, **resources: str) -> Object:
    found = node(name)
    found["status"]["allocatable"] |= {key.replace("_", "/"): value for key, value in resources.items()}
    return found


def judged(snapshot: Any, on: str = "n1") -> set[str]:
    return set(rejecting_rules(snapshot, snapshot.pods[-1], on))


def test_extended_resources_come_from_devices_where_the_node_has_none() -> None:
    plugin = provides("n3", **{"example.com_gpu": "1"})
    nodes = [node("n1"), node("n2"), plugin]
    one = wants("p", resources={"example.com/gpu": "1"})
    assert [judged(world(*nodes, TWO, BACKED, one), name) for name in ("n1", "n2", "n3")] == [set(), {"DynamicResources"}, set()]
    two = wants("p", resources={"example.com/gpu": "2"})
    assert [judged(world(*nodes, TWO, BACKED, two), name) for name in ("n1", "n3")] == [set(), {"NodeResourcesFit"}]
    off = world(*nodes, TWO, BACKED, two, gates=gates(DRAExtendedResource=False))
    assert [judged(off, name) for name in ("n1", "n2")] == [{"NodeResourcesFit"}, {"NodeResourcesFit"}]
    implied = wants("p", resources={"deviceclass.resource.kubernetes.io/gpu": "2"})
    assert judged(world(*nodes, TWO, BACKED, implied)) == set()
    other = wants("p", resources={"example.com/gpu": "1", "example.com/fpga": "1"})
    assert judged(world(*nodes, TWO, BACKED, other)) == {"DynamicResources", "NodeResourcesFit"}
    plain = wants("p", resources={"example.com/fpga": "1"})
    assert judged(world(*nodes, TWO, BACKED, plain)) == {"NodeResourcesFit"}


def test_the_newest_class_backs_a_resource_then_the_lowest_name() -> None:
    old = device_class("a", 'device.driver == "none"', extendedResourceName="example.com/gpu", created="2026-01-01T00:00:00Z")
    new = device_class("c", extendedResourceName="example.com/gpu", created="2026-01-02T00:00:00Z")
    twin = device_class("b", 'device.driver == "none"', extendedResourceName="example.com/gpu", created="2026-01-02T00:00:00Z")
    asked = wants("p", resources={"example.com/gpu": "1"})
    said(world(ONE, old, new, asked), None)
    said(world(ONE, old, new, twin, asked), "no devices")


def test_requests_of_containers() -> None:
    """Ordinary init containers use what containers after them ask for; of the rest the largest is added."""
    many = slice_of("s", [device(f"d{i:02}") for i in range(20)])
    asked = wants("p", resources={"example.com/gpu": "2"})

    def container(count: int, **more: Any) -> Object:
        return {"name": f"i{count}", "image": "i", "resources": {"limits": {"example.com/gpu": str(count)}}, **more}

    asked["spec"]["initContainers"] = [container(5), container(1, restartPolicy="Always"), container(4)]
    (names,) = taken(world(many, BACKED, asked), ("p", "n1"))
    requests = [each.partition("=")[0] for each in names]
    # the first needs 5, has 1 + 2 after it; the third needs 4, has 2
    assert requests == ["container-0-request-0"] * 2 + ["container-1-request-0"] + ["container-3-request-1"] * 2


def test_a_claim_that_is_left_from_an_earlier_attempt_rejects() -> None:
    asked = wants("p", resources={"example.com/gpu": "1"})
    left = made("x", "p", request(), annotations={"resource.kubernetes.io/extended-resource-claim": "true"})
    said(world(TWO, BACKED, asked, left), "earlier attempt")
    said(world(TWO, BACKED, asked, made("x", "q", request(), annotations=left["metadata"]["annotations"])), None)


def test_extended_resources_are_served_after_the_claims() -> None:
    asked = wants("p", "c", resources={"example.com/gpu": "1"})
    assert taken(world(TWO, BACKED, asked, ASKS), ("p", "n1")) == [["r=d0", "container-0-request-1=d1"]]


# --- what cannot be evaluated -------------------------------------------------------------------------------------------

UNSUPPORTED = "has(device.driver)"
FAILS = '[device.attributes["a"].?b.orValue(1)] == ["x"] || "a".findAll("x*").size() == 0'
UNREAD_CLASS = device_class("gpu", UNSUPPORTED, extendedResourceName="example.com/gpu")


def rejecting(snapshot: Snapshot) -> dict[str, list[str]]:
    """The nodes that the solver's rules reject."""
    (verdict,) = explain(snapshot)
    return verdict.rejected


@pytest.mark.parametrize(
    "items",
    [
        (POD, claim("c", request("r", UNSUPPORTED, count=9))),
        (POD, ASKS, device_class("gpu", UNSUPPORTED)),
        (POD, claim("c", first_available("r", alternative("a"), alternative("b", UNSUPPORTED)))),
        (wants("p", "c", "d"), claim("c", request("r", UNSUPPORTED)), claim("d", request("r", count=9))),
        (wants("p", resources={"example.com/gpu": "9"}), UNREAD_CLASS),
        (wants("p", "nowhere", resources={"example.com/gpu": "9"}), UNREAD_CLASS),
    ],
)
def test_where_a_selector_cannot_be_evaluated_nothing_is_said_of_the_pod(items: tuple[Object, ...]) -> None:
    snapshot = world(ONE, *items)
    said(snapshot, None)
    assert rejecting(snapshot) == {}
    assert taken(snapshot, ("p", "n1")) == [[]]


@pytest.mark.parametrize(
    ("items", "part"),
    [
        ((wants("p", "c", "d"), claim("c", request("r", UNSUPPORTED))), "there is no ResourceClaim default/d"),
        ((POD, claim("c", request("r", UNSUPPORTED, allocationMode="Some"))), "Some is not known"),
        ((POD, claim("c", request("r", FAILS))), "findAll with a pattern"),
    ],
)
def test_what_is_wrong_with_a_claim_whatever_its_selectors_say(items: tuple[Object, ...], part: str) -> None:
    snapshot = world(ONE, *items)
    said(snapshot, part)
    assert rejecting(snapshot) == {name: ["DynamicResources"] for name in ("n1", "n2")}
