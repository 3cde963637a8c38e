"""The strategies that evict pods which break a rule where they run: anti-affinity, node affinity, taints.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/removepodsviolatinginterpodantiaffinity,
removepodsviolatingnodeaffinity and removepodsviolatingnodetaints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kubestow.audit.descheduler.arguments import AntiAffinity, Chosen, NodeAffinity, NodeTaints
from kubestow.audit.descheduler.evictor import Evictor
from kubestow.audit.descheduler.turn import Turn
from kubestow.audit.descheduler.world import anti_affinity, term_scope
from kubestow.models.kube.objects import Taint, pod_key


def inter_pod_anti_affinity(turn: Turn, args: AntiAffinity) -> None:
    """Evict pods whose own required anti-affinity meets another pod in their domain, of each node the least important first."""
    world = turn.evictor.world
    facts = world.facts
    chosen = turn.chosen(args)
    by_node = {n: [i for i in world.on(n) if chosen(i)] for n in turn.evictor.nodes}
    there: dict[str, list[int]] = {}
    for pods in by_node.values():
        for i in pods:
            there.setdefault(facts.pods[i].metadata.namespace or "default", []).append(i)
    for n, pods in by_node.items():
        for i in sorted(pods, key=facts.rank):
            near = _met(turn.evictor, i, there)
            if near is None or not turn.evictor.may(i) or not turn.evictor.now(i):
                continue
            answer = turn.evict(i, n, f"its anti-affinity meets {pod_key(facts.pods[near])}")
            if answer == "evicted":
                there[facts.pods[i].metadata.namespace or "default"].remove(i)
            elif answer == "node limit":
                break
            elif answer == "total limit":
                return


def _met(evictor: Evictor, i: int, there: dict[str, list[int]]) -> int | None:
    """Return a pod that the anti-affinity of pod i meets: one on the same node, or on one whose label has the same value."""
    world = evictor.world
    table, home = world.facts.table, world.at[i]
    for term in anti_affinity(world.facts.pods[i]):
        namespaces, selector = term_scope(world.facts.pods[i], term)
        own = table.labels(home).get(term.topologyKey)
        for namespace in sorted(namespaces):
            for j in there.get(namespace, ()):
                same = world.at[j] == home or (own is not None and table.labels(world.at[j]).get(term.topologyKey) == own)
                if same and world.meets(i, j, namespaces, selector):
                    return j
    return None


def node_affinity(turn: Turn, args: NodeAffinity) -> None:
    """Evict pods that required node affinity does not allow where they are, or preferred one would rather have elsewhere."""
    for kind in args.nodeAffinityType:
        _evict(turn, args, partial(_forbidden if kind.startswith("required") else _dispreferred, turn.evictor))


def _forbidden(evictor: Evictor, i: int, n: int) -> str | None:
    world = evictor.world
    affinity = world.facts.pods[i].spec.affinity
    if affinity is None or affinity.nodeAffinity is None or affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution is None:
        return None
    if world.facts.selected(i)[n] or not any(world.fits(i, m, n) for m in evictor.nodes):
        return None
    return "its required node affinity does not allow its node"


def _dispreferred(evictor: Evictor, i: int, n: int) -> str | None:
    world = evictor.world
    weights = world.facts.weights(i)
    best = max([0, *(weights[m] for m in evictor.nodes)])
    if best <= weights[n] or not any(world.fits(i, m, n) for m in evictor.nodes):
        return None
    return f"its preferred node affinity gives its node {weights[n]}, another one {best}"


def node_taints(turn: Turn, args: NodeTaints) -> None:
    """Evict pods that do not tolerate a taint NoSchedule of their node (with includePreferNoSchedule one of that effect, too)."""
    effects = {"NoSchedule", "PreferNoSchedule"} if args.includePreferNoSchedule else {"NoSchedule"}
    facts = turn.evictor.world.facts

    def wrong(i: int, n: int) -> str | None:
        for taint in facts.table.taints(n):
            counts = taint.effect in effects and not _named(taint, args.excludedTaints)
            counts = counts and (args.includedTaints is None or _named(taint, args.includedTaints))
            if counts and not facts.tolerations(i).cover(taint):
                return f"it does not tolerate the taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect} of its node"
        return None

    _evict(turn, args, wrong)


def _named(taint: Taint, names: tuple[str, ...]) -> bool:
    return taint.key in names or (bool(taint.value) and f"{taint.key}={taint.value}" in names)


def _evict(turn: Turn, args: Chosen, wrong: Callable[[int, int], str | None]) -> None:
    """Evict the pods that may go and have something wrong, node by node. ``wrong``: says what, of a pod on a node."""
    evictor, chosen = turn.evictor, turn.chosen(args)
    for n in evictor.nodes:
        may_go = [i for i in evictor.world.on(n) if chosen(i) and evictor.may(i) and evictor.now(i)]
        for i, why in [(i, why) for i in may_go if (why := wrong(i, n)) is not None]:
            answer = turn.evict(i, n, why)
            if answer == "node limit":
                break
            if answer == "total limit":
                return
