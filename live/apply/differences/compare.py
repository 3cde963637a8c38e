"""Comparison of two snapshots of one cluster for differences that a placement can depend on."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.live.apply.differences import nodes, other_objects, pods
from kubestow.live.apply.differences.found import DoneChanges, Drift
from kubestow.models.disruption.pod_disruption_budgets import is_ready
from kubestow.models.kube import objects, workload_objects
from kubestow.models.kube.selectors import canonical, selector_matches
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot


def compare(before: Snapshot, now: Snapshot, done: DoneChanges) -> list[Drift]:
    """Return the sorted differences between a document's snapshot and the cluster that the run did not make.

    Only differences that placement can depend on count, so status, leases, heartbeats and versions are ignored. Either snapshot may be
    redacted.
    """
    with no_gc():
        there = {objects.pod_key(pod): pod for pod in now.pods}
        found = list(nodes.drifts(_named(before), _named(now), done))
        found += pods.drifts({objects.pod_key(pod): pod for pod in before.pods}, there, done)
        found += other_objects.drifts(before, now, _own(now, there, done) | _own_devices(before, now, there, done))
        found += _disruptions(before, now, there, done)
    return sorted(set(found), key=lambda each: each.order)


def _named(snapshot: Snapshot) -> dict[str, objects.Node]:
    return {node.metadata.name or "": node for node in snapshot.nodes}


def _own(now: Snapshot, there: dict[str, objects.Pod], done: DoneChanges) -> frozenset[tuple[str, str]]:
    """Return the volume claims of pods that the run placed, and their volumes, since binding the pods changes both."""
    found = set()
    for each in done.pods.values():
        pod = there.get(each.name)
        for volume in (pod.spec.volumes if pod is not None else None) or ():
            namespace = each.name.partition("/")[0]
            if volume.persistentVolumeClaim is not None:
                found.add(("PersistentVolumeClaim", f"{namespace}/{volume.persistentVolumeClaim.claimName}"))
            elif volume.ephemeral is not None:
                found.add(("PersistentVolumeClaim", f"{each.name}-{volume.name}"))
    for _, key in list(found):
        claim = now.persistent_volume_claims.get(key)
        if claim is not None and claim.spec is not None and claim.spec.volumeName:
            found.add(("PersistentVolume", claim.spec.volumeName))
    return frozenset(found)


def _own_devices(before: Snapshot, now: Snapshot, there: dict[str, objects.Pod], done: DoneChanges) -> frozenset[tuple[str, str]]:
    """Return the resource claims of pods that the run placed or stopped, since their allocation follows the pods."""
    if not before.resource_claims and not now.resource_claims:
        return frozenset()
    gone = [pod for pod in before.pods if pod.metadata.uid in done.gone] if done.gone else []
    placed = [there[each.name] for each in done.pods.values() if each.name in there]
    found = {
        ("ResourceClaim", f"{pod.metadata.namespace or 'default'}/{entry.resourceClaimName}")
        for pod in (*gone, *placed)
        for entry in pod.spec.resourceClaims or ()
        if entry.resourceClaimName
    }
    uids = {*done.gone, *(pod.metadata.uid or "" for pod in placed)} - {""}
    for key, claim in (*before.resource_claims.items(), *now.resource_claims.items()):
        if any(each.controller and each.uid in uids for each in claim.metadata.ownerReferences or ()):
            found.add(("ResourceClaim", key))
    return frozenset(found)


def _disruptions(before: Snapshot, now: Snapshot, there: dict[str, objects.Pod], done: DoneChanges) -> Iterator[Drift]:
    """Yield the budgets that allow fewer evictions than the run's own unfinished evictions explain."""
    live = other_objects.by_name(now, "PodDisruptionBudget")
    for name, budget in other_objects.by_name(before, "PodDisruptionBudget").items():
        allowed, allowed_now = (_allowed(each) for each in (budget, live.get(name)))
        if allowed is None or allowed_now is None or allowed_now >= allowed:
            continue
        if allowed_now < allowed - _taken(budget, before, there, done):
            what = f"PodDisruptionBudget {name} allows {allowed_now} disruption{'s' if allowed_now != 1 else ''} now, {allowed} before"
            yield Drift("PodDisruptionBudget", name, "disruptions", what)


def _allowed(budget: workload_objects.PodDisruptionBudget | None) -> int | None:
    return budget.status.disruptionsAllowed if budget is not None and budget.status is not None else None


def _taken(budget: workload_objects.PodDisruptionBudget, before: Snapshot, there: dict[str, objects.Pod], done: DoneChanges) -> int:
    """Return the number of a budget's pods that the run stopped and that are not Ready again."""
    selector = canonical(budget.spec.selector if budget.spec is not None else None)
    namespace = budget.metadata.namespace or "default"
    used_disruptions = 0
    for pod in before.pods if done.gone else ():
        if pod.metadata.uid not in done.gone or (pod.metadata.namespace or "default") != namespace:
            continue
        if selector is not None and selector_matches(selector, pod.metadata.labels or {}):
            now = done.pods.get(objects.pod_key(pod))
            stands = there.get(now.name) if now is not None else None
            used_disruptions += stands is None or not stands.spec.nodeName or not is_ready(stands)
    return used_disruptions
