"""GangScheduling: the members of a gang are placed whole or not at all, in one domain if the gang requires it.

Source: pkg/scheduler/framework/plugins/gangscheduling (Kubernetes 1.35) for the name; models/gangs/gangs.py
defines the meaning. A single pod does not determine whether a gang is whole. So the incremental face checks
only the domain, and engines place gangs as a whole.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubestow.models.cluster.cluster import Cluster, GangGroup, Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.batch_limits import UNLIMITED, BatchLimits
from kubestow.solver.rules.gang_scheduling.remedies import GangRemedies
from kubestow.solver.rules.gang_scheduling.words import GangWords


class GangScheduling(GangWords, GangRemedies):
    """A gang is placed whole or not at all, and in one domain."""

    name = "GangScheduling"
    any_order = tracks_moves = survives_merging = True
    local = first_come = supplied = whole_units = settled = for_good = False
    reads = ("gang",)
    repairable = Rule.repairable

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.placed = [0] * len(cluster.gangs)
        self._codes: list[Ids | None] = []
        self._inside: list[Ints | None] = []  # placed members per domain, for gangs with a required topology
        for gang in cluster.gangs:
            codes, size = cluster.domains(gang.key) if gang.key is not None else (None, 0)
            self._codes.append(codes)
            self._inside.append(None if codes is None else np.zeros(size, dtype=np.int64))

    def _gang(self, g: int) -> tuple[int, GangGroup] | None:
        k = self.cluster.classes[g].gang
        return None if k is None else (k, self.cluster.gangs[k])

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].gang

    def never(self, g: int) -> Bools:
        gang = self._gang(g)
        codes = None if gang is None else self._codes[gang[0]]
        if gang is None or codes is None:
            return np.zeros(self.cluster.n_nodes, dtype=bool)
        home = gang[1].home
        return codes < 0 if not home else ~np.isin(codes, [d for d in home if d >= 0])

    def rejects(self, g: int) -> Bools:
        mask = self.never(g)
        gang = self._gang(g)
        if gang is not None:
            codes, inside = self._codes[gang[0]], self._inside[gang[0]]
            if codes is not None and inside is not None and inside.any():
                mask |= np.append(inside == 0, True)[codes]
        return mask

    def concerned(self, g: int) -> bool:
        return self.cluster.classes[g].gang is not None

    def place(self, g: int, n: int, k: int = 1) -> None:
        index = self.cluster.classes[g].gang
        if index is not None:
            self.placed[index] += k
            codes, inside = self._codes[index], self._inside[index]
            if codes is not None and inside is not None and codes[n] >= 0:
                inside[codes[n]] += k

    def reaches(self, g: int) -> bool:
        return False  # construction places a gang as a whole, in one domain after another

    def batch(self, g: int) -> BatchLimits:
        return UNLIMITED

    def incomplete(self, g: int, counts: Ints) -> str | None:
        """Return the reason if the gang of the class is not whole."""
        k = self.cluster.classes[g].gang
        if k is None or self.cluster.gangs[k].needed <= 1 or counts[list(self.cluster.gangs[k].classes)].any():
            return None
        gang, pods = self.cluster.gangs[k], len(self.cluster.declared[k].pods)
        if gang.needed > pods:
            return f"gang {gang.name} needs {gang.needed} more pods, but only {pods} are pending"
        if gang.needed < pods:
            return f"gang {gang.name} is placed with at least {gang.needed} of its {pods} pods or not at all"
        return f"gang {gang.name} is placed whole or not at all: {gang.needed} pods"

    def order_links(self) -> list[list[int]]:
        """Return the classes of each gang that stays in one domain."""
        return [sorted(gang.classes) for gang in self.cluster.gangs if gang.key is not None]

    def encode(self, encoding: PlacementModel) -> None:
        """Add Σ placed ≥ needed or nothing; with a required topology, every member is in one chosen domain.

        Members that keep their nodes count, and tie the others to their domain.
        """
        for k, gang in enumerate(self.cluster.gangs):
            classes = [g for g in gang.classes if g in encoding.unplaced]
            if not classes:
                continue
            model = encoding.model
            unplaced = [encoding.unplaced[g] for g in classes]
            limit = sum(encoding.fits[g] for g in classes)
            staying, needed = self.placed[k], gang.needed
            if limit and needed > max(1, staying):
                if staying:
                    model.add(encoding.sum(unplaced) <= limit + staying - needed)
                else:  # linear rows without enforcement, which the relaxation uses
                    whole = model.new_bool_var("")
                    model.add(encoding.weighted_sum([*unplaced, whole], [*(1 for _ in unplaced), needed]) <= limit)
                    for g in classes:
                        model.add(encoding.weighted_sum([encoding.unplaced[g], whole], [1, encoding.fits[g]]) >= encoding.fits[g])
            codes, inside = self._codes[k], self._inside[k]
            if codes is None or inside is None:
                continue
            domains = encoding.domains(classes, codes)
            members = self.cluster.members(gang.key or "")
            literals = []
            for d in domains:
                here = encoding.any_of(encoding.cells(classes, members[d]))
                if here is None:
                    continue
                if inside.any() and not inside[d]:
                    model.add(here == 0)
                    continue
                literals.append(here)
                for g in classes:
                    if mine := encoding.variables(g, members[d]):
                        model.add(encoding.sum(mine) <= encoding.fits[g] * here)
            if len(literals) > 1 and not inside.any():
                model.add_at_most_one(literals)

    def message(self, g: int, rejected: Bools) -> str:
        gang = self._gang(g)
        if gang is None:
            return "gang"
        return f"all members of {gang[1].name} in one domain of {gang[1].key}"
