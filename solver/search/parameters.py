"""Parameters of the search for preferences."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.solver.search.outcome import LARGE_INSTANCE_PODS


@dataclass(frozen=True)
class PreferenceSearchParameters:
    """Sizes, time fractions, and the rhythm of the turns.

    Attributes:
        small_variables: CP-SAT gets smaller whole models first.
        whole_variables: CP-SAT gets smaller whole models after some turns.
        small_fraction: Time fraction for CP-SAT on a small model.
        whole_fraction: Fraction of the remaining time for CP-SAT on the whole model; turns use the rest.
        anneal_fraction: Time fraction for annealing.
        charged_fraction: Fraction of the price of room charged while annealing starts. At the full price, pods that gain
            exactly their charge may leave as well.
        groups_fraction: Time fraction for groups.
        anneal_seconds: Seconds after which annealing ends.
        settle_sweeps: Sweeps in which other pods settle after a group has moved.
        move_seconds: Deterministic seconds charged for one move on a small cluster.
        bounding_fraction: Fraction of the turns' time for groups while most of the gap may be unknown.
        later_bounding_fraction: The same afterwards.
        many_pods: In larger instances, groups come before annealing.
        large_groups_fraction: In larger instances, fraction of a turn for groups.
        large_hot_fraction: In larger instances, start temperature, relative to START_TEMPERATURE, for annealing groups below their bounds
            in the rest of the turn.
        adoption_ratio: Estimated time to adopt the first result, relative to the time of the first evaluation.
        near_hot_fraction: Start temperature for annealing a group alone so that it stays near its nodes.
        max_forcing_nodes: In clusters with more nodes, groups without room do not displace other pods.
        poll_seconds: Interval of polling the other search if no pod can move here.
    """

    small_variables: int = 3_000
    whole_variables: int = 20_000
    small_fraction: float = 0.35
    whole_fraction: float = 0.5
    anneal_fraction: float = 0.25
    charged_fraction: float = 0.8
    groups_fraction: float = 0.4
    anneal_seconds: float = 20.0
    settle_sweeps: int = 6
    move_seconds: float = 1e-5
    bounding_fraction: float = 0.85
    later_bounding_fraction: float = 0.33
    many_pods: int = LARGE_INSTANCE_PODS
    large_groups_fraction: float = 0.6
    large_hot_fraction: float = 0.04
    adoption_ratio: float = 3.0
    near_hot_fraction: float = 0.1
    max_forcing_nodes: int = 1_000
    poll_seconds: float = 0.05


PARAMETERS = PreferenceSearchParameters()
