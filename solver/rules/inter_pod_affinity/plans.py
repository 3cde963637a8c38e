"""InterPodAffinity in plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.inter_pod_affinity import domain_openings
from kubestow.solver.rules.inter_pod_affinity.plan_target import AffinityTarget
from kubestow.solver.rules.inter_pod_affinity.residents import Providers
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.inter_pod_affinity.waves import Supports
from kubestow.solver.rules.plan_state import PlanProblem
from kubestow.solver.rules.plans import PlanFace

if TYPE_CHECKING:
    from kubestow.solver.rules.end_states import EndStates


class _WithRunning(InterPodAffinity):
    """InterPodAffinity in which running pods may be on nodes that their class could not reach.

    Other pods of the class can be near these running pods.
    """

    def __init__(self, problem: PlanProblem) -> None:
        self._running: Bools = np.asarray(problem.start.any(axis=1))
        super().__init__(problem.cluster)

    def _unreachable(self, g: int) -> Bools:
        affinity = self.cluster.classes[g].affinity
        if affinity is None or not self._running[g]:
            return super()._unreachable(g)
        return ~self.cluster.nodes.with_keys(affinity.keys)


class AffinityInPlans(PlanFace[InterPodAffinity]):
    """Required affinity, which pods that leave can break, and anti-affinity, which is symmetric."""

    guard = Supports
    residents = Providers
    execution_fields = ("podAffinity", "podAntiAffinity")
    reads_node = False
    by_selector = True

    def while_running(self, problem: PlanProblem) -> Rule:
        return _WithRunning(problem)

    def selectors(self, g: int) -> list[int]:
        cls = self.rule.cluster.classes[g]
        return [*(term.matcher for term in cls.anti), *([cls.affinity.full] if cls.affinity is not None else [])]

    def links(self) -> list[list[int]]:
        return self.rule.order_links()

    def counted(self, g: int) -> Bools | None:
        index = self.rule.attraction(g)
        return np.zeros(self.rule.cluster.n_classes, dtype=bool) if index is None else self.rule.attractions[index].matches

    def conflicts(self, g: int) -> list[tuple[int, str]]:
        cluster = self.rule.cluster
        own = [(h, term.key) for term in cluster.classes[g].anti for h in cluster.matching(term.matcher).tolist()]
        others = [(h, term.key) for h, cls in enumerate(cluster.classes) for term in cls.anti if cluster.matches(term.matcher)[g]]
        return own + others

    def vouch(self, classes: Sequence[int], nodes: Bools) -> Any:
        return self.rule.vouch(classes, nodes)

    def unvouch(self, vouched: Any) -> None:
        self.rule.unvouch(vouched)

    def encode_end(self, states: EndStates) -> None:
        AffinityTarget(states, self.rule).run()
        domain_openings.encode(states.model, self.rule)

    def attainable(self, problem: PlanProblem, counts: Ints, target: Ints) -> bool:
        return all(opening.allows(target) for opening in domain_openings.openings(problem, self.rule, counts))
