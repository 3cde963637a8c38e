"""The words and numbers of causes for NodeResourcesFit. Topics are names of resources, and ``pods`` for pod slots."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule
from kubestow.solver.rules.facts import FactPart, Remainder
from kubestow.solver.rules.node_resources_fit.remedies import resource_hint
from kubestow.solver.rules.wording import amounts


class CapacityWords(Rule):
    """Facts about amounts of one resource, or about pod slots."""

    drop_rank = 110
    counts_nominated = helped_by_new_nodes = helped_by_fewer_pods = True

    @classmethod
    def hopeless(cls, needed: int, pods: int, nodes: int) -> tuple[str, str] | None:
        return ("Node", "the input has no nodes") if needed and not nodes else None

    @classmethod
    def fact_kind(cls, topic: Hashable) -> Hashable:
        return topic

    def fact_room(self, topic: Hashable, g: int) -> Ints | None:
        demand = int(_demand(self.cluster, str(topic))[g])
        return _free(self.cluster, str(topic)) // demand if demand else np.full(self.cluster.n_nodes, UNLIMITED_PODS)

    def sentence(self, part: FactPart) -> str:
        fact, view, cluster, resource = part.fact, part.view, self.cluster, str(part.topic)
        fact.resource = resource
        hint = resource_hint(cluster, resource)
        free, demand = _free(cluster, resource), _demand(cluster, resource)
        asking = [g for g in part.classes if demand[g] and (view.open[g] & part.inside).any()]
        # Prefer pods that can go nowhere except here, because the others need not come here.
        asking = [g for g in asking if not (view.open[g] & ~part.inside).any()] or asking or [g for g in part.classes if demand[g]]
        pods, nodes = view.pods(asking), part.inside & view.open_to(asking)
        count, there, largest = int(nodes.sum()), int(free[nodes].sum()), int(free[nodes].max(initial=0))
        requested = sum(int(demand[g] * cluster.count[g]) for g in asking)
        fact.object = f"Node {view.names(nodes)}" if count else "Node"
        fact.domain = fact.domain or _selected(cluster, asking, nodes)
        place = f" of {fact.domain}" if fact.domain else " that the other rules leave" if count < cluster.n_nodes else ""
        who = f"the {count} nodes{place} have" if count != 1 else f"{view.names(nodes)}{f' ({fact.domain})' if fact.domain else ''} has"
        shown = dict(zip((there, requested, largest), amounts(resource, (there, requested, largest)), strict=True))
        sentence = f"{who} {shown[there]} free, {view.whom(asking)} ask{'s' * (len(pods) == 1)} for {shown[requested]}"
        if part.needed < int(cluster.count.sum()):
            sentence += f" ({part.needed} pods are needed)"
        fitting = int(min(view.room[asking[0]][nodes].sum(), cluster.count[asking[0]])) if len(asking) == 1 else None
        best = _best_domain(view, resource, np.where(nodes, free, 0))
        if there >= requested and count > 1 and not best:
            if fitting is not None and 0 < fitting < len(pods):
                sentence += f", and no more than {fitting} fit whole"
            else:
                sentence += f", and no node has more than {shown[largest]}"
        return "; ".join(filter(None, (sentence + best, hint)))


def _free(cluster: Cluster, resource: str) -> Ints:
    """Return int64[N], the free amount of a resource or of pod slots (``pods``)."""
    return np.maximum(cluster.slots if resource == "pods" else cluster.free[:, cluster.resources.index(resource)], 0)


def _demand(cluster: Cluster, resource: str) -> Ints:
    """Return int64[G], the request of one pod of each class."""
    return np.ones_like(cluster.count) if resource == "pods" else cluster.demand[:, cluster.resources.index(resource)]


def _selected(cluster: Cluster, classes: Sequence[int], nodes: Bools) -> str | None:
    """Return a label that these classes select and that all their remaining nodes have."""
    chosen = [set((cluster.classes[g].pod.spec.nodeSelector or {}).items()) for g in classes]
    for key, value in sorted(set.intersection(*chosen)) if chosen else ():
        if nodes.any() and all(cluster.nodes.labels(n).get(key) == value for n in np.flatnonzero(nodes).tolist()):
            return f"{key}={value}"
    return None


def _best_domain(view: Remainder, resource: str, free: Ints) -> str:
    """Return a clause on the best domain, if all pods must be in one domain of a key.

    Args:
        free: int64[N], the free amounts on the nodes that count.
    """
    said = []
    for key in sorted(view.shared_keys()):
        codes, size = view.cluster.domains(key)
        per_domain = domain_sum(codes, size, free)
        if np.count_nonzero(per_domain) > 1:
            best = int(np.argmax(per_domain))
            said.append(f"; the most in one domain is {amounts(resource, [int(per_domain[best])])[0]} in {view.domain(key, best)}")
    return "".join(said)
