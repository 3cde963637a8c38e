"""Claims of pending classes, and which static volumes those that are not bound yet take: what the rules on volumes share."""

from __future__ import annotations

from models.cluster.cluster import Cluster
from models.cluster.volumes import Claim
from models.kube.pod_spec import named_claims


def claims_of(cluster: Cluster, g: int, *, named: bool = False) -> list[Claim]:
    """Return the claims of a class; ``named`` leaves ephemeral volumes' out, at which VolumeZone and VolumeRestrictions do not look."""
    cls = cluster.classes[g]
    return [cluster.volumes.claim(key) for key in (named_claims(cls.pod) if named else cls.claims)]


def users_of(cluster: Cluster) -> dict[str, list[int]]:
    """Return the pending classes that mount each claim."""
    users: dict[str, list[int]] = {}
    for g, cls in enumerate(cluster.classes):
        for key in cls.claims:
            users.setdefault(key, []).append(g)
    return users


class VolumeChoices:
    """Which static volume (None: a provisioned one) each unbound claim of the placed pods takes: the smallest that fits, first the
    claim that asks for least, as the scheduler does."""

    def __init__(self, cluster: Cluster) -> None:
        self._reach = cluster.volumes.reach
        self.delayed = [sorted((c for c in claims_of(cluster, g) if c.delayed), key=lambda c: c.size) for g in range(cluster.n_classes)]
        self.chosen: dict[str, str | None] = {}  # claim -> volume (None: provisioned)
        self._taken: dict[str, str] = {}  # volume -> claim
        self._at: dict[str, dict[int, int]] = {}  # claim -> node -> pods placed there

    def pick(self, g: int, n: int, *, meeting: bool = True) -> dict[str, str | None] | None:
        """Return volumes for the open claims of one more pod of class g on node n; None where one of its claims gets nothing. ``meeting``:
        pods that share a ReadWriteOnce claim have to be on one node."""
        picked: dict[str, str | None] = {}
        for claim in self.delayed[g]:
            at = self._at.get(claim.key)
            if meeting and claim.one_node and at and set(at) != {n}:
                return None
            if claim.key in self.chosen:
                volume = self.chosen[claim.key]
                if volume is not None and not self._reach(volume)[n]:
                    return None
                continue
            free = [v for v in claim.volumes if v not in self._taken and v not in picked.values() and self._reach(v)[n]]
            if free:
                picked[claim.key] = free[0]
            elif claim.provision is not None and claim.provision[n]:
                picked[claim.key] = None
            else:
                return None
        return picked

    def place(self, g: int, n: int, k: int) -> None:
        picked = self.pick(g, n) or {}
        for claim in self.delayed[g]:
            at = self._at.setdefault(claim.key, {})
            at[n] = at.get(n, 0) + k
            if claim.key in picked:
                volume = self.chosen[claim.key] = picked[claim.key]
                if volume is not None:
                    self._taken[volume] = claim.key

    def remove(self, g: int, n: int, k: int) -> None:
        for claim in self.delayed[g]:
            at = self._at[claim.key]
            at[n] -= k
            if not at[n]:
                del at[n]
            if not at:
                volume = self.chosen.pop(claim.key, None)
                if volume is not None:
                    del self._taken[volume]
