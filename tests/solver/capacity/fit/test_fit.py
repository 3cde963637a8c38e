"""The answers of ``fit``: templates alone and in a ratio, gangs, reserved room, running pods, and objects
without replicas."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kubestow.models.documents.fit import Fit, Keep
from kubestow.models.documents.placement import Edits
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import InputError
from kubestow.report.documents.results import encode, result_document
from kubestow.solver.capacity.fit.fit import fit
from kubestow.solver.capacity.fit.question import read
from kubestow.solver.capacity.fit.trial import FitTrial
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node, pod
from tests.solver.capacity.fit.random_fits import LEFT_OUT, deployment

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def ask(objects: list[Object], *manifests: Object, edits: Edits = LEFT_OUT, keep: Keep | None = None, **options: Any) -> Fit:
    given = snapshots.from_objects(objects), snapshots.from_objects(manifests, manifests=True)
    return fit(*given, Options(**{"time_limit": 30.0, "workers": 1, **options}), edits=edits, keep=keep)


def web(replicas: int = 1, name: str = "web", **given: Any) -> Object:
    return deployment(name, pod(name, labels={"app": name}, **given), replicas)


def three(**given: Any) -> list[Object]:
    return [node(f"n{i}", labels={ZONE: f"z{i % 2}"}, **given) for i in range(3)]


def test_as_many_fit_as_the_nodes_have_room_for() -> None:
    found = ask(three(cpu="4"), web(cpu="1500m"))
    assert (found.units, found.bound, found.templates[0].fits) == (6, 6, 6)
    assert found.cause is not None
    assert {fact.rule for fact in found.cause.facts} == {"NodeResourcesFit"}
    assert [(g.nodes, g.units, g.bound) for g in found.growth] == [(3, 2, 2)]
    assert len(found.placement.assignments) == 6
    assert found.placement.snapshot.edits == Edits(replicas=["Deployment/default/web=6"], partial=True, withoutPending=True)


def test_replicas_that_run_stay_and_are_told_apart() -> None:
    running = pod("web-0", cpu="1500m", labels={"app": "web", "deployment": "web"}, node_name="n0")
    found = ask([*three(cpu="4"), running], web(cpu="1500m"))
    assert (found.templates[0].runs, found.templates[0].fits) == (1, 5)
    assert found.placement.snapshot.edits is not None
    assert found.placement.snapshot.edits.replicas == ["Deployment/default/web=6"]


def test_anti_affinity_ends_it_and_a_node_more_takes_one_more() -> None:
    terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}]
    found = ask(three(), web(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}))
    assert (found.units, found.bound) == (3, 3)
    assert found.cause is not None
    assert [fact.rule for fact in found.cause.facts] == ["InterPodAffinity"]
    assert {(g.units, g.bound) for g in found.growth} == {(1, 1)}


def test_templates_fit_in_the_ratio_of_their_replicas() -> None:
    found = ask(three(cpu="4"), web(4, cpu="1"), web(2, "db", cpu="2"))
    assert [t.ratio for t in found.templates] == [2, 1]
    assert (found.units, found.bound) == (3, 3)  # 12 CPUs, 4 a unit
    assert [t.fits for t in found.templates] == [6, 3]
    assert len(found.placement.assignments) == 9


def test_of_a_ratio_more_may_fit_where_fewer_do_not() -> None:
    """Five pods run in zone b, where one of the second template may go only while zone a has as many: with the fourth unit."""
    labels = {"part": "of"}
    selector = {"matchLabels": labels}
    spread = [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, "nodeAffinityPolicy": "Ignore"}
    ]
    nodes = [node("a", labels={ZONE: "a"}, pods="12"), node("b", labels={ZONE: "b"}, pods="6")]  # room for one more
    running = [pod(f"old-{i}", labels=labels, node_name="b") for i in range(5)]
    first = deployment("first", pod("first", labels=labels, selector={ZONE: "a"}, cpu="1m"), 3)
    second = deployment("second", pod("second", labels=labels, selector={ZONE: "b"}, cpu="1m", spread=spread), 1)
    found = ask([*nodes, *running], first, second, causes=False)
    assert (found.units, found.bound) == (0, 0)
    nodes[1] = node("b", labels={ZONE: "b"}, pods="9")
    found = ask([*nodes, *running], first, second, causes=False)
    assert (found.units, found.bound) == (4, 4)


def test_a_gang_needs_the_members_that_it_states() -> None:
    gang = web(cpu="1500m")
    gang["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/min-member": "6"}
    assert ask(three(cpu="4"), gang).units == 6
    gang["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/min-member": "7"}
    found = ask(three(cpu="4"), gang)
    assert (found.units, found.bound) == (0, 0)


def test_numbers_below_the_minimum_of_a_gang_say_nothing_of_those_above() -> None:
    gang = web(cpu="1")
    gang["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/min-member": "3"}
    given = snapshots.from_objects(three(cpu="4")), snapshots.from_objects([gang], manifests=True)
    question = read(*given, LEFT_OUT, Options())
    few, many = (FitTrial(question.at(units), RunContext.start(Options())).ask() for units in (2, 13))
    assert (few.refuted, few.more) == (True, False)
    assert (many.refuted, many.more) == (True, True)


def test_a_gang_of_one_zone_stays_in_it() -> None:
    gang = web(cpu="1500m")
    gang["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/required-topology": ZONE}
    found = ask(three(cpu="4"), gang)
    assert (found.units, found.bound) == (4, 4)  # zone z0 has two nodes
    assert len({a.node for a in found.placement.assignments}) == 2


def test_room_of_every_node_is_kept() -> None:
    found = ask(three(cpu="4"), web(cpu="1"), keep=Keep(25, "node"))
    assert (found.units, found.bound) == (9, 9)
    assert ask(three(cpu="4"), web(cpu="1"), keep=Keep(26, "node")).units == 6


def test_room_of_every_zone_is_kept() -> None:
    nodes = three(cpu="4")  # z0 has two of them
    assert ask(nodes, web(cpu="1"), keep=Keep(25, "zone")).units == 9
    assert ask(nodes, web(cpu="1"), keep=Keep(40, "zone")).units == 6  # 4.8 and 2.4 CPUs, of nodes 2.4 each
    found = ask(nodes, web(cpu="2"), keep=Keep(40, "zone"))
    assert (found.units, found.bound) == (3, 3)
    assert found.cause is not None
    assert [(fact.rule, fact.object) for fact in found.cause.facts] == [("Keep", "zone z0"), ("Keep", "zone z1")]
    assert found.cause.minimal
    assert ask(nodes, web(1, cpu="2"), web(1, "db", cpu="1"), keep=Keep(25, "zone")).units == 3  # 6 and 3 CPUs


def test_pods_that_wait_are_left_out_unless_asked_for() -> None:
    waiting = pod("waits", cpu="3")
    found = ask([*three(cpu="4"), waiting], web(cpu="1"))
    assert found.units == 12
    assert any("1 pod of the snapshot without a node" in note for note in found.notes)
    found = ask([*three(cpu="4"), waiting], web(cpu="1"), edits=Edits())
    assert (found.units, found.bound) == (9, 9)
    assert len(found.placement.assignments) == 10
    stuck = pod("stuck", cpu="5")
    found = ask([*three(cpu="4"), stuck], web(cpu="1"), edits=Edits())
    assert (found.units, found.bound) == (0, 0)
    assert found.cause is not None


def test_a_quota_ends_it() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"pods": "4"}},
    }
    found = ask([*three(cpu="4"), quota], web(cpu="1"))
    assert (found.units, found.bound) == (4, 4)
    assert found.cause is not None
    assert [fact.rule for fact in found.cause.facts] == ["ResourceQuota"]
    assert ask([*three(cpu="4"), quota], web(1, cpu="1"), web(1, "db", cpu="1")).units == 2


def test_pods_of_stateful_sets_get_claims_of_their_own() -> None:
    template = web(cpu="1")["spec"]["template"]
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
    spec = {
        "replicas": 1,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
        "volumeClaimTemplates": claims,
    }
    made = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"}, "spec": spec}
    fast = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    limits = [
        {
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": f"n{i}"},
            "spec": {"drivers": [{"name": "csi.example.com", "nodeID": f"n{i}", "allocatable": {"count": 2}}]},
        }
        for i in range(3)
    ]  # fmt: skip
    found = ask([*three(cpu="4"), fast], made, causes=False)
    assert (found.units, found.bound) == (12, 12)
    found = ask([*three(cpu="4"), fast, *limits], made, causes=False)
    assert (found.units, found.bound) == (6, 6)
    assert [a.pod for a in sorted(found.placement.assignments, key=lambda a: int(a.pod.rpartition("-")[2]))] == [
        f"default/db-{i}" for i in range(6)
    ]


def test_what_has_no_replicas_is_refused_in_a_line() -> None:
    daemon = web()
    daemon |= {"kind": "DaemonSet", "spec": {k: v for k, v in daemon["spec"].items() if k != "replicas"}}
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"suspend": True, "template": web()["spec"]["template"]},
    }
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    cases = {
        "a DaemonSet has a pod on every node": [daemon],
        "a pod has no replicas": [pod("alone")],
        "is suspended": [job],
        "has 0 replicas": [web(0), web(1, "db")],
    }
    for text, manifests in cases.items():
        with pytest.raises(InputError) as error:
            ask(three(), *manifests)
        assert len(error.value.problems) == 1
        assert text in error.value.problems[0]


def test_a_policy_that_refuses_a_template_refuses_it_here_too() -> None:
    terms = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}]
    blocking = web(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    assert ask(three(), blocking).units == 2
    with pytest.raises(InputError, match="required over all namespaces"):
        ask(three(), blocking, policy=Policy(refuseAllNamespacesAntiAffinity=True))


def test_a_job_has_as_many_pods_at_a_time() -> None:
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": web(cpu="1")["spec"]["template"]},
    }
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    assert ask(three(cpu="4"), job).units == 12


def test_the_same_question_has_the_same_bytes() -> None:
    def once() -> bytes:
        found = ask(three(cpu="4"), web(4, cpu="1100m"), web(2, "db", cpu="700m"), deterministic=True)
        return encode(result_document(found), "json")

    assert once() == once()


def test_a_stop_leaves_what_is_certain() -> None:
    stop = threading.Event()
    stop.set()
    given = snapshots.from_objects(three(cpu="4")), snapshots.from_objects([web(cpu="1")], manifests=True)
    found = fit(*given, Options(time_limit=30.0), edits=LEFT_OUT, stop=stop)
    assert found.units <= 12 <= found.bound
    assert found.growth == []
    assert len(found.placement.assignments) == found.units
