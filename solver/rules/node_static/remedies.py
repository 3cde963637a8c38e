"""The remedies for TaintToleration and NodeAffinity.

Misspelt labels and taints are corrected, nodes become ready or get a label, taints are tolerated, requirements on nodes dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.near_misses import label_misses, required
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, Toleration
from kubestow.models.kube.selectors import Tolerations
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import name
from kubestow.solver.rules.base import StaticRule
from kubestow.solver.rules.node_static.near_taints import hard_taints, taint_misses, taint_text
from kubestow.solver.rules.remedies import Arguments, Idea, PodEdit, templates, text, with_spec

#: Taints that a node has for its condition (well_known_taints.go, taint_eviction), with the condition that ends them and the present one.
_CONDITIONS: Final = {
    "node.kubernetes.io/not-ready": ("is Ready", "NotReady"),
    "node.kubernetes.io/unreachable": ("is reachable", "unreachable"),
    "node.kubernetes.io/network-unavailable": ("has its network", "without its network"),
    "node.kubernetes.io/memory-pressure": ("has memory again", "short of memory"),
    "node.kubernetes.io/disk-pressure": ("has disk space again", "short of disk space"),
    "node.kubernetes.io/pid-pressure": ("has process IDs again", "short of process IDs"),
    "node.cloudprovider.kubernetes.io/uninitialized": ("is initialised by its cloud provider", "not initialised"),
}

#: Domains of labels that kubelets, cloud providers and device plugins give to nodes. An operator does not change these.
_GIVEN_BY_SYSTEMS: Final = (
    "kubernetes.io",
    "k8s.io",
    "amazonaws.com",
    "google.com",
    "azure.com",
    "karpenter.sh",
    "nvidia.com",
    "intel.com",
)
_ROLES: Final = ("node-role.kubernetes.io", "node-restriction.kubernetes.io")


def _given_by_operators(key: str) -> bool:
    """Return True if operators put labels with this key on nodes."""
    domain = key.rpartition("/")[0]
    return domain in _ROLES or not domain.endswith(_GIVEN_BY_SYSTEMS)


def _node_selector(pod: Pod, arguments: Arguments) -> Pod:
    entries = pod.spec.nodeSelector or {}
    if entries.get(arguments["key"]) != arguments["value"]:
        return pod
    return with_spec(pod, nodeSelector={k: v for k, v in entries.items() if k != arguments["key"]} or None)


def _node_affinity(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod without an expression in every alternative. An alternative without other expressions then admits every node."""
    return _with_required(pod, lambda selector: _without(selector, arguments["expression"]))


def _with_required(pod: Pod, change: Callable[[objects.NodeSelector], objects.NodeSelector | None]) -> Pod:
    """Return the pod with its required node affinity changed."""
    affinity = pod.spec.affinity
    part = affinity.nodeAffinity if affinity is not None else None
    if affinity is None or part is None:
        return pod
    changed: dict[str, object] = {}
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        selector: objects.NodeSelector | None = getattr(part, variant)
        if selector is not None:
            changed[variant] = change(selector)
    return with_spec(pod, affinity=msgspec.structs.replace(affinity, nodeAffinity=msgspec.structs.replace(part, **changed)))


def _without(selector: objects.NodeSelector, expression: str) -> objects.NodeSelector | None:
    terms = []
    for term in selector.nodeSelectorTerms or ():
        expressions = [e for e in term.matchExpressions or () if text(e) != expression]
        fields = [f for f in term.matchFields or () if text(f) != expression]
        if (term.matchExpressions or term.matchFields) and not expressions and not fields:
            return None
        terms.append(objects.NodeSelectorTerm(expressions or None, fields or None))
    return objects.NodeSelector(terms)


def _toleration(pod: Pod, arguments: Arguments) -> Pod:
    value = arguments.get("value")
    added = Toleration(arguments["key"], "Equal" if value else "Exists", value, arguments["effect"])
    return with_spec(pod, tolerations=[*(pod.spec.tolerations or ()), added])


