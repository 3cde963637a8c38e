"""The names of the container-affinity annotations (docs/sources.md#container-affinity).

They are separate from the code that reads them, so that snapshots without such annotations need not load it.
"""

from __future__ import annotations

from typing import Final

from kubestow.models.kube import objects
from kubestow.models.snapshot.affinity_keys import KEYS

#: ``kubestow.dev/tags.<container>: key=value,key=value`` gives a container tags, which no Kubernetes object
#: states.
TAGS: Final = "kubestow.dev/tags."


def has_hints(pod: objects.Pod) -> bool:
    """Return True if the pod has any of the annotations, well-formed or not."""
    annotations = pod.metadata.annotations
    return annotations is not None and any(key in annotations for key in KEYS)
