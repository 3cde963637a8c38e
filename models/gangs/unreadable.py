"""Pending pods of a cluster whose gang annotations cannot be read: they lose their gang, so that one tenant's mistake stops nobody."""

from __future__ import annotations

import msgspec

from kubestow.models.gangs.declarations import MIN_MEMBER, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, Groups
from kubestow.models.gangs.markers import GANG, members
from kubestow.models.kube.objects import is_waiting
from kubestow.models.snapshot.snapshot import Snapshot

_OWN = (GANG, MIN_MEMBER, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)


def set_aside(snapshot: Snapshot) -> list[str]:
    """Take this project's annotations from the pending pods of gangs whose declarations cannot be read or contradict each other.

    Returns:
        A sentence a mistake: which pod, what is wrong, and what becomes of the gang.
    """
    pods, groups = snapshot.pods, Groups(snapshot)
    waiting = (i for i, pod in enumerate(pods) if is_waiting(pod))
    found: list[str] = []
    for named, indices in members(pods, waiting).items():
        problems = groups.declared(named, [pods[i] for i in indices]).problems
        count = len(indices)
        alone = "the pod is placed without a gang" if count == 1 else f"the gang's {count} pending pods are placed one by one"
        found += [f"{problem}; {alone}" for problem in problems]
        for i in indices if problems else ():
            metadata = pods[i].metadata
            kept = {key: value for key, value in (metadata.annotations or {}).items() if key not in _OWN}
            pods[i] = msgspec.structs.replace(pods[i], metadata=msgspec.structs.replace(metadata, annotations=kept))
    return found
