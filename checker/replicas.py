"""Pods that are replicas of each other. Properties of one pod, considered alone, hold for all.

Replicas are equal except for name, uid, times and container ids. They are recognised by the identity of their
parts, which the reader shares if they are equal. Adjacent pods are also compared by value. No field is left out, so
that any field may be read later. Equal pods that are not recognised form separate sets, which costs time but
changes no verdict. Properties that depend on a pod's name must be computed per pod, for example claims created for
it, or gains of a bare pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, TypeVar

from kubestow.checker.reading import matching, resources
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

T = TypeVar("T")

#: Number of leading parts of a pod that are texts. Texts may be equal without being the same object.
_TEXT_PARTS: Final = 3
_SPEC: Final = attrgetter(*(name for name in objects.PodSpec.__struct_fields__ if name != "volumes"))


class Replicas:
    """Numbers of sets of replicas, in order of appearance. Pods must not change and must stay in memory.

    Attributes:
        first: The first pod of each set.
    """

    def __init__(self) -> None:
        self.first: list[objects.Pod] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known: dict[int, int] = {}  # by id of the pod

    def numbers(self, pods: Iterable[objects.Pod]) -> list[int]:
        """Return the number of each pod's set."""
        known, found = self._known, []
        last: tuple[object, ...] = ()
        for pod in pods:
            number = known.get(id(pod))
            if number is None:
                parts = _parts(pod)
                if parts != last:  # replicas are mostly adjacent
                    last, ids = parts, (*parts[:_TEXT_PARTS], *map(id, parts[_TEXT_PARTS:]))
                    latest = self._numbers.setdefault(ids, len(self.first))
                    if latest == len(self.first):
                        self.first.append(pod)
                number = known[id(pod)] = latest
            found.append(number)
        return found


def _parts(pod: objects.Pod) -> tuple[object, ...]:
    """Return the parts of a pod. Texts and unshared volumes are compared by value, other parts by identity."""
    metadata, spec = pod.metadata, pod.spec
    return (
        metadata.namespace,
        metadata.deletionTimestamp,
        matching.text(spec.volumes) if spec.volumes else None,
        metadata.labels,
        metadata.annotations,
        metadata.ownerReferences,
        pod.status,
        *_SPEC(spec),
    )


class Crowd(Mapping[str, objects.Pod]):
    """The pods of a snapshot by key.

    Attributes:
        key_of: Key of each pod.
        set_of: Number of each pod's set of replicas.
        at: Index of each pod, by key.
        shared_requests: Requests of pods.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.pods = snapshot.pods
        self.shared_requests = resources.SharedRequests(snapshot.gates)
        self.replicas = Replicas()
        self.set_of = self.replicas.numbers(self.pods)
        self.key_of = list(map(objects.pod_key, self.pods))
        self.at = dict(zip(self.key_of, range(len(self.key_of)), strict=True))

    def __getitem__(self, key: str) -> objects.Pod:
        return self.pods[self.at[key]]

    def __contains__(self, key: object) -> bool:
        return key in self.at

    def __iter__(self) -> Iterator[str]:
        return iter(self.at)

    def __len__(self) -> int:
        return len(self.at)

    def each(self, compute: Callable[[objects.Pod], T]) -> dict[str, T]:
        """Compute a property per set of replicas and return it by pod key. The property must not depend on names."""
        values = [compute(pod) for pod in self.replicas.first]
        return dict(zip(self.key_of, map(values.__getitem__, self.set_of), strict=True))

    def among(self, places: Iterable[int], holds: Callable[[objects.Pod], bool]) -> set[str]:
        """Return the keys of pods for which a condition holds. The condition must not depend on names."""
        values = [holds(pod) for pod in self.replicas.first]
        return {self.key_of[place] for place in places if values[self.set_of[place]]}

    def bound(self) -> Iterator[tuple[str, int, str]]:
        """Yield the pods that have a node, as key, number of their set, and node."""
        nodes = [pod.spec.nodeName or "" for pod in self.replicas.first]
        return ((key, number, nodes[number]) for key, number in zip(self.key_of, self.set_of, strict=True) if nodes[number])


class Whereabouts:
    """The pods of a snapshot and their nodes.

    Attributes:
        crowd: The pods.
        placed: Node of each placed pod, by key.
        absent: Keys of bound pods that do not stay.
        on: For each set of replicas one of its pods, and two lists: nodes of placed pods, and nodes of pods that
            stay. Unknown nodes are omitted.
    """

    def __init__(self, crowd: Crowd, placed: Mapping[str, str], absent: Collection[str], nodes: Container[str]) -> None:
        self.crowd, self.placed, self.absent = crowd, placed, frozenset(absent)
        on = [(list[str](), list[str]()) for _ in crowd.replicas.first]
        for key, node in placed.items():
            if node in nodes and key in crowd.at:
                on[crowd.set_of[crowd.at[key]]][0].append(node)
        for key, number, node in crowd.bound():
            if node in nodes and key not in placed and key not in self.absent:
                on[number][1].append(node)
        self.on = list(zip(crowd.replicas.first, on, strict=True))
