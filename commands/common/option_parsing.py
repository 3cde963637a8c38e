"""Click callbacks that need more than click; :func:`kubestow.commands.common.option_values.parsed` imports them on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from kubestow.commands.common.exit_codes import fail
from kubestow.commands.core import workload_kinds
from kubestow.models.custom_workloads.table import extended
from kubestow.models.kube.feature_gates import GateError, parse_gate
from kubestow.models.kube.quantity import QuantityError, ceil, parse
from kubestow.models.snapshot.object_names import LABEL_TEXT, is_label
from kubestow.models.snapshot.snapshot import InputError
from kubestow.models.snapshot.sources import at_most


def _size(ctx: click.Context, param: click.Parameter, value: str, or_else: str = "") -> int:
    """Parse a size in bytes. ``or_else`` names further accepted values in the message."""
    try:
        found = ceil(parse(value))
    except QuantityError:
        found = 0
    if found <= 0:
        raise click.BadParameter(f"{value!r} is not a size (expected bytes such as 500M or 2Gi{or_else})", ctx, param)
    return found


def _max_input(ctx: click.Context, param: click.Parameter, value: str) -> None:
    """Limit the size of every input file while the command runs."""
    ctx.with_resource(at_most(None if value == "none" else _size(ctx, param, value, ", or none")))


def _namespace(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check that a value is a valid namespace name."""
    if not is_label(value):
        raise click.BadParameter(f"{value!r} is not a namespace name: {LABEL_TEXT}")
    return value


def _feature_gates(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Parse comma-separated NAME=true|false of one or several options."""
    found: dict[str, bool] = {}
    for text in (part.strip() for each in value for part in each.split(",")):
        try:
            gate, on = parse_gate(text)
        except GateError as error:
            raise click.BadParameter(str(error)) from None
        if found.setdefault(gate, on) != on:
            raise click.BadParameter(f"{gate} is both true and false")
    return tuple(found.items())


def _workload_kinds(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> None:
    """Add the workload kinds of files to the table while the command runs."""
    try:
        ctx.with_resource(extended(workload_kinds.read(value)))
    except InputError as error:
        fail(error.problems)


#: Callbacks by name.
PARSERS: Final[Mapping[str, Callable[[click.Context, click.Parameter, Any], Any]]] = {
    "feature_gates": _feature_gates,
    "max_input": _max_input,
    "namespace": _namespace,
    "size": _size,
    "workload_kinds": _workload_kinds,
}
