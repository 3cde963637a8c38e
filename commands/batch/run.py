"""The work of ``kubestow batch``."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn

import click

from kubestow.commands import COMMANDS
from kubestow.commands.batch import INDEX, BatchRequest, RunningChoices, arguments, snapshots, tasks
from kubestow.commands.batch import merge as merging
from kubestow.commands.batch import plan as plans
from kubestow.commands.batch import summary as summaries
from kubestow.commands.batch.arguments import BATCHED
from kubestow.commands.batch.folder import Folder, written
from kubestow.commands.batch.plan import TaskPlan
from kubestow.commands.batch.running import Full, Log, rows_of
from kubestow.commands.batch.worker import BatchWork
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, INTERRUPTED, fail, refuse, say
from kubestow.commands.common.overwriting import NamedPath, paths_of, refuse_same
from kubestow.models.documents.batch import BatchSummary, Row
from kubestow.models.snapshot.snapshot import InputError
from kubestow.report.terminal.fleet import progress
from kubestow.report.terminal.fleet.summary import line
from kubestow.solver.executors.dask_workers import open_dask
from kubestow.solver.executors.workers import Processes, Workers, WorkersError, jobs_and_share

_KEPT: Final = "finished results are kept; --resume continues"


def run(request: BatchRequest) -> None:
    """Merge summaries, or run the tasks, and write the summary."""
    if request.merge:
        _merge(request)
    share = request.shard or _from_job(request.shards)
    plan = _plan(request)
    folder = os.path.join(request.output, f"shard-{share[0]}-of-{share[1]}") if share is not None else request.output
    _refuse_overwriting(folder, _files(plan, request.what, request.output), results=True)
    started = time.monotonic()
    found, end = _run(plan, folder, share, request)
    summaries.show(found, request.form, everything=request.everything)
    if not request.running.quiet:
        say(f"{line(found)}, {time.monotonic() - started:.1f} s; {os.path.join(folder, 'summary.json')}")
    end()


def _merge(request: BatchRequest) -> NoReturn:
    """Merge the summaries of other folders."""
    _refuse_overwriting(request.output, [("a summary to be merged", path) for path in merging.summaries_of(request.what)], results=False)
    together = merging.merged(request.what, request.output)
    if request.running.series:
        summaries.add_series(together, request.output)
    os.makedirs(request.output, exist_ok=True)
    summaries.write(together, request.output)
    summaries.show(together, request.form, everything=request.everything)
    if not request.running.quiet:
        say(f"{line(together)}; {os.path.join(request.output, 'summary.json')}")
    raise click.exceptions.Exit(INCOMPLETE if together.failed or together.left else DONE)


def _refuse_overwriting(folder: str, inputs: Iterable[tuple[str, str]], *, results: bool) -> None:
    """Refuse an output folder in which an input file would be overwritten. ``inputs`` are pairs of option and path."""
    outputs = [NamedPath("-o", "output", path) for path in written(folder, results=results)]
    refuse_same(outputs, lambda: [NamedPath(option, "", path) for option, path in inputs])


def _files(plan: TaskPlan, what: Sequence[str], output: str) -> Iterator[tuple[str, str]]:
    """Yield the input files of a plan and the plan itself, each with the option or argument that names it."""
    if what[0] not in BATCHED:
        yield "the plan", what[0]
    with contextlib.suppress(InputError):  # reported later, when the snapshots are read
        paths = snapshots.expand(plan.snapshots, each_directory=plan.each_directory, without=output)
        yield from (("SNAPSHOT", path) for path in paths)
    for each in plan.sets:
        given, _ = arguments.read(each.options, arguments.by_name(COMMANDS[each.command]))
        for option in given:
            yield from ((found.option, found.path) for found in paths_of(option.option, (option.value,)))


def _from_job(shards: int | None) -> tuple[int, int] | None:
    """Return the shard of this pod of an indexed Job."""
    if shards is None:
        return None
    index = os.environ.get(INDEX, "")
    refuse(
        not re.fullmatch("[0-9]{1,6}", index, re.ASCII),
        f"--shards requires {INDEX}, which pods of an indexed Job have (use --shard I/N elsewhere)",
    )
    refuse(int(index) >= shards, f"{INDEX} is {index}, expected a number below {shards} (--shards)")
    return int(index) + 1, shards


def _plan(request: BatchRequest) -> TaskPlan:
    """Return the plan: read from a file, or made from the command line."""
    what, each_directory = request.what, request.each_directory
    if what[0] not in BATCHED:
        refuse(len(what) > 1, f"{what[0]} is read as a plan, which takes no further arguments (commands are {', '.join(BATCHED)})")
        refuse(each_directory, "--each-directory requires a command line; a plan has `eachDirectory: true`")
        return plans.read(what[0])
    refuse(len(what) == 1, f"{what[0]}: snapshots are missing: files, patterns, folders, or - for a list on standard input")
    return plans.of_command(what[0], request.inner, _listed(what[1:]), each_directory=each_directory)


def _listed(named: Sequence[str]) -> list[str]:
    """Return the named snapshots; ``-`` is replaced by the list on standard input."""
    found: list[str] = []
    for name in named:
        lines = sys.stdin.read().splitlines() if name == "-" else [name]
        found += [line for line in lines if line]
    return found


def _run(plan: TaskPlan, folder: str, share: tuple[int, int] | None, request: BatchRequest) -> tuple[BatchSummary, Callable[[], NoReturn]]:
    """Run the tasks. Return the summary and the function that ends the command."""
    how = request.running
    with Folder(folder).take(resume=how.resume) as place:
        paths = snapshots.expand(plan.snapshots, each_directory=plan.each_directory, without=request.output)
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


def _shared(plan: TaskPlan, folder: str, how: RunningChoices) -> tuple[int, BatchWork]:
    """Return the number of tasks at once, and their common settings. By default the cores are divided among the tasks."""

    said = [tasks.workers_of(each) for each in plan.sets]
    jobs, share = jobs_and_share(how.jobs, max((n for n in said if n is not None), default=None))
    return jobs, BatchWork(folder if how.dask is None else None, how.memory, share, how.series)


def _workers(dask: str | None, jobs: int) -> Workers:

    if dask is None:
        return Processes(jobs)

    return open_dask(dask, jobs)
