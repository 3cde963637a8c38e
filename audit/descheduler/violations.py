"""The strategies for pods that break a rule on their node: anti-affinity, node affinity, taints.

Source: https://github.com/kubernetes-sigs/descheduler,
pkg/framework/plugins/removepodsviolatinginterpodantiaffinity, removepodsviolatingnodeaffinity and
removepodsviolatingnodetaints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kubestow.audit.descheduler.arguments import AntiAffinity, NodeAffinityArgs, NodeTaints, PodSelectionArgs
from kubestow.audit.descheduler.cluster_state import anti_affinity, term_scope
from kubestow.audit.descheduler.evictor import Evictor
from kubestow.audit.descheduler.plugin_run import PluginRun
from kubestow.models.kube.objects import Taint, pod_key


def inter_pod_anti_affinity(run: PluginRun, args: AntiAffinity) -> None:
    """Evict pods whose own required anti-affinity matches another pod in their domain, least important first per node."""
    state = run.evictor.state
    facts = state.facts
    chosen = run.chosen(args)
    by_node = {n: [i for i in state.on(n) if chosen(i)] for n in run.evictor.nodes}
    there: dict[str, list[int]] = {}
    for pods in by_node.values():
        for i in pods:
            there.setdefault(facts.pods[i].metadata.namespace or "default", []).append(i)
    for n, pods in by_node.items():
        for i in sorted(pods, key=facts.rank):
            near = _met(run.evictor, i, there)
            if near is None or not run.evictor.may(i) or not run.evictor.now(i):
                continue
            answer = run.evict(i, n, f"its anti-affinity matches {pod_key(facts.pods[near])}")
            if answer == "evicted":
                there[facts.pods[i].metadata.namespace or "default"].remove(i)
            elif answer == "node limit":
                break
            elif answer == "total limit":
                return


def _met(evictor: Evictor, i: int, there: dict[str, list[int]]) -> int | None:
    """Return a pod matched by pod i's anti-affinity, on the same node or on a node with the same label value. None if there is none."""
    state = evictor.state
    table, home = state.facts.table, state.at[i]
    for term in anti_affinity(state.facts.pods[i]):
        namespaces, selector = term_scope(state.facts.pods[i], term)
        own = table.labels(home).get(term.topologyKey)
        for namespace in sorted(namespaces):
            for j in there.get(namespace, ()):
                same = state.at[j] == home or (own is not None and table.labels(state.at[j]).get(term.topologyKey) == own)
                if same and state.meets(i, j, namespaces, selector):
                    return j
    return None


def node_affinity(run: PluginRun, args: NodeAffinityArgs) -> None:
    """Evict pods on nodes that required node affinity excludes, or that preferred node affinity scores lower than another node."""
    for kind in args.nodeAffinityType:
        _evict(run, args, partial(_forbidden if kind.startswith("required") else _dispreferred, run.evictor))


def _forbidden(evictor: Evictor, i: int, n: int) -> str | None:
    state = evictor.state
    affinity = state.facts.pods[i].spec.affinity
    if affinity is None or affinity.nodeAffinity is None or affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution is None:
        return None
    if state.facts.selected(i)[n] or not any(state.fits(i, m, n) for m in evictor.nodes):
        return None
    return "its required node affinity excludes its node"


def _dispreferred(evictor: Evictor, i: int, n: int) -> str | None:
    state = evictor.state
    weights = state.facts.weights(i)
    best = max([0, *(weights[m] for m in evictor.nodes)])
    if best <= weights[n] or not any(state.fits(i, m, n) for m in evictor.nodes):
        return None
    return f"its preferred node affinity scores its node {weights[n]} and another node {best}"


def node_taints(run: PluginRun, args: NodeTaints) -> None:
    """Evict pods that do not tolerate a NoSchedule taint of their node (with includePreferNoSchedule, also PreferNoSchedule)."""
    effects = {"NoSchedule", "PreferNoSchedule"} if args.includePreferNoSchedule else {"NoSchedule"}
    facts = run.evictor.state.facts

    def wrong(i: int, n: int) -> str | None:
        for taint in facts.table.taints(n):
            counts = taint.effect in effects and not _named(taint, args.excludedTaints)
            counts = counts and (args.includedTaints is None or _named(taint, args.includedTaints))
            if counts and not facts.tolerations(i).cover(taint):
                return f"it does not tolerate the taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect} of its node"
        return None

    _evict(run, args, wrong)


def _named(taint: Taint, names: tuple[str, ...]) -> bool:
    return taint.key in names or (bool(taint.value) and f"{taint.key}={taint.value}" in names)


def _evict(run: PluginRun, args: PodSelectionArgs, wrong: Callable[[int, int], str | None]) -> None:
    """Evict evictable pods with a problem, node by node. ``wrong`` returns the problem of a pod on a node."""
    evictor, chosen = run.evictor, run.chosen(args)
    for n in evictor.nodes:
        may_go = [i for i in evictor.state.on(n) if chosen(i) and evictor.may(i) and evictor.now(i)]
        for i, why in [(i, why) for i in may_go if (why := wrong(i, n)) is not None]:
            answer = run.evict(i, n, why)
            if answer == "node limit":
                break
            if answer == "total limit":
                return
