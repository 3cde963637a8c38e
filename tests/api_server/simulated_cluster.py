"""A simulated cluster in memory: its objects, actors and history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.api_server.actors.budgets import Budgets
from tests.api_server.actors.deployments import Deployments
from tests.api_server.actors.devices import DeviceClaims
from tests.api_server.actors.garbage import Garbage
from tests.api_server.actors.jobs import Jobs
from tests.api_server.actors.kubelets import Kubelets
from tests.api_server.actors.nodes import Orphans, Taints
from tests.api_server.actors.replicas import ReplicaSets, ReplicationControllers
from tests.api_server.actors.scheduler import Scheduler
from tests.api_server.actors.stateful import StatefulSets
from tests.api_server.actors.storage import EphemeralClaims, Volumes
from tests.api_server.behaviour import Behaviour
from tests.api_server.core import Caller, Core, Entry
from tests.api_server.judge import Cordon, Judge, Violation, is_cordoned
from tests.api_server.loading import Loader
from tests.api_server.resources import LEASES, NODES, PODS, Resource, by_kind
from tests.api_server.store import Change, copy, key_of
from tests.api_server.writes import binding, deleting, eviction, objects
from tests.api_server.writes.options import Deletion

Object = dict[str, Any]


class SimulatedCluster:
    """A simulated cluster. All methods are thread-safe. ``core`` is the state that requests change."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour()
        self.core = Core(self.behaviour)
        self.judge = Judge(self.core)
        self._moments: list[tuple[Callable[[SimulatedCluster], bool], Callable[[], object]]] = []
        self._requests: dict[int, list[Callable[[], object]]] = {}
        self._act()
        self.core.listeners.append(self._hear)

    def _act(self) -> None:
        """Start the configured actors."""
        core, behaviour = self.core, self.behaviour
        Budgets(core, behaviour.budget)
        Taints(core, behaviour.taint)
        if behaviour.controllers:
            for kind in (Deployments, ReplicaSets, ReplicationControllers, StatefulSets, Jobs, EphemeralClaims, DeviceClaims, Garbage):
                kind(core, behaviour.recreate)
            Volumes(core, behaviour.provision)
            Orphans(core, behaviour.orphan)
        if behaviour.kubelets:
            Kubelets(core, behaviour.start)
        if behaviour.scheduler != "off":
            self.begin_scheduling()

    def begin_scheduling(self) -> None:
        """Start a scheduler in a cluster that was created without one."""
        Scheduler(self.core, self.behaviour.scheduling if self.behaviour.scheduler in ("slow", "random") else 0.0)

    # --- objects ----------------------------------------------------------------------------------------------------

    def load(self, items: Iterable[Object], *, templates_of_pods: bool = False) -> None:
        """Create the objects of a snapshot in their current state, and continue the simulation from there.

        Missing parts are filled in: uids, namespaces, owners of pods (such as ReplicaSets with the number of their pods), templates of
        owners, and conditions of running pods. With ``templates_of_pods``, new pods copy the owner's first pod instead of its template.
        """
        with self.core.lock:
            Loader(self.core, templates_of_pods=templates_of_pods).load(items)
            self.run()

    def get(self, kind: str, key: str) -> Object | None:
        """Return a copy of an object. ``key`` is ``namespace/name``, or the name of a cluster-scoped object."""
        with self.core.lock:
            found = self.core.store.get(_resource(kind), key)
            return None if found is None else copy(found)

    def all(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Return copies of all objects of a kind."""
        with self.core.lock:
            found = self.core.store.all(_resource(kind)).values()
            return [copy(one) for one in found if namespace in (None, one["metadata"].get("namespace"))]

    def items(self) -> list[Object]:
        """Return copies of all objects, in the form that ``kubectl get`` lists them."""
        with self.core.lock:
            return [copy(obj) for resource in list(self.core.store.resources()) for obj in self.core.store.all(resource).values()]

    def snapshot(self) -> Object:
        """Return all objects as a ``v1`` List."""
        return {"apiVersion": "v1", "kind": "List", "items": self.items()}

    def create(self, obj: Object, actor: str = "other") -> Object:
        """Create an object as another actor.

        Raises:
            Refused: The API would refuse the request.
        """
        resource = _resource(obj["kind"], obj.get("apiVersion"))
        namespace = (obj.get("metadata") or {}).get("namespace", "default") if resource.namespaced else None
        with self.core.lock:
            found = copy(objects.create(self.core, Caller(actor), resource, namespace, obj))
            self.run()
            return found

    def patch(self, kind: str, key: str, patch: Any, actor: str = "other", *, how: objects.PatchKind = "merge", sub: str = "") -> Object:
        """Patch an object as another actor, with a merge patch by default. ``sub``: ``status`` to patch the status.

        Raises:
            Refused: The API would refuse the request.
        """
        with self.core.lock:
            found = copy(objects.patch(self.core, Caller(actor), _resource(kind), key, patch, how, sub))
            self.run()
            return found

    def replace(self, obj: Object, actor: str = "other") -> None:
        """Store an object as another actor, unchecked, as a controller or the kubelet of another version might leave it."""
        with self.core.lock:
            resource = _resource(obj["kind"], obj["apiVersion"])
            self.core.commit(Caller(actor), "update", resource, key_of(resource, obj["metadata"]), obj)
            self.run()

    def delete(self, kind: str, key: str, actor: str = "other", *, grace: int | None = None) -> None:
        """Delete an object as another actor.

        Raises:
            Refused: The API would refuse the request.
        """
        with self.core.lock:
            deleting.delete(self.core, Caller(actor), _resource(kind), key, Deletion(grace))
            self.run()

    def evict(self, key: str, actor: str = "other") -> None:
        """Evict a pod as another actor.

        Raises:
            Refused: The API would refuse the request.
        """
        with self.core.lock:
            eviction.evict(self.core, Caller(actor), key, {"metadata": {"name": key.partition("/")[2]}})
            self.run()

    def bind(self, key: str, node: str, actor: str = "other") -> None:
        """Bind a pod as another actor.

        Raises:
            Refused: The API would refuse the request.
        """
        with self.core.lock:
            binding.bind(self.core, Caller(actor), key, {"metadata": {"name": key.partition("/")[2]}, "target": {"name": node}})
            self.run()

    # --- time -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the actions that are due now."""
        with self.core.lock:
            self.core.clock.advance(self.core.clock.now)

    def settle(self, most: int = 1_000_000) -> None:
        """Advance the time until no events remain."""
        with self.core.lock:
            self.core.clock.run_out(most)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Schedule an action after a delay."""
        with self.core.lock:
            self.core.clock.later(seconds, action)

    def when(self, predicate: Callable[[SimulatedCluster], bool], action: Callable[[], object]) -> None:
        """Run an action once, when a change makes the predicate true, before the request that caused it is answered."""
        with self.core.lock:
            self._moments.append((predicate, action))

    def on_request(self, number: int, action: Callable[[], object]) -> None:
        """Run an action right before the client's Nth changing request (from 1) is carried out."""
        with self.core.lock:
            self._requests.setdefault(number, []).append(action)

    def begin_request(self) -> None:
        """Count a changing request of the client, and run the actions registered for it."""
        self.core.request += 1
        for action in self._requests.pop(self.core.request, ()):
            action()
        self.run()

    @property
    def requests(self) -> int:
        """The number of changing requests of the client."""
        return self.core.request

    def _hear(self, change: Change, entry: Entry) -> None:
        if self._moments:
            self.core.clock.later(0, self._look)

    def _look(self) -> None:
        for moment in [one for one in self._moments if one[0](self)]:
            if moment in self._moments:
                self._moments.remove(moment)
                moment[1]()

    def compact(self) -> None:
        """Discard all changes. Watches from an earlier version get 410."""
        with self.core.lock:
            self.core.store.compact()

    # --- what happened ----------------------------------------------------------------------------------------------

    @property
    def log(self) -> list[Entry]:
        """The log of all changes, in order."""
        return self.core.log

    def at(self, index: int) -> list[Object]:
        """Return all objects in their state right before a line of the log. They must not be modified."""
        found: dict[tuple[str, str, str], Object] = {}
        with self.core.lock:
            for entry in self.log[:index]:
                name = entry.kind, entry.key, entry.uid
                if entry.obj is None:
                    found.pop(name, None)
                else:
                    found[name] = entry.obj
        return list(found.values())

    def budget_violations(self) -> list[Violation]:
        """Return the voluntary disruptions that left a budget with fewer healthy pods than it requires."""
        return list(self.judge.violations)

    def bound(self, actor: str | None = None) -> list[Entry]:
        """Return the bindings, of one actor if given, with pod, node, actor and time."""
        return [one for one in self.log if one.verb == "bind" and actor in (None, one.actor)]

    def evicted(self) -> list[Entry]:
        """Return the successful evictions."""
        return [one for one in self.log if one.verb == "evict"]

    def cordoned(self) -> list[str]:
        """Return the cordoned nodes."""
        with self.core.lock:
            return sorted(name for name, node in self.core.store.all(NODES).items() if is_cordoned(node))

    def cordons(self) -> list[Cordon]:
        """Return all changes of cordons, with node, actor and time."""
        return list(self.judge.cordons)

    def tainted(self, key: str) -> list[str]:
        """Return the nodes with a taint of this key."""
        with self.core.lock:
            nodes = self.core.store.all(NODES).items()
            return sorted(name for name, node in nodes if any(one["key"] == key for one in (node.get("spec") or {}).get("taints") or ()))

    def leases(self) -> dict[str, str]:
        """Return the holders of Leases by ``namespace/name``. The holder is empty for a released Lease."""
        with self.core.lock:
            found = self.core.store.all(LEASES)
            return {key: (one.get("spec") or {}).get("holderIdentity") or "" for key, one in found.items()}

    def where(self) -> dict[str, str]:
        """Return the nodes of all bound pods that are not terminated, by ``namespace/name``."""
        with self.core.lock:
            pods = {key: pod for key, pod in self.core.store.all(PODS).items() if pod["spec"].get("nodeName")}
        ended = ("Succeeded", "Failed")
        return {key: pod["spec"]["nodeName"] for key, pod in pods.items() if (pod.get("status") or {}).get("phase") not in ended}


def _resource(kind: str, api_version: str | None = None) -> Resource:
    found = by_kind(kind, api_version) or by_kind(kind)
    if found is None:
        raise KeyError(kind)
    return found
