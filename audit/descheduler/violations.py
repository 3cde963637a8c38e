"""The strategies that evict pods which break a rule where they run: anti-affinity, node affinity, taints.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/removepodsviolatinginterpodantiaffinity,
removepodsviolatingnodeaffinity and removepodsviolatingnodetaints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from audit.descheduler.arguments import AntiAffinity, Chosen, NodeAffinity, NodeTaints
from audit.descheduler.evictor import Evictor
from audit.descheduler.turn import Turn
from audit.descheduler.world import anti_affinity, term_scope
from models.kube.objects import Taint, pod_key
from models.kube.selectors import canonical, selector_matches


def inter_pod_anti_affinity(turn: Turn, args: AntiAffinity) -> None:
    """Evict pods whose own required anti-affinity meets another pod in their domain, of each node the least important first."""
    world = turn.evictor.world
    facts = world.facts
    chosen = _chosen(turn, args)
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
        wrong = _forbidden if kind.startswith("required") else _dispreferred
        for n in turn.evictor.nodes:
            if not _each(turn, n, list(_listed(turn, args, n, lambda i, n=n, wrong=wrong: wrong(turn.evictor, i, n)))):  # type: ignore[misc]
                break


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

    for n in turn.evictor.nodes:
        if not _each(turn, n, list(_listed(turn, args, n, lambda i, n=n: wrong(i, n)))):  # type: ignore[misc]
            return


def _named(taint: Taint, names: tuple[str, ...]) -> bool:
    return taint.key in names or (bool(taint.value) and f"{taint.key}={taint.value}" in names)


def _chosen(turn: Turn, args: Chosen) -> Callable[[int], bool]:
    """Return whether the arguments are about a pod."""
    selector = canonical(args.labelSelector.selector()) if args.labelSelector is not None else ()
    pods = turn.evictor.world.facts.pods

    def chosen(i: int) -> bool:
        there = pods[i].metadata
        return args.namespaces.have(there.namespace or "default") and selector_matches(selector, there.labels or {})

    return chosen


def _listed(turn: Turn, args: Chosen, n: int, wrong: Callable[[int], str | None]) -> Iterator[tuple[int, str]]:
    """Yield the pods of a node that may go and have something wrong, with what it is."""
    chosen = _chosen(turn, args)
    for i in turn.evictor.world.on(n):
        if chosen(i) and turn.evictor.may(i) and turn.evictor.now(i):
            why = wrong(i)
            if why is not None:
                yield i, why


def _each(turn: Turn, n: int, listed: list[tuple[int, str]]) -> bool:
    """Evict the pods of a node one after the other; return whether to go on with others."""
    for i, why in listed:
        answer = turn.evict(i, n, why)
        if answer == "node limit":
            return True
        if answer == "total limit":
            return False
    return True
