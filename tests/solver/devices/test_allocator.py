"""The search for the devices of one pod on one node: which it takes, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.devices.table import device_table
from kubestow.models.kube.selectors import NodeColumns
from kubestow.models.snapshot.scope import select
from kubestow.solver.devices import allocator
from kubestow.solver.devices.allocator import AllocationError, allocate
from tests.devices import asks, claim, device, device_class, devices, either, exactly, got, published, snapshot, using
from tests.objects import Object, node

NUMA = "gpu.example.com/numa"
OTHER = {"key": "k", "effect": "None"}
SETS = [{"name": "gpu", "counters": {"slots": {"value": "4"}}}]


def slots(amount: int) -> Object:
    return {"consumesCounters": [{"counterSet": "gpu", "counters": {"slots": {"value": str(amount)}}}]}


def model(value: str) -> str:
    return f'device.attributes["gpu.example.com"].model == "{value}"'


def found(listed: list[Object], *claims: Object, sets: list[Object] | None = None, **more: Any) -> list[list[str]] | None:
    """The devices that the claims of a pod get on a node with these, per claim. Other objects may be among the claims."""
    unallocated = [each for each in claims if each["kind"] == "ResourceClaim" and "status" not in each]
    objects = [
        node("a"),
        published("s", listed, of="a", slices=2 if sets else 1),
        device_class(),
        using("p", *(each["metadata"]["name"] for each in unallocated)),
    ]
    if sets:
        objects.append(published("t", of="a", slices=2, sharedCounters=sets))
    snap = snapshot(*objects, *claims, **more)
    table = device_table(snap, select(snap), NodeColumns(snap.nodes), {})
    assert table is not None
    (demand,) = table.demands.values()
    assert demand.refusal is None
    picks = allocate(table.inventory, table.matches, demand.claims, table.inventory.site(0), table.inventory.books)
    if picks is None:
        return None
    return [[table.inventory.devices[pick.device].name for pick in picks if pick.claim == c] for c in range(len(unallocated))]


def same(*requests: str, attribute: str = NUMA) -> Object:
    return {"matchAttribute": attribute, **({"requests": list(requests)} if requests else {})}


def distinct(*requests: str) -> Object:
    return {"distinctAttribute": NUMA, **({"requests": list(requests)} if requests else {})}


MIXED = [device("0", a={"model": "x", "numa": 0}), device("1", a={"model": "y", "numa": 1}), device("2", a={"model": "x", "numa": 1})]


@pytest.mark.parametrize(
    ("claims", "want"),
    [
        ([claim("c", exactly(count=2))], [["0", "1"]]),
        ([claim("c", exactly(count=4))], None),
        ([claim("c", exactly(count=2)), claim("d", exactly())], [["0", "1"], ["2"]]),
        ([claim("c", exactly(count=2)), claim("d", exactly(count=2))], None),
        ([claim("c", exactly("r"), exactly("s", count=2, expression=model("x")))], [["1", "0", "2"]]),  # the first request makes room
        ([claim("c", exactly(count=None))], [["0", "1", "2"]]),
        ([claim("c", exactly(count=None, expression=model("z")))], None),
        ([claim("c", exactly()), claim("d", exactly(count=None))], None),
        ([claim("c", exactly(count=2), constraints=[same()])], [["1", "2"]]),
        ([claim("c", exactly(count=3), constraints=[same()])], None),
        ([claim("c", exactly(count=2), constraints=[same(attribute="gpu.example.com/missing")])], None),
        ([claim("c", exactly(count=2), constraints=[distinct()])], [["0", "1"]]),
        ([claim("c", exactly(count=3), constraints=[distinct()])], None),
        ([claim("c", exactly("r", count=2), exactly("s"), constraints=[same("r")])], [["1", "2", "0"]]),
        ([claim("c", either("r", asks(count=4), asks(count=2)))], [["0", "1"]]),
        ([claim("c", either("r", asks(count=2), asks()), exactly("s", count=2))], [["0", "1", "2"]]),
        ([claim("c", either("r", asks(count=2), asks()), exactly("s"), constraints=[same("r/s0")])], [["1", "2", "0"]]),
        ([claim("c", either("r", asks(count=2), asks())), claim("d", exactly(count=2))], [["0"], ["1", "2"]]),
    ],
)
def test_first_solutions(claims: list[Object], want: list[list[str]] | None) -> None:
    assert found(MIXED, *claims) == want


def test_what_is_allocated_is_out_of_reach_but_for_admin_access() -> None:
    allocated = claim("taken", exactly(), gets=[got("a", "0"), got("a", "1", adminAccess=True)])
    assert found(MIXED, allocated, claim("c", exactly(count=3))) is None
    assert found(MIXED, allocated, claim("c", exactly(count=2))) == [["1", "2"]]
    assert found(MIXED, allocated, claim("c", exactly(count=3, adminAccess=True))) == [["0", "1", "2"]]
    assert found(MIXED, allocated, claim("c", exactly("r", adminAccess=True), exactly("s", count=3, adminAccess=True))) is None
    both = [claim("c", exactly(adminAccess=True)), claim("d", exactly(adminAccess=True))]
    assert found(MIXED, *both) == [["0"], ["0"]]
    assert found(MIXED, both[0], claim("e", exactly(count=3))) is None


def test_taints_keep_off_what_does_not_tolerate_them() -> None:
    listed = [
        device("0", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
        device("1", taints=[{"key": "k", "effect": "None"}]),
    ]
    assert found(listed, claim("c", exactly())) == [["1"]]
    assert found(listed, claim("c", exactly(count=None))) is None
    for toleration, want in (
        ({"operator": "Exists"}, "0"),
        ({"key": "k", "value": "v"}, "0"),
        ({"key": "k", "operator": "Equal", "value": "w"}, "1"),
        ({"operator": "Exists", "effect": "NoExecute"}, "1"),
    ):
        assert found(listed, claim("c", exactly(tolerations=[toleration]))) == [[want]]
    assert found(listed, claim("c", exactly()), gates={"DRADeviceTaints": False}) == [["0"]]


def test_counters_are_shared_by_the_devices_of_a_pool() -> None:
    listed = [device("half", **slots(2)), device("whole", **slots(4)), device("other", **slots(2))]
    assert found(listed, claim("c", exactly(count=2)), sets=SETS) == [["half", "other"]]
    assert found(listed, claim("c", exactly(count=3)), sets=SETS) is None
    allocated = claim("taken", exactly(), gets=[got("a", "half")])
    assert found(listed, allocated, claim("c", exactly()), sets=SETS) == [["other"]]
    assert found(listed, allocated, claim("c", exactly(count=None)), sets=SETS) is None


def test_counters_of_a_device_that_is_refused_stay_free() -> None:
    """A fault of v1.36.2 (kubernetes/kubernetes#140436) is not copied: the tainted device does not hold the
    slots."""
    listed = [device("tainted", taints=[{"key": "k", "effect": "NoSchedule"}], **slots(4)), device("d", **slots(4))]
    assert found(listed, claim("c", exactly()), sets=SETS) == [["d"]]


def test_distinct_values_within_one_request() -> None:
    """A fault of v1.36.2 (kubernetes/kubernetes#140438) is not copied: the first device counts when the third is
    compared."""
    listed = [device(str(i), a={"numa": n}) for i, n in enumerate((0, 1, 0))]
    assert found(listed, claim("c", exactly(count=3), constraints=[distinct()])) is None


def capacity(value: str, **policy: Any) -> Object:
    return {"capacity": {"memory": {"value": value, **({"requestPolicy": policy} if policy else {})}}}


def memory(amount: str) -> Object:
    return {"capacity": {"requests": {"memory": amount}}}


@pytest.mark.parametrize(
    ("policy", "amount", "pods"),
    [
        ({}, "3", 2),
        ({}, "9", 0),
        ({"default": "2"}, None, 4),
        ({}, None, 1),
        ({"validRange": {"min": "4"}}, "1", 2),
        ({"validRange": {"min": "1", "step": "2"}}, "2", 2),
        ({"validRange": {"min": "1", "max": "2"}}, "3", 0),
        ({"default": "1", "validValues": ["1", "4"]}, "2", 2),
        ({"default": "1", "validValues": ["1", "4"]}, "5", 0),
    ],
)
def test_shares_of_a_device(policy: Object, amount: str | None, pods: int) -> None:
    """Return the number of claims that get a share of a device with capacity 8."""
    listed = [device("0", allowMultipleAllocations=True, **capacity("8", **policy))]
    for count in range(1, 6):
        claims = [claim(f"c{i}", exactly(**({} if amount is None else memory(amount)))) for i in range(count)]
        assert found(listed, *claims) == ([["0"]] * count if count <= pods else None)


#: A range, the request of each claim, and the number of claims that share a device with 2 as of 1.36 (whole
#: units) and 1.37 (thousandths).
FRACTIONS = [
    ({"min": "100m", "step": "100m"}, "150m", 2, 10),  # 1 each; 200m each
    ({"min": "500m"}, "500m", 4, 4),  # without a step nothing is rounded
    ({"min": "1", "step": "500m"}, "1100m", 1, 1),  # 2; 1500m
    ({"min": "0", "step": "1", "max": "1500m"}, "400m", 2, 2),  # 1 either way: thousandths, in steps of 1
    ({"min": "0", "step": "1"}, "400m", 2, 2),
    ({"min": "250m", "max": "700m", "step": "250m"}, "600m", 0, 0),  # 1 and 750m exceed the maximum
]


@pytest.mark.parametrize(("span", "amount", "whole", "milli"), FRACTIONS)
def test_ranges_count_in_thousandths_from_1_37_on(span: Object, amount: str, whole: int, milli: int) -> None:
    listed = [device("0", allowMultipleAllocations=True, **capacity("2", validRange=span))]
    for count in range(1, 12):
        claims = [claim(f"c{i}", exactly(**memory(amount))) for i in range(count)]
        assert found(listed, *claims, version="1.36") == ([["0"]] * count if count <= whole else None)
        assert found(listed, *claims, version="1.37") == ([["0"]] * count if count <= milli else None)


def test_what_shares_consume_already_and_that_one_request_gets_distinct_devices() -> None:
    listed = [device("0", allowMultipleAllocations=True, **capacity("8")), device("1", **capacity("8"))]
    allocated = claim("taken", exactly(), gets=[got("a", "0", shareID="x", consumedCapacity={"memory": "6"})])
    assert found(listed, allocated, claim("c", exactly(**memory("2")))) == [["0"]]
    assert found(listed, allocated, claim("c", exactly(**memory("3")))) == [["1"]]
    assert found(listed, claim("c", exactly(count=2, **memory("1")))) == [["0", "1"]]
    assert found(listed, claim("c", exactly(count=3, **memory("1")))) is None
    assert found(listed, claim("c", exactly(capacity={"requests": {"cores": "1"}}))) is None
    plain = claim("c", exactly())
    assert found(listed, allocated, plain, version="1.35") == [["1"]]  # without the gate a share takes the whole device


def test_counters_are_charged_for_the_first_share() -> None:
    listed = [device("0", allowMultipleAllocations=True, **capacity("8"), **slots(4)), device("1", **slots(1))]
    small = [claim(name, exactly(**memory("1"))) for name in "cd"]
    assert found(listed, *small, sets=SETS) == [["0"], ["0"]]
    assert found(listed, small[0], claim("e", exactly(expression='!("gpu.example.com" in device.capacity)')), sets=SETS) is None


@pytest.mark.parametrize(
    ("listed", "claims", "text"),
    [
        (MIXED, [claim("c", exactly(expression="device.driver +"))], "yntax"),
        (MIXED, [claim("c", exactly(expression='device.attributes["gpu.example.com"].none == 1'))], "none"),
        (MIXED, [claim("c", exactly(count=None), constraints=[same()])], "device 1 breaks a constraint"),
        (devices(*(str(i) for i in range(40))), [claim("c", exactly(count=33))], "at most 32 devices"),
        (devices(*(str(i) for i in range(40))), [claim("c", exactly(count=None))], "at most 32 devices"),
        (devices("0", "0"), [claim("c", exactly(count=None))], "two devices 0"),
    ],
)
def test_errors(listed: list[Object], claims: list[Object], text: str) -> None:
    with pytest.raises(AllocationError, match=text):
        found(listed, *claims)


def test_an_expression_fails_only_on_devices_that_are_asked() -> None:
    """Devices in use are not looked at, nor those after the last that is needed."""
    listed = [device("0", a={"model": "x"}), device("1"), device("2", a={"model": "x"})]
    request = exactly(expression=model("x"))
    assert found(listed, claim("c", request)) == [["0"]]
    with pytest.raises(AllocationError):
        found(listed, claim("c", request), claim("d", request))
    allocated = claim("taken", exactly(), gets=[got("a", "1")])
    assert found(listed, allocated, claim("c", request), claim("d", request)) == [["0"], ["2"]]


def test_an_alternative_with_fewer_devices_keeps_within_the_limit() -> None:
    listed = devices(*(str(i) for i in range(60)))
    got_ = found(listed, claim("c", either("r", asks(count=20), asks(count=2)), exactly("s", count=20)))
    assert got_ is not None
    assert len(got_[0]) == 22


def test_devices_that_nothing_tells_apart_are_not_tried_again() -> None:
    """2 of 30 in each of 8 requests, and a ninth that nothing can serve: without a cut 10^20 ways."""
    listed = [device(str(i), a={"numa": i % 2}) for i in range(30)]
    requests = [exactly(f"r{i}", count=2) for i in range(8)]
    assert found(listed, claim("c", *requests, exactly("z", expression=f"{'!' * 1}(device.driver == 'gpu.example.com')"))) is None


def test_a_search_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "MAX_STEPS", 20)
    listed = [device(str(i), a={"numa": i}) for i in range(12)]
    with pytest.raises(AllocationError, match="too long"):
        found(listed, claim("c", exactly(count=6), constraints=[same()]), claim("d", exactly()))
