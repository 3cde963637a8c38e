"""The work of ``kubestow doctor``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import click

from kubestow.commands.common.cluster_choice import as_plugin
from kubestow.commands.common.exit_codes import DONE, VIOLATED
from kubestow.commands.doctor import DoctorRequest, cluster, machine, packages
from kubestow.commands.running import output
from kubestow.live.capture import CaptureOptions
from kubestow.models.documents.doctor import Doctor
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents import results
from kubestow.report.terminal import doctor as terminal
from kubestow.report.writers import WrittenResult


def run(request: DoctorRequest) -> NoReturn:
    """Check the requirements and write the report."""
    ctx = click.get_current_context()
    contact = request.context is not None or request.kubeconfig is not None or as_plugin(ctx)
    capture_options = CaptureOptions(
        str(request.kubectl), context=request.context, kubeconfig=request.kubeconfig, timeout=request.timeout
    )  # fmt: skip
    named = ctx.get_parameter_source("kubectl") is click.core.ParameterSource.COMMANDLINE
    of_cluster = cluster.examine(capture_options, contact=contact, needed=contact or named)
    examined = [*packages.examine(), *machine.examine(), *of_cluster]
    found = Doctor(all(each.state != "failed" for each in examined), examined)
    result = WrittenResult(found, Snapshot())
    output.write_document(request.streams, partial(terminal.doctor_table, found), partial(results.plain, found), result)
    raise click.exceptions.Exit(DONE if found.well else VIOLATED)
