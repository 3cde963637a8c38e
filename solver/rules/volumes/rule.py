"""VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits.

Source: pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions,nodevolumelimits}. The
eligibility of nodes by claim comes from :mod:`kubestow.models.cluster.volumes`. This module covers the
interaction of pending pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.volumes import Attached
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule
from kubestow.solver.rules.batch_limits import BatchLimits
from kubestow.solver.rules.volumes.binding import bind_claims
from kubestow.solver.rules.volumes.claims import Driver, InstalledDrivers, VolumeChoices, attach_limits, claims_of, out_of_reach
from kubestow.solver.rules.volumes.encoding import Pair, encode_binding, encode_limit
from kubestow.solver.rules.volumes.remedies import BindingRemedies, ZoneRemedies
from kubestow.solver.rules.volumes.words import MORE_OF_BINDING, BindingWords, LimitWords, RestrictionWords, ZoneWords


class VolumeBinding(BindingRemedies, BindingWords):
    """Bound volumes must be reachable. Unbound WaitForFirstConsumer claims need a reachable volume, or permission to provision one.

    In a batch, each static volume serves one claim (the smallest that fits, as in the scheduler), and all
    pods of a claim reach the same volume. Pods that share a ReadWriteOnce claim meet on one node if its
    volume is still to be created.
    """

    name = "VolumeBinding"
    of_nodes_alike = True
    local = any_order = first_come = supplied = whole_units = tracks_moves = settled = survives_merging = for_good = False
    reads = ("claims",)
    reaches, batch, repairable = Rule.reaches, Rule.batch, Rule.repairable

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._never = out_of_reach(cluster, [[claim.binding for claim in claims_of(cluster, g)] for g in range(cluster.n_classes)])
        self._choices = VolumeChoices(cluster)

    @classmethod
    def bind(cls, snapshot: Snapshot, bound: Snapshot, placed: Sequence[tuple[int, str]]) -> None:
        bind_claims(snapshot, bound, placed)

    def alike(self, g: int) -> Hashable:
        return g if self.cluster.classes[g].claims else None

    def never(self, g: int) -> Bools:
        return self._never[g]

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        return [(claim.key, ~claim.binding) for claim in claims_of(self.cluster, g)]

    def rejects(self, g: int) -> Bools:
        mask = self._never[g]
        if not self._choices.delayed[g]:
            return mask
        mask = mask.copy()
        for n in np.flatnonzero(~mask):
            mask[n] = self._choices.pick(g, int(n)) is None
        return mask

    def stranded(self, g: int, n: int) -> bool:
        """Return True if a running pod's claims are out of reach. That pods of one claim meet applies only to pods placed together."""
        return bool(self._never[g][n]) or self._choices.pick(g, n, meeting=False) is None

    def concerned(self, g: int) -> bool:
        return bool(self.cluster.classes[g].claims)

    def place(self, g: int, n: int, k: int = 1) -> None:
        self._choices.place(g, n, k)

    def remove(self, g: int, n: int, k: int = 1) -> None:
        self._choices.remove(g, n, k)

    def path(self) -> object:
        return tuple(sorted((key, volume or "") for key, volume in self._choices.chosen.items()))

    def order_links(self) -> list[list[int]]:
        """Return groups of classes whose claims compete for the same static volumes."""
        takers: dict[str, set[int]] = {}
        for g, claims in enumerate(self._choices.delayed):
            for claim in claims:
                for volume in claim.volumes:
                    takers.setdefault(volume, set()).add(g)
        return [sorted(classes) for classes in takers.values()]

    def closed(self, g: int) -> Bools:
        mask = self._never[g].copy()
        for claim in self._choices.delayed[g]:
            mask |= ~self._choices.attainable(claim)
        return mask

    def encode(self, encoding: PlacementModel) -> None:
        encode_binding(encoding)


class VolumeZone(ZoneRemedies, ZoneWords):
    """The zone and region labels of a bound volume must match the node's."""

    name = "VolumeZone"
    of_nodes_alike = True
    reads = ("claims",)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        claims = [claims_of(cluster, g, named=True) for g in range(cluster.n_classes)]
        self._never = out_of_reach(cluster, [[claim.zone for claim in own] for own in claims])

    def alike(self, g: int) -> Hashable:
        return g if self.cluster.classes[g].claims else None

    def never(self, g: int) -> Bools:
        return self._never[g]

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        """Return the exclusions by claim. If VolumeBinding rejects every node, its facts suffice."""
        return [(claim.key, ~claim.zone) for claim in claims_of(self.cluster, g, named=True) if claim.binding.any()]


