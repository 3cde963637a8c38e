"""Gangs whose answer is known: planted-feasible ones fit in one way that was drawn first, and little else is left free.

The cluster is filled with running pods up to what the gang's planted placement takes. Room beyond that looks better than it is: emptier
nodes in domains that as a whole are too small, so that pods that choose one after the other go astray.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.instances.generate import draw
from kubestow.instances.generate.fleet import ZONE
from tests.instances.planted.gang_causes import CAUSES, Impossible, infeasible
from tests.instances.planted.gang_fleet import RACK, Racks, racks, running
from tests.instances.planted.gang_planting import Plan, Planting, demand, sums
from tests.instances.planted.gang_shapes import SHAPES, Shape
from tests.instances.planted.gang_templates import GANG, NAMESPACE, Template, namespaces

__all__ = ["CAUSES", "Impossible", "Planted", "feasible", "infeasible"]

Object = dict[str, Any]

_NODES: Final = ((5, 50, 200), (3, 201, 500), (2, 501, 1000))
_PODS: Final = ((4, 8, 48), (3, 49, 160), (2, 161, 512))
#: Percent of the planted room that the nodes of the gang have to spare, by weight.
_SLACK: Final = ((1, 0), (2, 5), (2, 15))
#: Percent of what must stay together that fits into a domain that looks good; of a gang that may go anywhere, where such room helps.
_DECOY: Final = 75
_EASE: Final = 5
_ATTEMPTS: Final = 60


@dataclass(frozen=True)
class Planted:
    """A planted gang. ``placement``: the nodes of the replicas of each workload (by name), any pod of it on any of them; with all pods in
    one unit every rule is met. ``shape``: what kind of gang it is."""

    snapshot: list[Object]
    manifests: list[Object]
    placement: dict[str, list[str]]
    shape: str
    gang: str = f"{NAMESPACE}/{GANG}"
    sizes: dict[str, int] = field(default_factory=dict)


def feasible(
    seed: int, *, nodes: int | None = None, pods: int | None = None, usage: int | None = None, shape: str | None = None
) -> Planted:
    """A cluster, a gang and its places; omitted arguments are random: 50 to 1,000 nodes, a gang of 8 to 512 pods in 1 to 8 templates,
    running pods that request ``usage`` (80 to 98) percent of all CPUs.

    Raises:
        ValueError: no such gang fits (more pods than the nodes can take).
    """
    for attempt in range(_ATTEMPTS):
        rng = random.Random(f"kubestow/gang/{seed}/{nodes}/{pods}/{usage}/{shape}/{attempt}")
        size = nodes or _between(rng, _NODES)
        full = usage or rng.randint(80, 98)
        name = shape or sorted(SHAPES)[seed % len(SHAPES)]
        count = max(pods or _between(rng, _PODS), 2 * SHAPES[name])
        fleet = racks(rng, size)
        drawn = Shape(rng, fleet, name, count, min(max(rng.randint(1, 8), SHAPES[name]), count // 2))
        planted = _plant(rng, fleet, drawn.plans, full)
        if planted is not None:
            room = _room(rng, fleet, drawn, planted, full)
            return Planted(
                snapshot=[*fleet.objects(), *namespaces(), *running(rng, fleet, room)],
                manifests=[drawn.plans[t].template.manifest(GANG, drawn.required) for t in drawn.order],
                placement={drawn.plans[t].template.name: [fleet.name(n) for n in planted.on[t]] for t in drawn.order},
                shape=name,
                sizes={"nodes": size, "pods": count, "templates": len(drawn.plans), "usage": full},
            )
    raise ValueError(f"no gang of {pods} pods can be planted on {nodes} nodes at {usage} %")


def _between(rng: random.Random, menu: tuple[tuple[int, int, int], ...]) -> int:
    low, high = draw.pick(rng, [(weight, (low, high)) for weight, low, high in menu])
    return rng.randint(low, high)


def _plant(rng: random.Random, fleet: Racks, plans: list[Plan], usage: int) -> Planting | None:
    """The gang on an empty cluster, smaller and smaller pods until they fit."""
    for ease in (85, 75, 65, 50, 35, 20):
        demand(fleet, plans, usage, ease)
        planting = Planting(rng, fleet, plans)
        if 100 * sums(plans)[0] <= (100 - usage) * sum(fleet.cpu) and planting.run():
            return planting
    return None


def _room(rng: random.Random, fleet: Racks, drawn: Shape, planted: Planting, usage: int) -> list[tuple[int, int]]:
    """mCPU and MiB that running pods leave on each node."""
    slack = draw.pick(rng, [(weight, (value,)) for weight, value in _SLACK])[0]
    room = [(cpu * (100 + slack) // 100, memory * (100 + slack) // 100) for cpu, memory, _ in planted.held]
    templates = [plan.template for plan in drawn.plans]
    left = sum(fleet.cpu) * (100 - usage) // 100 - sum(cpu for cpu, _ in room)
    left = _decoys(rng, fleet, drawn, room, left)
    _crumbs(rng, fleet, room, left, templates)
    return room


def _decoys(rng: random.Random, fleet: Racks, drawn: Shape, room: list[tuple[int, int]], left: int) -> int:
    """Nodes emptier than those of the gang, in domains that are too small for what must stay together; returns the room still to give."""
    homes = {plan.home for plan in drawn.plans if plan.home is not None}
    key = drawn.required or (sorted(homes)[0][0] if homes else draw.pick(rng, ((1, RACK), (1, ZONE))))
    together = [plan for plan in drawn.plans if plan.home is not None] or drawn.plans
    cpu, memory = sums(together)
    taken = {fleet.domain(k, n) for k, domains in homes for d in domains for n in fleet.members(k)[d] if k == key}
    part = _DECOY if homes else _EASE
    budget = {d: [cpu * part // 100, memory * part // 100] for d in range(len(fleet.members(key))) if d not in taken}
    order = [n for n in range(len(fleet)) if not room[n][0] and fleet.domain(key, n) in budget]
    rng.shuffle(order)
    for n in order:
        most = budget[fleet.domain(key, n)]
        full = rng.randint(50, 80)
        give = min(fleet.cpu[n] * full // 100, most[0], left), min(fleet.memory[n] * full // 100, most[1])
        if give[0] < 10 or give[1] < 8:
            continue
        room[n] = give
        most[0] -= give[0]
        most[1] -= give[1]
        left -= give[0]
    return left


def _crumbs(rng: random.Random, fleet: Racks, room: list[tuple[int, int]], left: int, templates: list[Template]) -> None:
    """CPU that is of no use: on nodes whose memory is taken up."""
    least = min(template.memory for template in templates) - 1
    order = [n for n in range(len(fleet)) if not room[n][0]]
    rng.shuffle(order)
    for n in order:
        if left <= 0:
            return
        give = min(left, fleet.cpu[n] * rng.randint(20, 70) // 100)
        room[n] = give, rng.randint(0, least)
        left -= give
