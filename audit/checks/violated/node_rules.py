"""Pods on nodes that their own rules about nodes no longer allow: node selection, taints, NUMA zones, and nodes that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from kubestow.audit.checks.violated.running_pods import Group, Running, has_execution, runs, whose
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.transient_taints import is_transient
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.cluster import HARD_EFFECTS
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import Pod, Taint, controller_of
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT
from kubestow.models.snapshot.scope import is_mirror, select
from kubestow.solver.explain.conflict.wording import node_rule
from kubestow.solver.numa import zone_pools
from kubestow.solver.rules.node_resource_topology import NodeResourceTopologyMatch
from kubestow.solver.rules.node_static import NodeAffinity, TaintToleration

SELECTION = Code(
    "KS101", "node-affinity-broken", "warning", "Running pods are on nodes that their nodeSelector or required node affinity excludes",
    "Kubernetes lets them run on (IgnoredDuringExecution; only those of a DaemonSet are deleted by its controller), but what they need of "
    "the node may be missing by now, and once they are restarted they go elsewhere, or nowhere if no other node fits.",
    "Give the nodes their labels back, correct the rule, or move the pods (kubestow rebalance --goal repair).",
)  # fmt: skip
TAINT = Code(
    "KS102", "taint-not-tolerated", "warning", "Running pods do not tolerate a NoSchedule taint of their node",
    "NoSchedule is for pods that come: these run on, on nodes that were meant for others or for nobody, and would not be let in again.",
    "Move the pods (kubestow rebalance --goal repair), add the toleration if they belong there, or take the taint off.",
)  # fmt: skip
EVICTED = Code(
    "KS103", "no-execute-not-tolerated", "error", "Running pods do not tolerate a NoExecute taint of their node",
    "The taint eviction of the control plane deletes such pods as soon as it acts, without regard to PodDisruptionBudgets: either that is "
    "about to happen, or it does not work here.",
    "Add the toleration if they belong there, or move them before they are deleted (kubestow rebalance --goal repair); if the "
    "taint is old, look for what keeps the taint eviction controller from acting.",
)  # fmt: skip
LOST_NODE = Code(
    "KS114", "node-missing", "warning", "Pods are bound to a node that the snapshot lacks",
    "Nothing can be said of these pods' rules, and others that count on them (affinity, spread) are judged without them. If the node is "
    "gone from the cluster, nothing runs there, and the pods are deleted only once the garbage collector notices.",
    "Capture all nodes; if the node is really gone, delete the pods (kubectl delete pod --force) so that their controllers replace them.",
)  # fmt: skip
ZONES = Code(
    "KS115", "numa-zones-too-small", "warning", "Running pods ask for more than the NUMA zones of their node can give under its policy",
    "The kubelet's Topology Manager would refuse the pod even on the empty node (TopologyAffinityError): after its next restart it does "
    "not run here again, and the scheduler may send its replacements here without knowing.",
    "Ask for less in one container, move the pod to nodes with larger zones, or change the node's Topology Manager policy.",
)  # fmt: skip
#: A scheduler that looks at no taints: of EKS Fargate, whose pods have no toleration of their node's.
_UNTAINTED: Final = "fargate-scheduler"
_PASSES: Final = "Nothing, if the node comes back or is about to go anyway: the taint goes with its state, and the pods with the node."


def selection(running: Running) -> Iterator[Finding]:
    """Findings of nodeSelector and required node affinity: one for each workload. Static pods are the kubelet's, whatever they select."""
    view, cluster = running.view, running.cluster
    rule = NodeAffinity(cluster)
    found: dict[tuple[str, str, str], Group] = {}
    for g, cells in enumerate(running.cells):
        if running.steady[g]:
            for at in np.flatnonzero(rule.never(g)[running.nodes[g]]).tolist():
                n, pods = cells[at]
                for i in pods:
                    pod = running.snapshot.pods[i]
                    if not (is_mirror(pod) or (has_execution(pod) and _is_plainly_kept(running, pod, n))):
                        found.setdefault((*whose(view, i), node_rule(_of_all(pod))), Group()).add([i], cluster.nodes.names[n])
    for (name, path, wanted), group in found.items():
        pods, nodes = list(group.pods), list(group.places)
        yield SELECTION.found(
            name, f"excluded by {wanted}: {some(nodes)}, where {runs(view, pods)}", field=path, rule=rule.name,
            pods=view.keys(pods), nodes=nodes,
        )  # fmt: skip


def _of_all(pod: Pod) -> Pod:
    """The pod without the one node that the controller of a DaemonSet names for it: its other rules are those of all of them."""
    owner, affinity = controller_of(pod), pod.spec.affinity
    own = affinity.nodeAffinity if affinity is not None else None
    required = own.requiredDuringSchedulingIgnoredDuringExecution if own is not None else None
    if owner is None or owner.kind != "DaemonSet" or affinity is None or own is None or required is None:
        return pod
    change = msgspec.structs.replace
    terms = [change(t, matchFields=None) for t in required.nodeSelectorTerms or () if t.matchExpressions]
    kept = change(required, nodeSelectorTerms=terms) if terms else None
    node_affinity = change(own, requiredDuringSchedulingIgnoredDuringExecution=kept)
    return change(pod, spec=change(pod.spec, affinity=change(affinity, nodeAffinity=node_affinity)))


