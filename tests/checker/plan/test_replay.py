"""The checker's running counters against a scan of all pods, on random small clusters and in every state of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.placement import Judge
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from tests.tiers import examples

pytestmark = pytest.mark.full

KEYS = ("zone", "rack")
NODES = {"n1": {"zone": "a", "rack": "r"}, "n2": {"zone": "a", "rack": "s"}, "n3": {"zone": "b", "rack": "t"}, "n4": {"zone": "b"}}
Term = tuple[str, str]  # label value that it selects, topology key
Skew = tuple[str, str, int]


@dataclass(frozen=True)
class Sketch:
    """A pod by what the two rules read of it: its one label, its terms and spread constraints."""

    label: str
    affinity: list[Term]
    anti: list[Term]
    spread: list[Skew]

    def pod(self, name: str) -> objects.Pod:
        def required(terms: list[Term]) -> dict[str, Any]:
            listed = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": value}}} for value, key in terms]
            return {"requiredDuringSchedulingIgnoredDuringExecution": listed}

        spec = {
            "affinity": {"podAffinity": required(self.affinity), "podAntiAffinity": required(self.anti)},
            "topologySpreadConstraints": [
                {
                    "topologyKey": key,
                    "maxSkew": skew,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": value}},
                }
                for value, key, skew in self.spread
            ],
        }
        return msgspec.convert({"metadata": {"name": name, "namespace": "d", "labels": {"app": self.label}}, "spec": spec}, objects.Pod)


LABEL = st.sampled_from("xyz")
TERMS = st.lists(st.tuples(LABEL, st.sampled_from(KEYS)), max_size=2)
SKEWS = st.lists(st.tuples(LABEL, st.sampled_from(KEYS), st.integers(1, 2)), max_size=2)
SKETCH = st.builds(Sketch, LABEL, TERMS, TERMS, SKEWS)
PLACED = st.lists(st.tuples(SKETCH, st.sampled_from(sorted(NODES))), max_size=7)


def same_domain(key: str, one: str, other: str) -> bool:
    return key in NODES[one] and NODES[one][key] == NODES[other].get(key)


def scan_affinity(asked: Sketch, target: str, there: list[tuple[Sketch, str]]) -> bool:
    """Return whether InterPodAffinity rejects, by the letter of the rule."""
    if any(other.label == value and same_domain(key, where, target) for value, key in asked.anti for other, where in there):
        return True
    if any(asked.label == value and same_domain(key, where, target) for other, where in there for value, key in other.anti):
        return True
    keys = [key for _, key in asked.affinity]
    if any(key not in NODES[target] for key in keys):
        return True
    full = [where for other, where in there if all(other.label == value for value, _ in asked.affinity)]
    if all(any(same_domain(key, where, target) for where in full) for key in keys):
        return False
    anywhere = any(key in NODES[where] for where in full for key in keys)
    return anywhere or any(value != asked.label for value, _ in asked.affinity)


def scan_spread(asked: Sketch, target: str, there: list[tuple[Sketch, str]]) -> bool:
    """Return whether PodTopologySpread rejects, by the letter of the rule."""
    eligible = [name for name, labels in NODES.items() if all(key in labels for _, key, _ in asked.spread)]
    for value, key, skew in asked.spread:
        if key not in NODES[target]:
            return True

        def count(domain: str, value: str = value, key: str = key) -> int:
            return sum(other.label == value and where in eligible and NODES[where][key] == domain for other, where in there)

        least = min(count(NODES[name][key]) for name in eligible)
        if count(NODES[target][key]) + (asked.label == value) - least > skew:
            return True
    return False


@examples(300)
@given(PLACED, st.integers(0, 7), SKETCH)
def test_every_state_of_a_replay_is_judged_as_a_scan_would(placed: list[tuple[Sketch, str]], bound: int, asked: Sketch) -> None:
    """The first ``bound`` pods run from the start, the others bind one by one; ``asked`` is judged on every node at the end."""
    status = objects.NodeStatus(allocatable={"pods": "99"})
    nodes = [objects.Node(objects.ObjectMeta(name=name, labels=labels), status=status) for name, labels in NODES.items()]
    pods = [sketch.pod(f"p{i}") for i, (sketch, _) in enumerate(placed)]
    for pod, (_, target) in list(zip(pods, placed, strict=True))[:bound]:
        pod.spec.nodeName = target
    last = asked.pod("asked")
    judge = Judge(Snapshot(nodes=nodes, pods=[*pods, last]), [*pods[bound:], last])
    for i, (sketch, target) in list(enumerate(placed))[bound:]:
        (faults,) = judge.bind([(pods[i], target)])
        found = {rule for rule, _ in faults}
        assert ("InterPodAffinity" in found) is scan_affinity(sketch, target, placed[:i])
        assert ("PodTopologySpread" in found) is scan_spread(sketch, target, placed[:i])
    for target in NODES:
        found = {rule for rule, _ in judge.faults(last, target)}
        assert ("InterPodAffinity" in found) is scan_affinity(asked, target, placed)
        assert ("PodTopologySpread" in found) is scan_spread(asked, target, placed)
