"""The words of causes for NodePorts."""

from __future__ import annotations

import numpy as np

from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.facts import FactPart, Refusal


class PortWords(Rule):
    """Facts about host ports. Their topics are such as ``9100/TCP``."""

    drop_rank = 100
    counts_nominated = helped_by_new_nodes = helped_by_fewer_pods = True

    def refusals(self, g: int) -> list[Refusal]:
        rejected = self.rejects(g)
        text = "node(s) didn't have free ports for the requested pod ports"
        return [Refusal(text, rejected, np.zeros_like(rejected))] if rejected.any() else []

    def sentence(self, part: FactPart) -> str:
        several = len(part.view.pods(part.classes)) > 1
        parts = [f"is taken on {part.view.of_all(part.barred)}"] if part.barred.any() else []
        parts += ["goes to one pod per node"] if several else []
        return f"host port {part.topic} {' and '.join(parts)}; {part.pods} ask{part.plural} for it"
