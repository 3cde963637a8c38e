"""Reasons for unplaced pods, rechecked: each rule on every node, with all placed pods present.

If a node accepts an unplaced pod under all filters and all spread constraints, the bound of its placed tier is
refuted. The same placement with this pod is better by one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import msgspec

from kubestow.checker import rules
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Cause, Placement, Reason
from kubestow.models.documents.policy import DEFAULT, node_topologies
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: Rules that are rechecked here.
JUDGED: Final = frozenset(name for kind in rules.ALL if kind.recounted for name in kind.names)
GANG: Final = "GangScheduling"
NO_NODES: Final = "NoNodes"
#: Rules whose node counts are not rechecked.
OTHERS: Final = frozenset({GANG, "NodeResourceTopologyMatch", NO_NODES, "SchedulingGates"})
#: Pod-node pairs to judge; they take a few seconds. Further kinds of pods are not judged, and the report says so.
MAX_JUDGED_PAIRS: Final = 200_000
_MORE: Final = re.compile(r" and [0-9]+ more\Z")


class JudgeProtocol(Protocol):
    """The cluster with all placed pods."""

    def faults(self, pod: objects.Pod, node_name: str) -> list[tuple[str, str]]: ...
    def disturbed(self, pod: objects.Pod, node_name: str) -> frozenset[str]: ...
    def content(self, pod: objects.Pod) -> object: ...


@dataclass
class UnplacedPods:
    """The pods that a Placement leaves unplaced.

    Attributes:
        snapshot: The snapshot.
        placement: The document.
        pods: All pods, by key.
        refusals: Why each pod is not to be placed, by key; None if it is to be placed.
        gangs: Gangs of the pods to be placed.
        ranks: Priority at which pods of gangs count, by key.
        unjudged: Number of pods that were not judged, because the limit of pairs was reached.
    """

    snapshot: Snapshot
    placement: Placement
    pods: Mapping[str, objects.Pod]
    refusals: Mapping[str, str | None]
    gangs: Sequence[Gang]
    ranks: Mapping[str, int]
    unjudged: int = 0
    _gang_of: dict[str, Gang] = field(init=False)
    _placed: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._placed = frozenset(entry.pod for entry in self.placement.assignments)
        self._gang_of = {objects.pod_key(self.snapshot.pods[i]): gang for gang in self.gangs for i in gang.pods}

    def candidates(self) -> list[objects.Pod]:
        """Return the unplaced pods to judge, each once."""
        keys = dict.fromkeys(entry.pod for entry in self.placement.unplaced)
        return [self.pods[key] for key in keys if key in self.pods and self.refusals[key] is None and key not in self._placed]

    def faults(self, judge: JudgeProtocol) -> Iterator[Violation]:
        """Yield wrong or missing reasons, and tiers that are not proved."""
        judged = {objects.pod_key(pod) for pod in self.candidates()}
        nodes = [node.metadata.name or "" for node in self.snapshot.nodes]
        policy = self.placement.policy or DEFAULT
        numa = frozenset(node_topologies(policy, self.snapshot))
        memo: dict[bytes, tuple[Counter[str], str | None]] = {}
        reported: set[int] = set()
        for entry in self.placement.unplaced:
            if entry.pod not in judged:
                continue
            pod = self.pods[entry.pod]
            distinguishing = pod.metadata.namespace, pod.metadata.labels, pod.metadata.annotations, pod.spec, judge.content(pod)
            key = msgspec.json.encode(distinguishing)
            if key not in memo:
                if (len(memo) + 1) * len(nodes) > MAX_JUDGED_PAIRS:
                    self.unjudged += 1
                    continue
                memo[key] = _verdict(judge, pod, nodes, numa)
            counts, fits = memo[key]
            for why in self._reason_faults(entry.pod, entry.reasons, counts):
                yield Violation(entry.pod, "", DOCUMENT, why)
            priority = self.ranks.get(entry.pod, pod.spec.priority or 0)
            if fits is not None and priority not in reported and self._counts_alone(entry.pod, entry.reasons) and self._proved(priority):
                reported.add(priority)
                why = f"the pod is unplaced and the node accepts it as well: the tier placed of priority {priority} is not proved"
                yield Violation(entry.pod, fits, DOCUMENT, why)

    def _reason_faults(self, key: str, reasons: Sequence[Reason], counts: Counter[str]) -> Iterator[str]:
        """Yield faults of the reasons given for one pod.

        Args:
            key: Key of the pod.
            reasons: Reasons that the document gives.
            counts: Recounted number of rejecting nodes per rule.
        """
        total = len(self.snapshot.nodes)
        said: Counter[str] = Counter()
        for reason in reasons:
            if reason.rule not in JUDGED | OTHERS and reason.rule not in counts:
                yield f"a reason is given by the rule {reason.rule!r}, and there is no such rule"
            elif not 0 <= reason.nodes <= total or (reason.nodes == 0) != (reason.rule == NO_NODES):
                yield f"{reason.rule} is said to reject the pod on {reason.nodes} nodes of {total}"
            elif reason.rule == "SchedulingGates":
                yield "the pod is said to be gated, and it is not"
            elif reason.rule == GANG and key not in self._gang_of:
                yield "a gang is given as a reason, and the pod is of none that is to be placed"
            elif reason.rule == NO_NODES and total:
                yield f"the snapshot is said to have no nodes, it has {total}"
            elif reason.rule not in OTHERS and said[reason.rule]:
                yield f"{reason.rule} is given as a reason twice"
            said[reason.rule] += reason.nodes
        for rule in sorted((said.keys() | counts.keys()) - OTHERS):
            if said[rule] != counts[rule]:
                yield f"{rule} is said to reject the pod on {said[rule]} nodes, it does on {counts[rule]}"
        if self._incomplete(key) and not any(reason.rule == GANG and reason.nodes == total for reason in reasons):
            yield "the gang of the pod is not placed, and that is not among the reasons"

    def _incomplete(self, key: str) -> bool:
        """Return True if the pod's gang must be placed whole, and the document places no member."""
        gang = self._gang_of.get(key)
        if gang is None or gang.needed <= 1:
            return False
        return not any(objects.pod_key(self.snapshot.pods[i]) in self._placed for i in gang.pods)

    def _counts_alone(self, key: str, reasons: Sequence[Reason]) -> bool:
        """Return True if neither the pod's gang nor an unchecked rule prevents placing it in addition to the others."""
        gang = self._gang_of.get(key)
        return (gang is None or (gang.key is None and not self._incomplete(key))) and not any(reason.rule in OTHERS for reason in reasons)

    def _proved(self, priority: int) -> bool:
        """Return True if a placed tier of the priority is proved."""
        return any(
            tier.tier == "placed" and tier.priority == priority and tier.bound == tier.value for tier in self.placement.objective
        )  # fmt: skip

    # --- causes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def alone(self) -> list[objects.Pod]:
        """The pods that fit nowhere even without the other pending pods, according to the causes; one pod per cause."""
        known = {objects.pod_key(pod): pod for pod in self.candidates()}
        first = [cause.pods[0] for cause in self.placement.causes if cause.pods and cause.alone and cause.together == 1]
        return [known[key] for key in dict.fromkeys(first) if key in known and key not in self._gang_of][: MAX_JUDGED_PAIRS // 10]

    def cause_faults(self, judge: JudgeProtocol | None) -> Iterator[Violation]:
        """Yield false statements of causes about the pods and nodes that they name.

        The solver proves that the facts exclude every placement; that is not checked here.

        Args:
            judge: The cluster without pending pods, for the pods of :meth:`alone`.
        """
        nodes = {node.metadata.name or "": node for node in self.snapshot.nodes}
        for cause in self.placement.causes:
            first = cause.pods[0] if cause.pods else ""
            for why in _wording_faults(cause, self.pods, nodes):
                yield Violation(first, "", DOCUMENT, why)
        numa = frozenset(node_topologies(self.placement.policy or DEFAULT, self.snapshot))
        for pod in self.alone if judge is not None and len(nodes) * len(self.placement.causes) <= MAX_JUDGED_PAIRS else ():
            assert judge is not None
            fits = next((name for name in nodes if name not in numa and not judge.faults(pod, name)), None)
            if fits is not None:
                why = "a cause says that the pod fits nowhere even without the other pending pods, and the node takes it then"
                yield Violation(objects.pod_key(pod), fits, DOCUMENT, why)


def _wording_faults(cause: Cause, pods: Mapping[str, objects.Pod], nodes: Mapping[str, objects.Node]) -> Iterator[str]:
    """Yield empty, repeated or unknown pods, facts and objects of a cause."""
    if not cause.pods:
        yield "a cause is given for no pod"
    if len(set(cause.pods)) < len(cause.pods):
        yield "a cause names a pod twice"
    if not cause.facts:
        yield "a cause holds no facts"
    if cause.together < 1 or (cause.together > len(cause.pods) and cause.gang is None):
        yield f"a cause of {len(cause.pods)} pods is said to ask for {cause.together} pods at once"
    for fact in cause.facts:
        if fact.rule not in JUDGED | OTHERS:
            yield f"a cause holds a fact of the rule {fact.rule!r}, and there is no such rule"
        kind, _, names = _MORE.sub("", fact.object).partition(" ")
        there = {"Pod": pods, "Node": nodes}.get(kind)
        for name in names.split(", ") if there is not None and names else ():
            if name.removeprefix(f"{kind} ") not in (there or ()) and " " not in name.removeprefix(f"{kind} "):
                yield f"a cause holds a fact about {kind} {name}, which the snapshot lacks"


def _verdict(judge: JudgeProtocol, pod: objects.Pod, nodes: Sequence[str], numa: frozenset[str]) -> tuple[Counter[str], str | None]:
    """Return the number of nodes on which each rule rejects a pod, and a node that accepts it.

    A node with a topology of NUMA zones never counts as accepting, because its kubelet may reject the pod.
    """
    counts: Counter[str] = Counter()
    fits = None
    for name in nodes:
        rejecting = {rule for rule, _ in judge.faults(pod, name)}
        rejecting |= judge.disturbed(pod, name)
        counts.update(rejecting)
        if not rejecting and fits is None and name not in numa:
            fits = name
    return counts, fits
