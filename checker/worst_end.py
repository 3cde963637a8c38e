"""The worst end of a rollout, as an independent count: matching pods by domain, and the order in which old pods may go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from kubestow.checker.reading import matching
from kubestow.checker.rules.pod_topology_spread import state as spread
from kubestow.models.documents.placement import WorstEnd
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import Old

_FIELD = "spec.template.spec.topologySpreadConstraints"


def end_faults(snapshot: Snapshot, end: WorstEnd, new: objects.Pod, running: Sequence[tuple[objects.Pod, str]]) -> Iterator[str]:
    """Yield the claims about a worst end that are wrong, except those about its waves.

    Args:
        snapshot: The cluster.
        end: The claims.
        new: A pod of the new revision.
        running: The pods at that end, with their nodes.
    """
    constraints = new.spec.topologySpreadConstraints or []
    named = {f"{_FIELD}[{i}]": constraint for i, constraint in enumerate(constraints)}
    found = named.get(end.constraint)
    claimed = (end.topologyKey, end.whenUnsatisfiable, end.maxSkew)
    if found is None or claimed != (found.topologyKey, found.whenUnsatisfiable, found.maxSkew):
        yield f"{end.constraint} of the template is not the constraint that is described"
        return
    if end.skew is None:
        return
    if end.skew > end.bound:
        yield f"{end.constraint}: the skew {end.skew} is above its bound {end.bound}"
    counts, least = _counted(snapshot, found, new, running)
    if counts != end.counts:
        yield f"{end.constraint}: the matching pods of the end are {counts}, not {end.counts}"
    skew = max(counts.values(), default=0) - least
    if skew != end.skew:
        yield f"{end.constraint}: the skew of the end is {skew}, not {end.skew}"


def _counted(
    snapshot: Snapshot, constraint: objects.TopologySpreadConstraint, new: objects.Pod, running: Sequence[tuple[objects.Pod, str]]
) -> tuple[dict[str, int], int]:
    """Return the matching pods by domain, and the global minimum."""
    change = msgspec.structs.replace
    alike = [
        change(each, whenUnsatisfiable="DoNotSchedule")
        for each in new.spec.topologySpreadConstraints or ()
        if each.whenUnsatisfiable == constraint.whenUnsatisfiable
    ]
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    state = spread.SpreadState(nodes, snapshot.gates)
    read = state.read(change(new, spec=change(new.spec, topologySpreadConstraints=alike)))
    measured = next(each for each in read.constraints if each.tally.census.key == constraint.topologyKey)
    for pod, node in running:
        if node in nodes:
            profile: matching.Profile = pod.metadata.namespace or "default", frozenset((pod.metadata.labels or {}).items())
            state.add(pod, nodes[node], profile)
    tally = measured.tally
    return {domain: number for domain, number in sorted(tally.domains.items()) if number}, tally.minimum(measured.min_domains)


def disorder(deleted: Collection[str], there: Mapping[str, Old], nodes: Sequence[str]) -> Iterator[str]:
    """Yield the deleted pods that a ReplicaSet's controller ranks behind one that it keeps.

    Args:
        deleted: Keys of the deleted pods.
        there: The old pods before the deletion, by key.
        nodes: The nodes of the Deployment's pods before the deletion, with repetition.
    """
    together = Counter(nodes)
    rank = {key: (old.before, -together[old.node] if old.node else 0) for key, old in there.items()}
    first: dict[int, tuple[tuple[int, ...], int]] = {}
    for key, old in there.items():
        if key not in deleted:
            first[old.family] = min(first.get(old.family, rank[key]), rank[key])
    yield from (key for key in deleted if key in there and rank[key] > first.get(there[key].family, rank[key]))
