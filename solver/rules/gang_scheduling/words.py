"""The words of causes for GangScheduling."""

from __future__ import annotations

from collections.abc import Hashable

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.wording import listed


class GangWords(Rule):
    """Facts about gangs: they are placed whole, in one domain if they require it."""

    drop_rank = 50
    helped_by_new_nodes = True
    helped_by_fewer_pods = False
    counts_nominated = False
    facts_by_owner = False

    @classmethod
    def topology_keys(cls, cluster: Cluster) -> set[str]:
        return {gang.key for gang in cluster.gangs if gang.key is not None}

    @classmethod
    def hopeless(cls, needed: int, pods: int, nodes: int) -> tuple[str, str] | None:
        return ("", f"at least {needed} pods must be placed, but there are only {pods}") if needed > pods else None

    def fact_keys(self, topic: Hashable) -> dict[str, bool]:
        return dict.fromkeys(self.topology_keys(self.cluster), True)

    def sentence(self, part: FactPart) -> str:
        said, view = [], part.view
        for gang in self.cluster.gangs:
            part.fact.object = f"Gang {gang.name}"
            if gang.key is None:
                said.append(f"at least {gang.needed} pods of {gang.name} or none")
            elif gang.home:
                home = listed(view.domain(gang.key, d) for d in gang.home)
                said.append(f"all pods of {gang.name} go where members run already: {home}")
            else:
                size = self.cluster.domains(gang.key)[1]
                said.append(f"all pods of {gang.name} go to one domain of {gang.key}, of which there {'are' if size != 1 else 'is'} {size}")
        return "; ".join(said)
