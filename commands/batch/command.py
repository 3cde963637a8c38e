"""``kubestow batch``: run a command on many snapshots with many sets of options, in parallel."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kubestow.commands.batch import arguments
from kubestow.commands.batch.task import COMMANDS
from kubestow.commands.common import option_values, options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, INTERRUPTED, fail, refuse, say
from kubestow.commands.common.help_text import GroupedCommand

if TYPE_CHECKING:
    from kubestow.commands.batch.plan import TaskPlan
    from kubestow.commands.batch.worker import BatchWork
    from kubestow.models.documents.batch import BatchSummary, Row
    from kubestow.solver.executors.workers import Workers

#: Environment variable with the index of a pod of an indexed Job, from 0.
_INDEX = "JOB_COMPLETION_INDEX"
_KEPT = "finished results are kept; --resume continues"
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
class _Running:
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


@click.command(cls=_Batch)
@click.argument("what", metavar="PLAN | COMMAND [OPTIONS] SNAPSHOT...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="DIR", required=True, type=click.Path(readable=False), help="Folder for the results.")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Number of tasks at once.  [default: cores / workers of each task]")
@click.option("--dask", metavar="ADDRESS|local|FILE", help="Run the tasks on the workers of a Dask scheduler; local starts one here.")
@click.option("--memory", metavar="SIZE", callback=option_values.size, help="Memory limit of a task: 500M, 2Gi.  [default: all]")
@click.option("--resume", is_flag=True, help="Continue the batch in this folder; finished tasks are not repeated.")
@click.option("--each-directory", is_flag=True, help="Read each folder as one snapshot instead of one for each file.")
@click.option("--shard", metavar="I/N", callback=_share, help="Run shard I of N of the tasks, in the folder shard-I-of-N of DIR.")
@click.option("--shards", type=click.IntRange(1), metavar="N", help=f"Like --shard, with I taken from {_INDEX} of an indexed Job.")
@click.option(
    "--series", is_flag=True, help="Evaluate the snapshots of each cluster as a time series: utilisation, findings that come and go."
)
@click.option("--merge", is_flag=True, help="Merge the summaries of other folders, named instead of a plan.")
@click.option("-f", "--format", "form", type=click.Choice(["table", "csv", "json"]), help=_FORM)
@options.everything
@options.noise(verbose="Print every failed task on standard error, not only the first.")
@click.pass_obj
def batch(
    inner: list[str],
    /,
    what: tuple[str, ...],
    output: str,
    form: str | None,
    everything: bool,
    merge: bool,
    each_directory: bool,
    shard: tuple[int, int] | None,
    shards: int | None,
    **running: Any,
) -> None:
    """Run a command on many snapshots, with many sets of options, in parallel.

    The command is audit, solve, explain, rebalance, fit, size, survive or upgrade. A PLAN is a YAML file of snapshots and sets of options.
    Instead, give a COMMAND with its OPTIONS and SNAPSHOTs: files, patterns, folders, or - for a list on standard input.

    Each result is written to DIR/results, the summaries to DIR/summary.json and DIR/summary.csv.

    Exit codes: 0 if every task has a result (with any exit code of its command), 3 if one has none, 130 if interrupted (finished results
    are kept).
    """
    how = _Running(**running)
    refuse(how.quiet and how.verbose, "-q and -v contradict each other")
    refuse(shard is not None and shards is not None, "--shard and --shards contradict each other")
    refuse(
        how.jobs is not None and how.dask not in (None, "local"),
        "--jobs cannot be combined with a Dask scheduler, which brings its own workers",
    )
    refuse(merge and (shard or shards or how.resume or inner or how.jobs or how.dask), "--merge takes only folders, -o and -f")
    from kubestow.commands.batch import merge as merging
    from kubestow.commands.batch import summary as summaries
    from kubestow.commands.common.inputs import checked
    from kubestow.report.terminal.fleet.summary import line

    if merge:
        _refuse_overwriting(output, [("a summary to be merged", path) for path in merging.summaries_of(what)], results=False)
        together = checked(lambda: merging.merged(what, output))
        if how.series:
            summaries.add_series(together, output)
        os.makedirs(output, exist_ok=True)
        summaries.write(together, output)
        summaries.show(together, form, everything=everything)
        if not how.quiet:
            say(f"{line(together)}; {os.path.join(output, 'summary.json')}")
        raise click.exceptions.Exit(INCOMPLETE if together.failed or together.left else DONE)
    share = shard or _from_job(shards)
    plan = checked(lambda: _plan(what, inner, each_directory=each_directory))
    folder = os.path.join(output, f"shard-{share[0]}-of-{share[1]}") if share is not None else output
    _refuse_overwriting(folder, _files(plan, what, output), results=True)
    started = time.monotonic()
    found, end = _run(plan, folder, output, share, how)
    summaries.show(found, form, everything=everything)
    if not how.quiet:
        say(f"{line(found)}, {time.monotonic() - started:.1f} s; {os.path.join(folder, 'summary.json')}")
    end()


def _refuse_overwriting(folder: str, inputs: Iterable[tuple[str, str]], *, results: bool) -> None:
    """Refuse an output folder in which an input file would be overwritten. ``inputs`` are pairs of option and path."""
    from kubestow.commands.batch.folder import written
    from kubestow.commands.common.overwriting import NamedPath, refuse_same

    outputs = [NamedPath("-o", "output", path) for path in written(folder, results=results)]
    refuse_same(outputs, lambda: [NamedPath(option, "", path) for option, path in inputs])


def _files(plan: TaskPlan, what: Sequence[str], output: str) -> Iterator[tuple[str, str]]:
    """Yield the input files of a plan and the plan itself, each with the option or argument that names it."""
    from kubestow.commands.batch import snapshots
    from kubestow.commands.batch.task import command_of
    from kubestow.commands.common.overwriting import paths_of
    from kubestow.models.snapshot.snapshot import InputError

    if what[0] not in COMMANDS:
        yield "the plan", what[0]
    with contextlib.suppress(InputError):  # reported later, when the snapshots are read
        paths = snapshots.expand(plan.snapshots, each_directory=plan.each_directory, without=output)
        yield from (("SNAPSHOT", path) for path in paths)
    for each in plan.sets:
        given, _ = arguments.read(each.options, arguments.by_name(command_of(each.command)))
        for option in given:
            yield from ((found.option, found.path) for found in paths_of(option.option, (option.value,)))


def _from_job(shards: int | None) -> tuple[int, int] | None:
    """Return the shard of this pod of an indexed Job."""
    if shards is None:
        return None
    index = os.environ.get(_INDEX, "")
    refuse(
        not re.fullmatch("[0-9]{1,6}", index, re.ASCII),
        f"--shards requires {_INDEX}, which pods of an indexed Job have (use --shard I/N elsewhere)",
    )
    refuse(int(index) >= shards, f"{_INDEX} is {index}, expected a number below {shards} (--shards)")
    return int(index) + 1, shards


def _plan(what: Sequence[str], inner: Sequence[str], *, each_directory: bool) -> TaskPlan:
    """Return the plan: read from a file, or made from the command line."""
    from kubestow.commands.batch import plan

    if what[0] not in COMMANDS:
        refuse(len(what) > 1, f"{what[0]} is read as a plan, which takes no further arguments (commands are {', '.join(COMMANDS)})")
        refuse(each_directory, "--each-directory requires a command line; a plan has `eachDirectory: true`")
        return plan.read(what[0])
    refuse(len(what) == 1, f"{what[0]}: snapshots are missing: files, patterns, folders, or - for a list on standard input")
    return plan.of_command(what[0], inner, _listed(what[1:]), each_directory=each_directory)


def _listed(named: Sequence[str]) -> list[str]:
    """Return the named snapshots; ``-`` is replaced by the list on standard input."""
    found: list[str] = []
    for name in named:
        lines = sys.stdin.read().splitlines() if name == "-" else [name]
        found += [line for line in lines if line]
    return found


def _run(
    plan: TaskPlan, folder: str, output: str, share: tuple[int, int] | None, how: _Running
) -> tuple[BatchSummary, Callable[[], NoReturn]]:
    """Run the tasks. Return the summary and the function that ends the command."""
    from kubestow.commands.batch import snapshots, tasks
    from kubestow.commands.batch import summary as summaries
    from kubestow.commands.batch.folder import Folder
    from kubestow.commands.batch.running import Full, Log, rows_of
    from kubestow.commands.common.inputs import checked
    from kubestow.report.terminal.fleet import progress
    from kubestow.solver.executors.workers import WorkersError

    with Folder(folder).take(resume=how.resume) as place:
        paths = checked(lambda: snapshots.expand(plan.snapshots, each_directory=plan.each_directory, without=output))
        listed = tasks.of(plan, paths, share, series=how.series)
        rows: dict[str, Row] = {row.id: row for row in listed.unreadable}
        rows |= {task.id: tasks.renamed(place.done[task.id], task) for task in listed.tasks if task.id in place.done}
        waiting = [task for task in listed.tasks if task.id not in rows]
        jobs, common = _shared(plan, folder, how)
        problem, interrupted = "", False
        with progress.choose(len(waiting), jobs, quiet=how.quiet) as display:
            log = Log(display, quiet=how.quiet, verbose=how.verbose)
            for row in listed.unreadable:
                log.tell(row)
            try:
                for row in rows_of(waiting, lambda: _workers(how.dask, min(jobs, len(waiting))), common, place, display) if waiting else ():
                    rows[row.id] = row
                    log.take(row)
            except KeyboardInterrupt:
                interrupted = True
            except WorkersError as error:
                if not rows:
                    fail([str(error)])
                problem = f"{error}; {_KEPT}"
            except Full:
                problem = f"{folder}: the disk is full; {_KEPT}"
        in_order = [rows[id] for id in listed.order if id in rows]
        name = f"{share[0]}/{share[1]}" if share is not None else None
        summary = summaries.of(in_order, tasks=len(listed.order), shard=name, notes=listed.notes)
        try:
            if how.series:
                summaries.add_series(summary, folder)
            summaries.write(summary, folder)
        except OSError as error:
            problem = problem or f"{folder}: {error.strerror or error}"
    return summary, lambda: _end(summary, problem, interrupted=interrupted)


def _end(found: BatchSummary, problem: str, *, interrupted: bool) -> NoReturn:
    if problem:
        fail([problem])
    if interrupted:
        say(f"kubestow: interrupted; {_KEPT}")
    raise click.exceptions.Exit(INTERRUPTED if interrupted else INCOMPLETE if found.failed else DONE)


def _shared(plan: TaskPlan, folder: str, how: _Running) -> tuple[int, BatchWork]:
    """Return the number of tasks at once, and their common settings. By default the cores are divided among the tasks."""
    from kubestow.commands.batch import tasks
    from kubestow.commands.batch.worker import BatchWork
    from kubestow.solver.executors.workers import jobs_and_share

    said = [tasks.workers_of(each) for each in plan.sets]
    jobs, share = jobs_and_share(how.jobs, max((n for n in said if n is not None), default=None))
    return jobs, BatchWork(folder if how.dask is None else None, how.memory, share, how.series)


def _workers(dask: str | None, jobs: int) -> Workers:
    from kubestow.solver.executors.workers import Processes

    if dask is None:
        return Processes(jobs)
    from kubestow.solver.executors.dask_workers import open_dask

    return open_dask(dask, jobs)
