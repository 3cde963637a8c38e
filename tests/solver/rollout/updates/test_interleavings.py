"""Rollouts of all three controllers against a search over every interleaving of controller and scheduler."""

from __future__ import annotations

import sys

import pytest

from kubestow.checker.rollout import verify_rollout
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.models.workloads.updates.update_input import MAX_UNAVAILABLE
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from tests.solver.rollout.updates.interleavings import KINDS, Interleavings, case


def compare(kind: str, seed: int) -> str:
    """Return the difference between the answer and that of the search; empty if there is none."""
    found = case(kind, seed)
    snapshot, manifests = from_objects(found.objects), from_objects([found.manifest], manifests=True)
    if found.counts:
        snapshot.gates = FeatureGates(given=((MAX_UNAVAILABLE, True),))
    result = roll_out(snapshot, "web", manifests, Options(deterministic=True))
    assert verify_rollout(snapshot, result, manifests) == []
    rollout, interleavings = result.rollout, Interleavings(found)
    assert rollout is not None
    if rollout.complete != interleavings.completes:
        return f"{kind} {seed}: {'fits' if rollout.complete else 'does not fit'}, and the search says the opposite"
    waits = rollout.halted is not None and "gets ready" in rollout.halted
    if not rollout.complete and not rollout.proved and not waits:
        return f"{kind} {seed}: not proved"
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_rollouts_end_as_some_interleaving_does(kind: str) -> None:
    assert [text for seed in range(5) if (text := compare(kind, seed))] == []


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_rollouts_end_as_some_interleaving_does(kind: str) -> None:
    assert [text for seed in range(5, 40) if (text := compare(kind, seed))] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_500_rollouts_end_as_some_interleaving_does(kind: str) -> None:
    assert [text for seed in range(500) if (text := compare(kind, seed))] == []


def main(kind: str, first: str, last: str) -> None:
    """Print the differences, and how many rollouts complete."""
    done = 0
    for seed in range(int(first), int(last)):
        text = compare(kind, seed)
        done += Interleavings(case(kind, seed)).completes
        if text:
            print(text)
    print(f"{kind}: {done} of {int(last) - int(first)} complete")


if __name__ == "__main__":
    main(*sys.argv[1:])
