"""Labels that were replaced: the successor is named where nodes have it, and rules without effect are noted."""

from __future__ import annotations

from kubestow.models.admission.deprecated_labels import hint, idle_terms
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import node, pod

OLD = "failure-domain.beta.kubernetes.io/zone"
NEW = "topology.kubernetes.io/zone"


def _snapshot(**labels: str) -> Snapshot:
    term = {"topologyKey": OLD, "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return from_objects(
        [node("a", labels={NEW: "a"}), node("b", labels=labels), pod("x", labels={"app": "x"}, affinity=affinity), pod("y")]
    )


def test_anti_affinity_over_a_label_that_no_node_has_is_noted_with_its_successor() -> None:
    snapshot = _snapshot()
    assert idle_terms(snapshot.pods, snapshot.nodes) == [
        f"required anti-affinity over {OLD} has no effect: no node has this label (1 pod); it is deprecated since Kubernetes 1.17: "
        f"use {NEW}, which 1 of 2 nodes have"
    ]


def test_a_label_that_a_node_has_works() -> None:
    snapshot = _snapshot(**{OLD: "b"})
    assert idle_terms(snapshot.pods, snapshot.nodes) == []


def test_a_successor_that_no_node_has_is_not_recommended() -> None:
    snapshot = _snapshot()
    assert hint(["beta.kubernetes.io/instance-type", "disk"], snapshot.nodes) == ""
