"""Pods that claim devices on a stand-in whose scheduler allocates them: each gets what the document names, or nothing is begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubestow.live.apply.run import RunOutcome
from kubestow.models.documents.placement import DeviceResult, Placement
from kubestow.models.kube import quantity
from kubestow.models.kube.closed_nodes import LET_IN
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.devices import claim, claim_template, device, device_class, devices, exactly, got, published
from tests.live.apply.applying import Applying
from tests.objects import node, pod

Object = dict[str, Any]
FAST = Options(engine="greedy", time_limit=5.0, workers=1, deterministic=True, causes=False)
MEMORY: Object = {"memory": {"value": "40Gi"}}


def using(name: str, *templates: str, claims: Sequence[str] = (), **more: Any) -> Object:
    entries = [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    entries += [{"name": each, "resourceClaimName": each} for each in claims]
    return pod(name, resourceClaims=entries, **more)


def fleet() -> list[Object]:
    """Two nodes of four devices each, whose first device is in use, and six pods of eight devices that request up to six."""
    slices = [published(name, devices("a", "b", "c", "d"), of=name) for name in ("n1", "n2")]
    taken = [claim(f"taken-{name}", exactly(), gets=[got(name, "a")]) for name in ("n1", "n2")]
    templates = [claim_template("one", exactly()), claim_template("two", exactly(count=2)), claim("ours", exactly())]
    pods = [using("p", "one"), using("q", "two"), using("r", "one", cpu="3"), using("s", claims=["ours"]), using("t", claims=["ours"])]
    return [node("n1"), node("n2"), *slices, *taken, device_class(), *templates, *pods, pod("plain")]


def shares() -> list[Object]:
    """Devices of which several pods have a part each."""
    shared = [device(name, allowMultipleAllocations=True, capacity=MEMORY) for name in "ab"]
    templates = [claim_template(f"of-{size}", exactly(capacity={"requests": {"memory": f"{size}Gi"}})) for size in (10, 20, 30)]
    pods = [using("p", "of-30"), using("q", "of-20"), using("r", "of-10"), using("s", "of-20")]
    return [node("n1"), published("n1", shared, of="n1"), device_class(), *templates, *pods]


@dataclass
class Case:
    """A world whose pods wait, as nothing schedules yet, and the placement of its snapshot. The scheduler begins once nodes are closed."""

    world: SimulatedCluster
    snapshot: Snapshot
    document: Placement

    def run(self, path: Path) -> RunOutcome:
        with Server(self.world) as server:
            return Applying(server, self.document, self.snapshot, path)()

    def claims(self, key: str) -> list[Object]:
        """Return the claims of a pod as they are now."""
        found = self.world.get("Pod", key) or {}
        made = {one["name"]: one["resourceClaimName"] for one in found["status"].get("resourceClaimStatuses") or ()}
        names = [one.get("resourceClaimName") or made[one["name"]] for one in found["spec"].get("resourceClaims") or ()]
        listed = [self.world.get("ResourceClaim", f"default/{name}") for name in names]
        return [one for one in listed if one is not None]

    def given(self, key: str) -> list[tuple[str, str, str, str]]:
        """Return claim, request, pool and device of all that a pod has, each reserved for it."""
        found = []
        for one in self.claims(key):
            assert key.partition("/")[2] in [user["name"] for user in one["status"]["reservedFor"]]
            results = one["status"]["allocation"]["devices"]["results"]
            found += [(f"default/{one['metadata']['name']}", each["request"], each["pool"], each["device"]) for each in results]
        return sorted(found)


def case(objects: list[Object], *, scheduler: bool = True) -> Case:
    world = SimulatedCluster(Behaviour(scheduler="off"))
    world.load(objects)
    world.settle()
    snapshot = from_objects(world.items())
    count = len(world.all("Node"))
    if scheduler:
        world.when(lambda world: len(world.cordoned()) == count, world.begin_scheduling)
    return Case(world, snapshot, place(snapshot, FAST))


def named(listed: Sequence[DeviceResult]) -> list[tuple[str, str, str, str]]:
    return sorted((each.claim, each.request, each.pool, each.device) for each in listed)


@pytest.mark.parametrize("objects", [fleet, shares])
def test_every_claim_gets_the_devices_that_the_document_names_in_its_order(objects: Any, tmp_path: Path) -> None:
    posed = case(objects())
    assert not posed.document.unplaced
    outcome = posed.run(tmp_path)
    assert (outcome.state, outcome.reasons, outcome.missed) == ("done", [], []), outcome
    needy = [each for each in sorted(posed.document.assignments, key=lambda each: each.order) if each.pod != "default/plain"]
    assert all(each.devices for each in needy)
    assert {each.pod: posed.given(each.pod) for each in needy} == {each.pod: named(each.devices) for each in needy}
    assert posed.world.where() == {each.pod: each.node for each in posed.document.assignments}
    assert [entry.key for entry in posed.world.bound("scheduler")] == [each.pod for each in needy]
    posed.world.settle()
    assert {one["status"]["phase"] for one in posed.world.all("Pod")} == {"Running"}


def test_consumed_capacity_is_what_the_document_says(tmp_path: Path) -> None:
    posed = case(shares())
    assert posed.run(tmp_path).state == "done"
    for each in posed.document.assignments:
        (found,) = (one["status"]["allocation"]["devices"]["results"] for one in posed.claims(each.pod))
        (said,) = each.devices
        assert [quantity.parse(one["consumedCapacity"]["memory"]) for one in found] == [quantity.parse(said.consumedCapacity["memory"])]


def untouched(posed: Case, outcome: RunOutcome) -> None:
    """Nothing is half done: no pod is bound, no claim allocated, and all nodes are open again."""
    assert (outcome.state, outcome.done, outcome.standing, outcome.not_opened) == ("stopped", [], [], [])
    assert posed.world.cordoned() == []
    assert posed.world.bound() == []
    assert not [one for each in posed.document.assignments for one in posed.claims(each.pod) if "status" in one]


def taken_by(name: str, *results: Object) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [results[0]["pool"]]}
    selector = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    return claim(name, exactly(count=len(results)), gets=results, allocation=selector)


def few() -> list[Object]:
    """One pod and a node with two devices."""
    return [node("n1"), published("n1", devices("a", "b"), of="n1"), device_class(), claim_template("one", exactly()), using("p", "one")]


def stopped(posed: Case, path: Path) -> str:
    """Return why a run stopped that has done nothing."""
    outcome = posed.run(path)
    untouched(posed, outcome)
    return " ".join(outcome.reasons)


def test_a_device_that_somebody_else_took_ends_the_run_before_its_first_step(tmp_path: Path) -> None:
    """Another device of the node would do, and is not the one that the document names."""
    posed = case(few(), scheduler=False)
    posed.world.load([taken_by("theirs", got("n1", "a"))])
    why = stopped(posed, tmp_path)
    assert "device gpu.example.com/n1/a is named; the allocator takes gpu.example.com/n1/b" in why
    assert "ResourceClaim default/theirs is new and has gpu.example.com/n1/a" in why


def test_without_a_device_left_the_run_ends_and_names_who_has_them(tmp_path: Path) -> None:
    posed = case(few(), scheduler=False)
    posed.world.load([taken_by("theirs", got("n1", "a"), got("n1", "b"))])
    why = stopped(posed, tmp_path)
    assert "default/p on n1: DynamicResources: " in why
    assert "ResourceClaim default/theirs is new and has gpu.example.com/n1/a, gpu.example.com/n1/b" in why


def test_a_claim_that_was_there_and_has_a_device_now_is_named(tmp_path: Path) -> None:
    theirs = taken_by("theirs", got("n1", "a"))
    posed = case([*few(), {name: value for name, value in theirs.items() if name != "status"}], scheduler=False)
    posed.world.patch("ResourceClaim", "default/theirs", {"status": theirs["status"]}, sub="status")
    assert "ResourceClaim default/theirs has gpu.example.com/n1/a now, had none" in stopped(posed, tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"spec": {"devices": devices("0", "a", "b")}}, "ResourceSlice n1: spec.devices"),  # another one comes first
        ({"spec": {"devices": devices("b")}}, "ResourceSlice n1: spec.devices"),
        ({"spec": {"pool": {"resourceSliceCount": 2}}}, "ResourceSlice n1: spec.pool.resourceSliceCount is 2, was 1"),
    ],
)
def test_other_devices_of_the_node_end_the_run(change: Object, told: str, tmp_path: Path) -> None:
    posed = case(few(), scheduler=False)
    posed.world.patch("ResourceSlice", "n1", change)
    assert told in stopped(posed, tmp_path)


def test_a_slice_that_is_new_or_gone_ends_the_run(tmp_path: Path) -> None:
    for name, told in (("new", "ResourceSlice n0 is new"), ("gone", "ResourceSlice n1 is gone")):
        posed, folder = case(few(), scheduler=False), tmp_path / name
        folder.mkdir()
        if name == "new":
            posed.world.load([published("n0", devices("x"), of="n1", pool="a-pool")])
        else:
            posed.world.delete("ResourceSlice", "n1")
        assert told in stopped(posed, folder)


def test_what_the_devices_of_the_document_do_not_depend_on_is_harmless(tmp_path: Path) -> None:
    """The last device of the node is taken, its driver has published the same again, and a claim is made that has nothing."""
    posed = case(few())
    posed.world.load([taken_by("theirs", got("n1", "b")), claim("idle", exactly())])
    posed.world.patch("ResourceSlice", "n1", {"spec": {"pool": {"generation": 2}}})
    assert posed.run(tmp_path).state == "done"
    assert posed.given("default/p") == named(posed.document.assignments[0].devices)
    journal = (tmp_path / "plan.journal.jsonl").read_text()
    assert "ResourceClaim default/theirs is new and has gpu.example.com/n1/b" in journal
    assert "idle" not in journal


def test_a_pod_that_got_another_device_in_the_last_moment_is_named(tmp_path: Path) -> None:
    posed = case(few())
    posed.world.when(lambda world: bool(world.tainted(LET_IN)), lambda: posed.world.load([taken_by("theirs", got("n1", "a"))]))
    outcome = posed.run(tmp_path)
    (name,) = (each.claim for each in posed.document.assignments[0].devices)
    assert posed.given("default/p") == [(name, "r", "n1", "b")]
    assert outcome.missed == [f"Pod default/p does not have device gpu.example.com/n1/a, named for claim {name}, request r"]


@pytest.mark.full
def test_a_killed_run_goes_on_with_the_devices_that_are_left(tmp_path: Path) -> None:
    """Of a shared claim the first pod has had the device allocated, which the document names for the second, too."""
    posed = case(fleet())

    def half(world: SimulatedCluster) -> bool:
        return not {"default/s", "default/t"}.isdisjoint(world.where())

    with Server(posed.world) as server:
        applying = Applying(server, posed.document, posed.snapshot, tmp_path)
        assert applying.killed(lambda kill: posed.world.when(half, kill)) is None
        assert {"default/s", "default/t"} - posed.world.where().keys()
        outcome = applying()
    assert (outcome.state, outcome.reasons, outcome.missed) == ("done", [], [])
    assert {each.pod: posed.given(each.pod) for each in posed.document.assignments} == {
        each.pod: named(each.devices) for each in posed.document.assignments
    }
    drift = [line for line in (tmp_path / "plan.journal.jsonl").read_text().splitlines() if '"drift"' in line]
    assert drift == []  # allocations by the run are its own
