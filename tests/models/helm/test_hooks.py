"""Hooks of Helm in manifests: when they run, in which order, and which stay."""

from __future__ import annotations

import pytest

from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, pod


def hook(name: str, events: str, weight: str | None = None, cpu: str = "2") -> Object:
    found = pod(name, cpu=cpu)
    found["metadata"]["annotations"] = {"helm.sh/hook": events, "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
    found["metadata"]["annotations"] |= {"helm.sh/hook-weight": weight} if weight is not None else {}
    return found


def deployment(name: str, annotations: dict[str, str]) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("x", cpu="2")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("events", "when"), [
    ("test", "do not run when the release is installed or upgraded, and are not placed"),
    ("test-success", "do not run when the release is installed or upgraded, and are not placed"),
    ("pre-delete", "do not run when the release is installed or upgraded, and are not placed"),
    ("pre-install, pre-upgrade", "run before the release, one after the other, and are not placed with it"),
    ("pre-install,post-delete", "run before the release, one after the other, and are not placed with it"),
    ("post-install", "run after the release, one after the other, and are not placed with it"),
])  # fmt: skip
def test_hooks_that_end_are_not_placed_with_the_release(events: str, when: str) -> None:
    found = from_objects([hook("h", events), pod("p")], manifests=True)
    assert [each.metadata.name for each in found.pods] == ["p"]
    assert found.omissions == [f"Helm hooks that {when}: Pod default/h ({events})"]
    assert len(from_objects([hook("h", events), pod("p")]).pods) == 2  # in a cluster they are pods as others


def test_hooks_are_in_the_order_in_which_helm_runs_them() -> None:
    """By time, weight, kind and name. A weight that is no number is 0, as Helm has it; "1e3" is none."""
    stated = [("b", "pre-install", "5"), ("a", "pre-install", None), ("c", "pre-upgrade", "-5"), ("e", "post-install", "-9"),
              ("d", "pre-install", "1e3"), ("t", "test", "-99"), ("f", "pre-install,post-install", "1")]  # fmt: skip
    found = from_objects([hook(name, events, weight) for name, events, weight in stated], manifests=True)
    order = [(each.time, each.obj.metadata.name) for each in found.hooks]
    names = {"before": ["c", "a", "d", "f", "b"], "after": ["e", "f"]}
    assert order == [(time, name) for time, listed in names.items() for name in listed]
    assert "Pod default/c (pre-upgrade, weight -5), Pod default/a (pre-install)" in found.omissions[0]


@pytest.mark.parametrize(("policy", "stays"), [
    (None, True), ("before-hook-creation", True), ("hook-failed", True), ("hook-succeeded", False), ("hook-failed, hook-succeeded", False),
])  # fmt: skip
def test_a_hook_that_does_not_end_stays_unless_helm_deletes_it(policy: str | None, stays: bool) -> None:
    annotations = {"helm.sh/hook": "pre-install"} | ({"helm.sh/hook-delete-policy": policy} if policy else {})
    found = from_objects([deployment("cache", annotations)], manifests=True)
    assert len(found.workloads["Deployment"]) == stays
    assert bool(found.omissions) is not stays
    assert [each.stays for each in found.hooks] == [stays]
