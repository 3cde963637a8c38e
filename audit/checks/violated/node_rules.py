"""Pods on nodes that their node rules no longer allow: node selection, taints, NUMA zones, and missing nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from kubestow.audit.checks.violated.running_pods import FindingGroup, Running, has_execution, runs, whose
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.transient_taints import is_transient
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.cluster import HARD_EFFECTS
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import Pod, Taint, controller_of
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT
from kubestow.models.snapshot.scope import is_mirror, select
from kubestow.solver.numa import zone_pools
from kubestow.solver.rules.wording import node_rule

SELECTION = Code(
    "KS101", "node-affinity-broken", "warning", "Running pods are on nodes that their nodeSelector or required node affinity excludes",
    "Kubernetes keeps them running (IgnoredDuringExecution; only a DaemonSet's controller deletes its pods), but the node may lack "
    "something that they need. After a restart they run elsewhere, or stay pending if no other node fits.",
    "Restore the node labels, correct the rule, or move the pods (kubestow rebalance --goal repair).",
)  # fmt: skip
TAINT = Code(
    "KS102", "taint-not-tolerated", "warning", "Running pods do not tolerate a NoSchedule taint of their node",
    "NoSchedule affects new pods only. These pods keep running on nodes reserved for others, and could not be placed there again.",
    "Move the pods (kubestow rebalance --goal repair), add the toleration if they belong there, or remove the taint.",
)  # fmt: skip
EVICTED = Code(
    "KS103", "no-execute-not-tolerated", "error", "Running pods do not tolerate a NoExecute taint of their node",
    "The taint eviction controller deletes such pods without regard to PodDisruptionBudgets. Either this is about to happen, "
    "or the controller does not work.",
    "Add the toleration if they belong there, or move them before they are deleted (kubestow rebalance --goal repair). If the "
    "taint is old, find out why the taint eviction controller does not act.",
)  # fmt: skip
LOST_NODE = Code(
    "KS114", "node-missing", "warning", "Pods are bound to a node that is missing from the snapshot",
    "The rules of these pods cannot be checked, and rules of other pods (affinity, spread) are checked without them. If the node is "
    "gone from the cluster, its pods do not run, and are deleted only once the garbage collector notices.",
    "Capture all nodes. If the node is really gone, delete the pods (kubectl delete pod --force) so that their controllers replace them.",
)  # fmt: skip
ZONES = Code(
    "KS115", "numa-zones-too-small", "warning", "Running pods request more than the NUMA zones of their node can provide under its policy",
    "The kubelet's Topology Manager would reject the pod even on an empty node (TopologyAffinityError). After its next restart it cannot "
    "run here, but the scheduler may still place its replacement here.",
    "Request less per container, move the pod to nodes with larger zones, or change the node's Topology Manager policy.",
)  # fmt: skip
#: Scheduler of EKS Fargate, which ignores taints. Its pods have no toleration for their node's taint.
_UNTAINTED: Final = "fargate-scheduler"
_PASSES: Final = "Do nothing if the node will recover or be removed: the taint follows the node's state, and the pods end with the node."


def selection(running: Running) -> Iterator[Finding]:
    """Yield findings about pods on nodes that their nodeSelector or required node affinity excludes, one per workload.

    Static pods are exempt.
    """
    view, cluster = running.view, running.cluster
    found: dict[tuple[str, str, str], FindingGroup] = {}
    for g, cells in enumerate(running.cells):
        if running.steady[g]:
            for at in np.flatnonzero(~cluster.node_sets[cluster.classes[g].node_rule][running.nodes[g]]).tolist():
                n, pods = cells[at]
                for i in pods:
                    pod = running.snapshot.pods[i]
                    if not (is_mirror(pod) or (has_execution(pod) and _is_plainly_kept(running, pod, n))):
                        found.setdefault((*whose(view, i), node_rule(_of_all(pod))), FindingGroup()).add([i], cluster.nodes.names[n])
    for (name, path, wanted), group in found.items():
        pods, nodes = list(group.pods), list(group.places)
        yield SELECTION.found(
            name, f"excluded by {wanted}: {some(nodes)}, where {runs(view, pods)}", field=path, rule="NodeAffinity",
            pods=view.keys(pods), nodes=nodes,
        )  # fmt: skip


def _of_all(pod: Pod) -> Pod:
    """Return the pod without the node that a DaemonSet controller names for it, so that pods of one DaemonSet have equal rules."""
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
    """Return True if the pod's node rules allow the node, apart from rules that must hold during execution, which KS121 covers."""
    table, affinity = running.cluster.nodes, pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    selector = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    return bool(table.has_labels(pod.spec.nodeSelector or {})[n] and (selector is None or table.selector(selector)[n]))


