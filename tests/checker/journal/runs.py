"""A plan, the journal of a run that carried it out as it should, and the cluster's end. Written without anything of ``live``."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from kubestow.models.documents.journal import Answered, Fact, Line, Record, Request, Run
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.rebalance_plan import Eviction, Limits, Move, RebalancePlan
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.checker.plan.plans import evict, move, plan, running, together
from tests.objects import node, pod

Object = dict[str, Any]
DIGEST = "d" * 64


def named(thing: Object) -> Object:
    """The object with a uid."""
    thing["metadata"]["uid"] = f"uid-{thing['metadata']['name']}"
    return thing


def cluster() -> list[Object]:
    """web-0 leaves n1, which is drained; web-1 goes from n2 to n4 by way of n3; solo has no controller; old-0 makes room for new-0."""
    return [
        *(node(name) for name in ("n1", "n2", "n3", "n4")),
        named(running("web-0", "n1")),
        named(running("web-1", "n2")),
        named(running("old-0", "n2")),
        named(running("rest-0", "n4")),
        named(pod("solo", node_name="n1")),
        named(running("new-0", None)),
    ]


def a_plan() -> tuple[Snapshot, RebalancePlan]:
    steps: list[Move | Eviction] = [
        move(1, 1, "web-0", "n1", "n3"),
        move(2, 1, "web-1", "n2", "n3", stopover=True),
        evict(3, 1, "old-0", "n2"),
        move(4, 2, "solo", "n1", "n2"),
        move(5, 2, "new-0", None, "n2"),
        move(6, 2, "web-1", "n3", "n4"),
    ]
    limits = Limits(allowEviction=True, alsoMove=["bare"])
    return plan(from_objects(cluster()), ("drain", "admit"), (), *steps, drain=["n1"], limits=limits)


def a_placement() -> tuple[Snapshot, Placement]:
    """x-1 has to be near x-0, which comes before it; x-2 asks for nothing."""
    things = [
        *(node(name) for name in ("n1", "n2")),
        named(running("x-0", None)),
        named(running("x-1", None, affinity=together("x"))),
        named(running("x-2", None)),
    ]
    snapshot = from_objects(things)
    found = [Assignment(f"default/{name}", at, order) for order, (name, at) in enumerate([("x-0", "n1"), ("x-1", "n1"), ("x-2", "n2")], 1)]
    return snapshot, Placement(SnapshotRef(snapshot.sha256, 2, 3, 3), "exact", "optimal", [], found)


class Driver:
    """Carries a document out on objects, and writes the journal. Each line is a second after the one before."""

    def __init__(self, document: RebalancePlan | Placement, things: list[Object]) -> None:
        self.objects = copy.deepcopy(things)
        self.lines: list[Line] = []
        self._seconds = self._number = 0
        self.first = Run("r1", self._time(), DIGEST, document.snapshot.sha256, "https://127.0.0.1:6443", "cluster-uid")
        self.lines.append(self.first)

    def _time(self) -> str:
        self._seconds += 1
        return (datetime(2026, 11, 22, 13, tzinfo=UTC) + timedelta(seconds=self._seconds)).isoformat().replace("+00:00", "Z")

    def ask(self, method: str, path: str, body: Object, *, code: int = 201, **about: Any) -> None:
        self._number += 1
        self.lines.append(Request(self._number, self._time(), method, path, body=body, **about))
        self.lines.append(Answered(self._number, self._time(), code))

    def fact(self, what: Any, **fields: Any) -> None:
        self.lines.append(Fact(self._time(), what, **fields))

    def find(self, kind: str, name: str) -> Object:
        return next(thing for thing in self.objects if thing["kind"] == kind and thing["metadata"]["name"] == name)

    def node(self, name: str, mark: str | None, cordoned: bool) -> None:
        body = {"metadata": {"annotations": {CLOSED_BY: mark}, "resourceVersion": "1"}, "spec": {"unschedulable": cordoned or None}}
        self.ask("PATCH", f"/api/v1/nodes/{name}", body, code=200)
        found = self.find("Node", name)
        found["metadata"].setdefault("annotations", {})[CLOSED_BY] = mark
        if mark is None:
            del found["metadata"]["annotations"]
        found.setdefault("spec", {})["unschedulable"] = cordoned

    def close(self, *names: str) -> None:
        for name in names:
            self.node(name, "r1 2026-11-22T13:00:00Z", cordoned=True)

    def open(self, *names: str, drained: tuple[str, ...] = ()) -> None:
        for name in names:
            self.node(name, None, cordoned=name in drained)

    def evict(self, step: int, key: str, now: str | None = None) -> None:
        name = (now or key).partition("/")[2]
        body = {"metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": f"uid-{name}"}}}
        self.ask("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", body, step=step, pod=key)
        self.fact("gone", step=step, pod=key)
        self.objects.remove(self.find("Pod", name))

    def replace(self, step: int, key: str, like: Object, name: str, uid: str) -> None:
        made = copy.deepcopy(like)
        made["metadata"] |= {"name": name, "uid": uid}
        made["spec"].pop("nodeName", None)
        self.objects.append(made)
        self.fact("replacement", step=step, pod=key, now=f"default/{name}", uid=uid)

    def bind(self, step: int, key: str, name: str, at: str) -> None:
        found = self.find("Pod", name)
        body = {"metadata": {"name": name, "uid": found["metadata"]["uid"]}, "target": {"kind": "Node", "name": at}}
        self.ask("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body, step=step, pod=key)
        found["spec"]["nodeName"] = at
        found["status"] = {"phase": "Running"}
        self.fact("done", step=step, pod=key)

    def let_in(self, step: int, key: str, name: str, at: str) -> None:
        uid = self.find("Pod", name)["metadata"]["uid"]
        taint = {"key": LET_IN, "value": uid, "effect": "NoSchedule"}
        toleration = {"key": LET_IN, "operator": "Equal", "value": uid, "effect": "NoSchedule"}
        self.ask("PATCH", f"/api/v1/namespaces/default/pods/{name}", {"spec": {"tolerations": [toleration]}}, code=200, step=step, pod=key)
        self.ask("PATCH", f"/api/v1/nodes/{at}", {"spec": {"unschedulable": None, "taints": [taint]}}, code=200)
        self.find("Pod", name)["spec"]["nodeName"] = at
        self.close(at)
        self.fact("done", step=step, pod=key)

    @property
    def record(self) -> Record:
        return Record(self.lines, 0, torn=False)

    @property
    def end(self) -> Snapshot:
        return from_objects(self.objects)


def first_wave(document: RebalancePlan) -> Driver:
    """A run that is at the end of the first wave."""
    run = Driver(document, cluster())
    web, web_1 = copy.deepcopy(run.find("Pod", "web-0")), copy.deepcopy(run.find("Pod", "web-1"))
    run.fact("wave", wave=1)
    run.close("n1", "n2", "n3", "n4")
    run.evict(1, "default/web-0")
    run.replace(1, "default/web-0", web, "web-a", "uid-web-a")
    run.evict(2, "default/web-1")
    run.replace(2, "default/web-1", web_1, "web-b", "uid-web-b")
    run.bind(2, "default/web-1", "web-b", "n3")
    run.bind(1, "default/web-0", "web-a", "n3")
    run.evict(3, "default/old-0")
    run.objects.append(running("old-a", None))
    run.fact("done", step=3, pod="default/old-0")
    return run


def second_wave(run: Driver) -> None:
    solo, web = copy.deepcopy(run.find("Pod", "solo")), copy.deepcopy(run.find("Pod", "web-b"))
    run.fact("wave", wave=2)
    run.fact("manifest", step=4, pod="default/solo", object={"kind": "Pod", "metadata": {"name": "solo"}})
    run.evict(4, "default/solo")
    body = {"kind": "Pod", "metadata": {"name": "solo", "namespace": "default"}, "spec": {}}
    run.ask("POST", "/api/v1/namespaces/default/pods", body, step=4, pod="default/solo")
    run.replace(4, "default/solo", solo, "solo", "uid-of-another-solo")
    run.bind(4, "default/solo", "solo", "n2")
    run.let_in(5, "default/new-0", "new-0", "n2")
    run.evict(6, "default/web-1", now="default/web-b")
    run.replace(6, "default/web-1", web, "web-c", "uid-web-c")
    run.bind(6, "default/web-1", "web-c", "n4")


def whole(document: RebalancePlan) -> Driver:
    """A run that did all."""
    run = first_wave(document)
    second_wave(run)
    run.open("n1", "n2", "n3", "n4", drained=("n1",))
    run.fact("end", message="done")
    return run
