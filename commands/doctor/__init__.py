"""``kubestow doctor``: check the requirements of kubestow, with a remedy for each failure."""

from __future__ import annotations

from dataclasses import dataclass

import click

from kubestow.commands.common import cluster_choice, options
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.option_values import positive
from kubestow.commands.common.options import Streams, requested


@dataclass(frozen=True)
class DoctorRequest:
    """A request for checks. The other fields are those of :class:`kubestow.live.capture.CaptureOptions`."""

    streams: Streams
    context: str | None
    kubeconfig: str | None
    kubectl: str | None
    timeout: float


@click.command(cls=GroupedCommand)
@cluster_choice.context
@cluster_choice.kubeconfig
@cluster_choice.kubectl
@click.option(
    "--timeout", metavar="SECONDS", type=float, default=15, callback=positive, help="Give up after this time without output from kubectl."
)
@options.workload_kinds
@options.output("table", "json", "yaml")
@requested(DoctorRequest, streams=Streams)
def doctor(request: DoctorRequest) -> None:
    """Check that kubestow's requirements are met: versions, cores, memory, solver, kubectl.

    With --context or --kubeconfig, also check that the cluster answers, and which permissions you have there. Otherwise the network is not
    used.

    Exit codes: 0 if all requirements are met (missing optional parts are notes), 4 otherwise.
    """
    request.streams.check()
    from kubestow.commands.doctor.run import run

    run(request)
