"""Nodes that are exactly the sum of some pods: the cuts add up, and rules are drawn."""

from __future__ import annotations

import pytest

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from tests.instances.planted.planted_nodes import planted_nodes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spare", [0, 1])
def test_pods_ask_for_what_nodes_have(seed: int, spare: int) -> None:
    snapshot = from_objects(planted_nodes(seed, nodes=12, pods=8, rules=True, spare=spare))
    cluster = compile_cluster(snapshot, select(snapshot))
    left = cluster.allocatable.sum(axis=0) - cluster.count @ cluster.demand
    assert left.tolist() == [spare * 6 * 50, spare * 6 * 128 * 2**20]
    assert len(set(cluster.priority.tolist())) == (4 if seed % 2 else 1)


def test_workloads_have_every_rule_or_none() -> None:
    pods = [pod for seed in range(6) for pod in from_objects(planted_nodes(seed, nodes=32, pods=8, rules=True)).pods]
    affinities = [pod.spec.affinity for pod in pods if pod.spec.affinity is not None]
    assert all(any(getattr(a, kind) is not None for a in affinities) for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    assert any(pod.spec.topologySpreadConstraints for pod in pods)
    assert any(pod.spec.affinity is None and not pod.spec.topologySpreadConstraints for pod in pods)
    plain = from_objects(planted_nodes(0, nodes=32, pods=8, rules=False))
    assert all(pod.spec.affinity is None and not pod.spec.topologySpreadConstraints for pod in plain.pods)
    assert compile_cluster(plain, select(plain)).n_classes == 9
