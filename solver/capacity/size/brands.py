"""The offers as the pending pods see them: pod classes against one empty node of each offer, and against existing nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue, Offer
from kubestow.models.cluster.cluster import Cluster, Ids, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.edits.binding import bound_as
from kubestow.models.kube.objects import controller_of, pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.daemon_sets import target
from kubestow.solver import rules
from kubestow.solver.capacity.size.purchase_cluster import PurchaseBase
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import alone, demand_with_slots, room_with_slots
from kubestow.solver.runtime.options import Options

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@dataclass
class Brand:
    """Offers of one shape and price in several zones that no rule distinguishes.

    Attributes:
        offers: The offers, bought in turn.
        node: Index of an empty node of this brand in the menu's cluster.
    """

    offers: list[Offer]
    node: int

    @property
    def price(self) -> int:
        return self.offers[0].cost


@dataclass
class Menu:
    """Pod classes against brands and existing nodes.

    Shapes: G classes, B brands, N nodes of ``cluster``, R resources followed by pod slots.

    Attributes:
        cluster: The cluster with one node of each offer.
        brands: Distinct offers.
        demand: int64[G, R + 1], requests.
        room: int64[B, R + 1], free resources of an empty node.
        max_pods: int64[G, B], the maximum number of pods of a class on one node.
        there: int64, indices of existing nodes.
        eligibility: int64[G, N], the maximum number of pods of a class on each node.
        keys: Topology keys that rules use, apart from the hostname.
        shapes: The shape of each offer's empty node.
        count: int64[G], pods of each class.
    """

    cluster: Cluster
    brands: list[Brand]
    demand: Ints
    room: Ints
    max_pods: Ints
    there: Ints
    eligibility: Ints
    keys: list[str]
    active: Sequence[Rule] = field(repr=False)
    shapes: dict[int, str] = field(repr=False)

    @cached_property
    def keys_of_pods(self) -> list[list[str]]:
        """The keys of the pods of each class."""
        return [[pod_key(self.cluster.snapshot.pods[i]) for i in cls.pods] for cls in self.cluster.classes]

    @cached_property
    def fragile(self) -> bool:
        """True if a node in a further domain can invalidate a placement.

        That happens with domains that spread constraints count, and with DaemonSet pods that anti-affinity
        matches.
        """
        classes = self.cluster.classes
        new = frozenset(self.cluster.nodes.names[n] for n in self.shapes)
        brought = any(pod.spec.nodeName in new for pod in self.cluster.snapshot.pods)
        apart = any(term.key != HOSTNAME for cls in classes for term in cls.anti) or any(
            f.term.key != HOSTNAME for f in self.cluster.fixed_anti
        )
        return any(s.key != HOSTNAME for cls in classes for s in cls.spread) or (brought and apart)

    @property
    def count(self) -> Ints:
        return self.cluster.count

    def purchase(self, counts: Sequence[int]) -> list[tuple[Offer, int]]:
        """Return the purchase for a number of nodes of each brand, spread over its zones."""
        counted = []
        for brand, count in zip(self.brands, counts, strict=True):
            each, more = divmod(count, len(brand.offers))
            counted += [(offer, each + (i < more)) for i, offer in enumerate(brand.offers)]
        return [(offer, count) for offer, count in counted if count]

    def hopeless(self) -> list[int]:
        """Return the classes of which no node, existing or purchased, can take a pod."""
        reach = self.eligibility[:, self.there].sum(axis=1) + self.max_pods.sum(axis=1)
        return np.flatnonzero(reach == 0).tolist()


def menu(purchase_base: PurchaseBase, catalogue: Catalogue, options: Options, failing: str | None = None) -> Menu:
    """Compile the pending pods against every offer.

    Args:
        failing: Topology key of the failures that must be survived.

    Raises:
        InputError: Quantities that cannot be summed.
    """
    return menus([purchase_base], catalogue, options, failing)[0]


def menus(purchase_bases: Sequence[PurchaseBase], catalogue: Catalogue, options: Options, failing: str | None = None) -> list[Menu]:
    """Compile the pending pods of several purchase_bases against every offer, as :func:`menu` does.

    All menus have the same brands in the same order. A brand joins offers that no base distinguishes.
    """
    listed = [offer for offer in catalogue.offers if offer.shape.most != 0]
    shown = [_with_offers(purchase_base, listed, options, failing) for purchase_base in purchase_bases]
    offered = list(range(len(listed)))
    if not any(value > 0 for value in catalogue.excess.values()):  # otherwise nodes without pods may offset spot nodes
        offered = [i for i in offered if any(each.eligibility[:, each.new[i]].any() for each in shown)]
    brands = _brands(shown, listed, offered)
    return [each.menu(listed, brands) for each in shown]


@dataclass
class _OfferedNodes:
    """A base with one node of each offer.

    Attributes:
        new: These nodes, in the order of the offers.
    """

    cluster: Cluster
    new: list[int]
    active: Sequence[Rule]
    eligibility: Ints
    keys: list[str]

    def signature(self, offer: Offer, n: int) -> object:
        """Return everything that rules read of an offer's node."""
        return (
            offer.shape.name,
            tuple(int(code[n]) for code in self.codes),
            self.eligibility[:, n].tobytes(),
            self.cluster.free[n].tobytes(),
            int(self.cluster.slots[n]),
            tuple(bool(mask[n]) for mask in self.cluster.node_sets),
        )

    @cached_property
    def codes(self) -> list[Ids]:
        return [self.cluster.domains(key)[0] for key in self.keys]

    def menu(self, listed: Sequence[Offer], brands: Iterable[Sequence[int]]) -> Menu:
        """Return the menu of these brands, each given by indices of offers."""
        cluster, eligibility = self.cluster, self.eligibility
        offered = [Brand([listed[i] for i in brand], self.new[brand[0]]) for brand in brands]
        representatives = np.array([brand.node for brand in offered], dtype=np.int64)
        shapes = {n: offer.shape.name for offer, n in zip(listed, self.new, strict=True)}
        there = np.setdiff1d(np.arange(cluster.n_nodes), self.new)
        room = np.maximum(room_with_slots(cluster)[representatives], 0)
        return Menu(
            cluster, offered, demand_with_slots(cluster), room, eligibility[:, representatives], there,
            eligibility, self.keys, self.active, shapes,
        )  # fmt: skip


