"""Rollouts in numbers, read from one compiled cluster for several Deployments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, Spread, domain_sum, single
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.cluster.rollout_admission import Dimension, RolloutAdmission
from kubestow.models.documents.policy import Multipliers, Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import Old, Pace
from kubestow.models.workloads.ownership import HASH
from kubestow.solver import rules
from kubestow.solver.rollout.state import ungrouped
from kubestow.solver.rollout.worst_end.problem import OldKind, SpreadTopic, WorstEndProblem
from kubestow.solver.rules.base import Rule

_INDIFFERENT: Final = Multipliers(**dict.fromkeys(Multipliers.__struct_fields__, 0))
#: A node: its index, or its name if the snapshot lacks it (the empty name for pods without a node).
Place = int | str
_Edit = Callable[[objects.TopologySpreadConstraint], objects.TopologySpreadConstraint | None]


@dataclass(frozen=True)
class RolloutStart:
    """A Deployment before its rollout.

    Attributes:
        pace: Its strategy.
        old: Its pods.
        new: A pod of the new revision, without a node.
        limited: True if a quota or a LimitRange may refuse new pods.
    """

    pace: Pace
    old: tuple[Old, ...]
    new: objects.Pod
    limited: bool = False


@dataclass(frozen=True)
class RolloutNumbers:
    """A rollout in numbers, and the objects behind them.

    Attributes:
        places: The node of each number of a node.
        kinds: The kind of each old pod of the start.
    """

    problem: WorstEndProblem
    places: list[Place]
    kinds: list[int]


def may_refuse(admission: RolloutAdmission, pace: Pace, old: int) -> bool:
    """Return True if a quota or a LimitRange may refuse a new pod in some course. ``old`` is the number of old pods."""

    def most(each: Dimension) -> int:
        """Return the largest number of new pods in excess of the old pods that have gone."""
        return pace.most - old if each.each <= min(each.old, default=0) else pace.replicas

    return admission.never is not None or any(
        bool(each.nodes) or each.at_first * each.unit + each.each * max(0, most(each)) > each.limit for each in admission.dimensions
    )


def _hard(constraint: objects.TopologySpreadConstraint) -> objects.TopologySpreadConstraint | None:
    return constraint if constraint.whenUnsatisfiable == "DoNotSchedule" else None


def _soft(constraint: objects.TopologySpreadConstraint) -> objects.TopologySpreadConstraint | None:
    """Return a ScheduleAnyway constraint as a hard one, which counts the same pods."""
    if constraint.whenUnsatisfiable != "ScheduleAnyway":
        return None
    return msgspec.structs.replace(constraint, whenUnsatisfiable="DoNotSchedule")


def by_revision(constraint: objects.TopologySpreadConstraint) -> objects.TopologySpreadConstraint:
    """Return a constraint that counts only pods of the pod's own revision."""
    keys = constraint.matchLabelKeys or []
    if constraint.labelSelector is None or HASH in keys:
        return constraint
    return msgspec.structs.replace(constraint, matchLabelKeys=[*keys, HASH])


def edited(pod: objects.Pod, edit: _Edit) -> objects.Pod:
    """Return a pod without annotations whose spread constraints are edited; those edited to None are left out."""
    found = [after for each in pod.spec.topologySpreadConstraints or () if (after := edit(each)) is not None]
    change = msgspec.structs.replace
    return change(pod, metadata=change(pod.metadata, annotations=None), spec=change(pod.spec, topologySpreadConstraints=found))


