"""Rules that must hold during execution, evaluated alone: the pods that break them, and the pods that would be evicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubestow.audit.checks.violated.affinity import SeparatedPods, lonely
from kubestow.audit.checks.violated.running_pods import Running, only_execution, without_execution
from kubestow.audit.view.usable_nodes import UsableNodes
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.anti_affinity.pod_terms import term_matches
from kubestow.models.execution.execution_grace import without
from kubestow.models.kube.objects import PodAffinityTerm, is_waiting
from kubestow.solver.rebalance.excused_filters import sentences
from kubestow.solver.rebalance.problem.execution_violators import Enforced
from kubestow.solver.rebalance.problem.forgiveness import Forgiveness, forgive


@dataclass
class Executed:
    """Rules that must hold during execution, evaluated for running pods.

    Attributes:
        running: Running pods with only the affinity that must hold during execution.
        enforced: The pods that each pod must yield to.
        order: Pods that would be evicted, in order, each mapped to the pod that causes it.
        alone: Running pods without the pods of their affinity now.
    """

    running: Running
    enforced: Enforced
    order: dict[int, int]
    alone: frozenset[int] = frozenset()

    def going(self, pods: Iterable[int]) -> list[int]:
        """Return the given pods that would be evicted, and the pods that must follow them, in order.

        For a pod that may stay in the end, return the pods whose eviction allows it to stay.
        """
        wanted = set(pods)
        staying = wanted - self.order.keys() - set(self.order.values())
        wanted = wanted.union(*(self.enforced.relieved_by(i, self.order) for i in staying))
        return [i for i, cause in self.order.items() if i in wanted or cause in wanted]

    def breaking(self, group: SeparatedPods) -> list[int]:
        """Return the pods that break anti-affinity within a group when it is their turn to be evicted."""
        turn = {i: k for k, i in enumerate(self.order)}
        late = len(turn)
        return [i for i, begun in self.enforced.begun.items() if any(turn.get(j, late) >= begun for j in self._stronger(group, i))]

    def _stronger(self, group: SeparatedPods, i: int) -> set[int]:
        """Return the pods of a group to which one of its pods must yield."""
        others = {*(group.matched if i in group.owners else ()), *(group.owners if i in group.matched else ())}
        return others & self.enforced.losing.get(i, set())


def executed(view: ClusterView) -> Executed | None:
    """Return the evaluation, or None if no pod has such a rule."""
    forgiven = view.once(forgiveness).rules
    snapshot = only_execution(without(view.snapshot, forgiven))
    if snapshot is None or not snapshot.nodes:
        return None
    running, enforced = Running(view, snapshot), Enforced(view.snapshot, view.exempt, forgiven)
    return Executed(running, enforced, enforced.order(), _alone(view, running))


def forgiveness(view: ClusterView) -> Forgiveness:
    """Return the rules that are broken within their grace period, which do not count."""
    return forgive(view.snapshot, view.history, view.exempt)


def grace_notes(view: ClusterView) -> list[str]:
    """Return notes about rules that are within their grace period."""
    return sentences(view.snapshot, view.history, view.once(forgiveness)) if view.snapshot.nodes else []


def lonely_in_execution(view: ClusterView) -> frozenset[int]:
    """Return the running pods that break their affinity during execution, beyond any grace period."""
    snapshot = only_execution(without(view.snapshot, view.once(forgiveness).rules))
    return frozenset() if snapshot is None else _alone(view, Running(view, snapshot))


def mending(view: ClusterView, i: int) -> list[int]:
    """Return the pending pods that would satisfy the affinity of a running pod.

    All of its terms match them, and nodes of its domains could take them.
    """
    pods, node = view.snapshot.pods, view.nodes
    affinity = pods[i].spec.affinity
    part = affinity.podAffinity if affinity is not None else None
    terms: list[PodAffinityTerm] = list((part.requiredDuringSchedulingRequiredDuringExecution if part is not None else None) or ())
    home = view.node_index[pods[i].spec.nodeName or ""]
    columns = [node.column(term.topologyKey)[0] for term in terms]
    near = [column == column[home] for column in columns]
    if not terms or any(column[home] < 0 for column in columns):
        return []
    found = []
    for j, pod in enumerate(pods):
        if not is_waiting(pod):
            continue
        if not all(term_matches(view.snapshot, pods[i], term, pod) for term in terms):
            continue
        subject = view.subject_of.get(j)
        usable = view.once(UsableNodes).place(subject).usable if subject is not None else None
        if all((mask if usable is None else mask & usable).any() for mask in near):
            found.append(j)
    return found


def _alone(view: ClusterView, running: Running) -> frozenset[int]:
    """Return the pods that miss others by these terms.

    Pods that also have plain terms must miss the others by all terms together. Otherwise they could be placed here
    again.
    """
    found = {i for each in lonely(running) for i in each.pods}
    mixed = {i for i in found if _has_plain(view, i)}
    if mixed:
        missed = {i for each in lonely(Running(view, without_execution(view.snapshot))) for i in each.pods}
        found -= mixed - missed
    return frozenset(found)


def _has_plain(view: ClusterView, i: int) -> bool:
    affinity = view.snapshot.pods[i].spec.affinity
    part = affinity.podAffinity if affinity is not None else None
    return part is not None and bool(part.requiredDuringSchedulingIgnoredDuringExecution)
