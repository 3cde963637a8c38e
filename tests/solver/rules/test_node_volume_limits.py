"""NodeVolumeLimits where a CSI driver is missing: verdicts by solver and checker, placements, causes."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.placement import rejecting_rules, verify
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.per_node import explain
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod
from tests.solver.explain.questions import within

ON = FeatureGates("1.36", (("VolumeLimitScaling", True),))
DISK = "disk.example.com"


def csi_node(name: str, *drivers: dict[str, Any]) -> dict[str, Any]:
    listed = [{"nodeID": name, **driver} for driver in drivers]
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": listed}}


def csi_driver(name: str, prevent: bool | None = True) -> dict[str, Any]:
    spec = {} if prevent is None else {"preventPodSchedulingIfMissing": prevent}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}


def storage_class(name: str, provisioner: str, mode: str = "WaitForFirstConsumer") -> dict[str, Any]:
    found = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**found, "provisioner": provisioner, "volumeBindingMode": mode}


def claim(name: str, storage: str, volume: str | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"], "storageClassName": storage, "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    if volume is not None:
        spec["volumeName"] = volume
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name: str, driver: str, bound: str | None = None, storage: str = "slow") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": storage,
        "csi": {"driver": driver, "volumeHandle": name},
    }  # fmt: skip
    if bound is not None:
        spec["claimRef"] = {"namespace": "default", "name": bound}
    phase = "Available" if bound is None else "Bound"
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def mounting(name: str, *claims: str, **more: Any) -> dict[str, Any]:
    return pod(name, volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)], **more)


def rejected(snapshot: Snapshot, name: str) -> set[str]:
    """The nodes that NodeVolumeLimits rejects, on which solver and checker agree."""
    (verdict,) = explain(snapshot, pod=f"default/{name}")
    (chosen,) = [p for p in snapshot.pods if p.metadata.name == name]
    for found in snapshot.nodes:
        here = found.metadata.name or ""
        assert rejecting_rules(snapshot, chosen, here) == verdict.rejected.get(here, [])
    return {n for n, rules in verdict.rejected.items() if "NodeVolumeLimits" in rules}


#: ``bare`` has no CSINode, ``other`` one without the driver, ``full`` no limit for it.
NODES = [node(n) for n in ("bare", "other", "full")] + [csi_node("other", {"name": "x.example.com"}), csi_node("full", {"name": DISK})]


@pytest.mark.parametrize("prevent", [True, False, None, "no object"])
@pytest.mark.parametrize("of", ["bound", "unbound", "lost", "immediate"])
def test_a_node_has_to_have_the_driver_that_a_pod_brings(prevent: bool | str | None, of: str) -> None:
    objects = [*NODES, storage_class("slow", DISK, "Immediate" if of == "immediate" else "WaitForFirstConsumer"), mounting("p", "c")]
    objects.append(claim("c", "slow", {"bound": "pv", "lost": "gone"}.get(of)))
    if of == "bound":
        objects += [volume("pv", DISK, "c")]
    if prevent != "no object":
        assert not isinstance(prevent, str)
        objects.append(csi_driver(DISK, prevent))
    snapshot = from_objects(objects)
    assert rejected(snapshot, "p") == set()
    snapshot.gates = ON
    assert rejected(snapshot, "p") == ({"bare", "other"} if prevent is True else set())


def test_the_driver_of_the_volume_counts_not_that_of_the_class_and_inline_volumes_do_not() -> None:
    inline = pod("inline", volumes=[{"name": "v", "csi": {"driver": DISK}}])
    objects = [*NODES, storage_class("slow", "x.example.com"), csi_driver(DISK), claim("c", "slow", "pv"), volume("pv", DISK, "c")]
    snapshot = from_objects([*objects, mounting("p", "c"), inline])
    snapshot.gates = ON
    assert rejected(snapshot, "p") == {"bare", "other"}
    assert rejected(snapshot, "inline") == set()


def test_a_volume_that_is_on_the_node_is_asked_about_all_the_same() -> None:
    objects = [*NODES, storage_class("slow", DISK), csi_driver(DISK), claim("c", "slow", "pv"), volume("pv", DISK, "c")]
    snapshot = from_objects([*objects, mounting("there", "c", node_name="other"), mounting("p", "c")])
    snapshot.gates = ON
    assert rejected(snapshot, "p") == {"bare", "other"}
    (verdict,) = explain(snapshot, pod="default/p")
    assert verdict.messages == {"NodeVolumeLimits": f"CSI driver {DISK} missing on 2"}


def test_both_reasons_are_named_where_both_are() -> None:
    nodes = [node("bare"), node("full"), csi_node("full", {"name": DISK, "allocatable": {"count": 0}})]
    snapshot = from_objects([*nodes, storage_class("slow", DISK), csi_driver(DISK), claim("c", "slow"), mounting("p", "c")])
    snapshot.gates = ON
    (verdict,) = explain(snapshot)
    assert verdict.rejected == {"bare": ["NodeVolumeLimits"], "full": ["NodeVolumeLimits"]}
    assert verdict.messages == {"NodeVolumeLimits": f"CSI driver {DISK} missing on 1, volume limit of {DISK}"}


def test_a_batch_goes_to_nodes_with_the_driver_and_a_cause_names_it() -> None:
    objects = [*NODES, storage_class("slow", DISK), csi_driver(DISK), *(claim(f"c{i}", "slow") for i in range(3))]
    snapshot = from_objects([*objects, *(mounting(f"p{i}", f"c{i}") for i in range(3))])
    snapshot.gates = ON
    result = place(snapshot, Options(deterministic=True))
    assert {a.node for a in result.assignments} == {"full"}
    assert verify(snapshot, result) == []
    snapshot = from_objects([*(o for o in objects if o["metadata"]["name"] != "full"), mounting("p0", "c0")])
    snapshot.gates = ON
    found = minimal_cause(PlacementQuestion(snapshot, (0,), 1), within(20))
    assert found is not None
    assert [fact.message for fact in found.facts] == [f"2 of 2 nodes lack the CSI driver {DISK} of volumes of default/p0"]


def test_a_claim_that_a_pod_has_bound_counts_under_its_volume_for_the_next() -> None:
    """The first pod of a claim is asked about the provisioner, which no CSIDriver has; the next ones about the volume that it took."""
    pods = [mounting(f"p{i}", "c", cpu="2") for i in range(3)]
    objects = [node("bare", cpu="4"), node("full", cpu="4"), csi_node("full", {"name": DISK}), csi_driver(DISK)]
    snapshot = from_objects(
        [*objects, storage_class("slow", "kubernetes.io/no-provisioner"), claim("c", "slow"), volume("pv", DISK), *pods]
    )
    snapshot.gates = ON
    assert rejected(snapshot, "p0") == set()
    result = place(snapshot, Options(deterministic=True))
    assert verify(snapshot, result) == []
    assert sorted(a.node for a in result.assignments) == ["bare", "full", "full"]
    assert result.assignments[0].node == "bare"


@pytest.mark.parametrize(("version", "placed"), [("1.35", 1), ("1.36", 1), ("1.37", 0)])
def test_by_default_the_driver_has_to_be_there_from_1_37_on(version: str, placed: int) -> None:
    """The field's input: a node of 1.37 without the driver that a claim to be provisioned needs."""
    objects = [node("bare"), csi_node("bare"), csi_driver(DISK), storage_class("fast", DISK), claim("c", "fast"), mounting("p", "c")]
    snapshot = from_objects(objects)
    snapshot.gates = FeatureGates(version)
    result = place(snapshot, Options(time_limit=5))
    assert len(result.assignments) == placed
    assert verify(snapshot, result) == []
