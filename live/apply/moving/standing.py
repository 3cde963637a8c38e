"""Where pods stand that a run has begun and not done: the closing sentences, told from the cluster as it is once nodes are open again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kubestow.live.api.answers import Object, Unreachable
from kubestow.live.apply.moving.course import Course, is_ready
from kubestow.live.apply.moving.owner import why_none
from kubestow.live.apply.moving.work import Cluster
from kubestow.live.apply.whereabouts import Whereabouts, is_leaving, is_over, node_of


async def closing_sentences(courses: Collection[Course], cluster: Cluster, where: Whereabouts, any_open: Callable[[], bool]) -> list[str]:
    """Return where the pods stand that were begun and are not done. ``any_open`` tells whether some node takes pods."""
    if all(course.state in ("waits", "done") for course in courses):
        return []
    current = True
    try:
        await cluster.refresh()
    except Unreachable:
        current = False
    closing = Closing(cluster, where, current, any_open())
    return [sentence for course in courses if (sentence := closing.sentence(course))]


@dataclass(frozen=True)
class Closing:
    """Words the closing sentences of a run.

    Attributes:
        current: The cluster was read after nodes were opened. If not, sentences say what was last seen.
        open: Some node takes pods from the scheduler.
    """

    cluster: Cluster
    where: Whereabouts
    current: bool
    open: bool

    def sentence(self, course: Course) -> str:
        """Return where the pod of a step stands, empty if the step is done or was not begun."""
        if course.state not in ("begun", "bound") or (course.state == "begun" and course.step.kind == "bind"):
            return ""
        standing = self.where.of[course.step.pod]
        pod = self.cluster.pod(standing.uid)
        if course.state == "bound":
            return self._said(f"pod {standing.key}", pod, course.step.target)
        if standing.uid in self.where.taken:
            return self._said(f"pod {standing.key}, which takes the place of {course.step.pod},", pod, course.step.target)
        return self._evicted(course, pod)

    def _said(self, name: str, pod: Object | None, target: str | None) -> str:
        """Return the sentence for a pod that the run has given a node, or was about to."""
        if pod is None or is_leaving(pod):
            return f"{name} {self._is('gone' if pod is None else 'being deleted')} again"
        node = node_of(pod)
        if node is None:
            return f"{name} {self._has('no node')}{self._outlook(pod)}"
        planned = "" if node == target else f" and not on {target}"
        if is_over(pod):
            return f"{name} {self._has('ended')} on {node}{planned}"
        if not is_ready(pod):
            return f"{name} {self._is(f'bound to {node}')}{planned}, and not Ready"
        return f"{name} {'runs' if self.current else 'ran when it was last seen'} on {node}{planned}"

    def _evicted(self, course: Course, pod: Object | None) -> str:
        """Return the sentence for a pod whose replacement was not seen."""
        name = f"pod {course.step.pod}"
        if pod is not None and self.where.of[course.step.pod].uid not in self.where.gone:
            return f"{name} was evicted and {self._is('being deleted')}"
        if course.step.kind == "evict":
            return f"{name} was evicted, as planned for good"
        if course.step.origin.owner is None:
            return f"{name} was evicted and was not created again: its manifest is in the journal"
        why = why_none(self.cluster, course.step.origin)
        if why:
            return f"{name} was evicted, and nothing takes its place: {why}"
        return f"{name} was evicted, and its replacement was not seen{self._outlook(None)}"

    def _outlook(self, pod: Object | None) -> str:
        """Return what becomes of a pod without a node, as far as nodes and gates decide it."""
        if pod is not None and (pod.get("spec") or {}).get("schedulingGates"):
            return ": scheduling gates hold it"
        if not self.open:
            return ": no node is open for it"
        return ": the scheduler gives it one now" if pod is not None else ": the scheduler gives it a node"

    def _is(self, what: str) -> str:
        return f"is {what}" if self.current else f"was {what} when it was last seen"

    def _has(self, what: str) -> str:
        return f"has {what}" if self.current else f"had {what} when it was last seen"
