"""Report on preferences: points by family and by workload, and unmet preferences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents import placement as doc
from kubestow.solver.objective.ledger import Ledger
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import AssignedZones

MAX_LISTED = 50  #: Unmet preferences listed in a document.


def report(objective: Objective, counts: Ints, sequence: Sequence[tuple[int, int, int]], zones: AssignedZones) -> doc.Preferences:
    """Return the preference part of a result; ``counts``: int64[G, N]."""
    ledger = Ledger(objective, counts, sequence, zones)
    listed = list(_families(objective, ledger))
    _gained(objective, ledger)
    for family in objective.members:
        family.gains(ledger)
        family.losses(ledger)
    unmet, gained = ledger.unmet(), ledger.gained
    lost: dict[str, int] = {}
    for entry in unmet:
        lost[entry.workload] = lost.get(entry.workload, 0) + entry.lost
    names = sorted(gained.keys() | lost.keys(), key=lambda name: (-lost.get(name, 0), name))
    rows = [doc.WorkloadResult(name, gained.get(name, 0), lost.get(name, 0)) for name in names if gained.get(name) or lost.get(name)]
    return doc.Preferences(listed, rows, unmet[:MAX_LISTED])


def _families(objective: Objective, ledger: Ledger) -> Iterator[doc.FamilyResult]:
    """Yield the result of each family that has or could have points."""
    found = objective.families(ledger.placed, zones=ledger.zones, excesses=ledger.excesses)
    for family in objective.members:
        if family.multiplier:
            points, best = found[family.name], family.best(ledger.total)
            if points or best or family.present:
                yield doc.FamilyResult(family.name, points, max(best, points), family.multiplier)


def _gained(objective: Objective, ledger: Ledger) -> None:
    """Enter the weighted points by workload.

    Pairs count for the owner of the preference, or for the pending pod if a fixed one owns it. Soft spread constraints
    concern many pods and only count as lost."""
    placed, pairs = ledger.placed, set(objective.pairs)
    for g in placed.classes:
        nodes, _ = placed.of(g)
        row = objective.node_points(g)[nodes]
        for t in objective.owned[g]:
            if t in pairs:
                term = objective.terms[t]
                met = placed.per_domain(sorted(term.matches), term.codes, term.size) - int(g in term.matches)
                row = row + term.multiplier * term.own[g] * np.append(met, 0)[term.codes[nodes]]
        points = dict(zip(nodes.tolist(), row.tolist(), strict=True))
        for name, where in ledger.pods[g].items():
            ledger.gained[name] = ledger.gained.get(name, 0) + sum(k * points[n] for n, k in where.items())
