"""``kubestow doctor``: check the requirements of kubestow, with a remedy for each failure."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.cluster import choice
from kubestow.commands.common.exit_codes import DONE, VIOLATED
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.option_values import positive
from kubestow.commands.common.options import Streams, bundled


@click.command(cls=GroupedCommand)
@choice.context
@choice.kubeconfig
@choice.kubectl
@click.option(
    "--timeout", metavar="SECONDS", type=float, default=15, callback=positive, help="Give up after this time without output from kubectl."
)
@options.workload_kinds
@options.output("table", "json", "yaml")
@bundled(streams=Streams)
def doctor(streams: Streams, context: str | None, kubeconfig: str | None, kubectl: str | None, timeout: float) -> None:
    """Check that kubestow's requirements are met: versions, cores, memory, solver, kubectl.

    With --context or --kubeconfig, also check that the cluster answers, and which permissions you have there. Otherwise the network is not
    used.

    Exit codes: 0 if all requirements are met (missing optional parts are notes), 4 otherwise.
    """
    streams.check()
    from kubestow.commands.common import output
    from kubestow.commands.doctor import cluster, machine, packages
    from kubestow.live.capture import CaptureOptions
    from kubestow.models.documents.doctor import Doctor
    from kubestow.models.snapshot.snapshot import Snapshot
    from kubestow.report.documents import results
    from kubestow.report.terminal import doctor as terminal

    contact = context is not None or kubeconfig is not None or choice.as_plugin(click.get_current_context())
    wanted: dict[str, Any] = {"context": context, "kubeconfig": kubeconfig, "timeout": timeout}
    ctx = click.get_current_context()
    named = ctx.get_parameter_source("kubectl") is click.core.ParameterSource.COMMANDLINE
    of_cluster = cluster.examine(CaptureOptions(str(kubectl), **wanted), contact=contact, needed=contact or named)
    examined = [*packages.examine(), *machine.examine(), *of_cluster]
    found = Doctor(all(each.state != "failed" for each in examined), examined)
    output.write_document(streams, partial(terminal.doctor_table, found), partial(results.plain, found), Snapshot())
    raise click.exceptions.Exit(DONE if found.well else VIOLATED)
