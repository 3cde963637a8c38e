"""The names of the container-affinity annotations (docs/sources.md#container-affinity).

They are separate from the code that reads them, so that snapshots without such annotations need not load it.
"""

from __future__ import annotations

from typing import Final

from kubestow.models.kube import objects

#: The two prefixes of the annotations, the current one first.
PREFIXES: Final = ("resource-policy.nri.io/", "cri-resource-manager.intel.com/")
AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"
#: ``kubestow.dev/tags.<container>: key=value,key=value`` gives a container tags, which no Kubernetes object
#: states.
TAGS: Final = "kubestow.dev/tags."
_KEYS: Final = tuple(prefix + kind for prefix in PREFIXES for kind in (AFFINITY, ANTI_AFFINITY))


def has_hints(pod: objects.Pod) -> bool:
    """Return True if the pod has any of the annotations, well-formed or not."""
    annotations = pod.metadata.annotations
    return annotations is not None and any(key in annotations for key in _KEYS)
