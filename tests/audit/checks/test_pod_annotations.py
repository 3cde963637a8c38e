"""Annotations of container affinity and gangs, on templates and on pods that run or wait."""

from __future__ import annotations

import pytest

from kubestow.audit.checks import pod_annotations as checks_annotations
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

AFFINITY, ANTI = "resource-policy.nri.io/affinity", "resource-policy.nri.io/anti-affinity"
OLD = "cri-resource-manager.intel.com/affinity"


def holder(annotations: dict[str, str], *containers: str, replicas: int = 1) -> Object:
    spec = {"containers": [{"name": name, "image": "i"} for name in containers or ("a", "b")]}
    template = {"metadata": {"labels": {"app": "farm"}, "annotations": annotations}, "spec": spec}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "farm", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "farm"}}, "template": template},
    }  # fmt: skip


def found(*objects: Object) -> list[Finding]:
    return list(checks_annotations.check(ClusterView(from_objects(list(objects)))))


def annotated(name: str, annotations: dict[str, str], **more: str | None) -> Object:
    one = pod(name, labels={"app": name}, node_name=more.get("node"), owner=more.get("owner"))
    one["metadata"]["annotations"] = annotations
    return one


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({AFFINITY: "a: [b]"}, []),
        ({AFFINITY: "a: {}"}, ["KS701"]),
        ({AFFINITY: "a: [b]", ANTI: "a: ["}, ["KS701"]),
        ({AFFINITY: "resource-policy.nri.io/anti-affinity: |\n  a: [b]"}, ["KS701"]),
        ({"resource-manager.nri.io/affinity": "a: [b]"}, ["KS709"]),
        ({"resource-policy.nri.io/afinity": "a: [b]", ANTI: "a: [b]"}, ["KS709"]),
        ({"other.example.com/affinity": "a: [b]"}, []),
        ({AFFINITY: "a: [z]"}, ["KS702"]),
        ({AFFINITY: "z: [a]"}, ["KS702"]),
        ({AFFINITY: "a: [{match: {key: name, operator: Equals, values: [b]}, weight: 0}]"}, ["KS703"]),
        ({AFFINITY: "a: [{match: {key: name, operator: Equals, values: [b]}, weight: 5000}]"}, ["KS703"]),
        ({ANTI: "a: [{match: {key: name, operator: Equals, values: [b]}, weight: -1}]"}, ["KS703"]),
        ({AFFINITY: "a: [{match: {operator: AlwaysTrue, values: [x]}}]"}, ["KS704"]),
        ({AFFINITY: "a: [{match: {key: name, operator: In, values: []}}]"}, ["KS704", "KS707"]),
        ({AFFINITY: "a: [b]", OLD: "b: [a]"}, ["KS705"]),
        ({AFFINITY: "a: [b]", OLD: "broken: ["}, ["KS705"]),  # it is not read
        ({OLD: "a: [b]"}, []),
        ({"kubestow.dev/tags.a": "x"}, ["KS706"]),
        ({"kubestow.dev/tags.a": "x=1"}, []),
        ({AFFINITY: "a: [{match: {key: tags/x, operator: Exists}}]", "kubestow.dev/tags.b": "x=1"}, []),
        ({AFFINITY: "a: [{match: {key: tags/x, operator: Exists}}]", "kubestow.dev/tags.a": "x=1"}, ["KS707"]),  # itself
    ],
)
def test_container_annotations_of_a_template(annotations: dict[str, str], expected: list[str]) -> None:
    findings = found(holder(annotations))
    assert [finding.code for finding in findings] == expected
    assert all(
        f.object == "Deployment default/farm" and (f.field or "").startswith("spec.template.metadata.annotations[") for f in findings
    )


NODE_SCOPE = "a: [{{scope: {{operator: AlwaysTrue}}, match: {{key: pod/labels/app, operator: Equals, values: [{}]}}}}]"


def test_an_entry_with_a_scope_reaches_other_pods() -> None:
    assert found(holder({AFFINITY: NODE_SCOPE.format("wolf")}), pod("wolf", labels={"app": "wolf"})) == []
    assert [f.code for f in found(holder({AFFINITY: NODE_SCOPE.format("wolf")}))] == ["KS707"]


@pytest.mark.parametrize(("replicas", "expected"), [(1, ["KS707"]), (2, [])])
def test_replicas_are_others_to_each_other(replicas: int, expected: list[str]) -> None:
    only = holder({AFFINITY: NODE_SCOPE.format("farm")}, "a", replicas=replicas)
    assert [f.code for f in found(only)] == expected


def test_pods_that_say_what_their_template_says_are_named_with_it() -> None:
    bad = {AFFINITY: "c: {}"}
    findings = found(
        node("n"), annotated("x-0", bad, node="n", owner="StatefulSet/x"), annotated("x-1", bad, node="n", owner="StatefulSet/x")
    )
    [finding] = findings
    assert (finding.code, finding.object, finding.pods) == ("KS701", "Pod default/x-0", ["default/x-0", "default/x-1"])
    assert finding.field == f"metadata.annotations[{AFFINITY}]"


def test_the_shorthand_of_the_policy_counts() -> None:
    view = ClusterView(from_objects([holder({AFFINITY: "a: [b]"})]), policy=Policy(shorthand="symmetric"))
    assert list(checks_annotations.check(view)) == []


def gang(name: str, minimum: str, **more: str | None) -> Object:
    return annotated(name, {"kubestow.dev/gang": "train", "kubestow.dev/min-member": minimum}, **more)


@pytest.mark.parametrize(
    ("minimums", "expected"),
    [(["2", "2"], []), (["two", "2"], ["KS711"]), (["3", "3"], ["KS712"]), (["", "x"], ["KS711", "KS711"])],
)
def test_gangs(minimums: list[str], expected: list[str]) -> None:
    assert [f.code for f in found(*(gang(f"t{i}", each) for i, each in enumerate(minimums)))] == expected


def test_members_that_run_count() -> None:
    assert found(node("n"), gang("t0", "2"), gang("t1", "2", node="n")) == []


def test_a_gang_of_a_template_is_named_by_its_workload() -> None:
    [finding] = found(holder({"kubestow.dev/gang": "train", "kubestow.dev/required-topology": "no key!"}))
    assert (finding.code, finding.object) == ("KS711", "Deployment default/farm")
    assert finding.field == "spec.template.metadata.annotations[kubestow.dev/required-topology]"
