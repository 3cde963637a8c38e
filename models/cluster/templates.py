"""Templates: groups of pods with equal raw specs, with their affinity, spread constraints and requests in compiled form."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np

from kubestow.models.cluster.admission import Refusal, refusals
from kubestow.models.cluster.anti_affinity.pod_terms import namespace_labels_of
from kubestow.models.cluster.cluster import AffinityTerm, Ids, Matchers, Pull
from kubestow.models.cluster.default_spread import DefaultSpread
from kubestow.models.cluster.node_scores import weighed
from kubestow.models.devices.demand import DeviceDemand
from kubestow.models.devices.table import DeviceTable
from kubestow.models.documents.policy import DefaultConstraint, Policy
from kubestow.models.gangs import gangs
from kubestow.models.kube import objects, pod_requests
from kubestow.models.kube.objects import Pod, PodAffinityTerm
from kubestow.models.kube.pod_spec import affinity_terms, claim_keys, named_claims, preferred_terms, required_terms
from kubestow.models.kube.selectors import LabelRequirement, Selector, canonical, label_key_requirements, selector_matches
from kubestow.models.numa.annotations import has_hints
from kubestow.models.numa.balloons import Balloons
from kubestow.models.numa.colocation import switched
from kubestow.models.numa.container_classes import ContainerTable
from kubestow.models.numa.containers import ContainerClass, NoContainers
from kubestow.models.numa.isolated_cpus import IsolatedCPUs
from kubestow.models.numa.node_topology import NumaTree
from kubestow.models.snapshot.scope import Scope, is_mirror
from kubestow.models.snapshot.snapshot import InputError, Snapshot

_encoder = msgspec.json.Encoder(order="deterministic")
#: Pseudo label key of gang members. Real label keys cannot contain NUL.
GANG_LABEL = "\0gang"

#: Fields of a pod's spec that do not affect placement, or that :class:`TemplateReader` reads in another way (nodeName of mirror pods,
#: volumes as claims, gangs). All other fields distinguish pods, including fields added later.
UNREAD: Final = frozenset(
    (
        "nodeName", "priorityClassName", "preemptionPolicy", "schedulerName", "volumes", "schedulingGates",
        "resourceClaims", "workloadRef", "schedulingGroup", "activeDeadlineSeconds", "securityContext",
    )
)  # fmt: skip
#: Further fields that do not affect placement once a pod is bound: it no longer needs a node, and its priority does not count.
UNREAD_FIXED: Final = UNREAD | {"nodeSelector", "tolerations", "topologySpreadConstraints", "priority", "hostNetwork", "hostUsers"}
_PENDING_FIELDS: Final = attrgetter(*(name for name in objects.PodSpec.__struct_fields__ if name not in UNREAD))
_FIXED_FIELDS: Final = attrgetter(*(name for name in objects.PodSpec.__struct_fields__ if name not in UNREAD_FIXED))


@dataclass
class ClassTemplate:
    """Pods with equal raw rules: equal in every field that can affect placement, labels included.

    Attributes:
        supposed: CPU and memory that the pod adds to ``demand`` in the balance score.
        soft_spread: ScheduleAnyway constraints, each with its matcher and the topology keys that eligible nodes carry.
        apart: Number given to running pods that may be moved; templates with different numbers are never merged.
        refused: The rule that refuses to create the pods, and the reason.
        devices: The devices that pending pods request.
        profile: Index of the profile, set when all selectors are known.
        reading: Number shared by templates that differ only in labels and pods.
        nodes: The node of each of ``pods``, for fixed pods.
    """

    pod: Pod
    pods: list[int]
    demand: dict[str, int]
    supposed: tuple[int, int]
    anti: tuple[AffinityTerm, ...]
    affinity: tuple[int, tuple[str, ...]] | None
    spread: list[tuple[int | None, objects.TopologySpreadConstraint]]
    pulls: tuple[Pull, ...]
    soft_spread: list[tuple[int, objects.TopologySpreadConstraint, tuple[str, ...]]]
    containers: ContainerClass | None
    gang: int | None
    apart: int | None = None
    refused: Refusal | None = None
    devices: DeviceDemand | None = None
    profile: int = -1
    reading: int = -1
    nodes: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace or "default"


class TemplateReader:
    """A reader of pods that returns templates and registers the matchers of their terms."""

    def __init__(
        self,
        snapshot: Snapshot,
        scope: Scope,
        policy: Policy,
        daemon_namespaces: tuple[str, ...],
        running: Mapping[int, int],
        *,
        trees: Collection[NumaTree],
        devices: DeviceTable | None = None,
        hard_spread: Sequence[DefaultConstraint] = (),
    ) -> None:
        self.snapshot, self.policy, self.running = snapshot, policy, running
        self._devices = devices.demands if devices is not None else {}
        self._demands: dict[DeviceDemand, int] = {}
        self.daemons = frozenset(daemon_namespaces)
        self.matchers = Matchers()
        self.namespaces = {*snapshot.namespaces, *(p.metadata.namespace or "default" for p in snapshot.pods)}
        self._selected: dict[Selector, frozenset[str]] = {}
        self.containers = _containers(snapshot, scope, switched(policy, snapshot), rejecting=any(tree.rejects for tree in trees))
        self.default_spread = DefaultSpread(snapshot, policy, hard_spread)
        self._scores = weighed(policy)
        self._refused = refusals(snapshot, policy, daemon_namespaces)
        self.balloons, self.isolated = _balloons(snapshot), _isolated(snapshot)
        gang_scope = scope
        if running:  # running members of a gang are not pods to place
            waiting = [i for i in scope.pending if i not in running]
            gang_scope = replace(scope, pending=waiting, fixed=sorted([*scope.fixed, *running]))
        self.gangs = gangs.find(snapshot, gang_scope, tiers=policy.networkTiers)
        self._gang_of = {i: k for k, gang in enumerate(self.gangs) for i in (*gang.pods, *gang.bound) if i not in running}

    def templates(self, indices: Sequence[int], *, bound: bool) -> list[ClassTemplate]:
        """Return the distinct templates of some pods, each with the indices of its pods.

        Args:
            indices: Indices into ``snapshot.pods``.
            bound: True for fixed pods, which only use capacity and repel pods.
        """
        found: dict[tuple[bytes, bytes], ClassTemplate] = {}
        known: dict[tuple[object, ...], ClassTemplate] = {}  # by the objects that replicas share
        readings: dict[tuple[object, ...], ClassTemplate] = {}
        for i in indices:
            pod = self.snapshot.pods[i]
            same = self._shared(pod, i, bound=bound)
            template = known.get(same) if same is not None else None
            if template is None:
                rules, labels = self._rules(pod, i, bound=bound), _encoder.encode(pod.metadata.labels)
                template = found.get((rules, labels))
                if template is None:
                    template = found[rules, labels] = self._template(pod, i, (rules,), readings, bound=bound)
                else:
                    template.pods.append(i)
                if same is not None:
                    known[same] = template
            else:
                template.pods.append(i)
        return list(found.values())

    def _shared(self, pod: Pod, i: int, *, bound: bool) -> tuple[object, ...] | None:
        """Return a cheap key that is equal for pods that share all relevant objects, or None if object identity is not enough."""
        spec, metadata = pod.spec, pod.metadata
        if spec.volumes or (spec.nodeName and not bound):
            return None
        fields = (pod.status, *_FIXED_FIELDS(spec)) if bound else (metadata.annotations, metadata.ownerReferences, *_PENDING_FIELDS(spec))
        own = self.containers.key(i), self._gang_of.get(i), self.running.get(i), self._refused.get(i), id(self._devices.get(i))
        return metadata.namespace, id(metadata.labels), *own, *map(id, fields)

    def _rules(self, pod: Pod, i: int, *, bound: bool) -> bytes:
        """Return everything in a pod that can affect placement, except its labels, as bytes."""
        parts: list[object] = [pod.metadata.namespace]
        if bound:
            parts += _FIXED_FIELDS(pod.spec)
            parts += _held(pod)
        else:
            parts += _PENDING_FIELDS(pod.spec)
            parts += [pod.spec.nodeName if is_mirror(pod) else None, claim_keys(pod), named_claims(pod), self.default_spread.key(pod)]
            parts += chain.from_iterable(kind.fields(pod) for kind in self._scores)
        parts += [self.containers.key(i), self._gang_of.get(i), self.running.get(i), self._refused.get(i)]
        parts += [each.key(pod) for each in (self.balloons, self.isolated) if each is not None and not bound]
        parts += [self._demand(i)] if not bound and self._devices else []
        return _encoder.encode(parts)

    def _template(
        self, pod: Pod, i: int, key: tuple[object, ...], readings: dict[tuple[object, ...], ClassTemplate], *, bound: bool
    ) -> ClassTemplate:
        """Return the template of a pod. Templates that differ only in labels share one reading."""
        key = (*key, *([] if bound else [_encoder.encode(_held(pod))]), *([i] if _reads_labels(pod) else []))
        read = readings.get(key)
        if read is None:
            read = readings[key] = self._read(pod, i, bound=bound)
            read.reading = len(readings)
            return read
        return replace(read, pod=pod, pods=[i])

    def _demand(self, i: int) -> int | None:
        """Return a number for the device demand of a pending pod, equal for equal demands."""
        device_demand = self._devices.get(i)
        return None if device_demand is None else self._demands.setdefault(device_demand, len(self._demands))

    def _read(self, pod: Pod, index: int, *, bound: bool) -> ClassTemplate:
        try:
            asks = msgspec.structs.replace(pod, status=None) if index in self.running else pod  # requests of a replacement pod
            demand = pod_requests.pod_request(asks, self.snapshot.gates)
            supposed = pod_requests.supposed_more(asks, demand, self.snapshot.gates)
        except ValueError as error:
            raise InputError([f"Pod {objects.pod_key(pod)}: requests: {error}"]) from error
        anti, affinity, spread = self._anti(pod), self._affinity(pod), self._spread(pod)
        soft = [] if bound else self._soft_spread(pod)
        pulls = self._pulls(pod, bound=bound) + self._together(index)
        return ClassTemplate(
            pod, [index], demand, supposed, anti, affinity, spread, pulls, soft, self.containers.of(index), self._gang_of.get(index),
            self.running.get(index), self._refused.get(index), None if bound else self._devices.get(index),
        )  # fmt: skip

    def _anti(self, pod: Pod) -> tuple[AffinityTerm, ...]:
        """Return the required anti-affinity terms. Pods of daemon namespaces have none and are not matched by any."""
        if (pod.metadata.namespace or "default") in self.daemons:
            return ()
        anti: set[AffinityTerm] = set()
        for term in required_terms(pod, "podAntiAffinity"):
            part = self._term(pod, term)
            if part is not None:
                if self.daemons:
                    part = (frozenset(self.namespaces if part[0] is None else part[0]) - self.daemons, part[1])
                anti.add(AffinityTerm(self.matchers.add(part), term.topologyKey))
        return tuple(sorted(anti, key=lambda t: (t.matcher, t.key)))

    def _affinity(self, pod: Pod) -> tuple[int, tuple[str, ...]] | None:
        terms = required_terms(pod, "podAffinity")
        if not terms:
            return None
        nothing = (frozenset[str](), ())  # a nil selector matches no pod
        full = self.matchers.add(*(self._term(pod, term) or nothing for term in terms))
        return full, tuple(sorted({t.topologyKey for t in terms}))

    def _spread(self, pod: Pod) -> list[tuple[int | None, objects.TopologySpreadConstraint]]:
        constraints = [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "DoNotSchedule"]
        constraints += self.default_spread.hard_of(pod)
        return [(self._counted(pod, constraint), constraint) for constraint in constraints]

    def _counted(self, pod: Pod, constraint: objects.TopologySpreadConstraint) -> int | None:
        """Return the matcher of the pods that a constraint counts, or None if it counts none."""
        extra = label_key_requirements(pod.metadata.labels or {}, constraint.matchLabelKeys)
        selector = canonical(constraint.labelSelector, extra)
        return self.matchers.add((frozenset((pod.metadata.namespace or "default",)), selector)) if selector else None

    def _namespaces(self, term: PodAffinityTerm, own: str) -> frozenset[str] | None:
        """Return the namespaces that a term covers, or None for all namespaces."""
        if not term.namespaces and term.namespaceSelector is None:
            return frozenset((own,))
        listed = frozenset(term.namespaces or ())
        selector = canonical(term.namespaceSelector)
        if selector is None:
            return listed
        if not selector:
            return None
        chosen = self._selected.get(selector)
        if chosen is None:
            chosen = frozenset(n for n in self.namespaces if selector_matches(selector, namespace_labels_of(self.snapshot, n)))
            self._selected[selector] = chosen
        return listed | chosen

    def _term(self, pod: Pod, term: PodAffinityTerm) -> tuple[frozenset[str] | None, Selector] | None:
        """Return the namespaces and the selector of a term, or None if it matches no pod (nil selector)."""
        extra = label_key_requirements(pod.metadata.labels or {}, term.matchLabelKeys, term.mismatchLabelKeys)
        selector = canonical(term.labelSelector, extra)
        if selector is None:
            return None
        return self._namespaces(term, pod.metadata.namespace or "default"), selector

    def _pulls(self, pod: Pod, *, bound: bool) -> tuple[Pull, ...]:
        """Return the weighted terms of a pod, summed by matcher and key. Daemon namespaces are not exempt.

        Terms of a bound pod count against the pods to place. Its preferred anti-affinity does so only under a symmetric policy.
        """
        found: dict[tuple[int, str, str], int] = {}

        def add(family: str, term: PodAffinityTerm, weight: int) -> None:
            part = self._term(pod, term) if weight else None
            if part is not None:
                key = (self.matchers.add(part), term.topologyKey, family)
                found[key] = found.get(key, 0) + weight

        multipliers = self.policy.multipliers
        if multipliers.podAffinity:
            for weighted in preferred_terms(pod, "podAffinity"):
                add("podAffinity", weighted.podAffinityTerm, weighted.weight)
            mutual = not bound or self.policy.symmetricPreferredAntiAffinity
            for weighted in preferred_terms(pod, "podAntiAffinity") if mutual else ():
                add("podAffinity", weighted.podAffinityTerm, -weighted.weight)
        if multipliers.requiredAffinity:
            for term in required_terms(pod, "podAffinity"):
                add("requiredAffinity", term, self.policy.hardPodAffinityWeight)
        return tuple(Pull(m, k, w, family) for (m, k, family), w in sorted(found.items()) if w)

    def _together(self, index: int) -> tuple[Pull, ...]:
        """Return the preferred topology of a gang as preferred pod affinity of each member to all others."""
        gang = self.gangs[self._gang_of[index]] if index in self._gang_of else None
        if gang is None or gang.key is None or gang.required or not self.policy.multipliers.podAffinity:
            return ()
        matcher = self.matchers.add((None, (LabelRequirement(GANG_LABEL, "In", (gang.name,)),)))
        return (Pull(matcher, gang.key, gangs.PREFERRED_TOPOLOGY_POINTS, "podAffinity"),)

    def labels(self, template: ClassTemplate) -> dict[str, str]:
        """Return the labels of a pod for selectors. Gang members get an additional key that no real label can have."""
        labels = template.pod.metadata.labels or {}
        return labels if template.gang is None else {**labels, GANG_LABEL: self.gangs[template.gang].name}

    def _soft_spread(self, pod: Pod) -> list[tuple[int, objects.TopologySpreadConstraint, tuple[str, ...]]]:
        if not self.policy.multipliers.topologySpread:
            return []
        constraints = [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "ScheduleAnyway"]
        keys = tuple(sorted({c.topologyKey for c in constraints}))
        wanted = [(c, keys) for c in constraints] if pod.spec.topologySpreadConstraints else self.default_spread.of(pod)
        found = [(self._counted(pod, constraint), constraint, carried) for constraint, carried in wanted]
        return [(matcher, constraint, carried) for matcher, constraint, carried in found if matcher is not None]


def _held(pod: Pod) -> list[object]:
    """Return the parts of a pod's status that determine the resources it holds."""
    status = pod.status
    if status is None:
        return []
    return [status.conditions, status.containerStatuses, status.initContainerStatuses, status.resources, status.allocatedResources]


