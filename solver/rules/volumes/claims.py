"""Claims of pending classes, and the static volumes that unbound claims take, shared by the volume rules."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.volumes import VolumeClaim
from kubestow.models.kube.pod_spec import named_claims
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import UNLIMITED_PODS


def claims_of(cluster: Cluster, g: int, *, named: bool = False) -> list[VolumeClaim]:
    """Return the claims of a class.

    Args:
        named: True to leave out claims of ephemeral volumes, which VolumeZone and VolumeRestrictions ignore.
    """
    cls = cluster.classes[g]
    return [cluster.volumes.claim(key) for key in (named_claims(cls.pod) if named else cls.claims)]


def users_of(cluster: Cluster) -> dict[str, list[int]]:
    """Return by claim the pending classes that mount it."""
    users: dict[str, list[int]] = {}
    for g, cls in enumerate(cluster.classes):
        for key in cls.claims:
            users.setdefault(key, []).append(g)
    return users


def shared_claims(cluster: Cluster) -> frozenset[str]:
    """Return the claims that several pending pods mount."""
    return frozenset(key for key, classes in users_of(cluster).items() if int(cluster.count[classes].sum()) > 1)


def out_of_reach(cluster: Cluster, within: Sequence[Sequence[Bools]]) -> list[Bools]:
    """Return for each class bool[N], the nodes outside at least one of its sets of nodes."""
    nowhere = np.zeros(cluster.n_nodes, dtype=bool)  # shared by the many classes without claims
    return [~np.logical_and.reduce(sets) if sets else nowhere for sets in within]


def reach_of(cluster: Cluster, claim: VolumeClaim, volume: str, shared: frozenset[str]) -> Bools:
    """Return bool[N], the nodes where pods may use a static volume that their claim takes.

    The first pod is bound by the volume as written, later ones by the volume as bound.
    """
    reach = cluster.volumes.reach(volume)
    return reach | cluster.volumes.bound_reach(volume) if claim.key in shared else reach


class VolumeChoices:
    """The static volume that each unbound claim of the placed pods takes; None for a provisioned one.

    As in the scheduler, a claim takes the smallest volume that fits, and the claim with the smallest request
    chooses first.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reach, self._bound_reach = cluster.volumes.reach, cluster.volumes.bound_reach
        self.delayed = [sorted((c for c in claims_of(cluster, g) if c.delayed), key=lambda c: c.size) for g in range(cluster.n_classes)]
        self.shared = shared_claims(cluster)
        self._open = {f"claim:{c.key}": c for claims in self.delayed for c in claims if c.volumes}
        self.chosen: dict[str, str | None] = {}  # claim -> volume (None if provisioned)
        self._taken: dict[str, str] = {}  # volume -> claim
        self._at: dict[str, dict[int, int]] = {}  # claim -> node -> pods placed there

    def pick(self, g: int, n: int, *, meeting: bool = True) -> dict[str, str | None] | None:
        """Return the volumes that one more pod of class g on node n would take. The state is unchanged.

        Args:
            meeting: True if pods that share a ReadWriteOnce claim with a volume under creation must be on one node.

        Returns:
            The volume of each claim without one yet; None for a volume to be created. None instead if a claim gets no volume
            there, or its volume does not reach the node.
        """
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

    def undecided(self, handle: str) -> VolumeClaim | None:
        """Return the claim of a handle (:mod:`kubestow.models.cluster.volumes`), if it can still take a static volume."""
        claim = self._open.get(handle)
        return claim if claim is not None and claim.key not in self.chosen else None

    def attainable(self, claim: VolumeClaim) -> Bools:
        """Return bool[N], the nodes where some volume of a claim is reachable while the placed pods stay.

        Competition for volumes is ignored.
        """
        if claim.key in self.chosen:
            return np.array([self._reached(claim, n, meeting=True) for n in range(len(claim.binding))], dtype=bool)
        mask = np.zeros_like(claim.binding) if claim.provision is None else claim.provision.copy()
        for volume in claim.volumes:
            if volume not in self._taken:
                mask |= self.reach_of(claim, volume)
        return mask

    def reach_of(self, claim: VolumeClaim, volume: str) -> Bools:
        """Return bool[N], the nodes where pods may use a static volume that their claim takes."""
        return reach_of(self._cluster, claim, volume, self.shared)

    def _reached(self, claim: VolumeClaim, n: int, *, meeting: bool) -> bool:
        """Return True if node n reaches the volume that an earlier pod took for a claim.

        A volume to be created reaches the nodes where it may be created.

        Args:
            meeting: True if such a volume of a ReadWriteOnce claim reaches only the node of the earlier pods.
        """
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
class VolumeTopic:
    """The topic of a PersistentVolume's own restriction to one claim. Other topics of volume rules are claims and drivers."""

    name: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The topic of nodes that lack a required CSI driver."""

    name: str


Needed = tuple[str | None, Bools | None]  # a driver, and the nodes where the volume belongs to it (None for all)


class InstalledDrivers:
    """Drivers that a node must list in its CSINode before pods with their volumes can be placed.

    These are the drivers whose CSIDriver has ``preventPodSchedulingIfMissing``, with the gate
    VolumeLimitScaling.
    """

    def __init__(self, cluster: Cluster, choices: VolumeChoices) -> None:
        self._choices, self._attached, snapshot = choices, cluster.volumes.attached, cluster.snapshot
        self._lacking: dict[str, Bools] = {}
        if not snapshot.csi_drivers or not snapshot.gates.enabled("VolumeLimitScaling"):
            return
        csi_nodes = [snapshot.csi_nodes.get(name) for name in cluster.nodes.names]
        listed = [{driver.name for driver in (csi.spec.drivers if csi and csi.spec else None) or ()} for csi in csi_nodes]
        for name, driver in sorted(snapshot.csi_drivers.items()):
            if driver.spec is not None and driver.spec.preventPodSchedulingIfMissing:
                self._lacking[name] = np.array([name not in names for names in listed], dtype=bool)
        shared = choices.shared
        self._claims = [claims_of(cluster, g) for g in range(cluster.n_classes)]
        self._sure = [[(c.driver, c.counted) for c in claims if not (c.volumes and c.key in shared)] for claims in self._claims]

    def lacking(self, g: int, *, later: bool) -> dict[str, Bools]:
        """Return the drivers that pods of the class need, each with the nodes that lack it (bool[N]).

        A claim counts under its class's provisioner until a pod has taken a volume for it.

        Args:
            later: True for a verdict that holds for all later states, not only for the current one.
        """
        if not self._lacking:
            return {}
        lacking: dict[str, Bools] = {}
        for driver, counted in self._sure[g] if later else map(self._needed, self._claims[g]):
            if driver in self._lacking:
                nodes = self._lacking[driver] if counted is None else self._lacking[driver] & counted
                lacking[driver] = lacking[driver] | nodes if driver in lacking else nodes
        return {name: lacking[name] for name in self._lacking if name in lacking}

    def _needed(self, claim: VolumeClaim) -> Needed:
        volume = self._choices.chosen.get(claim.key)
        driver, _, counted = claim.attached if volume is None else self._attached(volume)
        return driver, counted


def attach_limits(cluster: Cluster, drivers: Container[str]) -> dict[str, Ints]:
    """Return the limits by driver, int64[N]. Nodes without a limit have UNLIMITED_PODS. Drivers without any limit are left out."""
    limits: dict[str, Ints] = {}
    for n, name in enumerate(cluster.nodes.names):
        csi = cluster.snapshot.csi_nodes.get(name)
        for driver in (csi.spec.drivers if csi and csi.spec else None) or ():
            if driver.name in drivers and driver.allocatable is not None and driver.allocatable.count is not None:
                table = limits.setdefault(driver.name, np.full(cluster.n_nodes, UNLIMITED_PODS, dtype=np.int64))
                table[n] = driver.allocatable.count
    return limits
