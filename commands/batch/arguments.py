"""Splitting of a batch command line into its own options, options of the inner command, and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import click

from kubestow.commands import COMMANDS

#: Commands that a batch can run.
BATCHED: Final = ("audit", "solve", "explain", "rebalance", "fit", "size", "survive", "upgrade")
#: Parameters of inner commands that the batch sets itself: output, format and verbosity.
RESERVED: Final = frozenset({"output", "forms", "everything", "quiet", "verbose", "help", "write_baseline", "jobs", "dask", "series"})

#: Parameters that capture a cluster instead of reading a file.
LIVE: Final = frozenset({"context", "kubeconfig", "kubectl", "save_snapshot"})


def unfit(option: click.Option) -> str:
    """Return the reason why an inner command's option is not allowed in a batch; empty if it is allowed."""
    if option.name in LIVE:
        return "is not allowed in a batch, which reads files: write one for each cluster with `kubestow capture --context`"
    return "is not allowed: the batch sets it itself" if option.name in RESERVED else ""


@dataclass(frozen=True)
class GivenOption:
    """An option on the command line.

    Attributes:
        option: The click option.
        spelt: The name as typed, with dashes.
        value: The value; None for a flag.
    """

    option: click.Option
    spelt: str
    value: str | None = None

    def tokens(self) -> tuple[str, ...]:
        """Return the option as command-line arguments."""
        return (self.spelt,) if self.value is None else (self.spelt, self.value)


def by_name(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by every one of their names, with dashes."""
    context = click.Context(command)
    options = [p for p in command.get_params(context) if isinstance(p, click.Option)]
    return {spelt: option for option in options for spelt in (*option.opts, *option.secondary_opts)}


def takes_value(option: click.Option) -> bool:
    """Return True if the option takes a value."""
    return not (option.is_flag or option.count)


def read(tokens: Sequence[str], known: Mapping[str, click.Option]) -> tuple[list[GivenOption], list[str]]:
    """Separate options from other arguments. click cannot do this for the options of two commands at once.

    Raises:
        click.UsageError: an option is unknown, lacks its value, or has an unexpected value.
    """
    given: list[GivenOption] = []
    others: list[str] = []
    remaining_tokens = list(reversed(tokens))

    def value_of(spelt: str) -> str:
        if not remaining_tokens:
            raise click.BadOptionUsage(spelt, f"Option {spelt!r} requires an argument.")
        return remaining_tokens.pop()

    def option_of(spelt: str) -> click.Option:
        if spelt not in known:
            raise click.NoSuchOption(spelt, possibilities=[name for name in known if name.startswith(spelt)] or None)
        return known[spelt]

    while remaining_tokens:
        token = remaining_tokens.pop()
        if token == "--":
            others += reversed(remaining_tokens)
            break
        if token == "-" or not token.startswith("-"):
            others.append(token)
        elif token.startswith("--"):
            spelt, equals, value = token.partition("=")
            option = option_of(spelt)
            if not takes_value(option):
                if equals:
                    raise click.BadOptionUsage(spelt, f"Option {spelt!r} does not take a value.")
                given.append(GivenOption(option, spelt))
            else:
                given.append(GivenOption(option, spelt, value if equals else value_of(spelt)))
        else:
            letters = token[1:]
            while letters:
                spelt, letters = f"-{letters[0]}", letters[1:]
                option = option_of(spelt)
                if not takes_value(option):
                    given.append(GivenOption(option, spelt))
                    continue
                given.append(GivenOption(option, spelt, letters or value_of(spelt)))
                letters = ""
    return given, others


def split(own: click.Command, tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the batch's own arguments, and the options of the inner command if the first argument names one.

    Options of the batch are recognised at any position.

    Raises:
        click.UsageError: an option is unknown or not allowed in a batch.
    """
    ours = by_name(own)
    first = _first(tokens, ours)
    if first not in BATCHED:
        return list(tokens), []
    theirs = by_name(COMMANDS[first])
    given, others = read(tokens, theirs | ours)
    mine = [token for each in given if each.spelt in ours for token in each.tokens()]
    inner = [each for each in given if each.spelt not in ours]
    for each in inner:
        if why := unfit(each.option):
            raise click.UsageError(f"{each.spelt} {why}")
    return [*mine, "--", *others], [token for each in inner for token in each.tokens()]


def _first(tokens: Sequence[str], ours: Mapping[str, click.Option]) -> str | None:
    """Return the first argument that is not an option; None if there is none."""
    for end in range(len(tokens)):
        try:
            _, others = read(tokens[: end + 1], ours)
        except click.UsageError:
            continue
        if others:
            return others[0]
    return None


def check(command: str, options: Iterable[str]) -> None:
    """Let a command validate its options without running it.

    Raises:
        click.UsageError: the command's own message about a wrong option.
    """
    inner = COMMANDS[command]
    try:
        with inner.make_context(command, [*options, "--", "snapshot.json"]):
            pass
    except click.UsageError as error:
        raise click.UsageError(f"{command}: {error.format_message()}") from None
    except click.exceptions.Exit:
        raise click.UsageError(f"{command}: --help is not allowed in a batch") from None
