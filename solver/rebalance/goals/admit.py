"""Give pending pods a place, by moving others away and, where that is allowed, by evicting pods of lower priority."""

from __future__ import annotations

import numpy as np

from solver.rebalance.goals.make_gang_room import admit_gang
from solver.rebalance.goals.make_room import Opener
from solver.rebalance.goals.move_builder import Walk


def admit(walk: Walk) -> None:
    """Bind pending pods, highest priority first, gangs whole: as they are, then after moves of others, then after evictions."""
    case = walk.case
    waiting = np.flatnonzero(case.pending)
    if not len(waiting):
        return
    wanted = np.logical_or.reduce([~walk.state.never(g) for g in waiting.tolist()])
    opener = Opener(walk, wanted)
    classes = sorted(waiting.tolist(), key=lambda g: (-int(case.cluster.priority[g]), -walk.size(g), g))
    done: set[int] = set()
    for g in classes:
        if walk.over():
            return
        gang = case.cluster.classes[g].gang
        if gang is None:
            for _ in range(case.cluster.classes[g].count):
                if not opener.place(g):
                    break
        elif gang not in done:
            done.add(gang)
            admit_gang(walk, opener, gang)
