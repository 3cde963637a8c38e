"""A RuntimeClass: its additions to pods, the pods that it rejects, and the checker's own reading of both."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubestow.checker.rules.admission import quotas as checked
from kubestow.models.kube import defaults, objects
from kubestow.models.kube.namespace_limits import RuntimeClass
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects, load
from kubestow.models.workloads.expand import expand, revision_pods, top_up
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

RULES = Path(__file__).resolve().parents[3] / "instances/rules"
KATA_TAINT = {"key": "sandbox", "operator": "Equal", "value": "kata", "effect": "NoSchedule"}
K1 = node("k1", labels={"sandbox": "kata"}, taints=[{"key": "sandbox", "value": "kata", "effect": "NoSchedule"}])
P1 = node("p1", cpu="16")


def runtime_class(name: str = "kata", overhead: Object | None = None, **scheduling: Any) -> Object:
    fixed = {"cpu": "250m", "memory": "160Mi"} if overhead is None else overhead
    return {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name,
        **({"overhead": {"podFixed": fixed}} if fixed else {}), **({"scheduling": scheduling} if scheduling else {}),
    }  # fmt: skip


KATA = runtime_class(nodeSelector={"sandbox": "kata"}, tolerations=[KATA_TAINT])


def vm(replicas: int = 2, kind: str = "Deployment", **spec: Any) -> Object:
    limits = spec.pop("limits", {})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1900m", "memory": "1Gi"}, "limits": limits}}
    template = {"metadata": {"labels": {"app": "vm"}}, "spec": {"runtimeClassName": "kata", "containers": [container], **spec}}
    more = {} if kind == "DaemonSet" else {"replicas": replicas}
    spec = {"selector": {"matchLabels": {"app": "vm"}}, "template": template, **more}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "vm"}, "spec": spec}


def grown(cluster: list[Object], *manifests: Object) -> Snapshot:
    return expand(from_objects(cluster), from_objects(list(manifests), manifests=True), partial=True).snapshot


def where(snapshot: Snapshot) -> list[str]:
    return sorted(entry.node for entry in place(snapshot, Options(time_limit=5, workers=1)).assignments)


def refusal(cluster: list[Object], *manifests: Object) -> list[str]:
    with pytest.raises(InputError) as error:
        grown(cluster, *manifests)
    return error.value.problems


def test_overhead_node_selector_and_tolerations_decide_where_pods_go() -> None:
    snapshot = grown([K1, P1, KATA], vm())
    assert {tuple(sorted(pod.spec.overhead or {})) for pod in snapshot.pods} == {("cpu", "memory")}
    assert where(snapshot) == ["k1"]
    assert where(
        grown([K1, P1, runtime_class(overhead={"cpu": "100m"}, nodeSelector={"sandbox": "kata"}, tolerations=[KATA_TAINT])], vm())
    ) == [
        "k1",
        "k1",
    ]
    assert where(grown([K1, P1, runtime_class()], vm())) == ["p1", "p1"]
    assert where(grown([K1, P1, runtime_class(nodeSelector={"sandbox": "kata"})], vm())) == []


def test_the_class_may_come_with_the_manifests() -> None:
    assert where(grown([K1, P1], vm(), KATA)) == ["k1"]


def test_the_shown_instance() -> None:
    manifests = load([str(RULES / "runtime-class-workload.yaml")], manifests=True)
    assert where(expand(load([str(RULES / "runtime-class.yaml")]), manifests, partial=True).snapshot) == ["k1"]


@pytest.mark.parametrize(
    ("hard", "count"),
    [({"requests.cpu": "4"}, 1), ({"requests.cpu": "4300m"}, 2), ({"limits.memory": "4Gi"}, 1), ({"limits.memory": "4416Mi"}, 2)],
)
def test_quotas_count_the_overhead(hard: Object, count: int) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
    snapshot = grown([P1, runtime_class(), quota], vm(limits={"memory": "2Gi"}))
    assert where(snapshot) == ["p1"] * count
    assert len(checked.refused(snapshot)) == 2 - count


def test_what_an_api_server_refuses_is_bad_input() -> None:
    assert refusal([K1], vm()) == [
        "objects[0]: Deployment default/vm: spec.template.spec.runtimeClassName: got 'kata', expected a RuntimeClass of the input"
    ]
    assert refusal([K1, KATA], vm(nodeSelector={"sandbox": "gvisor"})) == [
        "objects[0]: Deployment default/vm: spec.template.spec.nodeSelector[sandbox]: "
        "got 'gvisor', expected 'kata', as RuntimeClass 'kata' has it"
    ]
    assert refusal([K1, KATA], vm(overhead={"cpu": "1"})) == [
        "objects[0]: Deployment default/vm: spec.template.spec.overhead: "
        "got cpu 1, expected that of RuntimeClass 'kata' (cpu 250m, memory 160Mi)"
    ]
    assert refusal([K1], pod("p", overhead={"cpu": "1"})) == [
        "objects[0]: Pod default/p: spec.overhead: got cpu 1, expected none without a RuntimeClass"
    ]
    with pytest.raises(InputError, match=r"RuntimeClass x: overhead\.podFixed\.cpu"):
        from_objects([runtime_class("x", {"cpu": "?"})])


def test_an_equal_overhead_is_no_contradiction() -> None:
    assert where(grown([K1, KATA], vm(1, overhead={"cpu": "0.25", "memory": "160Mi"}))) == ["k1"]


def test_replicas_and_rollouts_are_admitted_as_well() -> None:
    cluster = from_objects([K1, P1, KATA, vm(1) | {"metadata": {"name": "vm", "namespace": "default", "uid": "u"}}])
    more, _ = top_up(cluster, "Deployment", "default", "vm", 2)
    assert where(more) == ["k1"]
    [deployment] = cluster.workloads["Deployment"]
    made, _ = revision_pods(cluster, deployment, 1)
    assert made[0].spec.nodeSelector == {"sandbox": "kata"}
    with pytest.raises(InputError, match="got 'kata', expected a RuntimeClass"):
        top_up(from_objects([K1, vm(1)]), "Deployment", "default", "vm", 2)


def test_pods_of_a_snapshot_that_nobody_stored_get_it_and_stored_ones_keep_what_they_have() -> None:
    fresh = pod("fresh", runtimeClassName="kata")
    stored = copy.deepcopy(pod("stored", runtimeClassName="kata"))
    stored["metadata"]["uid"] = "u"
    found = {each.metadata.name: each.spec for each in from_objects([KATA, fresh, stored]).pods}
    assert found["fresh"].overhead == {"cpu": "250m", "memory": "160Mi"}
    assert found["stored"].overhead is None
    with pytest.raises(InputError, match=r"Pod default/fresh: spec\.runtimeClassName: got 'kata', expected a RuntimeClass"):
        from_objects([fresh])
    [stated] = from_objects([pod("stated", runtimeClassName="kata", overhead={"cpu": "1"})]).pods
    assert stated.spec.overhead == {"cpu": "1"}
    running = pod("fresh", runtimeClassName="kata", node_name="k1")
    [warning] = [text for text in from_objects([K1, running]).warnings if "RuntimeClass" in text]
    assert "not applied to 1 pod (default/fresh)" in warning


def test_a_daemon_set_wants_the_nodes_of_its_template_and_its_pods_get_the_class() -> None:
    """Its controller knows no RuntimeClass: it makes pods for nodes that the class excludes, and these stay pending."""
    snapshot = grown([K1, P1, KATA], vm(kind="DaemonSet"))
    assert [each.spec.overhead is not None for each in snapshot.pods] == [True]
    assert where(snapshot) == []


# --- merged tolerations and the checker's reading -----------------------------------------------------------------------------------------

EFFECTS = st.sampled_from((None, "NoSchedule", "NoExecute"))
TOLERATIONS = st.one_of(
    st.builds(objects.Toleration, st.sampled_from((None, "a", "b")), st.just("Exists"), st.none(), EFFECTS),
    st.builds(objects.Toleration, st.sampled_from(("a", "b")), st.just("Equal"), st.sampled_from((None, "1", "2")), EFFECTS),
)
TAINTS = [
    objects.Taint(key, effect, value) for key in ("a", "b", "c") for effect in ("NoSchedule", "NoExecute") for value in ("1", "2", "3")
]


def tolerated(listed: list[objects.Toleration]) -> set[tuple[str, str, str | None]]:
    """By taint: the scheduler's own comparison."""

    def takes(t: objects.Toleration, taint: objects.Taint) -> bool:
        if (t.effect and t.effect != taint.effect) or (t.key and t.key != taint.key):
            return False
        return t.operator == "Exists" or (t.value or "") == taint.value

    return {(each.key, each.effect, each.value) for each in TAINTS if any(takes(t, each) for t in listed)}


