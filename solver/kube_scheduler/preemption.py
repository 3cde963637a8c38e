"""Preemption: the node and the pods of lower priority that would make room for a pod.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/framework/preemption/preemption.go (Preempt,
pickOneNodeForPreemption) and plugins/defaultpreemption/default_preemption.go (SelectVictimsOnNode, filterPodsWithPDBViolation).
The start time of a pod is read as its creation time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget
from kubestow.models.kube.selectors import Bools
from kubestow.solver.kube_scheduler.cluster_state import ClusterState, message, priority_of
from kubestow.solver.rules.facts import Refusal

#: Added to each priority before priorities are summed, so that none is negative.
_PRIORITY_OFFSET: Final = 2**31
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NEVER: Final = "not eligible due to preemptionPolicy=Never."


@dataclass(frozen=True)
class Candidate:
    """A node on which evicting some pods makes room.

    Attributes:
        node: Index of the node.
        victims: The pods to evict, most important first; indices into the snapshot's pods.
        violations: Number of victims whose PodDisruptionBudget does not allow it.
    """

    node: int
    victims: tuple[int, ...]
    violations: int


class Preemption:
    """The preemption of DefaultPreemption in the state of a cluster, which is the same after each call."""

    def __init__(self, state: ClusterState, budgets: Sequence[DisruptionBudget]) -> None:
        self._state = state
        self._budgets = budgets
        self._born = [pod.metadata.creationTimestamp or "" for pod in state.snapshot.pods]

    def find(self, i: int, refusals: Sequence[Refusal]) -> tuple[Candidate | None, str]:
        """Return the best candidate for pod i, or None with the message of kube-scheduler.

        Args:
            refusals: Why each node rejects the pod.
        """
        state, n_nodes = self._state, self._state.cluster.n_nodes
        if state.snapshot.pods[i].spec.preemptionPolicy == "Never":
            return None, f"preemption: {NEVER}"
        lasting = np.zeros(n_nodes, dtype=bool)
        for refusal in refusals:
            lasting |= refusal.is_lasting
        reasons: list[Refusal] = [Refusal(NOT_HELPFUL, lasting, lasting)] if lasting.any() else []
        candidates: list[Candidate] = []
        potential = np.flatnonzero(~lasting).tolist()
        profile = state.profile
        enough = max(len(potential) * profile.candidates_percentage // 100, profile.min_candidates)
        for n in potential:
            if len(candidates) >= enough and any(not candidate.violations for candidate in candidates):
                break
            candidate, why = self._on_node(i, n)
            if candidate is not None:
                candidates.append(candidate)
            reasons += why
        if not candidates:
            return None, f"preemption: {message(reasons, n_nodes)}"
        return min(candidates, key=self._rank), ""

    def _on_node(self, i: int, n: int) -> tuple[Candidate | None, list[Refusal]]:
        """Return the victims on a node, or None with the reason."""
        state = self._state
        pods = state.snapshot.pods
        lower = [j for j in state.on_node[n] if priority_of(pods[j]) < priority_of(pods[i])]
        here = _only(n, state.cluster.n_nodes)
        if not lower:
            return None, [Refusal(NO_VICTIMS, here, here)]
        lower.sort(key=lambda j: (-priority_of(pods[j]), self._born[j]))
        for j in lower:
            state.take(j, n)
        fits, why, victims, violations = state.accepts(i, n), list[Refusal](), list[int](), 0
        if fits:
            violating = self._violating(lower)
            for j in sorted(lower, key=lambda j: j not in violating):
                state.put(j, n)
                if not state.accepts(i, n):
                    state.take(j, n)
                    victims.append(j)
                    violations += j in violating
        else:
            why = [Refusal(each.text, here, here) for each in state.refusals(i) if each.nodes[n]]
            victims = lower
        for j in victims:
            state.put(j, n)
        if not fits:
            return None, why
        victims.sort(key=lambda j: (-priority_of(pods[j]), self._born[j]))
        return Candidate(n, tuple(victims), violations), []

    def _violating(self, pods: Sequence[int]) -> frozenset[int]:
        """Return the pods whose budgets do not allow that they are evicted together, in this order."""
        remaining = [budget.allowed for budget in self._budgets]
        found = set()
        for j in pods:
            for b, budget in enumerate(self._budgets):
                if j in budget.pods:
                    remaining[b] -= 1
                    if remaining[b] < 0:
                        found.add(j)
        return frozenset(found)

    def _rank(self, candidate: Candidate) -> tuple[object, ...]:
        """Return the key of the order in which kube-scheduler prefers candidates. Its last tie is open; here it is the node's position."""
        pods = self._state.snapshot.pods
        priorities = [priority_of(pods[j]) for j in candidate.victims]
        highest = max(priorities, default=-_PRIORITY_OFFSET)
        born = min((self._born[j] for j, p in zip(candidate.victims, priorities, strict=True) if p == highest), default="")
        total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
        return candidate.violations, highest, total, len(priorities), _Latest(born), candidate.node


@dataclass(frozen=True)
class _Latest:
    """A time that sorts before earlier ones."""

    text: str

    def __lt__(self, other: _Latest) -> bool:
        return self.text > other.text


def _only(n: int, n_nodes: int) -> Bools:
    mask = np.zeros(n_nodes, dtype=bool)
    mask[n] = True
    return mask
