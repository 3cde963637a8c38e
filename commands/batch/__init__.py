"""``kubestow batch``: run a command on many snapshots with many sets of options, in parallel.

Start at :mod:`kubestow.commands.batch.run`, and at :mod:`kubestow.commands.batch.worker` for one task.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from kubestow.commands.batch import arguments
from kubestow.commands.common import option_values, options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import requested

#: Environment variable with the index of a pod of an indexed Job, from 0.
INDEX = "JOB_COMPLETION_INDEX"
_FORM = "Format of the summary on standard output.  [default: table on a terminal, else json]"


class _Batch(GroupedCommand):
    """A command that passes the options of the inner command on to it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            own, inner = arguments.split(self, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        ctx.obj = inner
        return super().parse_args(ctx, own)


def _share(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Parse I/N into two numbers."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", value, re.ASCII)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"{value!r} is not a shard (expected I/N, I from 1 to N)")
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class RunningChoices:
    """Options for running tasks.

    Attributes:
        jobs: Number of tasks at once; None to derive it from the cores.
        dask: Dask scheduler, "local" or a scheduler file.
        memory: Memory limit of a task in bytes.
        resume: True to continue the batch in the folder.
        quiet: True for errors only.
        verbose: True to print every failed task.
        series: True to evaluate snapshots of one cluster as a time series.
    """

    jobs: int | None
    dask: str | None
    memory: int | None
    resume: bool
    quiet: bool
    verbose: bool
    series: bool


@dataclass(frozen=True)
class BatchRequest:
    """The options of ``kubestow batch``."""

    running: RunningChoices
    what: tuple[str, ...]
    output: str
    form: str | None
    everything: bool
    merge: bool
    each_directory: bool
    shard: tuple[int, int] | None
    shards: int | None

    @property
    def inner(self) -> list[str]:
        """The options of the inner command."""
        return list(click.get_current_context().obj)

    def check(self) -> None:
        """Refuse contradictory options."""
        how = self.running
        refuse(how.quiet and how.verbose, "-q and -v contradict each other")
        refuse(self.shard is not None and self.shards is not None, "--shard and --shards contradict each other")
        refuse(
            how.jobs is not None and how.dask not in (None, "local"),
            "--jobs cannot be combined with a Dask scheduler, which brings its own workers",
        )
        others = self.shard or self.shards or how.resume or self.inner or how.jobs or how.dask
        refuse(self.merge and others, "--merge takes only folders, -o and -f")


@click.command(cls=_Batch)
@click.argument("what", metavar="PLAN | COMMAND [OPTIONS] SNAPSHOT...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="DIR", required=True, type=click.Path(readable=False), help="Folder for the results.")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Number of tasks at once.  [default: cores / workers of each task]")
@click.option("--dask", metavar="ADDRESS|local|FILE", help="Run the tasks on the workers of a Dask scheduler; local starts one here.")
@click.option("--memory", metavar="SIZE", callback=option_values.parsed("size"), help="Memory limit of a task: 500M, 2Gi.  [default: all]")
@click.option("--resume", is_flag=True, help="Continue the batch in this folder; finished tasks are not repeated.")
@click.option("--each-directory", is_flag=True, help="Read each folder as one snapshot instead of one for each file.")
@click.option("--shard", metavar="I/N", callback=_share, help="Run shard I of N of the tasks, in the folder shard-I-of-N of DIR.")
@click.option("--shards", type=click.IntRange(1), metavar="N", help=f"Like --shard, with I taken from {INDEX} of an indexed Job.")
@click.option(
    "--series", is_flag=True, help="Evaluate the snapshots of each cluster as a time series: utilisation, findings that come and go."
)
@click.option("--merge", is_flag=True, help="Merge the summaries of other folders, named instead of a plan.")
@click.option("-f", "--format", "form", type=click.Choice(["table", "csv", "json"]), help=_FORM)
@options.everything
@options.noise(verbose="Print every failed task on standard error, not only the first.")
@requested(BatchRequest, running=RunningChoices)
def batch(request: BatchRequest) -> None:
    """Run a command on many snapshots, with many sets of options, in parallel.

    The command is audit, solve, explain, rebalance, fit, size, survive or upgrade. A PLAN is a YAML file of snapshots and sets of options.
    Instead, give a COMMAND with its OPTIONS and SNAPSHOTs: files, patterns, folders, or - for a list on standard input.

    Each result is written to DIR/results, the summaries to DIR/summary.json and DIR/summary.csv.

    Exit codes: 0 if every task has a result (with any exit code of its command), 3 if one has none, 130 if interrupted (finished results
    are kept).
    """
    request.check()
    from kubestow.commands.batch.run import run

    run(request)
