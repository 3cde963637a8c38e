"""The devices that a Placement names are those that kube-scheduler's allocator takes when its pods are bound in turn."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.placement import check, rest_faults, verify
from kubestow.models.documents.placement import Assignment, DeviceResult, Reason, Unplaced, share_id
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import Snapshot
from tests.checker.rules.dynamic_resources.claims import (
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    first_available,
    made,
    named,
    placement,
    request,
    result,
    slice_of,
    wants,
    world,
)
from tests.objects import Object, node


def faults(snapshot: Snapshot, *assignments: Assignment, **reference: Any) -> list[str]:
    """Return the checker's faults of devices in a placement."""
    document = placement(snapshot, *assignments)
    for field, value in reference.items():
        setattr(document.snapshot, field, value)
    return [each.why for each in verify(snapshot, document) if each.rule == "DynamicResources"]


def bound(pod: str, order: int, *devices: DeviceResult, on: str = "n1") -> Assignment:
    return Assignment(f"default/{pod}", on, order, devices=list(devices))


PAIR = slice_of("s", [device("d0"), device("d1")])
OTHER = slice_of("t", [device("d9")], nodeName="n2")
TWO = [wants("p", "c"), claim("c", request()), wants("q", "e"), claim("e", request())]


def test_the_allocator_takes_devices_in_bind_order() -> None:
    snapshot = world(PAIR, OTHER, *TWO)
    p, q = named("default/c", "d0"), named("default/e", "d1")
    assert faults(snapshot, bound("p", 1, p), bound("q", 2, q)) == []
    assert faults(snapshot, bound("p", 2, named("default/c", "d1")), bound("q", 1, named("default/e", "d0"))) == []
    assert faults(snapshot, bound("p", 2, p), bound("q", 1, q)) == [
        f"claim default/e, request r: device {DRIVER}/s/d1 is named; the allocator takes {DRIVER}/s/d0",
        f"claim default/c, request r: device {DRIVER}/s/d0 is named; the allocator takes {DRIVER}/s/d1",
    ]


@pytest.mark.parametrize(
    ("devices", "part"),
    [
        ([], "no device is named; the allocator takes gpu.example.com/s/d0"),
        ([named("default/c", "d1")], "s/d1 is named; the allocator takes gpu.example.com/s/d0"),
        ([named("default/c", "d7")], "s/d7 is named, which the node does not see; the allocator takes gpu.example.com/s/d0"),
        ([named("default/c", "d9", pool="t")], "t/d9 is named, which the node does not see"),
        ([named("default/c", "d0"), named("default/c", "d0")], "s/d0 is named in addition to all that the allocator takes"),
        ([named("default/c", "d0"), named("default/c", "d1")], "s/d1 is named in addition to all that the allocator takes"),
        ([named("default/c", "d0", "q")], "request q is named, and no such request is to be allocated"),
        ([named("default/e", "d0")], "claim default/e, request r is named"),
        ([named("default/c", "d0", adminAccess=True)], "s/d0, with admin access is named, it is gpu.example.com/s/d0"),
        ([named("default/c", "d0", shareID="x")], "share x is named, it is gpu.example.com/s/d0"),
        ([named("default/c", "d0", consumedCapacity={"memory": "1Gi"})], "1Gi of memory is named, it is gpu.example.com/s/d0"),
    ],
)
def test_what_a_document_says_wrongly(devices: list[DeviceResult], part: str) -> None:
    snapshot = world(PAIR, OTHER, *TWO[:2])
    assert faults(snapshot, bound("p", 1, named("default/c", "d0"))) == []
    assert part in "; ".join(faults(snapshot, bound("p", 1, *devices)))


def test_a_pod_that_asks_for_no_devices_gets_none() -> None:
    plain = world(wants("p"))
    assert faults(plain, bound("p", 1)) == []
    assert "no such request" in faults(plain, bound("p", 1, named("default/c", "d0")))[0]
    plain.device_classes.clear()
    assert faults(plain, bound("p", 1, named("default/c", "d0"))) == ["devices are named, and the pod asks for none"]


def test_a_pod_that_is_rejected_is_told_once() -> None:
    snapshot = world(OTHER, *TWO[:2])
    assert faults(snapshot, bound("p", 1, named("default/c", "d0"))) == ["no devices of the node serve default/c"]


def test_a_claim_that_is_allocated_already_is_not_named() -> None:
    held = claim("c", request(), status=allocated(result("d0")))
    snapshot = world(PAIR, TWO[0], held)
    assert faults(snapshot, bound("p", 1)) == []
    assert "no such request" in faults(snapshot, bound("p", 1, named("default/c", "d0")))[0]


