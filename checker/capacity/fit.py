"""The checker of a Fit. It recomputes the placement's rules, the counts and the kept headroom from the raw objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from kubestow.checker.capacity import buffers
from kubestow.checker.capacity.checked import CheckedDocument
from kubestow.checker.claims.statement import unjudged_pods
from kubestow.checker.placement import check
from kubestow.checker.reading import resources
from kubestow.checker.violation import Violation
from kubestow.models.buffers.chunks import without_chunks
from kubestow.models.documents.fit import Fit, Keep
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "Fit"
_ZONE: Final = "topology.kubernetes.io/zone"


#: Claims that are not checked, in words for users.
UNCHECKED: Final = (
    "that no more fit (the bounds), and why not: they take a search",
    "what one node more brings, and how many nodes are like it",
)


def check_fit(snapshot: Snapshot, fit: Fit) -> CheckedDocument:
    """Check a Fit and return its faults and unchecked claims.

    Args:
        snapshot: The snapshot with the manifests and edits that the placement names.
        fit: The document.

    Raises:
        QuantityError, InputError: as for :func:`kubestow.checker.placement.verify`.
    """
    judged = check(snapshot, fit.placement, embedded=True)
    found = [Violation("", "", RULE, why) for why in (*_document_faults(fit), *_number_faults(snapshot, fit))]
    if fit.keep is not None:
        found += [Violation("", "", RULE, why) for why in _kept_faults(snapshot, fit, fit.keep)]
    buffered = [*_headroom_faults(snapshot, fit)]
    more = [buffers.UNCHECKED] if fit.headroom is not None else []
    return CheckedDocument([*judged.violations, *found, *buffered], [*UNCHECKED, *more, *unjudged_pods(judged.unjudged)])


def _headroom_faults(snapshot: Snapshot, fit: Fit) -> Iterator[Violation]:
    """Yield faults of the headroom for CapacityBuffers, before and after the replicas are added."""
    new, snapshot = set(snapshot.to_create), without_chunks(snapshot)
    now = snapshot.copy()
    now.pods, now.to_create = [pod for pod in snapshot.pods if objects.pod_key(pod) not in new], []
    states = {"now": now, "placed": snapshot}
    for room in fit.headroom or ():
        if room.state not in states:
            yield Violation("", "", buffers.RULE, f"{room.state} is no state of a Fit, expected {' or '.join(states)}")
            continue
        yield from buffers.headroom_faults(states[room.state], room, fit.snapshot, fit.policy)
        if room.state == "placed" and (lost := new - {entry.pod for entry in room.assignments}):
            yield Violation(min(lost), "", buffers.RULE, f"placed: {len(lost)} of the replicas that are said to fit have no place")
    if len({room.state for room in fit.headroom or ()}) < len(fit.headroom or ()):
        yield Violation("", "", buffers.RULE, "the headroom of one state is given twice")


def _document_faults(fit: Fit) -> Iterator[str]:
    """Yield contradictions inside the document."""
    if fit.placement.snapshot != fit.snapshot:
        yield "its placement is of another snapshot, or was asked for in another way"
    if fit.placement.policy != fit.policy:
        yield "its placement has another policy"
    if not 0 <= fit.units <= fit.bound:
        yield f"{fit.units} units are said to fit, and no more than {fit.bound}"
    for template in fit.templates:
        if template.ratio < 1 or template.runs < 0:
            yield f"{template.workload}: {template.ratio} replicas are said to be in a unit, and {template.runs} to run"
        for what, claimed, units in (("fit", template.fits, fit.units), ("fit at most", template.bound, fit.bound)):
            if claimed != units * template.ratio:
                yield f"{template.workload}: {claimed} replicas are said to {what}, {units} units have {units * template.ratio}"
    named = [template.workload for template in fit.templates]
    if len(set(named)) < len(named):
        yield "a template is listed twice"
    for grown in fit.growth:
        if grown.units > grown.bound:
            yield f"a node more like {grown.like} is said to bring {grown.units} units, and no more than {grown.bound}"


def _number_faults(snapshot: Snapshot, fit: Fit) -> Iterator[str]:
    """Yield numbers that contradict the pods of the snapshot."""
    requested = [f"{'/'.join(template.workload.partition(' ')[::2])}={template.runs + template.fits}" for template in fit.templates]
    edits = fit.snapshot.edits.replicas if fit.snapshot.edits is not None else []
    if sorted(edits) != sorted(requested):
        yield f"the edits scale {', '.join(edits) or 'nothing'}, the templates are {', '.join(requested) or 'none'}"
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    made = [key for key in snapshot.to_create if key in pods]
    total = sum(template.fits for template in fit.templates)
    if len(made) != total:
        yield f"{total} replicas are said to fit, the templates make {len(made)} pods"
    owners = Counter((owner.kind, owner.name) for key in made if (owner := objects.controller_of(pods[key])) is not None)
    fits = sorted(template.fits for template in fit.templates if template.fits)
    if owners.total() == len(made) and sorted(owners.values()) != fits:
        yield f"the templates are said to have {fits} pods, they have {sorted(owners.values())}"
    placed = {entry.pod for entry in fit.placement.assignments}
    if unplaced := [key for key in made if key not in placed]:
        yield f"{len(unplaced)} of the replicas that are said to fit have no place, {unplaced[0]} among them"
    names = {node.metadata.name for node in snapshot.nodes}
    for grown in fit.growth:
        if grown.like not in names:
            yield f"there is no node {grown.like} to add one like it"
        elif not 1 <= grown.nodes <= len(names):
            yield f"{grown.nodes} nodes are said to be like {grown.like}, of {len(names)}"


def _kept_faults(snapshot: Snapshot, fit: Fit, keep: Keep) -> Iterator[str]:
    """Yield domains with less free capacity than must be kept.

    The rule applies to each node or zone that received a replica, and to each resource that the replica requests.
    """
    if not 0 <= keep.percent <= 100:
        yield f"{keep.percent} per cent are to be kept"
    requests = resources.SharedRequests(snapshot.gates)
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    there = {entry.pod: entry.node for entry in fit.placement.assignments}
    made = set(snapshot.to_create)
    place = {name: _place(node, keep) for name, node in nodes.items()}
    total: dict[str, Counter[str]] = {}
    for name, node in nodes.items():
        total.setdefault(place[name], Counter()).update(resources.node_capacity(node))
    used: dict[str, Counter[str]] = {}
    wanted: dict[str, set[str]] = {}
    for pod in snapshot.pods:
        key = objects.pod_key(pod)
        where = place.get(there.get(key) or pod.spec.nodeName or "")
        if where is None or objects.is_terminal(pod):
            continue
        amounts: Mapping[str, int] = requests.requests(pod, bound=key not in there)
        used.setdefault(where, Counter()).update(amounts)
        if key in made:
            wanted.setdefault(where, set()).update(amounts)
    for where, names in sorted(wanted.items()):
        for resource in sorted(names & total[where].keys()):
            usable = total[where][resource] * (100 - keep.percent) // 100
            if used[where][resource] > usable:
                yield f"{where} has {used[where][resource]} of {resource} in use, {usable} may be with {keep.percent} per cent kept"


def _place(node: objects.Node, keep: Keep) -> str:
    """Return the name of the node or zone whose capacity is kept free."""
    zone = (node.metadata.labels or {}).get(_ZONE) if keep.of == "zone" else None
    return f"zone {zone}" if zone is not None else f"node {node.metadata.name}"