class RolloutReader:
    """The rollouts of some Deployments over one compiled cluster. Each is read as if no other one rolled."""

    def __init__(
        self, snapshot: Snapshot, starts: Sequence[RolloutStart], fixed: Sequence[int], policy: Policy, exempt: Sequence[str]
    ) -> None:
        """Compile the cluster.

        Args:
            fixed: Indices of the running pods of no Deployment in ``starts``.
            exempt: Namespaces whose anti-affinity does not count.

        Raises:
            InputError: :func:`kubestow.models.cluster.compile.compile_cluster` rejects the input.
        """
        change = msgspec.structs.replace
        pods = list(snapshot.pods)
        own = [entry.index for start in starts for entry in start.old]
        for i in own:
            pods[i] = change(pods[i], metadata=change(pods[i].metadata, annotations=None))
        self._probes: list[int] = []  # of each start: its hard and its soft constraints, then both with matchLabelKeys
        for start in starts:
            for remedied in (False, True):
                base = edited(start.new, by_revision) if remedied else start.new
                for edit in (_hard, _soft):
                    self._probes.append(len(pods))
                    pods.append(edited(base, edit))
        nodes = {node.metadata.name: n for n, node in enumerate(snapshot.nodes)}
        there = [i for i in own if pods[i].spec.nodeName in nodes]
        scope = Scope(fixed=sorted(fixed), pending=sorted([*there, *self._probes]))
        indifferent = change(policy, multipliers=_INDIFFERENT, defaultConstraints=())
        copied = replace(snapshot, pods=pods)
        self.starts, self._nodes = starts, nodes
        self.cluster: Cluster = ungrouped(compile_cluster(copied, scope, daemon_namespaces=tuple(exempt), policy=indifferent))
        self._class = {i: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}
        self._rules = rules.build(self.cluster)
        self._placed = Counter((self._class[i], nodes[pods[i].spec.nodeName or ""]) for i in there)
        for (g, n), number in self._placed.items():
            self._put(g, n, number)

    def read(self, k: int, *, follow: bool, remedied: bool = False) -> RolloutNumbers:
        """Return a rollout in numbers.

        Args:
            k: The index of the Deployment in ``starts``.
            follow: True if the scheduler follows ScheduleAnyway constraints, whose skew is then measured.
            remedied: True for constraints with ``matchLabelKeys: [pod-template-hash]``.
        """
        start = self.starts[k]
        hard, soft = (self._class[i] for i in self._probes[4 * k + 2 * remedied :][:2])
        spreads = [s for s in self.cluster.classes[hard].spread if s.matcher is not None]
        wishes = [s for s in self.cluster.classes[soft].spread if s.matcher is not None] if follow else []
        every = [*spreads, *wishes]
        kind_of = {entry.index: self._kind(entry, every) for entry in start.old}
        kinds = list(dict.fromkeys(kind_of.values()))
        mixed, free, exact = self._room(start, hard)
        places = self._places(start, (mixed, free), every)
        at = {place: n for n, (place, _) in enumerate(places)}
        contents = [[0] * (len(kinds) + 1) for _ in places]
        for entry in start.old:
            contents[at[self.place(entry)]][kinds.index(kind_of[entry.index])] += 1
        where = np.array([place if isinstance(place, int) else -1 for place, _ in places], dtype=np.int64)
        topics = [self._topic(s, i, start, where, [matches for _, matches in kinds]) for i, s in enumerate(every)]
        problem = WorstEndProblem(
            pace=start.pace,
            kinds=tuple(kind for kind, _ in kinds),
            start=tuple(map(tuple, contents)),
            room=tuple(slots for _, slots in places),
            hard=tuple(topics[: len(spreads)]),
            soft=tuple(topics[len(spreads) :]),
            follow=follow,
            exact=exact and not start.limited,
        )
        return RolloutNumbers(problem, [place for place, _ in places], [kinds.index(kind_of[e.index]) for e in start.old])

    # --- pods -----------------------------------------------------------------------------------------------------------------

    def place(self, entry: Old) -> Place:
        """Return the node of an old pod: its index, or its name if the snapshot lacks it."""
        return self._nodes.get(entry.node or "", entry.node or "")

    def _kind(self, entry: Old, spreads: Sequence[Spread]) -> tuple[OldKind, tuple[int, ...]]:
        g = self._class.get(entry.index)
        matches = tuple(0 if g is None else int(self.cluster.matches(s.matcher or 0)[g]) for s in spreads)
        return OldKind(entry.family, entry.before, entry.available, entry.node is not None), matches

    def _put(self, g: int, n: int, number: int) -> None:
        for rule in self._rules:
            if not rule.arrivals_only and rule.concerned(g):
                rule.place(g, n, number) if number > 0 else rule.remove(g, n, -number)

    def _own(self, start: RolloutStart) -> list[tuple[int, int]]:
        """Return the class and the node of each old pod on a node of the snapshot."""
        return [(self._class[e.index], n) for e in start.old if (n := self._nodes.get(e.node or "")) is not None]

    # --- nodes ----------------------------------------------------------------------------------------------------------------

    def _room(self, start: RolloutStart, g: int) -> tuple[dict[int, tuple[int, ...]], Ints, bool]:
        """Return the new pods that fit on each node with old pods, by the number of old pods left there, and on all other nodes.

        The flag is True if the numbers are exact: no rule looks beyond a node, and the old pods of a node are alike.
        """
        on: dict[int, list[int]] = {}
        for h, n in self._own(start):
            on.setdefault(n, []).append(h)
        classes = {g, *(h for found in on.values() for h in found)}
        local = [self._local(rule, classes) for rule in self._rules]
        table = [self._caps(g, local, start.pace.replicas)]
        for removed in range(max(map(len, on.values()), default=0)):
            for n, there in on.items():
                if removed < len(there):
                    self._put(there[removed], n, -1)
            table.append(self._caps(g, local, start.pace.replicas))
        for n, there in on.items():
            for h in there:
                self._put(h, n, 1)
        found, alike = {}, True
        for n, there in on.items():
            size = len(there)
            same = len(set(there)) == 1
            alike &= same
            found[n] = tuple(int(table[size - k if same or k == size else size][n]) for k in range(size + 1))
        exact = alike and all(fine or not any(map(rule.concerned, classes)) for fine, rule in zip(local, self._rules, strict=True))
        return found, table[0], exact

    def _local(self, rule: Rule, classes: set[int]) -> bool:
        """Return True if the rule's verdict on a node depends only on the pods of that node; spread is judged by the search."""
        if rule.local or "spread" in rule.reads:
            return True
        if "anti" not in rule.reads:
            return False
        cluster = self.cluster
        keys = {term.key for h in classes for term in cluster.classes[h].anti}
        return all(cluster.classes[h].affinity is None for h in classes) and all(single(*cluster.domains(key)) for key in keys)

    def _caps(self, g: int, local: Sequence[bool], replicas: int) -> Ints:
        """Return int64[N], the number of further pods of class g on each node in the current state, at most ``replicas``."""
        caps = np.full(self.cluster.n_nodes, replicas, dtype=np.int64)
        for fine, rule in zip(local, self._rules, strict=True):
            if fine and "spread" not in rule.reads:
                caps = np.minimum(caps, rule.room(g))
            else:
                caps = np.where(rule.never(g), 0, caps if "spread" in rule.reads else np.minimum(caps, rule.most(g)))
        return np.maximum(caps, 0)

    def _places(
        self, start: RolloutStart, room: tuple[dict[int, tuple[int, ...]], Ints], spreads: Sequence[Spread]
    ) -> list[tuple[Place, tuple[int, ...]]]:
        """Return the nodes that matter, each with its room: those with old pods, and enough of each kind of the others."""
        mixed, free = room
        found: list[tuple[Place, tuple[int, ...]]] = [(n, mixed[n]) for n in sorted(mixed)]
        strange = Counter(place for e in start.old if not isinstance(place := self.place(e), int))
        found += [(place, (0,) * (number + 1)) for place, number in sorted(strange.items())]
        columns = [free]
        for spread in spreads:
            codes, size = self.cluster.domains(spread.key)
            eligible = self.cluster.node_sets[spread.eligible]
            base = self._base(spread, start)
            per_domain = domain_sum(codes, size, np.where(eligible, base, 0))
            alone = single(codes, size)
            columns += [eligible.astype(np.int64), np.where(codes < 0, -1, np.append(per_domain, 0)[codes] if alone else codes)]
        kinds: Counter[tuple[int, ...]] = Counter()
        rows = np.stack(columns, axis=1)
        for n in np.flatnonzero(free).tolist():
            row = tuple(rows[n].tolist())
            kinds[row] += 1
            if n not in mixed and kinds[row] <= start.pace.replicas + 1:  # then one always stays empty
                found.append((n, (int(free[n]),)))
        return found

    # --- constraints ------------------------------------------------------------------------------------------------------------

    def _base(self, spread: Spread, start: RolloutStart) -> Ints:
        """Return int64[N], the pods on each node that a constraint counts, without those of the rollout."""
        matcher = spread.matcher or 0
        matches = self.cluster.matches(matcher)
        count = self.cluster.fixed_count(matcher, settled=True).copy()
        for (g, n), number in self._placed.items():
            count[n] += number if matches[g] else 0
        for g, n in self._own(start):
            count[n] -= int(matches[g])
        return count

    def _topic(self, spread: Spread, i: int, start: RolloutStart, where: Ints, matches: Sequence[tuple[int, ...]]) -> SpreadTopic:
        """Return a constraint in numbers.

        Args:
            i: Its place among the constraints.
            where: int64[M], the node of each place, or -1.
            matches: By kind of old pods, 1 for each constraint that counts them.
        """
        codes, size = self.cluster.domains(spread.key)
        eligible = self.cluster.node_sets[spread.eligible]
        base = domain_sum(codes, size, np.where(eligible, self._base(spread, start), 0))
        counted = np.zeros(size, dtype=bool)
        counted[codes[eligible & (codes >= 0)]] = True
        domain = np.where(where < 0, -1, codes[where])
        kept = sorted(set(domain[domain >= 0].tolist()))
        numbers = {d: number for number, d in enumerate(kept)}
        idle = counted.copy()
        idle[kept] = False
        values = self.cluster.nodes.column(spread.key)[1]
        return SpreadTopic(
            key=spread.key,
            names=tuple(values[d] for d in kept),
            max_skew=spread.max_skew,
            few=int(np.count_nonzero(counted)) < spread.min_domains,
            domain=tuple(numbers.get(d, -1) for d in domain.tolist()),
            eligible=tuple((np.where(where < 0, False, eligible[where])).tolist()),
            base=tuple(int(base[d]) for d in kept),
            counted=tuple(bool(counted[d]) for d in kept),
            idle=int(base[idle].min()) if idle.any() else None,
            new=int(spread.itself),
            old=tuple(row[i] for row in matches),
        )
