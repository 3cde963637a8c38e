"""NodeResourceTopologyMatch in plans."""

from __future__ import annotations

from kubestow.solver.rules.node_resource_topology.rule import NodeResourceTopologyMatch
from kubestow.solver.rules.plan_state import PlanStep
from kubestow.solver.rules.plans import IndependentFace
from kubestow.solver.rules.waves import Keys, SymmetricGuard


class _ZonesOfWave(SymmetricGuard[NodeResourceTopologyMatch]):
    def places(self, g: int, n: int) -> Keys:
        """Return the zones of a node whose kubelet decides on pods of the class."""
        trees = self.cluster.trees
        return [("zones", n)] if n in trees and trees[n].rejects and self.rule.concerned(g) else []

    def step_keys(self, step: PlanStep) -> Keys:
        return [key for n in (step.a, step.b) for key in self.places(step.g, n)]


class ZonesInPlans(IndependentFace[NodeResourceTopologyMatch]):
    """The zones of running pods are unknown, so only pods that land are checked."""

    guard = _ZonesOfWave
