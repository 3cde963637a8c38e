"""Changes after which blocked nodes of an upgrade can be drained, each proved by searching the upgrade of the changed cluster again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from kubestow.models.disruption.evictable import DO_NOT_DISRUPT
from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget, budgets, is_ready
from kubestow.models.documents.upgrade import Blocker
from kubestow.models.edits.binding import bound_as
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.pod_spec import claim_keys
from kubestow.models.kube.workload_objects import PodDisruptionBudget, PodDisruptionBudgetSpec
from kubestow.models.snapshot.scope import SAFE_TO_EVICT_ANNOTATION
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.rules.eligibility import possible

#: Maximum number of changes to try. Each takes another search.
MAX_TRIALS = 24
#: Annotations that forbid an eviction, with the value that forbids it.
_FORBIDDING = ((DO_NOT_DISRUPT, "true"), (SAFE_TO_EVICT_ANNOTATION, "false"))

_change = msgspec.structs.replace
#: Returns the blockers of a snapshot's upgrade; None if it was not decided in time.
BlockerSearch = Callable[[Snapshot], Sequence[Blocker] | None]


@dataclass
class _BlockerEdit:
    message: str
    snapshot: Snapshot


def offer(snapshot: Snapshot, blocked: Sequence[Blocker], search: BlockerSearch) -> None:
    """Fill in the remedies of blockers: changes of the blocking objects after which these no longer block.

    Args:
        snapshot: The cluster before the upgrade.
        blocked: The blockers of its upgrade. They are changed.
        search: Searches the upgrade of a changed snapshot.
    """
    tried: dict[tuple[str, str, str], list[str]] = {}
    remaining_trials = MAX_TRIALS
    for blocker in blocked:
        key = blocker.kind, blocker.object, ",".join(blocker.pods) if blocker.kind == "notEvictable" else ""
        if key not in tried:
            tried[key] = []
            same = [b for b in blocked if (b.kind, b.object) == key[:2]]
            for change in _changes(snapshot, same):
                if remaining_trials <= 0:
                    break
                remaining_trials -= 1
                blockers = search(change.snapshot)
                if blockers is not None and _works(same, blockers):
                    tried[key].append(change.message)
        blocker.remedies = list(tried[key])


def _works(same: Sequence[Blocker], blockers: Sequence[Blocker]) -> bool:
    """Return True if the object no longer blocks, and no other object blocks the same pods."""
    objects_left = {(b.kind, b.object) for b in blockers}
    pods = {pod for b in same for pod in b.pods}
    return (same[0].kind, same[0].object) not in objects_left and not any(pods.intersection(b.pods) for b in blockers)


def _changes(snapshot: Snapshot, same: Sequence[Blocker]) -> Iterator[_BlockerEdit]:
    first = same[0]
    pods = sorted({pod for blocker in same for pod in blocker.pods})
    if first.kind == "PodDisruptionBudget":
        yield from _budget_changes(snapshot, first.object.partition(" ")[2], pods)
    elif first.kind in ("barePod", "notEvictable"):
        yield from _released(snapshot, pods)
        yield _BlockerEdit(f"delete {_listed(pods)}", _without(snapshot, pods))
    elif first.kind == "localVolume":
        yield from _reachable(snapshot, first.object.partition(" ")[2])


# --- budgets ------------------------------------------------------------------------------------------------------------------------


def _budget_changes(snapshot: Snapshot, name: str, pods: Sequence[str]) -> Iterator[_BlockerEdit]:
    budget = next((b for b in budgets(snapshot) if b.name == name), None)
    raw = next((b for b in snapshot.pod_disruption_budgets if _name(b) == name), None)
    if budget is None or raw is None:
        return
    spec = raw.spec or PodDisruptionBudgetSpec()
    blocked = [snapshot.pods[i] for i in budget.pods if pod_key(snapshot.pods[i]) in set(pods)]
    if spec.unhealthyPodEvictionPolicy != "AlwaysAllow" and not all(map(is_ready, blocked)):
        message = f"set unhealthyPodEvictionPolicy: AlwaysAllow in PodDisruptionBudget {name}"
        yield _BlockerEdit(message, _with_budget(snapshot, raw, _change(spec, unhealthyPodEvictionPolicy="AlwaysAllow"), keep=True))
    yield from _loosened(snapshot, raw, spec, budget)
    if all(is_ready(snapshot.pods[i]) for i in budget.pods):  # another replica of a failing workload would fail, too
        yield from _one_more(snapshot, raw, snapshot.pods[budget.pods[0]])
    others = [b.name for b in budgets(snapshot) if b.name != name and set(b.pods) & set(budget.pods)]
    if others:
        remaining = [b for b in snapshot.pod_disruption_budgets if b is not raw]
        yield _BlockerEdit(f"delete PodDisruptionBudget {name}", replace(snapshot, pod_disruption_budgets=remaining))


def _loosened(
    snapshot: Snapshot, raw: PodDisruptionBudget, spec: PodDisruptionBudgetSpec, budget: DisruptionBudget
) -> Iterator[_BlockerEdit]:
    """Yield the smallest change of the budget that allows one healthy pod to leave."""
    size = len(budget.pods)
    if not budget.healthy:
        return
    if spec.minAvailable is not None:
        message = f"lower minAvailable of PodDisruptionBudget {budget.name} from {spec.minAvailable} to {budget.healthy - 1}"
        yield _BlockerEdit(message, _with_budget(snapshot, raw, _change(spec, minAvailable=budget.healthy - 1)))
    elif spec.maxUnavailable is not None:
        for more in range(1, size + 1):
            changed = _with_budget(snapshot, raw, _change(spec, maxUnavailable=more))
            after = next((b for b in budgets(changed) if b.name == budget.name), None)
            if after is not None and after.allowed:
                yield _BlockerEdit(
                    f"raise maxUnavailable of PodDisruptionBudget {budget.name} from {spec.maxUnavailable} to {more}", changed
                )
                return


def _one_more(snapshot: Snapshot, raw: PodDisruptionBudget, pod: Pod) -> Iterator[_BlockerEdit]:
    """Yield one more replica of a pod's workload, on a node that can hold it."""
    owner = objects.controller_of(pod)
    scaled = _scaled(snapshot, owner.kind, pod.metadata.namespace or "default", owner.name) if owner is not None else None
    if scaled is None or any(True for _ in claim_keys(pod)):  # bound to where its own volume will be
        return
    name, workloads = scaled
    metadata = _change(pod.metadata, name=f"{pod.metadata.name}-more", uid=None)
    pods = [*snapshot.pods, _change(pod, metadata=metadata, spec=_change(pod.spec, nodeName=None))]
    budgets = [_change(b, status=None) if b is raw else b for b in snapshot.pod_disruption_budgets]
    changed = replace(snapshot, pods=pods, workloads=workloads, pod_disruption_budgets=budgets)
    cluster = PlacementQuestion(changed, (len(pods) - 1,), 1).cluster()
    nodes = np.flatnonzero(possible(cluster, rules.build(cluster))[0])
    for n in nodes[:1].tolist():
        yield _BlockerEdit(f"add one replica to {name}", bound_as(changed, [(len(pods) - 1, cluster.nodes.names[n])]))


