"""Groups of pod classes that must be bounded together, and the parts of a group that only repel each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.base import Rule
from kubestow.solver.runtime.graph import connected


def groups(objective: Objective, active: Sequence[Rule]) -> list[list[int]]:
    """Return the groups of classes that must be bounded together, as lists of class indices.

    A weighted term, a soft constraint, a family's own links, or a hard rule other than room ties classes to each other.
    """
    links = [sorted(objective.terms[t].matches | objective.terms[t].own.keys()) for t in objective.pairs]
    links += _other_links(objective, active)
    return sorted(connected([link for link in links if link], range(objective.cluster.n_classes)), key=len)


def parts(objective: Objective, active: Sequence[Rule]) -> list[list[int]]:
    """Return the classes as :func:`groups` does, but separate classes that only repelling terms tie.

    Without such terms the total points are at least as many, so bounds stay valid."""
    links = list(_other_links(objective, active))
    for t in objective.pairs:
        term = objective.terms[t]
        attracted = [g for g, weight in term.own.items() if weight * term.multiplier > 0]
        links.append(sorted(term.matches.union(attracted)) if attracted else [])
    return sorted(connected([link for link in links if link], range(objective.cluster.n_classes)), key=len)


def _other_links(objective: Objective, active: Sequence[Rule]) -> Iterator[list[int]]:
    """Yield lists of classes that belong into one group for a reason other than a weighted term.

    Rules that tie classes only by the supply of nodes are left out. Each group alone may take the whole supply, which
    keeps bounds valid.
    """
    yield from (tally.owners + tally.matches.tolist() for tally in objective.tallies)
    for rule in active:
        if not rule.first_come:
            yield from rule.order_links()
    for family in objective.members:
        yield from family.links()