class VolumeRestrictions(RestrictionWords):
    """A ReadWriteOncePod claim admits one pod in the cluster; a missing claim admits none."""

    name = "VolumeRestrictions"
    any_order = True
    local = first_come = supplied = whole_units = tracks_moves = settled = survives_merging = for_good = False
    reads = ("claims",)
    reaches, batch, repairable, order_links = Rule.reaches, Rule.batch, Rule.repairable, Rule.order_links

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._missing = [any(c.missing for c in claims_of(cluster, g, named=True)) for g in range(cluster.n_classes)]
        self._single = [[c.key for c in claims_of(cluster, g, named=True) if c.one_pod] for g in range(cluster.n_classes)]
        self._used = {key: 1 if key in cluster.fixed_claims else 0 for keys in self._single for key in keys}
        self._base = dict(self._used)

    def _mask(self, blocked: bool) -> Bools:
        return np.full(self.cluster.n_nodes, blocked, dtype=bool)

    def alike(self, g: int) -> Hashable:
        return g if self.concerned(g) else None

    def never(self, g: int) -> Bools:
        return self._mask(self._missing[g] or any(self._base[key] for key in self._single[g]))

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        """Return the exclusions by claim. The facts of VolumeBinding suffice for claims that do not exist."""
        return [(c.key, self._mask(bool(self._base.get(c.key)))) for c in claims_of(self.cluster, g, named=True)]

    def rejects(self, g: int) -> Bools:
        return self._mask(self._missing[g] or any(self._used[key] for key in self._single[g]))

    def room(self, g: int) -> Ints:
        return np.where(self.rejects(g), 0, 1 if self._single[g] else UNLIMITED_PODS)

    def concerned(self, g: int) -> bool:
        return bool(self._single[g]) or self._missing[g]

    def place(self, g: int, n: int, k: int = 1) -> None:
        for key in self._single[g]:
            self._used[key] += k

    def encode(self, encoding: PlacementModel) -> None:
        users: dict[str, list[int]] = {}
        for g, keys in enumerate(self._single):
            for key in keys:
                users.setdefault(key, []).append(g)
        for key, mine in users.items():
            variables = [v for g in mine for v in encoding.variables(g, encoding.nodes_of(g))]
            if variables:
                with encoding.about(key, mine):
                    encoding.model.add(encoding.sum(variables) <= 1)

    def message(self, g: int, rejected: Bools) -> str:
        if self._missing[g]:
            return MORE_OF_BINDING
        return f"ReadWriteOncePod claim {self._single[g][0]} is in use"


