"""Remedies that add nodes: the fewest nodes of one existing shape that make a placement possible, and cordoned nodes that would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kubestow.models.catalogue.nodes import BOUGHT
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.objects import controller_of
from kubestow.models.kube.selectors import Bools, taints_key
from kubestow.solver import rules
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import gang_of, with_nodes
from kubestow.solver.explain.remedy.smallest_working import least
from kubestow.solver.explain.remedy.time_slices import TimeSlices
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Idea

HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True)
class NodeShape:
    """Nodes that are equivalent for the question when empty.

    Attributes:
        like: Name of the first one.
        labels: Values of the topology keys in use.
        size: Allocatable amounts, pod slots last.
        nodes: Number of such nodes.
    """

    like: str
    labels: tuple[tuple[str, str], ...]
    size: tuple[int, ...]  # allocatable, pod slots last
    nodes: int = 1


def fewest(question: PlacementQuestion, cluster: Cluster, clock: TimeSlices, share: float) -> Remedy | None:
    """Return the remedy with the fewest nodes, then of the smallest shape; None if there is none or none was found in time.

    Never more nodes than pods are added. Argument ``least`` is ``unproved`` if fewer nodes might suffice.

    Args:
        share: Fraction of the whole time for all queries together.
    """
    if any((owner := controller_of(question.snapshot.pods[i])) is not None and owner.kind == "DaemonSet" for i in question.pods):
        return None  # each new node would add a pod
    search = _ShapeSearch(question, cluster, clock.section(share))
    best: tuple[int, NodeShape] | None = None
    groups: dict[tuple[int, ...], list[NodeShape]] = {}
    bought = {node.metadata.name for node in question.snapshot.nodes if BOUGHT in (node.metadata.annotations or {})}
    for shape in shapes(question, cluster):
        if shape.like in bought:
            continue  # a node that is not in the snapshot cannot be named on the command line
        groups.setdefault(shape.size, []).append(shape)
    # Large nodes bound the number soonest; smaller ones need not exceed it.
    for size, members in sorted(groups.items(), reverse=True):
        upper = question.needed if best is None else best[0]
        k = min(upper, search.guess(size)) if best is None else upper
        while k:
            sufficient = search.one_of(members, k)
            if sufficient is None and k == upper:
                break
            if sufficient is None:
                k = min(upper, 2 * k)
                continue
            number = least(lambda n, shape=sufficient, k=k: n == k or search.works([shape], n), 1, k, k)  # type: ignore[misc]
            assert number is not None
            search.sure &= number[1]
            best = (number[0], sufficient)
            upper = k = number[0] - 1
            members = [shape for shape in members if shape != sufficient]
    return None if best is None else remedy_of(best[1], best[0], sure=search.sure)


@dataclass
class _ShapeSearch:
    question: PlacementQuestion
    cluster: Cluster
    section: TimeSlices
    sure: bool = True

    def __post_init__(self) -> None:
        hosts = {s.key for c in self.cluster.classes for s in c.spread} - set(domain_keys(self.question, self.cluster))
        self._together = not hosts  # a node that is a domain of its own may break a spread constraint

    def works(self, shapes: Sequence[NodeShape], k: int) -> bool | None:
        return self.section.ask(with_nodes(self.question, [f"{k}:{shape.like}" for shape in shapes]), 0.25)

    def one_of(self, shapes: Sequence[NodeShape], k: int) -> NodeShape | None:
        """Return a shape of which k nodes suffice, found by halving. If all shapes together do not suffice, none does."""
        if not shapes:
            return None
        if len(shapes) == 1 or self._together:
            answer = self.works(shapes, k)
            self.sure &= answer is not None
            if not answer:
                return None
            if len(shapes) == 1:
                return shapes[0]
        half = len(shapes) // 2
        first = self.one_of(shapes[:half], k)
        return first if first is not None else self.one_of(shapes[half:], k)

    def guess(self, size: tuple[int, ...]) -> int:
        """Return the number of empty nodes of a size that hold all requests of the scarcest resource."""
        total: list[int] = (self.cluster.demand * self.cluster.count[:, None]).sum(axis=0).tolist()
        return max([1, *(-(-requested // have) for requested, have in zip(total, size, strict=False) if have > 0)])


def remedy_of(shape: NodeShape, k: int, *, sure: bool = True) -> Remedy:
    """Return the remedy of adding k nodes of a shape."""
    where = ", ".join(f"{key}={value}" for key, value in shape.labels)
    message = f"add {k} node{'s' if k != 1 else ''} like {shape.like}{f' ({where})' if where else ''}"
    arguments = {"count": str(k), "like": shape.like, **({} if sure else {"least": "unproved"})}
    return Remedy("addNodes", message, arguments, ["--add-nodes", f"{k}:{shape.like}"])


def shapes(question: PlacementQuestion, cluster: Cluster, also: Sequence[str] = ()) -> list[NodeShape]:
    """Return distinct shapes of nodes that can take some pod of the question when empty, the smallest first.

    Args:
        also: Further labels that distinguish shapes.
    """
    by_traits: dict[object, NodeShape] = {}
    for _, signature, shape in takers(question, cluster, also):
        first = by_traits.get((signature, shape.size))
        by_traits[signature, shape.size] = shape if first is None else replace(first, nodes=first.nodes + 1)
    return sorted(by_traits.values(), key=lambda shape: shape.size)


def takers(question: PlacementQuestion, cluster: Cluster, also: Sequence[str] = ()) -> Iterator[tuple[int, object, NodeShape]]:
    """Yield the nodes that can take some pod of the question when empty.

    Each comes with its signature, which distinguishes it from nodes of equal size, and its shape.
    """
    keys = [*domain_keys(question, cluster), *also]
    fits = np.zeros(cluster.n_nodes, dtype=bool)
    active, verdicts = _rules_of_nodes(cluster), dict[bytes, Bools]()
    for g in range(cluster.n_classes):
        barred = [rule.never(g) for rule in active]
        fits |= ~np.logical_or.reduce(barred) & (cluster.allocatable >= cluster.demand[g]).all(axis=1)
        verdicts |= {mask.tobytes(): mask for mask in barred}
    for n in np.flatnonzero(fits).tolist():
        node = question.snapshot.nodes[n]
        labels = node.metadata.labels or {}
        here = tuple((key, labels[key]) for key in keys if key in labels)
        listed = node.status.allocatable if node.status is not None else None
        slots = int(str((listed or {}).get("pods", 0)) or 0) if str((listed or {}).get("pods", 0)).isdigit() else 0
        size = (*cluster.allocatable[n].tolist(), slots)
        admits = tuple(bool(mask[n]) for mask in (*cluster.node_sets, *verdicts.values()))
        own = tuple(key in labels for key in _own_keys(cluster))
        signature = (here, _devices(cluster, n), taints_key(cluster.nodes.taints(n)), admits, own)
        yield n, signature, NodeShape(node.metadata.name or "", here, size)


def _rules_of_nodes(cluster: Cluster) -> list[Rule]:
    """Return the rules about nodes alone that apply to a new node of the same kind, which has no cordon."""
    return [kind(cluster) for kind in rules.ALL if kind.of_nodes_alike]


def _devices(cluster: Cluster, n: int) -> tuple[int, ...]:
    """Return the kinds of devices that a node sees."""
    inventory = cluster.devices.inventory if cluster.devices is not None else None
    return () if inventory is None else tuple(inventory.devices[i].kind for i in inventory.visible(n).tolist())


def domain_keys(question: PlacementQuestion, cluster: Cluster) -> list[str]:
    """Return the topology keys that rules of the question, or of running pods against it, read, except those
    with node names as values."""
    keys = set(_own_keys(cluster))
    gang = gang_of(question)
    if gang is not None and gang.key is not None:
        keys.add(gang.key)
    found = []
    for key in sorted(keys):
        codes, values = cluster.nodes.column(key)
        if key != HOSTNAME and any(values[d] != cluster.nodes.names[n] for n, d in enumerate(codes.tolist()) if d >= 0):
            found.append(key)
    return found


def _own_keys(cluster: Cluster) -> list[str]:
    keys = {key for kind in rules.ALL for key in kind.topology_keys(cluster)}
    keys |= {fixed.term.key for fixed in cluster.fixed_anti if cluster.matches(fixed.term.matcher).any()}
    return sorted(keys)


class OpenOtherwise:
    """The nodes that would take a pod of the question, but for one rule."""

    def __init__(self, cluster: Cluster) -> None:
        self._index = {name: n for n, name in enumerate(cluster.nodes.names)}
        self._unschedulable = cluster.nodes.unschedulable
        active = _rules_of_nodes(cluster)
        self._open: dict[str, Bools] = {}
        for but in (*active, None):
            fits = np.zeros(cluster.n_nodes, dtype=bool)
            for g in range(cluster.n_classes):
                others = [rule.never(g) for rule in active if rule is not but]
                fits |= ~np.logical_or.reduce([self._unschedulable, *others]) & (cluster.free >= cluster.demand[g]).all(axis=1)
            self._open[but.name if but is not None else ""] = fits

    def concerns(self, idea: Idea) -> bool:
        """Return True if only the rule of an idea may keep pods off its node."""
        return bool(self._open.get(idea.rule, self._open[""])[self._index[idea.remedy.arguments["node"]]])


def uncordoned(cluster: Cluster) -> Iterator[Remedy]:
    """Yield each cordoned node that would otherwise take a pod of the question, as a remedy to be tried."""
    active = _rules_of_nodes(cluster)
    for n in np.flatnonzero(cluster.nodes.unschedulable).tolist():
        if any((cluster.free[n] >= cluster.demand[g]).all() and not any(r.never(g)[n] for r in active) for g in range(cluster.n_classes)):
            node = cluster.nodes.names[n]
            yield Remedy("uncordon", f"uncordon {node}", {"node": node})
