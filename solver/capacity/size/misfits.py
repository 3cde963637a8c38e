"""Pods that no shape of a catalogue can hold, with the reason for each shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.sizing import Misfit, ShapeReason
from kubestow.models.kube.objects import pod_key
from kubestow.solver.rules.base import Rule


def misfits(cluster: Cluster, active: Sequence[Rule], shapes: Mapping[int, str], hopeless: Iterable[int]) -> list[Misfit]:
    """Return the classes that fit on no node, grouped by equal reasons.

    Args:
        shapes: Empty nodes of the cluster, each with its shape.
    """
    pods_by_reasons: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for g in hopeless:
        reasons: list[tuple[str, str, str]] = []
        rejections = [(rule, rule.rejects(g)) for rule in active]
        for shape in dict.fromkeys(shapes.values()):
            nodes = [n for n, name in shapes.items() if name == shape]
            for rule, rejects in rejections:
                mask = np.zeros(cluster.n_nodes, dtype=bool)
                mask[nodes] = rejects[nodes]
                if mask.any():
                    reasons.append((shape, rule.name, _of_shape(rule.message(g, mask))))
        pods = pods_by_reasons.setdefault(tuple(reasons), [])
        pods += [pod_key(cluster.snapshot.pods[i]) for i in cluster.classes[g].pods]
    return [Misfit(pods, [ShapeReason(*reason) for reason in reasons]) for reasons, pods in pods_by_reasons.items()]


def _of_shape(message: str) -> str:
    """Return a rule's message without the number of nodes."""
    return re.sub(r" on \d+(?= *[,;]|$)", "", message)
