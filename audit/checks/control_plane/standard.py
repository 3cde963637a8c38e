"""Requirements of two documents of the Sovereign Cloud Stack (SCS), each met, broken or not provable.

scs-0213-v1 is the decision record, scs-0214-v2 the standard (docs/sources.md#anti-affinity-of-nodes). If labels and
pods of the snapshot do not decide, the requirement is not provable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from kubestow.audit.checks.control_plane.failure_domains import HOST_ID, STAGE_LABELS, ZONE, Labels, lacking, value
from kubestow.audit.checks.control_plane.layout import Layout
from kubestow.audit.checks.control_plane.members import USUAL, ControlPlaneComponent
from kubestow.audit.view.finding import some
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Requirement, RequirementLevel, RequirementStatus

RECORD: Final = "scs-0213-v1"
STANDARD: Final = "scs-0214-v2"
REGION: Final = "topology.kubernetes.io/region"
#: Labels that every node must have.
REQUIRED_LABELS: Final = (ZONE, REGION)
#: Deprecated names of these labels. If both values of a node differ, one is outdated.
_FORMER: Final[Mapping[str, str]] = {
    ZONE: "failure-domain.beta.kubernetes.io/zone",
    REGION: "failure-domain.beta.kubernetes.io/region",
}
_Verdict = tuple[RequirementStatus, str]


def halves(part: ControlPlaneComponent, labels: Labels, machine_keys: Collection[str], wider_keys: Collection[str]) -> _Verdict:
    """Return whether half of a component's instances is on different nodes and physical machines than the other
    half.

    With an odd number, one half has one more. Instances on nodes of different machines, zones, clouds or locations
    are on different machines. Instances on one node are on one machine.
    """
    total = len(part.homes)
    if total < 2:
        return "broken", f"{part.name} runs once"
    known = [key for key in machine_keys if not lacking(labels, part.homes, key)][:1]
    for key in known or [key for key in wider_keys if not lacking(labels, part.homes, key)]:
        if splits(Counter(value(labels, home, key) or "" for home in part.homes).values(), total // 2):
            return "met", f"by {key}"
    counts = Counter((value(labels, home, known[0]) or "") if known else home for home in part.homes)
    if not splits(counts.values(), total // 2):
        where = ", ".join(f"{count} on {name}" for name, count in counts.most_common(3)) + (", …" if len(counts) > 3 else "")
        return "broken", f"{total} {_noun(part)} cannot be split into {total // 2} and {total - total // 2} on different machines: {where}"
    return "not provable", f"{part.name}: its nodes may share a machine"


def splits(counts: Iterable[int], half: int) -> bool:
    """Return True if some of the domains contain exactly ``half`` of the instances."""
    reached = {0}
    for count in counts:
        reached |= {total + count for total in reached if total + count <= half}
    return half in reached


def halves_of(found: Layout) -> Iterator[tuple[ControlPlaneComponent, _Verdict]]:
    """Yield the verdict of :func:`halves` for each visible component, or for the nodes."""
    machine, wider = _keys(found.view)
    if found.machines.sense == "machine" and found.machines.label is not None:
        machine = [found.machines.label]
    for part in found.parts:
        yield part, halves(part, found.labels, machine, wider)


def requirements(view: ClusterView, found: Layout | None, labels: Labels, workers: Collection[str]) -> list[Requirement]:
    """Return the requirements with their status: first the standard's, then the record's."""
    listed = []

    def add(standard: str, level: RequirementLevel, text: str, verdict: _Verdict) -> None:
        listed.append(Requirement(standard, level, text, *verdict))

    machine, wider = _keys(view)
    plane = found.members.nodes if found is not None else ()
    if plane:
        add(STANDARD, "MUST", "control-plane nodes on several physical machines", _several(labels, plane, machine, wider, "machine"))
        add(STANDARD, "SHOULD", "control-plane nodes in several failure zones", _several(labels, plane, [ZONE], [], "zone"))
    for key in REQUIRED_LABELS:
        add(STANDARD, "MUST", f"every node carries {key}", _carried(labels, key))
    add(STANDARD, "MUST", "these labels are kept up to date", _current(labels, machine))
    if len(workers) > 1:
        add(STANDARD, "RECOMMENDED", "workers in several zones", _several(labels, workers, [ZONE], [], "zone"))
    if found is not None:
        add(RECORD, "REQUIRED", "every component at least twice", _doubled(found))
        add(RECORD, "SHOULD", "half of every component on other nodes and other machines than the other half", _worst(found))
    if len(workers) > 1:
        add(RECORD, "RECOMMENDED", "workers on different machines", _several(labels, workers, machine, wider, "machine"))
    add(RECORD, "SHOULD", "nodes labelled with the machine that they share", _mapped(labels, workers, machine))
    return listed


def sharing(labels: Labels, workers: Collection[str], keys: Iterable[str]) -> str:
    """Return the number of workers that share a machine, with and without the label, as text."""
    key = min(keys, key=lambda each: len(lacking(labels, workers, each)))
    counts = Counter(domain for name in workers if (domain := value(labels, name, key)) is not None)
    bare = len(workers) - counts.total()
    together = sum(count for count in counts.values() if count > 1)
    with_label = f"{counts.total()} of {len(workers)} workers {'has' if counts.total() == 1 else 'have'} {key}"
    if counts:
        machines = f"{len(counts)} machine{'s' * (len(counts) != 1)}"
        with_label += f", on {machines}: {f'{together} share theirs with another worker' if together else 'no two share one'}"
    return with_label + (f"; the machines of the {bare} without it are unknown" if bare else "")


def _keys(view: ClusterView) -> tuple[list[str], list[str]]:
    """Return the labels that name machines, and the labels of domains that contain whole machines."""
    wider = [view.stage_labels.get(stage, default) for stage, default in STAGE_LABELS.items()]
    return list(view.machine_labels or (HOST_ID,)), [key for key in wider if key is not None]


def _several(labels: Labels, nodes: Collection[str], keys: Iterable[str], wider: Iterable[str], noun: str) -> _Verdict:
    """Return whether nodes are in several domains. Two values of a label prove it; one value on all nodes disproves it."""
    named = list(keys)
    known = [key for key in named if not lacking(labels, nodes, key)][:1]
    for key in known or (*named, *wider):
        count = len({domain for name in nodes if (domain := value(labels, name, key)) is not None})
        if count > 1:
            return "met", f"at least {count} {noun}s, by {key}" if lacking(labels, nodes, key) else f"{count} values of {key}"
    if len(nodes) == 1:
        return "broken", f"there is one node, {next(iter(nodes))}"
    if known:
        return "broken", f"all {len(nodes)} are in one {noun}, {known[0]}={value(labels, next(iter(nodes)), known[0])}"
    return "not provable", f"{len(lacking(labels, nodes, named[0]))} of {len(nodes)} nodes lack {named[0]}"


def _carried(labels: Labels, key: str) -> _Verdict:
    bare = lacking(labels, labels, key)
    if not bare:
        return "met", f"all {len(labels)} nodes do"
    return "broken", f"{len(bare)} of {len(labels)} nodes lack{'s' * (len(bare) == 1)} it: {some(bare)}"


def _current(labels: Labels, machine: Iterable[str]) -> _Verdict:
    """Return whether labels are up to date. A snapshot cannot prove it, but contradictory labels disprove it."""
    for key, former in _FORMER.items():
        wrong = [name for name in labels if value(labels, name, key) != value(labels, name, former) and value(labels, name, former)]
        wrong = [name for name in wrong if value(labels, name, key)]
        if wrong:
            return "broken", f"{key} differs from {former} on {some(wrong)}"
    for name_key in machine:
        for key in REQUIRED_LABELS:
            places: dict[str, set[str]] = {}
            for name in labels:
                on, place = value(labels, name, name_key), value(labels, name, key)
                if on and place:
                    places.setdefault(on, set()).add(place)
            torn = sorted(on for on, found in places.items() if len(found) > 1)
            if torn:
                return "broken", f"machine {torn[0]} has several values of {key}: {', '.join(sorted(places[torn[0]]))}"
    return "not provable", "a snapshot is one moment; nothing in it contradicts them"


def _doubled(found: Layout) -> _Verdict:
    once = [part.name for part in found.parts if len(part.homes) < 2]
    if once:
        return "broken", f"{', '.join(once)} {'run' if len(once) > 1 else 'runs'} once"
    seen = {part.name for part in found.members.components}
    unseen = [name for name in USUAL if name not in seen]
    if unseen:
        return "not provable", f"not seen: {', '.join(unseen)}"
    return "met", f"{min(len(part.homes) for part in found.parts)} of each or more"


def _worst(found: Layout) -> _Verdict:
    verdicts = [verdict for _, verdict in halves_of(found)]
    seen = {part.name for part in found.members.components}
    if not seen >= set(USUAL):
        verdicts.append(("not provable", f"not seen: {', '.join(name for name in USUAL if name not in seen)}"))
    order: tuple[RequirementStatus, ...] = ("broken", "not provable", "met")
    return min(verdicts, key=lambda verdict: order.index(verdict[0]))


def _mapped(labels: Labels, workers: Collection[str], machine: Collection[str]) -> _Verdict:
    key = min(machine, key=lambda each: len(lacking(labels, labels, each)))
    bare = lacking(labels, labels, key)
    said = sharing(labels, workers, machine) if workers else f"{len(labels) - len(bare)} of {len(labels)} nodes have {key}"
    return ("broken" if bare else "met"), said


def _noun(part: ControlPlaneComponent) -> str:
    if part.is_etcd:
        return f"members of {part.name}"
    return f"instances of {part.name}" if part.pods else part.name
