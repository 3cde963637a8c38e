"""The nodes that a placement has for the pods of each workload of the manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from models.documents.placement import Assignment, Placement
from models.kube.objects import Pod, pod_key
from models.kube.workload_objects import StatefulSet
from models.snapshot.snapshot import Snapshot
from models.workloads.ownership import OwnedPods, named
from models.workloads.view import selector

#: Holds pods until ``kubestow apply`` gives each the node that a placement has for it.
GATE: Final = "kubestow.dev/placement"


def by_name(node: str) -> dict[str, Any]:
    """Return the requirement on fields of nodes, in the API's words, that is met by this node alone."""
    return {"key": "metadata.name", "operator": "In", "values": [node]}


@dataclass(frozen=True)
class TemplateNodes:
    """``kind``, ``namespace`` and ``name`` of a workload, or of a Pod by itself.

    ``nodes``: how many of its pods each node has, those that run there already included. ``by_name``: the node of each placed pod, where
    pods keep their names (StatefulSet, Pod). ``placed``, ``unplaced``: how many pods of its own the placement has a node for, or none.
    ``running``: how many were bound before. ``exists``: whether the cluster has its object already.
    ``one_by_one``: a StatefulSet that waits for each pod to be ready before it creates the next. ``gang``: that of its pods.
    """

    kind: str
    namespace: str
    name: str
    nodes: Mapping[str, int] = field(default_factory=dict)
    by_name: Mapping[str, str] = field(default_factory=dict)
    placed: int = 0
    unplaced: int = 0
    running: int = 0
    exists: bool = False
    one_by_one: bool = False
    gang: str | None = None

    @property
    def ref(self) -> str:
        """``Kind namespace/name``, the identity of a workload in documents and messages."""
        return f"{self.kind} {self.namespace}/{self.name}"


def template_nodes(before: Snapshot, expanded: Snapshot, refs: Sequence[str], placement: Placement) -> list[TemplateNodes]:
    """Return the nodes of each workload of the manifests but for DaemonSets, whose pods have theirs anyway, in the order of ``refs``.

    ``before``: the snapshot of the cluster. ``expanded``: with the manifests' pods, of which ``refs`` names the workloads
    (:class:`models.workloads.expand.Expansion`). Both are those that ``placement`` was made of.
    """
    assigned = {assignment.pod: assignment for assignment in placement.assignments}
    index = {pod_key(pod): i for i, pod in enumerate(expanded.pods)}
    known = {pod_key(pod) for pod in before.pods}
    owners = OwnedPods(expanded)
    found = []
    for ref in refs:
        kind, _, path = ref.partition(" ")
        namespace, _, name = path.partition("/")
        if kind == "DaemonSet":
            continue
        obj = None if kind == "Pod" else named(expanded, kind, namespace, name)
        if kind == "Pod":
            members, exists = [index[path]] if path in index else [], path in known
        else:
            members = owners.of(kind, namespace, name, selector(obj))
            exists = named(before, kind, namespace, name) is not None
        one_by_one = isinstance(obj, StatefulSet) and obj.spec is not None and obj.spec.podManagementPolicy != "Parallel"
        found.append(
            _counted(
                TemplateNodes(kind, namespace, name, exists=exists, one_by_one=one_by_one), [expanded.pods[i] for i in members], assigned
            )
        )
    return found


def _counted(template: TemplateNodes, members: Sequence[Pod], assigned: Mapping[str, Assignment]) -> TemplateNodes:
    nodes: Counter[str] = Counter()
    by_name: dict[str, str] = {}
    gangs: set[str] = set()
    running = 0
    for pod in members:
        assignment = assigned.get(pod_key(pod))
        running += bool(pod.spec.nodeName)
        node = assignment.node if assignment is not None else pod.spec.nodeName
        if assignment is not None and assignment.gang:
            gangs.add(assignment.gang)
        if node:
            nodes[node] += 1
            by_name[pod.metadata.name or ""] = node
    return replace(
        template,
        nodes=dict(sorted(nodes.items())),
        by_name=by_name if template.kind in ("StatefulSet", "Pod") else {},
        placed=nodes.total() - running,
        unplaced=len(members) - nodes.total(),
        running=running,
        gang=min(gangs, default=None),
    )