def _is_plainly_kept(running: Running, pod: Pod, n: int) -> bool:
    """Return whether the pod's rules about nodes allow the node but for those that hold during execution, which are reported otherwise."""
    table, affinity = running.cluster.nodes, pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    selector = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    return bool(table.has_labels(pod.spec.nodeSelector or {})[n] and (selector is None or table.selector(selector)[n]))


def taints(running: Running) -> Iterator[Finding]:
    """Findings of taints: one for each workload and taint, or node and taint of its state. A cordon breaks nothing, whichever way it is
    told, and a taint nothing of static pods: the kubelet runs them without asking."""
    view, cluster = running.view, running.cluster
    rule = TaintToleration(cluster)
    found: dict[tuple[str, str, str, bool], tuple[Code, Group]] = {}
    for g, cells in enumerate(running.cells):
        if not running.steady[g]:
            continue
        tolerations = cluster.toleration_sets[cluster.classes[g].tolerations]
        for at in np.flatnonzero(rule.never(g)[running.nodes[g]]).tolist():
            n, pods = cells[at]
            for taint in cluster.nodes.taints(n):
                if taint.effect in HARD_EFFECTS and taint.key != UNSCHEDULABLE_TAINT.key and not tolerations.cover(taint):
                    code = EVICTED if taint.effect == "NoExecute" else TAINT
                    for i in pods:
                        pod = running.snapshot.pods[i]
                        if is_mirror(pod) or pod.spec.schedulerName == _UNTAINTED:
                            continue
                        transient = code is TAINT and is_transient(taint)
                        owner = (f"Node {cluster.nodes.names[n]}", "spec.taints") if transient else whose(view, i)
                        key = (*owner, _shown(taint), transient)
                        found.setdefault(key, (code, Group()))[1].add([i], cluster.nodes.names[n])
    for (name, path, shown, transient), (code, group) in found.items():
        pods, nodes = list(group.pods), list(group.places)
        if transient:
            text = f"taint {shown}, which tells of its state, is not tolerated by {len(pods)} pod{'s' * (len(pods) != 1)} on it"
            yield code.found(
                name, text, field=path, rule=rule.name, pods=view.keys(pods), nodes=nodes, severity="info", fix=_PASSES,
            )  # fmt: skip
            continue
        yield code.found(
            name, f"taint {shown} is not tolerated on {some(nodes)}, where {runs(view, pods)}",
            field=f"{path}.tolerations", rule=rule.name, pods=view.keys(pods), nodes=nodes,
        )  # fmt: skip


def _shown(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def zones(running: Running) -> Iterator[Finding]:
    """Findings of NUMA zones: what no zones of the node could hold were it empty, by what the zones have in all. What running pods hold of
    them is in no snapshot, so more cannot be said.

    Source: pkg/kubelet/cm/topologymanager (policy_single_numa_node.go, policy_restricted.go).
    """
    view, cluster = running.view, running.cluster
    trees = {n: tree for n, tree in cluster.trees.items() if tree.rejects}
    found: dict[tuple[str, str, str], Group] = {}
    for n, tree in trees.items():
        for g, pods in running.on(n):
            cls = cluster.classes[g].containers
            if cls is None or not running.steady[g]:
                continue
            widths = [(ask, zone_pools.width(tree, ask.amounts)) for ask in zone_pools.asks(cls, tree)]
            if any(not k or next(zone_pools.subsets(tree.capacity, ask.amounts, k), None) is None for ask, k in widths):
                for i in pods:
                    found.setdefault((*whose(view, i), tree.policy), Group()).add([i], cluster.nodes.names[n])
    for (name, path, policy), group in found.items():
        pods, nodes = list(group.pods), list(group.places)
        yield ZONES.found(
            name, f"under {policy} no zones of {some(nodes)} could hold what a pod asks for, where {runs(view, pods)}",
            field=f"{path}.containers", rule=NodeResourceTopologyMatch.name, pods=view.keys(pods), nodes=nodes,
        )  # fmt: skip


def lost(view: ClusterView) -> Iterator[Finding]:
    """Findings of nodes that the snapshot lacks, one for each."""
    by_node: dict[str, list[int]] = {}
    for i in select(view.snapshot).invisible:
        by_node.setdefault(view.snapshot.pods[i].spec.nodeName or "", []).append(i)
    for name, pods in sorted(by_node.items()):
        keys = view.keys(pods)
        count = f"{len(pods)} pod{'s are' if len(pods) != 1 else ' is'}"
        yield LOST_NODE.found(
            f"Node {name}", f"{count} bound to it, and the snapshot has no such node: {some(keys)}", pods=keys, nodes=[name]
        )
