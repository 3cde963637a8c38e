"""ImageLocality for the checker: points of a pod for the images present on its node.

Source: docs/preferences.md; kube-scheduler plugin imagelocality (image_locality.go).
"""

from __future__ import annotations

from typing import Final

from kubestow.checker.objective.families.base import NodeFamily, Scene
from kubestow.models.kube import objects

#: Bytes of images below which a node gets no points, and bytes per container at which it gets all points.
_MIN_BYTES: Final = 23 * 2**20
_MAX_BYTES_PER_CONTAINER: Final = 1000 * 2**20
_MAX_POINTS: Final = 100


class ImageLocality(NodeFamily):
    """The images of all nodes, with the sizes in bytes that the first node reports."""

    name, text, optional = "imageLocality", "images that its node does not have", True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._best: dict[int, int] = {}
        self._sizes: dict[str, int] = {}
        self._at: dict[str, set[str]] = {}
        for node in scene.nodes.values():
            for image in (node.status.images if node.status else None) or ():
                for name in image.names or ():
                    self._sizes.setdefault(name, image.sizeBytes or 0)
                    self._at.setdefault(name, set()).add(node.metadata.name or "")

    def best(self, pod: objects.Pod) -> int:
        kind = id(pod.spec.containers)  # equal pods share it
        if kind not in self._best:
            self._best[kind] = super().best(pod)
        return self._best[kind]

    def worth(self, pod: objects.Pod, node: str) -> int:
        """Return the points of one pod on a node, from 0 to 100."""
        spec = pod.spec
        containers = [*(spec.initContainers or ()), *(spec.containers or ())]
        references = [c.image for c in containers] + [v.image.reference for v in spec.volumes or () if v.image]
        bytes_there = 0
        for reference in references:
            if reference:
                name = reference if ":" in reference.rpartition("/")[2] else reference + ":latest"
                if node in self._at.get(name, ()):
                    bytes_there += self._sizes[name] * len(self._at[name]) // len(self.scene.nodes)
        upper_limit = _MAX_BYTES_PER_CONTAINER * max(1, len(containers))
        return _MAX_POINTS * (min(max(bytes_there, _MIN_BYTES), upper_limit) - _MIN_BYTES) // (upper_limit - _MIN_BYTES)
