"""PodTopologySpread in plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.plans import PlanFace
from kubestow.solver.rules.pod_topology_spread.joining_nodes import JoiningDomains
from kubestow.solver.rules.pod_topology_spread.plan_target import SkewEncoder
from kubestow.solver.rules.pod_topology_spread.residents import Skews
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread
from kubestow.solver.rules.pod_topology_spread.waves import SkewsOfWave
from kubestow.solver.rules.residents import JoiningNodes

if TYPE_CHECKING:
    from kubestow.solver.rules.end_states import EndStates


class SpreadInPlans(PlanFace[PodTopologySpread]):
    """DoNotSchedule constraints, which pods that leave or land anywhere can break."""

    guard = SkewsOfWave
    residents = Skews
    never_is_final = True
    reads_node = False
    by_selector = True

    def selectors(self, g: int) -> list[int]:
        return [s.matcher for s in self.rule.cluster.classes[g].spread if s.matcher is not None]

    def kept(self, g: int) -> bool:
        return self.rule.kept(g)

    def links(self) -> list[list[int]]:
        return self.rule.order_links()

    def counted(self, g: int) -> Bools | None:
        found = np.zeros(self.rule.cluster.n_classes, dtype=bool)
        for _, index in self.rule.own(g):
            if index is not None:
                found |= self.rule.tallies[index].matches
        return found

    def move_domains(self, g: int) -> list[Ids]:
        own = {index for _, index in self.rule.own(g) if index is not None}
        return [self.rule.tallies[i].codes for i in sorted({*self.rule.feeds(g), *own})]

    def level(self, g: int) -> Ints | None:
        return self.rule.level(g) if self.rule.touches(g) else None

    def joining_nodes(self, come_and_go: Bools) -> JoiningNodes | None:
        return JoiningDomains(self.rule, come_and_go)

    def encode_end(self, states: EndStates) -> None:
        SkewEncoder(states, self.rule).run()