@settings(max_examples=60, deadline=None)
@given(own=st.lists(TOLERATIONS, max_size=3), added=st.lists(TOLERATIONS, max_size=3), lost=st.integers(0, 9))
def test_merged_tolerations_tolerate_what_either_list_does(
    own: list[objects.Toleration], added: list[objects.Toleration], lost: int
) -> None:
    of = msgspec.convert(KATA, RuntimeClass)
    assert of.scheduling is not None
    of.scheduling.tolerations = added
    spec = objects.PodSpec(runtimeClassName="kata", tolerations=own)
    made = defaults.with_runtime_class(spec, {"kata": of})
    merged = made.tolerations or []
    assert tolerated(merged) == tolerated([*own, *added])
    assert defaults.with_runtime_class(made, {"kata": of}) == made

    def faults(spec: objects.PodSpec) -> dict[str, tuple[str, str]]:
        found = objects.Pod(objects.ObjectMeta(name="p", namespace="default"), spec)
        return checked.refused(Snapshot(pods=[found], to_create=["default/p"], runtime_classes={"kata": of}))

    assert faults(made) == {}
    assert faults(msgspec.structs.replace(made, overhead=None))["default/p"][0] == "RuntimeClass"
    assert faults(msgspec.structs.replace(made, nodeSelector=None))["default/p"][0] == "RuntimeClass"
    if added:
        fewer = [t for t in merged if t != merged[lost % len(merged)]]
        assert ("default/p" in faults(msgspec.structs.replace(made, tolerations=fewer))) == any(
            not any(defaults._covers(t, each) for t in fewer) for each in added
        )
