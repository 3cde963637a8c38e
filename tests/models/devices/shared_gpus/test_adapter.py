"""Shared GPUs of HAMi, Volcano and KAI: one small cluster of each, judged by DynamicResources with nothing else to know."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from kubestow.models.devices.shared_gpus import adapter
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import node

Object = dict[str, Any]
REGISTERED = {
    "hami": ("hami.io/node-nvidia-register", "GPU-a,10,32768,100,NVIDIA-Tesla V100,0,true:GPU-b,10,32768,100,NVIDIA-Tesla V100,0,true:"),
    "volcano": (
        "volcano.sh/node-vgpu-register",
        "GPU-a,10,32768,NVIDIA-Tesla V100,true,hami-core:GPU-b,10,32768,NVIDIA-Tesla V100,true,hami-core:",
    ),
}
ALLOCATED = {"hami": "hami.io/vgpu-devices-allocated", "volcano": "volcano.sh/vgpu-ids-new"}
NAMES = {
    "hami": ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    "volcano": ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"),
}
System = Literal["hami", "kai", "volcano"]


def pod(name: str, limits: Object | None = None, annotations: Object | None = None, at: str | None = None, **metadata: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"limits": limits or {}, "requests": {"cpu": "1"}}}
    spec: Object = {"containers": [container]} | ({"nodeName": at} if at is not None else {})
    phase = "Running" if at is not None else "Pending"
    head = {"name": name, "uid": f"u-{name}", "annotations": annotations or {}, **metadata}
    return {"kind": "Pod", "metadata": head, "spec": spec, "status": {"phase": phase}}


def adapted(system: System, *items: Object) -> Snapshot:
    found = from_objects(items)
    adapter.apply(found, system)
    return found


def results(found: Snapshot, name: str) -> list[tuple[str, str, dict[str, Any]]]:
    status = found.resource_claims[f"default/{name}-shared-gpus"].status
    assert status is not None
    assert status.allocation is not None
    assert status.allocation.devices is not None
    return [(each.pool, each.device, dict(each.consumedCapacity or {})) for each in status.allocation.devices.results or ()]


def request(found: Snapshot, name: str) -> Any:
    spec = found.resource_claims[f"default/{name}-shared-gpus"].spec
    assert spec is not None
    assert spec.devices is not None
    (only,) = spec.devices.requests or []
    return only


@pytest.mark.parametrize("system", ["hami", "volcano"])
def test_hami_and_volcano_cards_shares_and_asks(system: Literal["hami", "volcano"]) -> None:
    key, text = REGISTERED[system]
    number, memory, percentage, cores = NAMES[system]
    worker = node("n1")
    worker["metadata"]["annotations"] = {key: text}
    found = adapted(
        system,
        worker,
        pod("running", {number: "1", memory: "8000"}, {ALLOCATED[system]: "GPU-b,NVIDIA,8000,30:;"}, "n1"),
        pod("sized", {number: "2", memory: "3000", cores: "50"}),
        pod("part", {number: "1", percentage: "25"}),
        pod("alone", {number: "1", cores: "100"}, {"nvidia.com/use-gputype": "A100,v100"}),
        pod("other"),
    )
    (piece,) = found.resource_slices.values()
    assert [device.name for device in piece.spec.devices or ()] == ["gpu-0", "gpu-1"]
    capacity = (piece.spec.devices or [])[0].capacity or {}
    assert {name: each.value for name, each in capacity.items()} == {"memory": "32768Mi", "cores": 100, "slots": 10}
    assert results(found, "running") == [("n1", "gpu-1", {"memory": "8000Mi", "cores": 30, "slots": 1})]
    sized = request(found, "sized").exactly
    assert (sized.count, sized.capacity.requests) == (2, {"cores": 50, "memory": "3000Mi", "slots": 1})
    (part,) = request(found, "part").firstAvailable
    assert part.capacity.requests == {"cores": 0, "memory": "8192Mi", "slots": 1}
    alone = request(found, "alone").exactly
    assert alone.capacity.requests == {"cores": 100}  # an unnamed resource is taken as a whole
    assert [each.cel.expression.count("contains") for each in alone.selectors] == [2]
    assert "default/other-shared-gpus" not in found.resource_claims
    for each in found.pods:
        (container,) = each.spec.containers or []
        assert container.resources is not None
        assert container.resources.requests == {"cpu": "1"}


def test_kai_fractions_groups_and_whole_cards() -> None:
    labels = {"nvidia.com/gpu.count": "3", "nvidia.com/gpu.memory": "40000", "nvidia.com/gpu.product": "A100"}
    group = {"runai-gpu-group": "g"}
    found = adapted(
        "kai",
        node("n1", labels=labels),
        pod("first", annotations={"gpu-fraction": "0.5"}, at="n1", labels=group),
        pod("second", annotations={"gpu-memory": "4000"}, at="n1", labels=group),
        pod("whole", {"nvidia.com/gpu": "1"}, at="n1"),
        pod("reservation", {"nvidia.com/gpu": "1"}, at="n1", namespace="kai-resource-reservation"),
        pod("waits", annotations={"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}),
    )
    assert results(found, "first") == [("n1", "gpu-0", {"memory": "20000Mi", "cores": 0, "slots": 1})]
    assert results(found, "second") == [("n1", "gpu-0", {"memory": "4000Mi", "cores": 0, "slots": 1})]
    assert results(found, "whole") == [("n1", "gpu-1", {"memory": "40000Mi", "cores": 100, "slots": 1000})]
    assert "kai-resource-reservation/reservation-shared-gpus" not in found.resource_claims
    (part,) = request(found, "waits").firstAvailable
    assert (part.count, part.capacity.requests) == (2, {"cores": 0, "memory": "10000Mi", "slots": 1})


def test_applied_once_more_only_what_is_new_changes() -> None:
    worker = node("n1")
    worker["metadata"]["annotations"] = dict([REGISTERED["hami"]])
    found = adapted("hami", worker, pod("p", {"nvidia.com/gpu": "1"}))
    before = msgspec.json.encode([found.pods, found.resource_claims, found.resource_slices])
    adapter.apply(found, "hami")
    assert msgspec.json.encode([found.pods, found.resource_claims, found.resource_slices]) == before


def test_cards_that_are_broken_or_cannot_be_read_are_none() -> None:
    worker = node("n1")
    worker["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "a,10,32768,100,V,0,false:b,x,1,1,V,0,true:junk:c,1,2:"}
    assert not adapted("hami", worker).resource_slices


def test_devices_are_shared_whatever_the_version() -> None:
    found = from_objects([node("n1")])
    found.gates = FeatureGates("1.34")
    adapter.apply(found, "hami")
    assert found.gates.enabled("DRAConsumableCapacity")
    assert found.gates.version == "1.34"


@pytest.mark.parametrize(("text", "named"), [("lots", True), ("1.5", True), ("0.5", False)])
def test_an_amount_that_cannot_be_read_is_named(text: str, named: bool) -> None:
    found = adapted("kai", node("n1"), pod("p", annotations={"gpu-fraction": text}))
    assert list(found.not_understood) == (["default/p"] if named else [])


@pytest.mark.parametrize("system", ["hami", "volcano"])
def test_nodes_whose_cards_cannot_be_read_are_named(system: System) -> None:
    """Once, though pods that come later are added by another call."""
    key, text = REGISTERED[system]
    found = adapted(
        system,
        *(
            {**node(name), "metadata": {"name": name, "annotations": {key: annotation}}}
            for name, annotation in (("n1", text), ("n2", "GPU-a;10"))
        ),
    )
    adapter.apply(found, system)
    assert found.warnings == [f"sharedGPUs: {system}: {key} lists no shareable card on 1 node (n2)"]


@pytest.mark.parametrize(("system", "key"), [("kai", "nvidia.com/gpu.count"), ("hami", "hami.io/node-nvidia-register")])
def test_a_system_that_no_node_knows_is_said(system: System, key: str) -> None:
    assert adapted(system, node("n1")).warnings == [f"sharedGPUs: {system}: no node has {key}, so there are no cards to share"]
