"""Checks that owners will still replace evicted pods as the plan expects.

If an owner is scaled down, rolled out or deleted, an evicted pod gets no replacement, or a different one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kubestow.live.apply.differences import other_objects
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_MAKING: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "Job")
_REVISION: Final = "controller-revision-hash"


class _Owner(NamedTuple):
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def faults(before: Snapshot, now: Snapshot, pods: Iterable[objects.Pod]) -> Iterator[str]:
    """Yield the reasons why owners may not replace their pods as expected. ``pods`` are the pods of ``now`` to be stopped."""
    stopped = sorted({owner for pod in pods if (owner := _owner(pod)) is not None and owner.kind in _MAKING})
    if not stopped:
        return
    living = Counter(_owner(pod) for pod in now.pods if not objects.is_terminal(pod) and not objects.is_terminating(pod))
    was, live = ({kind: other_objects.by_name(each, kind) for kind in (*_MAKING, "Deployment")} for each in (before, now))
    revisions = _revisions(before)
    for owner in stopped:
        key = f"{owner.namespace}/{owner.name}"
        known, found = was[owner.kind].get(key), live[owner.kind].get(key)
        if found is None:
            if known is not None:
                yield f"{owner} is gone: nothing replaces its pods"
            continue
        yield from _shrinking(owner, found, living[owner])
        if owner.kind == "ReplicaSet":
            yield from _rollout(owner, found, was, live)
        elif known is not None and owner.kind == "StatefulSet":
            if _template(known) != _template(found):
                yield f"{owner} has another template now: its next pods differ from those that the plan moves"
            elif any(_revision(pod) not in revisions[owner] for pod in now.pods if revisions[owner] and _owner(pod) == owner):
                yield f"a rollout of {owner} is under way: its next pods differ from those that the plan moves"


def _owner(pod: objects.Pod) -> _Owner | None:
    found = objects.controller_of(pod)
    return _Owner(found.kind, pod.metadata.namespace or "default", found.name) if found is not None else None


def _revision(pod: objects.Pod) -> str:
    return (pod.metadata.labels or {}).get(_REVISION, "")


def _revisions(before: Snapshot) -> dict[_Owner | None, set[str]]:
    """Return the revisions of each StatefulSet's pods; there are several if the plan was made during a rollout."""
    found: dict[_Owner | None, set[str]] = {}
    for pod in before.pods:
        owner = _owner(pod)
        if owner is not None and owner.kind == "StatefulSet":
            found.setdefault(owner, set()).add(_revision(pod))
    return found


def _shrinking(owner: _Owner, found: Any, living: int) -> Iterator[str]:
    spec = found.spec
    wanted = getattr(spec, "parallelism" if owner.kind == "Job" else "replicas", None)
    if found.metadata.deletionTimestamp is not None:
        yield f"{owner} is being deleted: nothing replaces its pods"
    elif getattr(spec, "suspend", None):
        yield f"{owner} is suspended: nothing replaces its pods"
    elif wanted is not None and living > wanted:
        yield f"{owner} is scaled down to {wanted} and has {living} pods: one that is evicted may not be replaced"


def _rollout(owner: _Owner, found: Any, was: dict[str, dict[str, Any]], live: dict[str, dict[str, Any]]) -> Iterator[str]:
    above = next((each.name for each in found.metadata.ownerReferences or () if each.controller and each.kind == "Deployment"), None)
    if above is None:
        return
    key = f"{owner.namespace}/{above}"
    known, deployment = was["Deployment"].get(key), live["Deployment"].get(key)
    if known is not None and deployment is not None and _template(known) != _template(deployment):
        yield f"Deployment {key} has another template now: its next pods differ from those that the plan moves"
        return
    for name, sibling in live["ReplicaSet"].items():
        if sibling is found or not _wanted(sibling) or not _is_of(sibling, owner.namespace, above):
            continue
        before = was["ReplicaSet"].get(name)
        if was["ReplicaSet"] and _wanted(sibling) > (_wanted(before) if before is not None else 0):
            yield f"a rollout of Deployment {key} is under way (ReplicaSet {name}): a pod of {owner} that is evicted may not be replaced"
            return


def _wanted(found: Any) -> int:
    return (found.spec.replicas or 0) if found.spec is not None else 0


def _is_of(found: Any, namespace: str, deployment: str) -> bool:
    owners = found.metadata.ownerReferences or ()
    return (found.metadata.namespace or "default") == namespace and any(
        each.controller and each.kind == "Deployment" and each.name == deployment for each in owners
    )


def _template(found: Any) -> Any:
    return other_objects.workload(found).get("template")
