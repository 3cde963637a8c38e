"""How far a run has come, from the lines of its journal: what ``--resume`` goes on from.

Nothing is taken for done that a line does not say. A request without an answer, with a lost connection, or with an answer of 404, 409 or
5xx may have been carried out or not: the cluster has to be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kubestow.models.documents.journal import Answered, Fact, Line, Request, Run
from kubestow.models.kube.closed_nodes import CLOSED_BY

#: What is known of a request: it was carried out, refused, or nobody knows.
Fate = Literal["done", "refused", "unknown"]
#: What a request does with pods: an eviction (or deletion), the creation of a pod, a Binding.
Kind = Literal["eviction", "creation", "binding"]
#: How far a pod of a step is, the last thing that is known to have happened; ``evicting``, ``creating``, ``binding``: asked for, not known.
Stage = Literal["not begun", "evicting", "evicted", "gone", "creating", "replaced", "binding", "bound", "done"]

_NODES: Final = "/api/v1/nodes/"
_POINTER: Final = "/metadata/annotations/" + CLOSED_BY.replace("/", "~1")
_RANK: Final[dict[Fate, int]] = {"refused": 0, "unknown": 1, "done": 2}


@dataclass
class StepProgress:
    """A pod of a step. ``wave``: the one in which it was begun. ``replacement``, ``uid``: the pod that takes its place, namespace/name and
    uid. ``manifest``: of a pod that nothing creates again. ``requests``: what became of each, by kind and number."""

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
        """Return what its requests of a kind came to, None if there is none: of several the best, since one that nobody knows of may have
        been carried out although a later one was refused."""
        return max((fate for (of, _), fate in self.requests.items() if of == kind), key=_RANK.__getitem__, default=None)

    @property
    def stage(self) -> Stage:
        """Return how far it is."""
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
        return next((stage for stage, held in reached if held), "not begun")

    @property
    def begun(self) -> bool:
        """Return whether the cluster may have been changed for it."""
        return self.stage != "not begun"


@dataclass
class Progress:
    """``run``: the id, empty before the first line. ``steps``: by step and pod, those that a line names. ``wave``: the last one that began.
    ``closed``: nodes that may be closed because of the run. ``requests``: how many were sent. ``ended``: the run ended by itself, and was
    not resumed since; ``message``: what it said then."""

    run: str = ""
    steps: dict[tuple[int, str], StepProgress] = field(default_factory=dict)
    wave: int | None = None
    closed: dict[str, None] = field(default_factory=dict)
    requests: int = 0
    ended: bool = False
    message: str = ""
    _waiting: dict[int, Request] = field(default_factory=dict)

    def of(self, step: int, pod: str) -> StepProgress:
        """Return how far a pod of a step is; one that no line names is not begun."""
        return self.steps.get((step, pod)) or StepProgress(step, pod)

    def add(self, line: Line) -> None:
        """Take the next line."""
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
        """Take what is known of a request, by the status of its answer, 0 if there is none."""
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


def progress_of(lines: Iterable[Line]) -> Progress:
    """Return how far the run is after some lines of its journal, from the first."""
    progress = Progress()
    for line in lines:
        progress.add(line)
    return progress


def _fate(code: int) -> Fate:
    """Return what an answer tells. A request that is sent again after an error meets its own work: 404 and 409 then."""
    return "done" if 200 <= code < 300 else "refused" if 300 <= code < 500 and code not in (404, 409) else "unknown"


def _kind(request: Request) -> Kind | None:
    """Return what a request does with pods."""
    last = request.path.rpartition("/")[2]
    if last == "eviction" or (request.method == "DELETE" and "/pods/" in request.path):
        return "eviction"
    if request.method != "POST":
        return None
    return "binding" if last == "binding" else "creation" if last == "pods" else None


def _closes(body: object) -> bool | None:
    """Return whether a patch marks its node as closed by a run (True) or takes the mark away (False)."""
    if isinstance(body, list):  # a JSON patch
        marks = [part.get("op") != "remove" for part in body if isinstance(part, dict) and part.get("path") == _POINTER]
        return marks[-1] if marks else None
    metadata = body.get("metadata") if isinstance(body, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict) or CLOSED_BY not in annotations:
        return None
    return annotations[CLOSED_BY] is not None
