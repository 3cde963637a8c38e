"""The effective container affinity A(C1, C2) of one pod's containers, as the annotations say it: for ``explain --affinity``."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubestow.models.documents.policy import Policy
from kubestow.models.kube import kinds
from kubestow.models.kube import objects as kube_objects
from kubestow.models.numa.annotations import has_hints
from kubestow.models.numa.colocation import switched
from kubestow.models.numa.container_affinity import AnnotationError, Hints, affinity, parse, views
from kubestow.models.numa.container_expressions import ContainerView
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.ownership import OwnedPods
from kubestow.solver.explain.per_node import UnknownPod


@dataclass(frozen=True, slots=True)
class Pair:
    """A(source, target), containers written as ``namespace/pod/container``, if both ran on one node."""

    source: str
    target: str
    weight: int


@dataclass
class Matrix:
    """``pairs``: the nonzero A from or to a container of the pod, its own first; ``warnings``: of its annotations."""

    pod: str
    containers: list[str]
    pairs: list[Pair] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def matrix(snapshot: Snapshot, name: str, policy: Policy) -> Matrix:
    """Return A of the pod ``namespace/name``, of the first pod of the workload of that name, or, where it has none, of its PodTemplate.

    Raises:
        UnknownPod: there is neither.
        InputError: the pod's annotations cannot be read.
    """
    pods = [p for p in snapshot.pods if not kube_objects.is_terminal(p)]
    chosen = next((p for p in pods if kube_objects.pod_key(p) == name), None) or _of_workload(snapshot, name)
    if chosen is None:
        ended = any(kube_objects.pod_key(p) == name for p in snapshot.pods)
        raise UnknownPod(f"{name}: {'the pod has ended' if ended else 'no such pod or workload in the snapshot'}")
    try:
        own, own_views = parse(chosen, symmetric=policy.shorthand == "symmetric"), views(chosen)
    except AnnotationError as error:
        raise InputError([str(error)]) from error
    found = Matrix(kube_objects.pod_key(chosen), [_name(v) for v in own_views], warnings=list(own.warnings))
    others: list[tuple[Hints, list[ContainerView]]] = [(own, own_views)]
    for pod in pods:
        if pod is not chosen:
            try:
                hints = parse(pod, symmetric=policy.shorthand == "symmetric") if has_hints(pod) else Hints((), ())
                others.append((hints, views(pod)))
            except AnnotationError:
                continue  # a pod whose annotation cannot be read has no say
    policy = switched(policy, snapshot)
    switches = {"colocate_pods": policy.colocatePods, "colocate_namespaces": policy.colocateNamespaces}
    for hints, other_views in others:
        for mine in own_views:
            for other in other_views:
                forward = affinity(own, mine, other, **switches)
                if forward:
                    found.pairs.append(Pair(_name(mine), _name(other), forward))
                if hints is not own:
                    backward = affinity(hints, other, mine, **switches)
                    if backward:
                        found.pairs.append(Pair(_name(other), _name(mine), backward))
    return found


def _name(view: ContainerView) -> str:
    return f"{view.namespace}/{view.pod}/{view.container}"


def _of_workload(snapshot: Snapshot, name: str) -> kube_objects.Pod | None:
    """The first pod of a workload of this name. Without pods, the pod that it would make: beside pods of its own that would be one more
    replica than there is."""
    owned = OwnedPods(snapshot)
    for kind, objects in snapshot.workloads.items():
        for workload in objects:
            namespace = workload.metadata.namespace or "default"
            if f"{namespace}/{workload.metadata.name}" != name:
                continue
            if pods := owned.of(kind, namespace, workload.metadata.name or ""):
                return snapshot.pods[pods[0]]
            template = kinds.pod_template(workload)
            if template is not None and template[1].spec is not None:
                source = template[1].metadata or kube_objects.ObjectMeta()
                metadata = kube_objects.ObjectMeta(
                    name=workload.metadata.name, namespace=namespace, labels=source.labels, annotations=source.annotations
                )
                return kube_objects.Pod(metadata=metadata, spec=template[1].spec)
    return None
