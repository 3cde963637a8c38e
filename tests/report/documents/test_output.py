from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.documents.output import check_target, one_line, write_file


@given(st.text())
def test_one_line_is_printable_and_keeps_printable_text(text: str) -> None:
    assert one_line(text).isprintable()
    assert not text.isprintable() or one_line(text) == text


def test_a_file_is_written_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_file(str(tmp_path / "out"), [b"new"])
    assert (tmp_path / "out").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


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
