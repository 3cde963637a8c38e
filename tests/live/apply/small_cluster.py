"""A cluster in one dictionary with a controller, a scheduler and kubelets that act at once, for tests of the executor."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal

from kubestow.live.api.answers import Object, ServerAnswer, Unreachable
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan, Summary
from tests import objects
from tests.live.apply.fake_cluster import FakeCluster


class SmallCluster(FakeCluster):
    """``makes``: whether controllers replace pods; ``kubelets``: whether pods become Ready once they are bound; ``ends_slowly``: evicted
    pods stay until :meth:`end` is called; ``refuses``: answers to requests, by the last part of their path, each used once."""

    def __init__(self, *items: Object) -> None:
        self.makes = self.kubelets = self.scheduler = True
        self.ends_slowly = False
        self.refuses: dict[str, list[ServerAnswer | None]] = {}
        self.on_request: Callable[[str, str], None] = lambda method, path: None
        self.after_request: Callable[[], None] = lambda: None
        self.bound_by_scheduler: list[tuple[str, str]] = []
        self._made = 0
        super().__init__(*items)

    # --- what LiveCluster has --------------------------------------------------------------------------------------

    def pods_of(self, owner_uid: str) -> list[Object]:
        return [pod for pod in self.objects("Pod").values() if _owner(pod).get("uid") == owner_uid]

    def pods_on(self, node: str) -> list[Object]:
        return [pod for pod in self.objects("Pod").values() if pod["spec"].get("nodeName") == node]

    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        return self.items.get((kind, name))

    async def refresh(self) -> None:
        await asyncio.sleep(0)

    # --- actors -----------------------------------------------------------------------------------------------------

    def at(self, name: str) -> str | None:
        item = self.items.get(("Pod", name))
        return item["spec"].get("nodeName") if item else None

    def of(self, owner: str) -> dict[str, str | None]:
        """Return the nodes of the pods of a controller, by pod."""
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in self.pods_of(owner.replace("/", "-"))}

    def pending(self) -> list[Object]:
        return [pod for pod in self.objects("Pod").values() if not pod["spec"].get("nodeName")]

    def schedule(self) -> None:
        """Give pending pods the first node that is open to them."""
        for pod in self.pending() if self.scheduler else ():
            for node in self.objects("Node").values():
                if not node["spec"].get("unschedulable") and _tolerates(pod, node):
                    name, target = pod["metadata"]["name"], node["metadata"]["name"]
                    self.bound_by_scheduler.append((name, target))
                    self.bind(name, target)
                    break

    def bind(self, name: str, node: str) -> None:
        pod = self.edit("Pod", name, {"spec": {"nodeName": node}})
        if self.kubelets:
            self.edit("Pod", name, {"status": ready() if pod["metadata"].get("ready", True) else {}})

    def end(self, name: str) -> None:
        """Let a pod go, and have its controller make another one."""
        old = self.items["Pod", name]
        self.remove("Pod", name)
        self.replace(old)

    def replace(self, old: Object) -> None:
        owner = _owner(old)
        if not self.makes or not owner:
            return
        self._made += 1
        made = copy.deepcopy(old)
        name = old["metadata"]["name"] if owner["kind"] == "StatefulSet" else f"{owner['name']}-new{self._made}"
        made["metadata"] |= {"name": name, "uid": f"uid-new{self._made}", "deletionTimestamp": None}
        made["spec"].pop("nodeName", None)
        made["status"] = {"phase": "Pending"}
        self.put(made)
        self.schedule()

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        patch: Literal["merge", "json", "strategic"] = "merge",
    ) -> ServerAnswer:
        self.on_request(method, path)
        last = path.rpartition("/")[2]
        told = self.refuses[last].pop(0) if self.refuses.get(last) else None
        if told is not None:
            if told.code == 0:
                raise Unreachable("connection lost")
            return told
        if last in ("eviction", "binding"):
            assert body is not None
            self.sent.append((method, path, body))
            return self._pod_request(last, path.split("/")[-2], body)
        if method == "POST" and last == "pods" and body is not None:
            self._made += 1
            body = {**body, "metadata": {**body["metadata"], "uid": f"uid-again{self._made}"}}
        answer = await super().send(method, path, body, params=params, patch=patch)
        if method == "PATCH" or (method == "POST" and last == "pods"):
            self.schedule()
        self.after_request()
        return answer

    def _pod_request(self, kind: str, name: str, body: Object) -> ServerAnswer:
        pod = self.items.get(("Pod", name))
        if pod is None:
            return refused(404, "NotFound")
        uid = body["deleteOptions"]["preconditions"]["uid"] if kind == "eviction" else body["metadata"]["uid"]
        if uid != pod["metadata"]["uid"]:
            return refused(409, "Conflict", "the UID in the precondition does not match")
        if kind == "binding":
            if pod["spec"].get("nodeName"):
                return refused(409, "Conflict", "already assigned")
            self.bind(name, body["target"]["name"])
        elif self.ends_slowly:
            self.edit("Pod", name, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        else:
            self.end(name)
        return ServerAnswer(201, {"kind": "Status", "status": "Success"})


def _owner(pod: Object) -> dict[str, Any]:
    return next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), {})


def _tolerates(pod: Object, node: Object) -> bool:
    tolerated = {(each.get("key"), each.get("value")) for each in pod["spec"].get("tolerations") or ()}
    return all((taint["key"], taint.get("value")) in tolerated for taint in node["spec"].get("taints") or ())


def ready() -> Object:
    return {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}]}


def refused(code: int, reason: str, message: str = "no") -> ServerAnswer:
    return ServerAnswer(code, {"kind": "Status", "reason": reason, "message": message})


LOST = ServerAnswer(0)


def running(name: str, node: str, owner: str | None = "ReplicaSet/web", **spec: Any) -> Object:
    made = objects.pod(name, node_name=node, owner=owner, **spec)
    return {**made, "metadata": {**made["metadata"], "uid": f"uid-{name}"}, "status": ready()}


def waiting(name: str, owner: str | None = "ReplicaSet/web", **spec: Any) -> Object:
    made = objects.pod(name, owner=owner, **spec)
    return {**made, "metadata": {**made["metadata"], "uid": f"uid-{name}"}}


def plan(*steps: tuple[int, str, str | None, str | None], **fields: Any) -> RebalancePlan:
    """Return a plan of (wave, pod, from, to); without a target the pod goes for good."""
    moves, evictions = [], []
    for number, (wave, pod, source, target) in enumerate(steps, 1):
        if target is None:
            evictions.append(Eviction(number, wave, f"default/{pod}", source or "", ""))
        else:
            moves.append(Move(number, wave, f"default/{pod}", source, target, ""))
    summary = Summary(emptyNodes=0, pending=0)
    return RebalancePlan(SnapshotRef("", 0, 0, 0), ["repair"], "greedy", "feasible", [], moves, evictions, summary, summary, **fields)
