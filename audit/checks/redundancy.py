"""Replicas that share a node or zone although they could be separated, by the rule that could separate them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from kubestow.audit.view.finding import Code
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.cluster import HARD_EFFECTS, Ids
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import PodAffinityTerm
from kubestow.models.kube.pod_spec import affinity_terms
from kubestow.models.kube.selectors import (
    UNSCHEDULABLE_TAINT,
    Bools,
    Tolerations,
    canonical,
    label_key_requirements,
    selector_matches,
    tolerates,
)

ZONE: Final = "topology.kubernetes.io/zone"
#: Kinds whose pods can replace each other. Jobs and DaemonSets choose nodes for other reasons, and other kinds are
#: unknown.
KINDS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")

_FIX: Final = "Add a topology spread constraint, or anti-affinity to the template's own labels, over kubernetes.io/hostname."
ONE_NODE: Final = Code(
    "KS511", "replicas-share-node", "warning", "All replicas of a workload run on one node, and none of its rules separates them",
    "A failure or drain of this node stops all replicas at once.",
    f"{_FIX} Then restart the workload.",
)  # fmt: skip
ONE_NODE_ANYWAY: Final = Code(
    "KS512", "replicas-share-node-anyway", "info",
    "All replicas of a workload run on one node despite a rule that should spread them",
    "A failure or drain of this node stops all replicas at once. A preference, or such a large maxSkew, does not prevent this.",
    "Restart the workload or run rebalance. If the spread must hold, make the rule required.",
)  # fmt: skip
ONE_ZONE: Final = Code(
    "KS513", "replicas-share-zone", "info", "All replicas of a workload run in one zone, and none of its rules separates them",
    "A failure of this zone stops all replicas at once, although they could run in several zones.",
    f"Add a topology spread constraint over {ZONE} to the template.",
)  # fmt: skip
MOST: Final = Code(
    "KS514", "most-replicas-on-one-node", "info",
    "More than half of the replicas of a workload run on one node, and none of its rules separates them",
    "A failure of this node stops most replicas at once, and breaks the quorum of replicas that vote.",
    _FIX,
)  # fmt: skip
CHANCE: Final = Code(
    "KS515", "replicas-apart-by-chance", "info", "No rule at all keeps the replicas of a workload apart",
    "The next time they are placed, all may run on one node. The cluster's default constraints do not apply to them.",
    _FIX,
)  # fmt: skip
PINNED: Final = Code(
    "KS516", "replicas-pinned-to-node", "warning",
    "The node selector, affinity and tolerations of a workload with several replicas allow only one node",
    "No replica survives a failure of this node, regardless of their number.",
    "Relax nodeSelector, required node affinity or tolerations, or label more nodes.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (ONE_NODE, ONE_NODE_ANYWAY, ONE_ZONE, MOST, CHANCE, PINNED)


def check(view: ClusterView) -> Iterator[Finding]:
    here = _ClusterNodes(view)
    for subject in view.subjects:
        if subject.kind in KINDS and subject.wanted >= 2:
            yield from here.findings(subject)


class _ClusterNodes:
    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.zones = view.nodes.column(ZONE)
        self._takes: dict[bytes, Bools] = {}

    def findings(self, subject: Subject) -> Iterator[Finding]:
        nodes = self.view.homes(subject.pods)
        if nodes and self._meant(subject, nodes):
            return
        keys = list(_keys(subject))
        if len(nodes) >= 2 and self.view.nodes.size >= 2:
            takes = self.takes(subject)
            counts = Counter(nodes)
            node, number = counts.most_common(1)[0]
            if int(takes.sum()) == 1 and set(nodes) == {int(np.argmax(takes))}:
                yield self._pinned(subject, node)
                return
            if len(counts) == 1:
                if int(takes.sum()) >= 2:
                    yield from self._one_node(subject, node, keys, len(nodes))
                return
            zone = self._one_zone(subject, nodes, takes, keys)
            if zone is not None:
                yield zone
                return
            if 2 * number > len(nodes) and number > -(-len(nodes) // int(takes.sum() or 1)) and not self._kept(keys, [node]):
                yield self._most(subject, node, number, len(nodes))
                return
        if not keys and not self._defaults(subject):
            yield CHANCE.found(subject.name, f"nothing keeps its {subject.wanted} replicas apart", field=subject.path)

    # --- findings --------------------------------------------------------------------------------------------------------------

    def _pinned(self, subject: Subject, node: int) -> Finding:
        name = self.view.nodes.names[node]
        text = f"only {name} of {self.view.nodes.size} nodes may take its {subject.wanted} replicas"
        return PINNED.found(subject.name, text, field=subject.path, rule="NodeAffinity", nodes=[name], pods=self.view.keys(subject.pods))

    def _one_node(self, subject: Subject, node: int, keys: list[tuple[str, bool]], number: int) -> Iterator[Finding]:
        name, pods = self.view.nodes.names[node], self.view.keys(subject.pods)
        if not self._kept(keys, [node]):
            text = f"all {number} pods run on {name}{self._guard(subject)}"
            yield ONE_NODE.found(subject.name, text, field=subject.path, nodes=[name], pods=pods)
        elif not any(hard for key, hard in keys if self._joins(key, [node])):
            rule = ", ".join(dict.fromkeys(key for key, _ in keys if self._joins(key, [node])))
            text = f"all {number} pods run on {name} despite their rule over {rule}"
            yield ONE_NODE_ANYWAY.found(subject.name, text, field=subject.path, nodes=[name], pods=pods)

    def _one_zone(self, subject: Subject, nodes: list[int], takes: Bools, keys: list[tuple[str, bool]]) -> Finding | None:
        codes, names = self.zones
        found = {int(codes[n]) for n in nodes}
        possible = {int(code) for code in codes[takes]} - {-1}
        zone = next(iter(found))
        if len(found) > 1 or zone < 0 or len(possible | found) < 2 or self._kept(keys, np.flatnonzero(codes == zone).tolist()):
            return None
        among = f"although its node rules allow {len(possible | found)} zones"
        text = f"all {len(nodes)} pods run in zone {names[zone]}, {among}{self._guard(subject)}"
        return ONE_ZONE.found(
            subject.name, text, field=subject.path, domain=f"{ZONE}={names[zone]}", pods=self.view.keys(subject.pods),
            severity="info" if keys or self._defaults(subject) else "warning",
        )  # fmt: skip

    def _most(self, subject: Subject, node: int, number: int, total: int) -> Finding:
        name = self.view.nodes.names[node]
        pods = [i for i in subject.pods if self.view.snapshot.pods[i].spec.nodeName == name]
        text = f"{number} of {total} pods run on {name}{self._guard(subject)}"
        return MOST.found(subject.name, text, field=subject.path, nodes=[name], pods=self.view.keys(pods))

    def _guard(self, subject: Subject) -> str:
        return "; only the cluster's default constraints prefer otherwise" if self._defaults(subject) else "; no rule separates them"

    # --- rules that keep apart ----------------------------------------------------------------------------------------------

    def _meant(self, subject: Subject, nodes: list[int]) -> bool:
        """Return True if pods run together on purpose: by pod affinity, or because they share a volume."""
        if any(self._joins(term.topologyKey, nodes) for term, _ in affinity_terms(subject.pod, "podAffinity")):
            return True
        volumes = subject.pod.spec.volumes or ()
        return subject.kind != "StatefulSet" and any(volume.persistentVolumeClaim is not None for volume in volumes)

    def _kept(self, keys: list[tuple[str, bool]], nodes: list[int]) -> bool:
        """Return True if a rule of the subject discourages its pods from sharing these nodes."""
        return any(self._joins(key, nodes) for key, _ in keys)

    def _joins(self, key: str, nodes: list[int]) -> bool:
        """Return True if these nodes belong to one domain of a key."""
        codes: Ids = self.view.nodes.column(key)[0][nodes]
        return bool(codes[0] >= 0 and (codes == codes[0]).all())

    def _defaults(self, subject: Subject) -> bool:
        """Return True if the cluster's default spread constraints apply to the pods.

        They apply to pods without constraints of their own that have an owner of a suitable kind, even if the
        snapshot lacks the owner.
        """
        policy = self.view.policy
        constraints = policy.defaultConstraints if policy.multipliers.topologySpread else ()
        return bool(constraints) and not subject.pod.spec.topologySpreadConstraints

    # --- nodes --------------------------------------------------------------------------------------------------------------

    def takes(self, subject: Subject) -> Bools:
        """Return bool[N]: the nodes that the pods' selector, required node affinity and tolerations allow."""
        spec, nodes, gates = subject.pod.spec, self.view.nodes, self.view.snapshot.gates
        affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
        key = _encoder.encode((spec.nodeSelector, affinity, spec.tolerations))
        found = self._takes.get(key)
        if found is None:
            found = nodes.has_labels(spec.nodeSelector or {}) & nodes.tolerated(Tolerations(spec.tolerations, gates), HARD_EFFECTS)
            for required in (
                affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None,
                affinity.requiredDuringSchedulingRequiredDuringExecution if affinity is not None else None,
            ):
                if required is not None:
                    found = found & nodes.selector(required)
            if not any(tolerates(each, UNSCHEDULABLE_TAINT) for each in spec.tolerations or ()):
                found = found & ~nodes.unschedulable
            self._takes[key] = found
        return found


_encoder: Final = msgspec.json.Encoder(order="deterministic")


def _keys(subject: Subject) -> Iterator[tuple[str, bool]]:
    """Yield the topology keys over which a workload separates its own pods, each with True if the rule is required."""
    for term, required in affinity_terms(subject.pod, "podAntiAffinity"):
        if _own(subject, term):
            yield term.topologyKey, required
    for constraint in subject.pod.spec.topologySpreadConstraints or ():
        if selector_matches(canonical(constraint.labelSelector), subject.labels):
            yield constraint.topologyKey, False


def _own(subject: Subject, term: PodAffinityTerm) -> bool:
    """Return True if a term matches the pods that carry it. A namespaceSelector is assumed to select their namespace."""
    if term.namespaces and subject.namespace not in term.namespaces and term.namespaceSelector is None:
        return False
    extra = label_key_requirements(subject.labels, term.matchLabelKeys, term.mismatchLabelKeys)
    return selector_matches(canonical(term.labelSelector, extra), subject.labels)
