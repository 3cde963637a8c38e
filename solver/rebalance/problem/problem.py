"""The compiled instance of a plan: movable running pods, immovable pods with rules for others, and pending pods.

These pods form the classes of one :class:`Cluster`, so that every rule counts them alike. The nodes where they
run are the start placement. Fixed pods without required terms and constraints are treated as in a solve.

Shapes: G classes, N nodes, R resources, as in models.cluster.cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.disruption import move_cost, node_selection
from kubestow.models.disruption.evictable import exclusions
from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget, budgets
from kubestow.models.documents.rebalance_plan import Excluded, Exclusion, Limits
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, is_terminating
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners
from kubestow.solver.objective.tie_break import occupies
from kubestow.solver.rebalance.problem import waiting_resizes
from kubestow.solver.rebalance.problem.cordon import cordoned
from kubestow.solver.rebalance.problem.execution_violators import Enforced
from kubestow.solver.rebalance.problem.options import PlanOptions

#: Labels of nodes that consolidation never frees, and annotations (value "true") with the same effect.
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
KEEP = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")


@dataclass(frozen=True, slots=True)
class Step:
    """``k`` pods of class ``g`` go from node ``a`` (-1: pending) to node ``b`` (-1: evicted)."""

    g: int
    a: int
    b: int
    k: int = 1


@dataclass
class RebalanceProblem:
    """The compiled instance of a plan.

    Attributes:
        start: Running pods at the start, int64[G, N].
        movable: Classes that may be moved, bool[G].
        pending: Classes of pods without a node, bool[G]; only with the goal admit. Other immovable classes
            stay.
        evictable: Movable classes that may be evicted for good, bool[G].
        cost: Cost of one move, int64[G], at least 1.
        closed: Nodes to be drained, which accept no pods, bool[N].
        freeable: Nodes that consolidation may free because no pod has to stay there, bool[N].
        budgets: PodDisruptionBudgets.
        budget: Per class, an index into ``budgets``; None if its pods need no budget.
        namespaces: Ids for the limit per namespace, int64[G]; meaningless without such a limit.
        workloads: Ids for the limit per workload, int64[G]; meaningless without such a limit.
        subjects: Classes that count in the tier of rules, bool[G]: movable, or with required terms or
            constraints.
        drain: Indices of the nodes to be drained.
        stranded: Pods on drained nodes that no plan moves, indices into ``snapshot.pods``.
        extra: Resources that a running pod holds beyond its spec until it moves, int64[G, R]; it was resized in
            place.
        reserve: Resources kept free for resizes of pods outside all classes, int64[N, R].
        once: Classes whose pods may leave now without their budget, bool[G]. They move only once, because their
            replacement is Ready.
        leaving: Pods that rules that hold during execution would force out, in order of departure. Indices into
            ``snapshot.pods``, each with the pod for which it leaves.
        excused: Per class, filters that its pods break by forgiven rules alone; empty if there are no such
            rules.
    """

    cluster: Cluster
    start: Ints
    movable: Bools
    pending: Bools
    evictable: Bools
    cost: Ints
    closed: Bools
    freeable: Bools
    budgets: list[DisruptionBudget]
    budget: list[int | None]
    namespaces: Ints
    workloads: Ints
    subjects: Bools
    limits: Limits
    excluded: list[Excluded]
    drain: list[int]
    stranded: list[int]
    extra: Ints
    reserve: Ints
    once: Bools
    leaving: dict[int, int]
    excused: list[frozenset[str]] = field(default_factory=list)

    def counted_rules(self, g: int, broken: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rules that pods of class g break and that count, by name of the filter."""
        excused = self.excused[g] if self.excused else ()
        return {name: mask for name, mask in broken.items() if name not in excused}

    @cached_property
    def _departure_ranks(self) -> dict[tuple[int, int], list[int]]:
        """Per class and node, the positions of its pods in the order of ``leaving``."""
        names = {name: n for n, name in enumerate(self.cluster.nodes.names)}
        pods, ranks = self.cluster.snapshot.pods, dict[tuple[int, int], list[int]]()
        of = {i: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods} if self.leaving else {}
        for turn, i in enumerate(self.leaving):
            if i in of:
                ranks.setdefault((of[i], names[pods[i].spec.nodeName or ""]), []).append(turn)
        return ranks

    def departure_rank(self, g: int, n: int, remaining: int) -> int:
        """Return the position in ``leaving`` of the next departing pod of class g on node n, or the number of
        positions.

        Args:
            remaining: Number of pods of the class still on the node.
        """
        turns = self._departure_ranks.get((g, n), [])
        gone = max(int(self.start[g, n]) - remaining, 0)
        return turns[gone] if gone < len(turns) else len(self.leaving)

    @cached_property
    def room(self) -> Ints:
        """Upper bound on the total request of a node's pods for each resource, int64[N, R].

        It holds once a pod that requests the resource has arrived. It is the capacity that fixed pods leave,
        plus the amount by which running pods hold less than they request. For movable pods this lasts as long
        as they stay.
        """
        less = np.where(self.movable[:, None], np.maximum(-self.extra, 0), -self.extra)
        return np.asarray(self.cluster.free + self.start.T @ less - self.reserve, dtype=np.int64)

    @cached_property
    def shares_unbound_claim(self) -> Bools:
        """Classes with an unbound claim that another running pod uses, too; bool[G].

        No real cluster has such claims. The first pod to land would choose the volume for the other, wherever
        it runs.
        """
        running: Counter[str] = Counter()
        for g, cls in enumerate(self.cluster.classes):
            for key in cls.claims:
                running[key] += int(self.start[g].sum())
        volumes, fixed = self.cluster.volumes, self.cluster.fixed_claims
        return np.array(
            [
                any(volumes.claim(key).delayed and (key in fixed or running[key] > bool(self.start[g].any())) for key in cls.claims)
                for g, cls in enumerate(self.cluster.classes)
            ],
            dtype=bool,
        )

    @cached_property
    def eviction_limits(self) -> dict[int, int]:
        """Return, by budget, the number of pods that can be evicted within the plan's wave limit.

        Empty if waves are not limited. Budgets that do not limit their pods are left out.
        """
        if self.limits.maxWaves is None:
            return {}
        return {b: self.limits.maxWaves * budget.allowed for b, budget in enumerate(self.budgets)}

    @cached_property
    def guarded(self) -> Ints:
        """The budget of each class, int64[G]; -1 if its pods need none."""
        return np.array([-1 if b is None else b for b in self.budget], dtype=np.int64)

    def end(self, steps: Iterable[Step]) -> Ints:
        """Return the running pods after the given steps from the start, int64[G, N]."""
        counts = self.start.copy()
        for step in steps:
            if step.a >= 0:
                counts[step.g, step.a] -= step.k
            if step.b >= 0:
                counts[step.g, step.b] += step.k
        return counts

    def moves(self, counts: Ints) -> int:
        """Return the fewest moves of running pods that lead to a placement int64[G, N], without evictions."""
        arrived = np.maximum(counts - self.start, 0)[~self.pending]
        return int(arrived.sum())


