"""Invariants of the data of every page: all indices in range, columns of one length, usage equal to the sum of the pods' requests."""

from __future__ import annotations

from typing import Any

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube.objects import is_terminal
from kubestow.models.kube.pod_requests import pod_request
from kubestow.models.snapshot.snapshot import Snapshot

Data = dict[str, Any]

KEYS = {
    "version", "title", "kind", "snapshot", "summary", "views", "zones", "nodes", "workloads", "priorities", "shapes", "pods", "groups",
    "named", "usage", "waves", "obstacles", "unplaced", "audit", "preferences", "search", "rulesBroken",
}  # fmt: skip
_NODE = ("name", "zone", "cpu", "memory", "pods", "flags", "taints")
_POD = ("name", "workload", "shape", "priority", "state")


def check(data: Data, snapshot: Snapshot, result: Placement | RebalancePlan | None) -> None:
    assert data.keys() - {"devices"} == KEYS
    nodes, views = len(snapshot.nodes), len(data["views"])
    assert data["views"] == (["now"] if result is None else ["before", "after"])
    _nodes(data, nodes)
    _shapes(data)
    if "devices" in data:
        _devices(data, nodes)
    _usage(data, snapshot, result)
    for part in (data["pods"], data["named"]):
        if part is not None:
            _pods(data, part, nodes, views)
    assert (data["pods"] is None) == (data["groups"] is not None) == (data["named"] is not None)
    if data["groups"] is not None:
        _groups(data, nodes, views)
    else:
        assert len(data["pods"]["name"]) == sum(not is_terminal(pod) for pod in snapshot.pods)
        _replay(data)
    assert sum(workload["pods"] for workload in data["workloads"]) == sum(not is_terminal(pod) for pod in snapshot.pods)
    if isinstance(result, Placement) and result.rollout is None:
        assert sum(group["count"] for group in data["unplaced"]) == len(result.unplaced)
    if isinstance(result, RebalancePlan):
        assert sum(len(wave["steps"]) for wave in data["waves"]) == len(result.moves) + len(result.evictions)


def _nodes(data: Data, nodes: int) -> None:
    columns = data["nodes"]
    assert all(len(columns[name]) == nodes for name in _NODE)
    assert all(0 <= zone < len(data["zones"]) for zone in columns["zone"])
    assert all(0 <= flags < 64 for flags in columns["flags"])
    assert ("labels" in columns) == (nodes <= 500)
    assert all(0 <= int(n) < nodes for n in columns["numa"])
    assert all(zone["name"] for zone in data["zones"][:-1])


def _devices(data: Data, nodes: int) -> None:
    found, taken = data["devices"], data["devices"]["taken"]
    count = len(found["name"])
    assert len(found["pool"]) == count
    assert all(0 <= pool < len(found["pools"]) for pool in found["pool"])
    assert len(found["site"]) == nodes
    assert all(0 <= site < len(found["sites"]) for site in found["site"])
    assert all(len(set(site)) == len(site) and all(0 <= i < count for i in site) for site in found["sites"])
    assert len({len(column) for column in taken.values()}) == 1
    assert all(0 <= i < count for i in (*taken["device"], *map(int, found["capacity"])))
    assert set(taken["when"]) <= ({1} if len(data["views"]) == 1 else {1, 2, 3})


def _shapes(data: Data) -> None:
    seen = set()
    for shape in data["shapes"]:
        assert shape.keys() == {"cpu", "memory", "containers", "rules"}
        for container in shape["containers"]:
            assert container.keys() == {"name", "cpu", "memory", "init"}
        for rule in shape["rules"]:
            assert rule.keys() in ({"rule", "text"}, {"rule", "text", "workloads"})
            assert rule["rule"]
            assert rule["text"]
            workloads = rule.get("workloads", [])
            assert sorted(set(workloads)) == workloads
            assert all(0 <= w < len(data["workloads"]) for w in workloads)
        seen.add(repr(shape))
    assert len(seen) == len(data["shapes"])


def _pods(data: Data, part: Data, nodes: int, views: int) -> None:
    count = len(part["name"])
    assert all(len(part[name]) == count for name in _POD)
    assert len(part["place"]) == views
    assert all(len(place) == count and all(-1 <= n < nodes for n in place) for place in part["place"])
    for name, most in (("workload", len(data["workloads"])), ("shape", len(data["shapes"])), ("priority", len(data["priorities"]))):
        assert all(0 <= at < most for at in part[name])
    assert all(0 <= state <= 6 for state in part["state"])
    assert all(0 <= int(p) < count for p in (*part["zones"], *part["recreated"]))


def _groups(data: Data, nodes: int, views: int) -> None:
    groups = data["groups"]
    count = len(groups["node"])
    assert all(len(groups[name]) == count for name in ("workload", "shape", "priority"))
    assert len(groups["count"]) == views
    assert all(-1 <= n < nodes for n in groups["node"])
    for v in range(views):
        assert len(groups["count"][v]) == count
        sums = {"cpu": [0] * nodes, "memory": [0] * nodes, "pods": [0] * nodes}
        for shape, node, many in zip(groups["shape"], groups["node"], groups["count"][v], strict=True):
            if node >= 0:
                sums["cpu"][node] += many * data["shapes"][shape]["cpu"]
                sums["memory"][node] += many * data["shapes"][shape]["memory"]
                sums["pods"][node] += many
        assert sums == data["usage"][v]
        assert sum(groups["count"][v]) == sum(workload["pods"] for workload in data["workloads"])


def _usage(data: Data, snapshot: Snapshot, result: Placement | RebalancePlan | None) -> None:
    """Against the objects and the document: what runs before, and where the result leads."""
    before = {f"{p.metadata.namespace}/{p.metadata.name}": p.spec.nodeName for p in snapshot.pods if not is_terminal(p)}
    places = [before] if result is None else [before, _after(before, result)]
    requests = {f"{p.metadata.namespace}/{p.metadata.name}": pod_request(p, snapshot.gates) for p in snapshot.pods}
    for usage, place in zip(data["usage"], places, strict=True):
        for n, node in enumerate(snapshot.nodes):
            there = [key for key, at in place.items() if at == node.metadata.name]
            assert usage["pods"][n] == len(there)
            assert usage["cpu"][n] == sum(requests[key].get("cpu", 0) for key in there)
            assert usage["memory"][n] == sum(requests[key].get("memory", 0) for key in there)


def _after(before: dict[str, str | None], result: Placement | RebalancePlan) -> dict[str, str | None]:
    after = dict(before)
    if isinstance(result, Placement):
        after |= {left.pod: None for left in result.unplaced}
        after |= {given.pod: given.node for given in result.assignments}
        for wave in result.rollout.waves if result.rollout is not None else ():
            after |= dict.fromkeys(wave.delete)
        return after
    steps = [(move.step, move.pod, move.to) for move in result.moves] + [(gone.step, gone.pod, None) for gone in result.evictions]
    for _, pod, node in sorted(steps, key=lambda step: step[0]):
        after[pod] = node
    return after


def _replay(data: Data) -> None:
    """Waves, where there are any, lead from the first view to the last."""
    if not data["waves"]:
        return
    place = list(data["pods"]["place"][0])
    numbers = [wave["wave"] for wave in data["waves"]]
    assert numbers == sorted(set(numbers))
    for wave in data["waves"]:
        for step in wave["steps"]:
            assert step.keys() == {"pod", "from", "to", "reason", "evict", "stopover"}
            assert place[step["pod"]] == step["from"]
            place[step["pod"]] = step["to"]
    assert place == data["pods"]["place"][1]
