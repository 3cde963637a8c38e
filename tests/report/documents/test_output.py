from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.report.documents.output import check_target, one_line, write_file, write_files

_ROOT = Path(__file__).resolve().parents[3]


@given(st.text())
def test_one_line_is_printable_and_keeps_printable_text(text: str) -> None:
    assert one_line(text).isprintable()
    assert not text.isprintable() or one_line(text) == text


def test_a_file_is_written_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_file(str(tmp_path / "out"), [b"new"])
    assert (tmp_path / "out").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


def test_several_files_are_written_all_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_files([(str(first), [b"1"]), (os.devnull, [b"x"]), (str(second), [b"2"])])
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_files([(str(first), [b"3"]), (str(second), broken())])
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


def test_an_existing_file_keeps_its_permissions_and_a_new_one_gets_the_usual(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"before")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        write_file(str(old), [b"after"])
        write_file(str(new), [b"after"])
    finally:
        os.umask(before)
    assert old.read_bytes() == b"after"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (old, new)] == [0o640, 0o640]


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"before")
    (tmp_path / "link").symlink_to("real")
    write_file(str(tmp_path / "link"), [b"after"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"after"


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"before")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(str(target), [b"after"])
    assert target.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["out"]


@pytest.fixture
def heard() -> Iterator[None]:
    """Handle ^C as in a terminal, even if the suite was started with another handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_an_interrupt_while_writing_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"before")

    def parts() -> Iterator[bytes]:
        yield b"half"
        signal.raise_signal(signal.SIGINT)
        yield b"whole"

    with pytest.raises(KeyboardInterrupt):
        write_file(str(tmp_path / "out"), parts())
    assert (tmp_path / "out").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["out"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("heard")
def test_an_interrupt_after_the_rename_is_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def rename(*names: str) -> None:
        replace(*names)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "replace", rename)
    write_file(str(tmp_path / "out"), [b"whole"])
    assert (tmp_path / "out").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["out"]


_ENDED = """
import os, signal, sys
from kubestow.report.documents.output import write_file
number, how = int(sys.argv[2]), getattr(signal, sys.argv[3])
signal.signal(number, how)
def parts():
    yield b"half"
    os.kill(os.getpid(), number)
    yield b"whole"
write_file(sys.argv[1], parts())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_signal_that_ends_the_program_leaves_nothing(tmp_path: Path, number: signal.Signals, ignored: bool) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"before")
    words = [sys.executable, "-c", _ENDED, str(target), str(int(number)), "SIG_IGN" if ignored else "SIG_DFL"]
    done = subprocess.run(words, cwd=_ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0 if ignored else -number, b"")
    assert target.read_bytes() == (b"halfwhole" if ignored else b"before")
    assert os.listdir(tmp_path) == ["out"]


def test_a_private_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"before")
    old.chmod(0o664)
    for path in (old, new):
        write_file(str(path), [b"secret"], private=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_devices_are_written_in_place() -> None:
    write_file(os.devnull, [b"gone"])
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    with pytest.raises(OSError, match="No space left"):
        write_file("/dev/full", [b"x"])


@pytest.mark.parametrize("path", ["", "absent/out", "file/out"])
def test_what_cannot_be_written_is_known_beforehand(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="directory"):
        check_target(str(tmp_path / path))
    assert os.listdir(tmp_path) == ["file"]


def test_parts_are_written_one_after_the_other_and_nothing_if_one_fails(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"a"
        raise MemoryError

    write_file(str(tmp_path / "out"), iter([b"one ", b"two"]))
    assert (tmp_path / "out").read_bytes() == b"one two"
    with pytest.raises(MemoryError):
        write_file(str(tmp_path / "out"), parts())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"one two"
