"""Planted gangs: what was planted fits, and fits only so; the planted causes are causes; the small instances do what their comments say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from kubestow.checker.placement import verify
from kubestow.models.documents.placement import Edits, Placement
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.gangs import known
from tests.instances.planted.gang_fleet import RACK
from tests.instances.planted.gang_shapes import SHAPES
from tests.instances.planted.planted_gangs import CAUSES, Planted, feasible, infeasible
from tests.solver.explain.questions import within

pytestmark = pytest.mark.full

INSTANCES = Path(__file__).resolve().parents[3] / "instances"


def cpu(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def requested(instance: Planted) -> tuple[int, int]:
    """mCPU that running pods ask for, and mCPU of all nodes."""
    pods = [o["spec"]["containers"] for o in instance.snapshot if o["kind"] == "Pod"]
    nodes = [o["status"]["allocatable"]["cpu"] for o in instance.snapshot if o["kind"] == "Node"]
    return sum(cpu(c["resources"]["requests"]["cpu"]) for containers in pods for c in containers), sum(map(cpu, nodes))


def size(manifest: dict[str, Any]) -> int:
    found: int = manifest["spec"].get("replicas") or manifest["spec"].get("parallelism")
    return found


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("seed", range(4))
def test_the_planted_placement_is_accepted_as_one_unit(shape: str, seed: int) -> None:
    instance = feasible(seed, nodes=60 + 40 * seed, shape=shape)
    snapshot = known.expanded(instance)
    assert snapshot.warnings == []
    assert known.refusals(snapshot, known.planted(instance, snapshot)) == []


@pytest.mark.parametrize("shape", ["mutual", "ring", "self", "group"])
def test_members_in_another_rack_or_zone_are_refused(shape: str) -> None:
    """The acceptance above is no matter of course: the checker reads the same rules."""
    instance = feasible(2, nodes=60, shape=shape)
    snapshot = known.expanded(instance)
    unit = known.planted(instance, snapshot)
    zone = {n.metadata.name: (n.metadata.labels or {})["topology.kubernetes.io/zone"] for n in snapshot.nodes}
    tied = "worker-0"  # of all these shapes the first template cannot be alone
    k = next(i for i, entry in enumerate(unit) if entry.pod.startswith(f"train/{tied}-"))
    home = {zone[node] for node in instance.placement[tied]}
    elsewhere = next(name for name in zone if name is not None and zone[name] not in home)
    moved = [*unit[:k], structs.replace(unit[k], node=elsewhere), *unit[k + 1 :]]
    assert any("InterPodAffinity" in fault for fault in known.refusals(snapshot, moved))


@given(st.integers(0, 10_000), st.integers(50, 120), st.integers(8, 80), st.integers(80, 98))
@settings(max_examples=25, deadline=None)
def test_sizes_and_usage_are_as_asked(seed: int, nodes: int, pods: int, usage: int) -> None:
    instance = feasible(seed, nodes=nodes, pods=pods, usage=usage)
    used, total = requested(instance)
    assert abs(100 * used - usage * total) <= total  # within one percent of all CPUs
    assert sum(1 for o in instance.snapshot if o["kind"] == "Node") == nodes
    assert 1 <= len(instance.manifests) <= 8
    assert sum(map(size, instance.manifests)) == pods == sum(map(len, instance.placement.values()))
    snapshot = known.expanded(instance)
    assert known.refusals(snapshot, known.planted(instance, snapshot)) == []


def test_drawn_sizes_are_within_their_ranges() -> None:
    drawn = [feasible(seed).sizes for seed in range(40)]
    assert all(50 <= d["nodes"] <= 1000 and 8 <= d["pods"] <= 512 and 1 <= d["templates"] <= 8 and 80 <= d["usage"] <= 98 for d in drawn)
    assert max(d["nodes"] for d in drawn) > 500
    assert max(d["pods"] for d in drawn) > 250


def test_the_same_seed_gives_the_same_objects() -> None:
    assert feasible(5, nodes=80) == feasible(5, nodes=80)
    assert feasible(5, nodes=80) != feasible(13, nodes=80)
    assert infeasible(1, cause="ports") == infeasible(1, cause="ports")


def test_a_gang_that_cannot_be_planted_is_an_error() -> None:
    with pytest.raises(ValueError, match="no gang of 9000 pods can be planted on 50 nodes at 98 %"):
        feasible(0, nodes=50, pods=9000, usage=98)


def test_every_rule_is_drawn_somewhere() -> None:
    found = set()
    for seed in range(160):
        for manifest in feasible(seed, nodes=70).manifests:
            template = manifest["spec"]["template"]
            spec = template["spec"]
            for kind, terms in spec.get("affinity", {}).items():
                found |= {(kind, t["topologyKey"].rpartition("/")[2]) for t in terms["requiredDuringSchedulingIgnoredDuringExecution"]}
            found |= {("spread", t["topologyKey"].rpartition("/")[2]) for t in spec.get("topologySpreadConstraints", [])}
            found |= {(key, "") for key in ("nodeSelector", "tolerations") if key in spec}
            found |= {("port", "") for c in spec["containers"] if "ports" in c}
            found.add((manifest["kind"], ""))
            if key := template["metadata"]["annotations"].get("kubestow.dev/required-topology"):
                found.add(("required", key.rpartition("/")[2]))
    assert found == {
        *((kind, key) for kind in ("podAffinity", "spread") for key in ("hostname", "rack", "zone")),
        ("podAntiAffinity", "hostname"), ("podAntiAffinity", "rack"), ("required", "rack"), ("required", "zone"),
        *((name, "") for name in ("nodeSelector", "tolerations", "port", "Deployment", "StatefulSet", "Job")),
    }  # fmt: skip


# --- infeasible -------------------------------------------------------------------------------------------------------------------------


def unit_of(snapshot: Snapshot) -> PlacementQuestion:
    pods = tuple(select(snapshot).pending)
    return PlacementQuestion(snapshot, pods, len(pods))


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("seed", range(4))
def test_a_planted_cause_is_all_that_is_wrong(cause: str, seed: int) -> None:
    """No placement of the gang; one of all other templates, with rules and all."""
    instance = infeasible(seed, cause=cause)
    assert unit_of(known.expanded(instance)).feasible(within(30.0, deterministic=True)) is False
    rest = replace(instance, manifests=[m for m in instance.manifests if not instance.workload.endswith(f"/{m['metadata']['name']}")])
    assert len(rest.manifests) == len(instance.manifests) - 1
    others = [m for m in rest.manifests if "podAffinity" not in m["spec"]["template"]["spec"].get("affinity", {})]
    assert unit_of(known.expanded(replace(rest, manifests=others))).feasible(within(30.0, deterministic=True)) is True


def test_what_a_cause_has_to_name() -> None:
    drawn = [infeasible(seed, cause=cause) for cause in CAUSES for seed in range(20)]
    assert {i.rule for i in drawn} == {
        "NodeResourcesFit", "InterPodAffinity", "PodTopologySpread", "NodePorts", "VolumeBinding", "VolumeZone", "VolumeRestrictions",
        "NodeResourceTopologyMatch",
    }  # fmt: skip
    labels = {f"{k}={v}" for i in drawn for o in i.snapshot if o["kind"] == "Node" for k, v in o["metadata"]["labels"].items()}
    assert {i.domain for i in drawn if i.domain is not None} <= labels
    required = [i for i in drawn if any("required-topology" in str(m) for m in i.manifests)]
    assert required
    assert all(i.cause == "capacity" and RACK in str(i.manifests) for i in required)


# --- small instances --------------------------------------------------------------------------------------------------------------------


@cache
def solved(name: str) -> tuple[Snapshot, Placement]:
    snapshot = apply(
        load([str(INSTANCES / f"{name}.yaml")]), load([str(INSTANCES / f"{name}-workload.yaml")], manifests=True), Edits()
    ).snapshot
    assert snapshot.warnings == []
    assert snapshot.ignored == {}
    result = place(snapshot, Options(time_limit=30.0))
    assert verify(snapshot, result) == []
    return snapshot, result


def on(name: str) -> dict[str, list[str]]:
    """Nodes by the first part of the pods' names, sorted."""
    found: dict[str, list[str]] = {}
    for entry in solved(name)[1].assignments:
        found.setdefault(entry.pod.partition("/")[2].partition("-")[0], []).append(entry.node)
    return {app: sorted(nodes) for app, nodes in found.items()}


