"""Hard rules and preferences of synthetic workloads.

A rule is drawn only if a sane engineer could have written it. :mod:`kubestow.instances.generate.planting` then
determines whether it can be met together with everything drawn before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from kubestow.instances.generate.draw import chance, pick
from kubestow.instances.generate.fleet import ARCH, HOST, POOL, TYPE, ZONE, Bools, Fleet, zone_name
from kubestow.instances.generate.planting import Planter, Rule
from kubestow.instances.generate.workload import Wishes, Workload

Object = dict[str, Any]

#: Kinds of hard rules, by weight.
HARD: Final = (
    (30, "host-anti-affinity"), (25, "zone-spread"), (8, "host-spread"), (9, "zone"), (6, "instance-type"), (5, "arch"), (4, "pool"),
    (9, "zone-affinity"), (4, "host-port"),
)  # fmt: skip
#: Percentage of workloads with a hard rule that have a second one of another kind.
SECOND_PERCENT: Final = 20
#: Kinds of preferences, by weight.
SOFT: Final = ((30, "host-anti-affinity"), (15, "zone-anti-affinity"), (20, "zone-affinity"), (20, "node-affinity"), (15, "spread"))
_WEIGHTS: Final = ((2, 10), (2, 20), (3, 50), (1, 80), (3, 100))
_PORTS: Final = (8080, 8443, 9090, 9100, 10250, 30053)
#: Mutually exclusive kinds: a workload has at most one, because they narrow the same choice.
_NODES: Final = frozenset({"zone", "instance-type", "arch", "pool", "zone-affinity"})
_ZONES: Final = frozenset({"zone-spread", "zone-affinity"})


class Rules:
    """Draws rules for the workloads of one cluster."""

    def __init__(self, rng: random.Random, fleet: Fleet, planter: Planter) -> None:
        self._rng, self._fleet, self._planter = rng, fleet, planter
        self._masks: dict[tuple[str, tuple[str, ...]], Bools] = {}
        self._made: dict[str, list[tuple[int, Workload]]] = {}

    def planted(self, index: int, workload: Workload) -> None:
        """Register a planted workload, to which others of its namespace may have affinity."""
        self._made.setdefault(workload.namespace, []).append((index, workload))

    def nodes(self, key: str, values: Sequence[str]) -> Bools:
        """Return bool[N], True for nodes whose label ``key`` has one of the values."""
        at = (key, tuple(values))
        if at not in self._masks:
            self._masks[at] = self._fleet.where(key, values)
        return self._masks[at]

    def hard(self, workload: Workload) -> list[Rule]:
        """Draw one or two hard rules; none if no sensible one was drawn."""
        first = pick(self._rng, HARD)
        kinds = [first]
        if chance(self._rng, SECOND_PERCENT):
            second = pick(self._rng, HARD)
            if second != first and not {first, second} <= _NODES and {first, second} != _ZONES:
                kinds.append(second)
        return [rule for rule in (self._hard(kind, workload) for kind in kinds) if rule is not None]

    def soft(self, workload: Workload) -> Wishes:
        """Draw one or two preferences of different kinds."""
        first, second = pick(self._rng, SOFT), pick(self._rng, SOFT)
        found = self._soft(first, workload)
        return found + self._soft(second, workload) if second != first and chance(self._rng, 40) else found

    # --- hard -----------------------------------------------------------------------------------------------------------

    def _hard(self, kind: str, workload: Workload) -> Rule | None:
        # At most half of the nodes, so that a missing or busy node does not matter.
        apart = 2 * workload.replicas <= len(self._fleet)
        if kind == "host-anti-affinity":
            return Rule(Wishes(anti=[term(workload.name, HOST)]), per_node=1) if apart else None
        if kind == "zone-spread":
            skew = pick(self._rng, ((60, 1), (40, 2)))
            return Rule(Wishes(spread=[spread(workload.name, ZONE, skew, "DoNotSchedule")]), skew=skew)
        if kind == "host-spread":
            skew = pick(self._rng, ((40, 1), (60, 2)))
            return Rule(Wishes(spread=[spread(workload.name, HOST, skew, "DoNotSchedule")]), per_node=skew) if apart else None
        if kind == "host-port":
            port = _PORTS[self._rng.randrange(len(_PORTS))]
            return Rule(per_node=1, port=port) if 8 * workload.replicas <= len(self._fleet) else None
        if kind == "zone-affinity":
            return self._near(workload)
            # Dedicated nodes are already selected by their pool.
        return self._node_rule(kind) if workload.pool is None else None

    def _node_rule(self, kind: str) -> Rule | None:
        if kind == "zone":
            zones = self._some_zones()
            return Rule(Wishes(node=[label_in(ZONE, zones)]), nodes=self.nodes(ZONE, zones))
        if kind == "instance-type":
            types = pick(self._rng, ((3, ["std.xlarge", "std.2xlarge"]), (2, ["std.large", "std.xlarge"]), (1, ["arm.xlarge"])))
            return Rule(Wishes(node=[label_in(TYPE, types)]), nodes=self.nodes(TYPE, types))
        key, value = (ARCH, pick(self._rng, ((4, "amd64"), (1, "arm64")))) if kind == "arch" else (
            POOL, pick(self._rng, ((6, "standard"), (1, "highmem"))))  # fmt: skip
        return Rule(Wishes(selector={key: value}), nodes=self.nodes(key, [value]))

    def _near(self, workload: Workload) -> Rule | None:
        others = self._made.get(workload.namespace, [])
        if not others:
            return None
        index, other = others[self._rng.randrange(len(others))]
        zones = self._planter.zones_of(other.on)
        return Rule(Wishes(affine=[term(other.name, ZONE)]), zones=zones, provider=index)

    def _some_zones(self) -> list[str]:
        """Draw all zones but one, or half of the zones."""
        size = self._fleet.n_zones
        zones = [zone_name(z) for z in range(size)]
        self._rng.shuffle(zones)
        return sorted(zones[: max(1, size - 1 if chance(self._rng, 70) else size // 2)])

    # --- soft -----------------------------------------------------------------------------------------------------------

    def _soft(self, kind: str, workload: Workload) -> Wishes:
        rng = self._rng
        weight = pick(rng, _WEIGHTS)
        if kind == "host-anti-affinity":
            return Wishes(prefers_anti=[{"weight": weight, "podAffinityTerm": term(workload.name, HOST)}])
        if kind == "zone-anti-affinity":
            return Wishes(prefers_anti=[{"weight": weight, "podAffinityTerm": term(workload.name, ZONE)}])
        if kind == "spread":
            key = pick(rng, ((1, HOST), (2, ZONE)))
            return Wishes(spread=[spread(workload.name, key, rng.randint(1, 3), "ScheduleAnyway")])
        others = self._made.get(workload.namespace, [])
        if kind == "zone-affinity" and others:
            other = others[rng.randrange(len(others))][1]
            return Wishes(prefers_affine=[{"weight": weight, "podAffinityTerm": term(other.name, ZONE)}])
        key, values = pick(
            rng, ((2, (ZONE, self._some_zones())), (2, (TYPE, ["std.2xlarge"])), (1, (ARCH, ["arm64"])), (1, (POOL, ["highmem"])))
        )
        return Wishes(prefers_node=[{"weight": weight, "preference": {"matchExpressions": [label_in(key, values)]}}])


def label_in(key: str, values: Sequence[str]) -> Object:
    """Return the match expression of a label with one of the values."""
    return {"key": key, "operator": "In", "values": list(values)}


def term(app: str, key: str) -> Object:
    """Return the affinity term for pods of a workload in the same domain."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def spread(app: str, key: str, skew: int, otherwise: str) -> Object:
    """Return the constraint that spreads pods of a workload evenly over the domains."""
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": otherwise, "labelSelector": {"matchLabels": {"app": app}}}
