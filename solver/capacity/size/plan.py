"""A purchase with the pods of each node, and the changes of it that keep all rules between nodes satisfied.

Some rules tie a class to domains larger than a node, for example spread or affinity over zones. Such classes
keep their numbers by domain when nodes are repacked; all other classes go where they fit. So a valid plan
stays valid, except for rules over hostnames. These are checked node by node as far as possible, and the trial
of the plan decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.partition import equivalence
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.solver.capacity.size.brands import HOSTNAME, Menu
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.trial import PurchaseTrial, Start


@dataclass
class Bought:
    """A purchased node: its brand and its pods by class."""

    brand: int
    pods: dict[int, int]


@dataclass
class PurchasePlan:
    """A purchase and its packing.

    Attributes:
        nodes: Purchased nodes.
        there: Pods by class on existing nodes, by name.
    """

    nodes: list[Bought]
    there: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass
class Local:
    """The data that packing needs of the menu, in small integers.

    Shapes: G classes, B brands, R resources with pod slots last.

    Attributes:
        demand: int64[G, R], requests, each resource in the largest unit that divides all requests.
        room: int64[B, R], free resources of an empty node, in the same units.
        max_pods: int64[G, B], the maximum number of pods of a class on a node.
        price: int64[B], millionths.
        place: int64[B], the number of the combination of domains that a brand is in.
        by_place: bool[G], whether the class keeps its numbers by place.
        enemies: For each class with conflicts, the classes that must not share a node with it.
        allowed: Limits on the purchase.
    """

    demand: Ints
    room: Ints
    max_pods: Ints
    price: Ints
    place: Ints
    by_place: Bools
    enemies: dict[int, frozenset[int]]
    allowed: Allowance


@dataclass
class Allowance:
    """Limits of the catalogue and the options on a purchase.

    Attributes:
        shape: int64[B], the number of each brand's shape.
        max_nodes: int64 by shape, the maximum number of nodes.
        excess: int64 by shape, see :attr:`kubestow.models.catalogue.catalogue.Catalogue.excess`.
        kinds: Maximum number of different shapes; None without a limit.
    """

    shape: Ints
    max_nodes: Ints
    excess: Ints
    kinds: int | None

    def __call__(self, counts: Ints) -> bool:
        """Return True if a purchase, int64[B], is allowed."""
        by_shape = np.bincount(self.shape, weights=counts, minlength=len(self.max_nodes)).astype(np.int64)
        if self.kinds is not None and np.count_nonzero(by_shape) > self.kinds:
            return False
        within = bool((by_shape <= self.max_nodes).all())
        return within and int(self.excess @ by_shape) <= 0


def local(menu: Menu, catalogue: Catalogue, request: SizeOptions) -> Local:
    """Return the data that packing needs of the menu."""
    cluster = menu.cluster
    units = np.array([gcd(*column.tolist()) or 1 for column in menu.demand.T], dtype=np.int64)
    nodes = [brand.node for brand in menu.brands]
    codes = np.array([cluster.domains(key)[0][nodes] for key in menu.keys], dtype=np.int64).reshape(len(menu.keys), len(nodes))
    place = equivalence(codes.T).of
    names = list(dict.fromkeys(brand.offers[0].shape.name for brand in menu.brands))
    allowed = Allowance(
        np.array([names.index(brand.offers[0].shape.name) for brand in menu.brands], dtype=np.int64),
        np.array([catalogue.most.get(name, 2**40) for name in names], dtype=np.int64),
        np.array([catalogue.excess[name] for name in names], dtype=np.int64),
        request.kinds,
    )
    price = np.array([brand.price for brand in menu.brands], dtype=np.int64)
    return Local(menu.demand // units, menu.room // units, menu.max_pods, price, place, _tied(cluster), _enemies(cluster), allowed)


def _tied(cluster: Cluster) -> Bools:
    """Return bool[G]: classes with rules between domains larger than a node, and classes that such rules match."""
    by_place = np.array([bool(cls.claims) for cls in cluster.classes], dtype=bool)
    for g, cls in enumerate(cluster.classes):
        terms = [(term.matcher, term.key) for term in cls.anti]
        terms += [(spread.matcher, spread.key) for spread in cls.spread if spread.matcher is not None]
        if cls.affinity is not None:
            terms += [(cls.affinity.full, key) for key in cls.affinity.keys]
        for matcher, key in terms:
            if key != HOSTNAME:
                by_place[g] = True
                by_place |= cluster.matches(matcher)
    for gang in cluster.gangs:
        if gang.key is not None:
            by_place[list(gang.classes)] = True
    return by_place


def _enemies(cluster: Cluster) -> dict[int, frozenset[int]]:
    enemies: dict[int, set[int]] = {}
    for g, cls in enumerate(cluster.classes):
        for term in cls.anti:
            if term.key == HOSTNAME:
                for h in cluster.matching(term.matcher).tolist():
                    enemies.setdefault(g, set()).add(h)
                    enemies.setdefault(h, set()).add(g)
    ports = {g: {(protocol, number) for _, protocol, number in cls.ports} for g, cls in enumerate(cluster.classes) if cls.ports}
    for g, own in ports.items():
        enemies.setdefault(g, set()).update(h for h, others in ports.items() if own & others)
    return {g: frozenset(others) for g, others in enemies.items()}


def plan_of(trial: PurchaseTrial, menu: Menu) -> PurchasePlan:
    """Return the plan of a trial."""
    home = {key: g for g, keys in enumerate(menu.keys_of_pods) for key in keys}
    cluster, counts = trial.cluster, trial.answer.counts
    pods: dict[str, dict[int, int]] = {}
    for g, cls in enumerate(cluster.classes):
        dealt = iter(cls.pods)
        for n in np.flatnonzero(counts[g]).tolist():
            here = pods.setdefault(cluster.nodes.names[n], {})
            for _ in range(int(counts[g, n])):
                own = home.get(pod_key(cluster.snapshot.pods[next(dealt)]))
                if own is not None:
                    here[own] = here.get(own, 0) + 1
    brand_of = {(offer.shape.name, offer.zone): b for b, brand in enumerate(menu.brands) for offer in brand.offers}
    brands = [brand_of[offer.shape.name, offer.zone] for offer, count in trial.bought for _ in range(count)]
    nodes = [Bought(b, pods.pop(name, {})) for b, name in zip(brands, trial.names, strict=True)]
    return PurchasePlan(nodes, pods)


def unplaced_of(trial: PurchaseTrial, menu: Menu) -> Ints:
    """Return int64[G], the pods of each class of the menu that a trial leaves unplaced."""
    home = {key: g for g, keys in enumerate(menu.keys_of_pods) for key in keys}
    unplaced = np.zeros(len(menu.count), dtype=np.int64)
    for cls, done in zip(trial.cluster.classes, trial.answer.counts.sum(axis=1).tolist(), strict=True):
        for i in cls.pods[done:]:
            g = home.get(pod_key(trial.cluster.snapshot.pods[i]))  # a pod that comes with a node has no class in the menu
            if g is not None:
                unplaced[g] += 1
    return unplaced


def counts_of(plan: PurchasePlan, brands: int) -> list[int]:
    """Return the number of nodes of each brand."""
    return [int(count) for count in by_brand(plan.nodes, brands)]


def start_of(plan: PurchasePlan, menu: Menu) -> Start:
    """Return the plan as the start of its trial."""
    by_brand: list[list[dict[int, int]]] = [[] for _ in menu.brands]
    for node in plan.nodes:
        by_brand[node.brand].append(node.pods)
    ordered = [pods for brand in by_brand for pods in brand]
    return Start(menu.keys_of_pods, ordered, plan.there)


def cost_of(plan: PurchasePlan, local_: Local) -> int:
    """Return the cost of the purchased nodes, in millionths."""
    return sum(int(local_.price[node.brand]) for node in plan.nodes)


def by_brand(nodes: Sequence[Bought], brands: int) -> Ints:
    """Return int64[B], the number of nodes of each brand."""
    return np.bincount(np.array([node.brand for node in nodes], dtype=np.int64), minlength=brands).astype(np.int64)
