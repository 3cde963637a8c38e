"""Which pods of a gang bind together: those that no order of single pods satisfies.

A sequence of (class, node, pods) keeps the pods of a unit next to each other; :func:`bundle` reads the units off it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.cluster import Cluster
from solver.rules.base import Rule
from solver.rules.inter_pod_affinity import InterPodAffinity
from solver.rules.pod_topology_spread import PodTopologySpread

Step = tuple[int, int, int]


class Binder:
    """Binds pods, one by one or as units, in the state of ``rules``, which is kept in step."""

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster, self.rules = cluster, rules
        self.pods = next(r for r in rules if isinstance(r, InterPodAffinity))
        self.spread = next(r for r in rules if isinstance(r, PodTopologySpread))
        self._others = [r for r in rules if r is not self.pods and r is not self.spread]

    def put(self, g: int, n: int, k: int) -> None:
        """k pods of class g on node n (k < 0: away from it), whatever the rules say."""
        for rule in self.rules:
            rule.place(g, n, k) if k > 0 else rule.remove(g, n, -k)

    def accepts(self, g: int, n: int) -> bool:
        """Whether all rules accept one more pod of class g on node n."""
        return not any(rule.rejects(g)[n] for rule in self.rules)

    def bind(self, unit: Sequence[Step]) -> bool:
        """Bind the pods of a unit if they are accepted: affinity and spread with all of them present, other rules one after the other.
        False (and nothing changed) if not."""
        cells: dict[tuple[int, int], int] = {}
        for g, n, k in unit:
            cells[g, n] = cells.get((g, n), 0) + k
        if not self.pods.admits_unit([(g, n, k) for (g, n), k in cells.items()]):
            return False
        done: list[tuple[int, int]] = []
        fine = True
        for g, n in [(g, n) for g, n, k in unit for _ in range(k)]:
            if any(rule.rejects(g)[n] for rule in self._others):
                fine = False
                break
            self.put(g, n, 1)
            done.append((g, n))
        if fine and all(self.spread.admits(g, n) for g, n in cells):
            return True
        for g, n in reversed(done):
            self.put(g, n, -1)
        return False

    def units(self, classes: Sequence[int], level: int) -> list[list[int]]:
        """How classes of one gang are bound: 0 one by one, 1 those that need each other in a cycle as units, 2 all as one unit."""
        if level == 0:
            return []
        return self.pods.cycles(classes) if level == 1 else [sorted(classes)]


def bundle(cluster: Cluster, sequence: Sequence[Step]) -> list[tuple[list[Step], bool]]:
    """A bind order in parts: steps, and whether their pods bind as a unit (else one by one).

    Raises:
        ValueError: some pods of a gang are not accepted in this order, whatever binds together.
    """
    gang_of = [c.gang if c.gang is not None and (c.affinity or c.spread) else None for c in cluster.classes]
    if not any(k is not None for k in gang_of):
        return [(list(sequence), False)]
    binder = Binder(cluster, [InterPodAffinity(cluster), PodTopologySpread(cluster)])
    found: list[tuple[list[Step], bool]] = []
    i = 0
    while i < len(sequence):
        k = gang_of[sequence[i][0]]
        j = i + 1
        while k is not None and j < len(sequence) and gang_of[sequence[j][0]] == k:
            j += 1
        run = list(sequence[i:j])
        if k is None:
            binder.put(*run[0])
            found.append((run, False))
        else:
            found += _read(binder, run)
        i = j
    return found


def _read(binder: Binder, run: list[Step]) -> list[tuple[list[Step], bool]]:
    """Consecutive steps of one gang, in parts."""
    for level in range(3):
        unit_of = {g: i for i, unit in enumerate(binder.units(sorted({g for g, _, _ in run}), level)) for g in unit}
        parts: list[tuple[list[Step], bool]] = []
        for step in run:
            unit = unit_of.get(step[0])
            if parts and unit is not None and unit_of.get(parts[-1][0][-1][0]) == unit:
                parts[-1][0].append(step)
            else:
                parts.append(([step], unit is not None))
        done: list[Step] = []
        for part, together in parts:
            if not _bind(binder, part, together=together):
                break
            done += part
        else:
            return parts
        for g, n, k in reversed(done):
            binder.put(g, n, -k)
    gang = binder.cluster.classes[run[0][0]].gang
    raise ValueError("no order" if gang is None else f"no order for gang {binder.cluster.gangs[gang].name}")


def _bind(binder: Binder, part: Sequence[Step], *, together: bool) -> bool:
    if together:
        return binder.bind(part)
    done: list[tuple[int, int]] = []
    for g, n, k in part:
        for _ in range(k):
            if not binder.accepts(g, n):
                for h, m in reversed(done):
                    binder.put(h, m, -1)
                return False
            binder.put(g, n, 1)
            done.append((g, n))
    return True
