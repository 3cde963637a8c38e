"""The steps that keep their order in the waves, and the events after which a refused step is tried again.

Two steps with a common key of :meth:`Order.keys` are taken in sequence order, in one wave or in two. Steps
without a common key affect each other's verdict only through a node's capacity.
:mod:`kubestow.solver.rebalance.waves.schedule` reserves the capacity that earlier steps will take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from kubestow.models.cluster.cluster import AffinityTerm, Ids
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.waves.affinity import Supports
from kubestow.solver.rebalance.waves.spread import SkewsOfWave
from kubestow.solver.rules.node_resource_topology.rule import NodeResourceTopologyMatch
from kubestow.solver.rules.volumes.rule import NodeVolumeLimits, VolumeBinding

Keys = list[tuple[Hashable, ...]]


class Order:
    """The order constraints between steps.

    Args:
        state: The state at the start.
        steps: All steps of the plan, pod by pod.
    """

    def __init__(self, state: PlanState, supports: Supports, skews: SkewsOfWave, steps: Sequence[Step]) -> None:
        self.problem, self.cluster = state.problem, state.problem.cluster
        self._supports, self._skews = supports, skews
        self._numa = NodeResourceTopologyMatch.of(state.rules)
        self._limits = NodeVolumeLimits.of(state.rules)
        binding = VolumeBinding.of(state.rules)
        leaves = Counter((s.g, s.a) for s in steps)
        start = self.problem.start
        self._tight = {(g, a) for (g, a), k in leaves.items() if a >= 0 and start[g, a] < k}
        self._twice = {s.g for s in steps if s.b < 0} & {s.g for s in steps if s.a < 0}
        self._volumes: dict[int, Keys] = {}
        for i, link in enumerate((*binding.order_links(), *self._limits.order_links())):
            for g in link:
                self._volumes.setdefault(g, []).append(("volumes", i))
        self._terms = self._related({s.g for s in steps})
        self._class_keys: dict[int, Keys] = {}
        self._limited: dict[int, bool] = {}

    def _related(self, moving: set[int]) -> dict[int, list[tuple[int, Ids]]]:
        """Return, by class, the number and domains of moving classes' anti-affinity terms that concern it."""
        ids: dict[AffinityTerm, int] = {}
        found: dict[int, dict[int, Ids]] = {}
        for g in sorted(moving):
            for term in self.cluster.classes[g].anti:
                codes = self.cluster.domains(term.key)[0]
                if term not in ids:
                    ids[term] = len(ids)
                    for h in self.cluster.matching(term.matcher).tolist():
                        found.setdefault(h, {})[ids[term]] = codes
                found.setdefault(g, {})[ids[term]] = codes
        return {g: list(terms.items()) for g, terms in found.items()}

    def solo(self, step: Step) -> bool:
        """Return True if a step has to be a wave of its own because its outcome depends on the order of events."""
        cls = self.cluster.classes[step.g]
        if step.g in self._twice:
            return True
        keyed = cls.gang is not None and self.cluster.gangs[cls.gang].key is not None
        return step.a >= 0 and step.b >= 0 and (keyed or any(self.cluster.volumes.claim(key).delayed for key in cls.claims))

    def aligned(self, g: int, n: int) -> bool:
        """Return True if the kubelet of a node decides on pods of the class there."""
        return n >= 0 and n in self.cluster.trees and self.cluster.trees[n].rejects and self._numa.concerned(g)

    def _attaches(self, g: int) -> bool:
        """Return True if the class has claims of a driver that some node limits."""
        limited = self._limited.get(g)
        if limited is None:
            limited = self._limited[g] = bool(self.cluster.classes[g].claims and self._limits.bars(g))
        return limited

    def single(self, g: int) -> Keys:
        """Return exclusive keys: a wave takes one step of the classes that share such a key."""
        keys: Keys = [*self._volumes.get(g, ()), *self._devices(g)]
        return keys + [("claim", key) for key in self.cluster.classes[g].claims if self.cluster.volumes.claim(key).delayed]

    def places(self, g: int, n: int) -> Keys:
        """Return the keys of node resources that exclude other steps while a pod of the class arrives.

        No other pod that uses such a resource may come or go in the same wave.
        """
        if n < 0:
            return []
        keys: Keys = [("zones", n)] if self.aligned(g, n) else []
        if self._attaches(g):  # a claim that two pods share counts once
            keys += [("claim", key, n) for key in self.cluster.classes[g].claims]
        return keys

    def _devices(self, g: int) -> Keys:
        """Return a key of all pods that take devices. The devices that each gets depend on the earlier pods."""
        return [("devices",)] if self.cluster.classes[g].devices is not None else []

    def _of_class(self, g: int) -> Keys:
        keys = self._class_keys.get(g)
        if keys is None:
            cls, volumes = self.cluster.classes[g], self.cluster.volumes
            keys = self._class_keys[g] = [("skew", i) for i in self._skews.topics(g)]
            keys += [("affinity", i) for i in self._supports.topics(g)]
            keys += [("claim", key) for key in cls.claims if volumes.claim(key).delayed or volumes.claim(key).one_pod]
            keys += [*self._volumes.get(g, ()), *self._devices(g)]
            keys += [("gang", cls.gang)] if cls.gang is not None else []
            keys += [("pods", g)] if g in self._twice else []
        return keys

    def keys(self, step: Step) -> Keys:
        """Return the keys that keep a step in order with others."""
        free = self._skews.inside(step)
        return [key for key in self._touched(step) if not (key[0] == "skew" and key[1] in free)]

    def _touched(self, step: Step) -> Keys:
        """Return the keys of everything that a step changes for others, or depends on, while its wave runs."""
        g, b = step.g, step.b
        keys = list(self._of_class(g))
        keys += [("pods", g, n) for n in (step.a, b) if (g, n) in self._tight]
        keys += [("zones", n) for n in (step.a, b) if self.aligned(g, n)]
        if b >= 0:
            cls = self.cluster.classes[g]
            keys += [("anti", i, int(codes[b])) for i, codes in self._terms.get(g, ()) if codes[b] >= 0]
            keys += [("port", protocol, port, b) for _, protocol, port in cls.ports]
            keys += [("mounts", b)] if self._attaches(g) else []
        return list(dict.fromkeys(keys))

    def waits(self, step: Step) -> Keys:
        """Return the keys to wait for: after a wave that :meth:`wakes` one, a refused step may be accepted."""
        keys = [*self._touched(step), ("room", step.b), ("pods", step.g, step.a)]
        return keys + [("repelled", i) for i, _ in self._terms.get(step.g, ())]

    def wakes(self, step: Step) -> Keys:
        """Return the keys that a step changes for waiting steps."""
        keys = [*self._touched(step), ("room", step.a), ("pods", step.g, step.b)]
        return keys + [("repelled", i) for i, _ in (self._terms.get(step.g, ()) if step.a >= 0 else ())]
