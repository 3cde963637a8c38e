"""Tests that the stand-in's scheduler agrees with the checker: bound pods are accepted, and pending pods fit nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.placement import rejecting_rules
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import tiny
from tests.api_server import Behaviour, SimulatedCluster
from tests.tiers import sampled

Object = dict[str, Any]
_READ = {"Pod", "Node", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "PriorityClass"}
#: Rules that a scheduler cannot check for delayed volumes: it does not know whose limit the volume will count for.
_UNKNOWN = {"NodeVolumeLimits"}


def _snapshot(items: list[Object]) -> Snapshot:
    return from_objects([one for one in items if one["kind"] in _READ])


#: The stand-in's scheduler has no feature gates.
_KINDS = [kind for kind in tiny.KINDS if kind != "gated"]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("seed", sampled(range(48), every=9, full=3))
def test_the_scheduler_and_the_checker_agree(seed: int, kind: str) -> None:
    world = SimulatedCluster(Behaviour(seed=seed, scheduler="random" if seed % 2 else "at once", kubelets=False, scheduling=0.001))
    world.load(tiny.snapshot(seed, kind))
    world.settle()
    for entry in world.bound("scheduler"):
        snapshot = _snapshot(world.at(entry.index))
        pod = next(one for one in snapshot.pods if pod_key(one) == entry.key)
        assert set(rejecting_rules(snapshot, pod, entry.node)) <= _UNKNOWN
    snapshot = _snapshot(world.items())
    for pod in snapshot.pods:
        if pod.spec.nodeName is None and pod.metadata.deletionTimestamp is None:
            for node in snapshot.nodes:
                assert rejecting_rules(snapshot, pod, str(node.metadata.name)), f"{pod_key(pod)} on {node.metadata.name}"
