"""The application of remedies to raw objects, from the arguments in a document alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.devices.allocating import without
from kubestow.models.documents.placement import Edits, Remedy
from kubestow.models.edits.edits import apply
from kubestow.models.gangs import gangs
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners
from kubestow.solver import rules
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy import raise_quotas
from kubestow.solver.rules.remedies import Arguments, PodEdit

#: By the kind of a remedy, the change of the pods of the named owners.
POD_CHANGES: Final = {change: edit for kind in rules.ALL for change, edit in kind.pod_changes.items()}


def applied(question: PlacementQuestion, remedy: Remedy) -> PlacementQuestion:
    """Return the question after a remedy. Changed objects of its snapshot are replaced, never modified in place.

    Raises:
        ValueError: A change of an unknown kind.
    """
    if remedy.change == "combination":
        for i in range(1, int(remedy.arguments["changes"]) + 1):
            arguments = {k.removeprefix(f"{i}."): v for k, v in remedy.arguments.items() if k.startswith(f"{i}.")}
            question = applied(question, Remedy(arguments.pop("change"), "", arguments))
        return question
    if remedy.change in _CHANGES:
        return _CHANGES[remedy.change](question, remedy.arguments)
    for kind in rules.ALL:
        if remedy.change in kind.snapshot_changes:
            change = kind.snapshot_changes[remedy.change]
            return replace(question, snapshot=change(question.snapshot, question.pods, remedy.arguments))
    if remedy.change not in POD_CHANGES:
        raise ValueError(f"no remedy is called {remedy.change!r}")
    return _edited(question, POD_CHANGES[remedy.change], remedy.arguments)


def gang_of(question: PlacementQuestion) -> gangs.Gang | None:
    """Return the gang of all pods of the question; None without a common one."""
    return gangs.common(question.snapshot, question.scope(), tiers=question.policy.networkTiers)


def _edited(question: PlacementQuestion, change: PodEdit, arguments: Arguments) -> PlacementQuestion:
    """Return the question with the pods of the named owners changed."""
    owners = PodOwners(question.snapshot)
    chosen: set[int] = set()
    for owner in arguments["workload"].split("; "):
        chosen.update(owners.members(owner))
    if change.new_pods_only:
        chosen &= set(question.pods)
    pods = [change.edit(pod, arguments) if i in chosen else pod for i, pod in enumerate(question.snapshot.pods)]
    if change.admitted_again:
        pods = [_admitted(question.snapshot, pod) if i in chosen else pod for i, pod in enumerate(pods)]
    return replace(question, snapshot=replace(question.snapshot, pods=pods))


def _admitted(snapshot: Snapshot, pod: Pod) -> Pod:
    """Return a pod as its namespace would admit it if it were created again."""
    spec = namespace_admission.merged(pod.spec, pod.metadata.namespace or "default", snapshot)
    return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)


# --- the question and the cluster -------------------------------------------------------------------------------------------


def _annotated(pod: Pod, **values: str | None) -> Pod:
    """Return the pod with annotations changed; None removes one."""
    annotations = {k: v for k, v in {**(pod.metadata.annotations or {}), **values}.items() if v is not None}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


def _members(question: PlacementQuestion, change: Callable[[Pod], Pod]) -> Snapshot:
    """Return the snapshot with all members of the question's gang changed."""
    gang = gang_of(question)
    chosen = {*question.pods, *(gang.bound if gang is not None else ())}
    return replace(question.snapshot, pods=[change(pod) if i in chosen else pod for i, pod in enumerate(question.snapshot.pods)])


