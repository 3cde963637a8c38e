"""The compiled instance of a node-pool upgrade: the cluster with all old and new nodes that exist at any time.

Shapes: G classes, N nodes, as in models.cluster.cluster. The new nodes come last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kubestow.models.disruption.node_selection import pool
from kubestow.models.disruption.pod_disruption_budgets import budgets
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.documents.upgrade import NewNode
from kubestow.models.edits import upgrade as edits
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, read_problem
from kubestow.solver.runtime.options import Options


@dataclass(frozen=True, slots=True)
class UpgradeOptions:
    """Options of a node-pool upgrade.

    Attributes:
        pool: Label selector of nodes.
        max_unavailable: Number of nodes, or percentage of the pool (``10%``), that may be missing.
        surge: Number of additional nodes, or percentage of the pool.
        by: Label whose domains are upgraded one after another.
        to: Changes of a Node (:mod:`kubestow.models.edits.upgrade`).
        options: Options of every search.
    """

    pool: str
    max_unavailable: str = "0"
    surge: str = "1"
    by: str | None = None
    to: Mapping[str, Any] | None = None
    options: Options = field(default_factory=Options)


@dataclass
class UpgradePool:
    """A node pool under upgrade.

    Attributes:
        old: Indices of the pool's nodes, ascending.
        new: By old node, the index of its replacement.
        unavailable: Number of nodes that may be missing.
        surge: Number of nodes beyond the pool's size.
        domain: By old node, its value of the label ``by``; "" without one.
    """

    snapshot: Snapshot
    problem: RebalanceProblem
    old: list[int]
    new: dict[int, int]
    unavailable: int
    surge: int
    domain: dict[int, str]

    @property
    def names(self) -> list[str]:
        """The names of all nodes, the new ones last."""
        return self.problem.cluster.nodes.names

    def start(self) -> Bools:
        """Return bool[N], the nodes that exist before the first wave."""
        present = np.ones(self.problem.cluster.n_nodes, dtype=bool)
        present[list(self.new.values())] = False
        return present

    def end(self) -> Bools:
        """Return bool[N], the nodes that exist after the last wave."""
        present = np.ones(self.problem.cluster.n_nodes, dtype=bool)
        present[self.old] = False
        return present

    def joining(self, old: int) -> NewNode:
        """Return the replacement of a node, as documents have it."""
        return NewNode(self.names[self.new[old]], self.names[old])


def read_pool(snapshot: Snapshot, request: UpgradeOptions) -> UpgradePool:
    """Compile a snapshot with the new nodes of a pool.

    Raises:
        InputError: The selector is invalid or selects no node, no node has the label ``by``, or quantities or
            annotations cannot be read.
    """
    chosen = pool(snapshot, request.pool)
    labels = {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}
    if request.by is not None and not any(request.by in labels[name] for name in chosen):
        raise InputError([f"--by {shorten(request.by)}: no node of the pool has this label"])
    unavailable, surge = resolved(request.max_unavailable, request.surge, len(chosen))
    used_names = {node.metadata.name or "" for node in snapshot.nodes}
    new = [NewNode(edits.new_name(used_names, name), name) for name in chosen]
    union = edits.with_new(snapshot, new, request.to)
    problem = read_problem(union, PlanOptions(limits=Limits(alsoMove=list(edits.LIFTED)), options=request.options))
    _cap_budgets(snapshot, problem)
    index = {name: n for n, name in enumerate(problem.cluster.nodes.names)}
    old = sorted(index[name] for name in chosen)
    return UpgradePool(
        snapshot=snapshot,
        problem=problem,
        old=old,
        new={index[each.like]: index[each.name] for each in new},
        unavailable=unavailable,
        surge=surge,
        domain={index[name]: labels[name].get(request.by, "") if request.by is not None else "" for name in chosen},
    )


def _cap_budgets(snapshot: Snapshot, problem: RebalanceProblem) -> None:
    """Cap the allowed disruptions at their number before new nodes join, because DaemonSet pods of new nodes may count."""
    before = {budget.name: budget.allowed for budget in budgets(snapshot)}
    for b, budget in enumerate(problem.budgets):
        limit = max(1, before.get(budget.name, 0))
        if budget.allowed > limit:
            problem.budgets[b] = replace(budget, allowed=limit)


def resolved(unavailable: str, surge: str, size: int) -> tuple[int, int]:
    """Return both as numbers of nodes.

    As in a Deployment, percentages are rounded up for the surge and down for unavailable nodes. If both are
    0, one node may be unavailable.

    Source: pkg/controller/deployment/util/deployment_util.go (ResolveFenceposts).
    """
    missing, more = _nodes(unavailable, size, up=False), _nodes(surge, size, up=True)
    return (1, 0) if not missing and not more else (min(missing, size), min(more, size))


def _nodes(text: str, size: int, *, up: bool) -> int:
    number = text.removesuffix("%")
    if number == text:
        return int(text)
    return (int(number) * size + (99 if up else 0)) // 100
