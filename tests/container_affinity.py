"""Container affinity computed pair by pair, as a reference for tests."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.kube import objects
from kubestow.models.numa.container_affinity import affinity, parse, views
from kubestow.models.numa.container_expressions import ContainerView


def matrix(
    pods: Sequence[objects.Pod], *, symmetric: bool = False, colocate_pods: bool = False, colocate_namespaces: bool = False
) -> tuple[list[ContainerView], dict[tuple[int, int], int]]:
    """Return all containers of pods on one node, and the nonzero entries of A by positions in that list.

    Raises:
        AnnotationError: An annotation of a pod is malformed.
    """
    found = [(parse(pod, symmetric=symmetric), view) for pod in pods for view in views(pod)]
    result = {}
    for i, (hints, own) in enumerate(found):
        for j, (_, other) in enumerate(found):
            if i != j:
                weight = affinity(hints, own, other, colocate_pods=colocate_pods, colocate_namespaces=colocate_namespaces)
                if weight:
                    result[i, j] = weight
    return [view for _, view in found], result
