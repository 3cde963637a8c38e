"""Parsing and checking of option values: click callbacks."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kubestow.commands.common.exit_codes import fail

#: Output formats of kubectl's -o and of kubestow's -f. Users type them after -o out of habit.
_FORMS = frozenset(
    {"json", "yaml", "kyaml", "wide", "name", "csv", "table", "kubectl", "junit", "sarif", "github", "gitlab", "template", "templatefile"}
    | {f"{kind}{suffix}" for kind in ("jsonpath", "custom-columns", "go-template") for suffix in ("", "-file")}
    | {"jsonpath-as-json"}
)


def positive(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Check that a number of seconds is positive (click callback)."""
    if not 0 < value < float("inf"):
        raise click.BadParameter(f"{value} is not a positive number of seconds")
    return value


def listed(ctx: click.Context, param: click.Parameter, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Split comma-separated names of one or several options and drop duplicates (click callback)."""
    texts = [value] if isinstance(value, str) else value or ()
    names = tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",")))
    if not all(names):
        raise click.BadParameter("an empty name (expected names separated by commas)")
    return names


def size(ctx: click.Context, param: click.Parameter, value: str | None, or_else: str = "") -> int | None:
    """Parse a size in bytes (click callback). ``or_else`` names further accepted values in the message."""
    if value is None:
        return None
    from kubestow.models.kube.quantity import QuantityError, ceil, parse

    try:
        found = ceil(parse(value))
    except QuantityError:
        found = 0
    if found <= 0:
        raise click.BadParameter(f"{value!r} is not a size (expected bytes such as 500M or 2Gi{or_else})", ctx, param)
    return found


def bounded_input(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Limit the size of every input file while the command runs."""
    if value is not None:
        limit = None if value == "none" else size(ctx, param, value, ", or none")
        from kubestow.models.snapshot.sources import at_most

        ctx.with_resource(at_most(limit))


def own_kinds(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
    """Add the workload kinds of files to the table (click callback)."""
    if value:
        from kubestow.commands.core import workload_kinds
        from kubestow.models.custom_workloads.table import extended
        from kubestow.models.snapshot.snapshot import InputError

        try:
            ctx.with_resource(extended(workload_kinds.read(value)))
        except InputError as error:
            fail(error.problems)


def output_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the file to write. Refuse ``-o yaml`` and the like: in kubectl they choose a format, here they would name a file."""
    word = (value or "").partition("=")[0]
    if word in _FORMS:
        forms = next((o.type.choices for o in ctx.command.params if isinstance(o.type, click.Choice) and o.name in ("form", "forms")), ())
        hint = (
            f"-f {word} chooses the form" if word in forms else f"-f chooses the form: {', '.join(forms)}" if forms else "the form is fixed"
        )
        raise click.UsageError(f"-o {word}: -o names the file to write; {hint} (a file of this name is ./{word})", ctx)
    return value


def namespace_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check that a value is a valid namespace name (click callback)."""
    if value is not None:
        from kubestow.models.snapshot.object_names import LABEL_TEXT, is_label

        if not is_label(value):
            raise click.BadParameter(f"{value!r} is not a namespace name: {LABEL_TEXT}")
    return value