def read_problem(snapshot: Snapshot, plan_options: PlanOptions) -> RebalanceProblem:
    """Compile a snapshot into the problem of a plan.

    Raises:
        InputError: A node to drain does not exist, or a quantity, annotation or gang cannot be read.
    """
    return _ProblemReader(snapshot, plan_options).read()


class _ProblemReader:
    """Compiles a problem from per-pod data (indices into ``snapshot.pods``) and per-node data.

    Attributes:
        anchored: Pods that stay but have rules for others.
    """

    def __init__(self, snapshot: Snapshot, plan_options: PlanOptions) -> None:
        options, limits, pods = plan_options.options, plan_options.limits, snapshot.pods
        drain = node_selection.choose(snapshot, plan_options.drain)
        snapshot = cordoned(snapshot, drain)
        self.snapshot, self.plan_options, self.pods = snapshot, plan_options, pods
        self.scope = select(snapshot, include_gated=options.include_gated)
        self.refused = exclusions(snapshot, limits.alsoMove, tiers=options.policy.networkTiers)
        self.budgets = budgets(snapshot)
        self.budget_of = {i: b for b, budget in enumerate(self.budgets) for i in budget.pods if i not in budget.free}
        self.free = {i for budget in self.budgets for i in budget.pods if i in budget.free}
        self.movable = [i for i in self.scope.fixed if i not in self.refused]
        self.anchored = [
            i
            for i in self.scope.fixed
            if i in self.refused and not is_terminating(pods[i]) and (_holds_rules(pods[i]) or i in plan_options.anchors)
        ]
        self.waiting = self.scope.pending if "admit" in plan_options.goals else []
        self.index = {node.metadata.name or "": n for n, node in enumerate(snapshot.nodes)}
        self.drain = [self.index[name] for name in drain]
        self.closed = np.zeros(len(self.index), dtype=bool)
        self.closed[self.drain] = True
        self.enforced = Enforced(snapshot, options.exempt, plan_options.forgiven) if "repair" in plan_options.goals else None
        self.leaving = self.enforced.order() if self.enforced is not None else {}
        self.evictable = self._evictable()
        self.costs = move_cost.costs(snapshot, options.policy, self.movable)
        self.owners = PodOwners(snapshot) if limits.maxMovesPerWorkload is not None else None
        self.workloads: dict[str, int] = {}

    def read(self) -> RebalanceProblem:
        snapshot, pods, scope = self.snapshot, self.pods, self.scope
        apart = self._kinds()
        cluster = self._compile(apart)
        start = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        for g, cls in enumerate(cluster.classes):
            for i in cls.pods if cls.pods[0] in apart else ():
                start[g, self._node(i)] += 1
        first, moving = [cls.pods[0] for cls in cluster.classes], set(self.movable)
        movers = np.array([i in moving for i in first], dtype=bool)
        anchors = np.array([i in apart and i not in moving for i in first], dtype=bool)
        spaces: dict[str, int] = {}
        stays = [i for i in scope.fixed if i in self.refused and occupies(pods[i])]
        occupied = np.zeros(len(self.index), dtype=bool)
        occupied[[self._node(i) for i in stays]] = True
        extra = waiting_resizes.extra(cluster, apart)
        return RebalanceProblem(
            cluster=cluster,
            start=start,
            movable=movers,
            pending=~movers & ~anchors,
            evictable=np.array([i in self.evictable for i in first], dtype=bool),
            cost=np.array([self.costs.get(i, 1) for i in first], dtype=np.int64),
            closed=self.closed,
            freeable=~occupied & np.array([_freeable(node) for node in snapshot.nodes], dtype=bool),
            budgets=self.budgets,
            budget=[self.budget_of.get(i) for i in first],
            namespaces=np.array([spaces.setdefault(pods[i].metadata.namespace or "default", len(spaces)) for i in first], dtype=np.int64),
            workloads=np.array(
                [-1 if self.owners is None else self.workloads.get(self.owners.of(pods[i]), -1) for i in first], dtype=np.int64
            ),
            subjects=movers | anchors,
            limits=self.plan_options.limits,
            excluded=_excluded(snapshot, self.refused),
            drain=self.drain,
            extra=extra,
            reserve=waiting_resizes.reserved(cluster, *_left(cluster, start, extra), (i for i in scope.fixed if i not in apart)),
            once=np.array([i in self.free for i in first], dtype=bool),
            leaving=self.leaving,
            excused=[self.plan_options.excused.get(i, frozenset()) for i in first] if self.plan_options.excused else [],
            stranded=[i for i in stays if self.closed[self._node(i)] and not is_terminating(pods[i])],
        )

    def _node(self, i: int) -> int:
        return self.index[self.pods[i].spec.nodeName or ""]

    def _kinds(self) -> dict[int, int]:
        """Return a number for each running pod of the plan; equal for pods that the plan need not distinguish."""
        numbers: dict[Hashable, int] = {}
        found: dict[int, int] = {}
        moving = set(self.movable)
        for i in (*self.movable, *self.anchored):
            pod, owner = self.pods[i], -1
            if self.owners is not None and i in moving:
                owner = self.workloads.setdefault(self.owners.of(pod), len(self.workloads))
            space = pod.metadata.namespace if self.plan_options.limits.maxMovesPerNamespace is not None else None
            budget = self.budget_of.get(i), i in self.free
            resized = waiting_resizes.resized(pod, self.snapshot.gates)
            excused = tuple(sorted(self.plan_options.excused.get(i, ())))
            kind = (excused, i in moving, *budget, self.costs.get(i, 1), i in self.evictable, owner, space, resized)
            found[i] = numbers.setdefault(kind, len(numbers))
        return found

    def _compile(self, kinds: dict[int, int]) -> Cluster:
        options, scope = self.plan_options.options, self.scope
        fixed = [i for i in scope.fixed if i not in kinds]
        multipliers = msgspec.structs.replace(options.policy.multipliers, containerAffinity=0)
        return compile_cluster(
            self.snapshot,
            Scope(fixed, [*self.movable, *self.anchored, *self.waiting], scope.gated, scope.invisible),
            daemon_namespaces=options.exempt,
            policy=msgspec.structs.replace(options.policy, multipliers=multipliers),
            running=kinds,
        )

    def _evictable(self) -> set[int]:
        """Return the running pods that may be evicted for good.

        These have lower priority than some pending pod, run on a node to be drained, or break a rule that holds
        during execution.
        """
        if not self.plan_options.limits.allowEviction:
            return set()
        pods = self.pods
        highest = max((pods[i].spec.priority or 0 for i in self.waiting if pods[i].spec.preemptionPolicy != "Never"), default=None)
        evictable = {i for i in self.movable if self.closed[self._node(i)]}
        if highest is not None:
            evictable |= {i for i in self.movable if (pods[i].spec.priority or 0) < highest}
        if self.enforced is not None:
            evictable |= self.enforced.violators() & set(self.movable)
        return evictable


def _holds_rules(pod: Pod) -> bool:
    """Return True if a running pod has rules that other pods satisfy or break."""
    if required_terms(pod, "podAffinity") or required_terms(pod, "podAntiAffinity"):
        return True
    return any(c.whenUnsatisfiable == "DoNotSchedule" for c in pod.spec.topologySpreadConstraints or ())


def _left(cluster: Cluster, start: Ints, extra: Ints) -> tuple[Ints, Ints]:
    """Return the free resources int64[N, R] and free pod slots int64[N] at the start."""
    return cluster.free - start.T @ (cluster.demand + extra), cluster.slots - start.sum(axis=0)


def _freeable(node: objects.Node) -> bool:
    labels, notes = node.metadata.labels or {}, node.metadata.annotations or {}
    return not any(label in labels for label in CONTROL_PLANE) and not any(notes.get(note) == "true" for note in KEEP)


def _excluded(snapshot: Snapshot, refused: dict[int, Exclusion]) -> list[Excluded]:
    found: dict[Exclusion, list[str]] = {}
    for i, reason in sorted(refused.items()):
        found.setdefault(reason, []).append(objects.pod_key(snapshot.pods[i]))
    return [Excluded(reason, names) for reason, names in sorted(found.items())]
