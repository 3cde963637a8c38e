"""The finished journal of an earlier document makes room: under another name, whole, and in place of nothing."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path

import msgspec
import pytest

from kubestow.live.apply.journal import Journal, RunOrigin
from kubestow.models.documents.journal import Run, read
from kubestow.models.snapshot.snapshot import InputError
from tests.live.apply.journals import RUN, TIME, Script

ORIGIN = RunOrigin("d" * 64, "e" * 64, "https://127.0.0.1:6443", "uid-of-kube-system")
NEW = RunOrigin("f" * 64, "f" * 64, ORIGIN.server, ORIGIN.cluster)


def finished(state: str = "end") -> Script:
    """Return the journal of a run that has moved a pod, and has opened the node that it closed."""
    script = Script()
    script.close("n1")
    script.evict(1, "a/p")
    script.fact("done", step=1, pod="a/p")
    script.open("n1")
    script.fact(state, message="1 of 1 steps are done")
    return script


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("state", ["end", "stopped"])
def test_the_finished_journal_of_another_document_is_kept_and_the_run_begins(tmp_path: Path, state: str, resume: bool) -> None:
    path, text = tmp_path / "plan.json.journal.jsonl", finished(state).text
    path.write_bytes(text)
    journal = Journal.open(str(path), NEW, resume=resume)
    kept = tmp_path / "plan.json.r1.journal.jsonl"
    assert (journal.kept, journal.resumed, journal.progress.requests) == (str(kept), False, 0)
    asyncio.run(journal.close())
    assert kept.read_bytes() == text
    (line,) = read(str(path)).lines
    assert isinstance(line, Run)
    assert (line.result, line.run != "r1") == (NEW.result, True)


def test_no_journal_is_overwritten_by_one_that_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "plan.json.journal.jsonl"
    (tmp_path / "plan.json.r1.journal.jsonl").write_bytes(b"first")
    (tmp_path / "plan.json.r1-2.journal.jsonl").symlink_to("nowhere")
    path.write_bytes(finished().text)
    journal = Journal.open(str(path), NEW)
    asyncio.run(journal.close())
    assert journal.kept == str(tmp_path / "plan.json.r1-3.journal.jsonl")
    assert (tmp_path / "plan.json.r1.journal.jsonl").read_bytes() == b"first"
    assert not (tmp_path / "nowhere").exists()
    assert len(beside(tmp_path)) == 4


def test_the_id_of_a_run_is_no_path(tmp_path: Path) -> None:
    path = tmp_path / "plan.json.journal.jsonl"
    script = Script(msgspec.structs.replace(RUN, run="../up"))
    script.lines += finished().lines[1:]
    path.write_bytes(script.text)
    journal = Journal.open(str(path), NEW)
    asyncio.run(journal.close())
    assert journal.kept == str(tmp_path / "plan.json.earlier.journal.jsonl")


def half_done() -> Script:
    script = Script()
    script.evict(1, "a/p")
    script.fact("stopped")
    return script


def unanswered() -> Script:
    script = Script()
    script.evict(1, "a/p", code=None)
    script.fact("stopped")
    return script


def closed() -> Script:
    script = Script()
    script.close("n1")
    script.fact("stopped")
    return script


def cut_off() -> Script:
    script = finished()
    script.lines.pop()
    return script


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (half_done(), "did not finish with a/p"),
        (unanswered(), "did not finish with a/p"),
        (cut_off(), "was cut off"),
    ],
)
def test_an_unfinished_journal_stays_where_it_is(tmp_path: Path, script: Script, why: str) -> None:
    path = tmp_path / "plan.json.journal.jsonl"
    path.write_bytes(script.text)
    expected = f"the journal of another document .* whose run of {TIME} {why}; resume that run with its own document, or move it away"
    for resume in (False, True):
        with pytest.raises(InputError, match=expected):
            Journal.open(str(path), NEW, resume=resume)
    assert path.read_bytes() == script.text
    assert beside(tmp_path) == [path.name]


def refused() -> Script:
    script = Script()
    script.evict(1, "a/p", code=429)
    script.fact("stopped")
    return script


@pytest.mark.parametrize("script", [refused(), closed()])
def test_refused_evictions_and_nodes_that_are_held_for_another_round_leave_nothing_half_done(tmp_path: Path, script: Script) -> None:
    path = tmp_path / "plan.json.journal.jsonl"
    path.write_bytes(script.text)
    asyncio.run(Journal.open(str(path), NEW).close())
    assert len(beside(tmp_path)) == 2


def test_the_finished_journal_of_the_same_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json.journal.jsonl"
    path.write_bytes(finished().text)
    with pytest.raises(InputError, match="continue with --resume"):
        Journal.open(str(path), ORIGIN)
    other = RunOrigin(ORIGIN.result, ORIGIN.snapshot, ORIGIN.server, "another uid")
    with pytest.raises(InputError, match="the journal of another cluster"):
        Journal.open(str(path), other)
    assert path.read_bytes() == finished().text


def test_a_finished_journal_that_cannot_get_another_name_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json.journal.jsonl"
    path.write_bytes(finished().text)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(InputError, match="cannot be renamed: Permission denied"):
        Journal.open(str(path), NEW)
    assert path.read_bytes() == finished().text
    assert beside(tmp_path) == [path.name]


def test_a_journal_that_was_set_aside_before_it_is_locked_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run has opened the old file, and gives it another name before this one has the lock."""
    path = tmp_path / "plan.json.journal.jsonl"
    path.write_bytes(finished().text)
    real = fcntl.flock

    def late(file: int, how: int) -> None:
        path.rename(tmp_path / "kept")
        path.write_bytes(b"")
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(InputError, match="another run writes this journal"):
        Journal.open(str(path), NEW)
    assert (tmp_path / "kept").read_bytes() == finished().text
