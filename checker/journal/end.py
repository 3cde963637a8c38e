"""The cluster after a run, beside what its journal says: what the run says that it did, and is not so."""

from __future__ import annotations

from collections.abc import Iterator

from checker.journal.replay import JOURNAL, State
from checker.journal.tasks import Tasks
from checker.violation import Violation
from models.kube import objects
from models.snapshot.snapshot import Snapshot


def closed_nodes(end: Snapshot, run: str) -> list[str]:
    """Return the nodes that carry the mark of a run."""
    return [name for name, by in end.closed_by.items() if by.run == run]


def end_faults(end: Snapshot, tasks: Tasks, state: State, run: str) -> Iterator[Violation]:
    """Return pods that are not where the journal says that the run put them, and nodes that are still closed. Pods are told by their uids:
    what became of others of the name, or of pods that are gone, is not the run's doing. ``state``: after the last line."""
    there = {pod.metadata.uid: pod for pod in end.pods if pod.metadata.uid}
    for pod, task in tasks.final().items():
        stands = state.stands[pod]
        found = there.get(stands.uid or "")
        if found is None or (task.step, pod) not in state.done:
            continue
        if task.target is None:
            yield Violation(pod, task.place, JOURNAL, "the pod is said to be evicted, and is there at the end")
        elif found.spec.nodeName != task.target:
            who = "the pod" if stands.key == pod else f"{objects.pod_key(found)}, which replaces it,"
            where = f"on {found.spec.nodeName}" if found.spec.nodeName else "without a node"
            yield Violation(pod, task.target, JOURNAL, f"{who} is {where} at the end, and the run says that it put it on {task.target}")
    for name in closed_nodes(end, run):
        yield Violation("", name, JOURNAL, "the node is still closed by this run at the end; kubestow apply --open opens it")
