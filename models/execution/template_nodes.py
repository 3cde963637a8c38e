"""The nodes that a placement assigns to the pods of each workload of the manifests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.workload_objects import PodSet, PodSetSpec, StatefulSet
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import OwnedPods, named
from kubestow.models.workloads.view import selector

#: Kinds of Kubernetes whose pods keep their names.
_KEEP_NAMES: Final = ("StatefulSet", "Pod")
_RANDOM: Final = "[a-z0-9]{5}"
#: Suffixes that controllers append to the name of a workload.
_ENDINGS: Final = {
    "Deployment": f"[a-z0-9]{{1,10}}-{_RANDOM}",
    "StatefulSet": "[0-9]+",
    "Job": f"(?:[0-9]+-)?{_RANDOM}",
    "CronJob": f"[0-9]+-(?:[0-9]+-)?{_RANDOM}",
}
#: Scheduling gate that holds pods until ``kubestow apply`` gives each its node of a placement.
GATE: Final = "kubestow.dev/placement"


def by_name(node: str) -> dict[str, Any]:
    """Return the node field requirement, in the API's form, that only this node meets."""
    return {"key": "metadata.name", "operator": "In", "values": [node]}


@dataclass(frozen=True)
class TemplateNodes:
    """The nodes of a workload, or of a bare Pod.

    Attributes:
        kind, namespace, name: Identity of the workload or Pod.
        nodes: Number of its pods per node, including running ones.
        by_name: Node of each placed pod, if pods keep their names (such as those of a StatefulSet).
        assignments: Its assignments in the placement, in bind order.
        unplaced: Number of its pods without a node.
        ran: Nodes of its pods that were bound before, by namespace/name.
        exists: True if the cluster already has its object.
        one_by_one: True for a StatefulSet that waits for each pod to be ready before it creates the next.
        gang: The gang of its pods.
        needed: Number of members that the gang needs.
        pod_set: The pod set of a custom workload, which says where the template is and which pods belong to it; else None.
    """

    kind: str
    namespace: str
    name: str
    nodes: Mapping[str, int] = field(default_factory=dict)
    by_name: Mapping[str, str] = field(default_factory=dict)
    assignments: tuple[Assignment, ...] = ()
    unplaced: int = 0
    ran: Mapping[str, str] = field(default_factory=dict)
    exists: bool = False
    one_by_one: bool = False
    gang: str | None = None
    needed: int = 0
    pod_set: PodSetSpec | None = None

    @property
    def keeps_names(self) -> bool:
        """True if its pods have the same names in every cluster."""
        if self.pod_set is None:
            return self.kind in _KEEP_NAMES
        return not self.pod_set.pod.endswith("-") and not any(part in self.pod_set.pod for part in ("{hash}", "{random}"))

    @property
    def ref(self) -> str:
        """``Kind namespace/name``, the identity of a workload in documents and messages."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def running(self) -> int:
        """Number of its pods that were bound before."""
        return len(self.ran)

    @property
    def placed(self) -> int:
        """Number of its pods with a node in the placement."""
        return len(self.assignments)


def template_nodes(before: Snapshot, expanded: Snapshot, refs: Sequence[str], placement: Placement) -> list[TemplateNodes]:
    """Return the nodes of each workload of the manifests, in the order of ``refs``.

    DaemonSets are left out, because their pods have fixed nodes.

    Args:
        before: The snapshot of the cluster.
        expanded: The snapshot with the manifests' pods (:class:`kubestow.models.workloads.expand.Expansion`).
        refs: Workloads of the manifests.
        placement: A placement of ``expanded``.
    """
    assigned = {assignment.pod: assignment for assignment in placement.assignments}
    index = {pod_key(pod): i for i, pod in enumerate(expanded.pods)}
    known = {pod_key(pod) for pod in before.pods}
    owners = OwnedPods(expanded)
    found = []
    for template in _templates(refs):
        kind, namespace, name = template.kind, template.namespace, template.name
        obj = None if kind == "Pod" else named(expanded, kind, namespace, name)
        key = f"{namespace}/{name}"
        if kind == "Pod":
            members, exists = [index[key]] if key in index else [], key in known
        else:
            members = owners.of(kind, namespace, name, selector(obj))
            exists = named(before, kind, namespace, name) is not None
        pods = [expanded.pods[i] for i in members]
        own = [assigned[key] for pod in pods if (key := pod_key(pod)) in assigned]
        one_by_one = isinstance(obj, StatefulSet) and obj.spec is not None and obj.spec.podManagementPolicy != "Parallel"
        pod_set = obj.spec if isinstance(obj, PodSet) else None
        counted = _counted(replace(template, exists=exists, one_by_one=one_by_one, pod_set=pod_set), own, placement)
        for pod in pods:
            if pod.spec.nodeName and pod_key(pod) not in assigned:
                counted = _with_running(counted, pod.metadata.name or "", pod.spec.nodeName)
        found.append(replace(counted, unplaced=len(pods) - sum(counted.nodes.values())))
    return found


def from_placement(placement: Placement) -> list[TemplateNodes]:
    """Return the nodes of each workload from the document alone, by the names of pods.

    If several workloads match, the longest name wins. Earlier pods are unknown, so all workloads count as
    ``exists``, and all StatefulSets as ``one_by_one``.
    """
    templates = _templates(placement.snapshot.workloads)
    own: dict[str, list[Assignment]] = {template.ref: [] for template in templates}
    for assignment in placement.assignments:
        matching = [template for template in templates if _is_named_after(assignment.pod, template)]
        if matching:
            own[max(matching, key=lambda template: len(template.name)).ref].append(assignment)
    return [
        _counted(replace(template, exists=True, one_by_one=template.kind == "StatefulSet"), own[template.ref], placement)
        for template in templates
    ]


def _templates(refs: Sequence[str]) -> list[TemplateNodes]:
    found = []
    for ref in refs:
        kind, _, path = ref.partition(" ")
        namespace, _, name = path.partition("/")
        if kind != "DaemonSet":
            found.append(TemplateNodes(kind, namespace, name))
    return found


def _counted(template: TemplateNodes, own: Sequence[Assignment], placement: Placement) -> TemplateNodes:
    ordered = tuple(sorted(own, key=lambda assignment: assignment.order))
    gang = min((assignment.gang for assignment in ordered if assignment.gang), default=None)
    return replace(
        template,
        nodes=dict(sorted(Counter(assignment.node for assignment in ordered).items())),
        by_name={a.pod.rpartition("/")[2]: a.node for a in ordered} if template.keeps_names else {},
        assignments=ordered,
        gang=gang,
        needed=next((result.needed for result in placement.gangs if result.gang == gang), 0),
    )


def _with_running(template: TemplateNodes, pod: str, node: str) -> TemplateNodes:
    nodes = dict(sorted((Counter(template.nodes) + Counter({node: 1})).items()))
    by_name = {**template.by_name, pod: node} if template.keeps_names else {}
    return replace(template, nodes=nodes, by_name=by_name, ran={**template.ran, f"{template.namespace}/{pod}": node})


def _is_named_after(pod: str, template: TemplateNodes) -> bool:
    namespace, _, name = pod.partition("/")
    if namespace != template.namespace:
        return False
    if template.kind == "Pod":
        return name == template.name
    suffix = name.removeprefix(f"{template.name}-")
    return suffix != name and re.fullmatch(_ENDINGS.get(template.kind, _RANDOM), suffix) is not None
