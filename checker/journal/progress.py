"""The progress of a run in numbers: completed tasks, durations of waves, and outstanding tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kubestow.checker.journal.replay import ReplayState
from kubestow.checker.journal.requests import ask_of
from kubestow.checker.journal.tasks import PodTask, Purpose, Tasks
from kubestow.models.documents.answers import CarriedOut, CarriedWave, Outstanding, SentRequests, Share
from kubestow.models.documents.journal import Answered, Fact, Line, Record, Request, Run
from kubestow.models.snapshot.capture_info import moment

Key = tuple[int, str]


@dataclass
class _Count:
    """Counts over the lines of a journal.

    Attributes:
        sent: Requests by kind.
        refused: Number of refused requests.
        unknown: Number of requests without a clear answer.
        refusals: Message of the last refused request, by task.
        nodes: Nodes that the run closed, in order.
        messages: Messages of the run.
        resumed: Number of times that the run was resumed.
        ended: Time of the end, or None.
    """

    sent: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    unknown: int = 0
    refusals: dict[Key, str] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    resumed: int = 0
    ended: str | None = None


def account(record: Record, tasks: Tasks, state: ReplayState) -> CarriedOut:
    """Summarise a journal.

    Args:
        record: The journal.
        tasks: Tasks of the document.
        state: The state after the last line.
    """
    count, run = _count(record.lines), record.run
    found = list(tasks.all.values())
    return CarriedOut(
        run=run.run,
        began=run.time,
        moves=_share(found, state, "move"),
        evictions=_share(found, state, "evict"),
        bindings=_share(found, state, "bind"),
        waves=_waves(record.lines, tasks, state),
        left=[_outstanding(task, state, count) for task in found if (task.step, task.pod) not in state.done],
        requests=SentRequests(
            count.sent["eviction"], count.sent["binding"], count.sent["node"],
            count.sent.total() - count.sent["eviction"] - count.sent["binding"] - count.sent["node"], count.refused, count.unknown,
        ),
        nodesClosed=len(count.nodes),
        leftClosed=sorted(state.closed),
        resumed=count.resumed,
        ended=count.ended,
        messages=count.messages,
    )  # fmt: skip


def _share(tasks: Iterable[PodTask], state: ReplayState, purpose: Purpose) -> Share:
    """Return the number of completed tasks of one purpose, and their total."""
    keys = [(task.step, task.pod) for task in tasks if task.purpose == purpose]
    return Share(sum(key in state.done for key in keys), len(keys))


def _outstanding(task: PodTask, state: ReplayState, count: _Count) -> Outstanding:
    key = (task.step, task.pod)
    begun = key in state.bound or state.requested_evictions[key] > 0
    return Outstanding(task.step, task.wave, task.pod, task.target, begun, count.refusals.get(key, ""))


def _count(lines: Iterable[Line]) -> _Count:
    count, waiting = _Count(), dict[int, Request]()
    for line in lines:
        if isinstance(line, Run):
            count.resumed += line.resumes
            count.ended = None
        elif isinstance(line, Request):
            waiting[line.number] = line
            ask = ask_of(line)
            count.sent[ask.kind] += 1
            if ask.kind == "node" and ask.get("spec", "unschedulable") is True:
                count.nodes[ask.name] = None
        elif isinstance(line, Answered):
            request = waiting.pop(line.number)
            if 300 <= line.code < 500:
                count.refused += 1
                if request.step is not None and request.pod is not None:
                    count.refusals[request.step, request.pod] = line.message or f"HTTP {line.code}"
            elif not 200 <= line.code < 300:
                count.unknown += 1
        else:
            _see(line, count)
    count.unknown += len(waiting)
    return count


def _see(fact: Fact, count: _Count) -> None:
    if fact.what in ("drift", "undo", "stopped", "end") and fact.message and fact.message not in count.messages:
        count.messages.append(fact.message)
    if fact.what in ("stopped", "end"):
        count.ended = fact.time
    elif fact.what == "closed":
        count.nodes.update(dict.fromkeys(fact.nodes))


def _waves(lines: Iterable[Line], tasks: Tasks, state: ReplayState) -> list[CarriedWave]:
    """Return the duration of each wave.

    A wave lasts from the line that begins it to the last line of its pods before another wave begins or the run is resumed.
    """
    pods = Counter(task.wave for task in tasks.all.values())
    done = Counter(task.wave for key, task in tasks.all.items() if key in state.done)
    seconds: dict[int, float] = {}
    wave, began = 0, None
    for line in lines:
        if isinstance(line, Run) or (isinstance(line, Fact) and line.what == "wave"):
            wave, began = (line.wave or 0, moment(line.time)) if isinstance(line, Fact) else (0, None)
            before = seconds.get(wave, 0.0)
        elif isinstance(line, Fact) and began is not None:
            task, now = tasks.find(line.step, line.pod), moment(line.time)
            if task is not None and task.wave == wave and now is not None:
                seconds[wave] = before + (now - began).total_seconds()
    rounded = {number: round(lasted, 3) for number, lasted in seconds.items()}
    return [CarriedWave(number, pods[number], done[number], rounded.get(number)) for number in sorted(pods)]
