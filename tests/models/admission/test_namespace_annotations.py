"""Annotations of namespaces: additions to new pods, rejections and notes, in the solver and in the checker."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kubestow.checker.placement import verify
from kubestow.checker.rules.admission import namespaces as second
from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.cluster import admission, unmodelled
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.expand import expand
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod
from tests.tiers import thinned

ALPHA = "scheduler.alpha.kubernetes.io/"
SELECTOR, DEFAULTS, ALLOWED = f"{ALPHA}node-selector", f"{ALPHA}defaultTolerations", f"{ALPHA}tolerationsWhitelist"
PROJECT = "openshift.io/node-selector"
BOTH = frozenset(("PodNodeSelector", "PodTolerationRestriction"))
GPU = {"key": "gpu", "operator": "Exists"}
MANAGED = [{"key": f"node.kubernetes.io/{name}", "operator": "Exists"} for name in ("not-ready", "unreachable", "memory-pressure")]


def deployment(replicas: int = 2, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container], **spec}}
    count = {} if kind == "DaemonSet" else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": "realm"},
        "spec": {**count, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }


def cluster(plugins: frozenset[str], manifest: dict[str, Any], **annotations: str) -> Snapshot:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "realm", "annotations": annotations}}
    tainted = node("t", labels={"realm": "test"}, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    start = from_objects([space, node("test", labels={"realm": "test"}), node("other", labels={"realm": "prod"}), tainted])
    start.admission_plugins = plugins
    return expand(start, from_objects([manifest], manifests=True), partial=True).snapshot


def outcome(snapshot: Snapshot) -> tuple[list[str], list[list[str]]]:
    found = place(snapshot, Options(deterministic=True))
    assert verify(snapshot, found) == []
    return [each.node for each in found.assignments], [[reason.rule for reason in each.reasons] for each in found.unplaced]


def test_the_node_selector_of_a_project_is_added_without_a_policy() -> None:
    snapshot = cluster(frozenset(), deployment(), **{PROJECT: "realm=test"})
    assert [pod.spec.nodeSelector for pod in snapshot.pods] == [{"realm": "test"}] * 2
    assert outcome(snapshot) == (["test", "test"], [])
    assert unmodelled.find(snapshot, snapshot.pods) == []


def test_daemon_sets_make_pods_for_nodes_that_their_project_excludes() -> None:
    placed, remaining = outcome(cluster(frozenset(), deployment(kind="DaemonSet"), **{PROJECT: "realm=test"}))
    assert (placed, len(remaining)) == (["test"], 1)


def test_a_selector_that_contradicts_its_project_is_refused() -> None:
    snapshot = cluster(frozenset(), deployment(nodeSelector={"realm": "prod"}), **{PROJECT: "realm=test"})
    assert outcome(snapshot) == ([], [["PodNodeSelector", "NodeAffinity", "TaintToleration"]] * 2)
    why = "pod node label selector conflicts with its project node label selector"
    assert set(admission.refusals(snapshot).values()) == {("PodNodeSelector", why)}


def test_what_the_namespace_adds_cannot_be_dropped() -> None:
    found = place(cluster(frozenset(), deployment(9), **{PROJECT: "realm=test"}), Options(deterministic=True))
    remedies = [remedy.change for cause in found.causes for remedy in cause.waysOut]
    assert remedies
    assert "dropNodeSelector" not in remedies


def test_annotations_of_plugins_that_are_off_are_named() -> None:
    notes = {SELECTOR: "realm=test", DEFAULTS: json.dumps([GPU]), ALLOWED: json.dumps([GPU])}
    snapshot = cluster(frozenset(), deployment(1), **notes, **{PROJECT: "realm=prod"})
    assert snapshot.pods[0].spec.nodeSelector is None  # OpenShift leaves the namespace to the plugin
    assert [(each.field, each.effect) for each in unmodelled.find(snapshot, snapshot.pods)] == [
        (f"namespace realm: metadata.annotations[{key}]", f"ignored: the policy's admissionPlugins does not name {plugin}")
        for key, plugin in ((SELECTOR, "PodNodeSelector"), (DEFAULTS, "PodTolerationRestriction"), (ALLOWED, "PodTolerationRestriction"))
    ]
    assert unmodelled.find(from_objects([pod("p")]), from_objects([pod("p")]).pods) == []


def test_the_plugins_add_selector_and_tolerations() -> None:
    notes = {SELECTOR: "realm=test", DEFAULTS: json.dumps([GPU])}
    snapshot = cluster(BOTH, deployment(1, nodeSelector={"disk": "ssd"}), **notes)
    spec = snapshot.pods[0].spec
    assert spec.nodeSelector == {"realm": "test", "disk": "ssd"}
    keys = [each.key for each in spec.tolerations or ()]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "gpu", "node.kubernetes.io/memory-pressure"]
    assert unmodelled.find(snapshot, snapshot.pods) == []


def test_tolerations_that_the_namespace_does_not_allow_are_refused() -> None:
    notes = {ALLOWED: json.dumps([*MANAGED, {**GPU, "effect": "NoSchedule"}])}
    assert outcome(cluster(BOTH, deployment(1, tolerations=[{**GPU, "effect": "NoSchedule"}]), **notes))[1] == []
    assert outcome(cluster(BOTH, deployment(1, tolerations=[GPU]), **notes)) == ([], [["PodTolerationRestriction"]])
    timed = {ALLOWED: json.dumps([*MANAGED, {**GPU, "effect": "NoExecute", "tolerationSeconds": 5}])}
    snapshot = cluster(BOTH, deployment(1), **timed)
    assert [each.effect for each in unmodelled.find(snapshot, snapshot.pods)] == ["tolerationSeconds is ignored"]


@pytest.mark.parametrize("notes", [{PROJECT: "realm"}, {PROJECT: "a=b=c"}, {SELECTOR: "realm in (x)"}, {DEFAULTS: "{"}, {ALLOWED: '["x"]'}])
def test_an_annotation_that_cannot_be_read_refuses_every_pod(notes: dict[str, str]) -> None:
    snapshot = cluster(BOTH, deployment(1), **notes)
    assert len(admission.refusals(snapshot)) == 1
    assert second.fault(snapshot, snapshot.pods[0]) is not None
    assert outcome(snapshot)[0] == []


def _toleration(rng: random.Random) -> dict[str, str]:
    found = {"operator": rng.choice(("Exists", "Equal", "Exists"))}
    found |= {"key": rng.choice(("gpu", "spot"))} if found["operator"] == "Equal" or rng.random() < 0.8 else {}
    found |= {"value": rng.choice(("a", "b"))} if found["operator"] == "Equal" else {}
    return found | ({"effect": rng.choice(("NoSchedule", "NoExecute"))} if rng.random() < 0.5 else {})


@pytest.mark.parametrize("seed", thinned(range(60), 3))
def test_both_readings_agree(seed: int) -> None:
    rng = random.Random(seed)
    notes = {
        key: ",".join(f"{label}={rng.choice('xy')}" for label in rng.sample(("a", "b"), rng.randint(0, 2)))
        for key in (SELECTOR, PROJECT) if rng.random() < 0.5
    }  # fmt: skip
    notes |= {DEFAULTS: json.dumps([_toleration(rng) for _ in range(rng.randint(0, 2))])} if rng.random() < 0.6 else {}
    notes |= {ALLOWED: json.dumps([*MANAGED, *(_toleration(rng) for _ in range(rng.randint(1, 4)))])} if rng.random() < 0.6 else {}
    spec: dict[str, Any] = {"nodeSelector": {"a": "x"}} if rng.random() < 0.5 else {}
    spec |= {"tolerations": [_toleration(rng) for _ in range(rng.randint(1, 2))]} if rng.random() < 0.6 else {}
    snapshot = cluster(frozenset(rng.sample(sorted(BOTH), rng.randint(0, 2))), deployment(1, **spec), **notes)
    (new,) = snapshot.pods
    mine, other = namespace_admission.refusal(new, snapshot), second.fault(snapshot, new)
    assert (mine and mine[0]) == (other and other[0])
    assert {key for key, _ in namespace_admission.not_applied(snapshot, "realm")} == {
        f"namespace realm: metadata.annotations[{key}]"
        for key in notes
        if key in (SELECTOR, DEFAULTS, ALLOWED)
        and ("PodNodeSelector" if key == SELECTOR else "PodTolerationRestriction") not in snapshot.admission_plugins
    }


def test_a_pod_that_lacks_what_its_namespace_adds_is_no_valid_pod() -> None:
    notes = {SELECTOR: "realm=test", DEFAULTS: json.dumps([GPU])}
    snapshot = cluster(BOTH, deployment(1), **notes)
    (new,) = snapshot.pods
    new.spec.tolerations = []
    assert second.fault(snapshot, new) == ("PodTolerationRestriction", "it lacks a default toleration of its namespace")
    new.spec.nodeSelector = None
    assert second.fault(snapshot, new) == ("PodNodeSelector", "its node selector does not extend the namespace's in realm")
