"""Options that select findings of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from kubestow.commands.common import option_values, options
from kubestow.commands.common.options import Decorator, in_order

#: Key of ``-A`` in the context.
_EVERY: Final = "kubestow.all_namespaces"


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


def _every(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_EVERY] = value


def _within(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the namespaces; none, which means all, with -A. As for kubectl, -A goes before -n."""
    names = option_values.listed(ctx, param, value)
    return () if ctx.meta.get(_EVERY) else names


#: Namespaces of findings, as for kubectl: -n, also with several, and -A.
namespaces: Final[Decorator] = in_order(
    click.option(
        "-n",
        "--namespace",
        "namespaces",
        multiple=True,
        callback=_within,
        metavar="NS,...",
        help="Report only findings about objects or pods of these namespaces.",
    ),
    click.option(
        "-A",
        "--all-namespaces",
        is_flag=True,
        is_eager=True,  # read before -n
        expose_value=False,
        callback=_every,
        help="Report the findings of all namespaces; -n is ignored.",
    ),
)
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
