"""Findings about control planes in the usual layouts of clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.audit.catalogue import CODES
from kubestow.audit.checks.control_plane.check import check, describe
from kubestow.audit.view.view import ClusterView
from kubestow.models.snapshot.snapshot import load
from tests.audit.control_planes import (
    ALL,
    HOST_ID,
    HOSTNAME,
    REGION,
    ROLE,
    ZONE,
    codes,
    described,
    found,
    look,
    member,
    plane,
    static,
)
from tests.objects import Object, node, pod

INSTANCES = Path(__file__).resolve().parents[4] / "instances" / "audit"
OWN = sorted(code for code in CODES if code.startswith("KS9"))
SPREAD = {"h0": "a", "h1": "b", "h2": "c"}
ALSO = {"KS901": {"KS903"}, "KS903": {"KS904"}, "KS905": {"KS913"}, "KS907": {"KS913"}}
WORKER = "node-role.kubernetes.io/worker"


def of(path: Path) -> list[str]:
    return [finding.code for finding in check(ClusterView(load([str(path)])))]


@pytest.mark.parametrize("code", OWN)
def test_fixed_instances_have_no_finding_about_the_control_plane(code: str) -> None:
    (fixed,) = INSTANCES.glob(f"{code}-*-fixed.yaml")
    assert of(fixed) == []


@pytest.mark.parametrize(
    ("code", "also"),
    [(code, ALSO.get(code, set())) for code in OWN],
)
def test_instances_have_no_finding_but_those_they_name(code: str, also: set[str]) -> None:
    (triggers,) = (path for path in INSTANCES.glob(f"{code}-*.yaml") if not path.stem.endswith("-fixed"))
    assert set(of(triggers)) == {code} | also


def test_three_machines_with_every_component() -> None:
    objects = plane(["h0", "h1", "h2"], **SPREAD)
    assert codes(objects) == []
    document = described(objects)
    assert (document.grade, document.etcd, document.machineLabel) == ("machines", "stacked", HOST_ID)
    assert [(part.component, part.instances, part.most, part.survives) for part in document.components] == [
        ("kube-apiserver", 3, 1, 2),
        ("kube-controller-manager", 3, 1, 2),
        ("kube-scheduler", 3, 1, 2),
        ("etcd", 3, 1, 1),
    ]
    assert document.components[3].machines == {"h0": 1, "h1": 1, "h2": 1}


def test_a_single_node_is_told_once() -> None:
    """A single control-plane node is intended, with any number of workers, and is no error."""
    for workers in (0, 2):
        objects = [*plane(["h0"]), *(member(f"w-{k}", role=None, host=f"h{k + 1}") for k in range(workers))]
        (finding,) = found(objects)
        assert (finding.code, finding.object, finding.severity, finding.nodes) == ("KS901", "ControlPlane", "warning", ["cp-0"])
        assert len(finding.pods) == 4
        assert described(objects).grade == "non-distributed"


def test_a_kind_cluster_with_workers_is_told_of_their_labels() -> None:
    """One control-plane node is on one machine, with any labels; the machines of the workers are unknown."""
    objects = [*plane([None]), member("w-0", role=None), member("w-1", role=None)]
    assert codes(objects) == ["KS901", "KS908"]
    assert found(objects)[-1].nodes == ["cp-0", "w-0", "w-1"]
    assert codes(plane([None])) == ["KS901"]


@pytest.mark.parametrize(
    ("hosts", "halves", "stops"),
    [
        (["h0", "h0"], 4, True),  # all on one
        (["h0", "h1"], 0, True),  # half and half; etcd has no majority left
        (["h0", "h0", "h1"], 4, True),  # two of three are more than half
        (["h0", "h0", "h1", "h1"], 0, True),  # exactly half, but a majority of four is three
        (["h0", "h0", "h1", "h2"], 0, True),
        (["h0", "h0", "h1", "h1", "h2"], 0, False),  # two of five
        (["h0", "h0", "h0", "h1", "h2"], 4, True),
    ],
)
def test_no_more_than_half_on_a_machine(hosts: list[str], halves: int, stops: bool) -> None:
    names = codes(plane(hosts))
    assert names.count("KS902") == halves
    assert ("KS903" in names) == stops
    assert ("KS904" in names) == (len(hosts) % 2 == 0)


@pytest.mark.full
@given(st.lists(st.sampled_from(["h0", "h1", "h2", "h3"]), min_size=1, max_size=7))
def test_machines_findings_follow_from_the_counts(hosts: list[str]) -> None:
    objects = plane(hosts)
    names = codes(objects)
    total, most = len(hosts), max(hosts.count(host) for host in hosts)
    assert ("KS901" in names) == (total == 1)
    assert ("KS902" in names) == (total > 1 and 2 * most > total)
    outlived = total - most > total // 2  # etcd's majority is the last to be kept
    assert ("KS903" in names) == (not outlived and total > 1)
    assert ("KS904" in names) == (total % 2 == 0)
    document = described(objects)
    assert document.grade == ("machines" if outlived else "non-distributed")
    assert all(part.most == most and sum(part.machines.values()) == total for part in document.components)


def test_hostnames_do_not_tell_machines() -> None:
    objects = plane([None] * 3)
    (finding,) = found(objects)
    assert finding.code == "KS905"
    assert finding.message == (f"no node of the control plane has {HOST_ID}: its 3 nodes are on at least one and at most 3 machines")
    document = described(objects)
    assert (document.grade, document.machineLabel, document.stages[0].known) == ("unknown", HOSTNAME, False)
    assert codes(objects, machine_labels=(HOSTNAME,)) == []
    assert described(objects, machine_labels=(HOSTNAME,)).grade == "machines"


def test_a_label_on_some_nodes_does_not_count() -> None:
    (finding,) = found(plane(["h0", "h1", None]))
    assert (finding.code, finding.nodes) == ("KS905", ["cp-2"])
    assert "cp-2 of the control plane lacks" in finding.message


def zoned(*zones: str) -> list[Object]:
    nodes = [member(f"cp-{i}", zone=zone, topology_kubernetes_io__region="r") for i, zone in enumerate(zones)]
    return nodes + [static(part, f"cp-{i}") for part in ALL for i in range(len(zones))]


def test_zones_tell_something_of_machines() -> None:
    """Three masters in two zones are on at least two machines, but two masters may share one."""
    (unknown, stage) = found(zoned("a", "a", "b"))
    assert (unknown.code, stage.code) == ("KS905", "KS906")
    assert "at least 2, as they are in 2 zones, and at most 3 machines" in unknown.message
    assert (stage.message, stage.domain) == (
        "its 3 nodes are in 2 zones; the failure of zone a leaves 1 of 3 members of etcd (2 needed)",
        f"{ZONE}=a",
    )
    assert described(zoned("a", "a", "b")).grade == "unknown"


def test_a_zone_for_each_node_is_a_machine_for_each_node() -> None:
    objects = zoned("a", "b", "c")
    assert codes(objects) == ["KS908"]  # the machines are known, though not by a label
    document = described(objects)
    assert document.grade == "machines"
    assert [(stage.name, stage.reached, stage.known) for stage in document.stages] == [
        ("machines", True, True),
        ("zones", True, True),
        ("clouds", False, False),
        ("locations", False, True),
    ]


def test_five_nodes_in_three_zones_are_on_three_machines_at_least() -> None:
    objects = zoned("a", "a", "b", "b", "c")
    assert codes(objects) == ["KS905"]
    document = described(objects)
    assert (document.grade, document.stages[0].known, document.stages[0].reached) == ("machines", False, True)


def test_further_stages_are_found_where_they_are_asked_for() -> None:
    objects = plane(["h0", "h1", "h2"], **SPREAD)
    for one in objects[:3]:
        one["metadata"]["labels"] |= {REGION: "r", "cloud": "x"}
    assert codes(objects) == []
    asked = {"clouds": "cloud", "locations": REGION}
    findings = found(objects, stage_labels=asked)
    assert [(finding.code, finding.domain) for finding in findings] == [("KS906", "cloud=x"), ("KS906", f"{REGION}=r")]
    assert "its 3 nodes are in one cloud; the failure of cloud x leaves 0 of 3 kube-apiserver" in findings[0].message
    for i, one in enumerate(objects[:3]):
        one["metadata"]["labels"] |= {REGION: f"r{i}", "cloud": f"c{i}"}
    assert codes(objects, stage_labels=asked) == []
    assert described(objects).grade == "locations"
    del objects[0]["metadata"]["labels"][REGION]
    assert described(objects, stage_labels=asked).grade == "clouds"


def test_a_label_that_was_asked_for_and_is_nowhere() -> None:
    objects = plane(["h0", "h1", "h2"], **SPREAD)
    (finding,) = found(objects, stage_labels={"clouds": "colud"})
    assert (finding.code, finding.severity) == ("KS907", "warning")
    (finding,) = found(objects, machine_labels=("rack",))
    assert finding.code == "KS908"  # three zones: the machines are known all the same
    assert "3 of 3 nodes lack rack" in finding.message
    assert "KS905" in codes(plane(["h0", "h1", "h2"]), machine_labels=("rack",))


def test_external_etcd_and_none() -> None:
    objects = plane(["h0", "h1", "h2"], ALL[:3], **SPREAD)
    (finding,) = found(objects)
    assert finding.code == "KS911"
    assert described(objects).etcd == "unknown"
    apart = [member(f"etcd-{i}", role=None, host=f"e{i}", zone="abc"[i]) for i in range(3)]
    objects += [*apart, *(static("etcd", f"etcd-{i}") for i in range(3))]
    assert codes(objects) == []
    document = described(objects)
    assert (document.etcd, len(document.nodes), document.workers) == ("external", 6, {})


def test_openshift_and_kops_label_their_pods_in_their_own_way() -> None:
    master = "node-role.kubernetes.io/master"
    nodes = [member(f"m-{i}", role=master, host=f"h{i}") for i in range(3)]
    pods: list[Object] = []
    for on in ("m-0", "m-1", "m-2"):
        for name in ALL:
            space = "openshift-etcd" if name == "etcd" else f"openshift-{name}"
            app = name if name in ("etcd", "kube-controller-manager") else f"openshift-{name}"
            pods.append(static(name, on, namespace=space, labels={"app": app}))
        pods.append(pod(f"guard-{on}", namespace="openshift-etcd", node_name=on, labels={"k8s-app": "etcd-quorum-guard"}))
        pods.append(pod(f"installer-9-{on}", namespace="openshift-kube-apiserver", node_name=on, labels={"app": "installer"}))
    document = described([*nodes, *pods])
    assert [(part.component, part.instances) for part in document.components] == [(name, 3) for name in ALL]
    kops = [
        static(f"etcd-manager-{which}", f"m-{i}", labels={"k8s-app": f"etcd-manager-{which}"})
        for i in range(3)
        for which in ("main", "events")
    ]
    document = described([*nodes, *kops, *(static("kube-apiserver", f"m-{i}", labels={"k8s-app": "kube-apiserver"}) for i in range(3))])
    assert [(part.component, part.survives) for part in document.components] == [("kube-apiserver", 2), ("etcd", 1), ("etcd-events", 1)]
    plain = described([*nodes, *(static(name, f"m-{i}", labels={}) for name in ALL for i in range(3))])
    assert [part.component for part in plain.components] == list(ALL)  # by their names alone


def test_nodes_without_a_role_that_run_api_servers_are_the_control_plane() -> None:
    objects = [member(f"n-{i}", role=None, host=f"h{i}") for i in range(4)]
    objects += [static(name, f"n-{i}") for name in ALL for i in range(3)]
    document = described(objects)
    assert document.nodes == ["n-0", "n-1", "n-2"]
    assert document.workers == {"h3": 1}


def test_other_peoples_etcd_and_pods_that_are_gone_do_not_count() -> None:
    objects = plane(["h0", "h1", "h2"], **SPREAD)
    other = pod("etcd-0", namespace="kube-system", node_name="cp-0", labels={"app": "etcd"})
    elsewhere = static("etcd", "cp-0", namespace="tenant")
    elsewhere["metadata"]["name"] = "etcd-1"
    over, going = static("kube-scheduler", "cp-0"), static("kube-scheduler", "cp-1")
    over["metadata"]["name"], over["status"] = "kube-scheduler-old", {"phase": "Failed"}
    going["metadata"] |= {"name": "kube-scheduler-going", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert described([*objects, other, elsewhere, over, going]) == described(objects)


def test_pods_on_nodes_that_the_snapshot_lacks_are_there_without_labels() -> None:
    objects = [one for one in plane(["h0", "h1", "h2"]) if one["metadata"]["name"] != "cp-2"]
    document = described(objects)
    assert (document.nodes, document.machineLabel) == (["cp-0", "cp-1", "cp-2"], None)
    assert [part.instances for part in document.components] == [3] * 4
    assert codes(objects) == ["KS905"]


def test_no_control_plane_is_not_an_error() -> None:
    view = look([node("n-0"), node("n-1"), pod("web", node_name="n-0")])
    assert list(check(view)) == []
    assert len(view.not_checked) == 1
    assert view.not_checked[0].startswith("the control plane: no node has its role")
    assert describe(view) is None
    nothing = look([])
    assert (list(check(nothing)), nothing.not_checked) == ([], [])


def test_workers_of_a_managed_cluster_are_looked_at_where_machines_are_named() -> None:
    workers = [member(f"w-{i}", role=None, host=host) for i, host in enumerate(["h0", "h0", None])]
    unlabelled, distribution = found(workers)
    assert (unlabelled.code, unlabelled.nodes) == ("KS908", ["w-2"])
    assert (distribution.code, distribution.severity) == ("KS909", "info")
    assert distribution.message == "2 of 3 workers are on this machine"


@pytest.mark.parametrize(
    ("hosts", "severity"),
    [(["h3", "h3"], "warning"), (["h3", "h3", "h4"], "info"), (["h3", "h3", "h4", "h4"], None), (["h3"], None), (["h0", "h1"], None)],
)
def test_workers_on_machines(hosts: list[str], severity: str | None) -> None:
    objects = [*plane(["h0", "h1", "h2"]), *(member(f"w-{i}", role=WORKER, host=host) for i, host in enumerate(hosts))]
    assert [(finding.code, finding.severity) for finding in found(objects)] == ([("KS909", severity)] if severity else [])
    assert sum(described(objects).workers.values()) == len(hosts)


def test_nodes_of_both_roles_are_workers_too() -> None:
    objects = plane(["h0", "h1", "h2"])
    for one in objects[:3]:
        one["metadata"]["labels"][WORKER] = ""
    assert described(objects).workers == {"h0": 1, "h1": 1, "h2": 1}
    assert described(plane(["h0", "h1", "h2"])).workers == {}


def test_k3s_has_roles_but_no_pods() -> None:
    labels: dict[str, Any] = {"node-role_kubernetes_io__etcd": "true"}
    servers = [member(f"s-{i}", host=f"h{i}", **labels) for i in range(3)]
    view = look(servers)
    assert {finding.code for finding in check(view)} == {"KS913"}
    assert [text.partition(":")[0] for text in view.not_checked] == ["the components of the control plane"]
    document = described(servers)
    assert (document.etcd, document.grade, [part.component for part in document.components]) == ("stacked", "machines", ["etcd"])


def test_a_role_alone_is_graded_by_its_nodes() -> None:
    assert codes([member("s-0", host="h0")]) == ["KS901", "KS911"]
    assert codes([member("s-0", host="h0"), member("s-1", host="h0")]) == ["KS902", "KS914", "KS903", "KS911"]
    objects = [member("s-0", host="h0"), member("s-1", host="h1")]
    assert codes(objects) == ["KS911"]
    assert (described(objects).grade, described(objects).components) == ("machines", [])


def test_components_that_are_not_among_the_pods_are_named() -> None:
    view = look(plane(["h0", "h1", "h2"], ("kube-apiserver", "etcd")))
    assert {finding.code for finding in check(view)} == {"KS913"}
    assert view.not_checked == ["kube-controller-manager, kube-scheduler: not among the pods of the control plane"]


def test_a_machine_in_two_zones() -> None:
    objects = [*plane(["h0", "h1", "h2"], **SPREAD), member("w-0", role=None, host="h0", zone="b")]
    (finding,) = found(objects)
    assert (finding.code, finding.object, finding.nodes) == ("KS910", "Machine h0", ["cp-0", "w-0"])
    assert finding.message == "its nodes are in 2 zones: a (cp-0), b (w-0)"


def test_old_roles_count() -> None:
    for role in (ROLE, "node-role.kubernetes.io/master", "node-role.kubernetes.io/controlplane"):
        assert described([member("n", role=role), node("m")]).nodes == ["n"]
