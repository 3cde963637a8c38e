"""Claims of pending classes, and which static volumes those that are not bound yet take: what the rules on volumes share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.volumes import Claim
from kubestow.models.kube.pod_spec import named_claims
from kubestow.models.kube.selectors import Bools


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


def shared_claims(cluster: Cluster) -> frozenset[str]:
    """Return the claims that several pending pods mount."""
    return frozenset(key for key, classes in users_of(cluster).items() if int(cluster.count[classes].sum()) > 1)


def reach_of(cluster: Cluster, claim: Claim, volume: str, shared: frozenset[str]) -> Bools:
    """bool[N]: the nodes where pods may use a static volume that their claim takes: the first one as the volume is written, the others as
    it is bound."""
    reach = cluster.volumes.reach(volume)
    return reach | cluster.volumes.bound_reach(volume) if claim.key in shared else reach


class VolumeChoices:
    """Which static volume (None: a provisioned one) each unbound claim of the placed pods takes: the smallest that fits, first the
    claim that asks for least, as the scheduler does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reach, self._bound_reach = cluster.volumes.reach, cluster.volumes.bound_reach
        self.delayed = [sorted((c for c in claims_of(cluster, g) if c.delayed), key=lambda c: c.size) for g in range(cluster.n_classes)]
        self.shared = shared_claims(cluster)
        self._open = {f"claim:{c.key}": c for claims in self.delayed for c in claims if c.volumes}
        self.chosen: dict[str, str | None] = {}  # claim -> volume (None: provisioned)
        self._taken: dict[str, str] = {}  # volume -> claim
        self._at: dict[str, dict[int, int]] = {}  # claim -> node -> pods placed there

    def pick(self, g: int, n: int, *, meeting: bool = True) -> dict[str, str | None] | None:
        """Return volumes for the open claims of one more pod of class g on node n; None where one of its claims gets nothing. ``meeting``:
        pods that share a ReadWriteOnce claim whose volume is being made have to be on one node."""
        picked: dict[str, str | None] = {}
        for claim in self.delayed[g]:
            if claim.key in self.chosen:
                if not self._reached(claim, n, meeting=meeting):
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

    def undecided(self, handle: str) -> Claim | None:
        """Return the claim that a handle of :mod:`kubestow.models.cluster.volumes` is about, if it may yet take a static volume."""
        claim = self._open.get(handle)
        return claim if claim is not None and claim.key not in self.chosen else None

    def attainable(self, claim: Claim) -> Bools:
        """bool[N]: the nodes that one claim may leave to pods as long as those that are placed stay, apart from its competition with others
        for volumes."""
        if claim.key in self.chosen:
            return np.array([self._reached(claim, n, meeting=True) for n in range(len(claim.binding))], dtype=bool)
        mask = np.zeros_like(claim.binding) if claim.provision is None else claim.provision.copy()
        for volume in claim.volumes:
            if volume not in self._taken:
                mask |= self.reach_of(claim, volume)
        return mask

    def reach_of(self, claim: Claim, volume: str) -> Bools:
        """bool[N]: the nodes where pods may use a static volume that their claim takes."""
        return reach_of(self._cluster, claim, volume, self.shared)

    def _reached(self, claim: Claim, n: int, *, meeting: bool) -> bool:
        """Return True if a node reaches what an earlier pod took for a claim. A volume that is yet to be made reaches the node of that pod
        for sure; if several nodes may use it, all nodes where it may be made."""
        volume = self.chosen[claim.key]
        if volume is not None:
            return bool(self._bound_reach(volume)[n])
        if meeting and claim.one_node and set(self._at[claim.key]) != {n}:
            return False
        return claim.provision is not None and bool(claim.provision[n])

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


@dataclass(frozen=True, slots=True)
class Volume:
    """The topic of what a PersistentVolume itself allows: one claim; other topics of rules about volumes are claims and drivers."""

    name: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The topic of nodes without a CSI driver that they have to have."""

    name: str


Needed = tuple[str | None, Bools | None]  # a driver, and the nodes where the volume is one of it (None: all)


class InstalledDrivers:
    """Drivers that a node has to list in its CSINode before pods with volumes of theirs come: those whose CSIDriver has
    ``preventPodSchedulingIfMissing``, where the gate VolumeLimitScaling is on."""

    def __init__(self, cluster: Cluster, choices: VolumeChoices) -> None:
        self._choices, self._attached, snapshot = choices, cluster.volumes.attached, cluster.snapshot
        self._lacking: dict[str, Bools] = {}
        if not snapshot.csi_drivers or not snapshot.gates.enabled("VolumeLimitScaling"):
            return
        found = [snapshot.csi_nodes.get(name) for name in cluster.nodes.names]
        listed = [{driver.name for driver in (csi.spec.drivers if csi and csi.spec else None) or ()} for csi in found]
        for name, driver in sorted(snapshot.csi_drivers.items()):
            if driver.spec is not None and driver.spec.preventPodSchedulingIfMissing:
                self._lacking[name] = np.array([name not in names for names in listed], dtype=bool)
        shared = choices.shared
        self._claims = [claims_of(cluster, g) for g in range(cluster.n_classes)]
        self._sure = [[(c.driver, c.counted) for c in claims if not (c.volumes and c.key in shared)] for claims in self._claims]

    def lacking(self, g: int, *, later: bool) -> dict[str, Bools]:
        """Return the drivers that pods of the class need, each with the nodes that lack it (bool[N]): now, or ``later``, whatever others
        do. A claim counts under the provisioner of its class until a pod has taken a volume for it."""
        if not self._lacking:
            return {}
        found: dict[str, Bools] = {}
        for driver, counted in self._sure[g] if later else map(self._needed, self._claims[g]):
            if driver in self._lacking:
                nodes = self._lacking[driver] if counted is None else self._lacking[driver] & counted
                found[driver] = found[driver] | nodes if driver in found else nodes
        return {name: found[name] for name in self._lacking if name in found}

    def _needed(self, claim: Claim) -> Needed:
        volume = self._choices.chosen.get(claim.key)
        driver, _, counted = claim.attached if volume is None else self._attached(volume)
        return driver, counted
