"""ImageLocality: the score of a node for the images of a pod that it already has.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/framework/plugins/imagelocality/image_locality.go, and
addNodeImageStates in pkg/scheduler/backend/cache/cache.go. kube-scheduler scales sizes in floating point. Here the product is divided as
integers, which can differ by one byte of a size, and rarely by one point of a score.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.node_scores.base import NodeScores
from kubestow.models.kube.objects import Node, Pod
from kubestow.models.kube.pod_spec import image_names

_MIB: Final = 1024 * 1024
#: Bytes of present images below which the score is 0, and bytes for each container above which it is the maximum.
MIN_THRESHOLD: Final = 23 * _MIB
MAX_THRESHOLD: Final = 1000 * _MIB
#: Maximum score, in points.
MAX_SCORE: Final = 100


class ImageLocality(NodeScores):
    """The node scores for the images of pods, from 0 to 100."""

    name = "imageLocality"

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(nodes)
        self._sizes: dict[str, int] = {}  # bytes, as reported by the first node
        self._on: dict[str, list[int]] = {}
        for n, node in enumerate(nodes):
            for image in (node.status.images if node.status is not None else None) or ():
                for name in image.names or ():
                    self._sizes.setdefault(name, image.sizeBytes or 0)
                    here = self._on.setdefault(name, [])
                    if here[-1:] != [n]:
                        here.append(n)

    @staticmethod
    def fields(pod: Pod) -> list[object]:
        return list(image_names(pod))  # those of volumes, too, which templates read only as claims

    def key(self, pod: Pod) -> Hashable:
        names = tuple(name for name in image_names(pod) if name in self._on)
        return (len(pod.spec.initContainers or ()) + len(pod.spec.containers or ()), names) if names else None

    def score(self, pod: Pod) -> Ints:
        sizes = np.zeros(len(self.nodes), dtype=np.int64)
        for name in image_names(pod):
            if name in self._on:
                here = self._on[name]
                sizes[here] += self._sizes[name] * len(here) // len(self.nodes)
        upper = MAX_THRESHOLD * max(1, len(pod.spec.initContainers or ()) + len(pod.spec.containers or ()))
        return np.asarray(MAX_SCORE * (np.clip(sizes, MIN_THRESHOLD, upper) - MIN_THRESHOLD) // (upper - MIN_THRESHOLD), dtype=np.int64)
