"""The search for preferences in two processes: what the second one brings, and what becomes of the first when it does not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Placement, TierResult
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver import rules
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.executors.second_process import Channel, SecondProcess
from kubestow.solver.objective.assign_zones import value_of
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import AssignedZones
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search import preference_search, second_search
from kubestow.solver.search.groups import ClassGroups
from kubestow.solver.search.outcome import SoftOutcome, StartPlacement
from kubestow.solver.search.parameters import PreferenceSearchParameters
from kubestow.solver.search.preference_search import PreferenceSearch
from kubestow.solver.search.second_search import GroupFound, PlacementFound, SecondSearch, SecondSearchParameters
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

NOTE = "second search process ended early"


def repels(app: str) -> Object:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}}


def cluster(*, pairs: int = 4) -> Snapshot:
    """Pairs of workloads that repel each other over three zones: no bound without search is tight."""
    objects = [node(f"n{i}", cpu="8", labels={"zone": f"z{i % 3}"}) for i in range(9)]
    for c in range(pairs):
        objects += [pod(f"a{c}-{i}", cpu="1", labels={"app": f"a{c}"}, affinity=repels(f"b{c}")) for i in range(4)]
        objects += [pod(f"b{c}-{i}", cpu="1", labels={"app": f"b{c}"}, affinity=repels(f"b{c}")) for i in range(3)]
    return from_objects(objects)


def soft(result: Placement) -> TierResult:
    return next(t for t in result.objective if t.tier == "soft")


class Started:
    """Second processes that were started."""

    def __init__(self) -> None:
        self.all: list[SecondProcess] = []
        self.then: Callable[[SecondProcess], None] = lambda process: None

    def start(self, work: Any, *arguments: Any) -> SecondProcess:
        process = SecondProcess(work, *arguments)
        self.all.append(process)
        self.then(process)
        return process


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Every model counts as large, so that annealing and groups have their turn; a second process begins at once."""
    result = Started()
    monkeypatch.setattr(preference_search, "PARAMETERS", PreferenceSearchParameters(small_variables=-1, whole_variables=-1))
    monkeypatch.setattr(second_search, "SECOND_LIMITS", SecondSearchParameters(start_seconds=0.0, min_remaining_seconds=0.0))
    monkeypatch.setattr(second_search, "SecondProcess", result.start)
    return result


