"""The words of causes for the rules about one pod and one node."""

from __future__ import annotations

from kubestow.solver.rules.base import StaticRule
from kubestow.solver.rules.facts import FactPart
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
        return f"{rules} leaves {part.view.of_all(~part.barred)} for {part.pods}"
