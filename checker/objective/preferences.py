"""The preferences that a placement meets, in points, computed by the checker from the raw objects.

Points are counted for each placed pod, for each ordered pair of pods, and for each distinct spread constraint. Only
points that the placement decides count: node terms of pods that stay, and pairs of such pods, are left out. Pods
that no selector can distinguish are counted together, so that the work grows with the number of pods, not of pairs.

Source: docs/preferences.md; see :mod:`kubestow.checker.objective.families` for the families.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kubestow.checker.objective import families
from kubestow.checker.objective.families.base import Family, NodeFamily, Scene
from kubestow.checker.objective.kinds import Kinds
from kubestow.checker.reading import gang_roster
from kubestow.checker.replicas import Crowd, Whereabouts
from kubestow.models.documents.policy import Policy
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class SoftScore:
    """Points of a placement, without the policy's multipliers.

    Attributes:
        families: Points by family, without container affinity.
        members: The families.
        kinds: The pods that spread constraints count.
        where: The pods with their nodes.
    """

    families: dict[str, int]
    members: Sequence[Family] = field(compare=False, repr=False)
    kinds: Kinds = field(compare=False, repr=False)
    where: Whereabouts = field(compare=False, repr=False)

    @property
    def pods(self) -> dict[str, int]:
        """The points of each placed pod for its node, by ``namespace/name``. Computed on access."""
        found, members = {}, [family for family in self.members if isinstance(family, NodeFamily)]
        for key, node in self.where.placed.items():
            pod = self.where.crowd.get(key)
            if pod is not None and node in members[0].scene.nodes and not objects.is_terminal(pod):
                found[key] = sum(family.worth(pod, node) for family in members)
        return found

    def evenness(self) -> int | None:
        """Return the value of the tier `topologySpread`, or None if no ScheduleAnyway constraint counts."""
        values = (family.unevenness(self.kinds) for family in self.members)
        return next((value for value in values if value is not None), None)


def score(
    snapshot: Snapshot,
    placed: Mapping[str, str],
    absent: Collection[str],
    policy: Policy,
    *,
    pending: Collection[str],
    gangs: Sequence[Gang] | None = None,
) -> SoftScore:
    """Return the points of a placement.

    Unknown keys and nodes, and pods that have ended, are ignored.

    Args:
        snapshot: The snapshot.
        placed: Node of each placed pod, by pod key.
        absent: Keys of bound pods that are placed again. All other bound pods stay.
        policy: The policy.
        pending: Keys of all pods to be placed, placed or not; their spread constraints count.
        gangs: Gangs of such pods; None to read them from the snapshot.

    Raises:
        InputError: a gang's declaration cannot be read.
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    wanted, nodes = frozenset(pending), {node.metadata.name or "" for node in snapshot.nodes}
    gangs = gang_roster.read_roster(snapshot, wanted, policy).gangs if gangs is None else gangs
    return score_of(snapshot, Whereabouts(Crowd(snapshot), placed, absent, nodes), policy, wanted, gangs)


def score_of(snapshot: Snapshot, where: Whereabouts, policy: Policy, pending: Collection[str], gangs: Sequence[Gang]) -> SoftScore:
    """Return the points of a placement, as :func:`score`, for pods that are sorted already."""
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    waiting = {number for key, number in zip(where.crowd.key_of, where.crowd.set_of, strict=True) if key in pending}
    kinds = Kinds()
    scene = Scene(snapshot, policy, nodes, where.placed, gangs, where.crowd.shared_requests)
    members = families.build(scene, "each", "sum")  # the points of others come with zones
    for number, (pod, on) in enumerate(where.on):
        if objects.is_terminal(pod):
            continue
        kind = kinds.of(pod)
        for family in members if number in waiting else ():
            family.expect(pod, kind)
        for names, placed in zip(on, (True, False), strict=True):
            if names:
                kind.add(names, placed=placed, terminating=objects.is_terminating(pod))
                for family in members:
                    family.add(pod, kind, names, placed=placed)
    return SoftScore({family.name: family.points(kinds) for family in members}, members, kinds, where)