def _with_offers(purchase_base: PurchaseBase, listed: Sequence[Offer], options: Options, failing: str | None) -> _OfferedNodes:
    snapshot = purchase_base.expanded([(unlimited(offer), 1) for offer in listed]).snapshot
    names = purchase_base.new_nodes(snapshot)
    snapshot = bound_as(snapshot, _residents(snapshot, frozenset(names)))
    scope = select(snapshot, from_scratch=options.from_scratch, include_gated=options.include_gated)
    cluster = compile_cluster(snapshot, scope, daemon_namespaces=options.exempt, policy=options.policy)
    place = {name: n for n, name in enumerate(cluster.nodes.names)}
    active = rules.build(cluster)
    eligibility = np.maximum(alone(cluster, active), 0)  # independent of the other purchased nodes
    keys = sorted({*_keys(cluster), *((failing,) if failing is not None else ())})
    return _OfferedNodes(cluster, [place[name] for name in names], active, eligibility, keys)


def unlimited(offer: Offer) -> Offer:
    """Return the offer without its limit on nodes, because the menu has a node for each zone."""
    return replace(offer, shape=msgspec.structs.replace(offer.shape, most=None))


def _residents(snapshot: Snapshot, names: frozenset[str]) -> list[tuple[int, str]]:
    """Return the DaemonSet pods that are pending for nodes of the menu. Every node comes with its own."""
    residents = []
    for i, pod in enumerate(snapshot.pods):
        owner = controller_of(pod)
        if owner is not None and owner.kind == "DaemonSet" and not pod.spec.nodeName and (node := target(pod)) in names:
            residents.append((i, node or ""))
    return residents


def _keys(cluster: Cluster) -> list[str]:
    keys = {t.key for c in cluster.classes for t in c.anti} | {s.key for c in cluster.classes for s in c.spread}
    keys |= {k for c in cluster.classes if c.affinity for k in c.affinity.keys}
    keys |= {fixed.term.key for fixed in cluster.fixed_anti}
    keys |= {gang.key for gang in cluster.gangs if gang.key is not None}
    if any(c.claims for c in cluster.classes):
        keys.add(ZONE)
    return sorted(keys - {HOSTNAME})


def _brands(shown: Sequence[_OfferedNodes], listed: Sequence[Offer], offered: Iterable[int]) -> list[list[int]]:
    """Return the brands as lists of indices of offers.

    A brand has the cheapest offers of one shape that differ only in a zone that no rule reads.
    """
    offers_by_traits: dict[object, list[int]] = {}
    for i in offered:
        signature = tuple(each.signature(listed[i], each.new[i]) for each in shown)
        known = offers_by_traits.get(signature)
        if known is None or listed[i].cost < listed[known[0]].cost:
            offers_by_traits[signature] = [i]
        elif listed[i].cost == listed[known[0]].cost:
            known.append(i)
    return list(offers_by_traits.values())
