"""Hard topology spread that can never hold for all replicas, or that a counted domain without usable nodes blocks.

A domain may hold at most the minimum over all counted domains plus maxSkew
(kubestow.solver.rules.pod_topology_spread.rule). The minimum cannot exceed the capacity of the smallest domain, which
bounds the pods in all other domains. This is an upper bound, because each constraint is judged alone and other
rules may reduce the capacity further.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.usable_nodes import SubjectNodes, UsableNodes, grave, running, wanted
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.admission.deprecated_labels import hint
from kubestow.models.cluster.cluster import Ints, Spread, domain_sum
from kubestow.models.documents.findings.audit import Finding, Severity
from kubestow.models.kube.selectors import Bools, selector_matches
from kubestow.models.snapshot.scope import select
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread, SpreadTally

_FEW: Final = Code(
    "KS401", "min-domains-missing", "error",
    "There are fewer domains than minDomains requires",
    "While domains are missing, the minimum counts as 0, so no domain takes more than maxSkew pods.",
    "Lower minDomains, raise maxSkew, or add nodes in more domains.",
)  # fmt: skip
_CLOSED: Final = Code(
    "KS402", "spread-blocked-by-closed-domain", "error",
    "A domain counts for the spread, but can take none of the pods",
    "Its pod count cannot rise and keeps the minimum low, so no other domain takes more than the minimum plus maxSkew. The remaining pods"
    " stay pending. Tainted nodes count too, unless nodeTaintsPolicy is Honor.",
    "Set nodeTaintsPolicy: Honor, exclude the nodes by node affinity, tolerate the taint, or raise maxSkew.",
)  # fmt: skip
_FULL: Final = Code(
    "KS403", "spread-blocked-by-full-domain", "warning",
    "A full domain prevents the spread from placing pending pods",
    "It keeps the minimum low. Other domains have room, but may take no more than the minimum plus maxSkew.",
    "Free capacity in that domain, add nodes to it, or raise maxSkew.",
)  # fmt: skip
_SMALL: Final = Code(
    "KS404", "skew-never-holds", "error",
    "Replicas cannot be spread over the existing domains within maxSkew",
    "The smallest domain takes too few pods even when empty, which limits all other domains. The remaining pods stay pending.",
    "Raise maxSkew, lower the number of replicas, or add nodes to the small domain.",
)  # fmt: skip
_KEY: Final = Code(
    "KS405", "spread-key-missing", "error",
    "No eligible node has the topology key of a hard spread constraint",
    "Nodes without the key are rejected, so none of its pods can be placed.",
    "Correct the topologyKey, label the nodes, or use ScheduleAnyway.",
)  # fmt: skip
_PART: Final = Code(
    "KS406", "spread-key-incomplete", "info",
    "Some eligible nodes lack the topology key of a spread constraint",
    "These nodes are rejected and do not count, so the workload cannot use their capacity.",
    "Label the nodes if they should take its pods.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_FEW, _CLOSED, _FULL, _SMALL, _KEY, _PART)


def check(view: ClusterView) -> Iterator[Finding]:
    hard = [s for s in view.subjects if s.kind != "DaemonSet" and _constraints(s)]
    if not hard:
        return
    if not view.snapshot.nodes:
        view.not_checked.append("whether topology spread can hold: the snapshot has no nodes")
        return
    fixed = select(view.snapshot).fixed
    if all(running(view, s) >= wanted(s) for s in hard):  # then no pod needs the free capacity
        spaces = {s.namespace for s in hard}
        fixed = [i for i in fixed if (view.snapshot.pods[i].metadata.namespace or "default") in spaces]
    usable_nodes = UsableNodes(view, hard, fixed)
    spread, fit = PodTopologySpread(usable_nodes.cluster), NodeResourcesFit(usable_nodes.cluster)
    for subject in hard:
        place = usable_nodes.place(subject)
        if not place.usable.any():
            continue  # KS211 to KS214 report this
        keyed = place.usable & usable_nodes.cluster.nodes.with_keys(s.key for s, _ in spread.own(place.g))
        yield from _keys(view, subject, place, keyed)
        if keyed.any():
            for constraint, index in spread.own(place.g):
                if index is not None and constraint.itself:
                    case = _Case(view, usable_nodes, subject, place, keyed, constraint, spread.tallies[index])
                    yield from case.judge(np.where(keyed, fit.room(place.g), 0))


def _lacking(view: ClusterView) -> dict[str, list[tuple[Subject, int]]]:
    """Return the workloads that lack pods, with the number of missing pods, by namespace."""
    found: dict[str, list[tuple[Subject, int]]] = {}
    for subject in view.subjects:
        number = wanted(subject) - running(view, subject)
        if number > 0:
            found.setdefault(subject.namespace, []).append((subject, number))
    return found


def _constraints(subject: Subject) -> list[int]:
    return [i for i, c in enumerate(subject.pod.spec.topologySpreadConstraints or ()) if c.whenUnsatisfiable == "DoNotSchedule"]


def _keys(view: ClusterView, subject: Subject, place: SubjectNodes, keyed: Bools) -> Iterator[Finding]:
    constraints = subject.pod.spec.topologySpreadConstraints or []
    for i in _constraints(subject):
        key, field = constraints[i].topologyKey, f"{subject.path}.topologySpreadConstraints[{i}].topologyKey"
        lacks = place.usable & ~view.nodes.with_keys([key])
        count, usable = int(np.count_nonzero(lacks)), int(np.count_nonzero(place.usable))
        names = [view.nodes.names[n] for n in np.flatnonzero(lacks)[:20]]
        if not keyed.any() and count:
            text = f"{'none' if count == usable else f'only {usable - count}'} of the {usable} nodes that it may use has the label {key}"
            text += hint([key], view.snapshot.nodes)
            yield _KEY.found(subject.name, text, field=field, rule="PodTopologySpread", nodes=names, severity=grave(view, subject))
        elif count:
            text = f"{count} of the {usable} nodes that it may use have no label {key}, and take none of its pods: {some(names)}"
            yield _PART.found(subject.name, text, field=field, rule="PodTopologySpread", nodes=names)


@dataclass
class _Case:
    """One spread constraint of one workload.

    Attributes:
        view: The cluster.
        usable_nodes: Eligibility of nodes.
        subject: The workload.
        place: Its nodes.
        keyed: bool[N]: the nodes that it may use.
        spread: The constraint.
        tally: Pods that count, by domain.
        aid: Missing pods of other workloads, which would raise the minimum in any domain.
    """

    view: ClusterView
    usable_nodes: UsableNodes
    subject: Subject
    place: SubjectNodes
    keyed: Bools
    spread: Spread
    tally: SpreadTally
    aid: int = 0

    def judge(self, room: Ints) -> Iterator[Finding]:
        """Yield the finding for the constraint, if any. ``room`` is int64[N]: the additional pods that each node can take now."""
        tally, view, subject = self.tally, self.view, self.subject
        desired, there = wanted(subject), running(view, subject)
        homes = self._own()
        own = domain_sum(tally.codes, tally.size, homes)
        others = tally.counts - own
        outside = max(0, there - int(own.sum()))  # on nodes that do not count for the spread
        self.aid = self._aid()
        none = np.zeros_like(homes)
        fresh, whole = self._whole(self.keyed, none), self._whole(self.keyed, homes)
        capacity, low = self._capacity(others, whole, own)
        again, shut = self._capacity(others, fresh)
        few = int(np.count_nonzero(tally.counted)) < self.spread.min_domains
        if few:
            yield self._few(desired, there, capacity + outside if desired > there else again)
        elif capacity + outside < desired <= int(whole.sum()) + outside:
            code = _SMALL if whole[low] else _CLOSED
            text = f"{self._head(low)}, so of {desired} replicas at most {capacity + outside} can run"
            yield self._found(code, text, low, "warning" if self._passes(others, homes, desired - outside) else grave(view, subject))
        elif desired > there:
            yield from self._now(room, None if whole[low] else low, desired - there)
        elif again < desired <= int(fresh.sum()):
            transient = self._passes(others, none, desired)
            text = f"{self._head(shut)}; all {there} run now, but if all {desired} were placed again, at most {again} could run"
            yield self._found(_SMALL if fresh[shut] else _CLOSED, text, shut, "info" if transient else grave(view, subject))
        elif not whole[low] and capacity < 2 * desired:  # worth reporting before the workload grows
            text = f"{self._head(low)}: no more than {capacity} pods can run, and {desired} are desired"
            yield self._found(_CLOSED, text, low, "info")

    def _passes(self, others: Ints, homes: Ints, desired: int) -> bool:
        """Return True if ``desired`` pods could run once nodes are uncordoned and healthy.

        Args:
            others: int64[D]: other pods that count.
            homes: int64[N]: its own pods.
            desired: Number of pods.
        """
        well = self.place.selected & ~self.place.small & (~self.place.tainted | self.usable_nodes.transient(self.subject))
        whole = self._whole(well & self.usable_nodes.cluster.nodes.with_keys((self.spread.key,)), homes)
        own = domain_sum(self.tally.codes, self.tally.size, homes)
        return grave(self.view, self.subject) != "info" and self._capacity(others, whole, own)[0] >= desired

    def _whole(self, nodes: Bools, homes: Ints) -> Ints:
        """Return int64[D]: the pods that the given nodes of each domain can take if nothing else runs there.

        ``homes`` is int64[N]: pods that keep running, even on cordoned nodes.
        """
        room = np.maximum(np.where(nodes, self.usable_nodes.empty(self.place.g), 0), homes)
        return domain_sum(self.tally.codes, self.tally.size, room)

    def _capacity(self, counts: Ints, room: Ints, stay: Ints | int = 0) -> tuple[int, int]:
        """Return the maximum number of pods that can be added, and the domain that limits the minimum.

        Args:
            counts: int64[D]: pods that count.
            room: int64[D]: capacity in pods.
            stay: int64[D]: pods to be added that already run, regardless of the constraint.
        """
        counted = self.tally.counted
        reachable = np.where(counted, counts + room + self.aid, np.iinfo(np.int64).max)
        low = int(np.argmin(reachable))
        floor = 0 if int(np.count_nonzero(counted)) < self.spread.min_domains else int(reachable[low])
        return int(np.minimum(room, np.maximum(stay, floor + self.spread.max_skew - counts)).sum()), low

    def _now(self, room: Ints, closed: int | None, missing: int) -> Iterator[Finding]:
        """Yield the finding for the current state, with the running pods in place."""
        tally = self.tally
        open_slots = np.minimum(domain_sum(tally.codes, tally.size, room), missing)
        capacity, low = self._capacity(tally.counts, open_slots)
        if capacity < missing <= int(open_slots.sum()):
            code = _CLOSED if closed == low else _FULL
            text = f"{self._head(low, full=code is _FULL)}, so of {missing} pods that do not run yet at most {capacity} can be placed"
            yield self._found(code, text, low, grave(self.view, self.subject))

    def _few(self, desired: int, there: int, capacity: int) -> Finding:
        count, spread = int(np.count_nonzero(self.tally.counted)), self.spread
        few = f"there {'is' if count == 1 else 'are'} {count}, each for at most {spread.max_skew}"
        upper_limit = min(desired, capacity)
        now = f"of {desired} replicas at most {upper_limit} can run"
        if desired <= there:
            now = f"all {there} run now, but if all {desired} were placed again, at most {upper_limit} could run"
        text = f"minDomains {spread.min_domains} over {spread.key}, and {few}: {now}"
        severity = grave(self.view, self.subject) if capacity < desired else "info"
        return _FEW.found(self.subject.name, text, field=self._field(), rule="PodTopologySpread", severity=severity)

    def _head(self, low: int, *, full: bool = False) -> str:
        nodes = int(np.count_nonzero(self.tally.eligible & (self.tally.codes == low)))
        slots, now = self._room(low), int(self.tally.counts[low])
        where = f"{self._domain(low)} ({nodes} node{'s' * (nodes != 1)}, {now} pod{'s' * (now != 1)} that count{'s' * (now == 1)})"
        takes = f"can take none of its pods ({self._why(low)})"
        if full:
            takes = "has no room for more"
        elif slots:
            takes = f"takes at most {slots} of its pods"
        return f"maxSkew {self.spread.max_skew} over {self.spread.key}: {where} {takes}"

    def _room(self, low: int) -> int:
        inside = self.keyed & (self.tally.codes == low)
        return int(np.where(inside, self.usable_nodes.empty(self.place.g), 0).sum())

    def _why(self, low: int) -> str:
        """Return the reasons why the counted nodes of domain ``low`` take none of the pods, as text."""
        inside, place = self.tally.eligible & (self.tally.codes == low), self.place
        reasons = {
            "tainted": place.tainted,
            "cordoned": place.cordoned,
            "too small": place.small,
            "excluded by node affinity": ~place.selected,
        }
        return ", ".join(text for text, mask in reasons.items() if (mask & inside).any())

    def _found(self, code: Code, text: str, low: int, severity: Severity) -> Finding:
        inside = self.tally.eligible & (self.tally.codes == low)
        why, fix = self._why(low), None
        if code is _CLOSED and "tainted" not in why:
            exempt = "set nodeAffinityPolicy: Honor" if "affinity" in why else "exclude its nodes by node affinity"
            fix = f"Make nodes of that domain usable again (uncordon, enlarge), {exempt}, or raise maxSkew."
        return code.found(
            self.subject.name, text, field=self._field(), rule="PodTopologySpread", domain=self._domain(low), fix=fix,
            nodes=[self.view.nodes.names[n] for n in np.flatnonzero(inside)[:20]],
            severity="warning" if code is _FULL else severity,
        )  # fmt: skip

    def _domain(self, d: int) -> str:
        return f"{self.spread.key}={self.view.nodes.column(self.spread.key)[1][d]}"

    def _own(self) -> Ints:
        """Return int64[N]: the number of the workload's own running pods on each node that the constraint counts."""
        tally, view = self.tally, self.view
        found = np.zeros(view.nodes.size, dtype=np.int64)
        assert self.spread.matcher is not None
        parts = self.usable_nodes.cluster.matchers.parts(self.spread.matcher)
        for i in self.subject.pods:
            n = view.node_index.get(view.snapshot.pods[i].spec.nodeName or "")
            if (
                n is not None
                and tally.eligible[n]
                and all(selector_matches(s, view.snapshot.pods[i].metadata.labels or {}) for _, s in parts)
            ):
                found[n] += 1
        return found

    def _aid(self) -> int:
        """Return the number of missing pods of other workloads that would count."""
        parts = self.usable_nodes.cluster.matchers.parts(self.spread.matcher or 0)
        return sum(
            number
            for other, number in self.view.once(_lacking).get(self.subject.namespace, ())
            if other is not self.subject and all(selector_matches(s, other.labels) for _, s in parts)
        )

    def _field(self) -> str:
        constraints = self.subject.pod.spec.topologySpreadConstraints or []
        same = (
            i
            for i in _constraints(self.subject)
            if (constraints[i].topologyKey, constraints[i].maxSkew, constraints[i].minDomains or 1)
            == (self.spread.key, self.spread.max_skew, self.spread.min_domains)
        )
        return f"{self.subject.path}.topologySpreadConstraints[{next(same)}]"
