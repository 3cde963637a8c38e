"""Journals are read line by line, and a line that is wrong is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kubestow.models.documents.journal import Fact, Run, parse, read
from kubestow.models.snapshot.snapshot import InputError

RUN = b'{"line":"run","run":"r1","time":"t","result":"d","snapshot":"e","server":"s"}\n'
AGAIN = RUN.replace(b'"run":"r1"', b'"run":"r1","resumes":true')
REQUEST = b'{"line":"request","number":%d,"time":"t","method":"POST","path":"/x"}\n'
ANSWER = b'{"line":"answer","number":%d,"time":"t","code":201}\n'


def test_a_whole_journal_is_read() -> None:
    record = parse(RUN + REQUEST % 1 + ANSWER % 1 + b'{"line":"fact","time":"t","what":"wave","wave":1}\n' + AGAIN, "j")
    assert [type(line).__name__ for line in record.lines] == ["Run", "Request", "Answered", "Fact", "Run"]
    assert (record.run, record.torn) == (Run("r1", "t", "d", "e", "s"), False)
    assert record.lines[3] == Fact("t", "wave", wave=1)


def test_fields_of_a_later_version_are_let_through() -> None:
    assert parse(RUN.replace(b'"time"', b'"later":1,"time"'), "j").lines == [Run("r1", "t", "d", "e", "s")]


def test_a_torn_last_line_does_not_count_even_if_only_its_end_is_missing() -> None:
    for cut in (REQUEST % 1)[:-1], b"{", b"\0\0\0":
        record = parse(RUN + cut, "j")
        assert (len(record.lines), record.size, record.torn) == (1, len(RUN), True)
    assert parse(b"", "j").lines == parse(RUN[:-1], "j").lines == []


@pytest.mark.parametrize(
    ("data", "line", "why"),
    [
        (RUN + b"{\n" + REQUEST % 1, 2, "not a journal line"),
        (RUN + b"\n", 2, "not a journal line"),
        (RUN + b"\xff\xfe\n", 2, "not a journal line"),
        (RUN + b"[]\n", 2, "Expected `object`"),
        (RUN + b'{"line":"verse"}\n', 2, "'verse'"),
        (RUN + (REQUEST % 1).replace(b'"method":"POST",', b""), 2, "missing required field `method`"),
        (RUN + b'{"line":"fact","time":"t","what":"wish"}\n', 2, r"\$.what"),
        (REQUEST % 1, 1, "expected a run as the first line"),
        (AGAIN, 1, "expected a new run"),
        (RUN + RUN, 2, "expected a resumed run"),
        (RUN + AGAIN.replace(b'"result":"d"', b'"result":"f"'), 2, "differs from that of line 1"),
        (RUN + AGAIN.replace(b'"run":"r1"', b'"run":"r2"'), 2, "differs from that of line 1"),
        (RUN + REQUEST % 2, 2, "expected request 1, got 2"),
        (RUN + REQUEST % 1 + REQUEST % 1, 3, "expected request 2, got 1"),
        (RUN + ANSWER % 1, 2, "which was not sent"),
        (RUN + REQUEST % 1 + ANSWER % 1 + ANSWER % 1, 4, "which is already answered"),
    ],
)  # fmt: skip
def test_any_other_line_that_is_wrong_is_bad_input(data: bytes, line: int, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        parse(data, "j.jsonl")
    assert caught.value.problems[0].startswith(f"j.jsonl: line {line}: ")
    assert "\n" not in caught.value.problems[0]


@pytest.mark.parametrize("data", [None, b"", b'{"line":"run"'])
def test_what_has_no_line_is_no_journal(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "j"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read(str(path))
    assert caught.value.problems[0].startswith(f"{path}: ")


def test_lines_that_are_written_are_read_again() -> None:
    fact = Fact("t", "manifest", step=1, pod="a/p", object={"kind": "Pod"})
    assert parse(RUN + msgspec.json.encode(fact) + b"\n", "j").lines[1] == fact
