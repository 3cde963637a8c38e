"""Current names and nodes of a document's pods. A moved pod is represented by its replacement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubestow.live.api.answers import Object
from kubestow.live.apply.steps import COMPLETION_INDEX, PodOrigin, RunStep
from kubestow.models.kube.closed_nodes import LET_IN


def key_of(pod: Object) -> str:
    """Return ``namespace/name``."""
    return f"{pod['metadata'].get('namespace') or 'default'}/{pod['metadata']['name']}"


def node_of(pod: Object) -> str | None:
    """Return the node of a pod; None if it is not bound."""
    return (pod.get("spec") or {}).get("nodeName") or None


def is_leaving(pod: Object) -> bool:
    """Return True if the pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_over(pod: Object) -> bool:
    """Return True if the pod has ended."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_let_in(pod: Object) -> bool:
    """Return True if a run has let the pod in to a node that was open for it alone."""
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    return any(each.get("key") == LET_IN and each.get("value") == pod["metadata"]["uid"] for each in tolerations)


@dataclass
class CurrentPod:
    """The current pod for one of the document.

    Attributes:
        key: Current namespace/name.
        uid: Uid of the pod.
        node: Node as far as the run knows; None without one.
    """

    key: str
    uid: str
    node: str | None


@dataclass
class PodLocations:
    """The current pods of a document.

    Attributes:
        of: Current pod by the document's name.
        known: Uids of pods that are no replacements: those of the snapshot, and later foreign ones.
        replacements: The document's name by uid of the replacement.
        gone: Uids of pods that the run evicted.
        placed: Node given by the run, by uid.
    """

    of: dict[str, CurrentPod] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    replacements: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    placed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def initial(cls, steps: Iterable[RunStep], uids: Iterable[str]) -> PodLocations:
        """Return the state before the first step. ``uids`` are those of all pods of the snapshot."""
        found = cls(known=set(uids))
        for step in steps:
            found.of.setdefault(step.pod, CurrentPod(step.pod, step.origin.uid, step.source))
        return found

    def evicted(self, step: RunStep) -> None:
        """Record that the pod of a step is gone."""
        standing = self.of[step.pod]
        self.gone.add(standing.uid)
        self.placed.pop(standing.uid, None)
        standing.node = None

    def take(self, step: RunStep, pod: Object) -> None:
        """Record the replacement of a step's pod."""
        uid = pod["metadata"]["uid"]
        self.replacements[uid] = step.pod
        self.of[step.pod] = CurrentPod(key_of(pod), uid, None)

    def drop(self, uid: str) -> None:
        """Record that a replacement was deleted."""
        self.replacements.pop(uid, None)
        self.placed.pop(uid, None)
        self.known.add(uid)

    def arrived(self, step: RunStep) -> None:
        """Record that the pod of a step is on its node."""
        standing = self.of[step.pod]
        if step.target is not None:
            standing.node = step.target
            self.placed[standing.uid] = step.target

    def free(self, uid: str) -> bool:
        """Return True if a pod may become a replacement."""
        return uid not in self.known and uid not in self.replacements


def is_like(pod: Object, origin: PodOrigin) -> bool:
    """Return True if a pod of the same controller may replace one of the snapshot. In an Indexed Job the index must match."""
    if origin.index is None:
        return True
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return bool((labels.get(COMPLETION_INDEX) or annotations.get(COMPLETION_INDEX)) == origin.index)
