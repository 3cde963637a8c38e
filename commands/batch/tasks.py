"""The tasks of a plan or of a shard. Unreadable snapshots become rows at once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kubestow.commands import COMMANDS
from kubestow.commands.batch import arguments
from kubestow.commands.batch.history import Past
from kubestow.commands.batch.plan import OptionSet, TaskPlan
from kubestow.commands.batch.task import BatchTask, make
from kubestow.commands.common.exit_codes import BAD_INPUT
from kubestow.models.documents.batch import Row

#: Number of duplicate snapshots that notes name.
_MAX_NAMED: Final = 5


@dataclass
class Listed:
    """The tasks of a plan.

    Attributes:
        order: Ids of all tasks in the order of the plan.
        tasks: Tasks that can run.
        unreadable: Rows of tasks whose snapshot cannot be read.
        notes: Notes for the summary.
    """

    order: list[str] = field(default_factory=list)
    tasks: list[BatchTask] = field(default_factory=list)
    unreadable: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def of(plan: TaskPlan, paths: Sequence[str], share: tuple[int, int] | None = None, *, series: bool = False) -> Listed:
    """Return the tasks for all snapshots and option sets, or for shard I of N.

    A hash assigns tasks to shards, so that shards need no coordination. With ``series``, each task gets the earlier snapshots of its
    cluster that its rules need.

    Raises:
        OSError: a file named by an option cannot be read.
    """
    listed, known = Listed(), dict[str, str]()
    past = Past(paths) if series else None
    seen: dict[str, str] = {}
    same: dict[str, str] = {}
    for path in paths:
        for chosen in plan.sets:
            each, since = past.before(path, chosen) if past is not None else (chosen, ())
            try:
                task = make(each, [path], known, since)
                name = task.id
            except OSError as error:
                if path in known:
                    raise
                task, name = None, _unread(path, each)
                row = Row(name, [path], each.command, list(each.options), BAD_INPUT, f"{path}: {error.strerror or error}", set=each.label)
            if share is not None and int(name, 16) % share[1] != share[0] - 1:
                continue
            if name in seen:
                same[path] = seen[name]
                continue
            seen[name] = path
            listed.order.append(name)
            if task is not None:
                listed.tasks.append(task)
            else:
                listed.unreadable.append(row)
    listed.notes = [f"{path} has the same content as {other}, and no row of its own" for path, other in list(same.items())[:_MAX_NAMED]]
    if len(same) > _MAX_NAMED:
        listed.notes.append(f"{len(same) - _MAX_NAMED:,} more snapshots have the same content as others")
    return listed


def _unread(path: str, each: OptionSet) -> str:
    """Return an id for a task whose input cannot be hashed."""
    return hashlib.sha256("\0".join(("unreadable", path, each.command, *each.options)).encode(errors="surrogateescape")).hexdigest()[:16]


def renamed(row: Row, task: BatchTask) -> Row:
    """Return the row of an earlier run with this plan's file names and label."""
    return msgspec.structs.replace(row, snapshot=list(task.files), set=task.label)


def workers_of(each: OptionSet) -> int | None:
    """Return the value of --workers in an option set; None without it."""
    given, _ = arguments.read(each.options, arguments.by_name(COMMANDS[each.command]))
    return next((int(g.value) for g in reversed(given) if g.option.name == "workers" and g.value is not None), None)
