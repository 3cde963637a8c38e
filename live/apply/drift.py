"""Comparison of the cluster with the document's snapshot before each wave.

Drift is any difference from the snapshot that the run did not cause. Pods of coming steps must have the same uid and be where the document
expects them, and their owners must replace them as expected. All other drift goes to the independent checker, which replays the remaining
steps on the current cluster. A violation ends the run; without one, the drift is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from kubestow.live.apply.differences import owners
from kubestow.live.apply.differences.compare import compare
from kubestow.live.apply.differences.found import DoneChanges, Drift, Now, summed_up
from kubestow.live.apply.differences.nodes import opened
from kubestow.models.disruption.eviction_requests import described, requested
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube import objects
from kubestow.models.kube.workload_objects import EvictionRequest
from kubestow.models.snapshot.snapshot import Snapshot

__all__ = [
    "DoneChanges",
    "Drift",
    "DriftVerdict",
    "DriftWatch",
    "Judge",
    "Now",
    "Rejection",
    "check",
    "compare",
    "remaining_document",
    "summed_up",
]

Document = RebalancePlan | Placement


class Rejection(NamedTuple):
    """A violation of the remaining steps of a document.

    Attributes:
        message: The violation in a sentence.
        pod: The pod concerned; empty if none.
        node: The node concerned; empty if none.
        budget: True if a PodDisruptionBudget currently allows too few evictions.
    """

    message: str
    pod: str = ""
    node: str = ""
    budget: bool = False


#: A function that replays the remaining steps of a document on a snapshot.
Judge = Callable[[Snapshot, Document], Sequence[Rejection]]


@dataclass(frozen=True)
class DriftVerdict:
    """The outcome of a comparison.

    Attributes:
        harmless: Drift that does not affect the remaining steps.
        faults: Reasons to end the run before its next step, with the drift behind each, one sentence each.
        passing: True if all faults may resolve themselves (budgets that are used up for now), so that a retry is useful.
        new: Harmless drift that no earlier verdict reported.
    """

    harmless: list[Drift] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    passing: bool = False
    new: list[Drift] = field(default_factory=list)


def check(before: Snapshot, now: Snapshot, document: Document, done: DoneChanges, judge: Judge) -> DriftVerdict:
    """Compare once; see :class:`DriftWatch`, which remembers harmless drift."""
    return DriftWatch(before, document, judge).check(now, done)


class DriftWatch:
    """The comparisons of one run. ``before`` is the snapshot of the document."""

    def __init__(self, before: Snapshot, document: Document, judge: Judge) -> None:
        self._before, self._document, self._judge = before, document, judge
        self._pods = {objects.pod_key(pod): pod for pod in before.pods}
        self._harmless: frozenset[Drift] | None = frozenset()  # the document is valid for its own snapshot
        self._told: set[Drift] = set()

    def check(self, now: Snapshot, done: DoneChanges) -> DriftVerdict:
        """Compare the cluster with the snapshot. Check the remaining steps, unless all drift is already known to be harmless."""
        found = compare(self._before, now, done)
        remainder = remaining_document(self._document, done, self._in_flight(done))
        live = {objects.pod_key(pod): pod for pod in now.pods}
        faults = [*self._pod_faults(remainder, live, done, requested(now)), *owners.faults(self._before, now, _stopped(remainder, live))]
        if faults:
            return DriftVerdict(faults=faults)
        if self._harmless != frozenset(found):
            self._harmless = frozenset(found)
            seen = self._with_pods_in_flight(opened(now, self._before, done.closed), live, done, remainder)
            verdict = self._judged(seen, remainder, found)
            if verdict is not None:
                self._harmless = None
                return verdict
        new = [drift for drift in found if drift not in self._told]
        self._told.update(new)
        return DriftVerdict(harmless=found, new=new)

    def _judged(self, now: Snapshot, remainder: Document, found: list[Drift]) -> DriftVerdict | None:
        """Return the verdict if the checker rejects something, else None.

        Budgets that were not changed and allow too little only for a later wave do not count, because they may allow more by then.
        """
        rejected = list(self._judge(now, remainder))
        if any(each.budget for each in rejected) and not _tightened(found):
            self._harmless = None  # check again before the coming waves
            coming = {each for each in self._judge(now, _first_wave(remainder)) if each.budget}
            rejected = [each for each in rejected if not each.budget or each in coming]
        if not rejected:
            return None
        faults = [_with_drift(each, found) for each in rejected]
        return DriftVerdict(faults=faults, passing=all(each.budget for each in rejected) and not _tightened(found))

    # --- pods of coming steps -----------------------------------------------------------------------------------------------

    def _pod_faults(
        self, remainder: Document, live: dict[str, objects.Pod], done: DoneChanges, requests: Mapping[str, EvictionRequest]
    ) -> Iterator[str]:
        """Yield the reasons why pods of coming steps are other pods than in the document, or elsewhere."""
        names = {each.name: (key, each) for key, each in done.pods.items()}
        for name, source in _expected(remainder).items():
            key, stands = names.get(name, (name, None))
            known, pod = self._pods.get(key), live.get(name)
            uid = stands.uid if stands is not None else known.metadata.uid if known is not None else None
            if stands is None and uid and uid in done.gone:
                continue  # stopped by the run and not replaced yet
            label = name if name == key else f"{name}, which replaces {key},"
            if pod is None:
                yield f"Pod {label} of a coming step is gone"
            elif uid and pod.metadata.uid and pod.metadata.uid != uid:
                yield f"Pod {label} of a coming step was deleted and made again: it is another pod by uid"
            elif objects.is_terminal(pod):
                yield f"Pod {label} of a coming step has ended"
            elif objects.is_terminating(pod):
                yield f"Pod {label} of a coming step is being deleted"
            elif name in requests:
                yield f"Pod {label} of a coming step is to be evicted by others: {described(requests[name])} asks for it"
            elif (pod.spec.nodeName or None) != source:
                yield f"Pod {label} of a coming step is {_at(pod.spec.nodeName)}, it should be {_at(source)}"

    def _in_flight(self, done: DoneChanges) -> list[str]:
        """Return the pods that the run stopped and that are not replaced yet."""
        return [key for key, pod in self._pods.items() if pod.metadata.uid in done.gone and key not in done.pods] if done.gone else []

    def _with_pods_in_flight(self, now: Snapshot, live: dict[str, objects.Pod], done: DoneChanges, remainder: Document) -> Snapshot:
        """Return the cluster with those pods as pending if they have remaining steps, because their targets are reserved."""
        coming = _expected(remainder)
        lost = [self._pods[key] for key in self._in_flight(done) if key in coming and key not in live]
        if not lost:
            return now
        found = now.copy()
        for pod in lost:
            status = objects.PodStatus(phase="Pending")
            found.pods.append(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=None), status=status))
        return found


def remaining_document(document: Document, done: DoneChanges, stopped: Collection[str] = ()) -> Document:
    """Return the remaining steps of a document, with the current names of pods and the original numbers of steps and waves.

    ``stopped``: pods that the run stopped and that are not replaced yet. Like pending replacements, they have no source.
    """
    if isinstance(document, Placement):
        bound = {pod for _, pod in done.steps}
        kept = [each for each in document.assignments if each.pod not in bound]
        return msgspec.structs.replace(document, assignments=[msgspec.structs.replace(each, pod=_name(each.pod, done)) for each in kept])
    waiting = {*stopped, *(key for key, each in done.pods.items() if each.node is None)}
    moves = []
    for move in document.moves:
        if (move.step, move.pod) not in done.steps:
            source = None if move.pod in waiting else move.source
            waiting.discard(move.pod)  # the next move of a stopover starts where the last one ended
            moves.append(msgspec.structs.replace(move, pod=_name(move.pod, done), source=source))
    evictions = [each for each in document.evictions if (each.step, each.pod) not in done.steps and each.pod not in waiting]
    renamed = [msgspec.structs.replace(each, pod=_name(each.pod, done)) for each in evictions]
    return msgspec.structs.replace(document, moves=moves, evictions=renamed)


def _name(pod: str, done: DoneChanges) -> str:
    return done.pods[pod].name if pod in done.pods else pod


def _expected(remainder: Document) -> dict[str, str | None]:
    """Return the expected node of each pod before its next step, by its current name."""
    if isinstance(remainder, Placement):
        return {each.pod: None for each in remainder.assignments}
    steps = [(step.wave, step.step, step.pod, step.source) for step in remainder.moves]
    steps += [(step.wave, step.step, step.pod, step.source) for step in remainder.evictions]
    return {pod: source for _, _, pod, source in sorted(steps, key=lambda step: step[:2], reverse=True)}


def _stopped(remainder: Document, live: dict[str, objects.Pod]) -> list[objects.Pod]:
    """Return the running pods that will be moved, without those evicted for good."""
    moves = [] if isinstance(remainder, Placement) else remainder.moves
    return [live[move.pod] for move in moves if move.source is not None and move.pod in live]


def _first_wave(remainder: Document) -> Document:
    if isinstance(remainder, Placement):
        return remainder
    wave = min([*(step.wave for step in remainder.moves), *(step.wave for step in remainder.evictions)], default=0)
    moves, evictions = [move for move in remainder.moves if move.wave == wave], [each for each in remainder.evictions if each.wave == wave]
    return msgspec.structs.replace(remainder, moves=moves, evictions=evictions)


def _tightened(found: list[Drift]) -> bool:
    """Return True if a budget was changed, not just used up."""
    return any(drift.kind == "PodDisruptionBudget" and drift.what != "disruptions" for drift in found)


def _with_drift(rejection: Rejection, found: list[Drift]) -> str:
    """Return a rejection with the related drift: of its pod or node, otherwise a summary of all drift."""
    near = [drift for drift in found if rejection.node and drift.node == rejection.node]
    near += [drift for drift in found if drift.kind == "Pod" and drift.name == rejection.pod and drift not in near]
    if rejection.budget:
        near = [drift for drift in found if drift.kind == "PodDisruptionBudget"]
    lines = summed_up(near or found, 1 if not near else 3)
    return f"{rejection.message} – {'; '.join(lines)}" if lines else rejection.message


def _at(node: str | None) -> str:
    return f"on node {node}" if node else "without a node"