def _reads_labels(pod: Pod) -> bool:
    """Return True if a term or constraint of the pod reads the pod's own labels."""
    terms = (term for kind in ("podAffinity", "podAntiAffinity") for term, _ in affinity_terms(pod, kind))
    spread = pod.spec.topologySpreadConstraints or ()
    return any(c.matchLabelKeys for c in spread) or any(term.matchLabelKeys or term.mismatchLabelKeys for term in terms)


def _balloons(snapshot: Snapshot) -> Balloons | None:
    """Return the BalloonsPolicies of the nodes, or None without loading their module if there are none."""
    if not snapshot.balloons_policies:
        return None
    return Balloons(snapshot.nodes, snapshot.balloons_policies, snapshot.node_topologies)


def _isolated(snapshot: Snapshot) -> IsolatedCPUs | None:
    """Return the TopologyAwarePolicies of the nodes, or None without loading their module if there are none."""
    if not snapshot.topology_aware_policies:
        return None
    return IsolatedCPUs(snapshot.nodes, snapshot.topology_aware_policies, snapshot.node_topologies, snapshot.pods)


def _containers(snapshot: Snapshot, scope: Scope, policy: Policy, *, rejecting: bool) -> NoContainers:
    """Return the table of container classes, or an empty one if neither the policy nor any node needs it."""
    on = bool(policy.multipliers.containerAffinity)
    hinted = on and (policy.colocatePods or policy.colocateNamespaces or any(has_hints(pod) for pod in snapshot.pods))
    if not (rejecting or hinted):
        return NoContainers()
    return ContainerTable(snapshot, scope, policy, rejecting=rejecting)
