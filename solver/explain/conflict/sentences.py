"""The facts of a cause as sentences, with the relevant numbers."""

from __future__ import annotations

import numpy as np

from kubestow.models.documents.placement import Fact
from kubestow.solver.explain.conflict.fact_model import FactEncoding
from kubestow.solver.explain.conflict.remaining_nodes import Core, RemainingNodes
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.wording import MAX_NAMES


def facts(encoding: FactEncoding, needed: int, core: Core) -> list[Fact]:
    """Return one fact for each part of a cause, sorted. Numbers refer to what the other facts leave."""
    view = RemainingNodes(encoding, core)
    found = []
    for tags, domain in core:
        rule, topics = encoding.rules[tags[0].rule], list(dict.fromkeys(tag.topic for tag in tags))
        fact = Fact(rule.name, "", "", None if domain is None else view.domain(*domain))
        said: dict[str, None] = {}
        for topic in topics[:MAX_NAMES]:
            mine = [tag for tag in tags if tag.topic == topic]
            classes = sorted({g for tag in mine for g in tag.classes}) or list(range(encoding.cluster.n_classes))
            excluded = view.excluded(mine)
            barred = np.logical_and.reduce([excluded.get(g, view.nowhere) for g in classes])
            fact.object = fact.object or view.objects(classes)
            said[rule.sentence(FactPart(fact, view, topic, classes, barred, view.inside(tags), needed))] = None
        fact.message = "; ".join([*said, *([f"and {len(topics) - MAX_NAMES} more of the kind"] if len(topics) > MAX_NAMES else [])])
        found.append(fact)
    return sorted(found, key=lambda fact: (fact.rule, fact.object, fact.domain or "", fact.resource or "", fact.message))
