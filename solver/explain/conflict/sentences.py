"""Sentences for the facts of a cause, with the relevant numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import RequiredAffinity, domain_sum
from kubestow.models.documents.placement import Fact
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.explain.conflict.device_sentences import device_words
from kubestow.solver.explain.conflict.fact_model import FactEncoding
from kubestow.solver.explain.conflict.remaining_nodes import Core, RemainingNodes
from kubestow.solver.explain.conflict.topology_sentences import affinity_words, spread_words
from kubestow.solver.explain.conflict.wording import MAX_NAMES, amounts, listed, node_rule
from kubestow.solver.rules.admission.rule import LimitRanger, PodNodeSelector, PodTolerationRestriction, ResourceQuota
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from kubestow.solver.rules.gang_scheduling.rule import GangScheduling
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.node_ports.rule import NodePorts
from kubestow.solver.rules.node_resource_topology.rule import NodeResourceTopologyMatch
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.node_static.rule import NodeAffinity
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread
from kubestow.solver.rules.volumes.claims import Driver, VolumeTopic
from kubestow.solver.rules.volumes.rule import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone


@dataclass(frozen=True)
class Item:
    """One topic of one fact.

    Attributes:
        barred: bool[N], the nodes that it excludes for all its classes.
        inside: bool[N], the nodes that it concerns.
        needed: Number of pods that must be placed.
    """

    view: RemainingNodes
    topic: object
    classes: list[int]
    barred: Bools
    inside: Bools
    needed: int

    @property
    def pods(self) -> str:
        return self.view.whom(self.classes)


def facts(encoding: FactEncoding, needed: int, core: Core) -> list[Fact]:
    """Return one fact for each part of a cause, sorted. Numbers refer to what the other facts leave."""
    view = RemainingNodes(encoding, core)
    found = []
    for tags, domain in core:
        rule, topics = tags[0].rule, list(dict.fromkeys(tag.topic for tag in tags))
        fact = Fact(rule, "", "", None if domain is None else view.domain(*domain))
        said: dict[str, None] = {}
        for topic in topics[:MAX_NAMES]:
            mine = [tag for tag in tags if tag.topic == topic]
            classes = sorted({g for tag in mine for g in tag.classes}) or list(range(encoding.cluster.n_classes))
            excluded = view.excluded(mine)
            barred = np.logical_and.reduce([excluded.get(g, view.nowhere) for g in classes])
            fact.object = fact.object or view.objects(classes)
            said[_WORDS.get(rule, _static)(fact, Item(view, topic, classes, barred, view.inside(tags), needed))] = None
        fact.message = "; ".join([*said, *([f"and {len(topics) - MAX_NAMES} more of the kind"] if len(topics) > MAX_NAMES else [])])
        found.append(fact)
    return sorted(found, key=lambda fact: (fact.rule, fact.object, fact.domain or "", fact.resource or "", fact.message))


def _static(fact: Fact, item: Item) -> str:
    rule = next(rule for rule in rules.build(item.view.cluster) if rule.name == fact.rule)
    words = listed(rule.message(g, item.barred) for g in item.classes)
    return f"{item.view.of_all(item.barred)} reject {item.pods}: {words}"


def _refused(fact: Fact, item: Item) -> str:
    refused = (item.view.cluster.classes[g].refused for g in item.classes)
    return f"{item.pods} cannot be created: {listed(dict.fromkeys(why for rule, why in filter(None, refused) if rule == fact.rule))}"


def _selection(fact: Fact, item: Item) -> str:
    rules = listed(node_rule(item.view.cluster.classes[g].pod) for g in item.classes)
    return f"{rules} leaves {item.view.of_all(~item.barred)} for {item.pods}"


def _ports(fact: Fact, item: Item) -> str:
    several = len(item.view.pods(item.classes)) > 1
    parts = [f"is taken on {item.view.of_all(item.barred)}"] if item.barred.any() else []
    parts += ["goes to one pod per node"] if several else []
    return f"host port {item.topic} {' and '.join(parts)}; {item.pods} ask{'' if several else 's'} for it"


def _capacity(fact: Fact, item: Item) -> str:
    view, resource = item.view, str(item.topic)
    fact.resource = resource
    free, demand = view.free(resource), view.demand(resource)
    asking = [g for g in item.classes if demand[g] and (view.open[g] & item.inside).any()]
    # Prefer pods that can go nowhere except here, because the others need not come here.
    asking = [g for g in asking if not (view.open[g] & ~item.inside).any()] or asking or [g for g in item.classes if demand[g]]
    pods, nodes = view.pods(asking), item.inside & view.open_to(asking)
    count, there, largest = int(nodes.sum()), int(free[nodes].sum()), int(free[nodes].max(initial=0))
    requested = sum(int(demand[g] * view.cluster.count[g]) for g in asking)
    fact.object = f"Node {view.names(nodes)}" if count else "Node"
    fact.domain = fact.domain or _selected(view, asking, nodes)
    place = f" of {fact.domain}" if fact.domain else " that the other rules leave" if count < view.cluster.n_nodes else ""
    who = f"the {count} nodes{place} have" if count != 1 else f"{view.names(nodes)}{f' ({fact.domain})' if fact.domain else ''} has"
    shown = dict(zip((there, requested, largest), amounts(resource, (there, requested, largest)), strict=True))
    sentence = f"{who} {shown[there]} free, {view.whom(asking)} ask{'s' * (len(pods) == 1)} for {shown[requested]}"
    if item.needed < int(view.cluster.count.sum()):
        sentence += f" ({item.needed} pods are needed)"
    fitting = int(min(view.room[asking[0]][nodes].sum(), view.cluster.count[asking[0]])) if len(asking) == 1 else None
    best = _best_domain(view, resource, nodes)
    if there >= requested and count > 1 and not best:
        if fitting is not None and 0 < fitting < len(pods):
            sentence += f", and no more than {fitting} fit whole"
        else:
            sentence += f", and no node has more than {shown[largest]}"
    return sentence + best


def _selected(view: RemainingNodes, classes: Sequence[int], nodes: Bools) -> str | None:
    """Return a label that these classes select and that all their remaining nodes have."""
    chosen = [set((view.cluster.classes[g].pod.spec.nodeSelector or {}).items()) for g in classes]
    for key, value in sorted(set.intersection(*chosen)) if chosen else ():
        if nodes.any() and all(view.cluster.nodes.labels(n).get(key) == value for n in np.flatnonzero(nodes).tolist()):
            return f"{key}={value}"
    return None


def _best_domain(view: RemainingNodes, resource: str, nodes: Bools) -> str:
    """Return a clause on the best domain, if all pods must be in one domain of a key."""
    keys = {key for tags, _ in view.core for tag in tags if isinstance(tag.topic, RequiredAffinity) for key in tag.topic.keys}
    keys |= {gang.key for gang in view.cluster.gangs if gang.key and any(tags[0].rule == GangScheduling.name for tags, _ in view.core)}
    said = []
    for key in sorted(keys):
        codes, size = view.cluster.domains(key)
        per_domain = domain_sum(codes, size, np.where(nodes, view.free(resource), 0))
        if np.count_nonzero(per_domain) > 1:
            best = int(np.argmax(per_domain))
            said.append(f"; the most in one domain is {amounts(resource, [int(per_domain[best])])[0]} in {view.domain(key, best)}")
    return "".join(said)


def _gang(fact: Fact, item: Item) -> str:
    said, view = [], item.view
    for gang in view.cluster.gangs:
        fact.object = f"Gang {gang.name}"
        if gang.key is None:
            said.append(f"at least {gang.needed} pods of {gang.name} or none")
        elif gang.home:
            home = listed(view.domain(gang.key, d) for d in gang.home)
            said.append(f"all pods of {gang.name} go where members run already: {home}")
        else:
            size = view.cluster.domains(gang.key)[1]
            said.append(f"all pods of {gang.name} go to one domain of {gang.key}, of which there {'are' if size != 1 else 'is'} {size}")
    return "; ".join(said)


def _numa(fact: Fact, item: Item) -> str:
    view = item.view
    trees = view.nowhere
    trees[[n for n, tree in view.cluster.trees.items() if tree.rejects]] = True
    nodes = trees & item.inside & (view.open_to(item.classes) | item.barred)
    policies = listed(sorted({view.cluster.trees[n].policy for n in np.flatnonzero(nodes).tolist()}))
    fact.object = f"Node {view.names(nodes)}" if nodes.any() else "Node"
    place = f" of {fact.domain}" if fact.domain else ""
    sentence = f"{view.of_all(nodes)}{place} align NUMA zones ({policies}): their zones do not hold {item.pods}"
    rule = NodeResourceTopologyMatch(view.cluster)
    lacks = {why: n for n in reversed(np.flatnonzero(nodes).tolist()) if (why := rule.first_shortage(item.classes, n))}
    why, n = next(reversed(lacks.items()), ("", 0))
    return f"{sentence} (on {view.cluster.nodes.names[n]} {why})" if lacks else sentence


def _volumes(fact: Fact, item: Item) -> str:
    view, topic = item.view, item.topic
    if isinstance(topic, Driver):
        fact.object = f"CSIDriver {topic.name}"
        return f"{view.of_all(item.barred)} lack the CSI driver {topic.name} of volumes of {item.pods}"
    if isinstance(topic, VolumeTopic):
        fact.object = f"PersistentVolume {topic.name}"
        return f"volume {topic.name} serves one claim only"
    key = str(topic)
    if all(key not in cls.claims for cls in view.cluster.classes):
        full = f"; {view.of_all(item.barred)} have no room for those of one more pod" if item.barred.any() else ""
        return f"nodes attach a limited number of volumes of {key}, which {item.pods} mount{full}"
    claim = view.cluster.volumes.claim(key)
    fact.object = f"PersistentVolumeClaim {key}"
    if claim.missing:
        return f"claim {key} does not exist"
    if fact.rule == VolumeRestrictions.name:
        return f"claim {key} is ReadWriteOncePod and " + ("in use" if item.barred.all() else f"mounted by {item.pods}")
    remainder = f"leaves {view.of_all(~item.barred)}"
    if fact.rule == VolumeZone.name:
        return f"the zone of claim {key}'s volume {remainder}"
    if not claim.delayed:
        return (
            f"the volume of claim {key} {remainder}"
            if not item.barred.all()
            else f"claim {key} is not bound, or its volume is out of reach"
        )
    meets = ""
    if claim.one_node and claim.provision is not None and len(view.pods(item.classes)) > 1:
        meets = f"; {item.pods} share it and must meet on one node{' if a new one is made' if claim.volumes else ''}"
    candidates = f"one of the volumes {listed(claim.volumes)}" if claim.volumes else "a new volume"
    return f"claim {key} is not bound yet and needs {candidates}: that {remainder}{meets}"


def _spread(fact: Fact, item: Item) -> str:
    return spread_words(fact, item.view, item.topic, item.classes, item.barred)


def _devices(fact: Fact, item: Item) -> str:
    return device_words(fact, item.view, item.topic, item.classes, (item.barred, item.inside))


def _affinity(fact: Fact, item: Item) -> str:
    return affinity_words(fact, item.view, item.topic, item.classes, item.barred)


_WORDS: Final[dict[str, Callable[[Fact, Item], str]]] = {
    NodeResourcesFit.name: _capacity, NodeAffinity.name: _selection, NodePorts.name: _ports, GangScheduling.name: _gang,
    PodTopologySpread.name: _spread, InterPodAffinity.name: _affinity, NodeVolumeLimits.name: _volumes, VolumeBinding.name: _volumes,
    VolumeRestrictions.name: _volumes, VolumeZone.name: _volumes, NodeResourceTopologyMatch.name: _numa,
    DynamicResources.name: _devices, LimitRanger.name: _refused, ResourceQuota.name: _refused,
    PodNodeSelector.name: _refused, PodTolerationRestriction.name: _refused,
}  # fmt: skip
