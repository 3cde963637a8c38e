"""Pods that are to be placed together against a cluster in which everything else stays where it is: can they, all of them?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ortools.sat.python import cp_model

from models.catalogue.catalogue import Catalogue
from models.cluster.cluster import Cluster, Ints
from models.cluster.compile import compile_cluster
from models.documents.policy import DEFAULT, Policy
from models.kube.objects import is_terminal
from models.snapshot.scope import Scope
from models.snapshot.snapshot import Snapshot
from solver import rules
from solver.bind_order.order import Sequence_, find_order
from solver.cpsat.model import PlacementModel
from solver.cpsat.run import CpSat
from solver.rules.placement_model import build_model
from solver.runtime.run_context import RunContext

#: Assignments without a bind order that are cut off before the question stays open.
CUTS = 20


@dataclass(frozen=True)
class PlacementQuestion:
    """``pods``: indices into ``snapshot.pods``, the members of one gang or pods of one kind, whatever their own nodeName says. Bound pods
    of the snapshot hold their place, all others are left out of sight. ``needed``: how many of ``pods`` have to be placed.
    ``catalogue``: nodes that can be had, for remedies."""

    snapshot: Snapshot
    pods: tuple[int, ...]
    needed: int
    exempt: tuple[str, ...] = ()
    policy: Policy = DEFAULT
    catalogue: Catalogue | None = None

    def scope(self) -> Scope:
        """Return what holds its place, and what is to be placed."""
        own = set(self.pods)
        nodes = {node.metadata.name for node in self.snapshot.nodes}
        fixed = [
            i
            for i, pod in enumerate(self.snapshot.pods)
            if i not in own and pod.spec.nodeName in nodes and pod.spec.nodeName and not is_terminal(pod)
        ]
        return Scope(fixed=fixed, pending=list(self.pods))

    def cluster(self) -> Cluster:
        """Return the compiled instance whose pending pods are those asked about."""
        return compile_cluster(self.snapshot, self.scope(), daemon_namespaces=self.exempt, policy=self.policy)

    def feasible(self, context: RunContext) -> bool | None:
        """Return whether ``needed`` of the pods can be placed and bound in some order; None: not known in time."""
        cluster = self.cluster()
        if not len(cluster.nodes.names):
            return not self.needed
        encoding = build_model(cluster, rules.build(cluster))
        placed = sum(encoding.fits) - encoding.sum(list(encoding.left.values()))
        encoding.model.add(placed >= self.needed)
        found = in_some_order(cluster, encoding, context)
        return True if found.placed is not None else False if found.refuted else None


class Bindable(NamedTuple):
    """What an exact model has: a placement (int64[G, N]) with its bind order, or the proof that it has none; or neither in time."""

    placed: tuple[Ints, Sequence_] | None = None
    refuted: bool = False


def in_some_order(cluster: Cluster, encoding: PlacementModel, context: RunContext) -> Bindable:
    """Solve a model until a placement has a bind order; others are cut off in it."""
    sure = True
    for _ in range(CUTS):
        answer = CpSat(context).run(encoding.model, context.deadline.left(), tight=len(encoding.x) <= 2_000)
        if answer.solution is None:
            return Bindable(refuted=sure and answer.status == cp_model.INFEASIBLE)
        counts = encoding.counts(answer.solution)
        found = find_order(cluster, counts, seed=context.options.seed)
        if found.sequence is not None:
            return Bindable((counts, found.sequence))
        sure &= found.exhausted
        encoding.forbid(counts, found.stuck, found.node)
    return Bindable()
