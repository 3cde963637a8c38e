"""The plan of a batch: snapshots, and the option sets for each snapshot."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from kubestow.commands import COMMANDS
from kubestow.commands.batch import arguments
from kubestow.commands.batch.arguments import BATCHED
from kubestow.models.documents import settings_file
from kubestow.models.documents.batch import BatchPlan
from kubestow.models.snapshot.snapshot import InputError

_PLAIN: Final = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class OptionSet:
    """A command with options.

    Attributes:
        command: Name of the command.
        options: Options as on the command line.
        label: Name in the plan; None if the plan has only one set.
    """

    command: str
    options: tuple[str, ...]
    label: str | None = None


@dataclass(frozen=True)
class TaskPlan:
    """All combinations of ``snapshots`` and ``sets``."""

    snapshots: tuple[str, ...]
    sets: tuple[OptionSet, ...]
    each_directory: bool = False


def read(path: str) -> TaskPlan:
    """Read a plan. Its paths are relative to its folder.

    Raises:
        InputError: the plan is unreadable or invalid; the message names file and field.
    """
    found = settings_file.read(path, BatchPlan)
    problems: list[str] = []
    base = os.path.dirname(path)
    sets: dict[tuple[str, tuple[str, ...]], OptionSet] = {}
    for label, where, command, options in _combinations(found, problems):
        if command is None:
            problems.append(f"{where}: expected command, one of {', '.join(BATCHED)}")
            continue
        before = len(problems)
        tokens = _tokens(command, options, base, where, problems)
        if len(problems) > before:
            continue
        try:
            arguments.check(command, tokens)
        except click.UsageError as error:
            problems.append(f"{where}: {error.format_message()}")
        sets.setdefault((command, tokens), OptionSet(command, tokens, label))
    if problems:
        raise InputError([f"{path}: BatchPlan: {problem}" for problem in problems])
    snapshots = tuple(os.path.join(base, name) for name in found.snapshots)
    alone = len(sets) == 1 and not found.sets
    return TaskPlan(snapshots, tuple(replace(s, label=None) if alone else s for s in sets.values()), found.eachDirectory)


def _combinations(plan: BatchPlan, problems: list[str]) -> Iterator[tuple[str, str, str | None, dict[str, Any]]]:
    """Yield name, field in the plan, command and options of each set."""
    if plan.sets and plan.matrix:
        problems.append("matrix: expected either matrix or sets, found both")
    elif plan.sets:
        for name, each in plan.sets.items():
            yield name, f"sets.{name}", each.command or plan.command, {**plan.options, **each.options}
    elif plan.matrix:
        for chosen in _matrix(plan.matrix, problems):
            label = ", ".join(f"{name}={_word(value)}" for name, value in chosen.items())
            command = chosen.get("command", plan.command)
            if command is not None and command not in BATCHED:
                problems.append(f"matrix.command: {command!r} is none of {', '.join(BATCHED)}")
                continue
            yield label, "matrix", command, {**plan.options, **{k: v for k, v in chosen.items() if k != "command"}}
    else:
        yield "", "options" if plan.command else "command", plan.command, plan.options


def _word(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _matrix(matrix: Mapping[str, list[Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Return the combinations of a matrix, with the rules of CI systems.

    Start from the product of the axes and drop the matches of ``exclude``. An entry of ``include`` extends every combination that it
    agrees with; if there is none, it becomes a combination itself.
    """
    before = len(problems)
    axes = {name: values for name, values in matrix.items() if name not in ("include", "exclude")}
    for name, values in axes.items():
        if not values:
            problems.append(f"matrix.{name}: expected at least one value")
        problems += [f"matrix.{name}[{i}]: {_EXPECTED}" for i, value in enumerate(values) if not _is_value(value)]
    entries = {name: matrix.get(name, []) for name in ("include", "exclude")}
    for name, found in entries.items():
        for i, entry in enumerate(found):
            if not isinstance(entry, dict) or not entry or not all(isinstance(k, str) and _is_value(v) for k, v in entry.items()):
                problems.append(f"matrix.{name}[{i}]: expected a mapping of names to values")
    if len(problems) > before:
        return []
    for i, entry in enumerate(entries["exclude"]):
        problems += [f"matrix.exclude[{i}].{name}: is not an axis of the matrix" for name in entry if name not in axes]
    product = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())] if axes else []
    combined = [c for c in product if not any(all(c.get(k) == v for k, v in entry.items()) for entry in entries["exclude"])]
    extra: list[dict[str, Any]] = []
    originals = [dict(c) for c in combined]
    for entry in entries["include"]:
        fitting = [i for i, c in enumerate(originals) if all(c.get(k) == v for k, v in entry.items() if k in axes)]
        for i in fitting:
            combined[i].update(entry)
        if not fitting:
            extra.append(dict(entry))
    if not combined and not extra:
        problems.append("matrix: no combination is left")
    return combined + extra


_EXPECTED: Final = "expected a text, a number, true or false, null, or a list of texts and numbers"


def _is_value(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, list) and all(isinstance(v, str | int | float) for v in value))


def _tokens(command: str, options: Mapping[str, Any], base: str, where: str, problems: list[str]) -> tuple[str, ...]:
    """Return the options of a plan as command-line arguments, and append problems to ``problems``."""
    known = arguments.by_name(COMMANDS[command])
    tokens: list[str] = []
    for name, value in options.items():
        spelt = f"--{name}" if len(name) > 1 else f"-{name}"
        option = known.get(spelt)
        place = f"{where}.{name}"
        if value is None:
            continue
        if option is None:
            problems.append(f"{place}: {command} has no option {spelt}")
        elif why := arguments.unfit(option):
            problems.append(f"{place}: {why}")
        elif not arguments.takes_value(option):
            if not isinstance(value, bool):
                problems.append(f"{place}: expected true or false, found {value!r}")
            elif value:
                tokens.append(spelt)
        elif isinstance(value, list) and not option.multiple:
            problems.append(f"{place}: expected one value, found a list")
        else:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, bool):
                    problems.append(f"{place}: expected a value, found {_word(each)}")
                else:
                    tokens += [spelt, _placed(option, str(each), base)]
    return tuple(tokens)


def _placed(option: click.Option, value: str, base: str) -> str:
    """Return a value with its path relative to the working directory: a file, or the FILE of ``NAME=FILE``."""
    if isinstance(option.type, click.Path):
        return os.path.join(base, value)
    name, equals, path = value.partition("=")
    return f"{name}={os.path.join(base, path)}" if equals and path and os.path.isfile(os.path.join(base, path)) else value


def of_command(command: str, options: Sequence[str], snapshots: Sequence[str], *, each_directory: bool) -> TaskPlan:
    """Return the plan of a command line.

    Raises:
        click.UsageError: the command refuses these options.
    """
    arguments.check(command, options)
    return TaskPlan(tuple(snapshots), (OptionSet(command, tuple(options)),), each_directory)
