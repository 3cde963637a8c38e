"""ImageLocality for the checker: the points of a pod for the images that its node has.

Source: docs/preferences.md; kube-scheduler plugin imagelocality (image_locality.go).
"""

from __future__ import annotations

from typing import Final

from kubestow.checker.objective.kinds import Nodes
from kubestow.models.kube import objects

#: Bytes, in sum, that are worth nothing yet, and those of each container that are worth all there is.
_LEAST: Final = 23 * 2**20
_MOST: Final = 1000 * 2**20
_POINTS: Final = 100


class ImageLocality:
    """The images of all nodes, each with its size in bytes as the first node tells it."""

    def __init__(self, nodes: Nodes) -> None:
        self._count = len(nodes)
        self._sizes: dict[str, int] = {}
        self._at: dict[str, set[str]] = {}
        for node in nodes.values():
            for image in (node.status.images if node.status else None) or ():
                for name in image.names or ():
                    self._sizes.setdefault(name, image.sizeBytes or 0)
                    self._at.setdefault(name, set()).add(node.metadata.name or "")

    def points(self, spec: objects.PodSpec, node: str) -> int:
        """Return the points of one pod on a node, 0 to 100."""
        containers = [*(spec.initContainers or ()), *(spec.containers or ())]
        references = [c.image for c in containers] + [v.image.reference for v in spec.volumes or () if v.image]
        bytes_there = 0
        for reference in references:
            if reference:
                name = reference if ":" in reference.rpartition("/")[2] else reference + ":latest"
                if node in self._at.get(name, ()):
                    bytes_there += self._sizes[name] * len(self._at[name]) // self._count
        most = _MOST * max(1, len(containers))
        return _POINTS * (min(max(bytes_there, _LEAST), most) - _LEAST) // (most - _LEAST)
