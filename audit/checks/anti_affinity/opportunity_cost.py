"""Capacity that required anti-affinity takes beyond requests: the opportunity cost (docs/sources.md#inter-pod-affinity)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import msgspec

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.headroom import RESOURCES, NodeHeadroom, words
from kubestow.audit.view.label_matches import LabelMatches
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.anti_affinity.opportunity_cost import Estimate, OpportunityCosts
from kubestow.models.documents.findings.audit import ClosedCapacity, Finding, OpportunityCost
from kubestow.models.kube.objects import Pod, pod_key

COST: Final = Code(
    "KS305", "anti-affinity-opportunity-cost", "info",
    "Required anti-affinity takes more capacity than its pods request",
    "The pods that the rule rejects cannot use the remaining capacity of the closed domain. Neither requests nor a quota on requests show"
    " this loss.",
    "Charge it to quotas (quotaCharge: opportunityCost in the policy of solve and check), select smaller nodes by node affinity, or make"
    " the rule preferred.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (COST,)


@dataclass(frozen=True)
class _Amount:
    """CPU (mCPU), memory (bytes) and a number of nodes."""

    values: tuple[Fraction, ...]
    nodes: Fraction

    def __add__(self, other: _Amount) -> _Amount:
        return _Amount(tuple(a + b for a, b in zip(self.values, other.values, strict=True)), self.nodes + other.nodes)

    def __mul__(self, count: int) -> _Amount:
        return _Amount(tuple(value * count for value in self.values), self.nodes * count)

    @property
    def text(self) -> str:
        shown = round(float(self.nodes), 3)
        return f"{shown:g} node{'s' * (shown != 1)} with {words([_whole(value) for value in self.values])}"

    def document(self) -> ClosedCapacity:
        cpu, memory = (_whole(value) for value in self.values)
        return ClosedCapacity(int(self.nodes) if self.nodes.denominator == 1 else round(float(self.nodes), 3), cpu, memory)


_NONE: Final = _Amount((Fraction(0),) * len(RESOURCES), Fraction(0))


@dataclass(frozen=True)
class _Closer:
    """A workload whose anti-affinity closes nodes to others.

    Attributes:
        subject: The workload.
        keys: Topology keys of its rules.
        each: Average and maximum closed by one pod, beyond its request.
        count: Desired number of pods.
        pods: Indices of the pods that close nodes now.
    """

    subject: Subject
    keys: tuple[str, ...]
    each: tuple[_Amount, _Amount]
    count: int
    pods: tuple[int, ...]


class Closers:
    """All workloads that close nodes now or will do so, with the closed capacity. Shared by the check and the document."""

    def __init__(self, view: ClusterView) -> None:
        self._view, self._room = view, view.once(NodeHeadroom)
        self._costs = OpportunityCosts(view.snapshot, view.exempt)
        self.all = list(self._find())

    def _find(self) -> Iterator[_Closer]:
        for s, subject in enumerate(self._view.subjects):
            if self._costs.keys(subject.pod) and not self._refuses(s):
                continue
            estimate = self._costs.estimate(subject.pod)
            running = tuple(i for i in subject.pods if self._costs.closed(self._view.snapshot.pods[i]))
            if estimate is None and not running:
                continue
            each = self._each(subject.pod, estimate)
            pods = (subject.pod, *(self._view.snapshot.pods[i] for i in running))
            keys = tuple(sorted({key for pod in pods for key in self._costs.keys(pod)}))
            found = _Closer(subject, keys, each, max(subject.wanted, len(subject.pods)), running)
            if any(each[1].values) or any(self.actual([found]).values):
                yield found

    def _refuses(self, s: int) -> bool:
        """Return True if required anti-affinity of workload ``s`` rejects pods of other workloads.

        A term that could match any pod counts even if it matches no existing pod.
        """
        matches = self._view.once(LabelMatches)
        for term in matches.terms[s]:
            if not (term.required and term.kind == "anti-affinity") or term.selector is None:
                continue
            hits = matches.hits(term.selector, term.namespaces)
            broad = all(requirement.operator not in ("In", "Exists") for requirement in term.selector)
            if broad or matches.subjects(hits, without=s) or matches.pods(hits, without=s):
                return True
        return False

    def _each(self, pod: Pod, estimate: Estimate | None) -> tuple[_Amount, _Amount]:
        """Return the average and maximum capacity closed by a pod, beyond its request."""
        if estimate is None:
            return _NONE, _NONE
        request = self._room.of(pod)
        average = tuple(max(Fraction(0), estimate.average.get(r, Fraction(0)) - a) for r, a in zip(RESOURCES, request, strict=True))
        largest = tuple(Fraction(max(0, estimate.largest.get(r, 0) - a)) for r, a in zip(RESOURCES, request, strict=True))
        return _Amount(average, estimate.average_nodes), _Amount(largest, Fraction(estimate.largest_nodes))

    def nodes(self, pods: Iterable[int]) -> list[int]:
        """Return the indices of the nodes that the given pods close now, ascending."""
        return sorted(frozenset[int]().union(*(self._costs.closed(self._view.snapshot.pods[i]) for i in pods)))

    def actual(self, closers: Sequence[_Closer]) -> _Amount:
        """Return the capacity that workloads close now beyond the requests of their pods there, counting each node once."""
        return self._beyond([i for each in closers for i in each.pods], [i for each in closers for i in each.subject.pods])

    def _beyond(self, closing: Sequence[int], pods: Iterable[int]) -> _Amount:
        used: dict[int, list[int]] = {}
        snapshot, index = self._view.snapshot, self._view.node_index
        for i in pods:
            node = index.get(snapshot.pods[i].spec.nodeName or "")
            if node is not None:
                before = used.get(node, [0] * len(RESOURCES))
                used[node] = [a + b for a, b in zip(before, self._room.of(snapshot.pods[i]), strict=True)]
        nodes, values = self.nodes(closing), [0] * len(RESOURCES)
        for n in nodes:
            pairs = zip(self._room.allocatable[n], used.get(n, [0] * len(RESOURCES)), strict=True)
            values = [total + max(0, int(have) - in_use) for total, (have, in_use) in zip(values, pairs, strict=True)]
        return _Amount(tuple(map(Fraction, values)), Fraction(len(nodes)))

    def entries(self, namespaces: Sequence[str]) -> list[OpportunityCost]:
        """Return the closed capacity by namespace, workload and pod, restricted to ``namespaces`` if given."""
        chosen = [each for each in self.all if not namespaces or each.subject.namespace in namespaces]
        spaces: dict[str, list[_Closer]] = {}
        for each in chosen:
            spaces.setdefault(each.subject.namespace, []).append(each)
        found = [self._entry("namespace", f"Namespace {name}", name, spaces[name]) for name in sorted(spaces)]
        found += [self._entry("workload", each.subject.name, each.subject.namespace, [each]) for each in chosen]
        return found + [entry for each in chosen for entry in self._pods(each)]

    def _entry(self, level: Literal["namespace", "workload"], name: str, namespace: str, closers: Sequence[_Closer]) -> OpportunityCost:
        average, largest = _NONE, _NONE
        for each in closers:
            average, largest = average + each.each[0] * each.count, largest + each.each[1] * each.count
        actual = self._of_namespace(namespace, closers) if level == "namespace" else self.actual(closers)
        count = sum(each.count for each in closers)
        return OpportunityCost(level, name, namespace, count, average.document(), largest.document(), actual.document())

    def _of_namespace(self, namespace: str, closers: Sequence[_Closer]) -> _Amount:
        """Return the closed capacity as a quota of the namespace counts it: minus all of its pods on the closed nodes."""
        pods = self._view.snapshot.pods
        own = [i for i in self._view.running if (pods[i].metadata.namespace or "default") == namespace]
        return self._beyond([i for each in closers for i in each.pods], own)

    def _pods(self, closer: _Closer) -> Iterator[OpportunityCost]:
        change, snapshot = msgspec.structs.replace, self._view.snapshot
        for i in closer.subject.pods:
            pod = snapshot.pods[i]
            free = Pod(pod.metadata, change(pod.spec, nodeName=None), pod.status)
            average, largest = self._each(free, self._costs.estimate(free))
            name, namespace = f"Pod {pod_key(pod)}", closer.subject.namespace
            actual = self._beyond([i], [i]).document() if i in closer.pods else None
            yield OpportunityCost("pod", name, namespace, 1, average.document(), largest.document(), actual)


def check(view: ClusterView) -> Iterator[Finding]:
    if not view.snapshot.nodes:
        return
    closers = view.once(Closers)
    for each in closers.all:
        subject, nodes = each.subject, [view.nodes.names[n] for n in closers.nodes(each.pods)]
        said = []
        if each.pods:
            several = len(each.pods) > 1
            requests_text = "their requests" if several else "its request"
            now = f"{len(each.pods)} running pod{'s close' if several else ' closes'} {closers.actual([each]).text} beyond {requests_text}"
            said.append(f"{now} ({some(nodes)})")
        if any(each.each[1].values) and (not each.pods or subject.kind != "Pod"):  # bare pods are not recreated
            who = "it" if subject.kind == "Pod" and each.count == 1 else "each new pod"
            average, largest = each.each
            wide = largest.text if average == largest else f"{average.text} on average, up to {largest.text},"
            said.append(f"{who} will close {wide} beyond its request")
        yield COST.found(
            subject.name, f"over {', '.join(each.keys)}: {'; '.join(said)}", field=f"{subject.path}.affinity.podAntiAffinity",
            rule="InterPodAffinity", pods=view.keys(each.pods), nodes=nodes[:20],
        )  # fmt: skip


def describe(view: ClusterView, namespaces: Sequence[str] = ()) -> list[OpportunityCost] | None:
    """Return the closed capacity by namespace, workload and pod. None if nothing is closed."""
    return (view.once(Closers).entries(namespaces) if view.snapshot.nodes else []) or None


def _whole(value: Fraction) -> int:
    """Return an amount in whole units, rounded up as quotas do."""
    return -(-value.numerator // value.denominator)
