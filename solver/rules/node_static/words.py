"""The words of causes for the rules about one pod and one node."""

from __future__ import annotations

from kubestow.models.cluster.near_misses import counted, label_misses, near_miss
from kubestow.solver.rules.base import StaticRule
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.node_static.near_taints import taint_misses, taint_text, tainted
from kubestow.solver.rules.wording import listed, node_rule


class RefusedWords(StaticRule):
    """Facts about pods that the API server would refuse."""

    def sentence(self, part: FactPart) -> str:
        refused = (self.cluster.classes[g].refused for g in part.classes)
        return f"{part.pods} cannot be created: {listed(dict.fromkeys(why for rule, why in filter(None, refused) if rule == self.name))}"


class SelectionWords(StaticRule):
    """Facts about nodeSelector and required node affinity."""

    drop_rank = 120

    def sentence(self, part: FactPart) -> str:
        rules = listed(node_rule(self.cluster.classes[g].pod) for g in part.classes)
        misses = dict.fromkeys(str(miss) for g in part.classes for miss in label_misses(self.cluster.nodes, self.cluster.classes[g].pod))
        return "; ".join([f"{rules} leaves {part.view.of_all(~part.barred)} for {part.pods}", *misses])


class TolerationWords(StaticRule):
    """Facts about taints that are not tolerated."""

    def sentence(self, part: FactPart) -> str:
        misses: dict[str, list[str]] = {}
        for g in part.classes:
            for toleration, taint in taint_misses(self.cluster, self.cluster.classes[g].pod):
                meant = f"{taint_text(taint)} ({counted(tainted(self.cluster, taint), 'node')})"
                misses.setdefault(f"no node has the tolerated taint {taint_text(toleration)}", []).append(meant)
        hints = (near_miss(missing, dict.fromkeys(meant)) for missing, meant in misses.items())
        return "; ".join([super().sentence(part), *hints])
