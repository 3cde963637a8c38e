"""Random updates of all three controllers, and a search over every interleaving of controller and scheduler.

The plain objects are the only input; no code of ``models``, ``solver`` or ``checker`` is used. A step is one that the
controller or the scheduler may take next: a pod is created, gets a node or is deleted. Pods that get a node serve at once, others stay as
they are.

Sources: pkg/controller/{deployment,replicaset,statefulset,daemon} of Kubernetes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.objects import Object, node, pod

APP = {"app": "web"}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
KINDS = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True)
class Spec:
    """Requests of a template. ``apart``: the topology key of its required anti-affinity."""

    cpu: int
    port: int | None = None
    apart: str | None = None
    disk: str | None = None

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {"cpu": f"{self.cpu}m"}
        if self.apart is not None:
            term = {"topologyKey": self.apart, "labelSelector": {"matchLabels": APP}}
            found["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if self.disk is not None:
            found["selector"] = {"disk": self.disk}
        return found

    def pod(self, name: str, **more: Any) -> Object:
        made = pod(name, **self.fields(), **more)
        if self.port is not None:
            made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": self.port, "protocol": "TCP"}]
        return made


@dataclass(frozen=True)
class Running:
    """A pod at a moment. ``slot``: ordinal, or node of a DaemonSet; ``number``: to tell pods of one slot apart."""

    slot: int
    number: int
    new: bool
    node: int | None
    ready: bool = True

    @property
    def serves(self) -> bool:
        return self.node is not None and self.ready


@dataclass
class Case:
    """``objects``: the cluster; ``manifest``: the workload as it is to be; the rest is the same, for the search."""

    kind: str
    objects: list[Object]
    manifest: Object
    cpu: list[int]
    zones: list[str]
    disks: list[str]
    before: Spec
    after: Spec
    start: tuple[Running, ...]
    others: list[tuple[int, int, int | None]]
    replicas: int
    surge: int = 0
    unavailable: int = 1
    partition: int = 0
    parallel: bool = False
    on_delete: bool = False
    counts: bool = False
    recreate: bool = False
    quota: int | None = None
    tainted: list[bool] = field(default_factory=list)


# --- random cases -----------------------------------------------------------------------------------------------------------


def case(kind: str, seed: int) -> Case:
    """Return a tiny update; about half of them get stuck."""
    rng = random.Random(f"{kind} {seed}")
    size = rng.randint(1, 3 if kind == "Deployment" else 4)
    cpu = [rng.choice((200, 300, 400, 600)) for _ in range(size)]
    zones = [f"z{i % 2}" for i in range(size)]
    disks = [rng.choice(("ssd", "ssd", "hdd")) for _ in range(size)]
    tainted = [kind == "DaemonSet" and rng.random() < 0.15 for _ in range(size)]
    nodes = []
    for i in range(size):
        taints: Any = {"taints": [{"key": "k", "effect": "NoSchedule"}]} if tainted[i] else {}
        nodes.append(node(f"n{i}", cpu=f"{cpu[i]}m", labels={ZONE: zones[i], "disk": disks[i]}, **taints))
    before = _spec(rng)
    after = before if rng.random() < 0.4 else _spec(rng)
    found = Case(kind, nodes, {}, cpu, zones, disks, before, after, (), [], size, tainted=tainted)
    _others(rng, found)
    {"Deployment": _deployment, "StatefulSet": _stateful, "DaemonSet": _daemon}[kind](rng, found)
    if rng.random() < 0.15:
        found.quota = len(found.start) + len(found.others) + rng.choice((-1, 0, 0, 1))
        metadata = {"name": "q", "namespace": "default"}
        found.objects.append(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": f"{found.quota}"}}}
        )
    return found


def _spec(rng: random.Random) -> Spec:
    return Spec(
        rng.choice((100, 100, 150, 200, 300)),
        8080 if rng.random() < 0.2 else None,
        rng.choice((HOST, HOST, ZONE)) if rng.random() < 0.35 else None,
        rng.choice(("ssd", "hdd")) if rng.random() < 0.1 else None,
    )


def _others(rng: random.Random, case: Case) -> None:
    for i in range(rng.choice((0, 0, 1, 2))):
        spec = Spec(rng.choice((50, 100)), 8080 if rng.random() < 0.2 else None)
        at = rng.randrange(len(case.cpu))
        case.others.append((at, spec.cpu, spec.port))
        case.objects.append(spec.pod(f"x{i}", labels={"app": "db"}, node_name=f"n{at}"))


def _object(case: Case, more: Object) -> None:
    """Put the workload with its old template into the cluster, and make the manifest with the new one."""
    metadata = {"name": "web", "namespace": "default", "uid": "web"}
    for spec in (case.before, case.after):
        template = {"metadata": {"labels": APP}, "spec": spec.pod("t")["spec"]}
        case.manifest = {
            "apiVersion": "apps/v1", "kind": case.kind, "metadata": metadata,
            "spec": {"selector": {"matchLabels": APP}, "template": template, **more},
        }  # fmt: skip
        if spec is case.before:
            case.objects.append(case.manifest)


def _old(rng: random.Random, case: Case, slot: int, name: str, **fields: Any) -> None:
    """Make an old pod: mostly on a node, some without one, some not ready."""
    owner = {"Deployment": "ReplicaSet/web-0ld", "StatefulSet": "StatefulSet/web", "DaemonSet": "DaemonSet/web"}[case.kind]
    labels, key = {**APP, "controller-revision-hash": "0ld", "pod-template-hash": "0ld"}, "requiredDuringSchedulingIgnoredDuringExecution"
    ready, at = rng.random() > 0.12, fields.pop("at")
    made = case.before.pod(name, labels=labels, owner=owner, node_name=f"n{at}" if at is not None else None)
    if at is not None:
        made["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    if fields.get("pin") is not None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{fields['pin']}"]}]}
        made["spec"].setdefault("affinity", {})["nodeAffinity"] = {key: {"nodeSelectorTerms": [term]}}
    case.objects.append(made)
    case.start = (*case.start, Running(slot, 0, False, at, ready))


def _deployment(rng: random.Random, case: Case) -> None:
    case.replicas = rng.randint(1, 3)
    case.surge, case.unavailable = rng.choice(((1, 0), (1, 0), (2, 0), (1, 1), (0, 1), (0, 2)))
    rolling = {"maxSurge": case.surge, "maxUnavailable": case.unavailable}
    strategy: Object = {"type": "RollingUpdate", "rollingUpdate": rolling}
    if rng.random() < 0.1:
        case.recreate, strategy = True, {"type": "Recreate"}
    _object(case, {"replicas": case.replicas, "strategy": strategy})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    labels = {**APP, "pod-template-hash": "0ld"}
    template = {"metadata": {"labels": labels}, "spec": case.before.pod("t")["spec"]}
    metadata = {"name": "web-0ld", "namespace": "default", "uid": "rs", "labels": labels, "ownerReferences": [owner]}
    spec = {"replicas": case.replicas, "selector": {"matchLabels": labels}, "template": template}
    case.objects.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    for i in range(case.replicas):
        _old(rng, case, i, f"web-0ld-{i}", at=rng.randrange(len(case.cpu)))


def _stateful(rng: random.Random, case: Case) -> None:
    case.replicas = rng.randint(1, 4)
    case.parallel = rng.random() < 0.35
    case.partition = rng.choice((0, 0, 0, 1, 2))
    case.counts = rng.random() < 0.4
    case.on_delete = rng.random() < 0.08
    limit = rng.choice((1, 1, 2, 3))
    case.unavailable = limit if case.counts else 1
    rolling: Object = {"partition": case.partition, "maxUnavailable": limit}
    strategy: Object = {"type": "OnDelete"} if case.on_delete else {"type": "RollingUpdate", "rollingUpdate": rolling}
    case.partition = 0 if case.on_delete else min(case.partition, case.replicas)
    policy = "Parallel" if case.parallel else "OrderedReady"
    start = rng.choice((0, 0, 0, 2))
    more: Object = {"replicas": case.replicas, "serviceName": "web", "updateStrategy": strategy, "podManagementPolicy": policy}
    _object(case, more | ({"ordinals": {"start": start}} if start else {}))
    for i in range(case.replicas + rng.choice((0, 0, 0, 1, 2))):
        if rng.random() < 0.07:
            continue
        at = None if rng.random() < 0.1 else rng.randrange(len(case.cpu))
        _old(rng, case, i, f"web-{start + i}", at=at)


def _daemon(rng: random.Random, case: Case) -> None:
    case.surge, case.unavailable = rng.choice(((0, 1), (0, 1), (0, 2), (1, 0), (1, 0), (2, 0)))
    case.on_delete = rng.random() < 0.08
    rolling = {"maxSurge": case.surge, "maxUnavailable": case.unavailable}
    _object(case, {"updateStrategy": {"type": "OnDelete"} if case.on_delete else {"type": "RollingUpdate", "rollingUpdate": rolling}})
    for i in range(len(case.cpu)):
        if (case.before.disk in (None, case.disks[i]) and not case.tainted[i]) or rng.random() < 0.3:
            at = None if rng.random() < 0.08 else i
            if rng.random() > 0.07:
                _old(rng, case, i, f"web-{i}", at=at, pin=i)


# --- every interleaving -----------------------------------------------------------------------------------------------------

State = frozenset[Running]


class Interleavings:
    """``completes``: whether some interleaving reaches the end of the update; ``states``: how many there are."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.runs = set(range(case.replicas))
        self.keeps = self.runs
        if case.kind == "DaemonSet":
            right = {i for i in range(len(case.cpu)) if case.after.disk in (None, case.disks[i])}
            self.keeps, self.runs = right, {i for i in right if not case.tainted[i]}
        self.completes, self.states = self._explored()

    def _explored(self) -> tuple[bool, int]:
        start = frozenset(self.case.start)
        seen, stack = {start}, [start]
        while stack:
            state = stack.pop()
            if self._complete(state):
                return True, len(seen)
            for then in (*self._controller(state), *self._scheduler(state)):
                if then not in seen:
                    seen.add(then)
                    stack.append(then)
        return False, len(seen)

    def _complete(self, state: State) -> bool:
        if self.case.kind == "Deployment":
            return len(state) == self.case.replicas and all(p.new and p.serves for p in state)
        if {p.slot for p in state} != self.runs or len(state) != len(self.runs):
            return False
        first = self.case.partition
        return all(p.new and p.serves for p in state if p.slot >= first or self.case.kind == "DaemonSet")

    # --- the scheduler ------------------------------------------------------------------------------------------------------

    def _scheduler(self, state: State) -> Iterator[State]:
        for each in state:
            if each.node is None:
                nodes = [each.slot] if self.case.kind == "DaemonSet" else range(len(self.case.cpu))
                for n in nodes:
                    if self._fits(state, each, n):
                        yield state - {each} | {replace(each, node=n, ready=True)}

    def _fits(self, state: State, each: Running, n: int) -> bool:
        case = self.case
        spec = case.after if each.new else case.before
        there = [p for p in state if p.node == n]
        specs = [case.after if p.new else case.before for p in there]
        others = [(cpu, port) for at, cpu, port in case.others if at == n]
        if spec.cpu + sum(s.cpu for s in specs) + sum(cpu for cpu, _ in others) > case.cpu[n]:
            return False
        if spec.port is not None and spec.port in [*(s.port for s in specs), *(port for _, port in others)]:
            return False
        if case.kind != "DaemonSet" and spec.disk not in (None, case.disks[n]):
            return False
        if case.kind == "DaemonSet" and not each.new and case.tainted[n]:
            return False
        if case.kind == "DaemonSet" and each.new and n not in self.runs:
            return False
        for p in state:
            if p.node is None:
                continue
            for key in {spec.apart, (case.after if p.new else case.before).apart} - {None}:
                if p.node == n if key == HOST else case.zones[p.node] == case.zones[n]:
                    return False
        return True

    def _admitted(self, state: State) -> bool:
        return self.case.quota is None or len(state) + len(self.case.others) < self.case.quota

    # --- the controllers ----------------------------------------------------------------------------------------------------

    def _controller(self, state: State) -> Iterator[State]:
        if self.case.kind == "Deployment":
            yield from self._deployment(state)
        elif self.case.kind == "StatefulSet":
            following = self._stateful(state)
            if following is not None:
                yield following
        else:
            yield from self._daemon(state)

    def _deployment(self, state: State) -> Iterator[State]:
        case = self.case
        new = [p for p in state if p.new]
        old = [p for p in state if not p.new]
        if case.recreate:
            if old:
                yield frozenset(new)
                return
            due = case.replicas - len(new)
        else:
            due = min(case.replicas - len(new), case.replicas + case.surge - len(state))
        if due > 0 and self._admitted(state):
            yield state | {Running(0, len(new), True, None)}
        if case.recreate:
            return
        least = max(0, case.replicas - case.unavailable)
        spare = len(old) + sum(p.serves for p in new) - least
        ailing = min(max(0, spare), sum(not p.serves for p in old))
        excess = max(0, sum(p.serves for p in state) - least)

        def rank(p: Running) -> tuple[object, ...]:
            return p.node is not None, p.serves, -sum(q.node == p.node for q in state), p.slot

        going = sorted(old, key=rank)[: ailing + excess]
        if going:
            yield state - set(going)

    def _stateful(self, state: State) -> State | None:
        """One sync of the controller, which leaves no choice."""
        case = self.case
        at = {p.slot: p for p in state}
        for slot in range(case.replicas):
            p = at.get(slot)
            if p is None:
                new = slot >= case.partition or case.on_delete
                return state | {Running(slot, 1, new, None)} if self._admitted(state) else None
            if not p.serves and not case.parallel:
                return None
        surplus = sorted((p for p in state if p.slot >= case.replicas), key=lambda p: -p.slot)
        if surplus and case.parallel:
            return state - set(surplus)
        if surplus:
            ailing = [p for p in surplus if not p.serves]
            return state - {surplus[0]} if surplus[0].serves or surplus[0] is ailing[-1] else None
        if case.on_delete:
            return None
        falling = [at[slot] for slot in range(case.replicas - 1, -1, -1)]
        updated = falling[: case.replicas - case.partition]
        if case.counts:
            more = case.unavailable - sum(not p.serves for p in falling)
            going = [p for p in updated if not p.new][: max(0, more)]
            return state - set(going) if going else None
        for p in updated:
            if not p.new:
                return state - {p}
            if not p.serves:
                return None
        return None

    def _daemon(self, state: State) -> Iterator[State]:
        case = self.case
        refused, acted = False, False
        for n in range(len(case.cpu)):
            here = [p for p in state if p.slot == n]
            if not here and n in self.runs:
                if self._admitted(state):
                    acted = True
                    yield state | {Running(n, 1, True, None)}
                refused = refused or not self._admitted(state)
            elif here and n not in self.keeps:
                acted = True
                yield state - set(here)
            elif len(here) == 2:
                new, old = sorted(here, key=lambda p: not p.new)
                if not old.serves or new.serves:
                    acted = True
                    yield state - {old}
        if not case.on_delete and not acted and not refused:
            yield from self._rolled(state)

    def _rolled(self, state: State) -> Iterator[State]:
        case = self.case
        by = {n: [p for p in state if p.slot == n] for n in range(len(case.cpu))}
        old = {n: here[0] for n, here in by.items() if len(here) == 1 and not here[0].new}
        if not case.surge:
            down = sum(not here[0].serves if here else n in self.runs for n, here in by.items())
            for p in old.values():
                if not p.serves or down < case.unavailable:
                    yield state - {p}
            return
        surging = sum(len(here) == 2 and not all(p.serves for p in here if p.new) for here in by.values())
        serving = sum(any(p.serves for p in here if not p.new or len(here) == 1) for here in by.values())
        for n, p in old.items():
            if n not in self.runs:
                if not p.serves or serving > len(self.runs):
                    yield state - {p}
            elif (not p.serves or surging < case.surge) and self._admitted(state):
                yield state | {Running(n, 1, True, None)}