class NodeVolumeLimits(LimitWords):
    """A node attaches at most the allocatable count of distinct volumes per driver in its CSINode.

    An unbound claim counts under its class's provisioner. Once a placed pod has taken a static volume for it,
    it counts under that volume's driver. The encoding ignores such static volumes, so the bind order decides
    on them. With the gate VolumeLimitScaling, a node must have a driver whose CSIDriver requires it,
    regardless of its limit.
    """

    name = "NodeVolumeLimits"
    local = True
    any_order = first_come = supplied = whole_units = tracks_moves = settled = survives_merging = for_good = False
    reads = ("claims",)
    reaches, repairable = Rule.reaches, Rule.repairable

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._missing = [any(c.missing for c in claims_of(cluster, g)) for g in range(cluster.n_classes)]
        self._choices = VolumeChoices(cluster)
        self._counted: dict[Pair, Bools | None] = {}  # nodes where in-tree volumes count; None for all nodes
        self._static = {v: self._pair(cluster.volumes.attached(v)) for claims in self._choices.delayed for c in claims for v in c.volumes}
        wanted = [sorted({pair for c in claims_of(cluster, g) if (pair := self._pair(c.attached))}) for g in range(cluster.n_classes)]
        drivers = {driver for pairs in wanted for driver, _ in pairs} | {pair[0] for pair in self._static.values() if pair}
        self._installed = InstalledDrivers(cluster, self._choices)
        self._limits = attach_limits(cluster, drivers)
        self._wants = [[pair for pair in pairs if pair[0] in self._limits] for pairs in wanted]
        self._attached: dict[Pair, dict[int, int]] = {}
        self._used = {driver: np.zeros(cluster.n_nodes, dtype=np.int64) for driver in self._limits}
        fixed = [(self._pair(cluster.volumes.claim(key).attached), nodes) for key, nodes in cluster.fixed_claims.items()]
        for pair, n in ((pair, n) for pair, nodes in fixed if pair is not None and pair[0] in self._limits for n in nodes):
            self._attach(pair, n, 1)
        nowhere = np.zeros(cluster.n_nodes, dtype=bool)  # shared by the many classes without claims
        self._base = [self.closed(g) if cls.claims else nowhere for g, cls in enumerate(cluster.classes)]
        self._base_attached = {pair: set(at) for pair, at in self._attached.items()}
        self._base_used = {driver: used.copy() for driver, used in self._used.items()}

    def _pair(self, attached: Attached) -> Pair | None:
        """Return the identity of a volume, and record where it counts; None if no node counts it."""
        driver, handle, counted = attached
        if not driver or not handle:
            return None
        known = self._counted.get((driver, handle), counted)
        self._counted[driver, handle] = None if known is None or counted is None else known | counted
        return driver, handle

    def _counts(self, pair: Pair, n: int) -> bool:
        return (counted := self._counted[pair]) is None or bool(counted[n])

    def _pairs(self, g: int) -> list[Pair]:
        """Return the volumes that a pod of the class would currently count. A claim that took a static volume counts as that volume."""
        static = {f"claim:{c.key}": self._static[v] for c in self._choices.delayed[g] if (v := self._choices.chosen.get(c.key)) is not None}
        if not static:
            return self._wants[g]
        pairs = [p for p in self._wants[g] if p[1] not in static]
        return pairs + [p for p in dict.fromkeys(static.values()) if p is not None and p[0] in self._limits and p not in pairs]

    def _sure(self, g: int) -> list[Pair]:
        """Return the volumes that a pod of the class counts in any case. Pods placed earlier may take static
        volumes for shared claims."""
        claims = [(pair, self._choices.undecided(pair[1])) for pair in self._pairs(g)]
        return [pair for pair, claim in claims if claim is None or claim.key not in self._choices.shared]

    def _attach(self, pair: Pair, n: int, k: int) -> None:
        if not self._counts(pair, n):
            return
        at = self._attached.setdefault(pair, {})
        before = at.get(n, 0)
        at[n] = before + k
        if not before:
            self._used[pair[0]][n] += 1
        elif not at[n]:
            del at[n]
            self._used[pair[0]][n] -= 1

    def rejects(self, g: int) -> Bools:
        return self._rejected(g, later=False)

    def closed(self, g: int) -> Bools:
        return self._rejected(g, later=True)

    def _rejected(self, g: int, *, later: bool) -> Bools:
        """Return bool[N], the nodes that reject pods of the class.

        Args:
            later: True for a verdict that holds for all static volumes that claims may take for pods placed
                earlier.
        """
        mask = np.full(self.cluster.n_nodes, self._missing[g], dtype=bool)
        for lacking in self._installed.lacking(g, later=later).values():
            mask |= lacking
        pairs = self._sure(g) if later else self._pairs(g)
        for driver in {d for d, _ in pairs}:
            mask |= self._full(driver, pairs, later=later)
        return mask

    def room(self, g: int) -> Ints:
        return np.where(self.closed(g), 0, UNLIMITED_PODS)

    def batch(self, g: int) -> BatchLimits:
        return BatchLimits(one=self.concerned(g))

    def _full(self, driver: str, pairs: Sequence[Pair], *, later: bool) -> Bools:
        """Return bool[N], the nodes where volumes that are new to them would exceed a driver's limit.

        Args:
            pairs: The volumes, of any driver.
            later: True to leave out attached volumes that their claim need not take.
        """
        new = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        for pair in pairs:
            if pair[0] == driver:
                new += 1 if (counted := self._counted[pair]) is None else counted
                new[list(self._attached.get(pair, ()))] -= 1
        used = self._used[driver].copy()
        for pair, nodes in self._attached.items() if later else ():
            if pair[0] == driver and self._choices.undecided(pair[1]) is not None:
                used[list(nodes)] -= 1
        return np.asarray((new > 0) & (used + new > self._limits[driver]))

    def alike(self, g: int) -> Hashable:
        return g if self.cluster.classes[g].claims else None

    def never(self, g: int) -> Bools:
        return self._base[g]

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        """Return the exclusions by driver. The facts of VolumeBinding suffice for claims that do not exist."""
        lacking: list[tuple[Hashable, Bools]] = [(Driver(d), n) for d, n in self._installed.lacking(g, later=True).items()]
        full = [(driver, self._full(driver, self._sure(g), later=True)) for driver in sorted({d for d, _ in self._wants[g]})]
        return [*lacking, *full]

    def concerned(self, g: int) -> bool:
        return bool(self.cluster.classes[g].claims)

    def place(self, g: int, n: int, k: int = 1) -> None:
        before = dict(self._choices.chosen)
        self._choices.place(g, n, k)
        self._attach_for_fixed({key: v for key, v in self._choices.chosen.items() if key not in before}, 1)
        for pair in self._pairs(g):
            self._attach(pair, n, k)

    def remove(self, g: int, n: int, k: int = 1) -> None:
        for pair in self._pairs(g):
            self._attach(pair, n, -k)
        before = dict(self._choices.chosen)
        self._choices.remove(g, n, k)
        self._attach_for_fixed({key: v for key, v in before.items() if key not in self._choices.chosen}, -1)

    def _attach_for_fixed(self, chosen: dict[str, str | None], k: int) -> None:
        """Count a claim that takes a static volume as that volume, for the fixed pods that mount it, too."""
        for key, volume in chosen.items():
            pair = None if volume is None else self._static[volume]
            if pair is not None and pair[0] in self._limits:
                for n in self.cluster.fixed_claims.get(key, ()):
                    self._attach(pair, n, k)

    def order_links(self) -> list[list[int]]:
        """Return groups of classes that may count static volumes of a limited driver, with all classes that count under it."""
        links: dict[str, set[int]] = {}
        for g, claims in enumerate(self._choices.delayed):
            for pair in (self._static[v] for c in claims for v in c.volumes):
                if pair is not None and pair[0] in self._limits:
                    links.setdefault(pair[0], set()).add(g)
        return [
            sorted(gs | {g for g, pairs in enumerate(self._wants) if any(d == driver for d, _ in pairs)}) for driver, gs in links.items()
        ]

    def encode(self, encoding: PlacementModel) -> None:
        users: dict[Pair, list[int]] = {}
        for g, pairs in enumerate(self._wants):
            for pair in pairs:
                users.setdefault(pair, []).append(g)
        sure = {*users, *self._base_attached}
        for driver, limits in self._limits.items():
            mine = {pair: gs for pair, gs in users.items() if pair[0] == driver}
            undecided = [pair for pair in self._base_attached if pair[0] == driver and self._choices.undecided(pair[1]) is not None]
            for n in range(self.cluster.n_nodes):
                there = {pair: gs for pair, gs in mine.items() if n not in self._base_attached.get(pair, ()) and self._counts(pair, n)}
                open_ = [*there, *(pair for pair in undecided if n in self._base_attached[pair])]
                room = max(0, int(limits[n] - self._base_used[driver][n])) + self._exchanged(driver, n, open_, sure)
                encode_limit(encoding, driver, n, there, room)

    def _exchanged(self, driver: str, n: int, pairs: Sequence[Pair], sure: Container[Pair]) -> int:
        """Return the number of a driver's volumes on a node that may cease to count.

        These are claims that count under their provisioner until they take a static volume of another driver.
        The bind order decides on them.

        Args:
            sure: Other volumes that may count.
        """
        claims = {claim.key: claim for _, handle in pairs if (claim := self._choices.undecided(handle)) is not None}
        volumes = {v for claim in claims.values() for v in claim.volumes if self._choices.reach_of(claim, v)[n]}
        counts = Counter(self._static[v] for v in volumes)
        adding = sum(
            times == 1 and pair is not None and pair not in sure and pair[0] == driver and self._counts(pair, n)
            for pair, times in counts.items()
        )
        return min(len(claims), len(volumes) - adding)

    def message(self, g: int, rejected: Bools) -> str:
        if self._missing[g]:
            return MORE_OF_BINDING
        without = {driver: nodes & rejected for driver, nodes in self._installed.lacking(g, later=False).items()}
        said = [f"CSI driver {driver} missing on {int(mask.sum())}" for driver, mask in without.items() if mask.any()]
        if not said or not np.logical_or.reduce(list(without.values()))[rejected].all():
            said.append(f"volume limit of {', '.join(sorted({d for d, _ in self._wants[g]}))}")
        return ", ".join(said)
