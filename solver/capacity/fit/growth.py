"""How the answer grows by one node of each kind."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.fit import Growth
from kubestow.solver.capacity.fit.question import Ceiling, Instance, Question
from kubestow.solver.capacity.fit.units import SHORT, Most, range_of
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.add_nodes import shapes
from kubestow.solver.runtime.run_context import RunContext

#: A kind may take so many times its share of the time that is left: most take less.
AHEAD = 2.0


def growth(
    question: Question, ceiling: Ceiling, found: Most, instance: Instance, asked: PlacementQuestion, context: RunContext
) -> Iterator[Growth | None]:
    """Yield what a node more of each kind brings whose empty nodes take pods of the templates, the smallest kind first; None for one for
    which there was no time. ``instance``, ``asked``: one unit more than fits."""
    own = {node.metadata.name for node in question.snapshot.nodes}
    kinds = [shape for shape in shapes(asked, instance.cluster) if shape.like in own]
    for number, shape in enumerate(kinds):
        context.report("growth", "units", found.units, found.bound, detail=f"{number} of {len(kinds)} kinds of nodes")
        if context.over():
            yield None
            continue
        limited = context.part(max(SHORT, context.deadline.left() * min(1.0, AHEAD / (len(kinds) - number))))
        same = _holds(instance.cluster, instance.cluster.nodes.names.index(shape.like))
        with_node = question.with_node(shape.like)
        zones = question.keep is not None and question.keep.of == "zone"
        most = Ceiling.of(with_node) if zones else ceiling.with_node(shape.like, shape.size[-1])
        units, bound = range_of(with_node, most, found.units + 1, found.units if same else 0, limited)
        context.deadline.charge(limited.deadline.elapsed())
        if context.stop.is_set() and units < bound:
            yield None
            continue
        yield Growth(shape.like, shape.nodes, units - found.bound, bound - found.units)


def _holds(cluster: Cluster, like: int) -> bool:
    """Return whether every placement holds with a clone of a node, too: it is in no domain of its own that a spread constraint counts."""
    for spread in (spread for cls in cluster.classes for spread in cls.spread):
        codes = cluster.domains(spread.key)[0]
        counted = codes[cluster.node_sets[spread.eligible]]
        own = cluster.nodes.labels(like).get(spread.key) == cluster.nodes.names[like]
        if own or codes[like] not in counted:
            return False
    return True