def test_a_shared_claim_is_allocated_by_the_first_and_named_by_all() -> None:
    snapshot = world(PAIR, OTHER, wants("p", "c"), wants("q", "c"), wants("r", "e"), *TWO[1::2])
    here = named("default/c", "d0")
    assert faults(snapshot, bound("p", 1, here), bound("q", 2, here), bound("r", 3, named("default/e", "d1"))) == []
    assert "no device is named" in faults(snapshot, bound("p", 1, here), bound("q", 2))[0]
    assert "the allocator takes gpu.example.com/s/d0" in faults(snapshot, bound("p", 1, here), bound("q", 2, named("default/c", "d1")))[0]
    assert faults(snapshot, bound("p", 1, here), bound("q", 2, here, on="n2")) == ["claim default/c is allocated elsewhere"]


def test_a_shared_claim_on_the_network_is_used_from_several_nodes() -> None:
    wide = slice_of("s", [device("d0")], allNodes=True)
    snapshot = world(wide, wants("p", "c"), wants("q", "c"), TWO[1])
    here = named("default/c", "d0")
    assert faults(snapshot, bound("p", 1, here), bound("q", 2, here, on="n2")) == []
    binding = world(slice_of("s", [device("d0", bindsToNode=True)], allNodes=True), wants("p", "c"), wants("q", "c"), TWO[1])
    assert faults(binding, bound("p", 1, here), bound("q", 2, here, on="n2")) == ["claim default/c is allocated elsewhere"]
    nodes = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}), node("n3", labels={"zone": "a"})]
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    zoned = world(*nodes, slice_of("s", [device("d0")], nodeSelector=zone), wants("p", "c"), wants("q", "c"), TWO[1])
    assert faults(zoned, bound("p", 1, here), bound("q", 2, here, on="n3")) == []
    assert faults(zoned, bound("p", 1, here), bound("q", 2, here, on="n2")) == ["claim default/c is allocated elsewhere"]


MEMORY = {"value": "10Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "4Gi"]}}
SHARED = slice_of("s", [device("d0", None, {"memory": MEMORY}, allowMultipleAllocations=True)])


def test_shares_say_what_they_take_after_rounding() -> None:
    asked = claim("c", request("a", capacity={"requests": {"memory": "2Gi"}}), request("b"))
    snapshot = world(SHARED, TWO[0], asked)

    def share(name: str, amount: str, **more: Any) -> DeviceResult:
        identity = share_id("default/c", name, DRIVER, "s", "d0")
        return named("default/c", "d0", name, **({"shareID": identity, "consumedCapacity": {"memory": amount}} | more))

    assert faults(snapshot, bound("p", 1, share("a", "4Gi"), share("b", "1Gi"))) == []
    assert faults(snapshot, bound("p", 1, share("b", "1024Mi"), share("a", "4Gi"))) == []
    assert "2Gi of memory is named, it is" in faults(snapshot, bound("p", 1, share("a", "2Gi"), share("b", "1Gi")))[0]
    assert "share x" in faults(snapshot, bound("p", 1, share("a", "4Gi", shareID="x"), share("b", "1Gi")))[0]
    assert faults(snapshot, bound("p", 1, share("a", "much"), share("b", "1Gi")))
    assert faults(snapshot, bound("p", 1, share("a", "4Gi", shareID=None, consumedCapacity={}), share("b", "1Gi")))


def test_alternatives_and_extended_resources_have_their_names() -> None:
    backed = device_class("gpu", extendedResourceName="example.com/gpu")
    alternatives = first_available("f", {"name": "x", "deviceClassName": "gpu", "count": 9}, {"name": "y", "deviceClassName": "gpu"})
    snapshot = world(PAIR, backed, wants("p", "c", resources={"example.com/gpu": "1"}), claim("c", alternatives))
    own, drawn = named("default/c", "d0", "f/y"), named("default/p/extended-resources", "d1", "container-0-request-1")
    assert faults(snapshot, bound("p", 1, own, drawn)) == []
    assert faults(snapshot, bound("p", 1, named("default/c", "d0", "f/x"), drawn))
    assert faults(snapshot, bound("p", 1, named("default/c", "d0", "f"), drawn))
    assert faults(snapshot, bound("p", 1, own))


def test_admin_access_is_named_and_leaves_devices_to_others() -> None:
    snapshot = world(PAIR, TWO[0], claim("c", request(adminAccess=True)), *TWO[2:])
    admin = named("default/c", "d0", adminAccess=True)
    assert faults(snapshot, bound("p", 1, admin), bound("q", 2, named("default/e", "d0"))) == []
    assert faults(snapshot, bound("p", 1, named("default/c", "d0")), bound("q", 2, named("default/e", "d0")))


# --- pods that run already ----------------------------------------------------------------------------------------------


def _running(on: str = "n1") -> list[Object]:
    held = made("m", "p", request(), status=allocated(result("d1")))
    return [PAIR, OTHER, wants("p", "=m", node_name=on, owner="ReplicaSet/x"), held]


def test_a_pod_that_is_placed_anew_gives_back_what_was_made_for_it() -> None:
    snapshot = world(*_running())
    assert faults(snapshot, bound("p", 1, named("default/m", "d0")), fromScratch=True) == []
    assert faults(snapshot, bound("p", 1, named("default/m", "d9", pool="t"), on="n2"), fromScratch=True) == []


def test_a_pod_that_is_left_keeps_its_devices() -> None:
    snapshot = world(*_running(), *TWO)
    assert faults(snapshot, bound("p", 1, named("default/c", "d0")), bound("q", 2)) != []  # p runs
    snapshot = world(*_running(), wants("q", "e"), TWO[3])
    assert faults(snapshot, bound("q", 1, named("default/e", "d0"))) == []


def test_a_shared_claim_stays_where_it_is_from_scratch() -> None:
    held = claim("c", request(), status=allocated(result("d1"), nodeSelector=_only("n1")))
    snapshot = world(PAIR, OTHER, wants("p", "c", node_name="n1", owner="ReplicaSet/x"), held)
    assert faults(snapshot, bound("p", 1), fromScratch=True) == []
    assert faults(snapshot, bound("p", 1, on="n2"), fromScratch=True) == ["claim default/c is allocated elsewhere"]


def _only(name: str) -> Object:
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}