def _corrected_selector(pod: Pod, arguments: Arguments) -> Pod:
    entries = pod.spec.nodeSelector or {}
    if entries.get(arguments["key"]) != arguments["value"]:
        return pod
    rest = {k: v for k, v in entries.items() if k != arguments["key"]}
    return with_spec(pod, nodeSelector=rest | {arguments["toKey"]: arguments["toValue"]})


def _corrected_affinity(pod: Pod, arguments: Arguments) -> Pod:
    meant = msgspec.json.decode(arguments["to"], type=objects.NodeSelectorRequirement)

    def corrected(selector: objects.NodeSelector) -> objects.NodeSelector:
        terms = [
            msgspec.structs.replace(
                term, matchExpressions=[meant if text(e) == arguments["expression"] else e for e in term.matchExpressions or ()] or None
            )
            for term in selector.nodeSelectorTerms or ()
        ]
        return objects.NodeSelector(terms)

    return _with_required(pod, corrected)


def _corrected_toleration(pod: Pod, arguments: Arguments) -> Pod:
    meant = {"key": arguments["key"]} | ({"value": arguments["value"]} if "value" in arguments else {})
    changed = [msgspec.structs.replace(t, **meant) if text(t) == arguments["toleration"] else t for t in pod.spec.tolerations or ()]
    return with_spec(pod, tolerations=changed)


def _ready(snapshot: Snapshot, _: Collection[int], arguments: Arguments) -> Snapshot:
    """Return the snapshot in which the taints of conditions are gone from a node."""

    def ready(node: objects.Node) -> objects.Node:
        spec = node.spec
        if node.metadata.name != arguments["node"] or spec is None:
            return node
        taints = [taint for taint in spec.taints or () if taint.key not in _CONDITIONS]
        return msgspec.structs.replace(node, spec=msgspec.structs.replace(spec, taints=taints or None))

    return replace(snapshot, nodes=[ready(node) for node in snapshot.nodes])


def _labelled(snapshot: Snapshot, _: Collection[int], arguments: Arguments) -> Snapshot:
    """Return the snapshot in which a node has one more label."""

    def labelled(node: objects.Node) -> objects.Node:
        if node.metadata.name != arguments["node"]:
            return node
        labels = {**(node.metadata.labels or {}), arguments["key"]: arguments["value"]}
        return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))

    return replace(snapshot, nodes=[labelled(node) for node in snapshot.nodes])


