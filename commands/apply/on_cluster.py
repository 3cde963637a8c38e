"""The operations on a cluster. This module and those below it need the Kubernetes client library."""

from __future__ import annotations

from kubestow.commands.apply import carrying_out, releasing, rounds
from kubestow.commands.apply.apply_choices import ApplyChoices
from kubestow.commands.apply.reviewed import Reviewed
from kubestow.commands.common.options import Streams
from kubestow.live.apply.steps import waves


def open_nodes(choices: ApplyChoices, streams: Streams) -> int:
    """Open the nodes that earlier runs left closed and return the exit code."""
    return carrying_out.run(lambda: carrying_out.open_nodes(choices, streams))


def work(review: Reviewed) -> int:
    """Run the requested operation on the cluster and return the exit code."""
    choices = review.choices
    if review.templates:
        work = releasing.serve if choices.serve and choices.yes else releasing.release if choices.yes else releasing.look
    else:
        waves(review.document, review.snapshot)
        work = rounds.until_done if choices.until_done and choices.yes else carrying_out.carry_out if choices.yes else carrying_out.look
    return carrying_out.run(lambda: work(review))
