"""Manifests with the nodes of a placement: the changed and the unchanged parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.execution.template_nodes import GATE, TemplateNodes, template_nodes
from kubestow.models.snapshot.snapshot import InputError, from_objects
from kubestow.models.workloads.expand import expand
from kubestow.report.documents.manifests import MAX_PREFERRED_NODES, PREFERRED, ManifestRequest, manifests, notes, preferred_terms
from tests.objects import Object, node, pod

POD = "{containers: [{name: c, image: i}]}"
WEB = f"""\
# Source: chart/web
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web  # the front
spec:
  replicas: 3
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {POD}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{a: "1"}}
"""


def workload(kind: str, name: str = "web", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api = {"Job": "batch/v1", "CronJob": "batch/v1", "PodTemplate": "v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    found: Object = {"apiVersion": api, "kind": kind, "metadata": {"name": name}}
    if kind == "PodTemplate":
        return {**found, "template": template}
    if kind == "CronJob":
        return {**found, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template, **spec}}}}
    selector = {} if kind == "Job" else {"selector": {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": name}}}
    return {**found, "spec": {**selector, "template": template, **spec}}


def placed(given: list[Object], nodes: list[str], cluster: list[Object] | None = None) -> list[TemplateNodes]:
    """The nodes of workloads whose pods, as far as there are nodes for them, were placed one after the other."""
    before = from_objects([node("n1"), node("n2"), *(cluster or [])])
    added = expand(before, from_objects(given, manifests=True))
    waiting = [f"{p.metadata.namespace}/{p.metadata.name}" for p in added.snapshot.pods if not p.spec.nodeName]
    assignments = [Assignment(pod, node, i) for i, (pod, node) in enumerate(zip(waiting, nodes, strict=False), 1)]
    ref = SnapshotRef("", 2, len(waiting), len(waiting))
    placement = Placement(snapshot=ref, engine="exact", status="optimal", objective=[], assignments=assignments)
    return template_nodes(before, added.snapshot, added.workloads, placement)


def written(given: list[Object], nodes: list[str], cluster: list[Object] | None = None, **more: Any) -> list[Object]:
    data = manifests(ManifestRequest({"-": json.dumps(given).encode()}, placed(given, nodes, cluster), **more))
    return [item for document in yaml.safe_load_all(data) for item in document]


def preferred(spec: Object) -> dict[str, int]:
    terms = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return {term["preference"]["matchFields"][0]["values"][0]: term["weight"] for term in terms if "matchFields" in term["preference"]}


def test_text_and_other_kinds_stay_as_they_are() -> None:
    web = TemplateNodes("Deployment", "default", "web", {"n1": 2, "n2": 1})
    text = manifests(ManifestRequest({"web.yaml": WEB.encode()}, [web])).decode()
    assert [line for line in WEB.splitlines() if line not in text.splitlines()] == [f"    spec: {POD}"]
    deployment, settings = yaml.safe_load_all(text)
    assert preferred(deployment["spec"]["template"]["spec"]) == {"n1": 100, "n2": 50}
    assert settings == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    assert text.startswith("# kubestow: 1 workload with the nodes")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *((kind, ("spec", "template", "spec")) for kind in ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job")),
        ("CronJob", ("spec", "jobTemplate", "spec", "template", "spec")),
        ("PodTemplate", ("template", "spec")),
    ],
)
def test_every_kind_with_a_template_prefers_its_nodes(kind: str, path: tuple[str, ...]) -> None:
    (found,) = written([workload(kind)], ["n2"], gates=True)
    spec = found
    for key in path:
        spec = spec[key]
    assert preferred(spec) == {"n2": 100}
    assert spec["schedulingGates"] == [{"name": GATE}]
    assert found["metadata"]["annotations"] == {PREFERRED: "1"}


def test_pods_are_changed_too_and_daemon_sets_are_not() -> None:
    given = [pod("p"), workload("DaemonSet", "d")]
    found = written(given, ["n1", "n1", "n2"], gates=True)
    assert preferred(found[0]["spec"]) == {"n1": 100}
    assert found[0]["spec"]["schedulingGates"] == [{"name": GATE}]
    assert found[1] == given[1]


def test_what_exists_and_cannot_change_is_left_alone_and_named() -> None:
    job, bare = workload("Job", "j"), pod("p")
    cluster = [{**job, "metadata": {"name": "j", "namespace": "default", "uid": "u"}}, bare]
    assert written([job, bare], ["n1", "n1"], cluster, gates=True) == [job, bare]
    assert notes(placed([job, bare], ["n1", "n1"], cluster)) == [
        "Job default/j is left as it is: the template of an existing Job cannot be changed",
        "Pod default/p is left as it is: the spec of an existing Pod cannot be changed",
    ]


def test_existing_preferences_are_kept_and_those_of_an_earlier_placement_make_way() -> None:
    zone = {"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}
    web = workload("Deployment")
    web["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [zone]}}
    (once,) = written([web], ["n1"])
    (twice,) = written([once], ["n2"])
    terms = twice["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert terms == [*preferred_terms({"n2": 1}), zone]


def test_an_earlier_header_is_written_once() -> None:
    web = TemplateNodes("Deployment", "default", "web", {"n1": 3})
    once = manifests(ManifestRequest({"-": WEB.encode()}, [web], sha256="abc"))
    assert manifests(ManifestRequest({"-": once}, [web], sha256="abc")) == once


def test_objects_without_a_namespace_are_in_that_of_the_command_line() -> None:
    web = TemplateNodes("Deployment", "shop", "web", {"n1": 3})
    for namespace, found in (("shop", True), (None, False)):
        assert (b"matchFields" in manifests(ManifestRequest({"-": WEB.encode()}, [web], namespace))) is found


def test_weights_are_in_proportion_and_within_kubernetes_limits() -> None:
    assert [t["weight"] for t in preferred_terms({"a": 1, "b": 3, "c": 400})] == [100, 1, 1]
    many = preferred_terms({f"n{i:04}": 1 + (i == 700) for i in range(1000)})
    assert len(many) == MAX_PREFERRED_NODES
    assert many[0]["preference"]["matchFields"][0]["values"] == ["n0700"]


def test_aliases_cost_the_comments_and_the_header_says_so() -> None:
    shared = "a: &x {containers: [{name: c, image: i}]}\n"
    aliased = WEB.replace("spec:\n  replicas", f"{shared}spec:\n  replicas").replace(f"spec: {POD}", "spec: *x")
    web = TemplateNodes("Deployment", "default", "web", {"n1": 3})
    found = manifests(ManifestRequest({"web.yaml": aliased.encode()}, [web], unknown_fields=True)).decode()
    assert "# Comments were removed from: web.yaml" in found
    deployment, _ = yaml.safe_load_all(found)
    assert preferred(deployment["spec"]["template"]["spec"]) == {"n1": 100}
    assert "affinity" not in deployment["a"]


def test_files_without_objects_and_other_groups_kinds_are_not_touched() -> None:
    other = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "web"}, "spec": {"template": {"spec": {}}}}
    job = TemplateNodes("Job", "default", "web", {"n1": 3})
    files = {"values.yaml": b"a: 1\n", "job.json": json.dumps(other).encode()}
    assert list(yaml.safe_load_all(manifests(ManifestRequest(files, [job])))) == [other]


def test_what_the_reader_refuses_is_not_written() -> None:
    web = TemplateNodes("Deployment", "default", "web", {"n1": 3})
    with pytest.raises(InputError, match="replica"):
        manifests(ManifestRequest({"-": WEB.replace("replicas:", "replica:").encode()}, [web]))


def test_what_was_not_placed_and_what_is_replaced_is_named() -> None:
    running: list[Object] = [pod("web-x", node_name="n1", labels={"app": "web"})]
    cluster = [{**workload("Deployment", replicas=1), "metadata": {"name": "web", "namespace": "default"}}, *running]
    (found,) = placed([workload("Deployment", replicas=3)], ["n2"], cluster)
    assert (found.nodes, found.placed, found.unplaced, found.running, found.exists) == ({"n1": 1, "n2": 1}, 1, 1, 1, True)
    assert notes([found]) == [
        "Deployment default/web: the placement has no node for 1 of 2 pods",
        "Deployment default/web has 1 pod on nodes: applying another template rolls out all its pods",
    ]


def test_ordinals_keep_their_nodes_and_come_one_by_one() -> None:
    (ordered,) = placed([workload("StatefulSet", "db", replicas=2)], ["n2", "n1"])
    assert (ordered.by_name, ordered.one_by_one) == ({"db-0": "n2", "db-1": "n1"}, True)
    assert "created one by one" in notes([ordered], gates=True)[1]
    (parallel,) = placed([workload("StatefulSet", "db", replicas=2, podManagementPolicy="Parallel")], ["n2", "n1"])
    assert not parallel.one_by_one