def _prefer_topology(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    values = {gangs.REQUIRED_TOPOLOGY: None, gangs.PREFERRED_TOPOLOGY: arguments["key"]}
    return replace(question, snapshot=_members(question, lambda pod: _annotated(pod, **values)))


def _min_member(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    gang = gang_of(question)
    minimum = int(arguments["to"])
    snapshot = _members(question, lambda pod: _annotated(pod, **{gangs.MIN_MEMBER: str(minimum)}))
    return replace(question, snapshot=snapshot, needed=minimum - len(gang.bound if gang is not None else ()))


def _replicas(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    """Return the question without the last pods of the workload, so that ``to`` replicas remain including the running ones."""
    owners = PodOwners(question.snapshot)
    pods = owners.group(question.pods)[arguments["workload"]]
    gone = pods[int(arguments["to"]) - len(running(question, arguments["workload"])) :]
    return replace(without_pods(question, gone), needed=len(question.pods) - len(gone))


def running(question: PlacementQuestion, owner: str) -> list[int]:
    """Return the pods of a workload that hold a node and are not part of the question."""
    own = set(question.pods)
    return [i for i in PodOwners(question.snapshot).members(owner) if i not in own and question.snapshot.pods[i].spec.nodeName]


def _evict(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    wanted, own = set(arguments["pods"].split(",")), set(question.pods)
    return without_pods(question, [i for i, pod in enumerate(question.snapshot.pods) if i not in own and pod_key(pod) in wanted])


def _move(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    """Return the question with more running pods to be placed."""
    pods, keys = list(question.snapshot.pods), set(arguments["pod"].split(","))
    moved = [i for i, pod in enumerate(pods) if pod_key(pod) in keys]
    for i in moved:
        pods[i] = msgspec.structs.replace(pods[i], spec=msgspec.structs.replace(pods[i].spec, nodeName=None))
    needed = question.needed + len(moved)
    return replace(question, snapshot=replace(question.snapshot, pods=pods), pods=(*question.pods, *moved), needed=needed)


def without_pods(question: PlacementQuestion, gone: list[int]) -> PlacementQuestion:
    """Return the question in a snapshot without some pods. ``needed`` is unchanged."""
    lost = set(gone)
    place: dict[int, int] = {}
    for i in range(len(question.snapshot.pods)):
        if i not in lost:
            place[i] = len(place)
    pods = [pod for i, pod in enumerate(question.snapshot.pods) if i not in lost]
    without_claims = _given_back(question.snapshot, gone)
    return replace(question, snapshot=replace(without_claims, pods=pods), pods=tuple(place[i] for i in question.pods if i in place))


def _given_back(snapshot: Snapshot, gone: list[int]) -> Snapshot:
    """Return a snapshot in which some pods' devices are free. The pods themselves remain."""
    if not snapshot.resource_claims:
        return snapshot
    return replace(snapshot, resource_claims=without(snapshot, (snapshot.pods[i] for i in gone)))


def _add_nodes(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    labels = arguments.get("labels")
    return with_nodes(question, [f"{arguments['count']}:{arguments['like']}" + (f",{labels}" if labels else "")])


def _buy_nodes(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    """Return the question with nodes bought from its catalogue."""
    name = arguments["shape"]
    shapes = [question.catalogue.shapes[name]] if question.catalogue is not None else []
    return with_edits(question, Edits(buy=[f"{arguments['count']}:{name}@{arguments['zone']}"], shapes=shapes))


def with_nodes(question: PlacementQuestion, added: list[str]) -> PlacementQuestion:
    """Return the question in a snapshot with more nodes, each ``N:LIKE_NODE[,KEY=VALUE…]``."""
    return with_edits(question, Edits(addNodes=added))


def with_edits(question: PlacementQuestion, edits: Edits) -> PlacementQuestion:
    """Return the question in a snapshot with nodes added or bought."""
    keys = {pod_key(question.snapshot.pods[i]) for i in question.pods}
    changed = apply(question.snapshot, None, edits).snapshot
    # Find the question's pods by name, because new nodes bring DaemonSet pods.
    return replace(question, snapshot=changed, pods=tuple(i for i, pod in enumerate(changed.pods) if pod_key(pod) in keys))


def _uncordon(question: PlacementQuestion, arguments: Arguments) -> PlacementQuestion:
    def free(node: objects.Node) -> objects.Node:
        if node.metadata.name != arguments["node"] or node.spec is None:
            return node
        taints = [t for t in node.spec.taints or () if t.key != "node.kubernetes.io/unschedulable"]
        return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=None, taints=taints or None))

    return replace(question, snapshot=replace(question.snapshot, nodes=[free(node) for node in question.snapshot.nodes]))


_CHANGES: Final[dict[str, Callable[[PlacementQuestion, Arguments], PlacementQuestion]]] = {
    "preferTopology": _prefer_topology,
    "lowerMinMember": _min_member,
    "reduceReplicas": _replicas,
    "evict": _evict,
    "move": _move,
    "addNodes": _add_nodes,
    "buyNodes": _buy_nodes,
    "uncordon": _uncordon,
    raise_quotas.CHANGE: raise_quotas.with_raises,
}
