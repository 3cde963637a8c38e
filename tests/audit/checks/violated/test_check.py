"""Hard rules that running pods break: the findings agree with the checker of plans, and their texts with the objects."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from kubestow.audit.checks.violated import check, required_during_execution
from kubestow.audit.view.view import ClusterView
from kubestow.checker.plan.state import Board
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.execution_violators import Enforced
from tests import tiny
from tests.checker.plan.plans import apart, plan, running, spread, together
from tests.objects import node, pod
from tests.plans import tiny as plans

Object = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
VOLUMES = {"VolumeBinding": "KS109", "VolumeZone": "KS110", "VolumeRestrictions": "KS111", "NodeVolumeLimits": "KS112"}


def found(*things: Object, exempt: tuple[str, ...] = ()) -> list[Finding]:
    return list(check.check(ClusterView(from_objects(things), exempt=exempt)))


def only(*things: Object) -> Finding:
    """The one finding."""
    (finding,) = found(*things)
    return finding


def codes(*things: Object) -> list[str]:
    return [finding.code for finding in found(*things)]


# --- agreement with the checker of plans ------------------------------------------------------------------------------------


def everything_bound(seed: int, kind: str) -> list[Object]:
    """A tiny random cluster whose pods all run, each on a node drawn for it."""
    things = tiny.snapshot(seed, kind, nodes=3, pods=5)
    rng = random.Random(f"bound-{seed}")
    names = [thing["metadata"]["name"] for thing in things if thing["kind"] == "Node"]
    return [
        {**thing, "spec": {**thing["spec"], "nodeName": rng.choice(names)}, "status": {"phase": "Running"}}
        if thing["kind"] == "Pod" and "nodeName" not in thing["spec"]
        else thing
        for thing in things
    ]


def agree(things: list[Object], exempt: tuple[str, ...] = ()) -> None:
    """Rule by rule the pods that findings name are those that the checker says break it."""
    snapshot = from_objects(things)
    view = ClusterView(snapshot, exempt=exempt)
    findings = [*check.check(view), *required_during_execution.check(view)]
    board = Board(snapshot, (), exempt)
    steady = {key for key, runner in board.runners.items() if runner.at is not None and runner.steady}
    static = {pod_key(pod) for pod in snapshot.pods if is_mirror(pod)}  # their kubelet asks for neither
    wanted: dict[str, set[str]] = defaultdict(set)
    for key in steady:
        for rule in board.broken(board.runners[key]):
            if not (rule in ("NodeAffinity", "TaintToleration") and key in static):
                wanted[rule].add(key)
    by_rule: dict[str | None, set[str]] = defaultdict(set)
    by_code: dict[str, set[str]] = defaultdict(set)
    order = Enforced(snapshot, exempt).order()
    behind = {pod_key(snapshot.pods[i]) for i, cause in order.items() if i != cause}  # they go because they must run near others
    for finding in findings:
        by_rule[finding.rule] |= (steady & set(finding.pods)) - (behind if finding.code in ("KS121", "KS122", "KS123") else set())
        by_code[finding.code] |= steady & set(finding.pods)
    for rule in ("NodeAffinity", "TaintToleration", "NodePorts", "PodTopologySpread"):
        assert by_rule[rule] == wanted[rule], rule
    # Of rules that hold during execution only those are named that would have to go, and nobody for pods that go anyway.
    assert by_rule["InterPodAffinity"] <= wanted["InterPodAffinity"]
    if not any(
        f"{part}': {{'requiredDuringSchedulingRequired" in str(thing) for thing in things for part in ("podAffinity", "podAntiAffinity")
    ):
        assert by_rule["InterPodAffinity"] == wanted["InterPodAffinity"]
    full = {
        name
        for name, held in board.places.items()
        if held.pods > held.capacity.get("pods", 0) or any(a > held.capacity.get(r, 0) for r, a in held.used.items())
    }
    assert {name for finding in findings if finding.code == "KS105" for name in finding.nodes} == full
    assert wanted["NodeResourcesFit"] <= {key for key in steady if board.runners[key].node in full}
    if snapshot.persistent_volume_claims:
        for rule, code in VOLUMES.items():
            assert wanted[rule] <= by_code[code] | by_code["KS113"], rule
            assert by_code[code] <= wanted[rule] or code == "KS112", rule  # it names those that share a volume there, too
        assert by_code["KS113"] <= wanted["VolumeBinding"]
    if not exempt:
        _, document = plan(snapshot, ("repair",), ())
        for rule in ("NodeAffinity", "TaintToleration", "NodePorts", "PodTopologySpread"):
            assert static or document.before.rules.get(rule, 0) == len(by_rule[rule]), rule


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_agrees_with_the_checker_of_plans(kind: str) -> None:
    for seed in range(20):
        agree(everything_bound(seed, kind), ("other",) if seed % 5 == 0 else ())


@pytest.mark.full
@pytest.mark.parametrize("kind", plans.KINDS)
def test_agrees_with_the_checker_on_clusters_to_be_rebalanced(kind: str) -> None:
    for seed in range(20):
        agree(plans.cluster(seed, kind))


# --- nodes and their pods ---------------------------------------------------------------------------------------------------


def test_daemon_sets_count_and_static_pods_do_not() -> None:
    """The kubelet runs static pods even if a scheduler would not place these on its node."""
    static = pod("etcd-n0", node_name="n0", selector={"disk": "ssd"}, namespace="kube-system")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    agents = [running(f"agent-{i}", f"n{i}", owner="DaemonSet/agent", selector={"disk": "ssd"}) for i in range(2)]
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    findings = found(node("n0", taints=[taint]), node("n1"), static, *agents)
    assert {(f.code, f.object, tuple(f.pods)) for f in findings} == {
        ("KS101", "DaemonSet default/agent", ("default/agent-0", "default/agent-1")),
        ("KS102", "DaemonSet default/agent", ("default/agent-0",)),
    }


def test_pods_of_a_workload_are_one_finding_with_their_share() -> None:
    pods = [running(f"web-{i}", f"n{i}", selector={"disk": "ssd"}) for i in range(3)]
    finding = only(node("n0"), node("n1"), node("n2", labels={"disk": "ssd"}), *pods)
    assert finding.message == "excluded by nodeSelector disk=ssd: n0, n1, where 2 of 3 pods run"
    assert (finding.nodes, finding.rule, finding.field) == (["n0", "n1"], "NodeAffinity", "spec")


def test_a_cordon_breaks_nothing_and_a_condition_is_no_more_than_a_note() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert codes(node("n0", unschedulable=True, taints=[cordon]), running("web-0", "n0")) == []
    pressure = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    finding = only(node("n0", taints=[pressure]), running("web-0", "n0"))
    assert (finding.code, finding.severity) == ("KS102", "info")
    gone = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    finding = only(node("n0", taints=[gone]), running("web-0", "n0"))
    assert (finding.code, finding.severity) == ("KS103", "error")


def test_each_taint_is_told_apart() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "x", "effect": "NoExecute"}]
    findings = found(node("n0", taints=taints), running("web-0", "n0"), running("db-0", "n0", tolerations=[{"operator": "Exists"}]))
    assert [(f.code, f.message) for f in findings] == [
        ("KS102", "taint a:NoSchedule is not tolerated on n0, where its pod runs"),
        ("KS103", "taint b=x:NoExecute is not tolerated on n0, where its pod runs"),
    ]


def test_pods_that_are_over_or_being_deleted_break_nothing() -> None:
    over, going = (running(f"{name}-0", "n0", selector={"disk": "ssd"}) for name in ("over", "going"))
    over["status"]["phase"] = "Failed"
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert codes(node("n0"), over, going) == []


def port(number: int, **more: str) -> list[Object]:
    return [{"name": "c", "ports": [{"containerPort": 80, "hostPort": number, **more}]}]


def test_host_ports_conflict_by_address_and_protocol() -> None:
    one = running("a-0", "n0", containers=port(80, hostIP="10.0.0.1"))
    assert codes(node("n0"), one, running("b-0", "n0", containers=port(80, hostIP="10.0.0.2"))) == []
    assert codes(node("n0"), one, running("b-0", "n0", containers=port(80, protocol="UDP"))) == []
    finding = only(node("n0"), one, running("b-0", "n0", containers=port(80)), running("c-0", "n0", containers=port(80, hostIP="10.0.0.2")))
    assert finding.code == "KS104"
    assert finding.pods == ["default/a-0", "default/b-0", "default/c-0"]  # b with each of the others


def test_one_conflict_on_many_nodes_is_one_finding() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    pods = [running(f"{app}-{i}", f"n{i}", owner=f"DaemonSet/{app}", containers=port(80)) for app in "ab" for i in range(3)]
    finding = only(*nodes, *pods)
    assert (finding.object, finding.nodes, len(finding.pods)) == ("DaemonSet default/a", ["n0", "n1", "n2"], 6)


def going(*pods: Object, cpu: str = "2", slots: str = "110") -> list[str]:
    """Names of those that would have to go from a node."""
    finding = only(node("n0", cpu=cpu, pods=slots), *pods)
    assert (finding.code, finding.object) == ("KS105", "Node n0")
    return [key.partition("/")[2] for key in finding.pods]


def test_the_lowest_priority_goes_first_and_nobody_in_vain() -> None:
    low, middle, high = ((f"{name}-0", priority) for name, priority in (("low", 0), ("middle", 10), ("high", 100)))

    def sized(*sizes: str) -> list[Object]:
        return [running(name, "n0", cpu=cpu, priority=p) for (name, p), cpu in zip((low, middle, high), sizes, strict=True)]

    assert going(*sized("500m", "1", "1")) == ["low-0"]
    assert going(*sized("1", "1", "2")) == ["low-0", "middle-0"]
    assert going(*sized("100m", "2", "1500m")) == ["middle-0"]  # low is too small to help, and stays once middle is gone
    assert going(*sized("0", "1500m", "1")) == ["middle-0"]  # low-0 requests no cpu
    assert going(*sized("0", "0", "0"), slots="2") == ["low-0"]


def test_the_youngest_of_equals_goes_first_and_static_pods_last() -> None:
    pods = [running(f"a-{i}", "n0", cpu="1") for i in range(3)]
    for each, day in zip(pods, (1, 3, 2), strict=True):
        each["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
    assert going(*pods) == ["a-1"]
    pods[1]["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert going(*pods) == ["a-2"]
    assert going(*pods, cpu="0") == ["a-2", "a-0", "a-1"]


def test_pods_that_are_being_deleted_leave_room() -> None:
    leaving = running("old-0", "n0", cpu="2")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    finding = only(node("n0", cpu="3"), leaving, running("new-0", "n0", cpu="2"))
    assert (finding.code, finding.pods) == ("KS105", [])
    assert "terminating pods" in finding.message


def test_what_was_resized_in_place_counts_as_the_larger_of_spec_and_status() -> None:
    grown = running("a-0", "n0", cpu="1")
    grown["status"]["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]
    finding = only(node("n0", cpu="2"), grown, running("b-0", "n0", cpu="1", priority=5))
    assert finding.message.startswith("2500m CPU requested, 500m CPU above allocatable; pods to remove, in this order: default/a-0")
    grown["status"]["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]
    assert codes(node("n0", cpu="2"), grown, running("b-0", "n0", cpu="1", priority=5)) == []


def test_amounts_beyond_64_bits_are_summed_exactly() -> None:
    pods = [running(f"a-{i}", "n0", cpu="1", memory=str(2**62)) for i in range(2)]
    finding = only(node("n0", memory=str(2**62)), *pods)
    assert "8Ei memory requested, 4Ei memory above allocatable" in finding.message


# --- pods and each other ----------------------------------------------------------------------------------------------------


def test_affinity_without_its_pod_and_without_its_label() -> None:
    near = together("db", ZONE)
    zoned = [node("n0", labels={ZONE: "z0"}), node("n1", labels={ZONE: "z1"})]
    finding = only(*zoned, running("web-0", "n0", affinity=near), running("db-0", "n1"))
    assert (finding.code, finding.domain) == ("KS106", f"{ZONE}=z0")
    finding = only(node("n0"), *zoned[1:], running("web-0", "n0", affinity=near), running("db-0", "n0"))
    assert (finding.code, finding.domain) == ("KS106", None)
    assert f"n0 (no label {ZONE})" in finding.message


def test_the_first_of_its_kind_fulfils_its_own_affinity() -> None:
    own = together("web")
    assert codes(node("n0"), running("web-0", "n0", affinity=own)) == []
    assert codes(node("n0"), node("n1"), *(running(f"web-{i}", f"n{i}", affinity=own) for i in range(2))) == ["KS106"]


def test_anti_affinity_is_one_finding_for_both_sides() -> None:
    finding = only(node("n0"), running("a-0", "n0", affinity=apart("b")), running("b-0", "n0"))
    assert (finding.code, finding.object) == ("KS107", "ReplicaSet default/a")
    assert (finding.pods, finding.domain) == (["default/a-0", "default/b-0"], f"{HOST}=n0")


def test_anti_affinity_of_a_pod_that_is_being_deleted_is_told_of_the_other() -> None:
    owner = running("a-0", "n0", affinity=apart("b"))
    owner["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    finding = only(node("n0"), owner, running("b-0", "n0"))
    assert (finding.object, finding.pods) == ("ReplicaSet default/b", ["default/b-0"])
    owner = running("a-0", "n0", affinity=apart("b"))
    other = running("b-0", "n0")
    owner["metadata"]["deletionTimestamp"] = other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert codes(node("n0"), owner, other) == []


def test_namespaces_without_anti_affinity_are_left_out() -> None:
    pair = (running("a-0", "n0", affinity=apart("a")), running("a-1", "n0", affinity=apart("a")))
    assert [f.code for f in found(node("n0"), *pair)] == ["KS107"]
    assert found(node("n0"), *pair, exempt=("default",)) == []


def test_spread_counts_up_its_domains() -> None:
    nodes = [node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(3)]
    rule = spread("web", 1, ZONE)
    pods = [running(f"web-{i}", at, spread=rule) for i, at in enumerate(("n0", "n0", "n0", "n1"))]
    finding = only(*nodes, *pods)
    assert finding.code == "KS108"
    assert finding.message == (f"pods app=web by {ZONE}: z0 3, z1 1, z2 0, a skew of 3 with maxSkew 1; 3 of 4 pods run in {ZONE}=z0")
    assert finding.pods == ["default/web-0", "default/web-1", "default/web-2"]


def test_spread_with_too_few_domains_and_without_the_key() -> None:
    rule = spread("web", 1, ZONE)
    rule[0]["minDomains"] = 2
    pods = [running(f"web-{i}", "n0", spread=rule) for i in range(2)]
    finding = only(node("n0", labels={ZONE: "z0"}), *pods)
    assert "the minimum is 0 because only 1 of minDomains 2 exist" in finding.message
    finding = only(node("n0"), *pods)
    assert (finding.code, finding.nodes, finding.domain) == ("KS108", ["n0"], None)
    assert finding.message == f"no label {ZONE}, the topology key, on n0, where 2 of 2 pods run"


def test_only_some_of_many_domains_are_counted_up() -> None:
    nodes = [node(f"n{i}") for i in range(10)]
    pods = [running(f"web-{i}", "n3", spread=spread("web")) for i in range(2)]
    assert "n3 2, n0 0, n1 0, n2 0, n4 0, …, n9 0, a skew of 2" in only(*nodes, *pods).message


# --- volumes ----------------------------------------------------------------------------------------------------------------


def claim(name: str, volume: str | None = None, **status: Any) -> Object:
    spec: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
    if volume is not None:
        spec["volumeName"] = volume
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": spec, "status": {"phase": "Bound", **status},
    }  # fmt: skip


def volume(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": labels},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk"},
        "status": {"phase": "Bound"},
    }  # fmt: skip


def user(name: str = "db-0", claim_name: str = "c") -> Object:
    return running(name, "n0", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}])


CLASS = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
    "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
}  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ((claim("other", "pv"),), "there is no such claim"),
        ((claim("c", "pv") | {"metadata": {"name": "c", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}},),
         "the claim is being deleted"),
        ((claim("c", "pv", phase="Lost"),), "the claim has lost its volume"),
        ((claim("c", "gone"),), "its volume gone does not exist"),
        ((claim("c"),), "it is unbound, and the node can reach no volume"),
        ((claim("c") | {"spec": {"accessModes": ["ReadWriteOnce"]}},), "it is unbound"),
    ],
)  # fmt: skip
def test_claims_that_are_of_no_use(objects: Iterable[Object], why: str) -> None:
    finding = only(node("n0"), CLASS, volume("pv"), *objects, user())
    assert (finding.code, finding.message) == ("KS113", f"claim default/c: {why}; its pod runs on n0")


def test_zone_labels_of_volumes() -> None:
    there, elsewhere = node("n0", labels={ZONE: "z0"}), volume("pv", **{ZONE: "z1"})
    assert codes(there, claim("c", "pv"), elsewhere, user()) == ["KS110"]
    assert codes(node("n0"), claim("c", "pv"), elsewhere, user()) == []  # nodes without any zone take every volume
    agree([there, claim("c", "pv"), elsewhere, user()])


def test_what_was_not_captured_is_not_said_to_be_missing() -> None:
    view = ClusterView(from_objects([node("n0"), user()]))
    assert list(check.check(view)) == []
    assert view.not_checked == ["volumes of running pods: the snapshot holds no PersistentVolumeClaims"]
    view = ClusterView(from_objects([node("n0"), user(), claim("c", "pv")]))
    assert list(check.check(view)) == []
    assert view.not_checked == ["where volumes of running pods can be reached: the snapshot holds no PersistentVolumes"]
    view = ClusterView(from_objects([user()]))
    assert list(check.check(view)) == []
    assert view.not_checked == ["rules of running pods: the snapshot holds no nodes"]
    assert list(check.check(ClusterView(from_objects([pod("waits")])))) == []


def test_pods_on_a_node_that_is_not_there_are_one_finding_and_break_nothing_else() -> None:
    pods = [running(f"web-{i}", "gone", selector={"disk": "ssd"}) for i in range(2)]
    finding = only(node("n0"), *pods)
    assert (finding.code, finding.object, finding.rule) == ("KS114", "Node gone", None)
    assert finding.message == "2 pods are bound to it, but the snapshot has no such node: default/web-0, default/web-1"
