"""The replay of a journal against its document, line by line. Every request must follow from a step that is due.

An eviction or a Binding must name the current pod of its step by uid, and the planned node. A wave begins after the
one before is done. Node changes must not admit a pod that the document does not name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Final

from kubestow.checker.journal.requests import ParsedRequest, ask_of
from kubestow.checker.journal.tasks import PodTask, Tasks
from kubestow.checker.violation import Violation
from kubestow.models.documents.journal import Answered, Fact, Record, Request, Run
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN

#: Rule name of the violations of a journal.
JOURNAL: Final = "Journal"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

#: Fields that a run may change on nodes and on the pods that it lets in, and the identifying fields of a patch.
_NODE_FIELDS: Final = frozenset({f"metadata.annotations.{CLOSED_BY}", "spec.unschedulable", "spec.taints"})
_POD_FIELDS: Final = frozenset({"spec.tolerations"})
_IDENTIFYING_FIELDS: Final = frozenset(
    {"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}
)
#: Answers to a repeated request whose first attempt succeeded although an error was reported.
_REPEATED_CODES: Final = (404, 409)


@dataclass(frozen=True, slots=True)
class ClusterPod:
    """A pod of the cluster.

    Attributes:
        key: ``namespace/name``.
        uid: Its uid if known.
    """

    key: str
    uid: str | None


@dataclass
class ReplayState:
    """The state after the lines replayed so far. Tasks are identified by step and pod, pods by the document's name.

    Attributes:
        stands: Current pod for each pod of the document.
        victims: Pod that each task evicts.
        requested_evictions: Number of evictions per task that were not refused.
        bound: Tasks whose pods have their node, or that are done.
        done: Completed tasks.
        closed: Line that closed each closed node.
        sent: Requests without an answer, with their lines, by number.
        replaced_by: Task of each replacement, by its uid.
        let_in: Tasks for whose pods each node is open.
        over: True if the run has ended.
    """

    stands: dict[str, ClusterPod] = field(default_factory=dict)
    victims: dict[tuple[int, str], ClusterPod] = field(default_factory=dict)
    requested_evictions: Counter[tuple[int, str]] = field(default_factory=Counter)
    bound: set[tuple[int, str]] = field(default_factory=set)
    done: set[tuple[int, str]] = field(default_factory=set)
    closed: dict[str, int] = field(default_factory=dict)
    sent: dict[int, tuple[int, Request, ParsedRequest]] = field(default_factory=dict)
    replaced_by: dict[str, tuple[int, str]] = field(default_factory=dict)
    let_in: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    over: bool = False


class Remaining:
    """The tasks in order, to find the first that is not dealt with."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks, self._next = sorted(tasks.all.values(), key=lambda task: (task.wave, task.step)), 0

    def first(self, dealt_with: Set[tuple[int, str]]) -> PodTask | None:
        """Return the first task that is not dealt with, or None. The set ``dealt_with`` may only grow between calls."""
        while self._next < len(self._tasks) and (self._tasks[self._next].step, self._tasks[self._next].pod) in dealt_with:
            self._next += 1
        return self._tasks[self._next] if self._next < len(self._tasks) else None


