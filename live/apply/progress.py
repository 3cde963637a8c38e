"""Progress of a run, derived from the lines of its journal. ``--resume`` continues from it.

Only steps that a line records as done count as done. A request may or may not have been executed if it has no answer, or an answer of 404,
409 or 5xx; then the cluster must be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kubestow.models.documents.journal import Answered, Fact, Line, Request, Run
from kubestow.models.kube.closed_nodes import CLOSED_BY

#: Outcome of a request: executed, refused or unknown.
Fate = Literal["done", "refused", "unknown"]
#: Kind of a request about pods: an eviction (or deletion), the creation of a pod, or a Binding.
Kind = Literal["eviction", "creation", "binding"]
#: Last known stage of a step's pod. ``evicting``, ``creating``, ``binding``: requested, with unknown outcome.
Stage = Literal["not begun", "evicting", "evicted", "gone", "creating", "replaced", "binding", "bound", "done"]

_NODES: Final = "/api/v1/nodes/"
_POINTER: Final = "/metadata/annotations/" + CLOSED_BY.replace("/", "~1")
_RANK: Final[dict[Fate, int]] = {"refused": 0, "unknown": 1, "done": 2}


@dataclass
class StepProgress:
    """Progress of a step's pod.

    Attributes:
        step: Number of the step.
        pod: The pod as named by the document.
        wave: Wave in which the step was begun.
        gone: True if the old pod is gone.
        manifest: Manifest of a pod that no controller recreates.
        replacement: Namespace/name of the replacement.
        uid: Uid of the replacement.
        done: True if the step is done.
        requests: Outcome of each request by kind and number.
    """

    step: int
    pod: str
    wave: int | None = None
    gone: bool = False
    manifest: dict[str, Any] | None = None
    replacement: str | None = None
    uid: str | None = None
    done: bool = False
    requests: dict[tuple[Kind, int], Fate] = field(default_factory=dict)

    def fate(self, kind: Kind) -> Fate | None:
        """Return the best outcome of the requests of a kind; None without requests.

        The best one counts, because an unknown request may have been executed although a later one was refused.
        """
        return max((fate for (of, _), fate in self.requests.items() if of == kind), key=_RANK.__getitem__, default=None)

    @property
    def stage(self) -> Stage:
        """The last known stage."""
        reached: list[tuple[Stage, bool]] = [
            ("done", self.done),
            ("bound", self.fate("binding") == "done"),
            ("binding", self.fate("binding") == "unknown"),
            ("replaced", self.replacement is not None or self.fate("creation") == "done"),
            ("creating", self.fate("creation") == "unknown"),
            ("gone", self.gone),
            ("evicted", self.fate("eviction") == "done"),
            ("evicting", self.fate("eviction") == "unknown"),
        ]
        return next((stage for stage, is_reached in reached if is_reached), "not begun")

    @property
    def begun(self) -> bool:
        """True if the step may have changed the cluster."""
        return self.stage != "not begun"


@dataclass
class ApplyProgress:
    """Progress of a run.

    Attributes:
        run: Id of the run; empty before the first line.
        steps: Progress by step and pod, for steps named by a line.
        wave: The last wave that began.
        closed: Nodes that the run may have closed.
        requests: Number of requests sent.
        ended: True if the run ended on its own and was not resumed since.
        message: Its last message.
    """

    run: str = ""
    steps: dict[tuple[int, str], StepProgress] = field(default_factory=dict)
    wave: int | None = None
    closed: dict[str, None] = field(default_factory=dict)
    requests: int = 0
    ended: bool = False
    message: str = ""
    _waiting: dict[int, Request] = field(default_factory=dict)

    def of(self, step: int, pod: str) -> StepProgress:
        """Return the progress of a step's pod; without a line it is not begun."""
        return self.steps.get((step, pod)) or StepProgress(step, pod)

    def add(self, line: Line) -> None:
        """Process the next line."""
        if isinstance(line, Run):
            self.run, self.ended, self.message = line.run, False, ""
        elif isinstance(line, Request):
            self.requests = line.number
            self._waiting[line.number] = line
            self._settle(line, 0)
        elif isinstance(line, Answered):
            request = self._waiting.pop(line.number, None)
            if request is not None:
                self._settle(request, line.code)
        else:
            self._see(line)

    def _step(self, line: Request | Fact) -> StepProgress | None:
        if line.step is None or line.pod is None:
            return None
        return self.steps.setdefault((line.step, line.pod), StepProgress(line.step, line.pod, self.wave))

    def _settle(self, request: Request, code: int) -> None:
        """Process the outcome of a request; code 0 means no answer."""
        if request.path.startswith(_NODES):
            name, closes = request.path.removeprefix(_NODES), _closes(request.body)
            if closes:
                self.closed[name] = None
            if code == 404 or (closes is False and 200 <= code < 300):
                self.closed.pop(name, None)
            return
        step, kind = self._step(request), _kind(request)
        if step is not None and kind is not None:
            step.requests[kind, request.number] = _fate(code)

    def _see(self, fact: Fact) -> None:
        if fact.what == "wave":
            self.wave = fact.wave
        elif fact.what == "closed":
            self.closed.update(dict.fromkeys(fact.nodes))
        elif fact.what == "opened":
            for node in fact.nodes:
                self.closed.pop(node, None)
        elif fact.what in ("stopped", "end"):
            self.ended, self.message = True, fact.message or self.message
        elif (step := self._step(fact)) is not None:
            if fact.what == "gone":
                step.gone = True
            elif fact.what == "manifest":
                step.manifest = fact.object
            elif fact.what == "replacement":
                step.replacement, step.uid = fact.now, fact.uid
            elif fact.what == "done":
                step.done = True
                if fact.now is not None:
                    step.replacement, step.uid = fact.now, fact.uid


def progress_of(lines: Iterable[Line]) -> ApplyProgress:
    """Return the progress after the first lines of a journal."""
    progress = ApplyProgress()
    for line in lines:
        progress.add(line)
    return progress


def _fate(code: int) -> Fate:
    """Return the outcome for a status. 404 and 409 are unknown, because a retry may meet its own earlier effect."""
    return "done" if 200 <= code < 300 else "refused" if 300 <= code < 500 and code not in (404, 409) else "unknown"


def _kind(request: Request) -> Kind | None:
    """Return the kind of a request about pods; None for others."""
    last = request.path.rpartition("/")[2]
    if last == "eviction" or (request.method == "DELETE" and "/pods/" in request.path):
        return "eviction"
    if request.method != "POST":
        return None
    return "binding" if last == "binding" else "creation" if last == "pods" else None


def _closes(body: object) -> bool | None:
    """Return True if a patch marks its node as closed by a run, False if it removes the mark; None for others."""
    if isinstance(body, list):  # a JSON patch
        marks = [part.get("op") != "remove" for part in body if isinstance(part, dict) and part.get("path") == _POINTER]
        return marks[-1] if marks else None
    metadata = body.get("metadata") if isinstance(body, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict) or CLOSED_BY not in annotations:
        return None
    return annotations[CLOSED_BY] is not None
