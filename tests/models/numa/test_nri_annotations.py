"""Annotations of nri-plugins: the fields reported for a pod, and their wording."""

from __future__ import annotations

import pytest

from kubestow.models.cluster import unmodelled
from kubestow.models.numa import nri_annotations
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

POLICY = "resource-policy.nri.io"


def annotated(annotations: dict[str, str]) -> Object:
    requested = {"cpu": "1", "memory": "1Gi"}
    found = pod("p", containers=[{"name": "main", "image": "i", "resources": {"requests": requested, "limits": requested}}])
    found["metadata"]["annotations"] = annotations
    return found


def named(key: str, value: str = "true") -> str | None:
    """The effect of an annotation of a pod with a container ``main``, as it is named for the pod; None if it is not."""
    snapshot = from_objects([node("n1"), annotated({key: value})])
    found = {each.field: each.effect for each in unmodelled.find(snapshot, snapshot.pods)}
    assert set(found) <= {f"metadata.annotations[{key}]"}
    return next(iter(found.values()), None)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (f"strict.topologyhints.{POLICY}/container.main", "do not match the hints of its devices"),
        (f"require-isolated-cpus.{POLICY}/pod", "too few isolated CPUs"),
        ("require-isolated-cpus.cri-resource-manager.intel.com/pod", "too few isolated CPUs"),
        (f"balloon.balloons.{POLICY}", "no such type of balloon"),
        (f"cpu-class.{POLICY}/container.main", "the plugin refuses the value"),
        ("policy.memory-policy.nri.io/container.main", "the plugin refuses the value"),
        ("epc-limit.nri.io/container.main", "the plugin refuses the value"),
        (f"prefer-isolated-cpus.{POLICY}", "are chosen without it"),
        (f"unlimited-burstable.{POLICY}/pod", "are chosen without it"),
        (f"allow.topologyhints.{POLICY}/pod", "are chosen without it"),
    ],
)
def test_what_is_not_honoured_is_named(key: str, words: str) -> None:
    assert words in (named(key) or "")


@pytest.mark.parametrize(
    "key", [f"rdtclass.{POLICY}/pod", f"blockioclass.{POLICY}", "memory.high.memory-qos.nri.io/main", "class.memtierd.nri.io/main"]
)
def test_what_decides_no_placement_is_known_and_not_named(key: str) -> None:
    assert named(key) is None


@pytest.mark.parametrize("value", ["false", "0", "F"])
def test_requirements_that_are_false_are_none(value: str) -> None:
    assert named(f"strict.topologyhints.{POLICY}/pod", value) is None
    assert named(f"require-isolated-cpus.{POLICY}/pod", value) is None


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (f"{POLICY}/afinity", f"no policy reads this key, ignored; did you mean {POLICY}/affinity?"),
        ("resource-manager.nri.io/anti-affinity", f"no policy reads this key, ignored; did you mean {POLICY}/anti-affinity?"),
        ("resource-policy.nri/affinity", f"no policy reads this key, ignored; did you mean {POLICY}/affinity?"),
        ("cri-resource-manager.intel.io/afinity", "ignored; did you mean cri-resource-manager.intel.com/affinity?"),
        (f"require-isolated-cpu.{POLICY}/pod", f"ignored; did you mean require-isolated-cpus.{POLICY}?"),
        ("ballon.balloons.resource-policy.nri.io", "ignored; did you mean balloon.balloons.resource-policy.nri.io?"),
        ("class.memtier.nri.io", "ignored; did you mean class.memtierd.nri.io?"),
        ("quite.another.nri.io/x", "unknown annotation of nri-plugins, ignored"),
        (f"memory-type.{POLICY}/containers.main", "got the scope 'containers.main', expected pod or container.NAME: ignored"),
        (f"memory-type.{POLICY}/container.mian", "the pod has no container 'mian': ignored; did you mean main?"),
        ("class.memory-qos.nri.io/other", "the pod has no container 'other': ignored"),
    ],
)
def test_what_nobody_reads_is_named_with_what_is_near(key: str, words: str) -> None:
    assert (named(key) or "").endswith(words)


@pytest.mark.parametrize("key", ["nri.io.example.com/x", "xnri.io/affinity", "example.com/prefer-isolated-cpus"])
def test_other_domains_are_nobody_s_business(key: str) -> None:
    assert named(key) is None


def test_a_container_s_own_annotation_goes_first() -> None:
    key = f"balloon.balloons.{POLICY}"
    (both,) = from_objects([annotated({f"{key}/container.a": "own", f"{key}/pod": "all", key: "old"})]).pods
    assert [nri_annotations.effective(both, key, name) for name in ("a", "b")] == ["own", "all"]
    (bare,) = from_objects([annotated({key: "old"})]).pods
    assert nri_annotations.effective(bare, key, "a") == "old"