def test_pods_that_fit_in_one_order_only() -> None:
    assert on("gang-one-order") == {"helper": ["small"], "trainer": ["large"]}


def test_templates_that_need_each_other_bind_as_a_unit_in_one_zone() -> None:
    found = on("gang-mutual")
    assert {app: len(nodes) for app, nodes in found.items()} == {"a": 3, "b": 2}
    assert {node for nodes in found.values() for node in nodes} <= {"b1", "b2"}
    assert {(entry.order, entry.gang) for entry in solved("gang-mutual")[1].assignments} == {(1, "default/pair")}


def test_a_gang_that_wants_to_be_together_opens_the_right_zone() -> None:
    assert on("gang-self-affine") == {"ring": ["b1", "b2", "b3", "b4"]}


def test_a_zone_that_takes_nobody_holds_the_others_down() -> None:
    result = solved("spread-infeasible-zone")[1]
    assert result.status == "infeasible"
    assert result.assignments == []
    assert result.snapshot.pending == 2
    (cause,) = result.causes
    assert {fact.rule for fact in cause.facts} == {"PodTopologySpread", "TaintToleration"}
    assert cause.minimal
    assert any(way.change == "raiseMaxSkew" for way in cause.waysOut)


@pytest.mark.parametrize("name", ["gang-one-order", "gang-mutual", "gang-self-affine"])
def test_pod_by_pod_none_of_them_is_placed_whole(name: str) -> None:
    from tests.gangs.pod_by_pod import schedule

    result = schedule(solved(name)[0])
    assert (result.whole, result.gangs) == (0, 1)


def test_plain_objects_are_what_files_hold() -> None:
    instance = feasible(0, nodes=50)
    assert from_objects(instance.snapshot).counts()["Node"] == 50
    assert len(from_objects(instance.manifests).workloads) == len({m["kind"] for m in instance.manifests})
