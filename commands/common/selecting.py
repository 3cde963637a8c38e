"""Options that select findings of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from kubestow.commands.common import option_values, options
from kubestow.commands.common.options import Decorator, in_order


@dataclass(frozen=True)
class FindingSelection:
    """The selection of findings.

    Attributes:
        select: Codes or prefixes to look for; empty for all.
        ignore: Codes or prefixes to leave out.
        namespaces: Namespaces to report; empty for all.
        config: Path of an AuditConfig.
        baseline: Path of the findings that are known.
        write_baseline: Path to write the findings to.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    config: str | None = None
    baseline: str | None = None
    write_baseline: str | None = None


def _codes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.upper() for code in option_values.listed(ctx, param, value))


fail_on: Final[Decorator] = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    help="Exit with 4 if a finding has at least this severity.",
)
codes: Final[Decorator] = in_order(
    click.option(
        "--select",
        multiple=True,
        callback=_codes,
        metavar="CODE,...",
        help="Only these codes; KS2 selects all codes that begin with it.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        callback=_codes,
        metavar="CODE,...",
        help="Leave out these codes; the longer of two prefixes wins.",
    ),
)
known: Final[Decorator] = in_order(
    click.option("--config", metavar="FILE", type=options.READ, help="AuditConfig file (YAML): codes that count, and their severities."),
    click.option("--baseline", metavar="FILE", type=options.READ, help="Leave out the findings listed in this file."),
    click.option(
        "--write-baseline",
        metavar="FILE",
        type=options.READ,
        help="Write all findings to FILE as a new baseline, and exit with 0.",
    ),
)
