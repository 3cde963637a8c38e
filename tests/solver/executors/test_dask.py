"""Tasks on Dask's workers: real ones, processes on loopback. Workers and the scheduler die here."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubestow.solver.executors import dask_tasks, dask_workers, files
from kubestow.solver.executors.dask_workers import DaskWorkers, open_dask
from kubestow.solver.executors.run import run
from kubestow.solver.executors.workers import Processes, SchedulerGone, WorkersError
from tests.solver.executors import work
from tests.tiers import in_slow

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def local() -> Iterator[DaskWorkers]:
    workers = open_dask("local", 2)
    yield workers
    workers.close(now=True)


class Elsewhere:
    """A scheduler and workers as commands of Dask start them; ``file``: which the scheduler wrote."""

    def __init__(self, folder: Path) -> None:
        self.file, self._folder = folder / "scheduler.json", folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self.file))

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
        with (self._folder / "log").open("ab") as log:
            self.started.append(
                subprocess.Popen(command, cwd=self._folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=log, stderr=log)
            )
        return self.started[-1]

    def await_scheduler(self) -> None:
        until = time.monotonic() + 60
        while not self.file.exists() and time.monotonic() < until:
            time.sleep(0.1)

    def worker(self, *arguments: str) -> None:
        self.await_scheduler()
        self._start("worker", "--scheduler-file", str(self.file), "--host", "127.0.0.1", "--no-nanny", *arguments)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    place = Elsewhere(tmp_path)
    yield place
    for process in place.started:
        process.kill()
        process.wait(20)


@pytest.mark.full
def test_what_is_no_scheduler_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "_ANSWER_SECONDS", 0.3)
    with socket.socket() as deaf:  # takes connections, and says nothing
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        port = deaf.getsockname()[1]
        for target in (f"tcp://127.0.0.1:{port}", f"127.0.0.1:{port}"):
            with pytest.raises(WorkersError, match="no Dask scheduler answers there") as raised:
                open_dask(target)
            assert "\n" not in str(raised.value)
    with pytest.raises(WorkersError, match="nowhere: No such file or directory; an address"):
        open_dask("nowhere")
    (tmp_path / "file").write_text("{}", encoding="utf-8")
    with pytest.raises(WorkersError, match="not a file that a Dask scheduler writes"):
        open_dask(str(tmp_path / "file"))
    with pytest.raises(WorkersError, match="no Dask scheduler answers there"):
        open_dask("nonsense://here")


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(WorkersError, match=r"pip install 'kubestow\[dask\]'"):
        open_dask("local")


def test_other_versions_are_named_on_both_sides() -> None:
    here = dict(dask_tasks.versions())
    assert here.keys() == {"kubestow", "Python", "ortools", "msgspec", "numpy"}
    dask_tasks.insist_on(dask_tasks.versions(), "tcp://there", here)
    with pytest.raises(WorkersError, match=f"worker tcp://there has other versions: ortools 9.1 there, {here['ortools']} here"):
        dask_tasks.insist_on(dask_tasks.versions(), "tcp://there", here | {"ortools": "9.1"})


def test_a_file_is_brought_in_blocks_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_here", files._Here())
    monkeypatch.setattr(files, "BLOCK_BYTES", 7)
    folder = tmp_path / "there"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "b.yaml").write_bytes(b"b" * 30)
    (folder / "a.yaml").write_bytes(b"")
    for path in (folder, folder / "inner" / "b.yaml", folder / "a.yaml"):
        shared = files.SharedPath(str(path), files.digest_of(str(path)))
        assert files.local_path(shared) == str(path)
        with monkeypatch.context() as patch:
            patch.setattr(files, "_sees", lambda shared: False)
            with pytest.raises(files.NotHereError):
                files.local_path(shared)
            for block in files.blocks(str(path)):
                files.take(shared, block, str(tmp_path))
            brought = files.local_path(shared)
            assert brought != str(path)
            assert files.digest_of(brought) == shared.digest
    with pytest.raises(OSError, match="it changed"):
        files.take(files.SharedPath("/x", "0"), files.FileBlock(0, b"other"))


def test_files_that_no_task_uses_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_here", files._Here())
    monkeypatch.setattr(files, "_MAX_KEPT_BYTES", 25)
    monkeypatch.setattr(files, "_sees", lambda shared: False)
    brought = []
    for number in range(4):
        (tmp_path / "x").write_bytes(b"%d" % number * 10)
        brought.append(files.SharedPath("/x", files.digest_of(str(tmp_path / "x"))))
        files.begin()
        files.take(brought[-1], files.FileBlock(0, b"%d" % number * 10), str(tmp_path))
    assert [files.is_kept(shared.digest) for shared in brought] == [False, False, True, True]
    with pytest.raises(files.NotHereError):
        files.local_path(brought[0])


@pytest.mark.full
def test_results_and_failures_are_those_of_processes(local: DaskWorkers) -> None:
    here, found = Processes(2), []
    for workers in (here, local):
        done = work.by_task(run(workers, work.fail, range(60)))
        found.append({task: (each.value, repr(each.error), each.lost) for task, each in done.items()})
    here.close(now=True)
    assert found[0] == found[1]
    assert local.width == 2


@pytest.mark.full
def test_a_worker_that_is_killed_loses_nothing_and_does_nothing_twice(local: DaskWorkers) -> None:
    tasks, done, pids = run(local, work.pid, range(100)), [], set[int]()
    for each in tasks:
        done.append(each.task)
        assert each.error is None
        pids.add(each.value or 0)
        if len(done) == 20:
            os.kill(each.value or 0, signal.SIGKILL)
    assert sorted(done) == list(range(100))
    assert len(pids) >= 2


@pytest.mark.slow
def test_a_task_that_kills_its_worker_is_charged_alone(local: DaskWorkers) -> None:
    done = work.by_task(run(local, work.kill_always, range(12), arguments=lambda task: (task, 7)))
    assert done.keys() == set(range(12))
    assert done[7].lost
    others = {task: each for task, each in done.items() if task != 7}
    assert [task for task, each in others.items() if each.lost] == []
    assert all(each.value == task for task, each in others.items())


@pytest.mark.full
def test_local_workers_that_restart_slowly_are_replaced() -> None:
    """LocalCluster closes a worker for good that is not back within a timeout, as on a busy machine."""
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0s"}):
        workers = open_dask("local", 2)
        try:
            done = work.by_task(run(workers, work.kill_always, range(6), arguments=lambda task: (task, 3)))
        finally:
            workers.close(now=True)
    assert [task for task, each in done.items() if each.lost] == [3]


@pytest.mark.full
def test_short_tasks_go_to_workers_together_and_long_ones_alone(local: DaskWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, submit = list[int](), local._executor.submit

    def counted(function: Any, expected: Any, parcels: Any, **where: Any) -> Any:
        sent.append(len(parcels))
        return submit(function, expected, parcels, **where)

    monkeypatch.setattr(local._executor, "submit", counted)
    local._latest_seconds.clear()
    done = work.by_task(run(local, work.square, range(1000)))
    assert {task: each.value for task, each in done.items()} == {task: task * task for task in range(1000)}
    assert (sum(sent), sent[0], max(sent) <= 64, len(sent) < 300) == (1000, 1, True, True)
    list(run(local, work.slow, range(2), arguments=lambda task: (0.3,)))
    sent.clear()
    list(run(local, work.square, range(20)))
    assert sent == [1] * 20  # according to the longest of the last ones


@pytest.mark.full
def test_what_cannot_be_sent_back_is_the_error_of_its_task_alone(local: DaskWorkers) -> None:
    local._latest_seconds.clear()
    done = work.by_task(run(local, work.odd, range(200)))
    assert [task for task, each in done.items() if each.error is not None] == [7]
    assert {each.value for task, each in done.items() if task != 7} == set(range(200)) - {7}


@pytest.mark.full
def test_an_error_that_cannot_be_sent_back_is_told_with_what_it_says(local: DaskWorkers) -> None:
    done = work.by_task(run(local, work.unsendable, range(20)))
    assert {task: str(each.error) for task, each in done.items() if each.error is not None} == {7: "Unsendable: this and that"}


@pytest.mark.full
def test_a_file_that_workers_do_not_see_is_brought_once_to_each(local: DaskWorkers, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(os.urandom(20_000_000))
    shared = local.share(str(path), files.digest_of(str(path)))
    done = work.by_task(run(local, work.size_of, range(50), arguments=lambda task: (task, shared)))
    assert {each.value[2] for each in done.values() if each.value} == {str(path)}
    assert local.sent == 0
    local._client.run(work.hide)
    done = work.by_task(run(local, work.size_of, range(50), arguments=lambda task: (task, shared)))
    assert [each.error for each in done.values() if each.error] == []
    assert {each.value[1] for each in done.values() if each.value} == {20_000_000}
    assert {Path(each.value[2]).name for each in done.values() if each.value} == {"snapshot.json"}
    assert len({each.value[2] for each in done.values() if each.value}) == 2
    assert local.sent == 2 * 20_000_000
    path.write_bytes(b"changed")
    other = local.share(str(path), "0" * 64)
    (failed,) = run(local, work.size_of, [0], arguments=lambda task: (task, other))
    assert "it changed while tasks used it" in str(failed.error)


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGKILL, in_slow(signal.SIGTERM)])
def test_a_scheduler_that_is_gone_is_told_and_what_is_done_is_kept(elsewhere: Elsewhere, how: signal.Signals) -> None:
    elsewhere.worker("--nthreads", "1")
    workers = open_dask(str(elsewhere.file))
    done, started = list[int](), 0.0
    result = run(workers, work.slow, range(1000), arguments=lambda task: (0.05,))
    for each in result:
        done.append(each.task)
        if len(done) == 10:
            elsewhere.scheduler.send_signal(how)
            started = time.monotonic()
            break
    with pytest.raises(SchedulerGone, match="the Dask scheduler is gone"):
        done.extend(each.task for each in result if each.error is None)
    workers.close(now=True)
    assert time.monotonic() - started < 45
    assert 10 <= len(done) < 1000
    assert len(set(done)) == len(done)


@pytest.mark.full
def test_workers_that_are_not_fit_are_named(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere.worker("--nthreads", "2", "--name", "two")
    with pytest.raises(WorkersError, match="has 2 threads: kubestow's tasks need workers with one"):
        _patiently(str(elsewhere.file))
    elsewhere.started.pop().kill()
    with monkeypatch.context() as soon:
        soon.setattr(dask_workers, "_ANSWER_SECONDS", 3)
        until = time.monotonic() + 60  # the scheduler takes a while to see it
        while "the scheduler has no workers" not in (said := _problem(str(elsewhere.file))):
            assert time.monotonic() < until, said
    elsewhere.worker("--nthreads", "1")
    workers = _patiently(str(elsewhere.file))
    elsewhere.worker("--nthreads", "1")
    until = time.monotonic() + 40
    while workers.width < 2 and time.monotonic() < until:
        time.sleep(0.3)
        workers.check()
    assert workers.width == 2  # who comes later helps
    workers.close(now=False)
    there = [(name, "0" if name == "numpy" else version) for name, version in dask_tasks.versions()]
    monkeypatch.setattr(dask_tasks, "VERSIONS", repr(there))
    with pytest.raises(WorkersError, match="has other versions: numpy 0 there"):
        _patiently(str(elsewhere.file))


@pytest.mark.full
def test_workers_that_go_right_after_they_were_waited_for_are_missed(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    monkeypatch.setattr(distributed.Client, "wait_for_workers", lambda client, n_workers, timeout: None)
    elsewhere.await_scheduler()
    with pytest.raises(WorkersError, match="the scheduler has no workers"):
        open_dask(str(elsewhere.file))


def _patiently(target: str) -> DaskWorkers:
    """Connect when the worker that was just started is there."""
    until = time.monotonic() + 60
    while True:
        try:
            return open_dask(target)
        except WorkersError as error:
            if not re.search("no workers|does not answer", str(error)) or time.monotonic() > until:
                raise


def _problem(target: str) -> str:
    """Return the message after the worker that was just killed is known to be gone."""
    until = time.monotonic() + 40
    while True:
        with pytest.raises(WorkersError) as raised:
            open_dask(target)
        if ("threads" not in str(raised.value) and "not answer" not in str(raised.value)) or time.monotonic() > until:
            return str(raised.value)
