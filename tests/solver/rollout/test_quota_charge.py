"""Rollouts under quotas that charge opportunity cost: hand cases, the checker's own count, and every course by brute force."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubestow.checker.rollout import verify_rollout
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.rollout.simulate import CHARGED, roll_out
from kubestow.solver.runtime.options import Options
from tests.models.cluster.test_admission import quota
from tests.objects import Object, node, pod
from tests.solver.rollout.rollouts import HOST, ZONE, Brute, _Now, deployment, old, replica_set, rolling

OPTIONS = Options(time_limit=20.0, workers=1, policy=Policy(quotaCharge="opportunityCost"))


def closing(key: str = HOST) -> Object:
    """Anti-affinity that keeps pods of others away, and none of the Deployment's."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def nodes(*cpus: str) -> list[Object]:
    return [node(f"n{i}", cpu=cpu, labels={ZONE: f"z{i % 2}"}) for i, cpu in enumerate(cpus)]


def web(homes: list[str], key: str = HOST, strategy: Object | None = None, *, cpus: tuple[str, ...] = ("4", "4", "4", "4")) -> list[Object]:
    """One old pod on each of ``homes``; new pods close domains like the old ones."""
    pods = [old(i, name, affinity=closing(key)) for i, name in enumerate(homes)]
    made = deployment(len(homes), strategy=strategy or rolling(1, 0), affinity=closing(key))
    return [*nodes(*cpus), made, replica_set(), *pods]


def solve(objects: list[Object], options: Options = OPTIONS) -> Placement:
    snapshot = from_objects(objects)
    found = roll_out(snapshot, "web", None, options)
    assert verify_rollout(snapshot, found) == []
    return found


def verdict(placement: Placement) -> tuple[bool, bool, int]:
    """Return whether the rollout completes, whether a deadlock is proved, and the number of placed new pods."""
    assert placement.rollout is not None
    return placement.rollout.complete, placement.rollout.proved, len(placement.assignments)


def test_new_pods_are_charged_for_the_nodes_that_they_may_close() -> None:
    found = solve([*web(["n0", "n1"]), quota(requests_cpu="8")])
    assert verdict(found) == (False, True, 0)
    assert found.rollout is not None
    assert found.rollout.refused is not None
    assert found.rollout.refused.message == (
        "cannot be created: exceeded quota: q, requested: requests.cpu=100m, used: requests.cpu=8, limited: requests.cpu=8, "
        "charged: requests.cpu=4 by opportunity cost over kubernetes.io/hostname"
    )
    messages = [way.message for way in found.rollout.waysOut]
    assert messages[:2] == ["maxUnavailable 1 instead of 0", "raise quota q: requests.cpu 12 instead of 8"]
    assert CHARGED in found.notes
    assert verdict(solve([*web(["n0", "n1"]), quota(requests_cpu="12")])) == (True, True, 2)
    assert verdict(solve([*web(["n0", "n1"]), quota(requests_cpu="11999m")])) == (False, True, 0)


def test_by_requests_the_same_rollout_goes_through_and_no_note_is_made() -> None:
    found = solve([*web(["n0", "n1"]), quota(requests_cpu="8")], Options(time_limit=20.0, workers=1))
    assert verdict(found) == (True, True, 2)
    assert CHARGED not in found.notes


@pytest.mark.parametrize(("limit", "complete"), [("16", True), ("15999m", False)])
def test_a_domain_comes_free_with_the_last_old_pod_in_it(limit: str, complete: bool) -> None:
    """Both old pods close the zone of n0 and n2, 8 CPUs, which count once and until both are gone."""
    found = solve([*web(["n0", "n2"], ZONE, rolling(0, 1)), quota(requests_cpu=limit)])
    assert (verdict(found)[0], len(found.assignments)) == (complete, 2 if complete else 0)
    assert found.rollout is not None
    assert len(found.rollout.waves[0].delete) == 1


def test_a_node_that_others_close_stays_closed() -> None:
    """The guest closes n0 as well. The old pod goes, and its requests on n0 are within what counts all the same."""
    guest = pod("guest", node_name="n0", cpu="1", affinity=closing())
    for limit, complete in (("8", True), ("7999m", False)):
        assert verdict(solve([*web(["n0"], strategy=rolling(0, 1)), guest, quota(requests_cpu=limit)]))[0] is complete


def test_the_checker_charges_for_itself() -> None:
    tight, free = from_objects([*web(["n0", "n1"]), quota(requests_cpu="8")]), from_objects([*web(["n0", "n1"])])
    found = roll_out(free, "web", None, OPTIONS)
    assert ("ResourceQuota", "quota q: requests.cpu used up") in {
        (fault.rule, fault.why.partition(": ")[2]) for fault in verify_rollout(tight, found)
    }
    found.policy = None  # by requests it is allowed
    assert "ResourceQuota" not in {fault.rule for fault in verify_rollout(tight, found)}


