"""The workers that share one search."""

from __future__ import annotations

import click

from kubestow.commands.common.exit_codes import fail, refuse
from kubestow.commands.common.options import WorkerChoices
from kubestow.solver.executors.pool import WorkerPool, pool_of
from kubestow.solver.executors.workers import WorkersError


def workers(choices: WorkerChoices) -> WorkerPool | None:
    """Return the workers that share one search; None without --jobs and --dask. They end with the command.

    If no worker answers, or their version differs, the command ends.
    """
    text = "--jobs cannot be combined with a Dask scheduler, which brings its own workers"
    refuse(choices.jobs is not None and choices.dask not in (None, "local"), text)
    try:
        pool = pool_of(choices.jobs, choices.dask)
    except WorkersError as error:
        fail([str(error)])
    return pool if pool is None else click.get_current_context().with_resource(pool)
