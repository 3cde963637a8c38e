"""Every course of tiny rollouts, tried pod by pod on the plain objects, without any code of ``solver``.

The scheduler may take every node that the hard constraint admits, or one of a domain with the fewest matching pods for a soft one. The
controllers may delete equally ranked pods in any order, and as many at once as pods have become available.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

from tests.objects import Object, node, pod
from tests.solver.rollout.rollouts import APP, COST, HOST, ZONE, deployment, even, old, replica_set, rolling

FRONT = {"tier": "front"}
TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@dataclass
class TinyRollout:
    """A Deployment before its rollout. Each node takes a number of pods, and nothing else limits it.

    Attributes:
        zones: The zone of each node.
        slots: The number of pods that each node takes.
        tainted: Nodes whose taint the pods do not tolerate.
        old: The node of each old pod, whether it is ready, and its deletion cost.
        others: The nodes of other pods that the constraint counts.
        constraint: Fields of the spread constraint.
        by_revision: True if the constraint has ``matchLabelKeys: [pod-template-hash]``.
    """

    replicas: int
    surge: int
    unavailable: int
    zones: list[str]
    slots: list[int]
    tainted: set[int]
    old: list[tuple[int, bool, int]]
    others: list[int]
    constraint: dict[str, Any]
    by_revision: bool = False
    seen: set[tuple[frozenset[int], tuple[int, ...]]] = field(default_factory=set)
    worst: int | None = None

    def objects(self, **constraint: Any) -> list[Object]:
        """Return the API objects. Arguments override fields of the constraint."""
        found = [
            node(f"n{n}", cpu="64", pods=str(self.slots[n]), labels={ZONE: zone}, taints=[TAINT] if n in self.tainted else [])
            for n, zone in enumerate(self.zones)
        ]
        spread = even(**{**self.constraint, "labelSelector": {"matchLabels": FRONT}, **constraint})
        strategy = rolling(self.surge, self.unavailable)
        found += [deployment(self.replicas, strategy=strategy, labels={**APP, **FRONT}, spread=[spread]), replica_set()]
        for i, (where, ready, cost) in enumerate(self.old):
            each = old(i, f"n{where}", ready=ready, cpu="100m")
            each["metadata"]["annotations"] = {COST: str(cost)}
            each["metadata"]["labels"] |= FRONT
            found.append(each)
        return found + [pod(f"x{i}", cpu="100m", labels=FRONT, node_name=f"n{n}") for i, n in enumerate(self.others)]

    # --- brute force ------------------------------------------------------------------------------------------------------------

    def worst_skew(self) -> int | None:
        """Return the largest skew of an end; None if no course ends."""
        self._go(frozenset(range(len(self.old))), ())
        return self.worst

    @cached_property
    def _eligible(self) -> set[int]:
        honour = self.constraint.get("nodeTaintsPolicy") == "Honor"
        return {n for n in range(len(self.zones)) if not (honour and n in self.tainted)}

    def _domain(self, n: int) -> str:
        return self.zones[n] if self.constraint["key"] == ZONE else f"n{n}"

    def _skew(self, alive: frozenset[int], placed: tuple[int, ...]) -> tuple[dict[str, int], int]:
        """Return the matching pods by domain, and the global minimum."""
        counts = dict.fromkeys(map(self._domain, self._eligible), 0)
        for n in placed if self.by_revision else [*(self.old[i][0] for i in alive), *placed, *self.others]:
            if n in self._eligible:
                counts[self._domain(n)] += 1
        few = len(counts) < self.constraint.get("minDomains", 1)
        return counts, 0 if few else min(counts.values(), default=0)

    def _go(self, alive: frozenset[int], placed: tuple[int, ...]) -> None:
        if (alive, placed) in self.seen:
            return
        self.seen.add((alive, placed))
        if not alive and len(placed) == self.replicas:
            counts, least = self._skew(alive, placed)
            self.worst = max(self.worst or 0, max(counts.values(), default=0) - least)
            return
        if len(placed) < min(self.replicas, self.replicas + self.surge - len(alive)):
            for n in self._nodes(alive, placed):
                self._go(alive, tuple(sorted((*placed, n))))
        for gone in self._deletions(alive, placed):
            self._go(alive - gone, placed)

    def _nodes(self, alive: frozenset[int], placed: tuple[int, ...]) -> list[int]:
        on = [*(self.old[i][0] for i in alive), *placed, *self.others]
        counts, least = self._skew(alive, placed)
        fits = [n for n in range(len(self.zones)) if on.count(n) < self.slots[n] and n not in self.tainted]
        if self.constraint["whenUnsatisfiable"] == "DoNotSchedule":
            return [n for n in fits if counts.get(self._domain(n), 0) + 1 - least <= self.constraint["skew"]]
        fewest = min((counts.get(self._domain(n), 0) for n in fits), default=0)
        return [n for n in fits if counts.get(self._domain(n), 0) == fewest]

    def _deletions(self, alive: frozenset[int], placed: tuple[int, ...]) -> set[frozenset[int]]:
        on = [*(self.old[i][0] for i in alive), *placed]
        rank = {i: (self.old[i][1], self.old[i][2], -on.count(self.old[i][0])) for i in alive}
        ready = sum(self.old[i][1] for i in alive)
        least = self.replicas - self.unavailable
        found = set()
        for available in range(len(placed) + 1):
            ailing = min(len(alive) - ready, max(0, len(alive) + available - least))
            number = min(len(alive), ailing + max(0, ready + available - least))
            for chosen in combinations(sorted(alive), number):
                kept = alive - set(chosen)
                if chosen and all(rank[i] <= rank[j] for i in chosen for j in kept):
                    found.add(frozenset(chosen))
        return found


def tiny(seed: int) -> TinyRollout:
    """A random rollout, with a hard or a soft constraint over zones or nodes."""
    rng = random.Random(seed)
    replicas = rng.randint(1, 4)
    size = rng.randint(2, 4)
    surge, unavailable = rng.choice(((1, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1), (0, 2), (4, 0)))
    constraint: dict[str, Any] = {
        "key": rng.choice((ZONE, ZONE, HOST)), "skew": rng.choice((1, 1, 2)),
        "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
    }  # fmt: skip
    if rng.random() < 0.4:
        constraint["nodeTaintsPolicy"] = "Honor"
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.2:
        constraint["minDomains"] = rng.choice((2, 3))
    slots = [rng.choice((1, 2, 3, 9, 9)) for _ in range(size)]
    homes = [n for n in range(size) for _ in range(slots[n])]
    rng.shuffle(homes)
    number = min(len(homes), max(1, replicas + rng.choice((0, 0, 0, -1, 1))))
    olds = [(homes.pop(), rng.random() > 0.15, rng.choice((0, 0, 0, 5))) for _ in range(number)]
    others = [homes.pop() for _ in range(rng.choice((0, 0, 1))) if homes]
    tainted = {rng.randrange(size)} if rng.random() < 0.25 else set()
    return TinyRollout(
        replicas, surge, unavailable, [f"z{rng.randrange(3)}" for _ in range(size)], slots, tainted, olds, others, constraint,
    )  # fmt: skip