# --- brute force ------------------------------------------------------------------------------------------------------------


class Charging(Brute):
    """Courses under a quota of ``limit`` mCPU. Terms of all pods are :func:`closing`."""

    def __init__(self, snapshot: Snapshot, limit: int) -> None:
        super().__init__(snapshot)
        self.limit = limit
        self.cpu = {each.metadata.name or "": _milli((each.status.allocatable or {})["cpu"]) for each in snapshot.nodes if each.status}
        self.zone = {each.metadata.name or "": (each.metadata.labels or {})[ZONE] for each in snapshot.nodes}

    def _create(self, now: _Now) -> _Now:
        wanted = super()._create(now).created
        largest = max(sum(self.cpu[n] for n in self._closed(self.new[0], name)) for name in self.cpu)
        each = max(largest, _asked(self.new[0]))
        free = self.limit - self._used(now) - now.created * each
        return _Now(now.alive, now.placed, min(wanted, now.created + max(0, free // each)))

    def _used(self, now: _Now) -> int:
        there = [p for p in self.snapshot.pods if p.metadata.name not in self.old or p.metadata.name in now.alive]
        total, closed = sum(map(_asked, there)), {n for p in there for n in self._closed(p, p.spec.nodeName or "")}
        return total + sum(max(0, self.cpu[n] - sum(_asked(p) for p in there if p.spec.nodeName == n)) for n in closed)

    def _closed(self, made: Pod, where: str) -> set[str]:
        affinity = made.spec.affinity
        if affinity is None or affinity.podAntiAffinity is None:
            return set()
        term = (affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution or [])[0]
        return {where} if term.topologyKey == HOST else {n for n in self.cpu if self.zone[n] == self.zone[where]}


def _milli(value: Any) -> int:
    return int(quantity.parse(value) * 1000)


def _asked(made: Pod) -> int:
    return sum(_milli(c.resources.requests["cpu"]) for c in made.spec.containers or () if c.resources and c.resources.requests)


def drawn(seed: int) -> tuple[Snapshot, int]:
    rng = random.Random(seed)
    replicas = rng.randint(1, 3)

    def terms(chance: float) -> Object:
        return {"affinity": closing(rng.choice((HOST, HOST, ZONE)))} if rng.random() < chance else {}

    strategy = rng.choice((None, rolling(0, 1), rolling(1, 0), rolling(1, 1), rolling(2, 1), {"type": "Recreate"}))
    made = nodes(*(rng.choice(("1", "2")) for _ in range(rng.randint(1, 4))))
    names = [each["metadata"]["name"] for each in made]
    objects = [*made, deployment(replicas, strategy=strategy, cpu=rng.choice(("100m", "400m")), **terms(0.8)), replica_set()]
    objects += [old(i, rng.choice(names), cpu=rng.choice(("100m", "300m")), **terms(0.8)) for i in range(replicas)]
    objects += [pod(f"x{i}", cpu="200m", node_name=rng.choice(names), **terms(0.4)) for i in range(rng.randrange(3))]
    limit = rng.randint(1, 8 + 2 * replicas) * 1000 + rng.choice((-100, 0, 200))
    return from_objects([*objects, quota(requests_cpu=f"{limit}m")]), limit


@pytest.mark.parametrize(
    "seeds", [pytest.param(range(20), marks=pytest.mark.full), pytest.param(range(20, 300), marks=pytest.mark.slow)], ids=["a few", "many"]
)
def test_rollouts_end_as_every_course_by_brute_force_does(seeds: range) -> None:
    complete = refused = differs = 0
    for seed in seeds:
        snapshot, limit = drawn(seed)
        found = roll_out(snapshot, "web", None, OPTIONS)
        assert found.rollout is not None
        assert (found.rollout.complete, found.rollout.proved) == (Charging(snapshot, limit).completes(), True), seed
        for way in found.rollout.waysOut:
            if way.change == "raiseQuota":
                more = _milli(way.arguments["default/q"].partition("=")[2])
                assert Charging(snapshot, more).completes(), seed
        complete += found.rollout.complete
        refused += found.rollout.refused is not None
        by_requests = roll_out(snapshot, "web", None, Options(time_limit=20.0, workers=1)).rollout
        differs += by_requests is not None and by_requests.complete != found.rollout.complete
    assert min(complete, refused, differs) >= len(seeds) // 10