@pytest.mark.full
def test_the_second_process_proves_what_the_first_found(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one asks no group here: all that is proved comes from the other."""

    def nothing(*_: Any) -> bool:
        pytest.fail("it bounded groups itself")

    started.then = lambda process: monkeypatch.setattr(ClassGroups, "bound", nothing)
    result = place(cluster(), Options(workers=2, time_limit=60))
    assert len(started.all) == 1
    assert soft(result).value == soft(result).bound
    assert started.all[0]._process.poll() is not None
    assert not any(NOTE in note for note in result.notes)


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 2, "deterministic": True}, {"workers": 2, "engine": "greedy"}])
def test_there_is_none_where_it_must_not_be(options: dict[str, Any], started: Started) -> None:
    place(cluster(pairs=1), Options(time_limit=0.1, **options))
    assert not started.all


@pytest.mark.full
@pytest.mark.parametrize("how", ["killed", "cannot be started"])
def test_without_the_second_process_the_first_does_all_by_itself(how: str, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(process: SecondProcess) -> None:
        os.kill(process._process.pid, signal.SIGKILL)
        process._process.wait()
        while not process.over:
            time.sleep(0.01)

    def failing(*_: Any) -> SecondProcess:
        raise OSError("no more processes")

    started.then = killed
    if how != "killed":
        monkeypatch.setattr(second_search, "SecondProcess", failing)
    result = place(cluster(), Options(workers=2, time_limit=60))
    assert soft(result).value == soft(result).bound
    assert any(NOTE in note for note in result.notes) == (how == "killed")
    assert len(started.all) == (how == "killed")


@pytest.mark.full
def test_it_is_ended_when_the_search_is_interrupted_or_fails(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> bool:
        raise RuntimeError("broken")

    monkeypatch.setattr(PreferenceSearch, "_adopt", broken)
    with pytest.raises(RuntimeError, match="broken"):
        place(cluster(), Options(workers=2, time_limit=60))
    assert [process._process.poll() is None for process in started.all] == [False]


# --- messages -------------------------------------------------------------------------------------------------------------------------


class Told:
    """A peer that has said something already."""

    bounds = False

    def __init__(self, *messages: PlacementFound | GroupFound) -> None:
        self.messages, self.heard = list(messages), list[Any]()

    def begin(self, best: SoftOutcome) -> None:
        """It has begun."""

    def send(self, message: PlacementFound | GroupFound) -> None:
        self.heard.append(message)

    def received(self) -> list[PlacementFound | GroupFound]:
        messages, self.messages = self.messages, []
        return messages

    def close(self) -> bool:
        return False


def searching(snapshot: Snapshot, sequence: list[tuple[int, int, int]], peer: Told, options: Options) -> PreferenceSearch:
    compiled = compile_cluster(snapshot, select(snapshot))
    active = rules.build(compiled)
    counts = np.zeros((compiled.n_classes, compiled.n_nodes), dtype=np.int64)
    for g, n, k in sequence:
        counts[g, n] += k
    start = StartPlacement(counts, sequence)
    return PreferenceSearch(Objective(compiled, active), possible(compiled, active), start, RunContext.start(options), peer)


def attracted() -> Snapshot:
    """Two pods, the first of which prefers to be next to the second."""
    affinity = {"podAffinity": repels("b")["podAntiAffinity"]}
    objects = [node(f"n{i}", cpu="2", labels={"zone": f"z{i}"}) for i in range(2)]
    return from_objects([*objects, pod("a", affinity=affinity), pod("b", labels={"app": "b"})])


def test_a_better_placement_of_the_other_search_is_taken_over() -> None:
    peer = Told(PlacementFound([(0, 1, 1), (1, 1, 1)], 10))
    result = searching(attracted(), [(0, 0, 1), (1, 1, 1)], peer, Options(engine="lns", time_limit=1e-6)).improve()
    assert result.value == 10
    assert result.counts.tolist() == [[0, 1], [0, 1]]
    assert result.sequence == [(0, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize("other", [PlacementFound([(0, 0, 1), (1, 1, 1)], 10**6), PlacementFound([(1, 1, 1)], 10**6)])
def test_one_that_is_worth_less_than_it_says_or_places_fewer_is_not(other: PlacementFound) -> None:
    options = Options(engine="lns", time_limit=1e-6)
    result = searching(attracted(), [(0, 0, 1), (1, 1, 1)], Told(other), options).improve()
    assert (result.value, result.counts.tolist()) == (0, [[1, 0], [0, 1]])


def test_bounds_of_groups_are_taken_over_and_nothing_looser() -> None:
    for bound, expected in ((4, 4), (50, 10)):  # one pull of 10 is all there is
        peer = Told(GroupFound(0, bound, None, None, unverified=False, proved=False))
        result = searching(attracted(), [(0, 0, 1), (1, 1, 1)], peer, Options(engine="lns", time_limit=1e-6)).improve()
        assert result.bound == expected


@pytest.mark.full
def test_the_other_search_hears_of_groups_and_of_placements() -> None:
    peer = Told()
    search = searching(cluster(pairs=1), [(0, 0, 4), (1, 0, 3)], peer, Options(engine="lns", workers=1, time_limit=30))
    search.go_on()
    groups = [message for message in peer.heard if isinstance(message, GroupFound)]
    placements = [message for message in peer.heard if isinstance(message, PlacementFound)]
    assert groups
    assert placements
    counts = np.zeros_like(search.eligibility)
    for g, n, k in placements[-1].sequence:
        counts[g, n] += k
    assert value_of(search.objective, counts, placements[-1].sequence)[0] == placements[-1].value


def test_what_is_known_of_a_group_only_grows() -> None:
    rows = np.ones((1, 2), dtype=np.int64)
    group = ClassComponent([0], 100, counts=rows, value=50)
    assert not GroupFound(0, 90, rows * 2, 40, unverified=False, proved=False).note(group)
    assert (group.bound, group.value, group.counts is rows) == (90, 50, True)
    assert GroupFound(0, 95, rows * 2, 60, unverified=True, proved=False).note(group)
    assert (group.bound, group.value, group.unverified) == (90, 60, True)
    assert GroupFound(0, 90, rows, 60, unverified=False, proved=True).note(group)
    assert (group.unverified, group.proved) == (False, True)


def test_the_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four workers CP-SAT has three in each process, as one thread of the other is no part of it."""
    given: list[Options] = []

    class Recorded:
        over = False
        failed = False

        def __init__(self, work: Any, compiled: Any, limits: Any, start: StartPlacement, options: Options) -> None:
            given.append(options)

        def received(self) -> list[Any]:
            return []

        def close(self) -> None:
            return

    monkeypatch.setattr(second_search, "SecondProcess", Recorded)
    monkeypatch.setattr(second_search, "SECOND_LIMITS", SecondSearchParameters(start_seconds=0.0, min_remaining_seconds=0.0))
    search = searching(attracted(), [(0, 0, 1), (1, 1, 1)], Told(), Options(workers=4, seed=2**31 - 1))
    peer = SecondSearch(_no_work, search.cluster, search.eligibility, search.cpsat)

    def workers() -> int:
        return search.cpsat._solver(1, tight=False, quick=False).parameters.num_workers

    best = SoftOutcome(search.eligibility, [], AssignedZones(), 0, 0)
    peer.begin(best)
    peer.begin(best)
    assert [(options.workers, options.seed) for options in given] == [(3, 0)]
    assert workers() == 3
    peer.received()
    assert workers() == 3
    monkeypatch.setattr(Recorded, "over", True)
    peer.received()
    assert workers() == 4
    search.cpsat.lent = 1
    peer.close()
    assert workers() == 4


def _no_work(channel: Channel) -> None:
    """Do nothing."""


class Bounding(Told):
    """A search that keeps bounding groups and reports nothing."""

    bounds = True
    calls = 0

    def received(self) -> list[PlacementFound | GroupFound]:
        self.calls += 1
        return super().received()


def test_a_search_that_can_move_nothing_waits_for_the_other_one_in_peace() -> None:
    """Pods that share a claim stay where they are, in one zone though they repel each other."""
    storage: list[Object] = [
        {
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "csi.example",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"},
            "spec": {"storageClassName": "s", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ]  # fmt: skip
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    pods = [pod(name, labels={"app": "b"}, affinity=repels("b"), volumes=volumes) for name in "ab"]
    snapshot = from_objects([*(node(f"n{i}", labels={"zone": f"z{i}"}) for i in range(2)), *storage, *pods])
    other = Bounding()
    search = searching(snapshot, [(0, 0, 2)], other, Options(engine="lns", workers=2, time_limit=0.5))
    search._second = False
    best = search.improve()
    assert best.value == -20 < best.bound
    assert other.calls < 50
