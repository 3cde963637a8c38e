"""The keys of the container-affinity annotations, and misspelt ones.

Source: https://github.com/containers/nri-plugins/blob/main/docs/resource-policy/container-affinity.md.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import Final

#: The two prefixes of the annotations, the current one first.
PREFIXES: Final = ("resource-policy.nri.io/", "cri-resource-manager.intel.com/")
AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"
KEYS: Final = tuple(prefix + kind for prefix in PREFIXES for kind in (AFFINITY, ANTI_AFFINITY))
#: Similarity of two texts, in percent, from which one counts as a misspelling of the other.
_NEAR_KIND_PERCENT: Final = 70
_NEAR_DOMAIN_PERCENT: Final = 75
_MAX_REMEMBERED_KEYS: Final = 4096


@lru_cache(_MAX_REMEMBERED_KEYS)
def meant(key: str) -> str | None:
    """Return the key that a misspelt key of container affinity was meant to be; None for a right key and for other annotations."""
    domain, slash, kind = key.partition("/")
    if not slash or key in KEYS or "." in kind:
        return None
    kinds = difflib.get_close_matches(kind, (AFFINITY, ANTI_AFFINITY), n=1, cutoff=_NEAR_KIND_PERCENT / 100)
    if not kinds:
        return None
    for prefix in PREFIXES:
        if domain + slash == prefix:
            return prefix + kinds[0]
    near = difflib.get_close_matches(domain + slash, PREFIXES, n=2, cutoff=_NEAR_DOMAIN_PERCENT / 100)
    if not near:
        return None
    return (PREFIXES[1] if "intel" in domain else PREFIXES[0]) + kinds[0]
