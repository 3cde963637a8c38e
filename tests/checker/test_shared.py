"""Facts that the checker computes once for shared parts of pods: the verdicts equal those of pods that share nothing."""

from __future__ import annotations

import dataclasses
import gc
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubestow.checker.objective.preferences import score
from kubestow.checker.placement import verify
from kubestow.checker.reading import matching
from kubestow.checker.reading.eligible_nodes import Eligible
from kubestow.checker.reading.taints import untolerated_taint
from kubestow.checker.rules.pod_topology_spread.state import Census, Count
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef, TierResult
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.gangs import gangs
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import tiny_soft
from tests.objects import node, pod
from tests.tiers import examples


def apart(snapshot: Snapshot) -> Snapshot:
    """The snapshot with no part of a pod shared."""
    pods = [msgspec.json.decode(msgspec.json.encode(entry), type=kube_objects.Pod) for entry in snapshot.pods]
    return dataclasses.replace(snapshot, pods=pods)


def thrown(snapshot: Snapshot, rng: random.Random, *, from_scratch: bool) -> Placement:
    """Every pod to be placed on a node at random, some in gangs."""
    assignments: list[Assignment] = []
    for entry in snapshot.pods:
        if not kube_objects.is_terminal(entry) and (from_scratch or not entry.spec.nodeName):
            order = max(1, len(assignments) + (rng.random() < 0.7))
            gang = (entry.metadata.annotations or {}).get(gangs.GANG)
            assignments.append(Assignment(kube_objects.pod_key(entry), rng.choice(snapshot.nodes).metadata.name or "", order, gang))
    ref = SnapshotRef("", len(snapshot.nodes), len(snapshot.pods), len(assignments), fromScratch=from_scratch)
    tiers = [TierResult("soft", value=10**6, bound=10**6)]  # far off: the fault lists what each family is worth
    return Placement(snapshot=ref, engine="greedy", status="feasible", objective=tiers, assignments=assignments)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(tiny_soft.KINDS), st.booleans())
def test_pods_that_share_nothing_are_judged_alike(seed: int, kind: str, from_scratch: bool) -> None:
    objects = tiny_soft.snapshot(seed, kind, nodes=4, pods=5)
    for entry in [o for o in objects if o["kind"] == "Pod"]:  # replicas, which share all they can
        objects.append({**entry, "metadata": {**entry["metadata"], "name": entry["metadata"]["name"] + "-twin"}})
    for entry in objects:
        if entry["kind"] == "Pod":
            annotations = {gangs.GANG: "default/g", gangs.PREFERRED_TOPOLOGY: "kubernetes.io/hostname"}
            entry["metadata"] = {**entry["metadata"], "annotations": annotations}
    shared = from_objects(objects)
    placement = thrown(shared, random.Random(seed), from_scratch=from_scratch)
    other = apart(shared)
    assert verify(other, placement) == verify(shared, placement)
    placed = {entry.pod: entry.node for entry in placement.assignments}
    one, two = (score(each, placed, placed, DEFAULT, pending=placed) for each in (other, shared))
    assert (one, one.pods) == (two, two.pods)


KEY = st.sampled_from(("zone", "disk"))
LABELS = st.dictionaries(KEY, st.sampled_from(("a", "b", "7")))
VALUES = st.lists(st.sampled_from(("a", "b", "7", "no value")), max_size=2)
LABEL = st.builds(kube_objects.NodeSelectorRequirement, KEY, st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "?")), VALUES)
NAMES = st.lists(st.sampled_from(("n0", "n1", "gone")), max_size=2)
NAME = st.builds(kube_objects.NodeSelectorRequirement, st.just("metadata.name"), st.sampled_from(("In", "NotIn")), NAMES)
TERM = st.builds(kube_objects.NodeSelectorTerm, st.none() | st.lists(LABEL, max_size=2), st.none() | st.lists(NAME, max_size=2))
SELECTOR = st.none() | st.builds(kube_objects.NodeSelector, st.none() | st.lists(TERM, max_size=2))
WANTED = st.none() | st.builds(kube_objects.NodeAffinity, SELECTOR, SELECTOR)
TOLERATED = st.none() | st.lists(st.builds(kube_objects.Toleration, key=st.just("t"), operator=st.just("Exists")), max_size=1)


@pytest.mark.full
@examples(300)
@given(
    st.lists(st.tuples(LABELS, st.booleans()), min_size=1, max_size=5),
    st.lists(st.tuples(st.none() | LABELS, WANTED, TOLERATED, st.sets(KEY), st.booleans(), st.booleans()), min_size=1, max_size=4),
)
def test_eligible_nodes_are_those_of_a_look_at_every_node(
    drawn: list[tuple[dict[str, str], bool]],
    asked: list[tuple[dict[str, str] | None, kube_objects.NodeAffinity | None, list[kube_objects.Toleration] | None, set[str], bool, bool]],
) -> None:
    taint = [kube_objects.Taint(key="t", effect="NoSchedule")]
    nodes = {
        f"n{i}": kube_objects.Node(
            kube_objects.ObjectMeta(name=f"n{i}", labels=labels), kube_objects.NodeSpec(taints=taint if tainted else None)
        )
        for i, (labels, tainted) in enumerate(drawn)
    }
    eligible = Eligible(nodes, GATES)
    for selector, wanted, tolerations, keys, affinity, taints in asked:
        spec = kube_objects.PodSpec(nodeSelector=selector, affinity=kube_objects.Affinity(nodeAffinity=wanted), tolerations=tolerations)
        assert eligible.of(spec, keys, affinity=affinity, taints=taints) == {
            name
            for name, entry in nodes.items()
            if keys <= set(entry.metadata.labels or {})
            and not (affinity and matching.node_affinity_fault(spec, entry))
            and not (taints and untolerated_taint(tolerations, (entry.spec and entry.spec.taints) or (), GATES))
        }


@given(st.integers(1, 4), st.lists(st.integers(0, 3), max_size=12))
def test_least_count_is_that_of_all_domains(size: int, arrivals: list[int]) -> None:
    count = Count(Census("d", (), "zone", frozenset()), size)
    numbers = [0] * size
    for domain in arrivals:
        numbers[domain % size] += 1
        count.change(str(domain % size), 1)
    assert count.minimum(1) == min(numbers)
    assert count.minimum(size + 1) == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    """Also when a quantity cannot be read."""
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        sound = from_objects([node("a"), pod("p")])
        verify(sound, thrown(sound, random.Random(0), from_scratch=False))
        assert gc.isenabled() is enabled
        broken = from_objects([node("a", cpu="what"), pod("p")], validate=False)
        with pytest.raises(QuantityError):
            verify(broken, thrown(broken, random.Random(0), from_scratch=False))
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if before else gc.disable()
