"""Why pods are left, as a Placement tells it: each rule asked again on every node, beside all that is placed.

A pod that is left although a node takes it, with every filter and all spread constraints content, disproves the bound of its placed tier:
the same placement with this pod is better by one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import msgspec

from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Cause, Placement, Reason
from kubestow.models.documents.policy import DEFAULT, node_topologies
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: Rules that are asked again here.
JUDGED: Final = frozenset(
    {
        "BalloonsPolicy", "TopologyAwarePolicy",
        "DynamicResources", "InterPodAffinity", "LimitRanger", "NodeAffinity", "NodeDeclaredFeatures", "NodeName", "NodePorts",
        "NodeResourcesFit", "NodeUnschedulable", "NodeVolumeLimits", "PodNodeSelector", "PodOS", "PodTolerationRestriction",
        "PodTopologySpread", "ResourceQuota", "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
    }
)  # fmt: skip
GANG: Final = "GangScheduling"
NO_NODES: Final = "NoNodes"
#: Rules whose numbers are not counted again.
OTHERS: Final = frozenset({GANG, "NodeResourceTopologyMatch", NO_NODES, "SchedulingGates"})
#: Pods on nodes that are judged at most: a few seconds. Kinds of pods beyond that are not asked about, and that is said.
MOST: Final = 200_000
_MORE: Final = re.compile(r" and [0-9]+ more\Z")


class Judge(Protocol):
    """The cluster with all that is placed."""

    def faults(self, pod: objects.Pod, node_name: str) -> list[tuple[str, str]]: ...
    def disturbs(self, pod: objects.Pod, node_name: str) -> bool: ...
    def device_demand(self, pod: objects.Pod) -> object: ...


@dataclass
class Left:
    """The pods that a Placement leaves. ``gangs``: those of the pods to be placed; ``ranks``: the priority at which pods of gangs count;
    ``unjudged``: how many pods were not asked about in the end."""

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
        """Return the pods that will be judged, each once."""
        keys = dict.fromkeys(entry.pod for entry in self.placement.unplaced)
        return [self.pods[key] for key in keys if key in self.pods and self.refusals[key] is None and key not in self._placed]

    def faults(self, judge: Judge) -> Iterator[Violation]:
        """Yield reasons that are wrong or missing, and tiers that are not proved."""
        judged = {objects.pod_key(pod) for pod in self.candidates()}
        nodes = [node.metadata.name or "" for node in self.snapshot.nodes]
        policy = self.placement.policy or DEFAULT
        numa = frozenset(node_topologies(policy, self.snapshot))
        memo: dict[bytes, tuple[Counter[str], str | None]] = {}
        told: set[int] = set()
        for entry in self.placement.unplaced:
            if entry.pod not in judged:
                continue
            pod = self.pods[entry.pod]
            told_apart = pod.metadata.namespace, pod.metadata.labels, pod.metadata.annotations, pod.spec, judge.device_demand(pod)
            key = msgspec.json.encode(told_apart)
            if key not in memo:
                if (len(memo) + 1) * len(nodes) > MOST:
                    self.unjudged += 1
                    continue
                memo[key] = _verdict(judge, pod, nodes, numa)
            counts, fits = memo[key]
            for why in self._reason_faults(entry.pod, entry.reasons, counts):
                yield Violation(entry.pod, "", DOCUMENT, why)
            priority = self.ranks.get(entry.pod, pod.spec.priority or 0)
            if fits is not None and priority not in told and self._counts_alone(entry.pod, entry.reasons) and self._proved(priority):
                told.add(priority)
                why = f"the pod is left and the node takes it beside all others: the tier placed of priority {priority} is not proved"
                yield Violation(entry.pod, fits, DOCUMENT, why)

    def _reason_faults(self, key: str, reasons: Sequence[Reason], counts: Counter[str]) -> Iterator[str]:
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
        """Whether the pod is of a gang that has to be placed whole, and is not placed at all."""
        gang = self._gang_of.get(key)
        if gang is None or gang.needed <= 1:
            return False
        return not any(objects.pod_key(self.snapshot.pods[i]) in self._placed for i in gang.pods)

    def _counts_alone(self, key: str, reasons: Sequence[Reason]) -> bool:
        """Whether the pod could be placed beside the others as far as its gang and rules that are not asked here go."""
        gang = self._gang_of.get(key)
        return (gang is None or (gang.key is None and not self._incomplete(key))) and not any(reason.rule in OTHERS for reason in reasons)

    def _proved(self, priority: int) -> bool:
        return any(
            tier.tier == "placed" and tier.priority == priority and tier.bound == tier.value for tier in self.placement.objective
        )  # fmt: skip

    # --- causes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def alone(self) -> list[objects.Pod]:
        """Return the pods that are said to fit nowhere even without the other pending ones, one of each cause."""
        known = {objects.pod_key(pod): pod for pod in self.candidates()}
        first = [cause.pods[0] for cause in self.placement.causes if cause.pods and cause.alone and cause.together == 1]
        return [known[key] for key in dict.fromkeys(first) if key in known and key not in self._gang_of][: MOST // 10]

    def cause_faults(self, judge: Judge | None) -> Iterator[Violation]:
        """Yield what causes say wrongly of whom they speak of. ``judge``: of the cluster without pending pods, that :meth:`alone` are asked
        of. Whether the facts leave no placement is proved where they are found, not here."""
        nodes = {node.metadata.name or "": node for node in self.snapshot.nodes}
        for cause in self.placement.causes:
            first = cause.pods[0] if cause.pods else ""
            for why in _wording_faults(cause, self.pods, nodes):
                yield Violation(first, "", DOCUMENT, why)
        numa = frozenset(node_topologies(self.placement.policy or DEFAULT, self.snapshot))
        for pod in self.alone if judge is not None and len(nodes) * len(self.placement.causes) <= MOST else ():
            assert judge is not None
            fits = next((name for name in nodes if name not in numa and not judge.faults(pod, name)), None)
            if fits is not None:
                why = "a cause says that the pod fits nowhere even without the other pending pods, and the node takes it then"
                yield Violation(objects.pod_key(pod), fits, DOCUMENT, why)


def _wording_faults(cause: Cause, pods: Mapping[str, objects.Pod], nodes: Mapping[str, objects.Node]) -> Iterator[str]:
    if not cause.pods:
        yield "a cause is given for no pod"
    if len(set(cause.pods)) < len(cause.pods):
        yield "a cause names a pod twice"
    if not cause.facts:
        yield "a cause holds no facts"
    if cause.together < 1 or (cause.together > len(cause.pods) and cause.gang is None):
        yield f"a cause of {len(cause.pods)} pods is said to ask for {cause.together} of them at once"
    for fact in cause.facts:
        if fact.rule not in JUDGED | OTHERS:
            yield f"a cause holds a fact of the rule {fact.rule!r}, and there is no such rule"
        kind, _, names = _MORE.sub("", fact.object).partition(" ")
        there = {"Pod": pods, "Node": nodes}.get(kind)
        for name in names.split(", ") if there is not None and names else ():
            if name.removeprefix(f"{kind} ") not in (there or ()) and " " not in name.removeprefix(f"{kind} "):
                yield f"a cause holds a fact about {kind} {name}, which the snapshot lacks"


def _verdict(judge: Judge, pod: objects.Pod, nodes: Sequence[str], numa: frozenset[str]) -> tuple[Counter[str], str | None]:
    """On how many nodes each rule rejects a pod, and a node that takes it: none of those with a topology of zones, whose kubelet may
    refuse."""
    counts: Counter[str] = Counter()
    fits = None
    for name in nodes:
        rules = {rule for rule, _ in judge.faults(pod, name)}
        if "PodTopologySpread" not in rules and judge.disturbs(pod, name):
            rules.add("PodTopologySpread")
        counts.update(rules)
        if not rules and fits is None and name not in numa:
            fits = name
    return counts, fits
