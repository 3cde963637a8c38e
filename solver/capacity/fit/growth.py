"""Growth of the answer by one more node of each kind."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.fit import Growth
from kubestow.solver.capacity.fit.cause import OneMore
from kubestow.solver.capacity.fit.question import Ceiling, FitQuestion
from kubestow.solver.capacity.fit.units import UnitsFound, range_of
from kubestow.solver.explain.remedy.add_nodes import shapes
from kubestow.solver.runtime.run_context import RunContext

#: Multiple of its equal part of the remaining time that one kind may take. Most kinds take less.
MAX_KIND_TIME_RATIO = 2.0


def growth(question: FitQuestion, ceiling: Ceiling, outcome: UnitsFound, beyond: OneMore, context: RunContext) -> Iterator[Growth | None]:
    """Yield the growth by one more node of each kind that can hold pods of the templates when empty.

    The smallest kind comes first. Yield None for a kind if time ran out.
    """
    instance, placement_question = beyond
    own = {node.metadata.name for node in question.snapshot.nodes}
    kinds = [shape for shape in shapes(placement_question, instance.cluster) if shape.like in own]
    for number, shape in enumerate(kinds):
        context.report("growth", "units", outcome.units, outcome.bound, detail=f"{number} of {len(kinds)} kinds of nodes")
        if context.over():
            yield None
            continue
        limited = context.fraction(min(1.0, MAX_KIND_TIME_RATIO / (len(kinds) - number)))
        same = _keeps_placements(instance.cluster, instance.cluster.nodes.names.index(shape.like))
        with_node = question.with_node(shape.like)
        zones = question.keep is not None and question.keep.of == "zone"
        ceiling_with_node = Ceiling.of(with_node) if zones else ceiling.with_node(shape.like, shape.size[-1])
        units, bound = range_of(with_node, ceiling_with_node, outcome.units + 1, outcome.units if same else 0, limited)
        context.deadline.charge(limited.deadline.elapsed())
        if context.stop.is_set() and units < bound:
            yield None
            continue
        yield Growth(shape.like, shape.nodes, units - outcome.bound, bound - outcome.units)


def _keeps_placements(cluster: Cluster, like: int) -> bool:
    """Return True if a clone of the node keeps every placement valid, because it adds no domain that a spread constraint counts."""
    for spread in (spread for cls in cluster.classes for spread in cls.spread):
        codes = cluster.domains(spread.key)[0]
        counted = codes[cluster.node_sets[spread.eligible]]
        own = cluster.nodes.labels(like).get(spread.key) == cluster.nodes.names[like]
        if own or codes[like] not in counted:
            return False
    return True
