"""The strategy RemovePodsViolatingTopologySpreadConstraint: domains whose sizes differ by more than maxSkew give up pods.

Source: https://github.com/kubernetes-sigs/descheduler,
pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint/topologyspreadconstraint.go. Only pods that may be evicted count there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from kubestow.audit.descheduler.arguments import TopologySpread
from kubestow.audit.descheduler.turn import Turn
from kubestow.models.kube.objects import TopologySpreadConstraint, is_terminating
from kubestow.models.kube.selectors import Bools, Selector, canonical, label_key_requirements, selector_matches


@dataclass
class _Domain:
    """A domain, with its pods in the order in which they are given up, the first to go at the end."""

    value: str
    pods: list[int]


@dataclass(frozen=True)
class _Constraint:
    """A constraint as pods share it. ``nodes``: bool[N], those that its policies include."""

    key: str
    skew: int
    selector: Selector | None
    nodes: Bools

    def same(self, other: _Constraint) -> bool:
        mine, theirs = (self.key, self.skew, self.selector), (other.key, other.skew, other.selector)
        return mine == theirs and bool(np.array_equal(self.nodes, other.nodes))


def topology_spread(turn: Turn, args: TopologySpread) -> None:
    """Collect pods over all namespaces and constraints, then evict them."""
    evictor = turn.evictor
    facts = evictor.world.facts
    chosen = turn.chosen(args)
    spaces: dict[str, list[int]] = {}
    for n in evictor.nodes:
        for i in evictor.world.on(n):
            if chosen(i) and evictor.may(i):
                spaces.setdefault(facts.pods[i].metadata.namespace or "default", []).append(i)
    doomed: dict[int, tuple[str, frozenset[int]]] = {}
    for pods in spaces.values():
        for constraint in _constraints(turn, args, pods):
            domains = _domains(turn, constraint, pods)
            sizes = [len(domain.pods) for domain in domains]
            if sizes and max(sizes) - min(sizes) > constraint.skew:
                _balance(turn, args, constraint, domains, doomed)
    limited: set[int] = set()
    for i, (why, away) in doomed.items():
        n = evictor.world.at[i]
        if n in limited or not evictor.may(i) or not evictor.now(i):
            continue
        answer = turn.evict(i, n, why, away=away)
        if answer == "node limit":
            limited.add(n)
        elif answer == "total limit":
            return


def _constraints(turn: Turn, args: TopologySpread, pods: list[int]) -> list[_Constraint]:
    """Return the constraints of pods, equal ones once."""
    wanted = args.constraints or ("DoNotSchedule",)
    found: list[_Constraint] = []
    for i in pods:
        for given in turn.evictor.world.facts.pods[i].spec.topologySpreadConstraints or ():
            if given.whenUnsatisfiable in wanted:
                constraint = _read(turn, i, given)
                if not any(constraint.same(known) for known in found):
                    found.append(constraint)
    return found


def _read(turn: Turn, i: int, given: TopologySpreadConstraint) -> _Constraint:
    facts = turn.evictor.world.facts
    nodes = np.ones(facts.table.size, dtype=bool)
    if (given.nodeAffinityPolicy or "Honor") == "Honor":
        nodes &= facts.selected(i)
    if (given.nodeTaintsPolicy or "Ignore") == "Honor":
        nodes &= facts.tolerated(i)
    keys = label_key_requirements(facts.pods[i].metadata.labels or {}, given.matchLabelKeys)
    return _Constraint(given.topologyKey, given.maxSkew, canonical(given.labelSelector, keys), nodes)


def _domains(turn: Turn, constraint: _Constraint, pods: list[int]) -> list[_Domain]:
    """Return the domains of a constraint, the smallest first; such as only excluded nodes with pods have are among them."""
    world = turn.evictor.world
    facts = world.facts
    found: dict[str, list[int]] = {}
    for n in turn.evictor.nodes:
        value = facts.table.labels(n).get(constraint.key)
        if value is not None and constraint.nodes[n]:
            found[value] = []
    for i in pods:
        metadata = facts.pods[i].metadata
        value = facts.table.labels(world.at[i]).get(constraint.key)
        if value is not None and not is_terminating(facts.pods[i]) and selector_matches(constraint.selector, metadata.labels or {}):
            found.setdefault(value, []).append(i)
    return sorted((_Domain(value, sorted(own, key=lambda i: _order(turn, i))) for value, own in found.items()), key=lambda d: len(d.pods))


def _order(turn: Turn, i: int) -> tuple[bool, bool, int]:
    """Sort pods that ask for nodes first, then by priority: the descheduler takes the last of a list, so the most important go first."""
    spec = turn.evictor.world.facts.pods[i].spec
    asks = spec.nodeSelector is not None or (spec.affinity is not None and spec.affinity.nodeAffinity is not None)
    return not asks, spec.priority is not None, spec.priority or 0


def _balance(
    turn: Turn, args: TopologySpread, constraint: _Constraint, domains: list[_Domain], doomed: dict[int, tuple[str, frozenset[int]]]
) -> None:
    """Let large domains give pods to small ones, on paper, until they are within maxSkew or as near to the average as can be."""
    world = turn.evictor.world
    average = Fraction(sum(len(domain.pods) for domain in domains), len(domains))
    below = [n for domain in domains if len(domain.pods) < average for n in _nodes(turn, constraint, domain)]
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
        pods = sorted(domains[high].pods, key=lambda i: world.fits_another(i, below))
        giving = pods[-moved:]
        domains[high].pods = pods[:-moved]
        why = f"{constraint.key}={domains[high].value} has {skew} more than {domains[low].value}, maxSkew {constraint.skew}"
        away = frozenset(_labelled(turn, constraint, domains[high]))
        for i in giving:
            if not args.topologyBalanceNodeFit or world.fits_another(i, below):
                doomed.setdefault(i, (why, away))
        domains[low].pods = [*domains[low].pods, *giving]


def _labelled(turn: Turn, constraint: _Constraint, domain: _Domain) -> Iterator[int]:
    table = turn.evictor.world.facts.table
    return (n for n in range(table.size) if table.labels(n).get(constraint.key) == domain.value)


def _nodes(turn: Turn, constraint: _Constraint, domain: _Domain) -> Iterator[int]:
    """Yield the nodes of a domain that count and that the policy operates over."""
    labelled = set(_labelled(turn, constraint, domain))
    return (n for n in turn.evictor.nodes if n in labelled and constraint.nodes[n])
