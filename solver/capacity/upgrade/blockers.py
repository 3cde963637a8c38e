"""The blockers of an upgrade: objects that prevent the drain of a node permanently, or in the state that the last wave reached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget
from kubestow.models.documents.upgrade import Blocker
from kubestow.models.edits.upgrade import stays
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.pod_spec import claim_keys
from kubestow.solver.capacity.upgrade.course import Walk, open_, surging
from kubestow.solver.capacity.upgrade.pool import UpgradePool
from kubestow.solver.capacity.upgrade.state import PoolState
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.wording import amount

_NO = {
    "do-not-disrupt": "one of its annotations forbids disruption",
    "gang": "it is a member of a running gang, which the eviction would break up",
    "devices": "it holds devices, which plans do not move",
}
_Key = tuple[str, str, str, str, bool]


class _BlockerCollector:
    """A collector of blockers by node, object and message, each with its pods."""

    def __init__(self) -> None:
        self._found: dict[_Key, tuple[Blocker, list[str]]] = {}

    def add(self, blocker: Blocker, pod: str) -> None:
        key = (blocker.node, blocker.kind, blocker.object, blocker.message, blocker.proved)
        self._found.setdefault(key, (blocker, []))[1].append(pod)

    def all(self) -> list[Blocker]:
        for blocker, pods in self._found.values():
            blocker.pods = pods
        return [blocker for blocker, _ in self._found.values()]


# --- permanent blockers -----------------------------------------------------------------------------------------------------------


def permanent(pool: UpgradePool, state: PoolState) -> list[Blocker]:
    """Return the blockers that persist regardless of earlier moves, in the order of the nodes."""
    collector = _BlockerCollector()
    refused = {key: entry.reason for entry in pool.problem.excluded for key in entry.pods}
    budgets = _Budgets(pool)
    names = pool.names
    for pod in stays(pool.snapshot.pods, [names[n] for n in pool.old]):
        why = refused.get(pod_key(pod))
        node, key = pod.spec.nodeName or "", pod_key(pod)
        if why == "budgets":
            for guard in budgets.of(pod, node):
                collector.add(guard, key)
            continue
        if why is not None:
            collector.add(_refusal(pod, why), key)
    pods, end = pool.problem.cluster.snapshot.pods, pool.end()
    homeless = pool.problem.movable.copy()
    for g in np.flatnonzero(homeless).tolist():
        homeless[g] = not (end & ~state.lasting(g) & ~state.fit.never(g)).any()
    for n in pool.old if homeless.any() else ():
        for g in np.flatnonzero(homeless & (state.counts[:, n] > 0)).tolist():
            here = [pods[i] for i in pool.problem.cluster.classes[g].pods if pods[i].spec.nodeName == names[n]]
            for pod in here:
                collector.add(_nowhere(pool, state, g, n, pod), pod_key(pod))
    return sorted(collector.all(), key=lambda blocker: names.index(blocker.node))


def _refusal(pod: Pod, why: str) -> Blocker:
    """Return the blocker of a pod that a plan excludes for this reason."""
    node, key = pod.spec.nodeName or "", pod_key(pod)
    if why == "bare":
        message = f"bare pod {key}: no controller would recreate it; delete it, or create it by a controller"
        return Blocker(node, "barePod", f"Pod {key}", message, proved=True)
    message = f"{key} must not be evicted: {_NO.get(why, why)}"
    if why == "owner":
        owner = objects.controller_of(pod)
        named = f"{owner.kind if owner else ''} {owner.name if owner else ''}"
        message = f"{key} belongs to {named}, which is not known to recreate it elsewhere"
    return Blocker(node, "notEvictable", f"Pod {key}", message, proved=why == "do-not-disrupt")


class _Budgets:
    """The PodDisruptionBudgets that currently allow no disruption, and whether they ever do."""

    def __init__(self, pool: UpgradePool) -> None:
        self._budgets = pool.problem.budgets
        pods = pool.problem.cluster.snapshot.pods
        self._of: dict[str, list[DisruptionBudget]] = {}
        for budget in self._budgets:
            for i in budget.pods:
                self._of.setdefault(pod_key(pods[i]), []).append(budget)

    def of(self, pod: Pod, node: str) -> list[Blocker]:
        key = pod_key(pod)
        several = self._of.get(key, [])
        names = ", ".join(budget.name for budget in several)
        if len(several) > 1:
            message = f"{len(several)} PodDisruptionBudgets select the same pods ({names}); the Eviction API refuses to evict such pods"
            return [Blocker(node, "PodDisruptionBudget", f"PodDisruptionBudget {b.name}", message, proved=True) for b in several]
        return [Blocker(node, "PodDisruptionBudget", f"PodDisruptionBudget {b.name}", _allows_nothing(b), proved=b.never) for b in several]


def _allows_nothing(budget: DisruptionBudget) -> str:
    if budget.never:
        return f"PodDisruptionBudget {budget.name} allows no disruption, even when all its pods are healthy"
    return f"PodDisruptionBudget {budget.name} allows no disruption now: {budget.healthy} of its pods are healthy, {budget.desired} needed"


def _nowhere(pool: UpgradePool, state: PoolState, g: int, n: int, pod: Pod) -> Blocker:
    """Return the reason why no node that stays or joins ever accepts a pod."""
    end, static = pool.end(), state.lasting(g)
    node, key = pool.names[n], pod_key(pod)
    if (end & ~static).any():
        message = f"{key} requests {_asks(pool, g)}: no eligible node that stays or joins is large enough"
        return Blocker(node, "room", f"Pod {key}", message, proved=True)
    rules = state.lasting_rules
    out_of_reach = np.logical_or.reduce([face.rule.never(g) for face in state.faces if face.ties_to_data])
    if not (end & ~out_of_reach).any() and (volumes := _tied(pool, pod)):
        message = f"{key} keeps data in PersistentVolume {volumes[0]}, which no node that stays or joins can reach"
        return Blocker(node, "localVolume", f"PersistentVolume {volumes[0]}", message, proved=True)
    return Blocker(node, "rule", f"Pod {key}", f"{key} has no eligible node that stays or joins: {_words(rules, g, end)}", proved=True)


def _tied(pool: UpgradePool, pod: Pod) -> list[str]:
    """Return the PersistentVolumes of a pod that only some nodes can use."""
    snapshot, blockers = pool.snapshot, []
    for key in claim_keys(pod):
        claim = snapshot.persistent_volume_claims.get(key)
        volume = snapshot.persistent_volumes.get((claim.spec.volumeName if claim and claim.spec else None) or "")
        if volume is not None and volume.spec is not None and volume.spec.nodeAffinity is not None:
            blockers.append(volume.metadata.name or "")
    return blockers


def _words(rules: Sequence[Rule], g: int, nodes: np.ndarray) -> str:
    """Return the rules that reject a class on some nodes, as text."""
    words = []
    for rule in rules:
        rejected = rule.never(g) & nodes
        if rejected.any():
            words.append(f"{rule.name} ({rule.message(g, rejected)}) rejects it on {int(rejected.sum())} of {int(nodes.sum())}")
    return "; ".join(words)


def _asks(pool: UpgradePool, g: int) -> str:
    cluster = pool.problem.cluster
    words = [amount(name, int(cluster.demand[g, r])) for r, name in enumerate(cluster.resources) if cluster.demand[g, r]]
    return ", ".join(words) or "a place"


# --- blockers of the final state --------------------------------------------------------------------------------------------------


def present(pool: UpgradePool, walk: Walk, undrained: Sequence[int]) -> list[Blocker]:
    """Return for each node that was not drained its blocker in the state that the waves led to."""
    return [blocker for n in undrained for blocker in [_stuck(pool, walk, n)] if blocker is not None]


def _stuck(pool: UpgradePool, walk: Walk, n: int) -> Blocker | None:
    state = walk.state
    before = state.present
    state.begin(open_(before, [pool.new[m] for m in surging(state, walk.surge, [n])]))
    state.cordoned[n] = True
    steps: list[Step] = []
    reason = None
    for g in walk.running(n):
        mask = state.places(g, n)
        if not mask.any():
            reason = _reason(pool, state, g, n)
            break
        walk.take(Step(g, n, walk.best(n, mask)), steps)
    state.undo_all(steps, 0)
    state.present = before
    return reason


def _reason(pool: UpgradePool, state: PoolState, g: int, n: int) -> Blocker:
    cluster = pool.problem.cluster
    i = next(i for i in cluster.classes[g].pods if i >= 0)
    names, pods = pool.names, cluster.snapshot.pods
    i = next((j for j in cluster.classes[g].pods if pods[j].spec.nodeName == names[n]), i)
    key = pod_key(pods[i])
    there = state.present & ~state.cordoned & ~state.lasting(g)
    roomy = there & ~state.fit.rejects(g)
    if there.any() and not roomy.any():
        message = f"{key} requests {_asks(pool, g)}: none of the {int(there.sum())} eligible nodes has enough free resources at that point"
        return Blocker(names[n], "room", f"Node {names[n]}", message, [key])
    rules = [r.name for r in state.rules if r is not state.fit and (r.rejects(g) & (roomy if roomy.any() else state.present)).any()]
    why = ", ".join(dict.fromkeys(rules)) or "rules of pods that run already"
    return Blocker(names[n], "rule", f"Pod {key}", f"{key} has no eligible node with enough room at that point: {why}", [key])
