"""``kubestow batch``: many snapshots, each with many sets of options, on many cores."""

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
from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, INTERRUPTED, fail, refuse, say
from kubestow.commands.common.help_text import Command

if TYPE_CHECKING:
    from kubestow.commands.batch.plan import Plan
    from kubestow.commands.batch.worker import Work
    from kubestow.models.documents.batch import BatchSummary, Row
    from kubestow.solver.executors.workers import Workers

#: The index of a pod of an indexed Job, from 0.
_INDEX = "JOB_COMPLETION_INDEX"
_KEPT = "results that are done are kept, and --resume goes on"
_FORM = "Form of the summary on standard output.  [default: table on a terminal, else json]"


class _Batch(Command):
    """Leaves the options of the command that it runs to that one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            own, inner = arguments.split(self, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        ctx.obj = inner
        return super().parse_args(ctx, own)


def _share(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Return I and N of I/N."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", value, re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"{value!r} is no share (expected I/N, I from 1 to N)")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class _Running:
    """How tasks run."""

    jobs: int | None
    dask: str | None
    memory: int | None
    resume: bool
    quiet: bool
    verbose: bool
    series: bool


@click.command(cls=_Batch)
@click.argument("what", metavar="PLAN | COMMAND [OPTIONS] SNAPSHOT...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="DIR", required=True, type=click.Path(readable=False), help="Folder of the results.")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Tasks at once.  [default: cores divided by workers of each]")
@click.option("--dask", metavar="ADDRESS|local|FILE", help="Workers of this Dask scheduler do the tasks; local: one that is started here.")
@click.option("--memory", metavar="SIZE", callback=options.size, help="Memory that a task may take: 500M, 2Gi.  [default: all]")
@click.option("--resume", is_flag=True, help="Go on with the batch of this folder: what is done is not done again.")
@click.option("--each-directory", is_flag=True, help="A folder is one snapshot, instead of one for each file in it.")
@click.option("--shard", metavar="I/N", callback=_share, help="Do the share I of N of the tasks, in the folder shard-I-of-N of DIR.")
@click.option("--shards", type=click.IntRange(1), metavar="N", help=f"The same, I from {_INDEX}, as pods of an indexed Job have it.")
@click.option("--series", is_flag=True, help="Put snapshots of each cluster in order of capture: how full, findings that come and go.")
@click.option("--merge", is_flag=True, help="Put the summaries of other folders together, which are named in place of a plan.")
@click.option("-f", "--format", "form", type=click.Choice(["table", "csv", "json"]), help=_FORM)
@options.everything
@options.noise(verbose="Name every task that fails on standard error, not only the first.")
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
    """Run a command on many snapshots, with many sets of options, on all cores.

    The command is audit, solve, explain, rebalance, fit, size, survive or upgrade. A PLAN is a YAML file of snapshots and sets of options;
    in place of it a COMMAND with its OPTIONS and SNAPSHOTs: files, patterns, folders of them, or - for a list on standard input.

    Writes each result to DIR/results, and DIR/summary.json and summary.csv. Exits with 0 when every task has a result, whatever the exit
    code of its command, 3 when one has none, 130 when interrupted (what is done is kept).
    """
    how = _Running(**running)
    refuse(how.quiet and how.verbose, "-q and -v contradict each other")
    refuse(shard is not None and shards is not None, "--shard and --shards contradict each other")
    refuse(how.jobs is not None and how.dask not in (None, "local"), "--jobs: a Dask scheduler has the workers that it has")
    refuse(merge and (shard or shards or how.resume or inner or how.jobs or how.dask), "--merge goes with -o, -f and folders alone")
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
    """Refuse a folder in which a file would be written that is read. ``inputs``: what names a file, and its path."""
    from kubestow.commands.batch.folder import written
    from kubestow.commands.common.overwriting import Named, refuse_same

    outputs = [Named("-o", "output", path) for path in written(folder, results=results)]
    refuse_same(outputs, lambda: [Named(option, "", path) for option, path in inputs])


def _files(plan: Plan, what: Sequence[str], output: str) -> Iterator[tuple[str, str]]:
    """Yield the files that the tasks of a plan read, and the plan, each with what names it."""
    from kubestow.commands.batch import snapshots
    from kubestow.commands.batch.task import command_of
    from kubestow.commands.common.overwriting import paths_of
    from kubestow.models.snapshot.snapshot import InputError

    if what[0] not in COMMANDS:
        yield "the plan", what[0]
    with contextlib.suppress(InputError):  # which is reported where the snapshots are read
        paths = snapshots.expand(plan.snapshots, each_directory=plan.each_directory, without=output)
        yield from (("SNAPSHOT", path) for path in paths)
    for each in plan.sets:
        given, _ = arguments.read(each.options, arguments.by_name(command_of(each.command)))
        for option in given:
            yield from ((found.option, found.path) for found in paths_of(option.option, (option.value,)))


def _from_job(shards: int | None) -> tuple[int, int] | None:
    """Return the share of a pod of an indexed Job."""
    if shards is None:
        return None
    index = os.environ.get(_INDEX, "")
    refuse(
        not re.fullmatch("[0-9]{1,6}", index, re.ASCII),
        f"--shards needs {_INDEX}, which pods of an indexed Job have (else --shard I/N)",
    )
    refuse(int(index) >= shards, f"{_INDEX} is {index}, which is none of --shards {shards} shares, counted from 0")
    return int(index) + 1, shards


def _plan(what: Sequence[str], inner: Sequence[str], *, each_directory: bool) -> Plan:
    """Return the plan of a file, or that which the command line is."""
    from kubestow.commands.batch import plan

    if what[0] not in COMMANDS:
        refuse(len(what) > 1, f"{what[0]} is taken as a plan, which stands alone (commands are {', '.join(COMMANDS)})")
        refuse(each_directory, "--each-directory is for a command line; in a plan it is `eachDirectory: true`")
        return plan.read(what[0])
    refuse(len(what) == 1, f"{what[0]}: snapshots are missing: files, patterns, folders, or - for a list on standard input")
    return plan.of_command(what[0], inner, _listed(what[1:]), each_directory=each_directory)


def _listed(named: Sequence[str]) -> list[str]:
    """Return the snapshots that are named, those of a list on standard input in place of ``-``."""
    found: list[str] = []
    for name in named:
        lines = sys.stdin.read().splitlines() if name == "-" else [name]
        found += [line for line in lines if line]
    return found


def _run(plan: Plan, folder: str, output: str, share: tuple[int, int] | None, how: _Running) -> tuple[BatchSummary, Callable[[], NoReturn]]:
    """Do the tasks, and return the summary with what ends the command."""
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
                problem = f"{folder}: no room is left; {_KEPT}"
        in_order = [rows[id] for id in listed.order if id in rows]
        name = f"{share[0]}/{share[1]}" if share is not None else None
        found = summaries.of(in_order, tasks=len(listed.order), shard=name, notes=listed.notes)
        try:
            if how.series:
                summaries.add_series(found, folder)
            summaries.write(found, folder)
        except OSError as error:
            problem = problem or f"{folder}: {error.strerror or error}"
    return found, lambda: _end(found, problem, interrupted=interrupted)


def _end(found: BatchSummary, problem: str, *, interrupted: bool) -> NoReturn:
    if problem:
        fail([problem])
    if interrupted:
        say(f"kubestow: interrupted; {_KEPT}")
    raise click.exceptions.Exit(INTERRUPTED if interrupted else INCOMPLETE if found.failed else DONE)


def _shared(plan: Plan, folder: str, how: _Running) -> tuple[int, Work]:
    """Return how many tasks run at once, and what they have in common: a share of the cores for each, where the user says nothing else."""
    from kubestow.commands.batch import tasks
    from kubestow.commands.batch.worker import Work
    from kubestow.solver.executors.workers import jobs_and_share

    said = [tasks.workers_of(each) for each in plan.sets]
    jobs, share = jobs_and_share(how.jobs, max((n for n in said if n is not None), default=None))
    return jobs, Work(folder if how.dask is None else None, how.memory, share, how.series)


def _workers(dask: str | None, jobs: int) -> Workers:
    from kubestow.solver.executors.workers import Processes

    if dask is None:
        return Processes(jobs)
    from kubestow.solver.executors.dask_workers import open_dask

    return open_dask(dask, jobs)
