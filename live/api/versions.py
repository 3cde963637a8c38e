"""Comparison of resource versions, to find the later of two readings of an object.

Since Kubernetes 1.35 the versions of one resource can be compared as unsigned integers of any length (KEP-5504,
``k8s.io/apimachinery/pkg/util/resourceversion``). Versions of another form can only be equal or different. For
readings with such versions, the order of arrival decides.
"""

from __future__ import annotations

import re
from typing import Final

from kubestow.live.api.answers import Object

#: A positive integer without leading zeros. ``0`` has a meaning of its own in requests and is no version of an object.
_WELL_FORMED: Final = re.compile(r"[1-9][0-9]*", re.ASCII)


def is_well_formed(version: str) -> bool:
    """Return True if the version can be compared with others."""
    return _WELL_FORMED.fullmatch(version) is not None


def compare(one: str, other: str) -> int | None:
    """Return -1, 0 or 1 if a version is earlier than, equal to or later than another one; None if they cannot be compared."""
    if one == other:
        return 0
    if not is_well_formed(one) or not is_well_formed(other):
        return None
    return 1 if (len(one), one) > (len(other), other) else -1


def version_of(obj: Object) -> str:
    """Return the resourceVersion of an object, empty if it has none."""
    return str(obj["metadata"].get("resourceVersion") or "")


def later(kept: Object | None, arrived: Object | None) -> Object | None:
    """Return the later of two readings of an object: ``arrived``, unless its version is earlier than that of ``kept``."""
    if kept is None or arrived is None:
        return arrived or kept
    return kept if compare(version_of(kept), version_of(arrived)) == 1 else arrived
