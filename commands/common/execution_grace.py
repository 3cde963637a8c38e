"""Options for rules that hold during execution: their grace period, and earlier snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from kubestow.commands.common.options import READ, in_order

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