def _expressions(pod: Pod) -> Iterable[objects.NodeSelectorRequirement]:
    """Return each distinct requirement of required node affinity."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    if affinity is None:
        return []
    owner = objects.controller_of(pod)
    pinned = owner is not None and owner.kind == "DaemonSet"  # its controller creates each pod for one node, by metadata.name
    expressions: dict[str, objects.NodeSelectorRequirement] = {}
    for selector in (affinity.requiredDuringSchedulingIgnoredDuringExecution, affinity.requiredDuringSchedulingRequiredDuringExecution):
        for term in selector.nodeSelectorTerms or () if selector is not None else ():
            fields = () if pinned else term.matchFields or ()
            for requirement in (*(term.matchExpressions or ()), *fields):
                expressions[text(requirement)] = requirement
    return expressions.values()


class TolerationRemedies(StaticRule):
    """Tolerations to correct or to add, and nodes that lose their taint by themselves."""

    pod_changes = {"tolerate": PodEdit(_toleration), "correctToleration": PodEdit(_corrected_toleration)}
    snapshot_changes = {"nodeReady": _ready}

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, pod in templates(cluster):
            for toleration, taint in taint_misses(cluster, pod):
                arguments = {"workload": owner, "toleration": text(toleration), "key": taint.key}
                if toleration.operator != "Exists":
                    arguments["value"] = taint.value or ""
                message = f"tolerate {taint_text(taint)} instead of {taint_text(toleration)} in {name(owner)}"
                yield Idea(cls.name, 0, Remedy("correctToleration", message, arguments))

    @classmethod
    def node_changes(cls, cluster: Cluster) -> Iterator[Idea]:
        for n, node in enumerate(cluster.nodes.names):
            since: dict[str, list[str]] = {}
            for taint in cluster.nodes.taints(n):
                if taint.key in _CONDITIONS:
                    since.setdefault(taint.key, []).extend([taint.timeAdded] if taint.timeAdded else [])
            if since:
                ends = " and ".join(_CONDITIONS[key][0] for key in since)
                now = ", ".join(f"{_CONDITIONS[key][1]} since {min(times)}" for key, times in since.items() if times)
                yield Idea(cls.name, 0, Remedy("nodeReady", f"wait until {node} {ends}" + (f" ({now})" if now else ""), {"node": node}))

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        taints = hard_taints(cluster)
        for owner, pod in templates(cluster):
            own = Tolerations(pod.spec.tolerations, cluster.snapshot.gates)
            for taint in taints:
                if not own.cover(taint) and taint.key not in _CONDITIONS:
                    arguments = {"workload": owner, "key": taint.key, "effect": taint.effect}
                    if taint.value:
                        arguments["value"] = taint.value
                    yield Idea(cls.name, 1, Remedy("tolerate", f"let {name(owner)} tolerate the taint {taint_text(taint)}", arguments))


class SelectionRemedies(StaticRule):
    """Requirements on nodes to correct or to drop, and labels that nodes lack."""

    pod_changes = {
        "dropNodeSelector": PodEdit(_node_selector, admitted_again=True),
        "dropNodeAffinity": PodEdit(_node_affinity),
        "correctNodeSelector": PodEdit(_corrected_selector, admitted_again=True),
        "correctNodeAffinity": PodEdit(_corrected_affinity),
    }
    snapshot_changes = {"labelNode": _labelled}

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, pod in templates(cluster):
            for miss in label_misses(cluster.nodes, pod):
                for label in miss.meant:
                    kind, where = "correctNodeSelector", "nodeSelector"
                    arguments = {"key": miss.key, "value": miss.value or "", "toKey": label.key, "toValue": label.value or ""}
                    if miss.requirement is not None:
                        kind, where = "correctNodeAffinity", "required node affinity"
                        arguments = {"expression": text(miss.requirement), "to": text(miss.corrected(label))}
                    message = f"write {label} instead of {miss.wanted} in the {where} of {name(owner)}"
                    yield Idea(cls.name, 0, Remedy(kind, message, {"workload": owner, **arguments}))

    @classmethod
    def node_changes(cls, cluster: Cluster) -> Iterator[Idea]:
        """Yield labels that operators give and no node has, for each node."""
        missing: dict[tuple[str, str], None] = {}
        for _, pod in templates(cluster):
            known = {(miss.key, miss.value) for miss in label_misses(cluster.nodes, pod)}
            wanted = [*(pod.spec.nodeSelector or {}).items()]
            wanted += [(r.key, r.values[0]) for r in required(pod) if r.operator == "In" and r.values and len(r.values) == 1]
            for key, value in wanted:
                if _given_by_operators(key) and (key, value) not in known and not cluster.nodes.with_values(key, (value,)).any():
                    missing[key, value] = None
        for key, value in missing:
            for n, node in enumerate(cluster.nodes.names):
                if key not in cluster.nodes.labels(n):
                    remedy = Remedy("labelNode", f"label {node} with {key}={value}", {"node": node, "key": key, "value": value})
                    yield Idea(cls.name, 1, remedy)

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, pod in templates(cluster):
            imposed = namespace_admission.selector(cluster.snapshot, pod.metadata.namespace or "default")
            runtime = cluster.snapshot.runtime_classes.get(pod.spec.runtimeClassName or "")
            scheduling = runtime.scheduling if runtime is not None else None
            for key, value in (pod.spec.nodeSelector or {}).items():
                if imposed.get(key) == value or (scheduling is not None and key in (scheduling.nodeSelector or {})):
                    continue  # the namespace or the RuntimeClass would add it again
                message = f"drop {key}={value} from the nodeSelector of {name(owner)}"
                yield Idea(cls.name, 6, Remedy("dropNodeSelector", message, {"workload": owner, "key": key, "value": value}))
            for expression in _expressions(pod):
                values = f" {sorted(expression.values)}".replace("'", "") if expression.values else ""
                words = f"{expression.key} {expression.operator}{values}"
                message = f"drop {words} from the required node affinity of {name(owner)}"
                yield Idea(cls.name, 6, Remedy("dropNodeAffinity", message, {"workload": owner, "expression": text(expression)}))
