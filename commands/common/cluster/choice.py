"""``SNAPSHOT...``, or in its place the options that name a cluster to capture."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

#: How users call the plugin of kubectl; usage lines begin so.
PLUGIN: Final = "kubectl stow"
#: What kubectl tells a plugin of itself: the path of its own program.
_CALLER: Final = "KUBECTL_PATH"

_Command = Callable[..., Any]


@dataclass(frozen=True)
class ClusterChoice:
    """A cluster that is captured before the command goes on, as ``kubestow capture`` does it.

    ``context``, ``kubeconfig``: kubectl's own options; ``kubectl``: the program; ``save``: the file that keeps what was captured.
    ``namespace``: what the context says of objects that name none, where there are such and the command line says nothing.
    """

    context: str | None
    kubeconfig: str | None
    kubectl: str
    save: str | None = None
    namespace: str | None = None


def kubectl_program(given: str | None) -> str:
    """Return the kubectl to run: that of the command line, else the one that runs this as its plugin, else that on the PATH."""
    return given or os.environ.get(_CALLER) or "kubectl"


def as_plugin(ctx: click.Context) -> bool:
    """Return whether kubectl runs this as its plugin."""
    return ctx.find_root().info_name == PLUGIN


def _program(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if ctx.resilient_parsing else kubectl_program(value)


context = click.option("--context", metavar="CONTEXT", help="kubectl's context; default: its current one.")
kubeconfig = click.option("--kubeconfig", metavar="FILE", type=click.Path(readable=False), help="kubectl's configuration file.")
_KUBECTL: Final = "The program to run.  [default: the kubectl that runs this as its plugin, else the one on the PATH]"
kubectl = click.option("--kubectl", metavar="PROGRAM", callback=_program, help=_KUBECTL)

_argument = click.argument("snapshots", metavar="SNAPSHOT...", nargs=-1, type=click.Path(allow_dash=True, readable=False))
_options = (
    click.option("--context", metavar="CONTEXT", help="Capture this cluster instead of reading a SNAPSHOT: kubectl's context."),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(readable=False),
        help="The same with this configuration file of kubectl; its current context without --context.",
    ),
    click.option("--kubectl", metavar="PROGRAM", help=f"The same with this kubectl.  {_KUBECTL.partition('  ')[2]}"),
    click.option("--save-snapshot", metavar="FILE", type=click.Path(readable=False), help="Keep what was captured, for verify and apply."),
)


def snapshots(command: _Command) -> _Command:
    """Give a command ``SNAPSHOT...`` and the options that name a cluster in its place; it gets ``cluster``, None where it is to read
    files."""
    decorated: _Command = _argument(in_place(command, needed=True))
    return decorated


def in_place(command: _Command, *, needed: bool = False) -> _Command:
    """Give a command, which has ``snapshots`` already, the options that name a cluster in their place. ``needed``: one of both is."""

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
    """Return the cluster that is asked for, None where files are, or nothing is and none of both is ``needed``.

    Raises:
        click.UsageError: neither, both, or a cluster where the snapshot has to be the one that a result is of.
    """
    saved = names["save_snapshot"]
    asked = next((f"--{name}" for name in ("context", "kubeconfig", "kubectl") if names[name] is not None), None)
    if given["snapshots"]:
        if asked is not None:
            raise click.UsageError(f"{asked} captures a cluster in place of a SNAPSHOT: give one of them")
        if saved is not None:
            raise click.UsageError("--save-snapshot keeps what is captured: it goes with a cluster (--context), not with a SNAPSHOT")
        return None
    of_result = given.get("result") is not None
    if asked is not None and of_result:
        raise click.UsageError(f"{asked} captures the cluster anew, and --result is of the SNAPSHOT that it was made from")
    if asked is None and (of_result or not as_plugin(click.get_current_context())):
        if not needed:
            if saved is not None:
                raise click.UsageError("--save-snapshot keeps what is captured: it goes with a cluster (--context)")
            return None
        raise click.UsageError("Missing argument 'SNAPSHOT...'." + ("" if of_result else "  (--context NAME captures a cluster instead)"))
    if saved == "-":
        raise click.UsageError("--save-snapshot needs a file: standard output is for the result")
    program = kubectl_program(names["kubectl"])
    return ClusterChoice(names["context"], names["kubeconfig"], program, saved, _namespace(names, program, given))


def _namespace(names: Mapping[str, str | None], program: str, given: Mapping[str, Any]) -> str | None:
    """Return the namespace of kubectl's context, as ``kubectl apply`` takes it, if there are manifests and nothing else says theirs."""
    manifests = given.get("manifests") or given.get("more") or "=" in (given.get("rollout") or "")
    if not manifests or given.get("namespace") is not None:
        return None
    from kubestow.live.capture import CaptureOptions
    from kubestow.live.capture_kubectl import Kubectl, KubectlError
    from kubestow.models.snapshot.object_names import is_label

    asked = CaptureOptions(program, names["context"], names["kubeconfig"])
    try:
        found = Kubectl(asked.kubectl, asked.arguments(), asked.timeout).namespace()
    except KubectlError:
        return None  # the capture will say what is wrong
    return found if is_label(found) else None
