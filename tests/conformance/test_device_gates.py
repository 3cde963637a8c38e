"""Recorded snapshots with devices under other versions and feature gates: the checker and ``explain``, which share no reading of devices,
say the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from kubestow.checker.placement import Judge
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.explain.per_node import explain
from tests.conformance.test_verify_conformance import pending, recorded
from tests.tiers import sampled

_SET = (
    "DRAConsumableCapacity=false", "DRAPartitionableDevices=false", "DRADeviceTaints=false", "DRAExtendedResource=false",
    "DRADeviceBindingConditions=false", "DRADeviceTaintRules=true", "DRAListTypeAttributes=true",
)  # fmt: skip
_OLDER = (
    ("1.34", "DRAPartitionableDevices=true", "DRADeviceTaints=true", "DRAExtendedResource=true"),
    ("1.34", "DRAAdminAccess=false", "DRAConsumableCapacity=true"),
    ("1.35", "DRAPrioritizedList=false", "DRAExtendedResource=true", "DRAConsumableCapacity=true"),
)
GATES = [("1.34",), ("1.35",), ("1.37",), *(("1.36", each) for each in _SET), *_OLDER]


def _gates(version: str, *given: str) -> FeatureGates:
    pairs = (each.partition("=") for each in given)
    return FeatureGates(version, tuple(sorted((gate, on == "true") for gate, _, on in pairs)))


_recorded = cache(recorded)


def _differences(number: int, gates: FeatureGates) -> Iterator[str]:
    snapshot = from_objects(_recorded("dra")[number]["snapshot"]["items"])
    snapshot.gates = gates
    waiting = pending(snapshot)
    judge, verdicts = Judge(snapshot, waiting), {verdict.pod: verdict for verdict in explain(snapshot)}
    for pod in waiting:
        for node in judge.nodes:
            faults = judge.faults(pod, node)
            told = sorted(verdicts[objects.pod_key(pod)].rejected.get(node, ()))
            if sorted({rule for rule, _ in faults}) != told:
                yield f"{pod.metadata.name} on {node}: the checker says {faults}, explain {told}"


@pytest.mark.parametrize("number", sampled(range(5, 300, 15), every=20, full=4))
@pytest.mark.parametrize("given", GATES, ids=" ".join)
def test_both_readings_agree(number: int, given: tuple[str, ...]) -> None:
    assert list(_differences(number, _gates(*given))) == []


def test_the_gates_matter() -> None:
    """Else the test above would be one of the defaults again."""
    changed = set()
    for number in range(5, 300, 90):
        snapshot = from_objects(_recorded("dra")[number]["snapshot"]["items"])
        waiting, found = pending(snapshot), {}
        for given in [("1.36",), *GATES]:
            snapshot.gates = _gates(*given)
            judge = Judge(snapshot, waiting)
            found[given] = [sorted({rule for rule, _ in judge.faults(pod, node)}) for pod in waiting for node in judge.nodes]
        changed |= {given for given in GATES if found[given] != found["1.36",]}
    assert len(changed) >= 5, changed
