"""The goal admit: place pending pods by moving others and, if allowed, by evicting pods of lower priority."""

from __future__ import annotations

import numpy as np

from kubestow.solver.rebalance.goals.make_gang_room import admit_gang
from kubestow.solver.rebalance.goals.make_room import RoomMaker
from kubestow.solver.rebalance.goals.move_builder import MoveBuilder


def admit(builder: MoveBuilder) -> None:
    """Bind pending pods, highest priority first and gangs whole.

    Each pod is first bound as is, then after moves of others, then after evictions.
    """
    problem = builder.problem
    waiting = np.flatnonzero(problem.pending)
    if not len(waiting):
        return
    wanted = np.logical_or.reduce([~builder.state.never(g) for g in waiting.tolist()])
    room_maker = RoomMaker(builder, wanted)
    classes = sorted(waiting.tolist(), key=lambda g: (-int(problem.cluster.priority[g]), -builder.size(g), g))
    done: set[int] = set()
    for g in classes:
        if builder.over():
            return
        gang = problem.cluster.classes[g].gang
        if gang is None:
            for _ in range(problem.cluster.classes[g].count):
                if not room_maker.place(g):
                    break
        elif gang not in done:
            done.add(gang)
            admit_gang(builder, room_maker, gang)
