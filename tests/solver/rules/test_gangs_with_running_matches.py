"""Gangs whose members want each other while pods that they match run already: placed if and only if brute force finds a way.

The brute force reads none of the engine's code. It tries every assignment of the gang's pods, and every way of binding them in units.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from functools import lru_cache

import pytest

from kubestow.models.documents.policy import Multipliers, Policy
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod
from tests.tiny import HOST, RACK, ZONE, Object

PLAIN = Policy(multipliers=Multipliers(0, 0, 0, 0, 0, 0), strategy="none")
QUICK, FULL, LONG = 10, 150, 5_000


@dataclass(frozen=True)
class Sketch:
    """A pod. ``wants``: (apps, topology key) of each affinity term."""

    app: str
    cpu: int
    wants: tuple[tuple[frozenset[str], str], ...] = ()

    def matched_by(self, other: Sketch) -> bool:
        return all(other.app in apps for apps, _ in self.wants)


@dataclass(frozen=True)
class Instance:
    """``nodes``: labels and CPU of each; ``running``: pods and their nodes; ``gang``: pods that are placed all or not at all."""

    nodes: tuple[tuple[dict[str, str], int], ...]
    running: tuple[tuple[Sketch, int], ...]
    gang: tuple[Sketch, ...]

    def objects(self) -> list[Object]:
        found = [node(f"n{i}", cpu=str(cpu), labels=labels) for i, (labels, cpu) in enumerate(self.nodes)]
        found += [pod(f"r{i}", cpu=str(one.cpu), labels={"app": one.app}, node_name=f"n{n}") for i, (one, n) in enumerate(self.running)]
        for i, one in enumerate(self.gang):
            terms = [
                {"topologyKey": key, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": sorted(apps)}]}}
                for apps, key in one.wants
            ]
            affinity: Object = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}} if terms else {}
            member = pod(f"m{i}", cpu=str(one.cpu), labels={"app": one.app}, **affinity)
            member["metadata"]["annotations"] = {"kubestow.dev/gang": "g"}
            found.append(member)
        return found

    def domain(self, n: int, key: str) -> str | None:
        return self.nodes[n][0].get(key)

    def accepted(self, before: list[tuple[Sketch, int]], unit: list[tuple[Sketch, int]]) -> bool:
        """Return whether required affinity accepts the pods of a unit, each with all of the others present."""
        opened: dict[object, str] = {}
        for i, (one, n) in enumerate(unit):
            others = [other for j, other in enumerate(unit) if j != i]
            for _, key in one.wants:
                domain = self.domain(n, key)
                if domain is None:
                    return False
                # Pods of the same terms do not found each other.
                near = [*before, *((other, m) for other, m in others if other.wants != one.wants)]
                if any(one.matched_by(other) and self.domain(m, key) == domain for other, m in near):
                    continue
                kin = [(other, m) for other, m in unit if other.wants == one.wants]
                first = any(one.matched_by(other) and self.domain(m, key) == domain for other, m in kin)
                visible = any(one.matched_by(other) and any(self.domain(m, k) for _, k in one.wants) for other, m in before)
                if not first or visible or opened.setdefault((one.wants, key), domain) != domain:
                    return False
        return True

    def fits(self) -> bool:
        """Return whether some assignment of the gang can be bound, unit by unit."""
        return any(self.binds(where) for where in itertools.product(range(len(self.nodes)), repeat=len(self.gang)) if self.room(where))

    def room(self, where: tuple[int, ...]) -> bool:
        bound = [(one, n) for one, n in self.running] + list(zip(self.gang, where, strict=True))
        return all(sum(one.cpu for one, at in bound if at == n) <= cpu for n, (_, cpu) in enumerate(self.nodes))

    def binds(self, where: tuple[int, ...]) -> bool:
        placed = list(zip(self.gang, where, strict=True))

        @lru_cache(None)
        def reachable(bound: frozenset[int]) -> bool:
            unbound = [i for i in range(len(placed)) if i not in bound]
            if not unbound:
                return True
            before = [*self.running, *(placed[i] for i in sorted(bound))]
            return any(
                self.accepted(before, [placed[i] for i in unit]) and reachable(bound | {*unit})
                for size in range(1, len(unbound) + 1)
                for unit in itertools.combinations(unbound, size)
            )

        return reachable(frozenset())


def draw(seed: int) -> Instance:
    """Return two to three nodes, one to three running pods, and a gang of two to four whose templates want each other or themselves."""
    rng = random.Random(f"running-matches-{seed}")
    nodes = []
    for i in range(rng.choice((2, 2, 3))):
        labels = {HOST: f"n{i}", RACK: rng.choice(("r1", "r2"))} | ({ZONE: rng.choice(("z1", "z2"))} if rng.random() < 0.9 else {})
        nodes.append((labels, rng.choice((1, 2, 3, 4))))
    apps = "abc"[: rng.choice((2, 2, 3))]
    running: list[tuple[Sketch, int]] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        n = rng.randrange(len(nodes))
        if sum(one.cpu for one, at in running if at == n) < nodes[n][1]:
            running.append((Sketch(rng.choice(apps), 1), n))
    templates = []
    for i, app in enumerate(apps):
        wants = []
        for k in range(0 if rng.random() < 0.1 else rng.choice((1, 1, 1, 2))):
            wanted = {apps[(i + 1) % len(apps)] if not k and rng.random() < 0.7 else rng.choice(apps)}
            wanted |= {rng.choice(apps)} if rng.random() < 0.2 else set()
            wants.append((frozenset(wanted), rng.choice((ZONE, ZONE, HOST, RACK))))
        templates.append(Sketch(app, rng.choice((1, 1, 1, 2)), tuple({key: (apps_, key) for apps_, key in wants}.values())))
    gang = [*templates, *(rng.choice(templates) for _ in range(rng.choice((0, 0, 1, 2)) if len(apps) == 2 else rng.choice((0, 1))))]
    return Instance(tuple(nodes), tuple(running), tuple(gang))


def compare(seed: int) -> bool:
    """Return whether the gang is placed; fail if brute force says otherwise."""
    drawn = draw(seed)
    result = place(snapshots.from_objects(drawn.objects()), Options(workers=1, time_limit=30, causes=False, policy=PLAIN))
    tier = result.objective[0]
    assert tier.value == tier.bound, f"seed {seed}: not proved"
    placed = len(result.assignments) == len(drawn.gang)
    assert placed == drawn.fits(), f"seed {seed}: {'placed' if placed else 'not placed'}"
    return placed


def test_a_few_gangs_beside_running_matches_are_placed_as_brute_force_says() -> None:
    assert 0 < sum(compare(seed) for seed in range(QUICK)) < QUICK


@pytest.mark.full
def test_gangs_beside_running_matches_are_placed_as_brute_force_says() -> None:
    assert sum(compare(seed) for seed in range(QUICK, FULL)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FULL, LONG, 50))
def test_gangs_beside_running_matches_are_placed_as_brute_force_says_at_length(first: int) -> None:
    for seed in range(first, first + 50):
        compare(seed)


def test_a_pair_is_placed_beside_a_full_node_with_a_match() -> None:
    """a and b want each other on one node. n1 has room for both; a b runs on n2, which is full."""
    pair = (Sketch("a", 1, ((frozenset("b"), HOST),)), Sketch("b", 1, ((frozenset("a"), HOST),)))
    nodes = (({HOST: "n1"}, 4), ({HOST: "n2"}, 1))
    drawn = Instance(nodes, ((Sketch("b", 1), 1),), pair)
    result = place(snapshots.from_objects(drawn.objects()), Options(workers=1, time_limit=30, policy=PLAIN))
    assert {(entry.pod, entry.node) for entry in result.assignments} == {("default/m0", "n0"), ("default/m1", "n0")}
    assert len({entry.order for entry in result.assignments}) == 1  # one unit
    alone = Instance(nodes, ((Sketch("b", 1), 1),), (Sketch("b", 1, ((frozenset("b"), HOST),)),) * 2)
    assert not alone.fits()  # of one template: Kubernetes lets no pod open a node if a match exists
    assert not place(snapshots.from_objects(alone.objects()), Options(workers=1, time_limit=30, policy=PLAIN)).assignments
