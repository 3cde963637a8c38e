"""Closing sentences of a run about pods with unfinished steps, from the state of the cluster after nodes are opened."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kubestow.live.api.answers import Object, Unreachable
from kubestow.live.apply.moving.missing_replacements import why_none
from kubestow.live.apply.moving.step_run import StepRun, is_ready
from kubestow.live.apply.moving.work import ClusterReader
from kubestow.live.apply.pod_locations import PodLocations, is_leaving, is_over, node_of


async def closing_sentences(
    step_runs: Collection[StepRun], cluster: ClusterReader, where: PodLocations, any_open: Callable[[], bool]
) -> list[str]:
    """Return a sentence for each pod with an unfinished step. ``any_open`` returns True if some node is open."""
    if all(step_run.state in ("waits", "done") for step_run in step_runs):
        return []
    current = True
    try:
        await cluster.refresh()
    except Unreachable:
        current = False
    closing = Closing(cluster, where, current, any_open())
    return [sentence for step_run in step_runs if (sentence := closing.sentence(step_run))]


@dataclass(frozen=True)
class Closing:
    """The wording of closing sentences.

    Attributes:
        cluster: The cluster.
        where: Current pods of the document.
        current: True if the cluster was read after nodes were opened; otherwise sentences report the last known state.
        open: True if some node is open.
    """

    cluster: ClusterReader
    where: PodLocations
    current: bool
    open: bool

    def sentence(self, step_run: StepRun) -> str:
        """Return the sentence for a step's pod; empty if the step is done or was not begun."""
        if step_run.state not in ("begun", "bound") or (step_run.state == "begun" and step_run.step.kind == "bind"):
            return ""
        standing = self.where.of[step_run.step.pod]
        pod = self.cluster.pod(standing.uid)
        if step_run.state == "bound":
            return self._said(f"pod {standing.key}", pod, step_run.step.target)
        if standing.uid in self.where.replacements:
            return self._said(f"pod {standing.key}, which takes the place of {step_run.step.pod},", pod, step_run.step.target)
        return self._evicted(step_run, pod)

    def _said(self, name: str, pod: Object | None, target: str | None) -> str:
        """Return the sentence for a pod that has a node from the run, or was about to get one."""
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

    def _evicted(self, step_run: StepRun, pod: Object | None) -> str:
        """Return the sentence for an evicted pod without a known replacement."""
        name = f"pod {step_run.step.pod}"
        if pod is not None and self.where.of[step_run.step.pod].uid not in self.where.gone:
            return f"{name} was evicted and {self._is('being deleted')}"
        if step_run.step.kind == "evict":
            return f"{name} was evicted, as planned for good"
        if step_run.step.origin.owner is None:
            return f"{name} was evicted and was not created again: its manifest is in the journal"
        why = why_none(self.cluster, step_run.step.origin)
        if why:
            return f"{name} was evicted, and nothing takes its place: {why}"
        return f"{name} was evicted, and its replacement was not seen{self._outlook(None)}"

    def _outlook(self, pod: Object | None) -> str:
        """Return the prospects of a pod without a node, as the end of a sentence."""
        if pod is not None and (pod.get("spec") or {}).get("schedulingGates"):
            return ": scheduling gates hold it"
        if not self.open:
            return ": no node is open for it"
        return ": the scheduler gives it one now" if pod is not None else ": the scheduler gives it a node"

    def _is(self, what: str) -> str:
        return f"is {what}" if self.current else f"was {what} when it was last seen"

    def _has(self, what: str) -> str:
        return f"has {what}" if self.current else f"had {what} when it was last seen"