# --- remaining capacity -------------------------------------------------------------------------------------------------


def test_reasons_of_pods_that_are_left_are_counted() -> None:
    snapshot = world(PAIR, *TWO, wants("r", "g"), claim("g", request()))
    document = placement(snapshot, bound("p", 1, named("default/c", "d0")), bound("q", 2, named("default/e", "d1")))
    document.unplaced = [Unplaced("default/r", [Reason("DynamicResources", 2, "no devices")])]
    document.snapshot.pending = 3

    def said() -> list[str]:
        return [each.why for each in check(snapshot, document).violations if each.pod == "default/r"]

    assert said() == []
    document.unplaced = [Unplaced("default/r", [Reason("DynamicResources", 1, "no devices")])]
    assert said() == ["DynamicResources is said to reject the pod on 1 nodes, it does on 2"]


def test_pods_that_ask_for_the_same_share_a_verdict_and_others_do_not() -> None:
    held = made("b", "r", request(), status=allocated(result("d0"), nodeSelector=_only("n1")))
    free = wants("q", "=a"), made("a", "q", request(count=3))
    snapshot = world(PAIR, *free, wants("r", "=b"), held)
    document = placement(snapshot)
    document.unplaced = [
        Unplaced("default/q", [Reason("DynamicResources", 2, "no")]),
        Unplaced("default/r", [Reason("DynamicResources", 1, "no")]),
    ]
    found = [each for each in check(snapshot, document).violations if each.rule == "Placement" and "DynamicResources" in each.why]
    assert found == []


def test_the_rest_of_a_placement_is_asked_which_devices_it_named() -> None:
    """The cluster is another one by then: claims may be called otherwise, and may be allocated."""
    snapshot = world(PAIR, *TWO[:2])
    for label, name, told in (
        ("default/c", "d0", []),
        ("default/p/c", "d0", []),
        ("default/c", "d1", ["claim default/c, request r: device gpu.example.com/s/d1 is named; the allocator takes gpu.example.com/s/d0"]),
    ):
        assert [each.why for each in rest_faults(snapshot, placement(snapshot, bound("p", 1, named(label, name))))] == told
    assert rest_faults(snapshot, placement(snapshot, bound("p", 1))) == []
    both = placement(snapshot, bound("p", 1, named("default/c", "d0"), named("default/c", "d1")))
    assert [each.why for each in rest_faults(snapshot, both)] == [
        "claim default/c, request r: device gpu.example.com/s/d1 is named; it does not get it"
    ]
    none = world(OTHER, *TWO[:2])
    assert [each.rule for each in rest_faults(none, placement(none, bound("p", 1)))] == ["DynamicResources"]


def test_without_the_gate_claims_do_not_matter() -> None:
    off = FeatureGates("1.36", (("DynamicResourceAllocation", False),))
    assert faults(world(wants("p", "c"), gates=off), bound("p", 1)) == []
