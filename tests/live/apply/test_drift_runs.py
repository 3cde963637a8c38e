"""The kinds of drift end to end: a run over HTTP stops before the wave that would do harm, and goes on where nothing depends on the drift.

Each happens twice: between capture and start, and at the moment when the wave before is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubestow.checker.final_state import ends
from kubestow.checker.plan.plan import summary
from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.api.connect import connect
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply.drift import Document
from kubestow.live.apply.fence import Pauses
from kubestow.live.apply.journal import Journal, RunOrigin
from kubestow.live.apply.run import Execution, RunListener, RunOptions, RunOutcome
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from tests.api_server import Behaviour, Refused, Server, SimulatedCluster
from tests.live.apply import drift_cluster
from tests.live.apply.drift_cluster import move, plan, replica_set, running
from tests.live.apply.test_drift import API, CASES, WEB, Case, cluster
from tests.tiers import sampled

Object = dict[str, Any]
#: The status of this budget is its controller's, so that it is used up by a pod that is not Ready.
_UNREADY = "disruptions used up"


class Notes(RunListener):
    """Return the messages for users."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


def _world() -> SimulatedCluster:
    """The cluster, with a pod more that moves in the first wave; nobody schedules what the plans leave alone."""
    things = cluster()
    things.add(running("first-1", "n3", "ReplicaSet/first", cpu="100m"))
    things.add(replica_set("first", 1))
    for name in ("g-1", "g-2"):
        things.pod(name)["spec"]["schedulerName"] = "another"
    world = SimulatedCluster(Behaviour(stuck=lambda pod: pod["metadata"]["name"] == "web-1" and not world.evicted()))
    world.load(things.items(), templates_of_pods=True)
    return world


def _happen(world: SimulatedCluster, name: str, case: Case) -> None:
    """Let a change that is written for plain objects happen in the world."""
    before = drift_cluster.DriftCluster(world.items())
    after = before.copy()
    if name == _UNREADY:
        after.pod("web-2")["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    else:
        case.change(after)
    known = {each: before.get(*each) for each in before.keys()}  # noqa: SIM118
    for kind, key in known.keys() - after.keys():
        world.delete(kind, key, grace=0)
    for kind, key in [*after.keys()]:
        now, was = after.get(kind, key), known.get((kind, key))
        if was == now:
            continue
        if was is None or was["metadata"]["uid"] != now["metadata"]["uid"]:
            if was is not None:
                world.delete(kind, key, grace=0)
            now["metadata"].pop("resourceVersion", None)
            with contextlib.suppress(Refused):  # its controller was faster
                world.create(now)
        elif now["metadata"].get("deletionTimestamp") and not was["metadata"].get("deletionTimestamp"):
            world.delete(kind, key)
        else:
            world.replace(now)


class Run:
    """One run against a server, in which a kind of drift happens."""

    def __init__(self, name: str, document: Document, path: Path) -> None:
        self.name, self.document, self.path = name, document, path
        self.world, self.notes = _world(), Notes()
        self.timeout = 60.0  # seconds; no success depends on how fast the machine is

    def __call__(self, *, between: bool) -> RunOutcome:
        """Carry the document out; the drift happens before the start, or ``between`` the first wave and the second."""
        with Server(self.world) as server:
            return asyncio.run(self._run(str(server.kubeconfig(self.path / "config")), between=between))

    def _happen(self) -> None:
        _happen(self.world, self.name, CASES[self.name])

    async def _run(self, kubeconfig: str, *, between: bool) -> RunOutcome:
        async with connect(kubeconfig) as connection:
            live = LiveCluster(connection)
            await live.start()
            try:
                before = live.snapshot()
                if isinstance(self.document, RebalancePlan):
                    self.document.before, self.document.after, _ = summary(before, self.document)
                if between:
                    self.world.when(lambda world: self._first_is_done(), self._happen)
                else:
                    await asyncio.to_thread(self._happen)
                async with Journal.open(str(self.path / "plan.journal.jsonl"), RunOrigin("r", "s", "here")) as journal:
                    options = RunOptions(timeout=self.timeout, pause=0.02)
                    run = Execution(connection, live, journal, self.document, before, judge_rest, options, self.notes)
                    run.judge_end = lambda now, stands: ends(before, self.document, now, stands)
                    run.fence.pauses = Pauses(settle=0.0, patience=0.05, again=0.01)
                    return await run.run()
            finally:
                await live.close()

    def _first_is_done(self) -> bool:
        for pod in self.world.all("Pod", "default"):
            if pod["metadata"]["name"].startswith("first-") and pod["spec"].get("nodeName") == "n5":
                return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
        return False

    def touched(self) -> set[str]:
        """The pods that the run evicted or bound."""
        entries = [*self.world.evicted(), *self.world.bound()]
        return {entry.key for entry in entries if entry.actor == "client"}


def _after_first(document: Document) -> Document:
    """The document as the second wave of a plan whose first wave moves another pod."""
    if isinstance(document, Placement):
        return document
    later = [msgspec.structs.replace(each, step=each.step + 1, wave=2) for each in document.moves]
    return plan(move("first-1", "n3", "n5"), *later)


def _moments() -> list[tuple[str, bool]]:
    """All kinds at both moments; but a cordon of a node that the run has closed changes nothing, and cannot be seen."""
    return [(name, between) for name in CASES for between in (False, True) if (name, between) != ("node cordoned", True)]


@pytest.mark.parametrize(("name", "between"), sampled(_moments(), every=20, full=2))
def test_a_run_stops_before_harm(name: str, between: bool, tmp_path: Path) -> None:
    case = CASES[name]
    document = _after_first(case.depends)
    if isinstance(document, Placement) and between:
        return  # there is no wave before
    run = Run(name, document, tmp_path)
    if name == _UNREADY:
        run.timeout = 5.0  # the budget is asked for so long
    outcome = run(between=between)
    world = run.world
    assert world.budget_violations() == []
    assert outcome.not_opened == []
    if not case.fault:
        assert outcome.state == "done", outcome
        assert any(case.said in note for note in run.notes.said)
        return
    assert outcome.state == "stopped", outcome
    assert any(part in outcome.message for part in (case.fault, "of a coming step", "scaled down")), outcome
    allowed = {key for key in run.touched() if key.startswith("default/first-")}
    begun = between or name == _UNREADY  # which is asked for again before the wave that needs the budget
    assert run.touched() == (allowed if begun else set())
    assert bool(allowed) == begun


@pytest.mark.parametrize(("name", "between"), sampled(_moments(), every=40, full=2))
def test_a_run_goes_on_where_nothing_depends_on_the_drift(name: str, between: bool, tmp_path: Path) -> None:
    case = CASES[name]
    run = Run(name, _after_first(WEB if case.depends is API else API), tmp_path)
    outcome = run(between=between)
    assert outcome.state == "done", outcome
    assert outcome.missed == []
    assert run.notes.said, "the drift is said"
    assert run.world.budget_violations() == []
    assert outcome.not_opened == []
    moved = "default/web-1" if case.depends is API else "default/api-1"
    assert {"default/first-1", moved} <= {entry.key for entry in run.world.evicted() if entry.actor == "client"}
