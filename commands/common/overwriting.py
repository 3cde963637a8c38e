"""Refusal to overwrite inputs: no output of a command may be a file that the command reads.

Files are compared by device and inode, so that symbolic and hard links count. A file in an input folder counts too, unless it holds no
Kubernetes objects: an earlier result may be replaced there.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import click

from kubestow.commands.common.exit_codes import refuse

#: Parameters that name output files; all other paths are inputs.
_OUTPUTS: Final = frozenset({"output", "forms", "save_snapshot", "write_baseline"})
#: A baseline may be updated in place: the input file may also be the output.
_UPDATED: Final = ("baseline", "write_baseline")
_STDIN: Final = "-"


class NamedPath(NamedTuple):
    """A path on the command line.

    Attributes:
        option: The option or argument that names it, for messages.
        name: The name of the click parameter.
        path: The path.
    """

    option: str
    name: str
    path: str


class Identity(NamedTuple):
    """Device and inode of a regular file."""

    device: int
    inode: int


def refuse_overwriting(ctx: click.Context) -> None:
    """Refuse a command if one of its outputs is also one of its inputs.

    Raises:
        click.UsageError: an output is an input; the message names both.
    """
    refuse_same(_outputs(ctx), lambda: _inputs(ctx), stdout=_stream(sys.stdout) if "output" in ctx.params else None)


def refuse_same(outputs: Iterable[NamedPath], inputs: Callable[[], Iterable[NamedPath]], *, stdout: Identity | None = None) -> None:
    """Refuse the command if a file of ``outputs`` is in ``inputs``, or is read from a folder in ``inputs``.

    Args:
        inputs: Returns the inputs; called only if an output file already exists.
        stdout: The file that standard output is redirected to.

    Raises:
        click.UsageError: an output is an input; the message names both.
    """
    written = [(f"{each.option} {each.path}", each.name, found) for each in outputs if (found := identity(each.path)) is not None]
    if stdout is not None:
        written.append(("standard output", "", stdout))
    if not written:
        return
    read = list(inputs())
    for shown, name, found in written:
        for each in read:
            updated = (each.name, name) == _UPDATED
            refuse(not updated and _is_read(found, each), f"{shown} would overwrite an input: it is {_of(each)}; name another file")


def identity(path: str) -> Identity | None:
    """Return the identity of a regular file; otherwise None."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return Identity(found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _of(each: NamedPath) -> str:
    if each.path == _STDIN:
        return "the file on standard input"
    folder = "in the folder " if os.path.isdir(each.path) else ""
    return f"{folder}{each.path}, given as {each.option}"


def _is_read(found: Identity, each: NamedPath) -> bool:
    if each.path == _STDIN:
        return found == _stream(sys.stdin)
    if os.path.isdir(each.path):
        from kubestow.commands.common.input_folder import read_paths

        return any(identity(path) == found for path in read_paths(each.path))
    return identity(each.path) == found


def _stream(stream: Any) -> Identity | None:
    """Return the identity of the file that a standard stream is redirected to or from."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return Identity(found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _outputs(ctx: click.Context) -> Iterator[NamedPath]:
    for parameter in ctx.command.params:
        name, value = parameter.name or "", ctx.params.get(parameter.name or "")
        if name not in _OUTPUTS or not value:
            continue
        option = parameter.opts[0]
        if name == "forms":
            yield from (NamedPath(f"{option} {form}", name, file) for form, file in value if file is not None)
        elif value != _STDIN:
            yield NamedPath(option, name, value)


def _inputs(ctx: click.Context) -> Iterator[NamedPath]:
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if parameter.name in _OUTPUTS or not value:
            continue
        yield from paths_of(parameter, value if isinstance(value, tuple) else (value,))
    if "kubeconfig" in ctx.params and not ctx.params.get("snapshots"):
        for path in os.environ.get("KUBECONFIG", os.path.expanduser("~/.kube/config")).split(os.pathsep):
            yield NamedPath("kubectl's configuration", "kubeconfig", path)


def paths_of(parameter: click.Parameter, values: Iterable[object]) -> Iterator[NamedPath]:
    """Yield the files named by a parameter's values: paths, and the FILE of ``NAME=FILE``."""
    shown = (parameter.metavar or "").partition(".")[0].strip("[]") if isinstance(parameter, click.Argument) else parameter.opts[0]
    for value in values:
        if not isinstance(value, str):
            continue
        if isinstance(parameter.type, click.Path):
            yield NamedPath(shown, parameter.name or "", value)
        elif "FILE" in (parameter.metavar or ""):
            yield from (NamedPath(shown, parameter.name or "", path) for path in dict.fromkeys((value, value.partition("=")[2])) if path)
