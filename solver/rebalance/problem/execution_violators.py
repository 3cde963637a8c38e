"""Who has to go where a rule that holds during execution is broken.

Source: specification of the rules ("requiredDuringSchedulingRequiredDuringExecution"): for anti-affinity the pod that owns the broken
rule, or, where priorities differ, the lower-priority pod of the pair; for pod affinity and node affinity the pod that has the rule.
"""

from __future__ import annotations

from collections.abc import Collection

from models.cluster.pod_terms import term_matches
from models.kube import objects
from models.kube.objects import Pod, PodAffinityTerm, is_terminal, is_terminating
from models.kube.selectors import NodeTable
from models.snapshot.snapshot import Snapshot


def violators(snapshot: Snapshot, exempt: Collection[str] = ()) -> set[int]:
    """Return indices into ``snapshot.pods`` of running pods that would have to go; ``exempt``: namespaces without hard anti-affinity.
    Linear in the pods for each pod that has such a rule."""
    pods = snapshot.pods
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    here = [i for i, pod in enumerate(pods) if pod.spec.nodeName in nodes and not is_terminal(pod)]
    found: set[int] = set()
    table: NodeTable | None = None
    for i in here:
        pod = pods[i]
        affinity = pod.spec.affinity
        if affinity is None or is_terminating(pod):
            continue
        if affinity.nodeAffinity is not None and affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution is not None:
            table = table or NodeTable(snapshot.nodes)
            mask = table.selector(affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution)
            if not mask[table.names.index(pod.spec.nodeName or "")]:
                found.add(i)
        for term in _terms(affinity.podAntiAffinity):
            for j in here:
                if exempt and not {pod.metadata.namespace, pods[j].metadata.namespace}.isdisjoint(exempt):
                    continue
                if j != i and term_matches(snapshot, pod, term, pods[j]) and _together(nodes, pod, pods[j], term.topologyKey):
                    mine, other = pod.spec.priority or 0, pods[j].spec.priority or 0
                    found.add(j if other < mine else i)
        wanted = _terms(affinity.podAffinity)
        # The filter asks for pods that all terms match, those that only hold while scheduling included.
        if wanted and all(_lonely(snapshot, nodes, here, i, terms) for terms in (wanted, _terms(affinity.podAffinity, ignored=True))):
            found.add(i)
    return {i for i in found if not is_terminating(pods[i])}


def _terms(part: objects.PodAffinity | None, *, ignored: bool = False) -> list[PodAffinityTerm]:
    """The terms that hold during execution; ``ignored``: and those that do not."""
    if part is None:
        return []
    others = part.requiredDuringSchedulingIgnoredDuringExecution if ignored else None
    return [*(others or ()), *(part.requiredDuringSchedulingRequiredDuringExecution or ())]


def _lonely(snapshot: Snapshot, nodes: dict[str, objects.Node], here: list[int], i: int, terms: list[PodAffinityTerm]) -> bool:
    """Return whether a running pod's affinity is not met by the others; a pod that is the only match of its own terms is not lonely."""
    pod = snapshot.pods[i]
    keys = {term.topologyKey for term in terms}
    full = [
        j
        for j in here
        if all(term_matches(snapshot, pod, term, snapshot.pods[j]) for term in terms)
        and not keys.isdisjoint(nodes[snapshot.pods[j].spec.nodeName or ""].metadata.labels or {})
    ]
    if full == [i]:
        return not keys <= (nodes[pod.spec.nodeName or ""].metadata.labels or {}).keys()
    return not all(any(j != i and _together(nodes, pod, snapshot.pods[j], term.topologyKey) for j in full) for term in terms)


def _together(nodes: dict[str, objects.Node], pod: Pod, other: Pod, key: str) -> bool:
    """Return whether two running pods are in one domain of a key."""
    mine = (nodes[pod.spec.nodeName or ""].metadata.labels or {}).get(key)
    return mine is not None and (nodes[other.spec.nodeName or ""].metadata.labels or {}).get(key) == mine