def _scaled(snapshot: Snapshot, kind: str, namespace: str, name: str) -> tuple[str, dict[str, Any]] | None:
    """Return the workload that scales a controller, and the workloads with one more replica of both; None if it cannot be scaled."""
    owner, workloads = f"{kind} {namespace}/{name}", dict(snapshot.workloads)
    if kind not in ("ReplicaSet", "StatefulSet", "ReplicationController"):
        return None
    chain = [(kind, name)]
    for obj in workloads.get(kind, ()):
        above = objects.controller_of(obj) if obj.metadata.name == name and (obj.metadata.namespace or "default") == namespace else None
        if above is not None:
            chain.append((above.kind, above.name))
            owner = f"{above.kind} {namespace}/{above.name}"
    for each, own in chain:
        workloads[each] = [
            _change(obj, spec=_change(obj.spec, replicas=(obj.spec.replicas or 0) + 1))
            if obj.spec is not None and obj.metadata.name == own and (obj.metadata.namespace or "default") == namespace
            else obj
            for obj in workloads.get(each, ())
        ]
    return owner, workloads


def _name(budget: PodDisruptionBudget) -> str:
    return f"{budget.metadata.namespace or 'default'}/{budget.metadata.name or ''}"


def _with_budget(snapshot: Snapshot, raw: PodDisruptionBudget, spec: PodDisruptionBudgetSpec, *, keep: bool = False) -> Snapshot:
    """Return the snapshot with another spec of a budget.

    Args:
        keep: True to keep its status, which the change does not affect.
    """
    new = _change(raw, spec=spec, status=raw.status if keep else None)
    return replace(snapshot, pod_disruption_budgets=[new if b is raw else b for b in snapshot.pod_disruption_budgets])


# --- pods and volumes ---------------------------------------------------------------------------------------------------------------


def _released(snapshot: Snapshot, pods: Sequence[str]) -> Iterator[_BlockerEdit]:
    """Yield the removal of each annotation that forbids an eviction."""
    for key, value in _FORBIDDING:
        chosen = [i for i, pod in enumerate(snapshot.pods) if pod_key(pod) in set(pods) and _annotated(pod, key, value)]
        if chosen:
            changed = list(snapshot.pods)
            for i in chosen:
                annotations = {k: v for k, v in (changed[i].metadata.annotations or {}).items() if k != key}
                changed[i] = _change(changed[i], metadata=_change(changed[i].metadata, annotations=annotations))
            names = _listed([pod_key(snapshot.pods[i]) for i in chosen])
            yield _BlockerEdit(f"remove the annotation {key} from {names}", replace(snapshot, pods=changed))


def _annotated(pod: Pod, key: str, value: str) -> bool:
    return (pod.metadata.annotations or {}).get(key) == value


def _without(snapshot: Snapshot, pods: Sequence[str]) -> Snapshot:
    gone = set(pods)
    return replace(snapshot, pods=[pod for pod in snapshot.pods if pod_key(pod) not in gone])


def _reachable(snapshot: Snapshot, name: str) -> Iterator[_BlockerEdit]:
    """Yield the volume without node affinity, so that every node can use it."""
    volume = snapshot.persistent_volumes.get(name)
    if volume is None or volume.spec is None:
        return
    changed = {**snapshot.persistent_volumes, name: _change(volume, spec=_change(volume.spec, nodeAffinity=None))}
    yield _BlockerEdit(
        f"move the data of PersistentVolume {name} to a volume that other nodes can use", replace(snapshot, persistent_volumes=changed)
    )


def _listed(pods: Sequence[str]) -> str:
    return f"pod {pods[0]}" if len(pods) == 1 else f"{len(pods)} pods: {', '.join(pods[:3])}{', …' if len(pods) > 3 else ''}"
