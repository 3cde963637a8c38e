"""Shapes of planted gangs: templates that need each other, one domain for all, or separate rules for each template."""

from __future__ import annotations

import random
from typing import Final

from kubestow.instances.generate import draw
from kubestow.instances.generate.fleet import HOST, ZONE
from tests.instances.planted.gang_fleet import DISK, RACK, Racks
from tests.instances.planted.gang_planting import Plan
from tests.instances.planted.gang_templates import Template, even, near

#: Shape and the fewest templates it has.
SHAPES: Final = {"rack": 1, "zone": 1, "mutual": 2, "ring": 3, "self": 1, "group": 2, "spread": 1, "apart": 1}
_KINDS: Final = ((5, "Deployment"), (3, "StatefulSet"), (2, "Job"))
_ROLES: Final = ("worker", "server", "store", "queue", "proxy", "loader", "cache", "monitor")
_OWN: Final = (
    (25, "none"), (15, "apart"), (12, "host-spread"), (10, "fast"), (8, "port"), (12, "zone-spread"), (8, "rack-spread"), (6, "rack-apart"),
    (10, "foe"), (14, "follow"), (5, "dedicated"),
)  # fmt: skip
#: The same for gangs whose shape is nothing but these.
_MORE: Final = {
    "spread": ((6, "zone-spread"), (5, "rack-spread"), (4, "host-spread"), (2, "foe"), (2, "follow"), (1, "none")),
    "apart": ((5, "apart"), (3, "rack-apart"), (4, "foe"), (3, "port"), (3, "fast"), (2, "dedicated"), (2, "host-spread")),
}


class Shape:
    """Draws the plans of a gang of ``pods`` pods in ``templates`` templates; ``required``: the key of its own topology, if it has one."""

    def __init__(self, rng: random.Random, fleet: Racks, name: str, pods: int, templates: int) -> None:
        self._rng, self._fleet, self.required = rng, fleet, None if name not in ("rack", "zone") else RACK if name == "rack" else ZONE
        weights = [rng.randint(1, 10) for _ in range(templates)]
        least = 2
        replicas = [least + (pods - least * templates) * w // sum(weights) for w in weights]
        replicas[0] += pods - sum(replicas)
        self.plans = [
            Plan(
                Template(f"{role}-{i}", draw.pick(rng, _KINDS), count),
                weight=draw.pick(rng, ((2, 2), (3, 4), (2, 6), (2, 8), (1, 16))),
                ratio=rng.randint(1, 4),
            )
            for i, (role, count) in enumerate(zip(_ROLES, replicas, strict=False))
        ]
        self._menu = _MORE.get(name, _OWN)
        self._taken = 0
        getattr(self, f"_{name}")()
        for t in range(self._taken, templates):
            self._own(t)
        rng.shuffle(order := list(range(templates)))
        #: Places in ``plans``, in which the manifests are listed.
        self.order = order

    # --- shapes -----------------------------------------------------------------------------------------------------------

    def _rack(self) -> None:
        self._everybody(RACK)

    def _zone(self) -> None:
        self._everybody(ZONE)

    def _everybody(self, key: str) -> None:
        home = (key, (self._some(key),))
        for plan in self.plans:
            plan.home = home

    def _mutual(self) -> None:
        """Two templates that need each other, each over a key of its own."""
        a, b = self.plans[:2]
        keys = draw.pick(self._rng, ((3, (RACK, RACK)), (3, (ZONE, ZONE)), (2, (RACK, ZONE)), (2, (ZONE, RACK))))
        rack = self._some(RACK)
        node = self._fleet.rack.index(rack)
        for plan, other, key in ((a, b, keys[0]), (b, a, keys[1])):
            plan.template.affine.append(near({"app": other.template.name}, key))
            plan.home = (key, (self._fleet.domain(key, node),))
        if keys[0] != keys[1]:  # the wide one is near the narrow one
            (a if keys[0] == ZONE else b).cover.append((RACK, rack))
        self._taken = 2

    def _ring(self) -> None:
        """A needs B needs C needs A, in a domain or two."""
        ring = self.plans[:3]
        key = draw.pick(self._rng, ((2, RACK), (1, ZONE)))
        count = min(self._rng.randint(1, 2), *(plan.template.replicas for plan in ring))
        domains = tuple(self._rng.sample(range(len(self._fleet.members(key))), count))
        for i, plan in enumerate(ring):
            plan.template.affine.append(near({"app": ring[(i + 1) % 3].template.name}, key))
            plan.home, plan.cover = (key, domains), [(key, d) for d in domains]
        self._taken = 3

    def _self(self) -> None:
        """A template that wants to be together, the others as they like."""
        key = draw.pick(self._rng, ((3, RACK), (2, ZONE)))
        first = self.plans[0]
        first.template.affine.append(near({"app": first.template.name}, key))
        first.home = (key, (self._some(key),))
        self._taken = 1

    def _group(self) -> None:
        """Two templates or more that carry one label and want to be with all that carry it."""
        key = draw.pick(self._rng, ((3, RACK), (2, ZONE)))
        home = (key, (self._some(key),))
        self._taken = self._rng.randint(2, len(self.plans))
        for plan in self.plans[: self._taken]:
            plan.template.labels["example.com/flock"] = "one"
            plan.template.affine.append(near({"example.com/flock": "one"}, key))
            plan.home = home

    def _spread(self) -> None:
        """Nothing but rules of each template's own."""

    _apart = _spread

    def _some(self, key: str) -> int:
        return self._rng.randrange(len(self._fleet.members(key)))

    # --- rules of each template -------------------------------------------------------------------------------------------

    def _own(self, t: int) -> None:
        """A rule for a template, if the one drawn is sensible there."""
        rng, plan, fleet = self._rng, self.plans[t], self._fleet
        template, open_ = plan.template, plan.home is None
        room = len(plan.nodes(fleet)) * 6 // 10
        rule = draw.pick(rng, self._menu)
        if rule == "apart" and template.replicas <= room:
            template.anti.append(near({"app": template.name}, HOST))
            plan.per_node = 1
        elif rule == "host-spread":
            skew = rng.randint(1, 3)
            if template.replicas <= skew * room:  # nodes without any count: the minimum is 0
                template.spread.append(even(template.name, HOST, skew))
                plan.per_node = skew
        elif rule == "fast":
            template.selector[DISK] = "fast"
        elif rule == "port" and template.replicas <= room // 2:
            template.port = 20_000 + t
            plan.per_node = 1
        elif rule in ("zone-spread", "rack-spread") and open_:
            key, skew = (ZONE if rule == "zone-spread" else RACK), rng.randint(1, 2)
            template.spread.append(even(template.name, key, skew))
            plan.even = (key, skew)
        elif rule == "rack-apart" and open_ and template.replicas <= len(fleet.members(RACK)) * 8 // 10:
            template.anti.append(near({"app": template.name}, RACK))
            plan.per_domain = RACK
        elif rule == "foe" and t and self.plans[other := rng.randrange(t)].after is None:
            template.anti.append(near({"app": self.plans[other].template.name}, HOST))
            plan.foes.add(other)
        elif rule == "follow" and t and (open_ or self.required):
            leader, key = rng.randrange(t), draw.pick(rng, ((3, RACK), (2, ZONE), (1, HOST)))
            template.affine.append(near({"app": self.plans[leader].template.name}, key))
            plan.after = (leader, key)
        elif rule == "dedicated":
            template.tolerates = True
