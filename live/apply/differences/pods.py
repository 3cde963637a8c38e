"""Differences of pods by uid: deleted, recreated, moved, changed or new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final

import msgspec

from kubestow.live.apply.differences import fields
from kubestow.live.apply.differences.found import DoneChanges, Drift
from kubestow.live.redact import kept_annotations
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.feature_gates import DEFAULT
from kubestow.models.kube.pod_requests import pod_request

Pods = dict[str, objects.Pod]
#: Fields of a spec that redaction removes at least in part, or that older captures lack. The rest is compared directly.
_REDACTED: Final = frozenset({"containers", "initContainers", "volumes", "serviceAccountName", "nodeName", "securityContext"})
_plain: Final = attrgetter(*(name for name in objects.PodSpec.__struct_fields__ if name not in _REDACTED))


def drifts(before: Pods, now: Pods, done: DoneChanges) -> Iterator[Drift]:
    """Yield the differences between the pods of two snapshots that the run did not make.

    Finished pods use no resources, so their appearance or deletion does not count.
    """
    own = {each.uid for each in done.pods.values()}
    same, credit = _Same(), Counter[str]()
    replaced = {key for key, each in done.pods.items() if each.uid}
    for key, pod in before.items():
        uid, there = pod.metadata.uid, now.get(key)
        if uid and uid in done.gone:
            if key not in replaced:
                credit[_maker(pod)] += 1
        elif there is None or _is_other(pod, there):
            if not objects.is_terminal(pod):
                yield _lost(key, pod, there)
        elif there.metadata.uid not in own and not same.all(pod, there):
            yield from changes(key, pod, there)
    for key, pod in now.items():
        known = before.get(key)
        if pod.metadata.uid in own or objects.is_terminal(pod) or (pod.metadata.uid and pod.metadata.uid in done.gone):
            continue
        if known is None or (known.metadata.uid and known.metadata.uid in done.gone):
            if credit[_maker(pod)] > 0 and not pod.spec.nodeName:
                credit[_maker(pod)] -= 1  # the successor of a pod that the run evicted for good
            else:
                yield _new(key, pod)
    yield from _own(now, done)


def _maker(pod: objects.Pod) -> str:
    """Return the owner that recreates this pod: its controller, or the pod's own name for a bare pod."""
    owner = objects.controller_of(pod)
    return objects.pod_key(pod) if owner is None else owner.uid or owner.name


def _is_other(pod: objects.Pod, there: objects.Pod) -> bool:
    """Return True if two pods with the same name have different uids; without uids they count as the same."""
    return bool(pod.metadata.uid and there.metadata.uid and pod.metadata.uid != there.metadata.uid)


def _lost(key: str, pod: objects.Pod, there: objects.Pod | None) -> Drift:
    was = f"it was {_at(pod)}"
    if there is None:
        return Drift("Pod", key, "gone", f"Pod {key} is gone ({was})", pod.spec.nodeName or "")
    message = f"Pod {key} was deleted and made again: it is another pod by uid, {_at(there)} ({was})"
    return Drift("Pod", key, "recreated", message, there.spec.nodeName or "", _value(there))


def _new(key: str, pod: objects.Pod) -> Drift:
    what = "terminating" if objects.is_terminating(pod) else "new"
    if pod.spec.nodeName:
        return Drift("Pod", key, f"{what} on a node", f"Pod {key} is new {_at(pod)}", pod.spec.nodeName, _value(pod))
    waits = "waits behind scheduling gates" if pod.spec.schedulingGates else "waits for a node"
    return Drift("Pod", key, "new and waiting", f"Pod {key} is new and {waits}", "", _value(pod))


def _own(now: Pods, done: DoneChanges) -> Iterator[Drift]:
    """Yield the differences of pods that the run placed from the state in which it left them."""
    for key, each in sorted(done.pods.items()):
        pod = now.get(each.name)
        if not each.uid:
            continue
        name = each.name if each.name == key else f"{each.name}, which replaces {key},"
        if pod is None or pod.metadata.uid != each.uid:
            was = f"this run put it {_on(each.node)}" if each.node else "it had no node yet"
            yield Drift("Pod", each.name, "gone", f"Pod {name} is gone ({was})", each.node or "")
        elif objects.is_terminating(pod):
            yield Drift("Pod", each.name, "terminating", f"Pod {name} is being deleted", each.node or "")
        elif objects.is_terminal(pod):
            yield Drift("Pod", each.name, "ended", f"Pod {name} has ended", each.node or "")
        elif pod.spec.nodeName != each.node and each.node is not None:
            message = f"Pod {name} is {_at(pod)}, this run put it {_on(each.node)}"
            yield Drift("Pod", each.name, "moved", message, pod.spec.nodeName or "")


