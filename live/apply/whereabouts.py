"""Where the pods of a document are by now, and what they are called: a pod that was moved goes by its replacement's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubestow.live.api.answers import Object
from kubestow.live.apply.steps import COMPLETION_INDEX, Origin, Step
from kubestow.models.kube.closed_nodes import LET_IN


def key_of(pod: Object) -> str:
    """Return ``namespace/name``."""
    return f"{pod['metadata'].get('namespace') or 'default'}/{pod['metadata']['name']}"


def node_of(pod: Object) -> str | None:
    """Return the node that a pod is bound to."""
    return (pod.get("spec") or {}).get("nodeName") or None


def is_leaving(pod: Object) -> bool:
    """Return whether a pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_over(pod: Object) -> bool:
    """Return whether a pod has ended."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_let_in(pod: Object) -> bool:
    """Return whether a run has had the scheduler choose the one node that was open for this pod alone."""
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    return any(each.get("key") == LET_IN and each.get("value") == pod["metadata"]["uid"] for each in tolerations)


@dataclass
class Standing:
    """The pod that stands for one of the document: ``key`` is its name now; ``node``: where it is as far as the run knows."""

    key: str
    uid: str
    node: str | None


@dataclass
class Whereabouts:
    """``of``: by the document's name; ``known``: uids that replace nothing (pods of the snapshot, and later ones that are not ours);
    ``taken``: uids of replacements; ``gone``: uids of pods that the run evicted; ``placed``: by uid, the nodes that the run gave."""

    of: dict[str, Standing] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    taken: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    placed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at_first(cls, steps: Iterable[Step], uids: Iterable[str]) -> Whereabouts:
        """Return where all is before anything is done; ``uids``: of all pods of the snapshot."""
        found = cls(known=set(uids))
        for step in steps:
            found.of.setdefault(step.pod, Standing(step.pod, step.origin.uid, step.source))
        return found

    def evicted(self, step: Step) -> None:
        """Note that the pod of a step is gone."""
        standing = self.of[step.pod]
        self.gone.add(standing.uid)
        self.placed.pop(standing.uid, None)
        standing.node = None

    def take(self, step: Step, pod: Object) -> None:
        """Note which pod stands in for that of a step."""
        uid = pod["metadata"]["uid"]
        self.taken[uid] = step.pod
        self.of[step.pod] = Standing(key_of(pod), uid, None)

    def drop(self, uid: str) -> None:
        """Note that a replacement went away again."""
        self.taken.pop(uid, None)
        self.placed.pop(uid, None)
        self.known.add(uid)

    def arrived(self, step: Step) -> None:
        """Note that the pod of a step is on its node."""
        standing = self.of[step.pod]
        if step.target is not None:
            standing.node = step.target
            self.placed[standing.uid] = step.target

    def free(self, uid: str) -> bool:
        """Return whether a pod may stand in for another one."""
        return uid not in self.known and uid not in self.taken


def is_like(pod: Object, origin: Origin) -> bool:
    """Return whether a pod of the same controller may stand in for one of the snapshot: of an Indexed Job it has the same index."""
    if origin.index is None:
        return True
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return bool((labels.get(COMPLETION_INDEX) or annotations.get(COMPLETION_INDEX)) == origin.index)
