"""A plain replay of a bind order: every pod against a list of all the pods that are there, one rule after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kubestow.checker import rules
from kubestow.checker.reading import affinity_terms, matching, resources, taints
from kubestow.checker.rules.admission import quotas as admission
from kubestow.checker.rules.base import Place, World
from kubestow.checker.rules.dynamic_resources import entry as devices
from kubestow.checker.rules.dynamic_resources.document import faults as device_faults
from kubestow.checker.rules.inter_pod_affinity import state as affinity
from kubestow.checker.rules.inter_pod_affinity import units
from kubestow.checker.rules.node_ports import rule as ports_rule
from kubestow.checker.rules.node_resources_fit import rule as fit
from kubestow.checker.rules.node_static import rule as node_rules
from kubestow.checker.rules.volumes.mounts import Volumes
from kubestow.checker.violation import Violation
from kubestow.models.documents.placement import Assignment
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

Fault = tuple[str, str]
#: Rules of the checker that this replay reads again.
READ_HERE = (
    "Admission", "DynamicResources", "GangScheduling", "InterPodAffinity", "NodeName", "NodePorts", "NodeResourcesFit", "NodeStatic",
    "NriPolicies", "PodTopologySpread", "VolumeRules",
)  # fmt: skip


@dataclass(eq=False)
class There:
    """A pod on a node. ``placed``: by the document."""

    pod: objects.Pod
    node: objects.Node
    placed: bool


@dataclass(frozen=True)
class Hard:
    """A DoNotSchedule constraint of a pod."""

    namespace: str
    selector: matching.Selector
    key: str
    eligible: frozenset[str]
    max_skew: int
    min_domains: int
    own: int


class Replay:
    """Everything that is there, in the order in which it came."""

    def __init__(
        self, snapshot: Snapshot, candidates: Sequence[objects.Pod], absent: Collection[str], exempt: Collection[str], free: Collection[str]
    ) -> None:
        self.snapshot, self.candidates = snapshot, candidates
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self.exempt, self.free = exempt, free
        self.refused = admission.refused(snapshot)
        self.capacity = {name: resources.node_capacity(node) for name, node in self.nodes.items()}
        self.spaces = {name: each.metadata.labels or {} for name, each in snapshot.namespaces.items()}
        self.volumes = Volumes(snapshot)
        gone = [pod for pod in candidates if pod.spec.nodeName in self.nodes]
        gone += [pod for pod in snapshot.pods if pod.spec.nodeName in self.nodes and objects.pod_key(pod) in absent and pod not in gone]
        self.devices = devices.state(snapshot, candidates, gone if snapshot.resource_claims else [])
        self.there: list[There] = []
        for pod in snapshot.pods:
            leaves = objects.pod_key(pod) in absent or any(pod is each for each in candidates)
            if pod.spec.nodeName in self.nodes and not objects.is_terminal(pod) and not leaves:
                self.there.append(There(pod, self.nodes[pod.spec.nodeName], placed=False))
                self.volumes.mount(pod, self.there[-1].node.metadata.name or "")

    def requests(self, each: There) -> resources.Amounts:
        return resources.pod_requests(each.pod, self.snapshot.gates, bound=not each.placed)

    def used(self) -> dict[str, resources.Amounts]:
        """Return the requests on each node."""
        found: dict[str, resources.Amounts] = {name: {} for name in self.nodes}
        for each in self.there:
            used = found[each.node.metadata.name or ""]
            for name, amount in self.requests(each).items():
                used[name] = used.get(name, 0) + amount
        return found

    def add(self, new: There) -> None:
        self.there.append(new)
        self.volumes.settle(new.pod, new.node)
        self.volumes.mount(new.pod, new.node.metadata.name or "")
        if self.devices is not None:
            self.devices.allocate(new.pod, new.node, self.requests(new), self.capacity[new.node.metadata.name or ""])

    def bind(self, unit: Sequence[tuple[Assignment, objects.Pod]]) -> list[Violation]:
        """Bind the pods of a unit, and return the faults of each."""
        found: list[Violation] = []
        coming = [There(pod, self.nodes[entry.node], placed=True) for entry, pod in unit]
        if len(unit) == 1:
            faults = [[*self.alone(coming[0]), *self.spread(coming[0]), *self.anti(coming[0]), *self.affinity(coming[0])]]
            self.add(coming[0])
        else:
            together = self.together(coming)
            faults = []
            for new in coming:
                faults.append(self.alone(new))
                self.add(new)
            for new, mutual, own in zip(coming, together, faults, strict=True):
                self.there.remove(new)
                anti = self.anti(new)
                own += [*self.spread(new), *anti, *(("InterPodAffinity", why) for why in mutual)]
                self.there.append(new)
        for (entry, _), own in zip(unit, faults, strict=True):
            found += [Violation(entry.pod, entry.node, rule, why) for rule, why in own]
        for entry, pod in unit:
            if self.devices is not None or entry.devices:
                allocated = [] if self.devices is None else self.devices.allocated(pod)
                wrong = device_faults(self.devices, allocated, self.nodes[entry.node], entry.devices)
                found += [Violation(entry.pod, entry.node, devices.RULE, why) for why in wrong]
        return found

    def alone(self, new: There) -> list[Fault]:
        """All rules but the two about topology."""
        pod, node, name, key = new.pod, new.node, new.node.metadata.name or "", objects.pod_key(new.pod)
        found = node_rules.node_faults(pod.spec, node, self.snapshot.gates)
        if key in self.refused:
            found.append(self.refused[key])
        if pod.spec.nodeName and pod.spec.nodeName != name and key not in self.free:
            found.append(("NodeName", f"the pod belongs on node {pod.spec.nodeName}"))
        here = [each for each in self.there if each.node is node]
        clash = ports_rule.clashing_port(ports_rule.host_ports(pod), [port for each in here for port in ports_rule.host_ports(each.pod)])
        if clash:
            found.append(("NodePorts", f"host port {clash[1]}/{clash[0]} on {clash[2]} is taken"))
        requests, capacity = self.requests(new), self.capacity[name]
        if self.devices is not None:
            why = self.devices.judge(pod, node, requests, capacity).fault
            found += [(devices.RULE, why)] if why is not None else []
            requests = self.devices.left_to_the_node(requests, capacity)
        found += [("NodeResourcesFit", why) for why in fit.fit_faults(requests, len(here), self.used()[name], capacity)]
        return found + self.volumes.faults(pod, node) + self.others(new)

    def others(self, new: There) -> list[Fault]:
        """Rules that are not read here: by the checker's own reading, in a state that is made for this question."""
        if all(kind.__name__ in READ_HERE for kind in rules.ALL):
            return []
        world = World(self.snapshot, self.nodes, self.candidates, resources.SharedRequests(self.snapshot.gates))
        places = {name: Place(node, name, self.capacity[name]) for name, node in self.nodes.items()}
        found: list[Fault] = []
        for rule in rules.build(world, lambda kind: kind.__name__ not in READ_HERE):
            rule.announce([each.pod for each in (*self.there, new)], judged=True)
            for each in self.there:
                if (reading := rule.read(each.pod, judged=True)) is not None:
                    rule.add(reading, each.pod, places[each.node.metadata.name or ""], placed=each.placed)
            if (reading := rule.read(new.pod, judged=True)) is not None:
                found += rule.faults(reading, new.pod, places[new.node.metadata.name or ""])
        return found

    # --- PodTopologySpread ------------------------------------------------------------------------------------------------------------

    def constraints(self, pod: objects.Pod) -> list[Hard]:
        """Return the hard constraints of a pod.

        Raises:
            InvalidSelector: one of them cannot be read.
        """
        labels, namespace = pod.metadata.labels or {}, pod.metadata.namespace or "default"
        hard = [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "DoNotSchedule"]
        found = []
        for each in hard:
            extra = [matching.SelectorRequirement(key, "In", (labels[key],)) for key in each.matchLabelKeys or () if key in labels]
            selector = matching.label_selector(each.labelSelector, extra)
            eligible = []
            for name, node in self.nodes.items():
                tainted = (node.spec.taints if node.spec else None) or ()
                if (
                    all(other.topologyKey in (node.metadata.labels or {}) for other in hard)
                    and not (each.nodeAffinityPolicy != "Ignore" and matching.node_affinity_fault(pod.spec, node))
                    and not (
                        each.nodeTaintsPolicy == "Honor"
                        and taints.untolerated_taint(pod.spec.tolerations, tainted, self.snapshot.gates) is not None
                    )
                ):
                    eligible.append(name)
            own = int(matching.selects(selector, labels))
            found.append(Hard(namespace, selector, each.topologyKey, frozenset(eligible), each.maxSkew, each.minDomains or 1, own))
        return found

    def counted(self, hard: Hard) -> Counter[str]:
        """Return the pods that a constraint counts in each domain of eligible nodes."""
        found = Counter({(self.nodes[name].metadata.labels or {})[hard.key]: 0 for name in hard.eligible})
        for each in self.there:
            pod, labels = each.pod, each.node.metadata.labels or {}
            if (
                hard.selector
                and each.node.metadata.name in hard.eligible
                and (pod.metadata.namespace or "default") == hard.namespace
                and not objects.is_terminating(pod)
                and matching.selects(hard.selector, pod.metadata.labels or {})
            ):
                found[labels[hard.key]] += 1
        return found

    def skew(self, hard: Hard, node: objects.Node, more: int) -> str | None:
        domain = (node.metadata.labels or {}).get(hard.key)
        if domain is None:
            return f"the node lacks the topology key {hard.key} of a spread constraint" if more >= 0 else None
        counts = self.counted(hard)
        least = 0 if len(counts) < max(1, hard.min_domains) else min(counts.values())
        skew = counts[domain] + max(more, 0) - least
        if skew <= hard.max_skew:
            return None
        return f"{hard.key}={domain} has {counts[domain]} matching pods, minimum {least}: skew {skew} over maxSkew {hard.max_skew}"

    def spread(self, new: There) -> list[Fault]:
        try:
            faults = [self.skew(hard, new.node, hard.own) for hard in self.constraints(new.pod)]
        except matching.InvalidSelector as error:
            faults = [f"a topology spread constraint cannot be read: {error}"]
        return [("PodTopologySpread", why) for why in faults if why is not None]

    def final(self, placed: Sequence[tuple[Assignment, objects.Pod]]) -> Iterator[Violation]:
        """Yield the faults of the final state, once for each constraint and domain."""
        told = set()
        for entry, pod in placed:
            try:
                constraints = self.constraints(pod)
            except matching.InvalidSelector:
                continue
            for hard in constraints:
                node = self.nodes[entry.node]
                domain = (node.metadata.labels or {}).get(hard.key)
                mark = hard.namespace, hard.selector, hard.key, hard.eligible, hard.max_skew, hard.min_domains, domain
                if domain is not None and mark not in told:
                    told.add(mark)
                    why = self.skew(hard, node, -1)
                    if why is not None:
                        yield Violation(entry.pod, entry.node, "PodTopologySpread", f"in the final state {why}")

    # --- InterPodAffinity -------------------------------------------------------------------------------------------------------------

    def holds(self, match: affinity_terms.Match, pod: objects.Pod) -> bool:
        namespace = pod.metadata.namespace or "default"
        return match.holds(namespace, pod.metadata.labels or {}, self.spaces.get(namespace, {}))

    def is_exempt(self, pod: objects.Pod) -> bool:
        return (pod.metadata.namespace or "default") in self.exempt

    def anti(self, new: There) -> list[Fault]:
        terms = affinity_terms.read_terms(new.pod)
        if terms.fault is not None:
            return [("InterPodAffinity", f"a pod (anti-)affinity term cannot be read: {terms.fault}")]
        if self.is_exempt(new.pod):
            return []
        labels, found = new.node.metadata.labels or {}, []
        others = [each for each in self.there if not self.is_exempt(each.pod)]

        def near(each: There, key: str) -> bool:
            return key in labels and (each.node.metadata.labels or {}).get(key) == labels[key]

        for match, key in terms.anti:
            other = next((each for each in others if near(each, key) and self.holds(match, each.pod)), None)
            if other is not None:
                found.append(f"pod {objects.pod_key(other.pod)} in {key}={labels[key]} matches its anti-affinity term")
        told = set()
        for each in others:
            for match, key in affinity_terms.read_terms(each.pod).anti:
                if near(each, key) and (match, key) not in told and self.holds(match, new.pod):
                    told.add((match, key))
                    found.append(f"it matches an anti-affinity term of pod {objects.pod_key(each.pod)} in {key}={labels[key]}")
        return [("InterPodAffinity", why) for why in found]

    def affinity(self, new: There) -> list[Fault]:
        terms, labels = affinity_terms.read_terms(new.pod), new.node.metadata.labels or {}
        keys = sorted({key for _, key in terms.affinity})
        lacking = [key for key in keys if key not in labels]
        if terms.fault is not None or lacking:
            why = [f"the node lacks the topology key {key} of an affinity term" for key in lacking if terms.fault is None]
            return [("InterPodAffinity", each) for each in why]
        domains = [
            each.node.metadata.labels or {} for each in self.there if all(self.holds(match, each.pod) for match, _ in terms.affinity)
        ]
        empty = [key for key in keys if not any(each.get(key) == labels[key] for each in domains)]
        nobody = not any(key in each for each in domains for key in keys)
        if nobody and all(self.holds(match, new.pod) for match, _ in terms.affinity):
            return []
        return [("InterPodAffinity", f"no pod in {key}={labels[key]} matches all its affinity terms") for key in empty]

    def together(self, coming: Sequence[There]) -> list[list[str]]:
        """Required affinity of a unit, by the one function for it, in a state that is made for this question."""
        state, reader = affinity.AffinityState(self.spaces, self.exempt), affinity_terms.MemberReader()
        members = [(reader.member(each.pod), each.node) for each in self.there]
        unit = [(reader.member(each.pod), each.node) for each in coming]
        state.announce([member for member, _ in (*members, *unit)], judged=True)
        for member, node in members:
            state.add(member, node)
        return units.affinity_faults(state, unit)
