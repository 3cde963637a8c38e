"""The effective container affinity A(C1, C2) of one pod's containers, from its annotations, for ``explain --affinity``."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from kubestow.models.documents.policy import Policy
from kubestow.models.kube import kinds
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube.lenient_decode import near_keys
from kubestow.models.numa.annotations import has_hints
from kubestow.models.numa.colocation import switched
from kubestow.models.numa.container_affinity import AnnotationError, Hints, affinity, parse, views
from kubestow.models.numa.container_expressions import ContainerView
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.ownership import OwnedPods
from kubestow.solver.explain.per_node import UnknownPod


@dataclass(frozen=True, slots=True)
class Pair:
    """The affinity A(source, target) of two containers (``namespace/pod/container``) on one node."""

    source: str
    target: str
    weight: int


@dataclass
class Matrix:
    """The affinities of one pod.

    Attributes:
        pairs: The nonzero A from or to a container of the pod, its own containers first.
        warnings: Warnings about its annotations.
    """

    pod: str
    containers: list[str]
    pairs: list[Pair] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def matrix(snapshot: Snapshot, name: str, policy: Policy) -> Matrix:
    """Return A for the pod ``namespace/name``, for the first pod of the workload of that name, or for its PodTemplate if it has no pods.

    Raises:
        UnknownPod: No such pod or workload.
        InputError: The pod's annotations cannot be read.
    """
    pods = [p for p in snapshot.pods if not kube_objects.is_terminal(p)]
    chosen = next((p for p in pods if kube_objects.pod_key(p) == name), None) or _of_workload(snapshot, name)
    if chosen is None:
        ended = any(kube_objects.pod_key(p) == name for p in snapshot.pods)
        near = near_keys(name, map(kube_objects.pod_key, pods))
        raise UnknownPod(f"{name}: " + ("the pod has ended" if ended else f"no such pod or workload in the snapshot{near}"))
    try:
        own, own_views = parse(chosen, symmetric=policy.shorthand == "symmetric"), views(chosen)
    except AnnotationError as error:
        raise InputError([str(error)]) from error
    result = Matrix(kube_objects.pod_key(chosen), [_name(v) for v in own_views], warnings=list(own.warnings))
    others: list[tuple[Hints, list[ContainerView]]] = [(own, own_views)]
    for pod in pods:
        if pod is not chosen:
            try:
                hints = parse(pod, symmetric=policy.shorthand == "symmetric") if has_hints(pod) else Hints((), ())
                others.append((hints, views(pod)))
            except AnnotationError:
                continue  # a pod with an unreadable annotation contributes no hints
    policy = switched(policy, snapshot)
    switches = {"colocate_pods": policy.colocatePods, "colocate_namespaces": policy.colocateNamespaces}
    for hints, other_views in others:
        for mine, other in product(own_views, other_views):
            weights = [(mine, other, affinity(own, mine, other, **switches))]
            weights += [(other, mine, affinity(hints, other, mine, **switches))] if hints is not own else []
            result.pairs += [Pair(_name(source), _name(target), weight) for source, target, weight in weights if weight]
    return result


def _name(view: ContainerView) -> str:
    return f"{view.namespace}/{view.pod}/{view.container}"


def _of_workload(snapshot: Snapshot, name: str) -> kube_objects.Pod | None:
    """Return the first pod of a workload of this name, or the pod of its template if it has none.

    The template is not used if there are pods, because it would count as an additional replica.
    """
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
