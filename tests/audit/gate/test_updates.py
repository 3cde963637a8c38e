"""Verdicts of ``check`` on updates of StatefulSets and DaemonSets, compared with a search over every interleaving."""

from __future__ import annotations

import pytest

from tests.audit.gate.test_gate import gate, only
from tests.solver.rollout.updates.interleavings import Interleavings, case

KINDS = ("StatefulSet", "DaemonSet")


def compare(kind: str, seed: int) -> str:
    """Return the difference between a verdict and the search; empty if there is no difference or no verdict."""
    found = case(kind, seed)
    if found.on_delete or found.before == found.after:
        return ""
    if kind == "StatefulSet":  # the gate MaxUnavailableStatefulSet is off
        found.counts, found.unavailable = False, 1
    fit, completes = only(gate(found.objects, [found.manifest])).fit, Interleavings(found).completes
    return f"{kind} {seed}: {fit}" if fit == ("does not fit" if completes else "fits") else ""


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_verdicts_are_those_of_the_search(kind: str) -> None:
    """Seeds that were wrong when the pods of the end alone decided: missing pods that a partition keeps, quotas."""
    seeds = (42, 63, 1, 2) if kind == "StatefulSet" else (55, 87, 20, 1)
    assert [text for seed in seeds if (text := compare(kind, seed))] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_those_of_the_search(kind: str) -> None:
    assert [text for seed in range(250) if (text := compare(kind, seed))] == []
