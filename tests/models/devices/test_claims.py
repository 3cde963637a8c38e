"""The device requests of pods, and the reasons for refusal by every node."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.devices.claims import DemandReader
from kubestow.models.devices.demand import DeviceDemand
from kubestow.models.kube.objects import pod_key
from tests.devices import asks, claim, compiled, device_class, devices, either, exactly, got, published, snapshot, using
from tests.objects import Object, node

FAST = "example.com/gpu"
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
LEFT = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}


def demand(*objects: Object, **more: Any) -> DeviceDemand:
    """Of the first pod."""
    found = snapshot(*objects, **more)
    return DemandReader(found).read(found.pods[0])[0]


@pytest.mark.parametrize(
    ("pod", "claims", "refusal"),
    [
        (using("p", "c"), [], "claim default/c does not exist"),
        (using("p", "data"), [claim("dta", exactly())], "claim default/data does not exist; did you mean dta?"),
        (using("p", "c"), [claim("c", exactly(of="gup"))], "device class gup does not exist; did you mean gpu?"),
        (
            using("p", "c"),
            [claim("c", exactly(), metadata=GOING)],
            "claim default/c is being deleted",
        ),
        (using("p", made=["c"]), [claim("c", exactly(), owner="q")], "the claim of entry c was made for another pod"),
        (using("p", made=["c"]), [claim("c", exactly())], "the claim of entry c was made for another pod"),
        (using("p", "c"), [claim("c", exactly(of="none"))], "device class none does not exist"),
        (using("p", "c"), [claim("c", either("r", asks(), asks(of="none")))], "device class none does not exist"),
        (using("p", "c"), [claim("c", {"name": "r"})], "claim default/c: request r is of an unknown kind"),
        (using("p", "c"), [claim("c", exactly(selectors=[{}]))], "claim default/c: a selector of request r is of an unknown kind"),
        (using("p", "c"), [claim("c", exactly(), constraints=[{}])], "claim default/c: a constraint is of an unknown kind"),
        (
            using("p", "c"),
            [claim("c", exactly(allocationMode="Any"))],
            "claim default/c: request r has allocation mode Any, which is unknown",
        ),
        (using("p", "c"), [claim("c", exactly())], None),
        (using("p", made=["c"]), [claim("c", exactly(), owner="p")], None),
    ],
)
def test_what_keeps_a_pod_from_every_node(pod: Object, claims: list[Object], refusal: str | None) -> None:
    assert demand(pod, device_class(), *claims).refusal == refusal


def test_entries_without_a_claim() -> None:
    bare, waiting, none = using("p"), using("p", made=["c"]), using("p", made=["c"])
    bare["spec"]["resourceClaims"] = [{"name": "c"}]
    del waiting["status"]["resourceClaimStatuses"]
    none["status"]["resourceClaimStatuses"] = [{"name": "c"}]
    assert demand(bare).refusal == "claim entry c names neither a claim nor a template"
    assert demand(waiting).refusal == "the claim of entry c is not created yet"
    assert demand(none) == DeviceDemand()


@pytest.mark.parametrize(
    ("gate", "request_", "constraints"),
    [
        ("DRAPrioritizedList", either("r", asks()), []),
        ("DRAAdminAccess", exactly(adminAccess=False), []),
        ("DRAConsumableCapacity", exactly(capacity={"requests": {"memory": "1Gi"}}), []),
        ("DRAConsumableCapacity", exactly(), [{"distinctAttribute": "gpu.example.com/numa"}]),
    ],
)
def test_what_a_gate_that_is_off_makes_an_error(gate: str, request_: Object, constraints: list[Object]) -> None:
    objects = [using("p", "c"), device_class(), claim("c", request_, constraints=constraints)]
    assert demand(*objects, version="1.35", gates={gate: True}).refusal is None
    assert gate in str(demand(*objects, version="1.35", gates={gate: False}).refusal)


def test_pods_of_one_template_are_one_class_and_those_that_share_a_claim_another() -> None:
    objects = [node("a"), device_class(), claim("s", exactly())]
    objects += [claim(f"c{i}", exactly(), owner=f"p{i}") for i in range(3)] + [claim("c3", exactly(count=2), owner="p3")]
    pods = [using(f"p{i}", made=[f"c{i}"]) for i in range(4)] + [using("q0", "s"), using("q1", "s")]
    cluster = compiled(*objects, *pods)
    names = [[pod_key(cluster.snapshot.pods[i]).partition("/")[2] for i in cls.pods] for cls in cluster.classes]
    assert sorted(names) == [["p0", "p1", "p2"], ["p3"], ["q0", "q1"]]


def test_nothing_asked_costs_nothing() -> None:
    assert compiled(node("a"), published("1", devices("d"), of="a"), device_class(), using("p")).devices is None


def containers(*amounts: int, init: tuple[tuple[int, bool], ...] = ()) -> Object:
    found = using("p")
    found["spec"]["containers"] = [{"name": f"c{i}", "resources": {"requests": {FAST: str(n)}}} for i, n in enumerate(amounts)]
    found["spec"]["initContainers"] = [
        {"name": f"i{i}", "resources": {"requests": {"a": "1", FAST: str(n)}}, **({"restartPolicy": "Always"} if sidecar else {})}
        for i, (n, sidecar) in enumerate(init)
    ]
    return found


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        (containers(2, 1), [("c-0-r-0", 2), ("c-1-r-0", 1)]),
        (containers(1, init=((1, False),)), [("c-1-r-0", 1)]),
        (containers(1, init=((3, False), (2, False))), [("c-0-r-1", 2), ("c-2-r-0", 1)]),
        (
            containers(1, init=((1, True), (3, False))),
            [("c-0-r-1", 1), ("c-1-r-1", 2), ("c-2-r-0", 1)],
        ),
        (
            containers(1, init=((3, False), (1, True))),
            [("c-0-r-1", 1), ("c-1-r-1", 1), ("c-2-r-0", 1)],
        ),
    ],
)
def test_extended_resources_by_container(pod: Object, requests: list[tuple[str, int]]) -> None:
    (found,) = demand(pod, device_class(extendedResourceName=FAST)).extended
    assert sorted((each.name.replace("container", "c").replace("request", "r"), each.count) for each in found.requests) == requests


def test_the_class_of_an_extended_resource() -> None:
    old = {**device_class("b", extendedResourceName=FAST)}
    old["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    new = [device_class(name, extendedResourceName=FAST) for name in ("d", "c")]
    for each in new:
        each["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert [each.device_class for each in demand(containers(1), old, *new).extended] == ["c"]
    implicit = containers(1)
    implicit["spec"]["containers"][0]["resources"]["requests"] = {"deviceclass.resource.kubernetes.io/b": "1", "example.com/other": "1"}
    found = demand(implicit, old)
    assert ([each.device_class for each in found.extended], found.unbacked) == (["b"], ("example.com/other",))
    assert demand(containers(1), old, gates={"DRAExtendedResource": False}).extended == ()


def test_a_claim_of_an_earlier_attempt_keeps_the_pod_away() -> None:
    remaining = claim(
        "left",
        exactly(),
        owner="p",
        metadata=LEFT,
        gets=[got("a", "d")],
    )
    assert demand(containers(1), device_class(extendedResourceName=FAST), remaining).refusal is not None
