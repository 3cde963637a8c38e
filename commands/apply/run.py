"""The work of ``kubestow apply``."""

from __future__ import annotations

from typing import NoReturn

import click

from kubestow.commands.apply import ApplyRequest, reviewed
from kubestow.commands.apply.reviewed import Reviewed
from kubestow.commands.common.exit_codes import DONE, fail, refuse, say
from kubestow.commands.common.options import Streams
from kubestow.commands.common.overwriting import NamedPath, refuse_same
from kubestow.commands.running import output
from kubestow.live.api.connect import why_not
from kubestow.live.apply.journal import journal_path
from kubestow.report.terminal.carrying_out import steps


def run(request: ApplyRequest) -> NoReturn:
    """Review the document, write the preview, and carry it out."""
    streams, choices = request.streams, request.choices
    _keep_journal(streams)
    streams.check()
    nowhere = why_not(choices.kubeconfig, choices.context)
    if nowhere is not None and (choices.yes or request.opening):
        fail([nowhere])
    review = None if request.opening else _reviewed(request)
    if nowhere is not None:
        say(f"note: the cluster was not compared with the snapshot: {nowhere}")
        raise click.exceptions.Exit(DONE)
    from kubestow.commands.apply import on_cluster  # needs the Kubernetes client library

    raise click.exceptions.Exit(on_cluster.open_nodes(choices, streams) if review is None else on_cluster.work(review))


def _reviewed(request: ApplyRequest) -> Reviewed:
    """Read the document. Without --yes, write the preview."""
    review = reviewed.read(request.streams, request.choices)
    _check_document(review)
    if not request.choices.yes:
        output.write_table(request.streams, lambda surface: steps(review.document, review.snapshot, surface), review.snapshot)
    return review


def _check_document(review: Reviewed) -> None:
    """End the command on options that do not apply to this kind of document."""
    choices = review.choices
    refuse((choices.serve or choices.undo) and not review.templates, "--serve and --undo require a Placement of manifests")
    refuse(choices.until_done and review.templates, "--until-done does not apply to a Placement of manifests; use --serve")
    for given, name in ((choices.wave, "--wave"), (choices.pause_between, "--pause-between")):
        refuse(
            given is not None and review.templates, f"{name} does not apply to a Placement of manifests, which has gangs instead of waves"
        )


def _keep_journal(streams: Streams) -> None:
    """End the command if its output would overwrite the journal of the run, which --resume reads."""
    if streams.output not in (None, "-") and streams.result is not None:
        kept = NamedPath("the journal of --result", "", journal_path(streams.result))
        refuse_same([NamedPath("-o", "output", str(streams.output))], lambda: [kept])
