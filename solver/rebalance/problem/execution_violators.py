"""Who has to go where a rule that holds during execution is broken.

Source: specification of the rules ("requiredDuringSchedulingRequiredDuringExecution"): for anti-affinity the pod that owns the broken
rule, or, where priorities differ, the lower-priority pod of the pair; for pod affinity and node affinity the pod that has the rule. Pods
that are being deleted provide for others as long as they are there, and nobody goes for them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field

from kubestow.models.cluster.pod_terms import term_matches
from kubestow.models.execution.execution_grace import Rule
from kubestow.models.kube.objects import Pod, PodAffinity, PodAffinityTerm, is_terminal, is_terminating, pod_key
from kubestow.models.kube.selectors import NodeTable
from kubestow.models.snapshot.snapshot import Snapshot


def violators(snapshot: Snapshot, exempt: Collection[str] = ()) -> set[int]:
    """Return indices into ``snapshot.pods`` of running pods that may have to go: all that break such a rule, whoever goes first, and those
    that would miss pods they have to be near once these have gone. ``exempt``: namespaces without hard anti-affinity. Linear in the pods
    for each pod that has such a rule."""
    return Enforced(snapshot, exempt).violators()


@dataclass
class _Wanted:
    """Pod affinity of one pod. ``keys``: of its terms; ``full``: running pods that all terms match, on nodes with one of the keys at least,
    itself included; ``near``: by term those of them in its domain, but for itself; ``lost``: its node lacks a key."""

    keys: list[str]
    full: set[int] = field(default_factory=set)
    near: list[set[int]] = field(default_factory=list)
    lost: bool = False

    def lacks(self, i: int, gone: Container[int]) -> bool:
        """Return whether pod ``i`` misses the others; one that is the only match of its own terms does not."""
        if i in self.full and all(j == i or j in gone for j in self.full):
            return self.lost
        return any(all(j in gone for j in near) for near in self.near)


class Enforced:
    """Running pods with rules that hold during execution. ``selection``: their node affinity does not match; ``losing``: by pod those that
    it has to make way for by anti-affinity. ``forgiven``: rules that do not count, each with its pod."""

    def __init__(self, snapshot: Snapshot, exempt: Collection[str] = (), forgiven: Collection[tuple[int, Rule]] = ()) -> None:
        self.pods = pods = snapshot.pods
        self._snapshot, self._exempt = snapshot, frozenset(exempt)
        self._labels = {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}
        self.selection: set[int] = set()
        self.losing: dict[int, set[int]] = {}
        #: Pods with the places of their terms of anti-affinity that others break.
        self._apart: set[tuple[int, int]] = set()
        #: With the terms that hold during execution only, and, of pods that have plain ones as well, with all terms.
        self._wanted: dict[int, list[_Wanted]] = {}
        self._here = [i for i, pod in enumerate(pods) if pod.spec.nodeName in self._labels and not is_terminal(pod)]
        table: NodeTable | None = None
        for i in self._here:
            affinity = pods[i].spec.affinity
            if affinity is None or is_terminating(pods[i]):
                continue
            if affinity.nodeAffinity is not None and affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution is not None:
                table = table or NodeTable(snapshot.nodes)
                mask = table.selector(affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution)
                if (i, ("nodeAffinity", 0)) not in forgiven and not mask[table.names.index(pods[i].spec.nodeName or "")]:
                    self.selection.add(i)
            self._read_anti(i, _terms(affinity.podAntiAffinity), forgiven)
            if (wanted := _terms(affinity.podAffinity)) and (i, ("podAffinity", 0)) not in forgiven:
                every = _terms(affinity.podAffinity, ignored=True)
                self._wanted[i] = [self._read(i, terms) for terms in ([wanted] if len(every) == len(wanted) else [wanted, every])]
        #: After :meth:`order`: by pod that broke a rule when its turn came, how many were gone then.
        self.begun: dict[int, int] = {}
        #: By pod, those that have to be near it.
        self._needed_by: dict[int, list[int]] = {}
        for i, both in self._wanted.items():
            for j in both[0].full - {i}:
                self._needed_by.setdefault(j, []).append(i)

    def broken(self) -> set[tuple[int, Rule]]:
        """Return the broken rules, each with the pod that has it, whoever would have to go."""
        found: set[tuple[int, Rule]] = {(i, ("nodeAffinity", 0)) for i in self.selection}
        found |= {(i, ("podAffinity", 0)) for i in self._wanted if self.lonely(i, ())}
        return found | {(i, ("podAntiAffinity", k)) for i, k in self._apart}

    def violators(self) -> set[int]:
        """Return the pods that may have to go, in whatever order others do."""
        found = self.selection | self.losing.keys() | {i for i in self._wanted if self.lonely(i, ())}
        queue = list(found)
        for j in queue:
            for i in self._needed_by.get(j, ()):
                if i not in found and any(near and near <= found for near in self._wanted[i][0].near):
                    found.add(i)
                    queue.append(i)
        return found

    def lonely(self, i: int, gone: Container[int]) -> bool:
        """Return whether a pod misses others once some are gone. The filter asks for pods that all terms match, those that only hold while
        scheduling included: who would be let in again by all of them stays."""
        both = self._wanted.get(i)
        return both is not None and all(wanted.lacks(i, gone) for wanted in both)

    def order(self) -> dict[int, int]:
        """Return the pods that would have to go, in an order in which nobody who stays is worse off in between, until nothing is broken;
        each with the pod for which it goes: itself, or one that it has to be near.

        First those that go whoever else does; then, of those that are left, the lowest priority first, among equals who mends most by
        going, then the youngest, then by name. Who would miss a pod goes before it, which may be enough.
        """
        rank = {i: k for k, i in enumerate(_young_first(self.pods, self.selection | self.losing.keys() | self._wanted.keys()))}
        found: dict[int, int] = {}
        sure = {i for i in self._wanted if self.lonely(i, ()) and i not in self._wanted[i][0].full}
        for i in sorted(self.selection | sure, key=rank.__getitem__):
            if i not in found:
                self._let_go(i, found, rank)
        open_ = {i for i in self.losing.keys() | self._wanted.keys() if i not in found}
        winning: dict[int, set[int]] = {}
        for i, others in self.losing.items():
            for j in others:
                winning.setdefault(j, set()).add(i)

        def mended(i: int) -> int:
            ties = self.losing.get(i, set()) | winning.get(i, set())
            return len(ties - found.keys())

        while True:
            open_ = {i for i in open_ if i not in found and self._breaks(i, found)}
            if not open_:
                return self._needed(found, winning)
            first = min(open_, key=lambda i: (self.pods[i].spec.priority or 0, -mended(i), rank[i]))
            self._let_go(first, found, rank)

    def _needed(self, found: dict[int, int], winning: Mapping[int, set[int]]) -> dict[int, int]:
        """Leave out pods that may stay after all, as others went later. ``winning``: by pod those that have to make way for it."""
        for i in list(found):
            rest = {j: cause for j, cause in found.items() if j != i}
            touched = {i, *winning.get(i, ()), *self._needed_by.get(i, ())} - rest.keys()
            if not any(self._breaks(j, rest) for j in touched):
                turn = list(found).index(i)
                self.begun = {j: begun - (begun > turn) for j, begun in self.begun.items()}
                found = rest
        return found

    def relieved_by(self, i: int, gone: Mapping[int, int]) -> set[int]:
        """Return the pods that go whose absence lets a pod stay that broke a rule with them."""
        near = set[int]().union(*(wanted.full for wanted in self._wanted.get(i, ())))
        return (self.losing.get(i, set()) | near) & gone.keys()

    def _let_go(self, i: int, found: dict[int, int], rank: dict[int, int]) -> None:
        """Add a pod, and before it those that would miss it."""
        gone = {*found, i}
        queue = [i]
        for j in queue:
            for k in sorted(self._needed_by.get(j, ()), key=rank.__getitem__):
                if k not in gone and self.lonely(k, gone) and not self.lonely(k, found):
                    gone.add(k)
                    queue.append(k)
        self.begun[i] = len(found)
        found.update((j, i) for j in reversed(queue[1:]))
        if self._breaks(i, found):
            found[i] = i

    def _breaks(self, i: int, gone: Mapping[int, int]) -> bool:
        """Return whether a pod breaks a rule once others are gone."""
        return i in self.selection or not self.losing.get(i, set()) <= gone.keys() or self.lonely(i, gone)

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

    def _read(self, i: int, terms: list[PodAffinityTerm]) -> _Wanted:
        here, found = self._at(i), _Wanted([term.topologyKey for term in terms])
        for j in self._here:
            if all(term_matches(self._snapshot, self.pods[i], term, self.pods[j]) for term in terms) and not self._at(j).keys().isdisjoint(
                found.keys
            ):
                found.full.add(j)
        found.near = [{j for j in found.full if j != i and self._together(i, j, key)} for key in found.keys]
        found.lost = not here.keys() >= set(found.keys)
        return found

    def _at(self, i: int) -> dict[str, str]:
        return self._labels[self.pods[i].spec.nodeName or ""]

    def _together(self, i: int, j: int, key: str) -> bool:
        """Return whether two running pods are in one domain of a key."""
        mine = self._at(i).get(key)
        return mine is not None and self._at(j).get(key) == mine


def _young_first(pods: list[Pod], chosen: Iterable[int]) -> list[int]:
    """Pods in the order in which equals would have to go: the lowest priority first, then the youngest, then by name."""
    found = sorted(chosen, key=lambda i: pod_key(pods[i]))
    found.sort(key=lambda i: pods[i].metadata.creationTimestamp or "", reverse=True)
    return sorted(found, key=lambda i: pods[i].spec.priority or 0)


def _terms(part: PodAffinity | None, *, ignored: bool = False) -> list[PodAffinityTerm]:
    """The terms that hold during execution; ``ignored``: and those that do not."""
    if part is None:
        return []
    others = part.requiredDuringSchedulingIgnoredDuringExecution if ignored else None
    return [*(others or ()), *(part.requiredDuringSchedulingRequiredDuringExecution or ())]
