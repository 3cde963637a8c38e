"""The strategy RemovePodsViolatingTopologySpreadConstraint: evicts pods from domains whose sizes differ by more
than maxSkew.

Source: https://github.com/kubernetes-sigs/descheduler,
pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint/topologyspreadconstraint.go. Only evictable pods
count there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from kubestow.audit.descheduler.arguments import TopologySpread
from kubestow.audit.descheduler.plugin_run import PluginRun
from kubestow.models.kube.objects import TopologySpreadConstraint, is_terminating
from kubestow.models.kube.selectors import Bools, Selector, canonical, label_key_requirements, selector_matches


@dataclass
class _Domain:
    """A domain with its pods, sorted so that the first to evict is last."""

    value: str
    pods: list[int]


@dataclass(frozen=True)
class _SpreadConstraint:
    """A constraint shared by pods. ``nodes`` is bool[N]: nodes that its policies include."""

    key: str
    skew: int
    selector: Selector | None
    nodes: Bools

    def same(self, other: _SpreadConstraint) -> bool:
        mine, theirs = (self.key, self.skew, self.selector), (other.key, other.skew, other.selector)
        return mine == theirs and bool(np.array_equal(self.nodes, other.nodes))


def topology_spread(run: PluginRun, args: TopologySpread) -> None:
    """Collect pods over all namespaces and constraints, then evict them."""
    evictor = run.evictor
    facts = evictor.state.facts
    chosen = run.chosen(args)
    spaces: dict[str, list[int]] = {}
    for n in evictor.nodes:
        for i in evictor.state.on(n):
            if chosen(i) and evictor.may(i):
                spaces.setdefault(facts.pods[i].metadata.namespace or "default", []).append(i)
    doomed: dict[int, tuple[str, frozenset[int]]] = {}
    for pods in spaces.values():
        for constraint in _constraints(run, args, pods):
            domains = _domains(run, constraint, pods)
            sizes = [len(domain.pods) for domain in domains]
            if sizes and max(sizes) - min(sizes) > constraint.skew:
                _balance(run, args, constraint, domains, doomed)
    limited: set[int] = set()
    for i, (why, away) in doomed.items():
        n = evictor.state.at[i]
        if n in limited or not evictor.may(i) or not evictor.now(i):
            continue
        answer = run.evict(i, n, why, away=away)
        if answer == "node limit":
            limited.add(n)
        elif answer == "total limit":
            return


def _constraints(run: PluginRun, args: TopologySpread, pods: list[int]) -> list[_SpreadConstraint]:
    """Return the distinct constraints of pods."""
    wanted = args.constraints or ("DoNotSchedule",)
    found: list[_SpreadConstraint] = []
    for i in pods:
        for given in run.evictor.state.facts.pods[i].spec.topologySpreadConstraints or ():
            if given.whenUnsatisfiable in wanted:
                constraint = _read(run, i, given)
                if not any(constraint.same(known) for known in found):
                    found.append(constraint)
    return found


def _read(run: PluginRun, i: int, given: TopologySpreadConstraint) -> _SpreadConstraint:
    facts = run.evictor.state.facts
    nodes = np.ones(facts.table.size, dtype=bool)
    if (given.nodeAffinityPolicy or "Honor") == "Honor":
        nodes &= facts.selected(i)
    if (given.nodeTaintsPolicy or "Ignore") == "Honor":
        nodes &= facts.tolerated(i)
    keys = label_key_requirements(facts.pods[i].metadata.labels or {}, given.matchLabelKeys)
    return _SpreadConstraint(given.topologyKey, given.maxSkew, canonical(given.labelSelector, keys), nodes)


def _domains(run: PluginRun, constraint: _SpreadConstraint, pods: list[int]) -> list[_Domain]:
    """Return the domains of a constraint, smallest first, including domains with pods on excluded nodes only."""
    state = run.evictor.state
    facts = state.facts
    found: dict[str, list[int]] = {}
    for n in run.evictor.nodes:
        value = facts.table.labels(n).get(constraint.key)
        if value is not None and constraint.nodes[n]:
            found[value] = []
    for i in pods:
        metadata = facts.pods[i].metadata
        value = facts.table.labels(state.at[i]).get(constraint.key)
        if value is not None and not is_terminating(facts.pods[i]) and selector_matches(constraint.selector, metadata.labels or {}):
            found.setdefault(value, []).append(i)
    return sorted((_Domain(value, sorted(own, key=lambda i: _order(run, i))) for value, own in found.items()), key=lambda d: len(d.pods))


def _order(run: PluginRun, i: int) -> tuple[bool, bool, int]:
    """Return a sort key: pods with node rules first, then by priority.

    The descheduler evicts from the end of the list, so the most important pods are evicted first.
    """
    spec = run.evictor.state.facts.pods[i].spec
    asks = spec.nodeSelector is not None or (spec.affinity is not None and spec.affinity.nodeAffinity is not None)
    return not asks, spec.priority is not None, spec.priority or 0


def _balance(
    run: PluginRun,
    args: TopologySpread,
    constraint: _SpreadConstraint,
    domains: list[_Domain],
    doomed: dict[int, tuple[str, frozenset[int]]],
) -> None:
    """Move pods virtually from large to small domains until maxSkew holds or no move brings them closer to the average."""
    state = run.evictor.state
    average = Fraction(sum(len(domain.pods) for domain in domains), len(domains))
    below = [n for domain in domains if len(domain.pods) < average for n in _nodes(run, constraint, domain)]
    low, high = 0, len(domains) - 1
    while low < high:
        if len(domains[high].pods) <= average:
            high -= 1
        skew = len(domains[high].pods) - len(domains[low].pods)
        if skew <= constraint.skew:
            low += 1
            continue
        moved = min(ceil(len(domains[high].pods) - average), ceil(average - len(domains[low].pods)), -(-(skew - constraint.skew) // 2))
        if moved <= 0:
            low += 1
            continue
        pods = sorted(domains[high].pods, key=lambda i: state.fits_another(i, below))
        giving = pods[-moved:]
        domains[high].pods = pods[:-moved]
        why = f"{constraint.key}={domains[high].value} has {skew} more pods than {domains[low].value}, maxSkew {constraint.skew}"
        away = frozenset(_labelled(run, constraint, domains[high]))
        for i in giving:
            if not args.topologyBalanceNodeFit or state.fits_another(i, below):
                doomed.setdefault(i, (why, away))
        domains[low].pods = [*domains[low].pods, *giving]


def _labelled(run: PluginRun, constraint: _SpreadConstraint, domain: _Domain) -> Iterator[int]:
    table = run.evictor.state.facts.table
    return (n for n in range(table.size) if table.labels(n).get(constraint.key) == domain.value)


def _nodes(run: PluginRun, constraint: _SpreadConstraint, domain: _Domain) -> Iterator[int]:
    """Yield the counted nodes of a domain that the policy covers."""
    labelled = set(_labelled(run, constraint, domain))
    return (n for n in run.evictor.nodes if n in labelled and constraint.nodes[n])
