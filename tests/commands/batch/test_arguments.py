"""Which arguments are a batch's own, which are options of the command that it runs, and which are snapshots."""

from __future__ import annotations

import click
import pytest

from kubestow.commands.batch import batch
from kubestow.commands.batch.arguments import check, split


@pytest.mark.parametrize(
    ("given", "own", "inner"),
    [
        (["audit", "a.json"], ["--", "audit", "a.json"], []),
        (["-o", "d", "audit", "--fail-on", "never", "a", "b"], ["-o", "d", "--", "audit", "a", "b"], ["--fail-on", "never"]),
        (["audit", "--fail-on=never", "a", "-o", "d"], ["-o", "d", "--", "audit", "a"], ["--fail-on", "never"]),
        (["solve", "-wx.yaml", "a", "--jobs=3", "--strict"], ["--jobs", "3", "--", "solve", "a"], ["-w", "x.yaml", "--strict"]),
        (["solve", "-qv", "a", "--", "-b"], ["-q", "-v", "--", "solve", "a", "-b"], []),
        (["survive", "--fail", "solve", "-"], ["--", "survive", "-"], ["--fail", "solve"]),
        (["--resume", "plan.yaml", "-o", "d"], ["--resume", "plan.yaml", "-o", "d"], []),
        (["--help"], ["--help"], []),
    ],
)
def test_options_go_to_whom_they_belong(given: list[str], own: list[str], inner: list[str]) -> None:
    assert split(batch, given) == (own, inner)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["audit", "--nope", "a"], "No such option"),
        (["audit", "a", "--fail-on"], "requires an argument"),
        (["audit", "--strict=yes", "a"], "does not take a value"),
        (["audit", "--write-baseline", "b", "a"], "--write-baseline is not allowed: the batch sets it itself"),
    ],
)
def test_what_no_one_knows_is_refused(given: list[str], why: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        split(batch, given)
    assert why in caught.value.format_message()


def test_the_command_itself_looks_at_its_options() -> None:
    check("audit", ["--fail-on", "never"])
    with pytest.raises(click.UsageError, match="survive: Missing option '--fail'"):
        check("survive", [])
    with pytest.raises(click.UsageError, match="audit: --help is not allowed in a batch"):
        check("audit", ["--help"])
