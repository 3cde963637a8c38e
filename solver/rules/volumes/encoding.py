"""The encodings of open claims and of limits on attached volumes, for :mod:`kubestow.solver.rules.volumes.rule`.

They state what a placement needs in every bind order. The volume that a claim takes depends on that order: it
is the smallest one that the node of its first pod reaches (:mod:`kubestow.solver.bind_order.order`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kubestow.models.cluster.volumes import VolumeClaim
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.volumes.claims import VolumeTopic, reach_of, shared_claims, users_of

Pair = tuple[str, str]  #: driver and handle of a volume that NodeVolumeLimits counts


def encode_binding(encoding: PlacementModel) -> None:
    """Let each open claim take one volume that all nodes of its pods reach, and each volume serve one claim."""
    cluster = encoding.cluster
    shared = shared_claims(cluster)
    takers: dict[str, list[cp_model.IntVar]] = {}
    for key, users in users_of(cluster).items():
        claim = cluster.volumes.claim(key)
        if not claim.delayed:
            continue
        with encoding.about(key, users):
            if claim.volumes:
                for volume, literal in _encode_choice(encoding, claim, users, shared).items():
                    takers.setdefault(volume, []).append(literal)
            elif claim.one_node and key in shared:
                _meet(encoding, users)
    for volume, literals in takers.items():
        with encoding.about(VolumeTopic(volume)):
            encoding.model.add_at_most_one(literals)


def _encode_choice(encoding: PlacementModel, claim: VolumeClaim, users: list[int], shared: frozenset[str]) -> dict[str, cp_model.IntVar]:
    """Let a claim take one of its static volumes, or a new one. Return a literal for each static volume."""
    model = encoding.model
    choices = {volume: model.new_bool_var("") for volume in claim.volumes}
    reach = {volume: reach_of(encoding.cluster, claim, volume, shared) for volume in claim.volumes}
    made = model.new_bool_var("")
    model.add_at_most_one([*choices.values(), made])
    if claim.one_node and claim.key in shared and claim.provision is not None:
        _meet(encoding, users, made)
    for g in users:
        for n in encoding.nodes_of(g):
            ways = [literal for volume, literal in choices.items() if reach[volume][n]]
            if claim.provision is not None and claim.provision[n]:
                ways.append(made)
            present = encoding.any_of([encoding.x[g, int(n)]])
            assert present is not None
            model.add_bool_or([~present, *ways])
    return choices


def _meet(encoding: PlacementModel, users: list[int], made: cp_model.IntVar | None = None) -> None:
    """Require that all pods of some classes are on one node, if a volume is created for them (``made``; None for always)."""
    nodes = sorted({int(n) for g in users for n in encoding.nodes_of(g)})
    here = [encoding.any_of(encoding.cells(users, np.array([n]))) for n in nodes]
    literals = [literal for literal in here if literal is not None]
    if made is None:
        encoding.model.add_at_most_one(literals)
    elif len(literals) > 1:
        encoding.model.add(encoding.sum(literals) <= 1).only_enforce_if(made)


def encode_limit(encoding: PlacementModel, driver: str, n: int, users: Mapping[Pair, list[int]], room: int) -> None:
    """Allow at most ``room`` of a driver's volumes on a node.

    Args:
        users: By volume, the classes that mount it.
    """
    literals = [literal for gs in users.values() if (literal := encoding.any_of(encoding.cells(gs, np.array([n])))) is not None]
    if len(literals) > room:
        with encoding.about(driver, sorted({g for gs in users.values() for g in gs}), n):
            encoding.model.add(encoding.sum(literals) <= room)
