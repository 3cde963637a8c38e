"""A placement of manifests, the journal of a run that took the gates off as it should, and the end. Without anything of ``live``."""

from __future__ import annotations

from typing import Any

from kubestow.checker.journal.judge import Judgement, ReleaseClusters, judge_gated
from kubestow.models.documents.journal import Line, Record
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.models.workloads.expand import expand
from tests.checker.journal.runs import DIGEST, Driver
from tests.objects import Object, node

GATE = {"name": "kubestow.dev/placement"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
NODES = [node(name, labels={"disk": "ssd"}) for name in ("n1", "n2")]


def _workload(kind: str, name: str, replicas: int) -> Object:
    spec: Object = {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "example.com/quota"}]}
    if name == "web":
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    stated = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, "serviceName": name}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": stated}


WORKLOADS = [_workload("Deployment", "web", 3), _workload("StatefulSet", "db", 1)]
BEFORE = from_objects(NODES)
ADDED = expand(BEFORE, from_objects(WORKLOADS, manifests=True))
_WEB = sorted(key for key in map(pod_key, ADDED.snapshot.pods) if "/web-" in key)
#: Two of the gang share an order.
PLACEMENT = Placement(
    SnapshotRef(ADDED.snapshot.sha256, 2, 4, 4, workloads=ADDED.workloads),
    "exact",
    "optimal",
    [],
    [
        Assignment(_WEB[0], "n1", 1, "default/web"),
        Assignment(_WEB[1], "n1", 1, "default/web"),
        Assignment(_WEB[2], "n2", 2, "default/web"),
        Assignment("default/db-0", "n2", 3),
    ],
)


class GatedDriver(Driver):
    """Takes the gates off, and writes the journal."""

    def __init__(self) -> None:
        super().__init__(PLACEMENT, [*NODES, *WORKLOADS])
        replicas = {"kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True, "apiVersion": "apps/v1"}
        self.objects.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": "web-5d9", "namespace": "default", "uid": "uid-rs", "ownerReferences": [replicas]},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
            }
        )

    def held(self, name: str, kind: str = "ReplicaSet", owner: str = "web-5d9") -> Object:
        """Return a pod that its controller made."""
        web = kind == "ReplicaSet"
        by = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "uid-rs" if web else "uid-db", "controller": True}
        labels = {"app": "web" if web else "db"}
        spec: Object = {"schedulingGates": [{"name": "example.com/quota"}, GATE], "containers": [{"name": "c", "image": "i"}]}
        if web:
            spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "ownerReferences": [by]}
        found: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.objects.append(found)
        return found

    def stands(self, number: int, pod: Object) -> None:
        entry, metadata = PLACEMENT.assignments[number], pod["metadata"]
        owners = {"resourceVersion": "7", "ownerReferences": metadata["ownerReferences"]}
        spec = {key: pod["spec"][key] for key in ("schedulingGates", "affinity") if key in pod["spec"]}
        now = f"default/{metadata['name']}"
        self.fact("replacement", step=entry.order, pod=entry.pod, now=now, uid=metadata["uid"], object={"metadata": owners, "spec": spec})

    def let_go(self, number: int, pod: Object, code: int = 200) -> None:
        entry, metadata = PLACEMENT.assignments[number], pod["metadata"]
        own = {"key": "metadata.name", "operator": "In", "values": [entry.node]}
        term: Object = {**TERM, "matchFields": [own]} if "affinity" in pod["spec"] else {"matchFields": [own]}
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": "7", "annotations": {"kubestow.dev/placed-on": entry.node}},
            "spec": {
                "schedulingGates": [{"name": "example.com/quota"}],
                "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}},
            },
        }
        path = f"/api/v1/namespaces/default/pods/{metadata['name']}"
        self.ask("PATCH", path, body, code=code, patch="merge", step=entry.order, pod=entry.pod)

    def partner(self, number: int, pod: Object) -> None:
        entry, name = PLACEMENT.assignments[number], pod["metadata"]["name"]
        metadata = {"name": name, "namespace": "default", "uid": pod["metadata"]["uid"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": entry.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        self.ask("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body, step=entry.order, pod=entry.pod)

    def bound(self, number: int, pod: Object) -> None:
        entry = PLACEMENT.assignments[number]
        pod["spec"] = {"nodeName": entry.node, "containers": pod["spec"]["containers"]}
        self.fact("done", step=entry.order, pod=entry.pod, now=f"default/{pod['metadata']['name']}", uid=pod["metadata"]["uid"])

    def undo(self, kind: str, name: str, *, asked: bool = True) -> None:
        metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        if asked:
            self.fact("undo", object={"kind": kind, "metadata": metadata}, message="deleting")
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": f"uid-{name}"}}
        self.ask("DELETE", f"/apis/apps/v1/namespaces/default/{kind.lower()}s/{name}", body, code=200)


def whole() -> GatedDriver:
    """A run that does all: a patch is sent twice, as the pod had changed; a pod that is let go goes, and another one takes its place."""
    run = GatedDriver()
    run.fact("wave", wave=1)
    web = [run.held(f"web-5d9-{letter}") for letter in "abc"]
    db = run.held("db-0", "StatefulSet", "db")
    pods = [*web, db]
    for number, each in enumerate(pods):
        run.stands(number, each)
    run.let_go(0, web[0], 409)
    run.stands(0, web[0])
    for number, each in enumerate(pods):
        run.let_go(number, each)
    run.partner(0, web[0])
    run.partner(1, web[1])
    for number in (0, 1, 3):
        run.bound(number, pods[number])
    entry = PLACEMENT.assignments[2]
    run.fact("gone", step=entry.order, pod=entry.pod, uid=web[2]["metadata"]["uid"])
    run.objects.remove(web[2])
    other = run.held("web-5d9-d")
    run.stands(2, other)
    run.let_go(2, other)
    run.bound(2, other)
    run.fact("end", message="done")
    return run


def judged(lines: list[Line], end: Driver | None = None) -> Judgement:
    clusters = ReleaseClusters(ADDED.snapshot, BEFORE, end.end if end is not None else None)
    return judge_gated(Record(lines, 0, torn=False), PLACEMENT, clusters, digest=DIGEST)


def body(lines: list[Any], number: int) -> Any:
    """Return the body of a request, by its number."""
    return next(line for line in lines if getattr(line, "body", None) is not None and line.number == number).body
