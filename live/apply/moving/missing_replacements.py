"""Controllers that create no replacement because they were scaled down, finished, suspended or deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from kubestow.live.api.answers import Object
from kubestow.live.apply.moving.work import StepContext
from kubestow.live.apply.pod_locations import is_leaving, is_over
from kubestow.live.apply.steps import PodOrigin, RunStep

#: Kinds whose controller keeps ``spec.replicas`` pods and gives no pod an identity.
_COUNTED: Final = ("ReplicaSet", "ReplicationController")
#: Conditions of a Job that creates no further pods.
_ENDED: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


class OwnerReader(Protocol):
    """Read access to controllers, implemented by :class:`kubestow.live.api.live_cluster.LiveCluster`."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    def pods_of(self, owner_uid: str) -> list[Object]: ...


def is_known(cluster: OwnerReader, origin: PodOrigin) -> bool:
    """Return True if the cluster has the controller of a pod, so that its deletion can be detected later."""
    return origin.owner is not None and origin.owner[2] in cluster.objects(origin.owner[0])


def why_none(cluster: OwnerReader, origin: PodOrigin, *, known: bool = False) -> str:
    """Return the reason why a pod's controller creates no replacement; empty if it does or if unknown.

    ``known``: True if the controller existed when the step began.
    """
    if origin.owner is None:
        return ""
    kind, name, uid = origin.owner
    found = cluster.objects(kind).get(uid)
    if found is None:
        return f"{kind} {name} is gone" if known else ""
    called = _called(cluster, found, f"{kind} {name}")
    if is_leaving(found):
        return f"{called} is being deleted"
    rule = _RULES.get(kind)
    said = rule(cluster, found, origin) if rule is not None else ""
    return f"{called} {said}" if said else ""


def gone_because(steps: Iterable[RunStep], work: StepContext) -> str:
    """Return the end of a sentence about controllers of deleted pods that create no pods any more."""
    gone = [step for step in steps if work.cluster.pod(work.where.of[step.pod].uid) is None]
    return "".join(f"; {why}" for why in dict.fromkeys(why_none(work.cluster, step.origin) for step in gone) if why)


def _called(cluster: OwnerReader, found: Object, name: str) -> str:
    """Return the name of a controller for messages, with the owner above it, which users scale."""
    above = next((each for each in found["metadata"].get("ownerReferences") or () if each.get("controller")), None)
    return name if above is None else f"{name} of {above.get('kind')} {above.get('name')}"


def _replicas(found: Object) -> int:
    stated = (found.get("spec") or {}).get("replicas")
    return stated if isinstance(stated, int) else 1


def _counted(cluster: OwnerReader, found: Object, origin: PodOrigin) -> str:
    """Return why a controller that counts its pods creates no replacement; empty if it may.

    Its status must agree, because it may briefly have more pods.
    """
    wanted = _replicas(found)
    if wanted == 0:
        return "was scaled to 0"
    living = sum(not is_leaving(pod) and not is_over(pod) for pod in cluster.pods_of(found["metadata"]["uid"]))
    status: Mapping[str, Any] = found.get("status") or {}
    current = status.get("observedGeneration") == found["metadata"].get("generation", -1)
    return f"already has {wanted} of {wanted} pods" if current and status.get("replicas") == wanted <= living else ""


def _numbered(cluster: OwnerReader, found: Object, origin: PodOrigin) -> str:
    """Return why a StatefulSet, which creates the pods of its ordinals, creates no replacement; empty if it may."""
    wanted = _replicas(found)
    ordinal = origin.key.rpartition("-")[2]
    first = ((found.get("spec") or {}).get("ordinals") or {}).get("start") or 0
    return f"was scaled to {wanted}" if ordinal.isdecimal() and not first <= int(ordinal) < first + wanted else ""


def _job(cluster: OwnerReader, found: Object, origin: PodOrigin) -> str:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    if any(each.get("type") in _ENDED and each.get("status") == "True" for each in status.get("conditions") or ()):
        return "has ended"
    if spec.get("suspend"):
        return "was suspended"
    return "was scaled to 0" if spec.get("parallelism") == 0 else ""


_RULES: Final[Mapping[str, Callable[[OwnerReader, Object, PodOrigin], str]]] = {
    **dict.fromkeys(_COUNTED, _counted),
    "StatefulSet": _numbered,
    "Job": _job,
}
