"""A volume that one node at a time can have attached: new pods on other nodes do not start before it is free."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from kubestow.checker.rollout import verify_rollout
from kubestow.models.documents.placement import Rollout
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node, pod
from tests.solver.rollout.rollouts import Brute, _Now, _runs, deployment, old, replica_set, rolling

MOUNT: dict[str, Any] = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
OPTIONS = Options(time_limit=60.0, workers=1)


def volume(*modes: str, **source: Object) -> list[Object]:
    """A bound claim ``data`` with its volume."""
    source = source or {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "h"}}
    claim_ref = {"namespace": "default", "name": "data"}
    spec: Object = {"accessModes": list(modes), "claimRef": claim_ref, "capacity": {"storage": "1Gi"}, **source}
    wanted = {"accessModes": list(modes), "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec, "status": {"phase": "Bound"}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": wanted},
    ]


def rolled(snapshot: Snapshot) -> Rollout:
    found = roll_out(snapshot, "web", None, OPTIONS).rollout
    assert found is not None
    return found


def single(*there: Object, strategy: Object | None = None, cpu: str = "3", **mount: Any) -> Rollout:
    """One replica next to the old pod on n1; each of two nodes has room for one."""
    mount = mount or MOUNT
    made = [node("n1"), node("n2"), deployment(1, strategy=strategy, cpu=cpu, **mount), replica_set()]
    return rolled(from_objects([*made, old(0, "n1", cpu=cpu, **mount), *there]))


def test_a_new_pod_on_another_node_never_gets_the_volume() -> None:
    found = single(*volume("ReadWriteOnce"))
    assert (found.complete, found.proved, len(found.waves)) == (False, True, 1)
    (reason,) = found.stuck[0].reasons
    assert reason.rule == "MultiAttach"
    assert reason.message == "volume pv is attached to node n1: it can be attached to only one node (ReadWriteOnce)"
    assert [way.change for way in found.waysOut] == ["maxUnavailable", "strategy"]


@pytest.mark.parametrize("strategy", [{"type": "Recreate"}, rolling(0, 1), rolling(1, 1)])
def test_it_is_free_once_the_old_pod_has_gone(strategy: Object) -> None:
    assert single(*volume("ReadWriteOnce"), strategy=strategy).complete


def test_it_is_there_already_on_the_same_node() -> None:
    found = single(*volume("ReadWriteOnce"), cpu="1")
    assert found.complete
    assert [entry.node for wave in found.waves for entry in wave.create] == ["n1"]


@pytest.mark.parametrize(
    "there",
    [
        volume("ReadWriteMany"),
        volume("ReadWriteOnce", nfs={"server": "s", "path": "/"}),
        [
            *volume("ReadWriteOnce"),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": "ebs.csi.aws.com"},
                "spec": {"attachRequired": False},
            },
        ],
    ],
)
def test_volumes_that_several_nodes_can_have_stop_nothing(there: list[Object]) -> None:
    assert single(*there).complete


def test_a_pod_of_somebody_else_keeps_the_volume() -> None:
    holder = pod("x", node_name="n1", cpu="3", **MOUNT)
    made = [node("n1"), node("n2"), deployment(1, strategy={"type": "Recreate"}, cpu="3", **MOUNT), replica_set()]
    found = rolled(from_objects([*made, old(0, "n2", cpu="3", ready=False, **MOUNT), holder, *volume("ReadWriteOnce")]))
    assert (found.complete, found.proved) == (False, True)
    assert "attached to node n1" in found.stuck[0].reasons[0].message


def test_the_checker_refuses_a_rollout_whose_pods_do_not_start() -> None:
    """A document that leaves the volume out: called complete, with the old pod gone."""
    made = [node("n1"), node("n2"), deployment(1, cpu="3", **MOUNT), replica_set(), old(0, "n1", cpu="3", **MOUNT)]
    shared, exclusive = (from_objects([*made, *volume(mode)]) for mode in ("ReadWriteMany", "ReadWriteOnce"))
    result = roll_out(shared, "web", None, OPTIONS)
    assert not verify_rollout(shared, result)
    result = msgspec.structs.replace(result, snapshot=msgspec.structs.replace(result.snapshot, sha256=exclusive.sha256))
    faults = [fault.why for fault in verify_rollout(exclusive, result)]
    assert any("0 pods are available after wave 1" in fault for fault in faults), faults


# --- every course ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Held(_Now):
    """``holder``: the node that has the volume."""

    holder: str | None = None


class Attaching(Brute):
    """Brute force with a volume that all pods of the Deployment use: it goes to any node that waits for it."""

    def completes(self) -> bool:
        there = [p for p in self.old.values() if p.spec.nodeName]
        first = sorted(there, key=lambda p: (not _runs(p), self.snapshot.pods.index(p)))
        held = _Held(tuple(sorted(self.old)), (), 0, first[0].spec.nodeName if first else None)
        return self._onwards(replace(held, created=self._create(held).created))

    def _users(self, now: _Held) -> set[str]:
        return {*now.placed, *(n for name in now.alive if (n := self.old[name].spec.nodeName))}

    def _passed(self, now: _Held) -> list[_Held]:
        users = self._users(now)
        if now.holder in users or not users:
            return [now if users else replace(now, holder=None)]
        return [replace(now, holder=name) for name in users]

    def _onwards(self, now: _Held) -> bool:
        started = tuple(name for name in now.placed if name == now.holder)
        if not now.alive and len(started) == self.pace.replicas:
            return True
        if now in self.seen:
            return False
        self.seen.add(now)
        if len(now.placed) < now.created:
            taking = self._taking(now)
            if taking:
                bound = (replace(now, placed=tuple(sorted((*now.placed, name)))) for name in taking)
                return any(self._onwards(each) for after in bound for each in self._passed(after))
        spared = self._after(now, started)
        then = replace(now, alive=spared, created=self._create(replace(now, alive=spared)).created)
        return then != now and any(self._onwards(each) for each in self._passed(then))

    def _after(self, now: _Held, started: tuple[str, ...]) -> tuple[str, ...]:
        if self.pace.recreate:
            return ()
        least = self.pace.replicas - self.pace.unavailable
        pods = [self.old[name] for name in now.alive]
        on = [p.spec.nodeName for p in pods] + list(now.placed)
        ranked = sorted(
            pods, key=lambda p: (bool(p.spec.nodeName), _runs(p), -on.count(p.spec.nodeName) if p.spec.nodeName else 0, p.metadata.name)
        )
        available = sum(map(_runs, pods)) + len(started)
        ailing = min(sum(not _runs(p) for p in pods), max(0, len(pods) + len(started) - least))
        going = ranked[: ailing + max(0, available - least)]
        return tuple(name for name in now.alive if self.old[name] not in going)


def mounting(seed: int) -> Snapshot:
    """One to three replicas that share a volume, on one to three nodes."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(1, 3))]
    objects = [node(name, cpu=rng.choice(("200m", "300m", "400m"))) for name in names]
    replicas = rng.randint(1, 3)
    strategy = rng.choice((None, rolling(0, 1), rolling(1, 0), rolling(2, 0), rolling(1, 1), {"type": "Recreate"}))
    objects += [deployment(replicas, strategy=strategy, **MOUNT), replica_set(), *volume("ReadWriteOnce")]
    home = rng.choice(names)
    for i in range(replicas):
        where = rng.choice((home, home, home, rng.choice(names)))
        objects.append(old(i, where, ready=where == home and rng.random() > 0.1, **MOUNT))
    return from_objects(objects)


def compare(seeds: range) -> None:
    for number in seeds:
        found = rolled(mounting(number))
        assert (found.complete, found.proved) == (Attaching(mounting(number)).completes(), not found.complete or found.proved), number


def test_a_few_rollouts_end_as_a_search_over_all_courses_says() -> None:
    compare(range(0, 48, 8))


@pytest.mark.slow
def test_500_rollouts_end_as_a_search_over_all_courses_says() -> None:
    compare(range(500))
