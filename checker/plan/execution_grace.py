"""Rules that hold during execution, within their grace period: the checker's own reading from the raw objects of several snapshots.

A rule counts as broken only if every snapshot within the pod's grace period confirms it.

Source: docs/rules.md#requiredduringexecution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from kubestow.checker.reading import affinity_terms, matching
from kubestow.models.kube import objects
from kubestow.models.snapshot.capture_info import instant
from kubestow.models.snapshot.snapshot import Snapshot

_GRACE: Final = "kubestow.dev/execution-grace-seconds"
_MAX_GRACE_SECONDS: Final = 10**9


class BrokenRule(NamedTuple):
    """A broken rule of a pod.

    Attributes:
        pod: Key of the pod.
        part: Field of its affinity.
        place: Index of the anti-affinity term, else 0.
    """

    pod: str
    part: str
    place: int


def forgiven(snapshot: Snapshot, earlier: Sequence[Snapshot], seconds: int, exempt: Collection[str]) -> set[BrokenRule]:
    """Return the broken rules of a snapshot that are not broken in some snapshot within their grace period.

    Args:
        snapshot: The snapshot.
        earlier: Snapshots of the same cluster, each with a capture time.
        seconds: Grace period of pods that declare none.
        exempt: Namespaces that are exempt from required anti-affinity.
    """
    now = _time(snapshot)
    if now is None:
        return set()
    before = [(time, _RunningPods(each, exempt)) for each in earlier if (time := _time(each)) is not None and time <= now]
    found = set()
    here = _RunningPods(snapshot, exempt)
    for rule in here.broken:
        pod = here.pods[rule.pod]
        since = now - timedelta(seconds=_grace(pod, seconds))
        if any(time >= since and not (rule in then.broken and _same(pod, then.pods[rule.pod])) for time, then in before):
            found.add(rule)
    return found


def lifted(snapshot: Snapshot, rules: Collection[BrokenRule], parts: Collection[str]) -> Snapshot:
    """Return the snapshot without these rules, limited to some parts of affinity."""
    chosen: dict[str, list[BrokenRule]] = {}
    for rule in rules:
        if rule.part in parts:
            chosen.setdefault(rule.pod, []).append(rule)
    pods = [_lifted(pod, chosen[key]) if (key := objects.pod_key(pod)) in chosen else pod for pod in snapshot.pods]
    return replace(snapshot, pods=pods)


def _lifted(pod: objects.Pod, rules: Sequence[BrokenRule]) -> objects.Pod:
    wanted = _own(pod)
    for rule in rules:
        part = getattr(wanted, rule.part)
        kept_terms = None
        if rule.part == "podAntiAffinity":
            gone = {each.place for each in rules if each.part == rule.part}
            terms = _own(pod).podAntiAffinity
            kept_terms = [term for place, term in enumerate(_during(terms)) if place not in gone] or None
        part = msgspec.structs.replace(part, requiredDuringSchedulingRequiredDuringExecution=kept_terms)
        wanted = msgspec.structs.replace(wanted, **{rule.part: part})
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=wanted))


def _own(pod: objects.Pod) -> objects.Affinity:
    return pod.spec.affinity or objects.Affinity()


def _time(snapshot: Snapshot) -> datetime | None:
    return instant(snapshot.capture.time) if snapshot.capture is not None else None


def _grace(pod: objects.Pod, seconds: int) -> int:
    """Return the grace period of a pod in seconds."""
    said = (pod.metadata.annotations or {}).get(_GRACE, "")
    return int(said) if said.isascii() and said.isdigit() and len(said) <= 10 and int(said) <= _MAX_GRACE_SECONDS else seconds


def _same(one: objects.Pod, other: objects.Pod) -> bool:
    """Return True if both are the same pod and not a replacement of the same name."""
    uids = {one.metadata.uid, other.metadata.uid} - {None}
    return len(uids) < 2 and one.spec.nodeName == other.spec.nodeName


def _during(part: objects.PodAffinity | None) -> list[objects.PodAffinityTerm]:
    """Return the terms that hold during execution."""
    return list(part.requiredDuringSchedulingRequiredDuringExecution or ()) if part is not None else []


class _RunningPods:
    """The running pods of a snapshot, and their broken rules."""

    def __init__(self, snapshot: Snapshot, exempt: Collection[str]) -> None:
        self.labels = {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}
        self.spaces = {name: space.metadata.labels or {} for name, space in snapshot.namespaces.items()}
        running = (pod for pod in snapshot.pods if pod.spec.nodeName in self.labels and not objects.is_terminal(pod))
        self.pods = {objects.pod_key(pod): pod for pod in running}
        self.exempt = frozenset(exempt)
        self.broken = {rule for key, pod in self.pods.items() if not objects.is_terminating(pod) for rule in self._breaks(key, pod)}

    def _breaks(self, key: str, pod: objects.Pod) -> Iterator[BrokenRule]:
        wanted = _own(pod)
        node = pod.spec.nodeName or ""
        if wanted.nodeAffinity is not None:
            selector = wanted.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution
            if not matching.node_selector_holds(selector, self.labels[node], node):
                yield BrokenRule(key, "nodeAffinity", 0)
        if terms := _during(wanted.podAffinity):
            plain = (wanted.podAffinity.requiredDuringSchedulingIgnoredDuringExecution or ()) if wanted.podAffinity is not None else ()
            if self._misses(key, pod, terms) and (not plain or self._misses(key, pod, [*plain, *terms])):
                yield BrokenRule(key, "podAffinity", 0)
        for place, term in enumerate(_during(wanted.podAntiAffinity)):
            if any(self._apart(key, pod, other, name, term) for name, other in self.pods.items()):
                yield BrokenRule(key, "podAntiAffinity", place)

    def _apart(self, key: str, pod: objects.Pod, other: objects.Pod, name: str, term: objects.PodAffinityTerm) -> bool:
        """Return True if another pod is where an anti-affinity term excludes it."""
        if name == key or objects.is_terminating(other):
            return False
        if {pod.metadata.namespace or "default", other.metadata.namespace or "default"} & self.exempt:
            return False
        return any(self._selects(read, other) and self._together(read.key, pod, other) for read in self._read(pod, [term]))

    def _misses(self, key: str, pod: objects.Pod, terms: Sequence[objects.PodAffinityTerm]) -> bool:
        """Return True if no pod that all terms select is nearby, as the scheduler's filter evaluates it."""
        read = self._read(pod, terms)
        here = self.labels[pod.spec.nodeName or ""]
        keys = {term.key for term in read}
        full = [
            name
            for name, other in self.pods.items()
            if keys & self.labels[other.spec.nodeName or ""].keys() and all(self._selects(term, other) for term in read)
        ]
        if full == [key]:
            return not keys <= here.keys()
        others = [self.pods[name] for name in full if name != key]
        return not all(any(self._together(term.key, pod, other) for other in others) for term in read)

    def _read(self, pod: objects.Pod, terms: Sequence[objects.PodAffinityTerm]) -> tuple[affinity_terms.AffinityTerm, ...]:
        stand_in = objects.Affinity(podAffinity=objects.PodAffinity(requiredDuringSchedulingRequiredDuringExecution=list(terms)))
        return affinity_terms.read_terms(objects.Pod(pod.metadata, objects.PodSpec(affinity=stand_in))).affinity

    def _selects(self, term: affinity_terms.AffinityTerm, other: objects.Pod) -> bool:
        space = other.metadata.namespace or "default"
        return term.match.holds(space, other.metadata.labels or {}, self.spaces.get(space, {}))

    def _together(self, key: str, one: objects.Pod, other: objects.Pod) -> bool:
        mine: Mapping[str, str] = self.labels[one.spec.nodeName or ""]
        return key in mine and mine[key] == self.labels[other.spec.nodeName or ""].get(key)
