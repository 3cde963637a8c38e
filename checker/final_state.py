"""Comparison of the cluster after a run with the document's final state, and the changes that others made meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kubestow.checker.placement_document import why_not_pending
from kubestow.checker.plan.document import entries
from kubestow.checker.plan.objective import PlanLedger
from kubestow.checker.plan.state import Board, cordoned
from kubestow.checker.reading import resources
from kubestow.checker.violation import stays_with_node
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.rebalance_plan import NodeUse, RebalancePlan, Summary
from kubestow.models.kube import device_objects, objects, quantity
from kubestow.models.kube.closed_nodes import OWN_TAINTS
from kubestow.models.kube.lenient_decode import some
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

Where = dict[str, str | None]


@dataclass
class Ends:
    """Differences between the final cluster and the document, as sentences.

    Attributes:
        missed: Statements of the document that do not hold.
        foreign: Changes by others, and figures that differ because of others.
    """

    missed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


def ends(before: Snapshot, document: RebalancePlan | Placement, now: Snapshot, stands: Mapping[str, str] | None = None) -> Ends:
    """Compare the final state of a cluster with a document.

    Args:
        before: The snapshot of the document.
        document: The document.
        now: The cluster after the run.
        stands: ``namespace/name`` of the pod that replaced each moved pod, by its name in the document.

    Raises:
        QuantityError: a quantity in a snapshot is malformed or beyond 64 bits.
    """
    with no_gc():
        return _Comparison(before, document, now, stands or {}).found()


class _Comparison:
    """The comparison of one document."""

    def __init__(self, before: Snapshot, document: RebalancePlan | Placement, now: Snapshot, stands: Mapping[str, str]) -> None:
        self._document, self._stands = document, stands
        self._before, self._now = ({objects.pod_key(pod): pod for pod in each.pods} for each in (before, now))
        self._claims = list(now.resource_claims.values())
        self._nodes = {node.metadata.name or "": node for node in now.nodes}
        self._nodes_before = {node.metadata.name or "": node for node in before.nodes}
        names = frozenset(self._nodes)
        pending = {key for key, pod in self._now.items() if why_not_pending(pod, names, document.snapshot) is None}
        drain = document.drain if isinstance(document, RebalancePlan) else ()
        self._board = Board(cordoned(now, drain), pending, document.snapshot.daemonNamespaces)
        self._pending = pending
        self._targets: Where
        if isinstance(document, RebalancePlan):
            self._targets = {entry.pod: entry.target for entry in entries(document)}
        else:
            self._targets = {entry.pod: entry.node for entry in document.assignments}
        self._touched: set[str] = set()  # nodes on which pods of others started or ended
        self._unmade = 0  # replacements of evicted pods that do not exist yet

    def found(self) -> Ends:
        """Return all differences."""
        found = Ends(missed=list(self._missed()), foreign=list(self._foreign()))
        if isinstance(self._document, Placement):
            found.missed += [*self._broken_pods(), *self._other_devices(self._document)]
            return found
        for mine, line in self._figures(self._document, self._document.after, bool(found.missed), bool(found.foreign)):
            (found.missed if mine else found.foreign).append(line)
        return found

    # --- pods of the document ---------------------------------------------------------------------------------------------------

    def _missed(self) -> Iterator[str]:
        """Yield pods that are not in the document's final place. Pods that ended there count as placed."""
        for key, target in self._targets.items():
            name = self._stands.get(key, key)
            pod, known = self._now.get(name), self._before.get(key)
            label = key if name == key else f"{name}, which replaces {key},"
            if target is None:
                if pod is not None and known is not None and pod.metadata.uid == known.metadata.uid:
                    yield f"Pod {key} is still {_at(pod)}, it should have been evicted"
            elif pod is None:
                yield f"Pod {label} is gone, it should be on node {target}"
            elif pod.spec.nodeName != target:
                yield f"Pod {label} is {_at(pod)}, it should be on node {target}"
            elif objects.is_terminating(pod):
                yield f"Pod {label} is being deleted, it should stay on node {target}"

    def _broken_pods(self) -> Iterator[str]:
        """Yield placed pods that break rules on their node."""
        for key, target in self._targets.items():
            runner = self._board.runners.get(self._stands.get(key, key))
            if runner is not None and runner.node == target and runner.steady and (broken := self._board.broken(runner)):
                yield f"Pod {runner.key} breaks {', '.join(sorted(broken))} on node {target}"

    def _other_devices(self, placement: Placement) -> Iterator[str]:
        """Yield devices that the document names for pods which do not hold them."""
        if not any(entry.devices for entry in placement.assignments):
            return
        counts: Counter[tuple[str, ...]] = Counter()
        for claim in self._claims:
            status = claim.status or device_objects.ResourceClaimStatus()
            allocated = status.allocation.devices if status.allocation is not None else None
            results = (allocated.results if allocated is not None else None) or ()
            for user in status.reservedFor or ():
                counts.update((user.uid, each.request, each.driver, each.pool, each.device) for each in results)
        for entry in placement.assignments:
            pod = self._now.get(self._stands.get(entry.pod, entry.pod))
            if pod is None or pod.spec.nodeName != entry.node or not _holds(pod):
                continue  # claims of pods that have ended are given back
            for each in entry.devices:
                device = each.driver, each.pool, each.device
                if counts[pod.metadata.uid or "", each.request, *device] == 0:
                    yield f"Pod {entry.pod} does not have device {'/'.join(device)}, named for claim {each.claim}, request {each.request}"
                counts[pod.metadata.uid or "", each.request, *device] -= 1

    # --- others -----------------------------------------------------------------------------------------------------------------

    def _foreign(self) -> Iterator[str]:
        """Yield nodes and pods that appeared, vanished or moved without the document."""
        for name in sorted(self._nodes_before.keys() | self._nodes.keys()):
            if name not in self._nodes:
                yield f"Node {name} is gone"
            elif name not in self._nodes_before:
                yield f"Node {name} is new"
            elif _offers(self._nodes_before[name]) != _offers(self._nodes[name]):
                self._touched.add(name)
                yield f"Node {name} has other labels, taints or capacity than before"
        ours = {self._stands.get(key, key) for key in self._targets}
        evicted: Counter[str] = Counter()  # their controllers create pending replacements
        for key, pod in sorted(self._before.items()):
            there = self._now.get(key)
            if key in self._targets:
                if self._targets[key] is None and there is None:
                    evicted[_owner(pod)] += 1
            elif _holds(pod) and (there is None or not _holds(there) or there.spec.nodeName != pod.spec.nodeName):
                self._touch(pod, there)
                gone = "has gone" if there is None else "has ended" if objects.is_terminal(there) else f"is {_at(there)} now"
                yield f"Pod {key}, which was {_at(pod)}, {gone}"
        for key, pod in sorted(self._now.items()):
            if key in ours or (key in self._before and key not in self._targets and _holds(self._before[key])) or not _holds(pod):
                continue
            if not pod.spec.nodeName and evicted[_owner(pod)] > 0:
                evicted[_owner(pod)] -= 1
                continue
            self._touch(pod)
            yield f"Pod {key} is new {_at(pod)}"
        self._unmade = sum(count for owner, count in evicted.items() if owner)

    def _touch(self, *pods: objects.Pod | None) -> None:
        """Mark the nodes of pods that others changed."""
        self._touched.update(pod.spec.nodeName for pod in pods if pod is not None and pod.spec.nodeName)

    # --- figures ----------------------------------------------------------------------------------------------------------------

    def _figures(self, plan: RebalancePlan, said: Summary, missed: bool, foreign: bool) -> Iterator[tuple[bool, str]]:
        """Yield final figures of the plan that differ now, each with a flag: True if the run itself is responsible."""
        board = self._board
        broken = board.all_broken()
        ledger = PlanLedger(board, plan.policy or DEFAULT, (), self._pending, (), admits="admit" in plan.goals)
        is_now = ledger.summary(broken, [use.node for use in said.nodes if use.node in self._nodes])
        mine = missed or not foreign
        for name, wanted, number in (("empty nodes", said.emptyNodes, is_now.emptyNodes), ("pods that wait", said.pending, is_now.pending)):
            late = self._unmade if name == "pods that wait" else 0  # an ordered controller creates the next pod when this one has a node
            if not number <= wanted <= number + late:
                yield mine, f"{name}: {number}, the plan says {wanted}"
        for rule in sorted(said.rules.keys() | is_now.rules.keys()):
            wanted, number = said.rules.get(rule, 0), is_now.rules.get(rule, 0)
            if number > wanted:
                ours = any(rule in broken.get(self._stands.get(key, key), ()) for key in self._targets)
                yield mine and ours, f"running pods that break {rule}: {number}, the plan says {wanted}"
        uses = {use.node: use for use in is_now.nodes}
        for use in said.nodes:
            if use.node in uses:
                for line in _uses(use, uses[use.node]):
                    yield use.node not in self._touched, line
        for name in dict.fromkeys((*plan.drain, *plan.freed)):
            remaining_pods = [r.key for r in board.runners.values() if r.node == name and not stays_with_node(r.pod)]
            excused = {self._stands.get(key, key) for key in (*self._targets, *_stayed(plan))}
            others = [key for key in remaining_pods if key not in excused]
            if others:
                yield False, f"Node {name}, which the plan empties, runs {some(sorted(others))}, not of the plan"


