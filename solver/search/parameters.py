"""How the search for preferences shares its time out."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.solver.search.outcome import MANY_PODS


@dataclass(frozen=True)
class PreferenceSearchParameters:
    """Sizes, shares of the time, and the rhythm of the turns.

    Attributes:
        small: Variables up to which CP-SAT gets the whole model first.
        whole: Variables up to which CP-SAT gets the whole model after some turns.
        first: Share of the time for CP-SAT on a small model.
        last: Share of what is left then for CP-SAT on the whole model; the turns go on in the rest.
        anneal: Share of the time for annealing.
        charged: Share of what room is worth that pods are charged for it while annealing begins: with all of it, those that gain as much as
            they pay are as well off elsewhere.
        groups: Share of the time for groups.
        sweeps: Sweeps over the pods after which annealing ends, ...
        anneal_seconds: ... or seconds.
        settle_sweeps: Sweeps in which the rest settles after a group has moved, ...
        settle_seconds: ... or seconds.
        move: Deterministic seconds that one move counts, on few nodes.
        turn: Seconds of a turn, with few pods.
        bounding: Share of the time of all turns for groups while most of the gap may be unknown, ...
        bounding_later: ... and later.
        second_every: Every so manieth of the other turns is not for the best of them.
        many_pods: A turn is twice as long for so many pods more: taking its result over costs time as well. With more pods groups come
            before annealing, ...
        groups_of_many: ... get such a share of their turn, ...
        warm_of_many: ... and the pods of those that could have more are annealed in the rest of it, from such a share of the temperature.
        taking: Until it has been seen, taking over the result of a turn counts as so many times as long as the first value and bounds take.
        near: Share of the temperature with which a group is annealed alone so that it stays near where it is.
        crowded_nodes: Nodes up to which a group that finds no room makes others give way.
        tick: Seconds after which the other search is asked again where no pod can be moved here.
    """

    small: int = 3_000
    whole: int = 20_000
    first: float = 0.35
    last: float = 0.5
    anneal: float = 0.25
    charged: float = 0.8
    groups: float = 0.4
    sweeps: int = 400
    anneal_seconds: float = 20.0
    settle_sweeps: int = 6
    settle_seconds: float = 3.0
    move: float = 1e-5
    turn: float = 3.0
    bounding: float = 0.85
    bounding_later: float = 0.33
    second_every: int = 3
    many_pods: int = MANY_PODS
    groups_of_many: float = 0.6
    warm_of_many: float = 0.04
    taking: float = 3.0
    near: float = 0.1
    crowded_nodes: int = 1_000
    tick: float = 0.05


PARAMETERS = PreferenceSearchParameters()
