"""Pending pods with unreadable gang annotations. They lose their gang, so one tenant's mistake blocks nobody."""

from __future__ import annotations

import msgspec

from kubestow.models.gangs.declarations import MIN_MEMBER, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, Groups
from kubestow.models.gangs.markers import GANG, members
from kubestow.models.kube.objects import is_waiting
from kubestow.models.snapshot.snapshot import Snapshot

_OWN = (GANG, MIN_MEMBER, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)


def set_aside(snapshot: Snapshot) -> list[str]:
    """Remove this project's annotations from pending pods of gangs with unreadable or contradictory declarations.

    Returns:
        One sentence per mistake: the pod, the problem, and the effect on the gang.
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
