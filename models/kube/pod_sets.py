"""Pod sets: the equal pods of one role of a custom workload, such as the workers of a JobSet.

:mod:`kubestow.models.custom_workloads` makes them from objects of kinds that Kubernetes itself lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubestow.models.kube.objects import ObjectMeta, OwnerReference, Struct
from kubestow.models.kube.workload_objects import PodTemplateSpec

#: Placeholders whose values differ from pod to pod.
_PER_POD: Final = ("{replica}", "{index}", "{number}")


class PodSetMember(Struct):
    """One pod of a pod set.

    Attributes:
        name: Full name; a prefix that five characters follow if it ends in ``-``.
        labels: Labels in addition to the template's.
        owner: The object that controls the pod.
        gang: Name of its gang; empty if it has none.
    """

    name: str
    labels: dict[str, str]
    owner: OwnerReference | None
    gang: str


class PodSetSpec(Struct):
    """The pods of a pod set, and the place of their template.

    Pod n is pod ``first + n % size`` of replica ``n // size``. The patterns below may contain ``{replica}``, ``{index}``
    and ``{number}`` (n), which differ from pod to pod, and ``{hash}``, the hash of the template.

    Attributes:
        replicas: Number of pods.
        size: Pods per replica.
        first: Index of the first pod of a replica.
        template: The pod template.
        path: Field of the object that holds the template.
        role: Name of the role; empty if the object has only one.
        kind: Kind of the object in its API.
        object: Name of the object.
        pod: Pattern of the pods' names.
        labels: Patterns of labels in addition to the template's.
        owner: Controller of the pods, its name a pattern.
        gang: Pattern of the gang's name; empty: no gang.
        minimum: Pods of the gang without which none is placed; None: all.
        suspended: True if the controller makes no pods for now.
    """

    replicas: int = 1
    size: int = 1
    first: int = 0
    template: PodTemplateSpec | None = None
    path: str = "spec.template"
    role: str = ""
    kind: str = ""
    object: str = ""
    pod: str = ""
    labels: dict[str, str] | None = None
    owner: OwnerReference | None = None
    gang: str = ""
    minimum: int | None = None
    suspended: bool = False
    selector: None = None

    @property
    def varying(self) -> list[str]:
        """The labels whose values differ from pod to pod."""
        return [key for key, value in (self.labels or {}).items() if any(part in value for part in _PER_POD)]

    def member(self, number: int, revision: str = "") -> PodSetMember:
        """Return the pod of a number. ``revision``: hash of the template, for ``{hash}``."""
        parts = {
            "hash": revision,
            "number": str(number),
            "replica": str(number // self.size),
            "index": str(self.first + number % self.size),
        }
        labels = {key: _filled(value, parts) for key, value in (self.labels or {}).items()}
        owner = self.owner
        if owner is not None:
            owner = OwnerReference(owner.kind, _filled(owner.name, parts), owner.apiVersion, owner.uid, True)
        return PodSetMember(_filled(self.pod, parts), labels, owner, _filled(self.gang, parts))


class PodSet(Struct):
    """The pods of one role of an object. The name of the set is the object's, with the role if it has several."""

    metadata: ObjectMeta
    kind: str = ""
    spec: PodSetSpec | None = None
    status: None = None


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    if "{" not in pattern:
        return pattern
    for key, value in parts.items():
        pattern = pattern.replace(f"{{{key}}}", value)
    return pattern
