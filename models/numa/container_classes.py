"""Container classes of a snapshot's pods: their hints, matched against all containers and merged."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kubestow.models.documents.policy import Policy
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Container, ObjectMeta, Pod, is_waiting, pod_key
from kubestow.models.numa import alignment
from kubestow.models.numa.annotations import TAGS, has_hints
from kubestow.models.numa.container_affinity import COLOCATION_POINTS, AffinityEntry, AnnotationError, Hints, parse, views
from kubestow.models.numa.container_expressions import ContainerView, Expression
from kubestow.models.numa.containers import INIT, WHOLE, ContainerClass, FixedContainers, Ints, NoContainers, ZoneAsk, request, running
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot

#: Number of pods that one sentence names.
_MAX_NAMED_PODS = 5
_ALWAYS = Expression("", "AlwaysTrue", ())


def warnings(snapshot: Snapshot, policy: Policy) -> list[str]:
    """Return the warnings about container hints, except for waiting pods with unreadable hints (:func:`omissions`)."""
    found: list[str] = []
    _hints(snapshot, [i for i, pod in enumerate(snapshot.pods) if not is_waiting(pod) or _unreadable(pod) is None], policy, found)
    return list(dict.fromkeys(found))


def omissions(snapshot: Snapshot, policy: Policy) -> list[str]:
    """Return the waiting pods judged without their unreadable hints or tags, one sentence per reason."""
    found: dict[str, list[str]] = {}
    for pod in snapshot.pods if policy.multipliers.containerAffinity else ():
        why = _unreadable(pod) if is_waiting(pod) else None
        if why is not None:
            name = f"Pod {pod_key(pod)}"
            found.setdefault(why.removeprefix(f"{name}: "), []).append(name)
    return [f"{some(names, _MAX_NAMED_PODS)}: {why}; judged without it" for why, names in found.items()]


def _unreadable(pod: Pod) -> str | None:
    """Return the reason why the hints or tags of a pod cannot be read."""
    try:
        if has_hints(pod):
            parse(pod)
        if any(key.startswith(TAGS) for key in pod.metadata.annotations or ()):
            views(pod)
    except AnnotationError as error:
        return str(error)
    return None


def _hints(snapshot: Snapshot, indices: Iterable[int], policy: Policy, warned: list[str]) -> dict[int, Hints]:
    found: dict[int, Hints] = {}
    if not policy.multipliers.containerAffinity:
        return found
    for i in indices:
        pod = snapshot.pods[i]
        if has_hints(pod):
            try:
                found[i] = parse(pod, symmetric=policy.shorthand == "symmetric")
                warned.extend(found[i].warnings)
            except AnnotationError as error:  # a tenant's mistake only disables the pod's own hints
                warned.append(f"{error}; its hints are ignored")
    return found


class ContainerTable(NoContainers):
    """The container class of each pod in scope; None for pods without hints and zone requests.

    Unreadable annotations count as absent.

    Args:
        rejecting: True if the Topology Manager policy of some node rejects pods.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope, policy: Policy, *, rejecting: bool) -> None:
        self._classes: list[ContainerClass] = []
        self._ids: dict[ContainerClass, int] = {}
        self._of: dict[int, int] = {}
        self._predicates: dict[tuple[Expression, Expression], int] = {}
        self._policy = policy
        colocate = bool(policy.multipliers.containerAffinity) and (policy.colocatePods or policy.colocateNamespaces)
        hints = _hints(snapshot, (*scope.fixed, *scope.pending), policy, [])
        if not hints and not colocate and not rejecting:
            return
        pods = [*scope.fixed, *scope.pending]
        hinted = bool(hints) or colocate
        seen = {i: self._views(snapshot.pods[i]) if hinted else [] for i in pods}
        entries = {i: self._entries(hints.get(i), seen[i]) for i in pods} if hinted else {}
        for per_container in entries.values():
            for entry in (e for own in per_container for e in own if e.scope is not None):
                self._predicates.setdefault((entry.scope or _ALWAYS, entry.match), len(self._predicates))
        fixed = set(scope.fixed)
        for i in pods:
            asks = rejecting and i not in fixed
            cls = self._class(snapshot.pods[i], seen[i], entries.get(i, []), asks=asks)
            if cls is not None:
                self._of[i] = self._ids.setdefault(cls, len(self._ids))
                if self._of[i] == len(self._classes):
                    self._classes.append(cls)

    @staticmethod
    def _views(pod: Pod) -> list[ContainerView]:
        try:
            return views(pod)
        except AnnotationError:
            metadata = ObjectMeta(pod.metadata.name, pod.metadata.namespace, pod.metadata.labels, uid=pod.metadata.uid)
            return views(Pod(metadata, pod.spec, pod.status, pod.containerIds))  # unreadable tags count as absent

    def key(self, index: int) -> int:
        """Return an id that distinguishes pods of different container classes; -1: no class."""
        return self._of.get(index, -1)

    def of(self, index: int) -> ContainerClass | None:
        class_ids = self._of.get(index)
        return None if class_ids is None else self._classes[class_ids]

    def _entries(self, hints: Hints | None, seen: list[ContainerView]) -> list[list[AffinityEntry]]:
        """Return the entries of each container, including those of the policy's switches."""
        policy = self._policy
        found = []
        for view in seen:
            own = [e for e in hints.entries if e.container == view.container] if hints is not None else []
            explicit = bool(own)
            if policy.colocatePods and not explicit:
                own.append(AffinityEntry(view.container, None, _ALWAYS, COLOCATION_POINTS))
            if policy.colocateNamespaces and not explicit:
                own.append(AffinityEntry(view.container, Expression("namespace", "Equals", (view.namespace,)), _ALWAYS, COLOCATION_POINTS))
            found.append(own)
        return found

    def _class(self, pod: Pod, seen: list[ContainerView], entries: list[list[AffinityEntry]], *, asks: bool) -> ContainerClass | None:
        containers = running(pod)
        inner: dict[tuple[int, int], int] = {}
        scoped: list[dict[int, int]] = [{} for _ in containers]
        for i, own in enumerate(entries):
            for entry in own:
                if entry.scope is not None:
                    predicate = self._predicates[entry.scope, entry.match]
                    scoped[i][predicate] = scoped[i].get(predicate, 0) + entry.weight
                    continue
                for j, other in enumerate(seen):
                    if i != j and entry.match.holds(other):
                        inner[i, j] = inner.get((i, j), 0) + entry.weight
        hits: list[tuple[int, ...]] = [() for _ in containers]
        if self._predicates:
            hits = [tuple(k for (s, m), k in self._predicates.items() if s.holds(view) and m.holds(view)) for view in seen]
        per_container, per_pod = _asks(pod, containers) if asks else ((), ())
        pairs = tuple((i, j, w) for (i, j), w in sorted(inner.items()) if w)
        if not pairs and not any(scoped) and not any(hits) and not per_container and not per_pod:
            return None
        return ContainerClass(
            requests=tuple(request(c) for c in containers),
            entries=tuple(tuple(sorted((p, w) for p, w in own.items() if w)) for own in scoped),
            hits=tuple(hits),
            inner=pairs,
            per_container=per_container,
            per_pod=per_pod,
        )

    def fixed(self, placed: Iterable[tuple[ContainerClass | None, Ints]], size: int) -> FixedContainers:
        """Return, per predicate, sums over the containers of fixed pods on each node.

        Args:
            placed: Container class of the pods and node index of each pod, int64. None: no class; such pods are skipped.
            size: Number of nodes.
        """
        containers = FixedContainers()
        for cls, nodes in placed:
            if cls is None:
                continue
            per_node = np.bincount(nodes, minlength=size).astype(np.int64)
            for predicates in cls.hits:
                for predicate in predicates:
                    containers.satisfying[predicate] = containers.satisfying.get(predicate, 0) + per_node
            for own in cls.entries:
                for predicate, weight in own:
                    containers.owning[predicate] = containers.owning.get(predicate, 0) + weight * per_node
        return containers


def _asks(pod: Pod, containers: list[Container]) -> tuple[tuple[ZoneAsk, ...], tuple[ZoneAsk, ...]]:
    index = {c.name: i for i, c in enumerate(containers)}
    per_container = tuple(
        ZoneAsk(INIT if ask.kind == "init" else index[ask.name], ask.amounts) for ask in alignment.asks(pod, "container") if ask.amounts
    )
    per_pod = tuple(ZoneAsk(WHOLE, ask.amounts) for ask in alignment.asks(pod, "pod") if ask.amounts)
    return per_container, per_pod
