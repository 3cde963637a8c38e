"""Placement questions: whether some pods can be placed together while everything else stays where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube.objects import is_terminal, pod_key
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_, find_order
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import MAX_TIGHT_VARIABLES, CpSat
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of assignments without a bind order to cut off before the question stays open.
MAX_CUTS = 20
_HARD: Final = "DoNotSchedule"


@dataclass(frozen=True)
class PlacementQuestion:
    """The question whether ``needed`` of some pods can be placed together.

    Attributes:
        snapshot: Its bound pods keep their nodes; other pods are ignored.
        pods: Indices into ``snapshot.pods``: members of one gang, or pods of one class, regardless of their
            own nodeName.
        needed: Number of ``pods`` that must be placed.
        exempt: Namespaces of daemons.
        policy: The policy.
        catalogue: Nodes available for remedies.
        placed: Bound pods (``namespace/name``) that the same run placed. Their spread constraints must hold
            in the end, too.
    """

    snapshot: Snapshot
    pods: tuple[int, ...]
    needed: int
    exempt: tuple[str, ...] = ()
    policy: Policy = DEFAULT
    catalogue: Catalogue | None = None
    placed: frozenset[str] = frozenset()

    def scope(self) -> Scope:
        """Return the scope: pods that keep their nodes, and pods to be placed."""
        own = set(self.pods)
        nodes = {node.metadata.name for node in self.snapshot.nodes}
        fixed = [
            i
            for i, pod in enumerate(self.snapshot.pods)
            if i not in own and pod.spec.nodeName in nodes and pod.spec.nodeName and not is_terminal(pod)
        ]
        return Scope(fixed=fixed, pending=list(self.pods))

    def cluster(self) -> Cluster:
        """Return the compiled instance whose pending pods are those of the question."""
        return compile_cluster(self.snapshot, self.scope(), daemon_namespaces=self.exempt, policy=self.policy)

    def _compiled(self, pinned: Collection[int]) -> Cluster:
        """Return the instance in which previously placed pods (``pinned``) are placed again."""
        scope, again = self.scope(), set(pinned)
        scope = Scope(fixed=[i for i in scope.fixed if i not in again], pending=[*scope.pending, *pinned])
        return compile_cluster(self.snapshot, scope, daemon_namespaces=self.exempt, policy=self.policy)

    def _spread_out(self) -> list[int]:
        """Return the previously placed pods that have hard spread constraints."""
        pods = self.snapshot.pods if self.placed else ()
        hard = (i for i, pod in enumerate(pods) if any(c.whenUnsatisfiable == _HARD for c in pod.spec.topologySpreadConstraints or ()))
        own = set(self.pods)
        return [i for i in hard if i not in own and pods[i].spec.nodeName and pod_key(pods[i]) in self.placed]

    def feasible(self, context: RunContext) -> bool | None:
        """Return whether ``needed`` of the pods can be placed and bound in some order; None if time runs out."""
        order = self._solved(context)[1]
        return True if order.placed is not None else False if order.refuted else None

    def places(self, context: RunContext) -> dict[int, str]:
        """Return a node for each pod in one placement; empty if none is found."""
        cluster, order = self._solved(context)
        found: dict[int, str] = {}
        for g, row in enumerate(order.placed[0].tolist() if order.placed is not None else ()):
            nodes = [node for node, count in zip(cluster.nodes.names, row, strict=True) for _ in range(count)]
            found |= dict(zip(cluster.classes[g].pods, nodes, strict=False))
        return found

    def _solved(self, context: RunContext) -> tuple[Cluster, Bindable]:
        pinned = self._spread_out()
        cluster = self._compiled(pinned)
        if not len(cluster.nodes.names):
            return cluster, Bindable(refuted=bool(self.needed), placed=None if self.needed else (np.zeros((0, 0), dtype=np.int64), []))
        encoding = build_model(cluster, rules.build(cluster))
        for cell, pods in _cells(cluster, pinned).items():
            if cell not in encoding.x:
                return cluster, Bindable(refuted=True)
            encoding.model.add(encoding.x[cell] >= pods)
        placed = sum(encoding.fits) - encoding.sum(list(encoding.unplaced.values()))
        encoding.model.add(placed >= self.needed + len(pinned))
        return cluster, in_some_order(cluster, encoding, context)


def _cells(cluster: Cluster, pods: Collection[int]) -> Counter[tuple[int, int]]:
    """Return the number of the given pods by (class, node)."""
    class_of = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods} if pods else {}
    node_of = {name: n for n, name in enumerate(cluster.nodes.names)}
    return Counter((class_of[i], node_of[cluster.snapshot.pods[i].spec.nodeName or ""]) for i in pods)


class Bindable(NamedTuple):
    """The result of an exact model.

    Attributes:
        placed: A placement (int64[G, N]) with its bind order; None if none was found.
        refuted: True if it is proved that there is none.
    """

    placed: tuple[Ints, Sequence_] | None = None
    refuted: bool = False


def in_some_order(cluster: Cluster, encoding: PlacementModel, context: RunContext) -> Bindable:
    """Return a placement that satisfies a model and has a bind order, or that it is proved that there is none.

    Placements without a bind order are cut off in ``encoding``, up to MAX_CUTS times.
    """
    sure = True
    for _ in range(MAX_CUTS):
        answer = CpSat(context).run(encoding.model, context.deadline.remaining(), tight=len(encoding.x) <= MAX_TIGHT_VARIABLES)
        if answer.solution is None:
            return Bindable(refuted=sure and answer.status == cp_model.INFEASIBLE)
        counts = encoding.counts(answer.solution)
        order = find_order(cluster, counts, seed=context.options.seed)
        if order.sequence is not None:
            return Bindable((counts, order.sequence))
        sure &= order.exhausted
        encoding.forbid(counts, order.stuck, order.node)
    return Bindable()
