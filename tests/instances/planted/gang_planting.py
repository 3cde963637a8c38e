"""Nodes for the pods of a planted gang: nodes that all its rules allow, drawn before anything else runs.

The solver's code is not used, so neither can hide a fault of the other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.instances.planted.gang_fleet import DISK, Racks
from tests.instances.planted.gang_templates import Template

#: Limits of the gang on one node: percent of its capacity, and number of pods.
_SHARE: Final = 60
_PODS: Final = 90
#: Percent of the pods that join others of the gang on a node: room in large pieces.
_JOIN: Final = 70
Domains = tuple[str, tuple[int, ...]]


@dataclass
class Plan:
    """A template and what its rules mean for the planted placement.

    ``weight``: CPU of a pod relative to those of other templates; ``ratio``: MiB for each mCPU. ``home``: key and the only domains allowed.
    ``cover``: domains (with their key) of which each gets a pod. ``per_node``: most replicas on a node; ``per_domain``: key whose domains
    take one each. ``even``: key and maxSkew over all domains. ``after``: template (by position) that attracts all pods, in domains of the
    key. ``foes``: templates with which no node is shared.
    """

    template: Template
    weight: int
    ratio: int
    home: Domains | None = None
    cover: list[tuple[str, int]] = field(default_factory=list)
    per_node: int = _PODS
    per_domain: str | None = None
    even: tuple[str, int] | None = None
    after: tuple[int, str] | None = None
    foes: set[int] = field(default_factory=set)

    def nodes(self, fleet: Racks) -> list[int]:
        """The nodes that home, selector and taints leave."""
        t = self.template
        return [
            n
            for n in range(len(fleet))
            if (t.tolerates or not fleet.tainted[n])
            and (t.selector.get(DISK) != "fast" or fleet.fast[n])
            and (self.home is None or fleet.domain(self.home[0], n) in self.home[1])
        ]


class Planting:
    """The state: mCPU, MiB and pods of the gang that each node holds, and which templates."""

    def __init__(self, rng: random.Random, fleet: Racks, plans: list[Plan]) -> None:
        self._rng, self._fleet, self._plans = rng, fleet, plans
        self.held = [[0, 0, 0] for _ in range(len(fleet))]
        self._kinds: list[set[int]] = [set() for _ in range(len(fleet))]
        self.on: list[list[int]] = []

    def run(self) -> bool:
        """Plant all templates, into ``on``; False where one of them finds no room."""
        for t, plan in enumerate(self._plans):
            self.on.append([])
            nodes = plan.nodes(self._fleet)
            if plan.after is not None:
                leader, key = plan.after
                there = {self._fleet.domain(key, n) for n in self.on[leader]}
                nodes = [n for n in nodes if self._fleet.domain(key, n) in there]
            quotas = self._quotas(plan, nodes)
            for i in range(plan.template.replicas):
                if not self._one(t, plan, nodes, quotas, i):
                    return False
        return True

    def _quotas(self, plan: Plan, nodes: list[int]) -> list[int]:
        """The domain of each replica where they are spread evenly; taints do not matter to which domains count."""
        if plan.even is None:
            return []
        key = plan.even[0]
        domains = sorted({self._fleet.domain(key, n) for n in nodes})
        self._rng.shuffle(domains)
        return [domains[i % len(domains)] for i in range(plan.template.replicas)]

    def _one(self, t: int, plan: Plan, nodes: list[int], quotas: list[int], i: int) -> bool:
        fleet, rng = self._fleet, self._rng
        allowed: Iterable[int] = nodes
        if quotas and plan.even is not None:
            key = plan.even[0]
            allowed = [n for n in nodes if fleet.domain(key, n) == quotas[i]]
        if i < len(plan.cover):
            key, domain = plan.cover[i]
            allowed = [n for n in allowed if fleet.domain(key, n) == domain]
        own = Counter(self.on[t])
        used = {fleet.domain(plan.per_domain, n) for n in own} if plan.per_domain else set()
        free = [
            n
            for n in allowed
            if own[n] < plan.per_node
            and not (plan.per_domain and fleet.domain(plan.per_domain, n) in used)
            and not (self._kinds[n] & plan.foes)
            and not any(t in self._plans[k].foes for k in self._kinds[n])
            and self._fits(n, plan.template)
        ]
        if not free:
            return False
        shared = [n for n in free if self.held[n][2]]
        n = rng.choice(shared) if shared and rng.randrange(100) < _JOIN else rng.choice(free)
        for r, amount in enumerate((plan.template.cpu, plan.template.memory, 1)):
            self.held[n][r] += amount
        self._kinds[n].add(t)
        self.on[t].append(n)
        return True

    def _fits(self, n: int, template: Template) -> bool:
        cpu, memory, pods = self.held[n]
        return (
            100 * (cpu + template.cpu) <= _SHARE * self._fleet.cpu[n]
            and 100 * (memory + template.memory) <= _SHARE * self._fleet.memory[n]
            and pods < _PODS
        )


def demand(fleet: Racks, plans: list[Plan], usage: int, ease: int) -> None:
    """Set the requests: all together ``ease`` percent of what ``usage`` leaves free, and no more of the nodes of a home than half."""
    shares: list[tuple[int, list[Plan]]] = [(sum(fleet.cpu) * (100 - usage) // 100 * ease // 100, plans)]
    for home in {plan.home for plan in plans if plan.home is not None}:
        inside = [plan for plan in plans if plan.home == home]
        shares.append((sum(fleet.cpu[n] for n in inside[0].nodes(fleet)) * ease // 200, inside))
    base = min(total * 10 // sum(p.weight * p.template.replicas for p in some) for total, some in shares)  # tenths of mCPU
    base = min(base, min(fleet.cpu) * 3 // max(p.weight for p in plans))
    for plan in plans:
        cpu = max(10, base * plan.weight // 10)
        plan.template.cpu = cpu // 10 * 10
        plan.template.memory = max(8, plan.template.cpu * plan.ratio // 8 * 8)


def sums(plans: list[Plan]) -> tuple[int, int]:
    """mCPU and MiB of the whole gang."""
    cpu = sum(p.template.cpu * p.template.replicas for p in plans)
    return cpu, sum(p.template.memory * p.template.replicas for p in plans)
