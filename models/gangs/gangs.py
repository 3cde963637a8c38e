"""Gangs: pods that are placed whole or not at all, as the objects of a snapshot declare them."""

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

#: Points of each ordered pair of members in one domain of a preferred topology: the most that preferred pod affinity can give.
TOGETHER: Final = 100


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed whole or not at all.

    ``name`` (``namespace/name``) is unique. ``pods``: members to be placed, ``bound``: members that run on a node of the snapshot, both
    indices into ``snapshot.pods``, ascending. ``minimum``: members, running ones included, without which none of ``pods`` is placed
    (None: all of ``pods``). ``key``: a node label of which all members, running ones included, share one value; only preferred, as by
    pairs of members, unless ``required``. ``source``: what declares it, for messages.

    ``minimum`` is what the rest of the gang has to reach in this snapshot. Members that run on nodes that the snapshot lacks are taken off
    what is declared, as are those that succeeded off Kueue's total count, which counts them. Members that wait for their scheduling gates
    belong to the gang and cannot be placed: where all members are needed, they count too. So ``needed`` may be more than there are
    ``pods``, and then none of them can be placed. Terminating members count nowhere.
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
        """Return how many of ``pods`` have to be placed if any is."""
        return len(self.pods) if self.minimum is None else max(0, self.minimum - len(self.bound))


class Scope(Protocol):
    """Indices into ``snapshot.pods``: those to be placed, those that run, those that wait for their scheduling gates, and those on nodes
    that the snapshot lacks (:class:`kubestow.models.snapshot.scope.Scope` and the checker's own reading have them)."""

    @property
    def pending(self) -> Sequence[int]: ...
    @property
    def fixed(self) -> Sequence[int]: ...
    @property
    def gated(self) -> Sequence[int]: ...
    @property
    def invisible(self) -> Sequence[int]: ...


def find(snapshot: Snapshot, scope: Scope, *, tiers: Sequence[str] = ()) -> list[Gang]:
    """Return the gangs that have members to be placed, by name. ``tiers``: the policy's ``networkTiers``.

    The pods to be placed say what is declared; those that run only belong. Groups that ask for nothing that placing pods one by one would
    not give (the basic policy, a minimum of one, no topology) are no gangs. A group whose object the snapshot lacks needs all its pods.

    Raises:
        InputError: an annotation of this project that cannot be read, or members that contradict each other.
    """
    pods = snapshot.pods
    pending = members(pods, scope.pending)
    if not pending:
        return []
    groups = Groups(snapshot, tiers)
    declared = {named: groups.declared(named, [pods[i] for i in found]) for named, found in pending.items()}
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
