"""A loader and engines of our own, for tests of what the command line does with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from click.testing import Result

from kubestow.models.documents.placement import Assignment, Placement, Reason, Seconds, SnapshotRef, TierResult, Unplaced
from kubestow.models.kube.objects import Node, ObjectMeta, Pod, PodSpec
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.explain import per_node as explaining
from kubestow.solver.runtime.options import Options

Run = Callable[..., Result]


@dataclass(frozen=True)
class Violation:
    pod: str
    node: str
    rule: str
    why: str


class Fakes:
    """Answers of the fake loader and engines, and the arguments of their calls."""

    def __init__(self) -> None:
        pods = [Pod(metadata=ObjectMeta(name=name, namespace="prod"), spec=PodSpec()) for name in ("web-1", "web-2")]
        self.snapshot = Snapshot(nodes=[Node(metadata=ObjectMeta(name="n1"))], pods=pods, sha256="abc")
        self.placement = Placement(
            snapshot=SnapshotRef("abc", 1, 2, 2),
            engine="exact",
            status="optimal",
            objective=[TierResult("placed", 2, 2, 0)],
            assignments=[Assignment("prod/web-1", "n1", 1), Assignment("prod/web-2", "n1", 2)],
            seconds=Seconds(),
        )
        self.error: BaseException | None = None
        self.violations: list[Violation] = []
        self.verdicts: list[explaining.PodVerdict] = []
        self.options: Options | None = None
        self.asked: dict[str, Any] = {}
        self.loaded: list[str] = []

    def drop_a_pod(self) -> None:
        self.placement.assignments.pop()
        self.placement.unplaced = [Unplaced("prod/web-2", [Reason("NodeResourcesFit", 1, "insufficient cpu")])]
        self.placement.status = "infeasible"

    def load(self, paths: list[str]) -> Snapshot:
        self.loaded = list(paths)
        if self.error is not None:
            raise self.error
        return self.snapshot

    def place(self, snapshot: Snapshot, options: Options, *, on_progress: Any = None, stop: Any = None, began: float = 0) -> Placement:
        self.options = options
        return self.placement

    def check(self, snapshot: Snapshot, placement: Placement) -> Any:
        return SimpleNamespace(violations=list(self.violations), unjudged=0)

    def explain(self, snapshot: Snapshot, **asked: Any) -> list[explaining.PodVerdict]:
        self.asked = asked
        if self.error is not None:
            raise self.error
        return self.verdicts
