"""Comparison of the cluster after a run with the claims of its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from kubestow.checker.final_state import Ends, ends
from kubestow.checker.journal.gated import GatedReplay
from kubestow.checker.journal.replay import JOURNAL, ReplayState
from kubestow.checker.journal.tasks import KINDS_WITH_LATER_PODS, Gated, Tasks, pods_of
from kubestow.checker.violation import Violation
from kubestow.models.documents.placement import Placement
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


def closed_nodes(end: Snapshot, run: str) -> list[str]:
    """Return the nodes that carry the mark of a run."""
    return [name for name, by in end.closed_by.items() if by.run == run]


def end_faults(end: Snapshot, tasks: Tasks, state: ReplayState, run: str) -> Iterator[Violation]:
    """Yield pods that are not where the journal claims the run put them, and nodes that are still closed.

    Pods are identified by uid. The run is not responsible for other pods of the same name or for pods that are gone.

    Args:
        end: The cluster after the run.
        tasks: Tasks of the document.
        state: The state after the last line.
        run: Identifier of the run.
    """
    there = {pod.metadata.uid: pod for pod in end.pods if pod.metadata.uid}
    for pod, task in tasks.final().items():
        stands = state.stands[pod]
        found = there.get(stands.uid or "")
        if found is None or (task.step, pod) not in state.done:
            continue
        if task.target is None:
            yield Violation(pod, task.place, JOURNAL, "the pod is said to be evicted, and still exists at the end")
        elif found.spec.nodeName != task.target:
            who = "the pod" if stands.key == pod else f"{objects.pod_key(found)}, which replaces it,"
            where = f"on {found.spec.nodeName}" if found.spec.nodeName else "without a node"
            yield Violation(pod, task.target, JOURNAL, f"{who} is {where} at the end, and the run says that it put it on {task.target}")
    for name in closed_nodes(end, run):
        yield Violation("", name, JOURNAL, "the node is still closed by this run at the end; kubestow apply --open opens it")


def gated_faults(end: Snapshot, replay: GatedReplay, gated: Gated) -> Iterator[Violation]:
    """Yield false claims about pods in the journal of a run that removed scheduling gates."""
    owned = {ref: {objects.pod_key(end.pods[i]) for i in found} for ref, found in pods_of(end, gated.workloads, over=True).items()}
    there = {pod.metadata.uid: pod for pod in end.pods if pod.metadata.uid}
    for pod, stands in replay.state.stands.items():
        found = there.get(stands.uid or "")
        ref = gated.refs.get(pod)
        if found is not None and ref is not None and not objects.is_terminating(found) and objects.pod_key(found) not in owned[ref]:
            yield Violation(pod, "", JOURNAL, f"{stands.key} is said to represent the pod, and is none of {ref}")
    for uid in sorted(replay.seen_gone & there.keys()):
        if not objects.is_terminating(there[uid]) and not objects.is_terminal(there[uid]):
            yield Violation(objects.pod_key(there[uid]), "", JOURNAL, "the pod is said to be gone, and still exists at the end")


def gated_ends(before: Snapshot, document: Placement, end: Snapshot, replay: GatedReplay, gated: Gated) -> Ends:
    """Return differences between planned and actual pod counts per workload and node, and the changes by others.

    Raises:
        QuantityError: as for :func:`kubestow.checker.final_state.ends`.
    """
    at = {objects.pod_key(pod): pod.spec.nodeName for pod in end.pods}
    stands = {pod: standing.key for pod, standing in replay.state.stands.items()}
    there = [entry for entry in document.assignments if at.get(stands.get(entry.pod, entry.pod)) == entry.node]
    known = {stands.get(entry.pod, entry.pod) for entry in there}
    placed = msgspec.structs.replace(document, assignments=there)
    found = ends(before, placed, end, stands)
    others = {objects.pod_key(end.pods[i]) for each in pods_of(end, document.snapshot.workloads, over=True).values() for i in each} - known
    mine = {objects.pod_key(before.pods[i]) for each in pods_of(before, gated.workloads, over=True).values() for i in each}
    quiet, cluster = end.copy(), before.copy()
    quiet.pods = [pod for pod in end.pods if objects.pod_key(pod) not in others]
    cluster.pods = [pod for pod in before.pods if objects.pod_key(pod) not in mine or objects.pod_key(pod) in known]
    lacking, more = _counts(end, gated)
    return Ends([*lacking, *found.missed], [*more, *ends(cluster, placed, quiet, stands).foreign])


def _counts(end: Snapshot, gated: Gated) -> tuple[list[str], list[str]]:
    """Return missing and surplus pods per workload and node, as sentences."""
    lacking, more = [], []
    for ref, found in pods_of(end, gated.workloads, over=True).items():
        kind = ref.partition(" ")[0]
        pods = [end.pods[i] for i in found]
        wanted = Counter(task.target for task in gated.places.values() if gated.refs[task.pod] == ref)
        have = Counter(pod.spec.nodeName for pod in pods if pod.spec.nodeName and (kind == "Job" or not objects.is_terminal(pod)))
        for node in sorted({str(node) for node in (*wanted, *have)}):
            text = f"{ref} has {have[node]} pods on node {node}, the placement has {wanted[node]}"
            if have[node] < wanted[node] and kind not in KINDS_WITH_LATER_PODS:
                lacking.append(text)
            elif have[node] > wanted[node]:
                more.append(text)
    return lacking, more
