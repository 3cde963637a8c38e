"""Pods that have to leave because a rule that holds during execution is broken.

Source: the specification of "requiredDuringSchedulingRequiredDuringExecution". For anti-affinity, the owner of
the broken rule leaves, or the lower-priority pod of the pair if priorities differ. For pod affinity and node
affinity, the pod that has the rule leaves. A pod that is being deleted still provides affinity until it is
gone, and no pod leaves on its account.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kubestow.models.cluster.anti_affinity.pod_terms import term_matches
from kubestow.models.execution.execution_grace import Rule
from kubestow.models.kube.objects import Pod, PodAffinity, PodAffinityTerm, is_terminal, is_terminating, pod_key
from kubestow.models.kube.selectors import NodeColumns
from kubestow.models.snapshot.snapshot import Snapshot


def violators(snapshot: Snapshot, exempt: Collection[str] = ()) -> set[int]:
    """Return the running pods that may have to leave, as indices into ``snapshot.pods``.

    These are all pods that break such a rule, in any order of departures, and pods that would then miss a pod
    they must be near. Linear in the number of pods, for each pod with such a rule.

    Args:
        exempt: Namespaces without hard anti-affinity.
    """
    return Enforced(snapshot, exempt).violators()


@dataclass
class _RequiredAffinity:
    """Pod affinity of one pod.

    Attributes:
        keys: Topology keys of its terms.
        full: Running pods that match all terms on nodes with at least one of the keys, the pod itself included.
        near: Per term, the pods of ``full`` in the pod's domain, except the pod itself.
        lost: True if the pod's node lacks one of the keys.
    """

    keys: list[str]
    full: set[int] = field(default_factory=set)
    near: list[set[int]] = field(default_factory=list)
    lost: bool = False

    def lacks(self, i: int, gone: Container[int]) -> bool:
        """Return True if pod ``i`` misses a pod it must be near. The only match of its own terms misses none."""
        if i in self.full and all(j == i or j in gone for j in self.full):
            return self.lost
        return any(all(j in gone for j in near) for near in self.near)


class Enforced:
    """Running pods with rules that hold during execution.

    Attributes:
        selection: Pods on nodes that do not match their node affinity.
        losing: Per pod, the pods that anti-affinity makes it leave for.
        forgiven: Rules that do not count, each with its pod.
    """

    def __init__(self, snapshot: Snapshot, exempt: Collection[str] = (), forgiven: Collection[tuple[int, Rule]] = ()) -> None:
        self.pods = pods = snapshot.pods
        self._snapshot, self._exempt = snapshot, frozenset(exempt)
        self._labels = {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}
        self.selection: set[int] = set()
        self.losing: dict[int, set[int]] = {}
        #: Pods and the indices of their anti-affinity terms that other pods break.
        self._apart: set[tuple[int, int]] = set()
        #: One entry with the terms that hold during execution. If the pod also has other terms, a second entry
        #: with all.
        self._affinities: dict[int, list[_RequiredAffinity]] = {}
        self._here = [i for i, pod in enumerate(pods) if pod.spec.nodeName in self._labels and not is_terminal(pod)]
        for i in self._here:
            affinity = pods[i].spec.affinity
            if affinity is None or is_terminating(pods[i]):
                continue
            if (i, ("nodeAffinity", 0)) not in forgiven and self._misses_selection(i):
                self.selection.add(i)
            self._read_anti(i, _terms(affinity.podAntiAffinity), forgiven)
            if (wanted := _terms(affinity.podAffinity)) and (i, ("podAffinity", 0)) not in forgiven:
                every = _terms(affinity.podAffinity, ignored=True)
                self._affinities[i] = [self._read(i, terms) for terms in ([wanted] if len(every) == len(wanted) else [wanted, every])]
        #: Set by :meth:`order`. Per pod that broke a rule when it was considered: the number of pods gone by
        #: then.
        self.begun: dict[int, int] = {}
        #: Per pod, the pods that must be near it.
        self._needed_by: dict[int, list[int]] = {}
        for i, both in self._affinities.items():
            for j in both[0].full - {i}:
                self._needed_by.setdefault(j, []).append(i)

    @cached_property
    def _columns(self) -> NodeColumns:
        return NodeColumns(self._snapshot.nodes)

    def _misses_selection(self, i: int) -> bool:
        """Return True if a pod runs on a node that its node affinity excludes during execution."""
        affinity = self.pods[i].spec.affinity
        wanted = affinity.nodeAffinity if affinity is not None else None
        if wanted is None or wanted.requiredDuringSchedulingRequiredDuringExecution is None:
            return False
        mask = self._columns.selector(wanted.requiredDuringSchedulingRequiredDuringExecution)
        return not mask[self._columns.names.index(self.pods[i].spec.nodeName or "")]

    def broken(self) -> set[tuple[int, Rule]]:
        """Return the broken rules, each with the pod that has it (not necessarily the pod that would leave)."""
        rules: set[tuple[int, Rule]] = {(i, ("nodeAffinity", 0)) for i in self.selection}
        rules |= {(i, ("podAffinity", 0)) for i in self._affinities if self.misses_affinity(i, ())}
        return rules | {(i, ("podAntiAffinity", k)) for i, k in self._apart}

    def violators(self) -> set[int]:
        """Return the pods that may have to leave, in any order of departures."""
        violators = self.selection | self.losing.keys() | {i for i in self._affinities if self.misses_affinity(i, ())}
        queue = list(violators)
        for j in queue:
            for i in self._needed_by.get(j, ()):
                if i not in violators and any(near and near <= violators for near in self._affinities[i][0].near):
                    violators.add(i)
                    queue.append(i)
        return violators

    def misses_affinity(self, i: int, gone: Container[int]) -> bool:
        """Return True if a pod misses a pod it must be near once the pods in ``gone`` have left.

        The scheduler's filter uses all terms, including those that hold only during scheduling. A pod that this
        filter would admit again stays.
        """
        both = self._affinities.get(i)
        return both is not None and all(wanted.lacks(i, gone) for wanted in both)

    def order(self) -> dict[int, int]:
        """Return the pods that would have to leave until no rule is broken, in order of departure.

        Each pod maps to the pod for which it leaves: itself, or a pod that it must be near. At no point is a
        remaining pod worse off. Pods that leave in any case come first. Among the others, the lowest priority
        comes first, then the pod whose departure mends most, then the youngest, then by name. A pod that would
        miss a departing pod leaves before it, which may already be enough.
        """
        rank = {i: k for k, i in enumerate(_young_first(self.pods, self.selection | self.losing.keys() | self._affinities.keys()))}
        causes: dict[int, int] = {}
        sure = {i for i in self._affinities if self.misses_affinity(i, ()) and i not in self._affinities[i][0].full}
        for i in sorted(self.selection | sure, key=rank.__getitem__):
            if i not in causes:
                self._let_go(i, causes, rank)
        open_ = {i for i in self.losing.keys() | self._affinities.keys() if i not in causes}
        winning: dict[int, set[int]] = {}
        for i, others in self.losing.items():
            for j in others:
                winning.setdefault(j, set()).add(i)

        def mended(i: int) -> int:
            ties = self.losing.get(i, set()) | winning.get(i, set())
            return len(ties - causes.keys())

        while True:
            open_ = {i for i in open_ if i not in causes and self._breaks(i, causes)}
            if not open_:
                return self._needed(causes, winning)
            first = min(open_, key=lambda i: (self.pods[i].spec.priority or 0, -mended(i), rank[i]))
            self._let_go(first, causes, rank)

    def _needed(self, causes: dict[int, int], winning: Mapping[int, set[int]]) -> dict[int, int]:
        """Return ``causes`` without pods that may stay after all because other pods left later.

        Args:
            causes: Cause by pod that leaves.
            winning: Per pod, the pods that have to leave for it.
        """
        for i in list(causes):
            others = {j: cause for j, cause in causes.items() if j != i}
            touched = {i, *winning.get(i, ()), *self._needed_by.get(i, ())} - others.keys()
            if not any(self._breaks(j, others) for j in touched):
                turn = list(causes).index(i)
                self.begun = {j: begun - (begun > turn) for j, begun in self.begun.items()}
                causes = others
        return causes

    def relieved_by(self, i: int, gone: Mapping[int, int]) -> set[int]:
        """Return the departing pods whose absence lets pod ``i`` stay, among those with which it broke a rule."""
        near = set[int]().union(*(wanted.full for wanted in self._affinities.get(i, ())))
        return (self.losing.get(i, set()) | near) & gone.keys()

    def _let_go(self, i: int, causes: dict[int, int], rank: dict[int, int]) -> None:
        """Add a pod to the departures, preceded by the pods that would miss it."""
        gone = {*causes, i}
        queue = [i]
        for j in queue:
            for k in sorted(self._needed_by.get(j, ()), key=rank.__getitem__):
                if k not in gone and self.misses_affinity(k, gone) and not self.misses_affinity(k, causes):
                    gone.add(k)
                    queue.append(k)
        self.begun[i] = len(causes)
        causes.update((j, i) for j in reversed(queue[1:]))
        if self._breaks(i, causes):
            causes[i] = i

    def _breaks(self, i: int, gone: Mapping[int, int]) -> bool:
        """Return True if a pod breaks a rule once the pods in ``gone`` have left."""
        return i in self.selection or not self.losing.get(i, set()) <= gone.keys() or self.misses_affinity(i, gone)

    # --- reading ----------------------------------------------------------------------------------------------------------

    def _read_anti(self, i: int, terms: Iterable[PodAffinityTerm], forgiven: Collection[tuple[int, Rule]]) -> None:
        pod, mine = self.pods[i], self.pods[i].spec.priority or 0
        for k, term in enumerate(terms):
            if (i, ("podAntiAffinity", k)) in forgiven:
                continue
            for j in self._here:
                other = self.pods[j]
                if j == i or is_terminating(other) or not {pod.metadata.namespace, other.metadata.namespace}.isdisjoint(self._exempt):
                    continue
                if term_matches(self._snapshot, pod, term, other) and self._together(i, j, term.topologyKey):
                    loser, winner = (j, i) if (other.spec.priority or 0) < mine else (i, j)
                    self.losing.setdefault(loser, set()).add(winner)
                    self._apart.add((i, k))

    def _read(self, i: int, terms: list[PodAffinityTerm]) -> _RequiredAffinity:
        here, affinity = self._at(i), _RequiredAffinity([term.topologyKey for term in terms])
        for j in self._here:
            if all(term_matches(self._snapshot, self.pods[i], term, self.pods[j]) for term in terms) and not self._at(j).keys().isdisjoint(
                affinity.keys
            ):
                affinity.full.add(j)
        affinity.near = [{j for j in affinity.full if j != i and self._together(i, j, key)} for key in affinity.keys]
        affinity.lost = not here.keys() >= set(affinity.keys)
        return affinity

    def _at(self, i: int) -> dict[str, str]:
        return self._labels[self.pods[i].spec.nodeName or ""]

    def _together(self, i: int, j: int, key: str) -> bool:
        """Return True if two running pods are in the same domain of a topology key."""
        mine = self._at(i).get(key)
        return mine is not None and self._at(j).get(key) == mine


def _young_first(pods: list[Pod], chosen: Iterable[int]) -> list[int]:
    """Return pods in the order in which equals would leave: by priority, lowest first, then youngest, then by name."""
    ordered = sorted(chosen, key=lambda i: pod_key(pods[i]))
    ordered.sort(key=lambda i: pods[i].metadata.creationTimestamp or "", reverse=True)
    return sorted(ordered, key=lambda i: pods[i].spec.priority or 0)


def _terms(part: PodAffinity | None, *, ignored: bool = False) -> list[PodAffinityTerm]:
    """Return the terms that hold during execution; if ``ignored``, also those that hold only during scheduling."""
    if part is None:
        return []
    others = part.requiredDuringSchedulingIgnoredDuringExecution if ignored else None
    return [*(others or ()), *(part.requiredDuringSchedulingRequiredDuringExecution or ())]
