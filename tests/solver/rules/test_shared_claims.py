"""Pods that share claims which are not bound yet, against a brute force over the choices of the volume binder."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubestow.checker.placement import verify
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests.solver.rules.test_agreement import agree
from tests.solver.rules.volume_binder import Claim, Tiny, Volume, tiny

BOTH = frozenset({"n0", "n1"})
#: The share of instances whose nodes attach only a few volumes: every second one.
EVERY = 2


def placed(case: Tiny, engine: Engine = "auto") -> int:
    """Return the number of pods that are placed, proved and accepted by the checker."""
    snapshot = from_objects(case.objects())
    found = place(snapshot, Options(engine=engine, time_limit=30.0, workers=1, causes=False))
    assert found.status == ("optimal" if found.assignments else "infeasible")
    assert verify(snapshot, found) == []
    return len(found.assignments)


def pair(claim: Claim, *volumes: Volume, **more: object) -> Tiny:
    """Two nodes with room for one pod each, and two pods that share a claim."""
    case = Tiny({"n0": 1, "n1": 1}, volumes=list(volumes), claims={claim.name: claim})
    case.pods = {"p0": [claim.name], "p1": [claim.name]}
    case.pinned = {"p0": BOTH, "p1": BOTH}
    for name, value in more.items():
        setattr(case, name, value)
    return case


def local(mode: str = "ReadWriteOnce") -> Claim:
    return Claim("c", "local", mode, 1, frozenset(), None, None, None)


def new(mode: str, *nodes: str) -> Claim:
    """A claim whose class makes volumes on some nodes."""
    return Claim("c", "new", mode, 1, frozenset(nodes), None, None, None)


@pytest.mark.parametrize(
    ("case", "most"),
    [
        # A volume of several nodes serves pods on each of them: ReadWriteOnce is no rule of the scheduler.
        (pair(local(), Volume("v", "local", 1, BOTH, "a", csi=False)), 2),
        (pair(local(), Volume("v", "local", 1, frozenset({"n0"}), "a", csi=False)), 1),
        # The first pod takes the smallest volume of its node: only from n1 that is the one of both nodes.
        (pair(local(), Volume("s", "local", 1, frozenset({"n0"}), "a", csi=False), Volume("v", "local", 2, BOTH, "a", csi=False)), 2),
        # A volume that names the claim serves it, regardless of its labels.
        (pair(replace(local(), label="b"), Volume("v", "local", 1, BOTH, "a", csi=False, reserved="c")), 2),
        # A new volume is made on the node of the first pod, and other nodes may not reach it.
        (pair(new("ReadWriteOnce", "n0", "n1")), 1),
        (pair(new("ReadWriteMany", "n0", "n1")), 2),
        # A volume created on n0 does not serve n1, which a free volume of another size would have reached.
        (pair(new("ReadWriteMany", "n0"), Volume("v", "new", 1, frozenset({"n1"}), "a", csi=False)), 1),
        # A claim counts for its provisioner only until it has taken another volume.
        (pair(new("ReadWriteOnce", "n0"), Volume("v", "new", 1, BOTH, "a", csi=False), limits={"n0": 0, "n1": 1}), 2),
        (pair(new("ReadWriteOnce", "n0"), Volume("v", "new", 1, BOTH, "a", csi=True), limits={"n0": 0, "n1": 1}), 1),
    ],
)  # fmt: skip
def test_pods_that_share_an_open_claim(case: Tiny, most: int) -> None:
    assert (case.most(), placed(case)) == (most, most)


def compare(seeds: range, engine: Engine = "auto") -> int:
    """Compare as many pods as are placed with the most that any course of the binder places; how often not all pods are."""
    short = 0
    for seed in seeds:
        case = tiny(seed, limited=seed % EVERY > 0)
        limit = case.most()
        assert placed(case, engine) == limit, seed
        short += limit < len(case.pods)
    return short


def judged(seeds: range) -> int:
    """Compare encoding, rules and checker."""
    found = 0
    for seed in seeds:
        snapshot = from_objects(tiny(seed, limited=seed % EVERY > 0).objects())
        cluster = compile_cluster(snapshot, select(snapshot))
        found += agree(cluster, seed, "shared claims")
    return found


def test_a_few_clusters_are_filled_as_far_as_the_binder_can() -> None:
    assert compare(range(8)) > 0


def test_encoding_rules_and_checker_agree_on_a_few() -> None:
    assert judged(range(8)) > 8


@pytest.mark.full
def test_encoding_rules_and_checker_agree() -> None:
    assert judged(range(8, 30)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", "exact"])
def test_2000_clusters_are_filled_as_far_as_the_binder_can(engine: Engine) -> None:
    assert compare(range(2000), engine) > 1000


@pytest.mark.slow
def test_encoding_rules_and_checker_agree_at_length() -> None:
    assert judged(range(30, 2000)) > 2000
