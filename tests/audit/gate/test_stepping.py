"""Updates of StatefulSets and DaemonSets pod by pod: causes of a standstill, unchanged pods, and remedies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit.gate.test_changes import workload
from tests.audit.gate.test_gate import gate, only
from tests.objects import Object, node, pod

SURGE = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
LABELS = {"app": "web"}


def made(kind: str, **fields: Any) -> Object:
    """Workload shop/web; ``spec`` goes into its template's pod spec."""
    spec = fields.pop("spec", {})
    found = workload(kind, **fields)
    found["spec"]["template"]["spec"] |= spec
    return found


def running(kind: str, *places: str, cpu: str = "1", **spec: Any) -> list[Object]:
    """Old pods web-0, web-1, ... A place that ends in ``!`` has a pod that is not ready; an empty one has one that waits."""
    pods = []
    for i, place in enumerate(places):
        at = place.removesuffix("!") or None
        found = pod(f"web-{i}", namespace="shop", labels=LABELS, cpu=cpu, memory="0", node_name=at, owner=f"{kind}/web", **spec)
        if place.endswith("!"):
            found["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        pods.append(found)
    return pods


# --- DaemonSets -----------------------------------------------------------------------------------------------------------


def daemons(cpu: str = "1", strategy: Object = SURGE, nodes: str = "4", **spec: Any) -> Any:
    there = [node("n1", cpu=nodes), node("n2", cpu=nodes), made("DaemonSet", cpu=cpu, spec=spec, **strategy)]
    there += running("DaemonSet", "n1", "n2", cpu=cpu, **spec)
    return only(gate(there, [made("DaemonSet", cpu=cpu, image="web:2", spec=spec, **strategy)]))


PORT = {"containers": [{"name": "c", "image": "web:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}
APART = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABELS}}]
}


@pytest.mark.parametrize("affinity", [{}, {"affinity": {"podAntiAffinity": APART}}])
@pytest.mark.parametrize("cpu", ["1", "3"])
def test_a_surge_needs_room_next_to_the_old_pod(cpu: str, affinity: Object) -> None:
    found = daemons(cpu, **affinity)
    if cpu == "1" and not affinity:
        assert (found.fit, found.placed, found.replicas) == ("fits", 2, 2)
        return
    assert (found.fit, found.placed, found.replicas) == ("does not fit", 0, 2)
    assert "(maxSurge 1) sticks on node n1: the new pod does not run next to the old one, which stays" in found.cause
    assert found.fix == "maxUnavailable 1 and maxSurge 0 instead of maxSurge 1"


def test_a_surge_needs_the_host_ports_of_the_old_pod() -> None:
    there = [node("n1"), made("DaemonSet", spec=PORT, **SURGE), *running("DaemonSet", "n1", containers=PORT["containers"])]
    new = {"containers": [{**PORT["containers"][0], "image": "web:2"}]}
    found = only(gate(there, [made("DaemonSet", spec=new, **SURGE)]))
    assert found.fit == "does not fit"
    assert "host port 8080/TCP is taken" in (found.cause or "")


def test_old_pods_go_first_without_a_surge() -> None:
    assert daemons("3", {}).fit == "fits"


def test_an_old_pod_that_is_not_ready_goes_at_once() -> None:
    there = [node("n1"), made("DaemonSet", cpu="3", **SURGE), *running("DaemonSet", "n1!", cpu="3")]
    assert only(gate(there, [made("DaemonSet", cpu="3", image="web:2", **SURGE)])).fit == "fits"


def test_nodes_left_without_a_pod_are_named_and_no_gang_is() -> None:
    there = [node("n1"), node("n2", cpu="2"), made("DaemonSet"), *running("DaemonSet", "n1", "n2")]
    found = only(gate(there, [made("DaemonSet", cpu="3")]))
    assert (found.fit, found.placed, found.replicas) == ("does not fit", 1, 2)
    assert (found.cause or "").startswith("without a pod: node n2: ")
    assert "gang" not in f"{found.cause} {found.fix}"
    assert "metadata.name" not in f"{found.cause} {found.fix}"


# --- StatefulSets ---------------------------------------------------------------------------------------------------------


def sets(*places: str, cpu: str = "3", old: str = "3", **spec: Any) -> Any:
    there = [*(node(f"n{i}") for i in (1, 2, 3)), made("StatefulSet", replicas=3, cpu=old, **spec)]
    there += running("StatefulSet", *places, cpu=old)
    return only(gate(there, [made("StatefulSet", replicas=3, cpu=cpu, image="web:2", **spec)]))


def test_ordered_ready_waits_for_a_pod_that_no_node_takes() -> None:
    found = sets("", cpu="1", old="9")
    assert (found.fit, found.placed, found.replicas) == ("does not fit", 0, 3)
    assert "its update waits for pod web-0, which no node takes" in found.cause
    assert found.fix == "delete pod web-0"


def test_a_pod_that_waits_and_finds_a_place_stops_nothing() -> None:
    assert sets("", cpu="1", old="2").fit == "fits"


def test_ordered_ready_waits_for_a_pod_that_is_not_ready() -> None:
    found = sets("n1", "n2!", "n3")
    assert (found.fit, found.fix) == ("unproved", "delete pod web-1")
    assert "web-1, which is not ready on its node" in found.cause


def test_parallel_waits_for_no_old_pod() -> None:
    assert sets("n1", "n2!", "n3", podManagementPolicy="Parallel").fit == "fits"


@pytest.mark.parametrize(("partition", "fit"), [(0, "does not fit"), (2, "does not fit"), (3, "fits")])
def test_a_partition_keeps_the_pods_of_lower_ordinals(partition: int, fit: str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    assert sets("n1", "n2", "n3", cpu="5", updateStrategy=strategy).fit == fit


def test_a_partition_updates_the_others() -> None:
    """Only n3 has room for the larger pod."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    there = [node("n1", cpu="2"), node("n2", cpu="2"), node("n3"), made("StatefulSet", replicas=3, cpu="2", updateStrategy=strategy)]
    there += running("StatefulSet", "n1", "n2", "n3", cpu="2")
    assert only(gate(there, [made("StatefulSet", replicas=3, cpu="4", updateStrategy=strategy)])).fit == "fits"


# --- what rests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_on_delete_replaces_nothing(kind: str) -> None:
    there = [node("n1"), made(kind, replicas=1, updateStrategy={"type": "OnDelete"}), *running(kind, "n1")]
    found = gate(there, [made(kind, replicas=1, cpu="9", updateStrategy={"type": "OnDelete"})])
    assert only(found).fit == "fits"
    assert any("its strategy is OnDelete" in note for note in found.check.notes)


def test_a_paused_deployment_rolls_nothing() -> None:
    there = [node("n1"), made("Deployment", replicas=1), *running("Deployment", "n1")]
    found = gate(there, [made("Deployment", replicas=1, cpu="9", paused=True)])
    assert only(found).fit == "fits"
    assert any("it is paused" in note for note in found.check.notes)
