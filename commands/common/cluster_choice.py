"""The argument ``SNAPSHOT...``, and the options that capture a cluster instead."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click

#: How users call the kubectl plugin; its usage lines start with this.
PLUGIN: Final = "kubectl stow"
#: Environment variable in which kubectl gives a plugin the path of kubectl itself.
_CALLER: Final = "KUBECTL_PATH"

_Command = Callable[..., Any]


@dataclass(frozen=True)
class ClusterChoice:
    """A cluster to capture before the command runs, as ``kubestow capture`` does.

    Attributes:
        context: kubectl's context; None for its current one.
        kubeconfig: kubectl's configuration file; None for kubectl's default.
        kubectl: The program to run.
        save: File that keeps the captured snapshot.
        namespace: The context's namespace for manifest objects without one; None if it is not needed or -n is given.
        begun: The capture under way, if the command began one before its imports.
    """

    context: str | None
    kubeconfig: str | None
    kubectl: str
    save: str | None = None
    namespace: str | None = None
    begun: list[Any] = field(default_factory=list, compare=False, repr=False)


def kubectl_program(given: str | None) -> str:
    """Return the kubectl to run: from the command line, else the caller of this plugin, else from the PATH."""
    return given or os.environ.get(_CALLER) or "kubectl"


def as_plugin(ctx: click.Context) -> bool:
    """Return True if kubectl runs this program as its plugin."""
    return ctx.find_root().info_name == PLUGIN


def _program(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if ctx.resilient_parsing else kubectl_program(value)


context = click.option("--context", metavar="CONTEXT", help="Context of kubectl.  [default: its current one]")
kubeconfig = click.option("--kubeconfig", metavar="FILE", type=click.Path(readable=False), help="Configuration file of kubectl.")
_KUBECTL: Final = "The kubectl program.  [default: the caller of this plugin, else the one on the PATH]"
kubectl = click.option("--kubectl", metavar="PROGRAM", callback=_program, help=_KUBECTL)

#: The argument of commands that also take pods and workloads by kubectl's names, such as ``pod/NAME``.
WITH_NAMES: Final = "SNAPSHOT... [TYPE/NAME]"
_PATH: Final = click.Path(allow_dash=True, readable=False)
_options = (
    click.option("--context", metavar="CONTEXT", help="Capture the cluster of this context of kubectl instead of reading a SNAPSHOT."),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(readable=False),
        help="Capture a cluster with this configuration file of kubectl.",
    ),
    click.option("--kubectl", metavar="PROGRAM", help=f"Capture a cluster with this kubectl program.  {_KUBECTL.partition('  ')[2]}"),
    click.option(
        "--save-snapshot", metavar="FILE", type=click.Path(readable=False), help="Save the captured snapshot to FILE, for verify and apply."
    ),
)


def snapshots(command: _Command) -> _Command:
    """Add ``SNAPSHOT...`` and the options that capture a cluster instead. The parameter ``cluster`` is None if files are read."""
    decorated: _Command = click.argument("snapshots", metavar="SNAPSHOT...", nargs=-1, type=_PATH)(in_place(command, needed=True))
    return decorated


def snapshots_with_names(command: _Command) -> _Command:
    """Add the same with another metavar. The command takes the names out of the argument first."""
    decorated: _Command = click.argument("snapshots", metavar=WITH_NAMES, nargs=-1, type=_PATH)(in_place(command, needed=True))
    return decorated


def in_place(command: _Command, *, needed: bool = False) -> _Command:
    """Add the options that capture a cluster to a command that already has ``snapshots``. ``needed``: one of both is required."""

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        names = {name: given.pop(name) for name in ("context", "kubeconfig", "kubectl", "save_snapshot")}
        given["cluster"] = found = _chosen(names, given, needed=needed)
        if found is not None and found.namespace is not None and "namespace" in given:
            given["namespace"] = found.namespace
        return command(**given)

    decorated: _Command = call
    for option in reversed(_options):
        decorated = option(decorated)
    return decorated


def _chosen(names: Mapping[str, str | None], given: Mapping[str, Any], *, needed: bool) -> ClusterChoice | None:
    """Return the cluster to capture, or None to read files or, unless ``needed``, nothing.

    Raises:
        click.UsageError: neither or both are given, or a cluster together with a result of an earlier snapshot.
    """
    saved = names["save_snapshot"]
    option = next((f"--{name}" for name in ("context", "kubeconfig", "kubectl") if names[name] is not None), None)
    if given["snapshots"]:
        if option is not None:
            raise click.UsageError(f"{option} captures a cluster instead of reading a SNAPSHOT: give only one")
        if saved is not None:
            raise click.UsageError("--save-snapshot requires a cluster to capture (--context), not a SNAPSHOT")
        return None
    of_result = given.get("result") is not None
    if option is not None and of_result:
        raise click.UsageError(f"{option} would capture a new snapshot, but --result needs the SNAPSHOT that it was made from")
    if option is None and (of_result or not as_plugin(click.get_current_context())):
        if not needed:
            if saved is not None:
                raise click.UsageError("--save-snapshot requires a cluster to capture (--context)")
            return None
        raise click.UsageError("Missing argument 'SNAPSHOT...'." + ("" if of_result else "  (--context NAME captures a cluster instead)"))
    if saved == "-":
        raise click.UsageError("--save-snapshot needs a file: standard output is for the result")
    program = kubectl_program(names["kubectl"])
    return ClusterChoice(names["context"], names["kubeconfig"], program, saved, _namespace(names, program, given))


def _namespace(names: Mapping[str, str | None], program: str, given: Mapping[str, Any]) -> str | None:
    """Return the namespace of kubectl's context if manifests need one, as ``kubectl apply`` does; else None."""
    manifests = given.get("manifests") or given.get("more") or "=" in (given.get("rollout") or "")
    if not manifests or given.get("namespace") is not None:
        return None
    from kubestow.commands.common.context_namespace import context_namespace

    return context_namespace(program, names["context"], names["kubeconfig"])