class JournalReplay:
    """The replay of one journal.

    Attributes:
        state: The state after the lines replayed so far.
    """

    def __init__(self, record: Record, tasks: Tasks) -> None:
        self.state = ReplayState()
        self._record, self._tasks, self._run = record, tasks, record.run.run
        self._undone, self._unsettled = Remaining(tasks), Remaining(tasks)
        for task in tasks.all.values():
            self.state.stands.setdefault(task.pod, ClusterPod(task.pod, tasks.uid(task.pod)))

    def faults(self) -> Iterator[Violation]:
        """Replay all lines and yield their faults."""
        for number, line in enumerate(self._record.lines, 1):
            if isinstance(line, Run):
                self.state.over = False
                found: Iterator[tuple[str, str, str]] = iter(())
            elif isinstance(line, Request):
                found = self._request(number, line)
            elif isinstance(line, Answered):
                found = self._answer(line)
            else:
                found = self._fact(number, line)
            for pod, node, why in found:
                yield Violation(pod, node, JOURNAL, f"line {number}: {why}")

    # --- requests -----------------------------------------------------------------------------------------------------

    def _request(self, number: int, request: Request) -> Iterator[tuple[str, str, str]]:
        ask, task = ask_of(request), self._tasks.find(request.step, request.pod)
        self.state.sent[request.number] = (number, request, ask)
        if "dryRun" in request.params:
            return
        if ask.kind == "other":
            yield request.pod or "", "", f"{request.method} {request.path}: no request that applies a document"
        elif ask.kind == "node":
            yield from self._node(number, ask)
        elif ask.kind == "pod":
            yield from self._tolerate(ask)
        elif ask.kind in ("eviction", "binding", "creation", "claim"):
            if task is None:
                yield ask.key if ask.name else "", "", f"{_a(ask)} that no step asks for"
                return
            yield from ((task.pod, task.place, why) for why in self._of_task(ask, task))
            if ask.kind == "eviction":
                self.state.requested_evictions[task.step, task.pod] += 1

    def _of_task(self, ask: ParsedRequest, task: PodTask) -> Iterator[str]:
        if self.state.over:
            yield f"{_a(ask)} after the run had ended"
        yield from self._too_early(task)
        if ask.kind == "eviction":
            yield from self._evict(ask, task)
        elif ask.kind == "binding":
            yield from self._bind(ask, task)
        elif ask.kind == "creation":
            yield from self._create(ask, task)
        elif ask.get("metadata", "annotations", SELECTED_NODE) not in (None, task.target):
            yield f"claim {ask.key} is steered to {ask.get('metadata', 'annotations', SELECTED_NODE)}, the pod goes to {task.target}"

    def _too_early(self, task: PodTask) -> Iterator[str]:
        """Yield faults of the order of tasks.

        A wave begins after the one before is done. A pod whose rules count others is bound after those before it in the bind order.
        """
        first = self._undone.first(self.state.done)
        if first is not None and first.wave < task.wave:
            yield f"step {task.step} of wave {task.wave} before step {first.step} of wave {first.wave} is done"
        first = self._unsettled.first(self.state.bound) if task.waits else None
        if first is not None and first.step < task.step:
            yield f"{task.pod} counts other pods and is bound before {first.pod}, which comes first"

    def _evict(self, ask: ParsedRequest, task: PodTask) -> Iterator[str]:
        key = (task.step, task.pod)
        victim = self.state.victims.setdefault(key, self.state.stands[task.pod])
        uid = ask.get("deleteOptions", "preconditions", "uid")
        if task.source is None:
            yield f"an eviction, and step {task.step} binds a pending pod"
        if ask.key != victim.key:
            yield f"an eviction of {ask.key}, the pod of step {task.step} is {victim.key}"
        if uid is None:
            yield f"an eviction of {ask.key} without its uid: another pod of that name would go"
        elif victim.uid is not None and uid != victim.uid:
            yield f"an eviction of {ask.key} with uid {uid}, that of step {task.step} has {victim.uid}"

    def _bind(self, ask: ParsedRequest, task: PodTask) -> Iterator[str]:
        stands, node, uid = self.state.stands[task.pod], ask.get("target", "name"), ask.get("metadata", "uid")
        if task.target is None:
            yield f"a Binding to {node}, and step {task.step} evicts the pod for good"
        elif node != task.target:
            yield f"a Binding to {node}, step {task.step} asks for {task.target}"
        if task.source is not None and (task.step, task.pod) not in self.state.victims:
            yield f"a Binding before step {task.step} has evicted the pod that is replaced"
        if ask.key != stands.key:
            yield f"a Binding of {ask.key}, the pod that represents {task.pod} is {stands.key}"
        if uid is None:
            yield f"a Binding of {ask.key} without its uid: another pod of that name would be bound"
        elif stands.uid is not None and uid != stands.uid:
            yield f"a Binding of {ask.key} with uid {uid}, the pod that represents {task.pod} has {stands.uid}"

    def _create(self, ask: ParsedRequest, task: PodTask) -> Iterator[str]:
        named = f"{ask.get('metadata', 'namespace') or ask.namespace}/{ask.get('metadata', 'name')}"
        pod = self._tasks.pods.get(task.pod)
        if named != task.pod or ask.namespace != task.pod.partition("/")[0]:
            yield f"pod {named} is created, that of step {task.step} is {task.pod}"
        if pod is not None and any(owner.controller for owner in pod.metadata.ownerReferences or ()):
            yield "the pod is created by the run, and its controller does so, too"
        if not self.state.requested_evictions[task.step, task.pod]:
            yield "the pod is created before it was evicted"
        if ask.get("spec", "nodeName"):
            yield f"the pod is created on {ask.get('spec', 'nodeName')}, past all checks"

    # --- nodes and admitted pods ---------------------------------------------------------------------------------------

    def _node(self, number: int, ask: ParsedRequest) -> Iterator[tuple[str, str, str]]:
        marks = ask.get("metadata", "annotations", CLOSED_BY)
        unmarks = ask.has("metadata", "annotations", CLOSED_BY) and marks is None
        cordons = ask.get("spec", "unschedulable") is True
        taints = ask.get("spec", "taints")
        guests = [taint for taint in taints if isinstance(taint, dict) and taint.get("key") == LET_IN] if isinstance(taints, list) else []
        if marks is not None:
            self.state.closed.setdefault(ask.name, number)
            self.state.bound.update(self.state.let_in.pop(ask.name, ()))  # closed again after its pod arrived
            if str(marks).partition(" ")[0] != self._run:
                yield "", ask.name, f"the node is marked as closed by {marks}, the run is {self._run}"
            if not cordons:
                yield "", ask.name, "the node is marked as closed and not cordoned"
        elif unmarks and cordons and ask.name not in self._tasks.drain:
            yield "", ask.name, "the node stays cordoned without a mark, and is not to be drained"
        elif not unmarks and cordons:
            yield "", ask.name, "the node is cordoned without a mark of whose it is"
        elif not unmarks and not guests:
            yield "", ask.name, "the node is opened, or changed otherwise, while the run needs it closed"
        if _beyond(ask, _NODE_FIELDS):
            yield "", ask.name, f"{_beyond(ask, _NODE_FIELDS)} of the node is changed"
        for taint in guests:
            yield from self._guest(ask.name, taint.get("value"), taint.get("effect"))

    def _guest(self, node: str, uid: object, effect: object) -> Iterator[tuple[str, str, str]]:
        hosts = [task for task in self._tasks.all.values() if task.target == node and self.state.stands[task.pod].uid == uid]
        self.state.let_in[node] = [(task.step, task.pod) for task in hosts]
        if not hosts:
            yield "", node, f"the node is opened for the pod with uid {uid}, which no step puts there"
        if effect not in ("NoSchedule", "NoExecute"):
            yield "", node, f"the node is opened for one pod, and its taint keeps no other away ({effect})"

    def _tolerate(self, ask: ParsedRequest) -> Iterator[tuple[str, str, str]]:
        """Yield faults of a pod's change. Only a toleration for the taint that lets the pod in is allowed."""
        if ask.key not in {standing.key for standing in self.state.stands.values()}:
            yield ask.key, "", "the pod is changed, and no step is about it"
        if _beyond(ask, _POD_FIELDS):
            yield ask.key, "", f"{_beyond(ask, _POD_FIELDS)} of the pod is changed"

    # --- answers and facts --------------------------------------------------------------------------------------------

    def _answer(self, line: Answered) -> Iterator[tuple[str, str, str]]:
        _, request, ask = self.state.sent.pop(line.number)
        key = (request.step or 0, request.pod or "")
        carried_out = 200 <= line.code < 300
        opens = ask.has("metadata", "annotations", CLOSED_BY) and ask.get("metadata", "annotations", CLOSED_BY) is None
        if ask.kind == "node" and (line.code == 404 or (carried_out and opens)):
            self.state.closed.pop(ask.name, None)
        elif ask.kind == "binding" and carried_out and key in self._tasks.all:
            self.state.bound.add(key)
        elif ask.kind == "eviction" and 300 <= line.code < 500 and line.code not in _REPEATED_CODES and key in self._tasks.all:
            self.state.requested_evictions[key] -= 1
        return iter(())

    def _fact(self, number: int, fact: Fact) -> Iterator[tuple[str, str, str]]:
        if fact.what == "end":
            self.state.over = True
        elif fact.what == "closed":
            for node in fact.nodes:
                self.state.closed.setdefault(node, number)
        elif fact.what == "opened":
            for node in fact.nodes:
                self.state.closed.pop(node, None)
        elif fact.what in ("gone", "replacement", "done", "manifest"):
            task = self._tasks.find(fact.step, fact.pod)
            if task is None:
                yield fact.pod or "", "", f"step {fact.step} of {fact.pod} is said to be {fact.what}, and there is no such step"
            elif fact.what == "replacement":
                yield from ((task.pod, task.place, why) for why in self._replacement(fact, task))
            elif fact.what == "done":
                yield from ((task.pod, task.place, why) for why in self._done(task))

    def _replacement(self, fact: Fact, task: PodTask) -> Iterator[str]:
        key, uid = (task.step, task.pod), fact.uid or ""
        self.state.victims.setdefault(key, self.state.stands[task.pod])
        if task.purpose != "move":
            yield f"{fact.now} is said to replace the pod, and step {task.step} does not move one"
        if uid in self._tasks.uids:
            yield f"{fact.now} is said to replace the pod, and was there before"
        if self.state.replaced_by.setdefault(uid, key) != key:
            yield f"{fact.now} is said to replace the pod, and replaces that of step {self.state.replaced_by[uid][0]} already"
        self.state.stands[task.pod] = ClusterPod(fact.now or "", fact.uid)

    def _done(self, task: PodTask) -> Iterator[str]:
        key = (task.step, task.pod)
        if task.source is not None and not self.state.requested_evictions[key]:
            yield f"step {task.step} is said to be done, and its pod was never evicted"
        if task.purpose == "move" and self.state.stands[task.pod] == self.state.victims.get(key, self.state.stands[task.pod]):
            yield f"step {task.step} is said to be done, and nothing has replaced its pod"
        self.state.done.add(key)
        self.state.bound.add(key)


def _beyond(ask: ParsedRequest, known: Set[str]) -> str:
    """Return the first field that a request changes without permission, or an empty string."""
    return next((name for name in ask.fields() if name not in known and name not in _IDENTIFYING_FIELDS), "")


def _a(ask: ParsedRequest) -> str:
    """Return the kind of a request in words."""
    words = {"eviction": "an eviction", "binding": "a Binding", "creation": "a new pod", "claim": "a change of a claim"}
    return words[ask.kind] + (f" of {ask.key}" if ask.name else "")
