"""Options for rules that hold during execution: their grace period, and earlier snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from kubestow.commands.common.options import READ, in_order

if TYPE_CHECKING:
    from kubestow.commands.common.options import Streams
    from kubestow.models.documents.policy import Policy
    from kubestow.models.execution.execution_grace import History
    from kubestow.models.snapshot.snapshot import Snapshot

_MAX_SECONDS: Final = 10**9

since: Callable[..., Any] = click.option(
    "--since",
    multiple=True,
    metavar="FILE",
    type=READ,
    help="Earlier snapshot of the cluster (a file or a directory); repeatable.",
)
options = in_order(
    click.option(
        "--execution-grace",
        type=click.IntRange(0, _MAX_SECONDS),
        metavar="SECONDS",
        help="Tolerate broken RequiredDuringExecution rules for this time.  [default: the policy's, else 0]",
    ),
    since,
)


def history(snapshot: Snapshot, paths: tuple[str, ...], seconds: int | None, policy: Policy, streams: Streams) -> History:
    """Read earlier snapshots and return the history of a snapshot. Bad input ends the command.

    Args:
        snapshot: The current snapshot.
        paths: Earlier snapshots, each a file or a directory.
        seconds: The grace period of the command line; None for that of the policy.
        policy: The policy.
        streams: The inputs, for messages.
    """
    from kubestow.commands.common import inputs
    from kubestow.commands.core import reading
    from kubestow.models.execution.execution_grace import History, warnings

    name = reading.labels(streams.snapshots) or "the snapshot"
    found = inputs.checked(lambda: reading.earlier(snapshot, name, paths))
    inputs.warn(list(warnings(snapshot.pods)), streams)
    return History(policy.executionGraceSeconds if seconds is None else seconds, found)
