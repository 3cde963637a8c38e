"""Survival decided by many workers: equal documents for any distribution of work, workers that die or are gone,
and interruption."""

from __future__ import annotations

import threading

import msgspec
import pytest

from kubestow.models.documents.survival import Survival
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive import search
from kubestow.solver.capacity.survive.answer import Wishes, answer
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.search import FailureSearch, Part
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.executors.pool import WorkerPool, pool_of
from kubestow.solver.runtime.options import Options
from tests.solver.capacity.survive.clusters import doubled, running
from tests.solver.executors.test_pool import Inline
from tests.tiers import in_slow

OPTIONS = Options(time_limit=20, workers=1, deterministic=True)
ASKED = (
    ("mixed", SurviveOptions(at_once=2)),
    ("anti", SurviveOptions("zone")),
    ("gangs", SurviveOptions()),
    ("spread", SurviveOptions(priority=10, preemption=True)),
)


def bytes_of(snapshot: Snapshot, request: SurviveOptions, pool: WorkerPool | None, options: Options = OPTIONS) -> bytes:
    return msgspec.json.encode(answer(snapshot, request, options, Wishes(), pool=pool))


@pytest.mark.parametrize(("kind", "asked"), ASKED[:2])
def test_whoever_decides_the_document_is_the_same(kind: str, asked: SurviveOptions) -> None:
    snapshot = running(2, kind)
    with WorkerPool(Inline, 2) as pool:
        assert bytes_of(snapshot, asked, pool) == bytes_of(snapshot, asked, None)


@pytest.mark.full
@pytest.mark.parametrize("dask", [None, in_slow("local")])
def test_with_processes_and_with_workers_of_dask_the_document_is_the_same(dask: str | None) -> None:
    pytest.importorskip("distributed")
    pool = pool_of(2, dask)
    assert pool is not None
    with pool:
        for kind, request in ASKED:
            for snapshot in (running(2, kind), doubled(3, kind)):
                assert bytes_of(snapshot, request, pool) == bytes_of(snapshot, request, None), (dask, kind)


def test_with_little_deterministic_time_it_is_the_same_too() -> None:
    snapshot, request = running(2, "mixed", nodes=6, pods=14), SurviveOptions(at_once=2)
    for seconds in (0.02, 0.08, 0.3):
        options = Options(time_limit=seconds, workers=1, deterministic=True, causes=False)
        with WorkerPool(Inline, 2) as pool:
            shared = survive(snapshot, request, options, pool=pool)
        assert msgspec.json.encode(shared) == msgspec.json.encode(survive(snapshot, request, options))


def test_scenarios_of_workers_that_are_gone_are_decided_here() -> None:
    snapshot, request = running(2, "mixed"), SurviveOptions(at_once=2)
    alone = survive(snapshot, request, OPTIONS)
    with WorkerPool(lambda: Inline(ends_after=2), 2) as pool:
        found = survive(snapshot, request, OPTIONS, pool=pool)
    assert found.notes == [*alone.notes, "continued without worker processes: tcp://here: the Dask scheduler is gone"]
    assert found.outcomes == alone.outcomes


def test_after_a_stop_what_is_certain_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, request, stop = running(2, "mixed"), SurviveOptions(at_once=2), threading.Event()
    decided = FailureSearch.decided

    def first(self: FailureSearch, part: Part) -> object:
        if len(part.failed) == 2:
            stop.set()
        return decided(self, part)

    monkeypatch.setattr(search.FailureSearch, "decided", first)
    with WorkerPool(Inline, 2) as pool:
        found: Survival = survive(snapshot, request, OPTIONS, stop=stop, pool=pool)
    assert found.scenarios.open
    assert not found.certified
    assert any("interrupted" in note for note in found.notes)


def test_a_failure_whose_worker_dies_is_open_and_a_note_says_so() -> None:
    class Dying(Inline):
        def submit(self, work, *arguments):  # type: ignore[no-untyped-def]
            done = super().submit(work, *arguments)
            if any(isinstance(part, Part) and part.how == "quick" for part in arguments[-1]):
                done = type(done)()
                done.set_exception(ChildProcessError())
            return done

        def is_lost(self, error: BaseException) -> bool:
            return isinstance(error, ChildProcessError)

    with WorkerPool(Dying, 2) as pool:
        found = survive(running(2, "mixed"), SurviveOptions(), OPTIONS, pool=pool)
    assert found.scenarios.open == found.scenarios.distinct == pool.lost
    assert any("worker died each time" in note for note in found.notes)
