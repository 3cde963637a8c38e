"""Verdicts on each node for a pod: every rule is checked on its own against the bound pods, as the scheduler would now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube.lenient_decode import near_keys, near_names
from kubestow.models.kube.objects import is_terminal, pod_key
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import owned
from kubestow.models.workloads.ownership import PodOwners
from kubestow.models.workloads.view import find, split
from kubestow.solver import rules
from kubestow.solver.explain.nominated import Nominated
from kubestow.solver.rules.base import Rule


class UnknownPod(Exception):
    """An error: the snapshot has no such pod, or the pod cannot be judged because it has ended."""


class UnknownNode(Exception):
    """An error: the snapshot has no such node."""


@dataclass(frozen=True)
class PodVerdict:
    """The verdict on a pod.

    Attributes:
        pod: ``namespace/name``.
        feasible: Nodes that no rule rejects.
        rejected: For every other node, the plugin names of the rules that reject it.
        messages: A few words per rule.
        runs_on: The node of a bound pod.
        scores: Weighted points of kube-scheduler by feasible node and plugin, best node first. None if not asked for.
    """

    pod: str
    feasible: list[str]
    rejected: dict[str, list[str]]
    messages: dict[str, str]
    runs_on: str | None = None
    scores: dict[str, dict[str, int]] | None = None

    def totals(self) -> dict[str, int] | None:
        """Return the sum of the points of each node."""
        return None if self.scores is None else {node: sum(points.values()) for node, points in self.scores.items()}


class JudgingOptions(TypedDict, total=False):
    """How pods are judged.

    Attributes:
        include_gated: Judge gated pods, too.
        daemon_namespaces: Namespaces exempt from required anti-affinity.
        policy: The policy.
    """

    include_gated: bool
    daemon_namespaces: tuple[str, ...]
    policy: Policy


def explain(
    snapshot: Snapshot,
    *,
    pod: str | None = None,
    workload: str | None = None,
    node: str | None = None,
    **judging: Unpack[JudgingOptions],
) -> list[PodVerdict]:
    """Judge each pending pod alone against the bound pods.

    A node with nominated pods of equal or higher priority is also judged as if these were bound.

    Args:
        pod: Judge only this pod (``namespace/name``). It may be gated, or bound; a bound pod is taken off its
            node first.
        workload: Judge only the pending pods of this workload ([KIND/][NAMESPACE/]NAME), or its first pod if
            none is pending.
        node: Judge only this node.

    Raises:
        UnknownPod: The snapshot has no such pod or workload.
        UnknownNode: The snapshot has no such node.
    """
    if node is not None and all(n.metadata.name != node for n in snapshot.nodes):
        raise UnknownNode(f"{node}: no such node in the snapshot{near_names(node, (n.metadata.name or '' for n in snapshot.nodes))}")
    if workload is not None:
        scope = _scope_of_workload(snapshot, _pods_of(snapshot, workload))
    elif pod is not None:
        scope = _scope_of_pod(snapshot, pod)
    else:
        scope = select(snapshot, include_gated=judging.get("include_gated", False))
    exempt, policy = judging.get("daemon_namespaces", ()), judging.get("policy", DEFAULT)
    cluster = compile_cluster(snapshot, scope, daemon_namespaces=exempt, policy=policy)
    active = rules.build(cluster)
    only = None if node is None else cluster.nodes.names.index(node)
    by_pod: dict[int, PodVerdict] = {}
    for g, cls in enumerate(cluster.classes):
        feasible, rejected, messages = judge(cluster, active, g, only)
        for i in cls.pods:
            by_pod[i] = PodVerdict(pod_key(snapshot.pods[i]), feasible, rejected, messages, snapshot.pods[i].spec.nodeName or None)
    nominated = Nominated(snapshot, scope, exempt, policy)
    return [_with_nominated(nominated, i, by_pod[i], cluster.nodes.names, only) for i in scope.pending]


def _scope_of_workload(snapshot: Snapshot, chosen: list[int]) -> Scope:
    """Return the scope of the pending pods of a workload, or of its first pod if none is pending."""
    scope = select(snapshot, include_gated=True)
    scope.pending = [i for i in scope.pending if i in set(chosen)]
    return scope if scope.pending else _scope_of_pod(snapshot, pod_key(snapshot.pods[chosen[0]]))


def _scope_of_pod(snapshot: Snapshot, pod: str) -> Scope:
    """Return the scope of one pod. A bound pod is taken off its node.

    Raises:
        UnknownPod: There is no such pod, or it will not be scheduled.
    """
    named = [p for p in snapshot.pods if pod_key(p) == pod]
    if not named:
        raise UnknownPod(f"{pod}: no such pod in the snapshot{near_keys(pod, map(pod_key, snapshot.pods))}")
    if is_terminal(named[0]):
        raise UnknownPod(f"{pod}: the pod has ended ({named[0].status.phase if named[0].status else 'terminal'})")
    scope = select(snapshot, include_gated=True, unbind=pod)
    scope.pending = [i for i in scope.pending if pod_key(snapshot.pods[i]) == pod]
    if not scope.pending:
        raise UnknownPod(f"{pod}: the pod is terminating and not bound; it will not be scheduled")
    return scope


def _with_nominated(nominated: Nominated, i: int, verdict: PodVerdict, names: list[str], only: int | None) -> PodVerdict:
    """Return the verdict on pod i, extended by rules that reject it once the pods nominated to a node are added."""
    more = [rejection for rejection in nominated.rejects(i) if only in (None, rejection[0])]
    if not more:
        return verdict
    rejected, messages = {name: list(plugins) for name, plugins in verdict.rejected.items()}, dict(verdict.messages)
    for n, rule, message in more:
        there = rejected.setdefault(names[n], [])
        if rule not in there:
            there.append(rule)
            messages.setdefault(rule, message)
    feasible = [name for name in verdict.feasible if name not in rejected]
    ordered = {name: sorted(rejected[name]) for name in names if name in rejected}
    return replace(verdict, feasible=feasible, rejected=ordered, messages=messages)


def _pods_of(snapshot: Snapshot, workload: str) -> list[int]:
    """Return the indices of the pods of a workload, given as [KIND/][NAMESPACE/]NAME.

    Raises:
        UnknownPod: No workload matches, several match, or it has no pods.
    """
    try:
        kind, namespace, name = find([snapshot], workload)
    except InputError:
        pass  # a snapshot may hold the pods of a workload without the workload
    else:
        known = owned(snapshot, kind, namespace, name)
        if known:
            return known
    owners = PodOwners(snapshot)
    wanted_kind, rest = split(workload)
    wanted = (workload if wanted_kind is None else f"{wanted_kind}/{rest}").lower()
    pods: dict[str, list[int]] = {}
    keys: dict[str, None] = {}
    for i, one in enumerate(snapshot.pods):
        if not is_terminal(one):
            kind, _, key = owners.of(one).partition(" ")
            name = key.rpartition("/")[2]
            keys[f"{kind}/{key}"] = None
            if wanted in (name, key, f"{kind}/{name}".lower(), f"{kind}/{key}".lower()):
                pods.setdefault(f"{kind}/{key}", []).append(i)
    if not pods:
        raise UnknownPod(f"{workload!r}: no such workload in the snapshot, or none with pods{near_keys(workload, keys)}")
    if len(pods) > 1:
        raise UnknownPod(f"{workload}: it could be {' or '.join(sorted(pods))}, expected KIND/NAMESPACE/NAME")
    return next(iter(pods.values()))


def judge(cluster: Cluster, active: list[Rule], g: int, only: int | None = None) -> tuple[list[str], dict[str, list[str]], dict[str, str]]:
    """Return feasible nodes, rejecting rules per node and messages per rule, for one more pod of class g in the rules' state."""
    nodes = np.arange(cluster.n_nodes) if only is None else np.array([only])
    rejected: dict[str, list[str]] = {}
    messages: dict[str, str] = {}
    names = cluster.nodes.names
    for rule in active:
        mask = rule.rejects(g)
        hit = nodes[mask[nodes]]
        if len(hit):
            here = np.zeros(cluster.n_nodes, dtype=bool)
            here[hit] = True
            messages[rule.name] = rule.message(g, here)
            for n in hit.tolist():
                rejected.setdefault(names[n], []).append(rule.name)
    ordered = {names[n]: sorted(rejected[names[n]]) for n in nodes.tolist() if names[n] in rejected}
    return [names[n] for n in nodes.tolist() if names[n] not in rejected], ordered, messages