def _at(pod: objects.Pod) -> str:
    return _on(pod.spec.nodeName)


def _on(node: str | None) -> str:
    return f"on node {node}" if node else "without a node"


def _value(pod: objects.Pod) -> str:
    return f"{pod.metadata.uid} {_request(pod)} {view(pod)}"


# --- the same pod, by uid -----------------------------------------------------------------------------------------------


class _Same:
    """Equality of pods. Equal parts of pods share memory within a snapshot, so each pair of parts is compared once."""

    def __init__(self) -> None:
        self._notes: dict[tuple[int, int], bool] = {}
        self._held: dict[tuple[int, int], bool] = {}
        self._containers: dict[tuple[int, int], bool] = {}

    def all(self, one: objects.Pod, other: objects.Pod) -> bool:
        a, b = one.metadata, other.metadata
        if (a.deletionTimestamp is None) != (b.deletionTimestamp is None) or one.spec.nodeName != other.spec.nodeName:
            return False
        if a.labels != b.labels or a.ownerReferences != b.ownerReferences:
            return False
        noted = _remembered(self._notes, a.annotations, b.annotations, lambda x, y: kept_annotations(x) == kept_annotations(y))
        return noted and self._status(one, other) and self._spec(one.spec, other.spec)

    def _status(self, one: objects.Pod, other: objects.Pod) -> bool:
        """Compare whether the pods have ended, and their resources. The rest of a status changes all the time."""
        if objects.is_terminal(one) != objects.is_terminal(other):
            return False
        same_allocation = _remembered(self._held, one.status, other.status, lambda x, y: _resources(x) == _resources(y))
        return same_allocation or _request(one) == _request(other)

    def _spec(self, one: objects.PodSpec, other: objects.PodSpec) -> bool:
        if _plain(one) != _plain(other):
            return False
        for a, b in ((one.containers, other.containers), (one.initContainers, other.initContainers)):
            if not _remembered(self._containers, a, b, lambda x, y: _without_images(x) == _without_images(y)):
                return False
        return one.volumes == other.volumes or fields.pod_spec(one).get("volumes") == fields.pod_spec(other).get("volumes")


def _remembered(known: dict[tuple[int, int], bool], one: Any, other: Any, alike: Callable[[Any, Any], bool]) -> bool:
    """Return True if two parts, which the snapshots keep in memory, are equal or alike."""
    if one is other:
        return True
    key = id(one), id(other)
    found = known.get(key)
    if found is None:
        found = known[key] = one == other or alike(one, other)
    return found


def _without_images(containers: list[objects.Container] | None) -> list[objects.Container]:
    return [msgspec.structs.replace(container, image=None) for container in containers or ()]


def _resources(status: objects.PodStatus | None) -> Any:
    """Return the resources of a pod in its status."""
    if status is None:
        return []
    listed = (*(status.containerStatuses or ()), *(status.initContainerStatuses or ()))
    resize = [(c.type, c.reason) for c in status.conditions or () if c.type == "PodResizePending"]
    allocations = [(each.name, each.allocatedResources, each.resources) for each in listed if each.allocatedResources or each.resources]
    return [allocations, resize] if allocations or resize else []


def _request(pod: objects.Pod) -> dict[str, int]:
    """Return the pod's current request; empty if it is unreadable, which the replay reports."""
    try:
        return pod_request(pod, DEFAULT)
    except quantity.QuantityError:
        return {}


def view(pod: objects.Pod) -> dict[str, Any]:
    """Return the properties of a pod that placement reads, without node and state, which are reported separately."""
    found = fields.metadata(pod.metadata) | {"spec": fields.pod_spec(pod.spec), "requests": _request(pod)}
    return {name: value for name, value in found.items() if name != "terminating"}


def changes(key: str, one: objects.Pod, other: objects.Pod) -> Iterator[Drift]:
    """Yield the changes of a pod from ``one`` to ``other``."""
    node = other.spec.nodeName or ""
    if objects.is_terminating(other) and not objects.is_terminating(one):
        yield Drift("Pod", key, "terminating", f"Pod {key} is being deleted (it is {_at(other)})", node)
    if objects.is_terminal(other) and not objects.is_terminal(one):
        yield Drift("Pod", key, "ended", f"Pod {key} has ended (it is {_at(other)})", node)
    if one.spec.nodeName != other.spec.nodeName:
        yield Drift("Pod", key, "moved", f"Pod {key} is {_at(other)}, it was {_at(one)}", node)
    if objects.is_terminal(one) or objects.is_terminal(other):
        return
    for each in fields.changed(view(one), view(other)):
        what = each.path[1] if each.path[0] == "spec" else each.path[0]
        yield Drift("Pod", key, what, f"Pod {key}: {fields.clause(each)}", node, repr(each.new))
