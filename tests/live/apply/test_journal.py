"""The journal as a file: its content before a request is sent, its only writer, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from kubestow.live.api.answers import Api, Body, Object, ServerAnswer, Unreachable
from kubestow.live.apply.journal import Journal, JournaledApi, JournalLost, RunOrigin, journal_path
from kubestow.models.documents.journal import Fact, read
from kubestow.models.snapshot.snapshot import InputError
from tests.live.apply.journals import Script

ORIGIN = RunOrigin("d" * 64, "e" * 64, "https://127.0.0.1:6443", "uid-of-kube-system")
BINDING: Object = {"kind": "Binding", "target": {"name": "n1"}}


class FakeApi:
    """Answers, and remembers what the journal held by then."""

    def __init__(self, path: Path, *answers: ServerAnswer | Exception) -> None:
        self.path = path
        self.held: list[list[dict[str, Any]]] = []
        self._answers = list(answers)

    async def send(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        params: Mapping[str, str] | None = None,
        patch: Literal["merge", "json", "strategic"] = "merge",
    ) -> ServerAnswer:
        self.held.append(held(self.path))
        answer = self._answers.pop(0) if self._answers else ServerAnswer(201)
        if isinstance(answer, Exception):
            raise answer
        return answer


def held(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_request_is_on_disk_before_it_is_sent_and_its_answer_before_it_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "plan.json.journal.jsonl"
    fake = FakeApi(path, ServerAnswer(409, {"reason": "Conflict", "message": "the UID in the precondition …"}))
    api: Api = fake

    async def run() -> None:
        async with Journal.open(str(path), ORIGIN) as journal:
            journaled = JournaledApi(api, journal).of(3, "a/p")
            await journaled.send("POST", "/api/v1/namespaces/a/pods/p/binding", BINDING, params={"fieldManager": "kubestow"})
            await journaled.send("GET", "/api/v1/nodes/n1")

    asyncio.run(run())
    request = {
        "line": "request", "number": 1, "method": "POST", "path": "/api/v1/namespaces/a/pods/p/binding", "body": BINDING,
        "params": {"fieldManager": "kubestow"}, "step": 3, "pod": "a/p",
    }  # fmt: skip
    first, sent = fake.held[0]
    assert {key: value for key, value in sent.items() if key != "time"} == request
    assert first["line"] == "run"
    assert len(fake.held[1]) == len(held(path)) == 3  # that something was read is not written
    answer = held(path)[2]
    assert (answer["line"], answer["number"], answer["code"], answer["reason"]) == ("answer", 1, 409, "Conflict")
    assert answer["message"].startswith("the UID")


def test_a_lost_connection_is_written_and_raised(tmp_path: Path) -> None:
    path = tmp_path / "j"

    async def run() -> None:
        async with Journal.open(str(path), ORIGIN) as journal:
            await JournaledApi(FakeApi(path, Unreachable("connection reset")), journal).send("POST", "/x", {})

    with pytest.raises(Unreachable):
        asyncio.run(run())
    last = held(path)[-1]
    assert (last["code"], last["message"]) == (0, "connection reset")


def test_the_file_is_for_its_owner_alone_also_if_it_was_not(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.touch(mode=0o644)
    os.chmod(path, 0o644)
    asyncio.run(Journal.open(str(path), ORIGIN).close())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_parallel_requests_share_what_goes_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    real = os.fsync

    def sync(file: int) -> None:
        syncs.append(file)
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    path = tmp_path / "j"
    fake = FakeApi(tmp_path / "j")

    async def run() -> None:
        async with Journal.open(str(path), ORIGIN) as journal:
            api = JournaledApi(fake, journal)
            await asyncio.gather(*(api.of(n, "a/p").send("POST", f"/{n}", {}) for n in range(1, 51)))

    asyncio.run(run())
    assert len(syncs) < 20
    record = read(str(path))  # which checks the numbers
    assert len(record.lines) == 101
    for n, seen in enumerate(fake.held, 1):
        assert any(line.get("path") == f"/{n}" for line in seen)


def test_two_runs_never_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal.open(str(path), ORIGIN)
    program = (
        "import sys; from kubestow.live.apply.journal import Journal, RunOrigin\n"
        "from kubestow.models.snapshot.snapshot import InputError\n"
        "try: Journal.open(sys.argv[1], RunOrigin('d' * 64, 'e' * 64, ''), resume=True)\n"
        "except InputError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60)
    assert ran.stdout == f"{path}: another run writes this journal\n", ran.stderr
    with pytest.raises(InputError, match="another run"):
        Journal.open(str(path), ORIGIN, resume=True)
    asyncio.run(journal.close())
    asyncio.run(Journal.open(str(path), ORIGIN, resume=True).close())


def test_a_run_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "j"
    script = Script()
    script.evict(1, "a/p")
    script.fact("done", step=1, pod="a/p")
    script.evict(2, "a/q", code=None)
    path.write_bytes(script.text + b'{"line":"answer","number":2,"ti')

    async def run() -> Journal:
        async with Journal.open(str(path), ORIGIN, resume=True) as journal:
            assert journal.resumed
            assert (journal.progress.of(1, "a/p").done, journal.progress.of(2, "a/q").done) == (True, False)
            await JournaledApi(FakeApi(path), journal).send("POST", "/x", {})
        return journal

    journal = asyncio.run(run())
    assert journal.run == "r1"
    record = read(str(path))
    assert not record.torn
    assert [type(line).__name__ for line in record.lines] == ["Run", "Request", "Answered", "Fact", "Request", "Run", "Request", "Answered"]


def test_a_new_run_where_there_is_nothing_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b'{"line":"ru')  # killed in its first moment
    journal = Journal.open(str(path), ORIGIN, resume=True)
    asyncio.run(journal.close())
    assert not journal.resumed
    assert len(read(str(path)).lines) == 1


def test_a_journal_of_a_run_that_asked_for_nothing_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "j"
    script = Script()
    script.fact("end", message="the Lease is taken")
    path.write_bytes(script.text)
    journal = Journal.open(str(path), RunOrigin("f" * 64, "f" * 64, "https://other"))
    asyncio.run(journal.close())
    assert (journal.resumed, len(read(str(path)).lines)) == (False, 1)


@pytest.mark.parametrize(("ended", "how"), [(True, "that ended with 1 pod done"), (False, "that was cut off with 1 pod done")])
def test_a_journal_that_is_there_is_not_overwritten(tmp_path: Path, ended: bool, how: str) -> None:
    path = tmp_path / "j"
    script = Script()
    script.evict(1, "a/p")
    script.fact("done", step=1, pod="a/p")
    if ended:
        script.fact("end")
    path.write_bytes(script.text)
    with pytest.raises(InputError, match=f"{how}; continue with --resume, or move the file away"):
        Journal.open(str(path), ORIGIN)
    assert path.read_bytes() == script.text


@pytest.mark.parametrize(
    ("origin", "what"),
    [
        (RunOrigin("f" * 64, "e" * 64, ORIGIN.server, ORIGIN.cluster), "document"),
        (RunOrigin("d" * 64, "f" * 64, ORIGIN.server, ORIGIN.cluster), "snapshot"),
        (RunOrigin("d" * 64, "e" * 64, ORIGIN.server, "another uid"), "cluster"),
        (RunOrigin("d" * 64, "e" * 64, "https://127.0.0.1:1"), "cluster"),
    ],
)
def test_the_journal_of_something_else_is_refused(tmp_path: Path, origin: RunOrigin, what: str) -> None:
    path = tmp_path / "j"
    script = Script()
    script.evict(1, "a/p")
    path.write_bytes(script.text)
    with pytest.raises(InputError, match=f"the journal of another {what}"):
        Journal.open(str(path), origin, resume=True)


def test_the_address_of_a_cluster_may_change(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(Script().text)
    asyncio.run(Journal.open(str(path), RunOrigin("d" * 64, "e" * 64, "https://other", ORIGIN.cluster), resume=True).close())


def test_a_full_disk_ends_the_run_before_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    fake = FakeApi(path)
    room = [20]

    def write(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = real(file, data[: room[0]])
        room[0] -= taken
        return taken

    async def run() -> None:
        journal = Journal.open(str(path), ORIGIN)
        monkeypatch.setattr(os, "write", write)
        api = JournaledApi(fake, journal)
        for _ in range(2):
            with pytest.raises(JournalLost, match="No space left on device"):
                await api.send("POST", "/x", {})
        await journal.close()

    real = os.write
    asyncio.run(run())
    assert fake.held == []
    assert read(str(path)).torn


def vanish(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def vanish_with_its_directory(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()


def replace(path: Path) -> None:
    path.unlink()
    path.touch()


@pytest.mark.parametrize("harm", [vanish, move, vanish_with_its_directory, replace])
def test_a_journal_that_nobody_would_find_again_ends_the_run_before_the_request(tmp_path: Path, harm: Any) -> None:
    path = tmp_path / "folder" / "j"
    path.parent.mkdir()
    fake = FakeApi(path)

    async def run() -> None:
        async with Journal.open(str(path), ORIGIN) as journal:
            harm(path)
            with pytest.raises(JournalLost):
                await JournaledApi(fake, journal).send("POST", "/x", {})

    asyncio.run(run())
    assert fake.held == []


def test_a_cancelled_request_leaves_the_journal_whole(tmp_path: Path) -> None:
    path = tmp_path / "j"

    class Slow(FakeApi):
        async def send(self, *_: Any, **__: Any) -> ServerAnswer:
            await asyncio.sleep(60)
            return ServerAnswer(201)

    async def run() -> None:
        async with Journal.open(str(path), ORIGIN) as journal:
            for turns in range(6):
                task = asyncio.create_task(JournaledApi(Slow(path), journal).send("POST", "/x", {}))
                for _ in range(turns):
                    await asyncio.sleep(0.001)
                task.cancel()
                await asyncio.wait([task])
            await journal.fact("end", message="interrupted")

    asyncio.run(run())
    record = read(str(path))
    assert isinstance(record.lines[-1], Fact)
    assert not record.torn


@pytest.mark.parametrize("kind", ["missing folder", "folder", "pipe"])
def test_what_cannot_hold_a_journal_is_bad_input(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "j"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "none" / "j"
    with pytest.raises(InputError) as caught:
        Journal.open(str(path), ORIGIN)
    assert caught.value.problems[0].startswith(f"{path}: ")


def test_a_journal_is_called_like_its_document() -> None:
    assert journal_path("plans/plan.json") == "plans/plan.json.journal.jsonl"
