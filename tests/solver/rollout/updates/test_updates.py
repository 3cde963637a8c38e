"""``solve --rollout`` of StatefulSets and DaemonSets: small updates with a known end."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.placement import Placement, Rollout
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from kubestow.models.workloads.updates.update_input import MAX_UNAVAILABLE
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node, pod

APP = {"app": "db"}
HOST = "kubernetes.io/hostname"
APART = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, "labelSelector": {"matchLabels": APP}}]}
}


def workload(kind: str, name: str = "db", cpu: str = "1", **fields: Any) -> Object:
    """A StatefulSet or DaemonSet ``default/db``; ``pod_spec`` goes into the template, further fields into the spec."""
    template = {"metadata": {"labels": APP}, "spec": pod("t", cpu=cpu, **fields.pop("pod_spec", {}))["spec"]}
    spec = {"selector": {"matchLabels": APP}, "template": template, **fields}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}


def stateful(replicas: int = 3, **fields: Any) -> Object:
    return workload("StatefulSet", replicas=replicas, serviceName="db", **fields)


def old(kind: str, *places: str, cpu: str = "1", start: int = 0, **spec: Any) -> list[Object]:
    """Pods db-0, db-1, ... A place that ends in ``!`` has a pod that is not ready; an empty one has one that waits; ``-`` has none."""
    found = []
    for i, place in enumerate(places, start):
        if place == "-":
            continue
        made = pod(f"db-{i}", labels=APP, cpu=cpu, node_name=place.removesuffix("!") or None, owner=f"{kind}/db", **spec)
        if place:
            made["status"]["conditions"] = [{"type": "Ready", "status": str(not place.endswith("!"))}]
        found.append(made)
    return found


def rolled(objects: list[Object], manifest: Object | None = None, *, gate: bool = False, name: str = "db") -> Placement:
    snapshot = from_objects(objects)
    if gate:
        snapshot.gates = FeatureGates(given=((MAX_UNAVAILABLE, True),))
    manifests = from_objects([manifest], manifests=True) if manifest is not None else None
    return roll_out(snapshot, name, manifests, Options(deterministic=True))


def rollout(*args: Any, **more: Any) -> Rollout:
    found = rolled(*args, **more).rollout
    assert found is not None
    return found


def rolling(**fields: Any) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


NODES = [node("n1", cpu="2"), node("n2", cpu="2"), node("n3", cpu="2")]
RUNNING = old("StatefulSet", "n1", "n2", "n3")


def names(rollout: Rollout) -> list[tuple[list[str], list[str]]]:
    """Return by wave the pods that come, with their nodes, and those that go."""
    return [([f"{e.pod[8:]} {e.node}" for e in wave.create], [key[8:] for key in wave.delete]) for wave in rollout.waves]


# --- StatefulSets -----------------------------------------------------------------------------------------------------------


def test_pods_are_replaced_from_the_highest_ordinal_down() -> None:
    found = rollout([*NODES, stateful(), *RUNNING], stateful(cpu="2"))
    assert found.complete
    assert names(found) == [([], ["db-2"]), (["db-2 n3"], ["db-1"]), (["db-1 n2"], ["db-0"]), (["db-0 n1"], [])]


def test_the_pod_that_no_node_takes_is_named() -> None:
    found = rollout([node("n1", cpu="2"), node("n2", cpu="2"), node("n3", cpu="1"), stateful(), *RUNNING], stateful(cpu="2"))
    assert (found.complete, found.proved) == (False, True)
    assert found.halted == "stuck at pod db-2: no node takes it"
    assert [entry.pod for entry in found.stuck] == ["default/db-2"]


def test_a_halt_after_some_pods_names_the_next() -> None:
    found = rollout([node("n1", cpu="1"), node("n2", cpu="2"), node("n3", cpu="2"), stateful(), *RUNNING], stateful(cpu="2"))
    assert (found.complete, found.proved, found.halted) == (False, True, "stuck at pod db-0: no node takes it")
    assert sum(len(wave.create) for wave in found.waves) == 2
    assert [way.message for way in found.waysOut] == ["1 more node like n2"]


def test_ordered_ready_waits_for_a_pod_that_no_node_takes() -> None:
    found = rollout([*NODES, stateful(cpu="9"), *old("StatefulSet", "", cpu="9")], stateful(cpu="1"))
    assert (found.complete, found.proved) == (False, True)
    assert found.halted == ("stuck until pod db-0 is deleted: no node takes it, and OrderedReady updates no pod before all are ready")
    assert [(way.change, way.message) for way in found.waysOut] == [("deletePod", "delete pod db-0")]


def test_a_pod_that_waits_and_finds_a_place_gets_its_old_template_first() -> None:
    found = rollout([*NODES, stateful(1), *old("StatefulSet", "")], stateful(1, cpu="2"))
    assert found.complete
    assert [(entry.node, entry.old) for wave in found.waves for entry in wave.create] == [("n1", True), ("n1", False)]


def test_ordered_ready_waits_for_a_pod_that_is_not_ready() -> None:
    found = rollout([*NODES, stateful(), *old("StatefulSet", "n1", "n2!", "n3")])
    assert (found.complete, found.proved) == (False, False)
    assert (found.halted or "").startswith("stuck until pod db-1 is deleted or gets ready: it is not ready on node n2")
    assert [way.message for way in found.waysOut] == ["delete pod db-1"]


def test_parallel_waits_for_no_old_pod() -> None:
    found = rollout([*NODES, stateful(podManagementPolicy="Parallel"), *old("StatefulSet", "n1", "n2!", "n3")])
    assert found.complete
    assert found.podManagementPolicy == "Parallel"


def test_a_partition_keeps_the_pods_of_lower_ordinals() -> None:
    strategy = rolling(partition=2)
    result = rolled([*NODES, stateful(**strategy), *RUNNING], stateful(cpu="2", **strategy))
    assert result.rollout is not None
    assert (result.rollout.complete, result.rollout.partition) == (True, 2)
    assert names(result.rollout) == [([], ["db-2"]), (["db-2 n3"], [])]
    assert "partition 2 keeps 2 of 3 pods at their revision" in result.notes


def test_a_missing_pod_below_the_partition_is_made_of_the_old_template() -> None:
    strategy = rolling(partition=2)
    there = [*NODES, stateful(**strategy), *old("StatefulSet", "-", "n2", "n3")]
    found = rollout(there, stateful(cpu="2", **strategy))
    assert found.complete
    assert [(entry.pod, entry.old) for wave in found.waves for entry in wave.create] == [("default/db-0", True), ("default/db-2", False)]


def test_on_delete_rolls_nothing() -> None:
    strategy: Any = {"updateStrategy": {"type": "OnDelete"}}
    found = rollout([*NODES, stateful(**strategy), *RUNNING], stateful(cpu="2", **strategy))
    assert (found.complete, found.proved, found.strategy, found.waves) == (False, True, "OnDelete", [])
    assert found.halted == "nothing rolls: with strategy OnDelete a pod is replaced only when it is deleted"
    assert [way.message for way in found.waysOut] == ["strategy RollingUpdate instead of OnDelete"]


def test_more_pods_go_at_once_with_the_gate_of_max_unavailable() -> None:
    strategy = rolling(maxUnavailable=2)
    there = [*NODES, stateful(**strategy), *RUNNING]
    assert rollout(there, gate=True).waves[0].delete == ["default/db-2", "default/db-1"]
    result = rolled(there)
    assert result.rollout is not None
    assert result.rollout.waves[0].delete == ["default/db-2"]
    assert [entry.field for entry in result.unmodelled] == ["spec.updateStrategy.rollingUpdate.maxUnavailable"]


def test_with_the_gate_parallel_waits_for_pods_that_are_not_ready() -> None:
    there = [*NODES, stateful(podManagementPolicy="Parallel"), *old("StatefulSet", "n1!", "n2", "n3")]
    assert rollout(there).complete
    assert not rollout(there, gate=True).complete


def test_surplus_pods_go_first_and_one_that_is_not_ready_may_block() -> None:
    there = [*NODES, stateful(4), *old("StatefulSet", "n1", "n2", "n3", "n1")]
    assert names(rollout(there, stateful(3)))[0] == ([], ["db-3", "db-2"])
    blocked = [*NODES, stateful(5), *old("StatefulSet", "n1", "n2", "n3", "n1!", "n2!")]
    found = rollout(blocked, stateful(3))
    assert (found.complete, found.waves) == (False, [])


def test_quotas_stop_the_pod_that_is_missing() -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"cpu": "3"}}}
    found = rollout([*NODES, stateful(), *RUNNING, quota], stateful(cpu="2"))
    assert (found.complete, found.proved) == (False, True)
    assert (found.halted or "").startswith("stuck at pod db-2: it cannot be created: exceeded quota: q")
    assert found.refused is not None
    assert [way.message for way in found.waysOut] == ["raise quota q: cpu 6 instead of 3"]


# --- DaemonSets -------------------------------------------------------------------------------------------------------------

SURGE = rolling(maxSurge=1, maxUnavailable=0)


def test_old_pods_go_first_without_a_surge() -> None:
    found = rollout([*NODES, workload("DaemonSet"), *old("DaemonSet", "n1", "n2", "n3")], workload("DaemonSet", cpu="2"))
    assert found.complete
    assert [len(wave.delete) for wave in found.waves] == [1, 1, 1, 0]


@pytest.mark.parametrize("why", ["cpu", "port", "anti-affinity"])
def test_a_surge_sticks_at_the_first_node(why: str) -> None:
    spec: Any = {"affinity": APART} if why == "anti-affinity" else {}
    cpu = "2" if why == "cpu" else "1"
    first = workload("DaemonSet", cpu=cpu, pod_spec=spec, **SURGE)
    there = old("DaemonSet", "n1", "n2", "n3", cpu=cpu, **spec)
    if why == "port":
        for made in (first["spec"]["template"], *there):
            made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    found = rollout([*NODES, first, *there])
    assert (found.complete, found.proved) == (False, True)
    assert found.halted == (
        "stuck on node n1: the new pod does not fit next to the old one, which stays until the new one runs (maxSurge 1)"
    )
    assert found.withoutPod == []
    assert found.waysOut[0].message == "maxUnavailable 1 and maxSurge 0 instead of maxSurge 1"
    rule = {"cpu": "NodeResourcesFit", "port": "NodePorts", "anti-affinity": "InterPodAffinity"}[why]
    assert [reason.rule for reason in found.stuck[0].reasons] == [rule]


def test_nodes_left_without_a_pod_are_named() -> None:
    there = [node("n1", cpu="2"), node("n2", cpu="1"), workload("DaemonSet"), *old("DaemonSet", "n1", "n2")]
    result = rolled(there, workload("DaemonSet", cpu="2"))
    found = result.rollout
    assert found is not None
    assert (found.complete, found.proved, found.withoutPod) == (False, True, ["n2"])
    assert found.halted == "node without a pod: n2"
    assert [(tier.value, tier.bound) for tier in result.objective] == [(1, 1)]
    assert result.gangs == []


def test_a_surge_replaces_an_old_pod_that_is_not_ready() -> None:
    assert rollout([NODES[0], workload("DaemonSet", **SURGE), *old("DaemonSet", "n1!")]).complete


def test_pods_of_nodes_that_no_longer_qualify_go() -> None:
    there = [node("n1"), node("n2", labels={"disk": "ssd"}), workload("DaemonSet"), *old("DaemonSet", "n1", "n2")]
    found = rollout(there, workload("DaemonSet", pod_spec={"selector": {"disk": "ssd"}}))
    assert (found.complete, found.replicas) == (True, 1)


# --- names ------------------------------------------------------------------------------------------------------------------


def test_a_name_of_several_kinds_needs_its_kind() -> None:
    there = [*NODES, stateful(), *RUNNING, workload("DaemonSet")]
    with pytest.raises(InputError, match="a StatefulSet and a DaemonSet have this name, expected KIND/NAMESPACE/NAME"):
        rolled(there)
    assert rollout(there, name="sts/db").workload == "StatefulSet default/db"
    assert rollout(there, name="DaemonSet/default/db").workload == "DaemonSet default/db"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Job/db", "got a Job, expected one of"), ("sts/db", "no such StatefulSet in the snapshot"), ("db", "nor a StatefulSet or DaemonSet")],
)
def test_names_that_mean_nothing_are_refused(name: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        rolled([*NODES], name=name)


def test_a_daemon_set_with_a_surge_and_unavailable_pods_is_refused() -> None:
    with pytest.raises(InputError, match="expected one to be 0"):
        rolled([*NODES, workload("DaemonSet", **rolling(maxSurge=1, maxUnavailable=1))])


def test_the_snapshot_is_not_changed() -> None:
    snapshot: Snapshot = from_objects([*NODES, stateful(), *RUNNING])
    before = [each.metadata.name for each in snapshot.pods]
    roll_out(snapshot, "db", None, Options(deterministic=True))
    assert [each.metadata.name for each in snapshot.pods] == before


def test_a_paused_deployment_rolls_nothing() -> None:
    template = {"metadata": {"labels": APP}, "spec": pod("t")["spec"]}
    spec = {"replicas": 1, "paused": True, "selector": {"matchLabels": APP}, "template": template}
    paused = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    found = rollout([*NODES, paused], name="web")
    assert (found.complete, found.proved, found.waves) == (False, True, [])
    assert "nothing rolls: the Deployment is paused" in (found.halted or "")
    assert [way.change for way in found.waysOut] == ["resume"]


def test_new_pods_of_a_daemon_set_have_names_of_their_own() -> None:
    there = [NODES[0], workload("DaemonSet"), *old("DaemonSet", "n1")]
    made = rolled(there).assignments[0].pod
    there[2]["metadata"]["name"] = made.rpartition("/")[2]
    again = rolled(there)
    assert again.rollout is not None
    assert again.rollout.complete
    assert again.assignments[0].pod != made
