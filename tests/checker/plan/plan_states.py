"""Every state that a wave can be in, one by one, judged by the checker of placements: what the checker of plans must agree with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import msgspec

from kubestow.checker.placement import Judge
from kubestow.checker.reading.affinity_terms import MemberReader
from kubestow.checker.rules.pod_topology_spread import state as spread
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_CORDON = "node.kubernetes.io/unschedulable"
Where = dict[str, str | None]  # by pod key: its node, None if it is absent


class Goes(NamedTuple):
    """A pod of a wave; None: it is pending, or goes for good."""

    pod: str
    source: str | None
    target: str | None


class States:
    """A snapshot, and what the plan has moved so far."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.pods = {objects.pod_key(pod): pod for pod in snapshot.pods if not objects.is_terminal(pod)}
        self.names = {node.metadata.name or "" for node in snapshot.nodes}
        self.now: Where = {key: pod.spec.nodeName for key, pod in self.pods.items()}
        self.moved: set[str] = set()
        self.broke = {key: self.broken(self.now, frozenset(), key) for key in self._subjects(self.now)}
        self.excess = self._excess(self.now)

    def _subjects(self, where: Where) -> list[str]:
        return [key for key, node in where.items() if node in self.names and not objects.is_terminating(self.pods[key])]

    def _at(self, where: Where, moved: frozenset[str] | set[str]) -> Snapshot:
        """The cluster in a state. What the plan moved has no status but that it runs."""
        pods = []
        for key, pod in self.pods.items():
            spec = msgspec.structs.replace(pod.spec, nodeName=where[key])
            status = objects.PodStatus(phase="Running") if key in moved else pod.status
            pods.append(msgspec.structs.replace(pod, spec=spec, status=status))
        return replace(self.snapshot, pods=pods)

    def _rejecting(self, where: Where, moved: frozenset[str] | set[str], key: str, node: str) -> set[str]:
        cluster = self._at({**where, key: None}, moved)
        pod = next(p for p in cluster.pods if objects.pod_key(p) == key)
        return {rule for rule, _ in Judge(cluster, [pod]).faults(pod, node)}

    def broken(self, where: Where, moved: frozenset[str] | set[str], key: str) -> set[str]:
        """The rules that a running pod breaks; a cordon breaks none."""
        nodes = []
        for node in self.snapshot.nodes:
            spec = node.spec or objects.NodeSpec()
            taints = [taint for taint in spec.taints or () if taint.key != _CORDON]
            nodes.append(msgspec.structs.replace(node, spec=objects.NodeSpec(taints=taints)))
        plain = self.snapshot
        self.snapshot = replace(plain, nodes=nodes)
        found = self._rejecting(where, moved, key, where[key] or "")
        self.snapshot = plain
        return found

    def _excess(self, where: Where) -> dict[str, list[int | None]]:
        """By running pod, how far each of its constraints is above maxSkew in its domain; None: its node lacks the key."""
        nodes = {node.metadata.name or "": node for node in self.snapshot.nodes}
        state, reader = spread.SpreadState(nodes, self.snapshot.gates), MemberReader()
        own = {key: state.read(pod) for key, pod in self.pods.items()}
        for key, pod in self.pods.items():
            if where[key] in nodes:
                state.add(pod, nodes[where[key] or ""], reader.profile(pod))
        found: dict[str, list[int | None]] = {}
        for key in self._subjects(where):
            labels = nodes[where[key] or ""].metadata.labels or {}
            found[key] = [
                c.tally.domains.get(domain, 0) - c.tally.minimum(c.min_domains) - c.max_skew
                if (domain := labels.get(c.tally.census.key)) is not None
                else None
                for c in own[key].constraints
            ]
        return found

    def worse(self, where: Where, moved: frozenset[str] | set[str]) -> Iterator[tuple[str, str]]:
        """Pods that are worse off than they may be, and the rule."""
        excess = self._excess(where)
        for key in self._subjects(where):
            may = set() if key in moved else self.broke[key]
            yield from ((key, rule) for rule in sorted(self.broken(where, moved, key) - may))
            if key not in moved:
                for now, then in zip(excess[key], self.excess[key], strict=True):
                    if now is not None and now > max(0, then or 0):
                        yield key, "PodTopologySpread"

    def unsafe(self, wave: Sequence[Sequence[Goes]]) -> Iterator[tuple[str, str]]:
        """Everything that can go wrong in a wave: pod and rule. Steps of more than one pod are gangs that bind as a unit."""
        phases = [[0, 2] if step[0].source is None or step[0].target is None else [0, 1, 2] for step in wave]
        for i, step in enumerate(wave):
            if step[0].target is not None:
                for chosen in product(*(phases[j] if j != i else [1] for j in range(len(wave)))):
                    yield from self._landing(step, *self._state(wave, chosen))
        for chosen in product((0, 2), repeat=len(wave)):
            yield from self.worse(*self._state(wave, chosen))

    def _landing(self, step: Sequence[Goes], where: Where, moved: set[str]) -> Iterator[tuple[str, str]]:
        if len(step) == 1:
            yield from ((step[0].pod, rule) for rule in self._rejecting(where, moved, step[0].pod, step[0].target or ""))
            return
        cluster = self._at(where, moved)
        pods: Mapping[str, objects.Pod] = {objects.pod_key(pod): pod for pod in cluster.pods}
        unit = [(pods[goes.pod], goes.target or "") for goes in step]
        for goes, faults in zip(step, Judge(cluster, [pod for pod, _ in unit]).bind(unit), strict=True):
            yield from ((goes.pod, rule) for rule, _ in faults)

    def _state(self, wave: Sequence[Sequence[Goes]], phases: Sequence[int]) -> tuple[Where, set[str]]:
        where, moved = dict(self.now), set(self.moved)
        for step, phase in zip(wave, phases, strict=True):
            for goes in step:
                where[goes.pod] = (goes.source, None, goes.target)[phase]
                if phase == 2:
                    moved.add(goes.pod)
        return where, moved

    def take(self, wave: Sequence[Sequence[Goes]]) -> None:
        """Carry the wave out."""
        self.now, self.moved = self._state(wave, [2] * len(wave))
