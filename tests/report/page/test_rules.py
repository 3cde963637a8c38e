"""The sentences that say what ties a pod, and the workloads that they name."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.report.page.data import build
from tests.objects import Object, node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def _data(*objects: Object) -> dict[str, Any]:
    return build(from_objects([node("a", labels={ZONE: "z1"}), *objects]), None, version="1")


def _rules(data: dict[str, Any], name: str) -> list[tuple[str, str]]:
    shape = data["shapes"][data["pods"]["shape"][data["pods"]["name"].index(f"default/{name}")]]
    return [(rule["rule"], rule["text"]) for rule in shape["rules"]]


def _tied(data: dict[str, Any], name: str, text: str) -> list[str]:
    shape = data["shapes"][data["pods"]["shape"][data["pods"]["name"].index(f"default/{name}")]]
    return [data["workloads"][w]["name"] for rule in shape["rules"] if rule["text"] == text for w in rule["workloads"]]


def _term(key: str, **labels: str) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def _affinity(kind: str, *required: Object, preferred: Object | None = None, weight: int = 7) -> Object:
    found: Object = {"requiredDuringSchedulingIgnoredDuringExecution": list(required)}
    if preferred is not None:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": weight, "podAffinityTerm": preferred}]
    return {kind: found}


def _nodes(*terms: Object, preferred: Object | None = None) -> Object:
    found: Object = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}} if terms else {}
    if preferred is not None:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 3, "preference": preferred}]
    return {"nodeAffinity": found}


def _is(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)} if values else {"key": key, "operator": operator}


def test_a_plain_pod_has_no_rules() -> None:
    assert _rules(_data(pod("p")), "p") == []


def test_nodes_that_a_pod_asks_for() -> None:
    wanted = _nodes(
        {"matchExpressions": [_is("disk", "In", "ssd", "nvme"), _is("gpu", "DoesNotExist")]},
        {"matchExpressions": [_is("cores", "Gt", "8")]},
        preferred={"matchExpressions": [_is("old", "NotIn", "yes")]},
    )
    data = _data(pod("p", selector={"pool": "main", "os": "linux"}, affinity=wanted))
    assert _rules(data, "p") == [
        ("NodeAffinity", "only on nodes with os=linux,pool=main"),
        ("NodeAffinity", "only on nodes with (disk in (ssd,nvme),!gpu) or (cores>8)"),
        ("NodeAffinity", "prefers nodes with old!=yes (weight 3)"),
    ]


def test_node_affinity_that_matches_nothing() -> None:
    assert _rules(_data(pod("p", affinity=_nodes({}))), "p") == [("NodeAffinity", "on no node: its node affinity is empty")]


def test_pods_of_a_daemonset_share_a_shape() -> None:
    pods = [
        pod(f"agent-{name}", node_name=name, owner="DaemonSet/agent", affinity=_nodes({"matchFields": [_is("metadata.name", "In", name)]}))
        for name in ("a", "b")
    ]
    data = _data(node("b"), *pods)
    assert data["pods"]["shape"] == [0, 0]
    assert _rules(data, "agent-a") == [("NodeAffinity", "only on its own node, as a pod of a DaemonSet")]


def test_taints_that_a_pod_tolerates_and_some_node_has() -> None:
    tainted = node("b", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], unschedulable=True)
    given = [{"key": "gpu", "operator": "Exists"}, {"key": "absent", "operator": "Exists"}]
    data = _data(tainted, pod("p", tolerations=given), pod("all", tolerations=[{"operator": "Exists"}]), pod("none"))
    assert _rules(data, "p") == [("TaintToleration", "may run on nodes tainted gpu=yes:NoSchedule")]
    assert _rules(data, "all") == [("TaintToleration", "tolerates every taint")]
    assert _rules(data, "none") == []


def test_what_a_pod_needs_of_the_kubelet() -> None:
    data = _data(pod("p", hostNetwork=True, hostUsers=False), pod("q", hostNetwork=True))
    assert _rules(data, "p") == [("NodeDeclaredFeatures", "only on nodes whose kubelet declares UserNamespacesHostNetworkSupport")]
    assert _rules(data, "q") == []


def test_the_operating_system_that_a_pod_names() -> None:
    data = _data(pod("p", os={"name": "windows"}), pod("q"))
    assert _rules(data, "p") == [("PodOS", "only on nodes that run windows")]
    assert _rules(data, "q") == []


def test_affinity_names_the_workloads_that_it_ties() -> None:
    web = [pod(f"web-{i}", labels={"app": "web"}, owner="StatefulSet/web") for i in range(2)]
    near = pod(
        "near", labels={"app": "near"}, affinity=_affinity("podAffinity", _term(HOST, app="web"), preferred=_term("rack", app="web"))
    )
    data = _data(*web, near)
    assert _rules(data, "near") == [
        ("InterPodAffinity", "only on a node with pods of app=web"),
        ("InterPodAffinity", "prefers a domain of rack with pods of app=web (weight 7)"),
    ]
    assert _tied(data, "near", "only on a node with pods of app=web") == ["StatefulSet default/web"]
    assert _rules(data, "web-0") == []


def test_anti_affinity_binds_both_sides() -> None:
    loud = pod(
        "loud", labels={"app": "loud"}, affinity=_affinity("podAntiAffinity", _term(ZONE, app="quiet"), preferred=_term(HOST, app="loud"))
    )
    data = _data(loud, pod("quiet", labels={"app": "quiet"}))
    assert _rules(data, "loud") == [
        ("InterPodAffinity", "never in a zone with pods of app=quiet"),
        ("InterPodAffinity", "avoids a node with other pods of app=loud (weight 7)"),
    ]
    away = "kept away from zones of Pod default/loud, by its anti-affinity"
    assert _rules(data, "quiet") == [("InterPodAffinity", away)]
    assert _tied(data, "quiet", away) == ["Pod default/loud"]


def test_terms_that_hold_while_a_pod_runs_say_so() -> None:
    stays = {"requiredDuringSchedulingRequiredDuringExecution": [_term(HOST, app="web")]}
    both = {**_affinity("podAffinity", _term(ZONE, app="web")), "podAntiAffinity": stays}
    both["podAffinity"] |= stays
    data = _data(pod("p", affinity=both))
    assert [text for _, text in _rules(data, "p")] == [
        "only in a zone with pods of app=web",
        "only on a node with pods of app=web, also while it runs",
        "never on a node with pods of app=web, also while it runs",
    ]


def test_a_pod_is_the_first_of_its_kind_only_where_it_matches_all_of_its_terms() -> None:
    terms = _affinity("podAffinity", _term(ZONE, app="web"), _term(HOST, app="db"))
    data = _data(pod("p", labels={"app": "web"}, affinity=terms))
    assert [text for _, text in _rules(data, "p")] == ["only in a zone with other pods of app=web", "only on a node with pods of app=db"]


def test_anti_affinity_of_other_pods_of_the_own_workload() -> None:
    """The new revision of a Deployment brings it; the old pods lack it and are kept away all the same."""
    new = pod("web-2-x", labels={"app": "web"}, owner="Deployment/web", affinity=_affinity("podAntiAffinity", _term(HOST, app="web")))
    data = _data(new, pod("web-1-x", labels={"app": "web"}, owner="Deployment/web"))
    assert _rules(data, "web-2-x") == [("InterPodAffinity", "never on a node with other pods of app=web")]
    assert _rules(data, "web-1-x") == [
        ("InterPodAffinity", "kept away from nodes of other pods of its workload, by their anti-affinity"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "phrase"),
    [
        ({"namespaces": ["other", "shop"]}, "pods of app=x in namespaces other, shop"),
        ({"namespaceSelector": {}}, "pods of app=x in any namespace"),
        ({"namespaceSelector": {"matchLabels": {"team": "t"}}}, "pods of app=x in namespace other"),
        ({"namespaceSelector": {"matchLabels": {"team": "none"}}}, "pods of app=x in no namespace"),
        ({"namespaces": ["default"]}, "pods of app=x"),
        ({"labelSelector": {}}, "other pods, unless it is the first such pod"),
        ({"labelSelector": {}, "namespaces": ["other"]}, "any pods in namespace other"),
        ({"labelSelector": {"matchLabels": {"rev": "1"}}}, "other pods of rev=1, unless it is the first such pod"),
        ({"labelSelector": {"matchExpressions": [_is("a", "Exists"), _is("b", "NotIn", "1", "2")]}}, "pods of a,b notin (1,2)"),
        ({"labelSelector": None}, "pods of a missing selector, which matches none"),
        ({"mismatchLabelKeys": ["rev"]}, "pods of app=x,rev!=1"),
    ],
)
def test_whom_a_term_means(more: Object, phrase: str) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "t"}}}
    term = {**_term(HOST, app="x"), **more}
    data = _data(namespace, pod("p", labels={"rev": "1"}, affinity=_affinity("podAffinity", term)))
    assert _rules(data, "p") == [("InterPodAffinity", f"only on a node with {phrase}")]


def test_spread_constraints() -> None:
    def constraint(key: str, hard: bool, **more: Any) -> Object:
        when = "DoNotSchedule" if hard else "ScheduleAnyway"
        return {"maxSkew": 2, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": {"matchLabels": {"app": "x"}}, **more}

    spread = [
        constraint(ZONE, True, minDomains=3),
        constraint(HOST, False, matchLabelKeys=["rev"]),
        constraint("rack", True, labelSelector=None),
    ]
    data = _data(pod("p", labels={"app": "x", "rev": "1"}, spread=spread))
    assert _rules(data, "p") == [
        ("PodTopologySpread", "pods of app=x differ by at most 2 between zones, with at least 3"),
        ("PodTopologySpread", "prefers that pods of app=x,rev=1 differ by at most 2 between nodes"),
        ("PodTopologySpread", "pods of a missing selector, which counts none, differ by at most 2 between domains of rack"),
    ]


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}, ""),
        ({"nodeAffinityPolicy": "Ignore"}, ", nodes count with those that its node affinity excludes"),
        ({"nodeTaintsPolicy": "Honor"}, ", nodes count without those whose taints it does not tolerate"),
        (
            {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
            ", nodes count with those that its node affinity excludes, and without those whose taints it does not tolerate",
        ),
    ],
)
def test_which_nodes_count_for_a_spread(policies: Object, words: str) -> None:
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}
    data = _data(pod("p", labels={"app": "x"}, spread=[{**spread, **policies}]))
    assert _rules(data, "p") == [("PodTopologySpread", f"pods of app=x differ by at most 1 between zones{words}")]


def test_the_clusters_default_spread() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}
    data = _data(service, pod("p", labels={"app": "x"}))
    text = "prefers, by the cluster's default, that pods of app=x differ by at most 3 between nodes and 5 between zones"
    assert _rules(data, "p") == [("PodTopologySpread", text)]


def test_what_a_pod_takes_of_its_node() -> None:
    found = pod("p", priority=5, overhead={"cpu": "250m", "memory": "1Mi"}, preemptionPolicy="Never")
    found["spec"]["containers"][0]["resources"]["requests"] |= {"example.com/gpu": "2", "ephemeral-storage": "1Gi"}
    found["spec"]["containers"][0]["ports"] = [
        {"containerPort": 1, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
        {"containerPort": 2, "hostPort": 443, "protocol": "TCP"},
    ]
    data = _data(found)
    assert _rules(data, "p") == [
        ("Priority", "priority 5, never preempts"),
        ("NodeResourcesFit", "also requests ephemeral-storage 1Gi, example.com/gpu 2"),
        ("NodeResourcesFit", "its requests include an overhead of cpu 250m, memory 1Mi"),
        ("NodePorts", "takes host ports TCP 443, UDP 53 of 10.0.0.1"),
    ]
    assert data["shapes"][0]["cpu"] == 350
    assert data["shapes"][0]["containers"] == [{"name": "c", "cpu": "100m", "memory": "128Mi", "init": False}]


def test_requests_of_a_pod_as_a_whole() -> None:
    data = _data(pod("p", resources={"requests": {"cpu": "2", "memory": "1Gi"}}))
    assert _rules(data, "p") == [("NodeResourcesFit", "requests cpu 2, memory 1Gi at pod level, regardless of its containers")]
    assert data["shapes"][0]["cpu"] == 2000


def test_init_containers_and_sidecars() -> None:
    found = pod("p", initContainers=[
        {"name": "i", "resources": {"requests": {"cpu": 2}}}, {"name": "s", "restartPolicy": "Always"},
    ])  # fmt: skip
    containers = _data(found)["shapes"][0]["containers"]
    assert [(c["name"], c["cpu"], c["init"]) for c in containers] == [("i", "2", True), ("s", "", False), ("c", "100m", False)]


def test_gates() -> None:
    assert _rules(_data(pod("p", schedulingGates=[{"name": "quota"}])), "p") == [("SchedulingGates", "waits for quota")]


def _budget(name: str, **spec: Any) -> Object:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_budgets() -> None:
    chosen = {"matchLabels": {"app": "x"}}
    running = pod("p", labels={"app": "x"}, node_name="a")
    data = _data(running, _budget("b", selector=chosen, minAvailable=1), _budget("other", selector={"matchLabels": {"app": "y"}}))
    assert _rules(data, "p") == [("PodDisruptionBudget", "default/b: minAvailable 1, no eviction allowed now")]
    data = _data(pod("p", labels={"app": "x"}), _budget("b", selector=chosen, maxUnavailable="50%"))
    assert _rules(data, "p") == [("PodDisruptionBudget", "default/b: maxUnavailable 50%")]


def _in_gang(name: str, **notes: str) -> Object:
    found = pod(name)
    found["metadata"]["annotations"] = {"kubestow.dev/gang": "train", **{f"kubestow.dev/{k}": v for k, v in notes.items()}}
    return found


def test_gangs() -> None:
    assert _rules(_data(_in_gang("p"), _in_gang("q")), "p") == [
        ("GangScheduling", "member of gang default/train: all 2 of its pods together, or none"),
    ]  # fmt: skip
    notes = {"min-member": "1", "required-topology": ZONE}
    assert _rules(_data(_in_gang("p", **notes), _in_gang("q", **notes)), "p") == [
        ("GangScheduling", "member of gang default/train: at least 1 of its pods together in one zone, or none"),
    ]  # fmt: skip


def test_container_affinity() -> None:
    found = pod("p")
    found["spec"]["containers"].append({"name": "d"})
    prefix = "resource-policy.nri.io/"
    scoped = "c:\n- scope: {key: namespace, operator: In, values: [x, y]}\n  match: {key: name, operator: Exists}\n  weight: 4\n"
    found["metadata"]["annotations"] = {f"{prefix}anti-affinity": "c: [d]", f"{prefix}affinity": scoped}
    assert _rules(_data(found), "p") == [
        ("ContainerAffinity", "container c wants to be close to containers where name Exists of pods where namespace In x, y (weight 4)"),
        ("ContainerAffinity", "container c wants to be away from containers where name In d of its pod (weight 1)"),
    ]
    found["metadata"]["annotations"] = {f"{prefix}affinity": "["}
    ((rule, text),) = _rules(_data({**found, "spec": {**found["spec"], "nodeName": "a"}}), "p")
    assert rule == "ContainerAffinity"
    assert text.startswith("invalid: Pod default/p: annotation resource-policy.nri.io/affinity")


def _claim(name: str, storage: str, volume: str | None = None, mode: str = "ReadWriteOnce") -> Object:
    spec: Object = {"accessModes": [mode], "storageClassName": storage, "resources": {"requests": {"storage": "1Gi"}}}
    if volume is not None:
        spec["volumeName"] = volume
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _class(name: str, provisioner: str, mode: str = "WaitForFirstConsumer", **more: Any) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": mode, **more,
    }  # fmt: skip


def _volume(name: str, labels: dict[str, str], *terms: Object) -> Object:
    spec: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(terms)}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _mounts(name: str, *claims: str) -> Object:
    return pod(name, volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)])


def test_volumes() -> None:
    where = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z2"]}]}]
    objects = [
        _class("cloud", "csi.example.com", allowedTopologies=where),
        _class("local", "kubernetes.io/no-provisioner"),
        _class("eager", "csi.example.com", "Immediate"),
        _volume("pv", {ZONE: "z1"}, {"matchExpressions": [_is(HOST, "In", "a")]}),
        _claim("new", "cloud", mode="ReadWriteOncePod"),
        _claim("free", "local"),
        _claim("early", "eager"),
        _claim("bound", "local", "pv"),
        _claim("broken", "local", "gone"),
    ]
    data = _data(
        *objects, *(_mounts(name, name) for name in ("new", "free", "early", "bound", "broken", "missing")), _mounts("two", "new", "new")
    )
    assert _rules(data, "new") == [
        ("VolumeRestrictions", "has a volume that one pod at a time may use (ReadWriteOncePod)"),
        ("VolumeBinding", f"a volume of class cloud is provisioned where it runs, which is possible on nodes with {ZONE} in (z1,z2)"),
    ]
    assert _rules(data, "two") == _rules(data, "new")
    assert _rules(data, "free") == [("VolumeBinding", "takes a free volume of class local, on a node that can reach it")]
    assert _rules(data, "early") == [
        ("VolumeBinding", "claim default/early of class eager is not bound yet: no node takes the pod until it is"),
    ]  # fmt: skip
    assert _rules(data, "bound") == [
        ("VolumeBinding", f"has a volume of class local for nodes with {HOST}=a"),
        ("VolumeZone", f"has a volume at {ZONE}=z1"),
    ]
    assert _rules(data, "broken") == [("VolumeBinding", "volume gone is not in the snapshot: no node takes the pod")]
    assert _rules(data, "missing") == [("VolumeBinding", "claim default/missing is not in the snapshot: no node takes the pod")]


def test_volumes_that_a_node_takes_few_of_and_that_tie_pods_to_each_other() -> None:
    drivers = [{"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 3}}, {"name": "free.example.com", "nodeID": "a"}]
    attached = _volume("pv", {ZONE: "z1__z2"})
    attached["spec"]["csi"] = {"driver": "csi.example.com", "volumeHandle": "h"}
    scratch = pod("scratch", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": _claim("x", "local")["spec"]}}}])
    data = _data(
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": drivers}},
        _class("cloud", "free.example.com"), attached, _claim("new", "cloud"), _claim("bound", "local", "pv"),
        _claim("scratch-v", "local", "pv"),
        _mounts("one", "new"), _mounts("two", "new"), _mounts("three", "bound"), scratch,
    )  # fmt: skip
    assert _rules(data, "one") == [
        ("VolumeBinding", "a volume of class cloud is provisioned where it runs"),
        ("VolumeBinding", "claim default/new has no volume yet: the pods that use it must meet on one node"),
    ]
    limited = ("NodeVolumeLimits", "attaches a volume of csi.example.com, whose number per node is limited")
    assert _rules(data, "three") == [("VolumeZone", f"has a volume at {ZONE} in (z1,z2)"), limited]
    assert _rules(data, "scratch") == [limited]  # VolumeZone does not look at ephemeral volumes


def test_rules_that_match_very_many_workloads_name_none() -> None:
    everyone = pod("p", affinity=_affinity("podAffinity", {"topologyKey": HOST, "labelSelector": {}}))
    data = _data(everyone, *(pod(f"w-{i}", owner=f"StatefulSet/w{i}") for i in range(120)))
    shape = data["shapes"][data["pods"]["shape"][0]]
    assert shape["rules"] == [{"rule": "InterPodAffinity", "text": "only on a node with other pods, unless it is the first such pod"}]


def test_pods_that_very_many_keep_away_name_none() -> None:
    loud = [pod(f"l{i}", owner=f"StatefulSet/l{i}", affinity=_affinity("podAntiAffinity", _term(HOST, app="q"))) for i in range(120)]
    data = _data(*loud, pod("q", labels={"app": "q"}))
    (rule,) = data["shapes"][data["pods"]["shape"][120]]["rules"]
    assert rule["text"].startswith("kept away from nodes of StatefulSet default/l0, StatefulSet default/l1")
    assert rule["text"].endswith("and 112 more, by their anti-affinity")
    assert "workloads" not in rule


def test_selectors_that_look_at_too_much_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.report.page.ties._MAX_EXAMINED_CLASSES", 3)
    loud = [pod(f"l{i}", labels={"app": f"l{i}"}, affinity=_affinity("podAntiAffinity", _term(HOST, app="q"))) for i in range(3)]
    data = _data(*loud, *(pod(f"q{i}", labels={"app": "q", "i": str(i)}) for i in range(3)))
    assert data["summary"]["notes"] == ["the anti-affinity of other pods is shown in part only, because its selectors match too many pods"]


def test_budgets_that_look_at_too_much_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.report.page.ties._MAX_EXAMINED_CLASSES", 1)
    data = _data(*(pod(f"p{i}", labels={"app": "x", "i": str(i)}) for i in range(3)), _budget("b", selector={"matchLabels": {"app": "x"}}))
    assert data["summary"]["notes"] == ["PodDisruptionBudgets are shown for some pods only, because their selectors match too many pods"]
    assert _rules(data, "p0") == []


def test_workloads_by_the_name_that_an_operator_would_use() -> None:
    replica_set = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {
            "name": "web-1", "namespace": "default", "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": True}],
        },
    }  # fmt: skip
    static = pod("etcd-a", node_name="a", owner="Node/a")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    guessed = pod("api-77-x", owner="ReplicaSet/api-77", labels={"pod-template-hash": "77"})
    pods = [pod("w", owner="ReplicaSet/web-1"), guessed, pod("j", owner="Job/j"), static, pod("b1"), pod("b2"), pod("b3", cpu="7")]
    names = [(each["name"], each["pods"]) for each in _data(replica_set, *pods)["workloads"]]
    assert names == [
        ("Deployment default/web", 1), ("Deployment default/api", 1), ("Job default/j", 1), ("Static default/etcd", 1),
        ("Pod default/b1 and 1 more", 2), ("Pod default/b3", 1),
    ]  # fmt: skip
