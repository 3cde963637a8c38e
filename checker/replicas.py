"""Pods that are replicas of each other: what can be told of one of them by itself holds for all.

Replicas are the same in all but who they are: name, uid, times, ids of containers. They are told by the very objects of their parts, which
the reader keeps once where they are equal, and where two of them stand side by side by whether they are equal; no field is left out that
anyone might read one day. Pods that are equal and are not found to be are sets of their own, which costs time and changes no verdict. What
depends on a pod's name, such as the claims that are made for it, or the gains of a pod that nothing made, has to be asked of each pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, TypeVar

from kubestow.checker.rules import matching, resources
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

T = TypeVar("T")

#: So many parts of a pod stand first and are texts, which may be equal without being the same object.
_TEXTS: Final = 3
_SPEC: Final = attrgetter(*(name for name in objects.PodSpec.__struct_fields__ if name != "volumes"))


class Replicas:
    """Numbers the sets of replicas as they come. ``first``: a pod of each set. Pods must stay as they are, and in memory."""

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
                if parts != last:  # replicas mostly stand together
                    last, ids = parts, (*parts[:_TEXTS], *map(id, parts[_TEXTS:]))
                    latest = self._numbers.setdefault(ids, len(self.first))
                    if latest == len(self.first):
                        self.first.append(pod)
                number = known[id(pod)] = latest
            found.append(number)
        return found


def _parts(pod: objects.Pod) -> tuple[object, ...]:
    """The parts of a pod: some by what they say, of which volumes are not shared, the others as objects."""
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
    """The pods of a snapshot by key. ``key_of``, ``set_of``: the key of each pod and the number of its set of replicas;
    ``at``: its place among them, by key; ``asked``: what they request."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.pods = snapshot.pods
        self.asked = resources.Shared(snapshot.gates)
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

    def each(self, tell: Callable[[objects.Pod], T]) -> dict[str, T]:
        """Return by key what can be told of every pod by itself, whatever its name."""
        told = [tell(pod) for pod in self.replicas.first]
        return dict(zip(self.key_of, map(told.__getitem__, self.set_of), strict=True))

    def among(self, places: Iterable[int], holds: Callable[[objects.Pod], bool]) -> set[str]:
        """Return the keys of those of some pods of which something holds, whatever their names."""
        told = [holds(pod) for pod in self.replicas.first]
        return {self.key_of[place] for place in places if told[self.set_of[place]]}

    def bound(self) -> Iterator[tuple[str, int, str]]:
        """Yield the pods that have a node: key, number of their set, node."""
        nodes = [pod.spec.nodeName or "" for pod in self.replicas.first]
        return ((key, number, nodes[number]) for key, number in zip(self.key_of, self.set_of, strict=True) if nodes[number])


class Whereabouts:
    """The pods of a snapshot and their nodes. ``placed``: the node of each pod that is placed, by key; ``on``: of each set of replicas the
    nodes of its placed pods, one for each, and of those that stay where they are, as far as there are such nodes. ``absent``: bound pods
    that do not stay."""

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