def taints(running: Running) -> Iterator[Finding]:
    """Yield findings about pods without a toleration for a taint of their node.

    There is one finding per workload and taint, or per node and condition taint. A cordon breaks no rule, in either
    representation. Static pods are exempt, because the kubelet runs them regardless of taints.
    """
    view, cluster = running.view, running.cluster
    tolerated = [cluster.nodes.tolerated(tolerations, HARD_EFFECTS) for tolerations in cluster.toleration_sets]
    found: dict[tuple[str, str, str, bool], tuple[Code, FindingGroup]] = {}
    for g, cells in enumerate(running.cells):
        if not running.steady[g]:
            continue
        tolerations = cluster.toleration_sets[cluster.classes[g].tolerations]
        for at in np.flatnonzero(~tolerated[cluster.classes[g].tolerations][running.nodes[g]]).tolist():
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
                        found.setdefault(key, (code, FindingGroup()))[1].add([i], cluster.nodes.names[n])
    for (name, path, shown, transient), (code, group) in found.items():
        pods, nodes = list(group.pods), list(group.places)
        if transient:
            text = f"condition taint {shown} is not tolerated by {len(pods)} pod{'s' * (len(pods) != 1)} on it"
            yield code.found(
                name, text, field=path, rule="TaintToleration", pods=view.keys(pods), nodes=nodes, severity="info", fix=_PASSES,
            )  # fmt: skip
            continue
        yield code.found(
            name, f"taint {shown} is not tolerated on {some(nodes)}, where {runs(view, pods)}",
            field=f"{path}.tolerations", rule="TaintToleration", pods=view.keys(pods), nodes=nodes,
        )  # fmt: skip


def _shown(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def zones(running: Running) -> Iterator[Finding]:
    """Yield findings about pods that would not fit the NUMA zones of their node even if it were empty.

    Snapshots do not show which zones running pods use, so only total capacities are checked.

    Source: pkg/kubelet/cm/topologymanager (policy_single_numa_node.go, policy_restricted.go).
    """
    view, cluster = running.view, running.cluster
    trees = {n: tree for n, tree in cluster.trees.items() if tree.rejects}
    found: dict[tuple[str, str, str], FindingGroup] = {}
    for n, tree in trees.items():
        for g, pods in running.on(n):
            cls = cluster.classes[g].containers
            if cls is None or not running.steady[g]:
                continue
            widths = [(ask, zone_pools.width(tree, ask.amounts)) for ask in zone_pools.asks(cls, tree)]
            if any(not k or next(zone_pools.subsets(tree.capacity, ask.amounts, k), None) is None for ask, k in widths):
                for i in pods:
                    found.setdefault((*whose(view, i), tree.policy), FindingGroup()).add([i], cluster.nodes.names[n])
    for (name, path, policy), group in found.items():
        pods, nodes = list(group.pods), list(group.places)
        yield ZONES.found(
            name, f"a pod requests more than the zones of {some(nodes)} can provide under {policy}; {runs(view, pods)} there",
            field=f"{path}.containers", rule="NodeResourceTopologyMatch", pods=view.keys(pods), nodes=nodes,
        )  # fmt: skip


def lost(view: ClusterView) -> Iterator[Finding]:
    """Yield findings about pods on nodes that the snapshot lacks, one per node."""
    by_node: dict[str, list[int]] = {}
    for i in select(view.snapshot).invisible:
        by_node.setdefault(view.snapshot.pods[i].spec.nodeName or "", []).append(i)
    for name, pods in sorted(by_node.items()):
        keys = view.keys(pods)
        count = f"{len(pods)} pod{'s are' if len(pods) != 1 else ' is'}"
        yield LOST_NODE.found(
            f"Node {name}", f"{count} bound to it, but the snapshot has no such node: {some(keys)}", pods=keys, nodes=[name]
        )
