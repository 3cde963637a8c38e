"""Gangs: pods that are placed whole or not at all, as declared by the objects of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kubestow.models.gangs.declarations import MIN_MEMBER as MIN_MEMBER
from kubestow.models.gangs.declarations import PREFERRED_TOPOLOGY as PREFERRED_TOPOLOGY
from kubestow.models.gangs.declarations import REQUIRED_TOPOLOGY as REQUIRED_TOPOLOGY
from kubestow.models.gangs.declarations import Groups
from kubestow.models.gangs.markers import GANG as GANG
from kubestow.models.gangs.markers import members, names
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot

#: Points per ordered pair of members in one domain of a preferred topology: the maximum of preferred pod
#: affinity.
PREFERRED_TOPOLOGY_POINTS: Final = 100


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed whole or not at all.

    ``minimum`` is the number that the gang has to reach in this snapshot. Members on nodes that the snapshot
    lacks are subtracted from the declared minimum. So are succeeded members if Kueue's total count includes
    them. Members that wait for their scheduling gates belong to the gang and cannot be placed. If all members
    are needed, these count too. So ``needed`` may exceed the number of ``pods``, and then none can be placed.
    Terminating members do not count.

    Attributes:
        name: ``namespace/name``, unique.
        pods: Members to be placed, ascending indices into ``snapshot.pods``.
        bound: Members on nodes of the snapshot, ascending indices into ``snapshot.pods``.
        minimum: Members, running ones included, without which none of ``pods`` is placed; None: all of
            ``pods``.
        key: Node label that all members share, running ones included.
        required: False if ``key`` is only preferred, per pair of members.
        source: The declaration, for messages.
    """

    name: str
    pods: tuple[int, ...]
    bound: tuple[int, ...]
    minimum: int | None
    key: str | None = None
    required: bool = False
    source: str = GANG

    @property
    def needed(self) -> int:
        """Number of ``pods`` that have to be placed if any is."""
        return len(self.pods) if self.minimum is None else max(0, self.minimum - len(self.bound))


class GangScope(Protocol):
    """The pods of a snapshot by state, as indices into ``snapshot.pods``.

    These are pods to be placed, running pods, gated pods, and pods on nodes that the snapshot lacks.
    :class:`kubestow.models.snapshot.scope.Scope` and the checker's own reading implement it.
    """

    @property
    def pending(self) -> Sequence[int]: ...
    @property
    def fixed(self) -> Sequence[int]: ...
    @property
    def gated(self) -> Sequence[int]: ...
    @property
    def invisible(self) -> Sequence[int]: ...


def common(snapshot: Snapshot, scope: GangScope, *, tiers: Sequence[str] = ()) -> Gang | None:
    """Return the gang of all pods to be placed; None without a common one. Arguments and errors are those of :func:`find`."""
    found = find(snapshot, scope, tiers=tiers)
    return found[0] if len(found) == 1 and set(found[0].pods) == set(scope.pending) else None


def find(snapshot: Snapshot, scope: GangScope, *, tiers: Sequence[str] = ()) -> list[Gang]:
    """Return the gangs with members to be placed, sorted by name.

    The pods to be placed determine the declaration; running pods only belong to the gang. Groups without
    requirements beyond placing pods one by one are no gangs: the basic policy, or a minimum of one without
    topology. A group whose object the snapshot lacks needs all its pods.

    Args:
        tiers: The policy's ``networkTiers``.

    Raises:
        InputError: An annotation of this project is unreadable, or members contradict each other.
    """
    pods = snapshot.pods
    pending = members(pods, scope.pending)
    if not pending:
        return []
    groups = Groups(snapshot, tiers)
    declared = {named: groups.declared(named, [pods[i] for i in indices]) for named, indices in pending.items()}
    problems = [problem for each in declared.values() for problem in each.problems]
    if problems:
        raise InputError(problems)
    bound = members(pods, (i for i in scope.fixed if not objects.is_terminating(pods[i])))
    gated = members(pods, scope.gated)
    away = members(pods, (i for i in scope.invisible if not objects.is_terminating(pods[i])))
    finished = {}
    if any(each.counts_finished for each in declared.values()):
        finished = members(pods, (i for i, pod in enumerate(pods) if pod.status is not None and pod.status.phase == "Succeeded"))
    called = names(named for named, each in declared.items() if each.together)
    gangs = []
    for named, name in called.items():
        each = declared[named]
        minimum = each.minimum
        if minimum is not None:
            gone = len(away.get(named, ())) + (len(finished.get(named, ())) if each.counts_finished else 0)
            minimum = max(0, minimum - gone)
        elif named in gated:
            minimum = len(pending[named]) + len(bound.get(named, ())) + len(gated[named])
        key, required = each.topology or (None, False)
        gangs.append(Gang(name, tuple(pending[named]), tuple(bound.get(named, ())), minimum, key, required, named.source))
    return sorted(gangs, key=lambda gang: gang.name)
