"""Feasibility of the upgrade of a tiny pool: every order of nodes, every way to move their pods one by one, on plain API objects.

One node at a time: with a surge of 1 its clone joins before the drain, with none after it. What single steps are accepted is asked of
:mod:`tests.plans.accepting`, again for each wave; the planner's code is not used.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from typing import Any

from kubestow.models.documents.rebalance_plan import Limits
from tests.plans import guards
from tests.plans.accepting import Accepting, Position
from tests.plans.brute import TooLarge
from tests.plans.tiny import HOST

Object = dict[str, Any]


class Brute:
    """``surge``: 0 or 1, the nodes that are there beyond the pool; without one, one node may be missing."""

    def __init__(self, objects: Iterable[Object], pool: Collection[str], surge: int, max_states: int = 4_000) -> None:
        self.objects, self.pool, self.surge, self._left = list(objects), frozenset(pool), surge, max_states
        self._dead: set[str] = set()

    def feasible(self) -> bool:
        """Return whether some course drains all nodes of the pool.

        Raises:
            TooLarge: there are more states than are looked at.
        """
        return self._waves(self.objects, self.pool)

    def _waves(self, objects: list[Object], undrained: frozenset[str]) -> bool:
        if not undrained:
            return True
        key = repr(
            (sorted(undrained), sorted(repr((o["metadata"], o.get("spec"), o.get("status"))) for o in objects if o["kind"] == "Pod"))
        )
        if key in self._dead:
            return False
        for name in sorted(undrained):
            here = [*objects, *joining(objects, name)] if self.surge else objects
            for after in self._drained(here, name):
                new = [] if self.surge else joining(objects, name)
                if self._waves([*gone(after, name), *new], undrained - {name}):
                    return True
        self._dead.add(key)
        return False

    def _drained(self, objects: list[Object], name: str) -> Iterable[list[Object]]:
        """The objects after each drain of a node that gets through."""
        world = Accepting(objects, drain=[name], limits=Limits(alsoMove=["local-storage"]))
        n = world.cluster.names.index(name)
        leaving = [p.index for p in world.cluster.pods if p.home == n and not p.terminating and not guards.stays_with_node(p)]
        if not set(leaving) <= world.movable or not all(world.guarded(world.first, i) for i in leaving):
            return
        seen: set[tuple[int, ...]] = set()
        stack = [world.first]
        while stack:
            position = stack.pop()
            if position.at in seen:
                continue
            seen.add(position.at)
            self._left -= 1
            if self._left < 0:
                raise TooLarge(f"{name}")
            waiting = [i for i in leaving if position.at[i] == n]
            if not waiting:
                yield moved(objects, world, position)
            for i in waiting:
                found = (world.accepted(position, i, m) for m in range(len(world.cluster.nodes)) if m != n)
                stack += [after for after in found if after is not None]


def moved(objects: list[Object], world: Accepting, position: Position) -> list[Object]:
    """The objects with pods at their positions; moved pods are Ready."""
    to = {world.cluster.pods[i].key: world.cluster.names[position.at[i]] for i in position.done}
    found = []
    for thing in objects:
        node = to.get(f"{thing['metadata'].get('namespace', 'default')}/{thing['metadata']['name']}") if thing["kind"] == "Pod" else None
        found.append(thing if node is None else {**thing, "spec": {**thing["spec"], "nodeName": node}, "status": {"phase": "Running"}})
    return found


def _stays(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences", ())
    return "kubernetes.io/config.mirror" in pod["metadata"].get("annotations", {}) or any(o["kind"] == "DaemonSet" for o in owners)


def gone(objects: list[Object], name: str) -> list[Object]:
    """The objects without a node and its remaining pods."""
    return [
        o for o in objects
        if not (o["kind"] == "Node" and o["metadata"]["name"] == name)
        and not (o["kind"] == "Pod" and o["spec"].get("nodeName") == name)
    ]  # fmt: skip


def joining(objects: list[Object], name: str) -> list[Object]:
    """The node that replaces another one, with the pods that run on every such node."""
    (old,) = [o for o in objects if o["kind"] == "Node" and o["metadata"]["name"] == name]
    node = copy.deepcopy(old)
    node["metadata"]["name"] = node["metadata"]["labels"][HOST] = f"{name}-new"
    taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != "node.kubernetes.io/unschedulable"]
    node["spec"] = {"taints": taints} if taints else {}
    found = [node]
    for pod in objects:
        if pod["kind"] == "Pod" and pod["spec"].get("nodeName") == name and _stays(pod) and "deletionTimestamp" not in pod["metadata"]:
            made = copy.deepcopy(pod)
            made["metadata"]["name"] += "-new"
            made["spec"]["nodeName"] = f"{name}-new"
            made["status"] = {"phase": "Running"}
            found.append(made)
    return found
