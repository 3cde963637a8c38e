"""Parsing and checking of option values: click callbacks and types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

#: A click callback: the value of an option after it is checked.
Callback = Callable[[click.Context, click.Parameter, Any], Any]

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


def parsed(name: str) -> Callback:
    """Return a click callback of :mod:`kubestow.commands.common.option_parsing`, which is imported when the option has a value.

    Args:
        name: Its name in :data:`kubestow.commands.common.option_parsing.PARSERS`.
    """

    def parse(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or value == ():
            return value
        from kubestow.commands.common.option_parsing import PARSERS

        return PARSERS[name](ctx, param, value)

    return parse


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


def _may_be_a_file(word: str) -> bool:
    """Return True for the value of ``kubectl apply -f``: a path, or - for standard input."""
    return word == "-" or "." in word or "/" in word


class OutputFormat(click.Choice[str]):
    """A click type for ``FORMAT[=FILE]``; the value is a pair."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, equals, file = str(value).partition("=")
        if equals and not file:
            self.fail(f"{value!r}: no file after = (expected FORMAT or FORMAT=FILE)", param, ctx)
        if name.lower() not in self.choices and _may_be_a_file(name):
            manifests = ctx is not None and any(each.name == "manifests" for each in ctx.command.params)
            meant = f"; -w {name} adds manifests" if manifests else ""
            self.fail(f"{value!r} is a file, and -f chooses the format: {', '.join(self.choices)}{meant}", param, ctx)
        return super().convert(name, param, ctx), file or None

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return f"{super().get_metavar(param, ctx)}[=FILE]"
