"""Machines and NUMA zones chosen together: the example against brute force over every choice of both, and against machines first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubestow.checker.placement import verify
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.pod_requests import pod_request
from kubestow.models.numa.node_topology import NumaTree, tree
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.container_affinity import matrix
from tests.objects import node, pod

FILE = Path(__file__).resolve().parents[3] / "instances" / "two-socket-joint.yaml"
POINTS = (DEFAULT.closeness.sameNode, DEFAULT.closeness.sameSocket, DEFAULT.closeness.sameZone)


@cache
def snapshot() -> Snapshot:
    return load([str(FILE)])


@cache
def solved() -> Placement:
    return place(snapshot(), Options(engine="exact", time_limit=20.0))


def cpu(pod: Pod) -> int:
    return pod_request(pod, GATES)["cpu"]


def pending() -> list[Pod]:
    return [pod for pod in snapshot().pods if not pod.spec.nodeName]


def machine(name: str) -> NumaTree:
    result = tree(snapshot().node_topologies[name])
    assert result is not None
    return result


# --- brute force: every pod has one container, and only CPUs are short --------------------------------------------------------


class Zones:
    """The best points on one machine for a set of pods, over all pools: a zone, a socket or the machine for each."""

    def __init__(self, name: str) -> None:
        self.tree = machine(name)
        count = len(self.tree.zones)
        self.whole = (1 << count) - 1
        self.sockets = [sum(1 << z for z in range(count) if self.tree.socket[z] == s) for s in sorted(set(self.tree.socket))]
        self.pools = [*(1 << z for z in range(count)), *self.sockets, self.whole]
        self.free = [sum(self.tree.available[z]["cpu"] for z in range(count) if pool >> z & 1) for pool in range(self.whole + 1)]

    def best(self, pods: tuple[Pod, ...]) -> int:
        _, weights = matrix(pods)
        requested = [cpu(pod) for pod in pods]
        chosen: list[int] = []
        best = None

        def extend() -> None:
            nonlocal best
            if len(chosen) == len(requested):
                points = sum(w * POINTS[self.tree.lowest(chosen[i], chosen[j])] for (i, j), w in weights.items())
                if (best is None or points > best) and self.tight(requested, chosen):
                    best = points
                return
            for pool in self.pools:
                chosen.append(pool)
                if self.holds(requested, chosen):
                    extend()
                chosen.pop()

        extend()
        assert best is not None
        return best

    def inside(self, requested: list[int], chosen: list[int], zones: int) -> int:
        """CPUs taken from pools inside a set of zones; the whole machine is no pool to speak of."""
        return sum(n for n, pool in zip(requested, chosen, strict=False) if pool != self.whole and pool & zones == pool)

    def holds(self, requested: list[int], chosen: list[int]) -> bool:
        """Return whether no set of zones is overfull; the pods before the last one are known to fit."""
        around = (zones for zones in range(1, self.whole + 1) if chosen[-1] & zones == chosen[-1] != self.whole)
        return all(self.inside(requested, chosen, zones) <= self.free[zones] for zones in around)

    def tight(self, requested: list[int], chosen: list[int]) -> bool:
        """Return whether no container has a wider pool than needed."""
        for n, pool in zip(requested, chosen, strict=True):
            for smaller in self.pools:
                if smaller != pool and smaller & pool == smaller:
                    around = [zones for zones in (smaller, *self.sockets) if smaller & zones == smaller]
                    if all(self.inside(requested, chosen, zones) + n <= self.free[zones] for zones in around):
                        return False
        return True


@dataclass(frozen=True)
class Choice:
    """The pods on the first machine, the rest on the other. ``points``: with the best zones; ``uneven``: CPUs that one gets more;
    ``blind``: Σ A(C1, C2) over pairs on one machine, wherever on it."""

    north: frozenset[str]
    points: int
    uneven: int
    blind: int


@cache
def choices() -> tuple[Choice, ...]:
    """Every way to place all pods."""
    first, second = (node.metadata.name or "" for node in snapshot().nodes)
    pools = []
    for size in range(len(pending()) + 1):
        for here in combinations(pending(), size):
            there = tuple(pod for pod in pending() if pod not in here)
            parts = ((first, here), (second, there))
            if any(sum(map(cpu, pods)) > sum(zone["cpu"] for zone in machine(name).available) for name, pods in parts):
                continue
            pools.append(
                Choice(
                    frozenset(map(pod_key, here)),
                    sum(Zones(name).best(pods) for name, pods in parts if pods),
                    abs(sum(map(cpu, here)) - sum(map(cpu, there))),
                    sum(sum(matrix(pods)[1].values()) for _, pods in parts),
                )
            )
    return tuple(pools)


def test_the_example_is_two_machines_of_two_sockets_and_four_zones() -> None:
    assert [node.metadata.name for node in snapshot().nodes] == ["north", "south"]
    for name in ("north", "south"):
        assert machine(name).socket == (0, 0, 1, 1)
    # The remaining capacity is the same by machine, but not by zone.
    available = [[zone["cpu"] for zone in machine(name).available] for name in ("north", "south")]
    assert available == [[6000, 2000, 2000, 2000], [3000, 3000, 3000, 3000]]
    assert all(len(pod.spec.containers or ()) == 1 for pod in pending())


def test_the_optimum_is_found_and_proved() -> None:
    result = solved()
    assert result.status == "optimal"
    assert [(t.value, t.bound) for t in result.objective if t.tier == "placed"] == [(len(pending()), len(pending()))]
    assert [(t.value, t.bound) for t in result.objective if t.tier == "soft"] == [(16, 16)]
    assert verify(snapshot(), result) == []


@pytest.mark.full
def test_the_optimum_is_that_of_brute_force() -> None:
    best = max(choice.points for choice in choices())
    assert best == 16
    placed = frozenset(a.pod for a in solved().assignments if a.node == "north")
    assert placed in {choice.north for choice in choices() if choice.points == best}


def test_the_zones_listed_are_worth_what_is_claimed() -> None:
    """Scored from the document alone, with the public scoring."""
    total = 0
    pods = {pod_key(pod): pod for pod in pending()}
    for name in ("north", "south"):
        here = [a for a in solved().assignments if a.node == name]
        views, weights = matrix([pods[a.pod] for a in here])
        assert [(v.pod, v.container) for v in views] == [(a.pod.split("/")[1], c.name) for a in here for c in a.containers]
        masks = [sum(1 << machine(name).zones.index(zone) for zone in a.containers[0].zones) for a in here]
        total += sum(w * POINTS[machine(name).lowest(masks[i], masks[j])] for (i, j), w in weights.items())
    assert total == 16


@pytest.mark.full
def test_machines_first_is_strictly_worse_even_with_the_best_zones() -> None:
    best = max(choice.points for choice in choices())
    even = [c for c in choices() if c.uneven == min(c.uneven for c in choices())]
    tight = [c for c in choices() if c.uneven == max(c.uneven for c in choices())]
    blind = [c for c in choices() if c.blind == max(c.blind for c in choices())]
    assert even
    assert tight
    assert blind
    # Ties are given the benefit: the best of all choices that are equally even, tight, or good by hints without zones.
    assert [max(c.points for c in chosen) for chosen in (even, tight, blind)] == [10, 12, 12]
    assert best > 12


@pytest.mark.full
def test_other_engines_keep_to_what_is_possible() -> None:
    best = max(choice.points for choice in choices())
    for options in (Options(engine="greedy"), Options(engine="auto", time_limit=5.0, seed=3)):
        result = place(snapshot(), options)
        (soft,) = [t for t in result.objective if t.tier == "soft"]
        assert soft.value <= best <= soft.bound
        north = frozenset(a.pod for a in result.assignments if a.node == "north")
        (choice,) = [c for c in choices() if c.north == north]
        assert soft.value == choice.points, "zones are at their best for the machines"


def test_without_a_gain_the_zones_are_those_that_the_kubelet_takes() -> None:
    """The hint is content in any zone, so nothing needs pinning: both pods go where the kubelet puts them, in the first zone."""
    zones: list[dict[str, Any]] = [{"name": f"node-{i}", "resources": {"cpu": "4", "memory": "8Gi"}} for i in range(2)]
    policy = msgspec.convert({"topologies": [{"nodes": ["n1"], "topologyManagerPolicy": "single-numa-node", "zones": zones}]}, Policy)
    amounts = {"cpu": "1", "memory": "1Gi"}
    pair, other = pod("pair"), pod("other")
    for made, names in ((pair, "ab"), (other, "c")):
        made["spec"]["containers"] = [{"name": n, "image": "i", "resources": {"requests": amounts, "limits": amounts}} for n in names]
    pair["metadata"]["annotations"] = {"resource-policy.nri.io/affinity": "a: [b]"}
    result = place(from_objects([node("n1", cpu="8", memory="16Gi"), pair, other]), Options(engine="exact", policy=policy))
    assert {c.name: c.zones for a in result.assignments for c in a.containers} == {name: ["node-0"] for name in "abc"}
    assert not [note for note in result.notes if "pinning" in note]