def _stayed(plan: RebalancePlan) -> Iterator[str]:
    """Yield the pods that stay according to the plan."""
    for group in plan.excluded:
        yield from group.pods
    for obstacle in plan.obstacles:
        if obstacle.pod is not None:
            yield obstacle.pod


def _uses(said: NodeUse, now: NodeUse) -> Iterator[str]:
    """Yield the differences on one node. Allocatable resources are ignored, because plans do not change them."""
    for name, wanted, number in (
        ("pods", str(said.pods), str(now.pods)),
        ("requested cpu", quantity.format_cpu(said.cpu), quantity.format_cpu(now.cpu)),
        ("requested memory", quantity.format_bytes(said.memory), quantity.format_bytes(now.memory)),
    ):
        if wanted != number:
            yield f"{name} of node {said.node}: {number}, the plan says {wanted}"


def _offers(node: objects.Node) -> tuple[object, ...]:
    """Return labels, taints and capacity of a node. A cordon is ignored."""
    taints = (node.spec.taints if node.spec is not None else None) or []
    kept = sorted((taint.key, taint.value or "", taint.effect) for taint in taints if taint.key not in OWN_TAINTS)
    return node.metadata.labels, kept, resources.node_capacity(node)


def _holds(pod: objects.Pod) -> bool:
    return not objects.is_terminal(pod)


def _owner(pod: objects.Pod) -> str:
    owner = objects.controller_of(pod)
    return f"{owner.kind} {pod.metadata.namespace}/{owner.name}" if owner is not None else ""


def _at(pod: objects.Pod) -> str:
    return f"on node {pod.spec.nodeName}" if pod.spec.nodeName else "without a node"
