"""Tasks of openb one after the other, as they arrive: kubestow's rules say where each may go, and the node that strands least gets it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from tests.benchmarks import openb
from tests.benchmarks.openb import Machine, Task

#: Free capacity of a node: mCPU, MiB, and the shares of each GPU.
Room = tuple[int, int, tuple[int, ...]]
_MIB = 2**20
#: Weights of kinds of tasks are whole: times this.
_UNIT = 1_000_000
#: Arrivals between two rounds of moves.
BATCH = 100


def after(room: Room, task: Task) -> Room | None:
    """Return the shares that remain on the first GPUs with room for a task, as the allocator takes them; None if it does not fit."""
    cpu, memory, wanted = room[0] - task.cpu, room[1] - task.memory, task.gpus
    if cpu < 0 or memory < 0:
        return None
    gpus = list(room[2])
    for k, free in enumerate(gpus if wanted else ()):
        if free >= task.share:
            gpus[k], wanted = free - task.share, wanted - 1
            if not wanted:
                break
    return None if wanted else (cpu, memory, tuple(gpus))


def before(room: Room, task: Task, allocation: tuple[int, ...]) -> Room:
    """Return the free shares after a task leaves that held these GPUs, by position."""
    gpus = list(room[2])
    for k in allocation:
        gpus[k] += task.share
    return room[0] + task.cpu, room[1] + task.memory, tuple(gpus)


class Stranded:
    """How much of a node's GPUs is of no use for tasks like those of the trace, in two readings that are added up.

    The first takes each kind of task alone and fills the node with it, weighed by how often it comes over the root of what it asks for;
    the second, in the manner of fragmentation gradient descent (Weng et al., USENIX ATC 2023), asks which GPUs could serve the kind now,
    weighed by how much it asks for in all.
    """

    def __init__(self, seen: list[Task]) -> None:
        often = Counter(task for task in seen if task.gpus)
        filling = {task: count * _UNIT // isqrt(task.load * 10_000) for task, count in often.items()}
        serving = {task: count * task.load for task, count in often.items()}
        scale = [_UNIT * 10 // max(1, sum(filling.values())), _UNIT * 3 / max(1, sum(serving.values()))]
        self._weights = [(task, filling[task] * int(scale[0]), int(serving[task] * scale[1])) for task in often]
        self._known: dict[Room, int] = {}

    def of(self, room: Room) -> int:
        """Return the stranded capacity, in thousandths of GPUs times the sum of the weights."""
        cpu, memory, gpus = room
        key = (cpu, memory, tuple(sorted(gpus)))
        found = self._known.get(key)
        if found is None:
            found, total = 0, sum(gpus)
            for task, filling, serving in self._weights if total else ():
                fit = min(cpu // task.cpu if task.cpu else total, memory // task.memory if task.memory else total)
                able = [free for free in gpus if free >= task.share]
                if task.gpus > 1:
                    used = min(fit, len(able) // task.gpus) * task.load
                else:
                    used = min(fit, sum(free // task.share for free in able)) * task.share
                found += filling * (total - used)
                found += serving * (total - (sum(able) if fit and len(able) >= task.gpus else 0))
            self._known[key] = found
        return found


@dataclass
class Online:
    """The cluster as it fills. ``room``: per node what it has left; ``running``: per node its tasks, each with the GPUs that it holds, by
    position. The rules have every task on its node as well: what they take is what is noted here."""

    nodes: list[Machine]
    seen: list[Task]
    cluster: Cluster
    room: list[Room] = field(init=False)
    running: list[dict[Task, list[tuple[int, ...]]]] = field(init=False)
    allocated: int = 0
    moves: int = 0

    def __post_init__(self) -> None:
        active = rules.build(self.cluster)
        self._fit, self._devices = NodeResourcesFit.of(active), DynamicResources.of(active)
        self._class_of = {self._task(g): g for g in range(self.cluster.n_classes)}
        self.room = [(node.cpu, node.memory, (openb.WHOLE,) * node.gpus) for node in self.nodes]
        self._number: dict[Room, int] = {}  # rooms that nodes have had
        self._rooms: list[Room] = []
        self._room_id = np.zeros(len(self.nodes), dtype=np.int64)
        for n, room in enumerate(self.room):
            self._now(n, room)
        self.running = [{} for _ in self.nodes]
        self._stranded = Stranded(self.seen)
        self._cost: dict[tuple[Room, Task], int] = {}
        self._targets: dict[Task, list[tuple[int, int]]] = {}  # until something moves

    def _task(self, g: int) -> Task:
        demand = dict(zip(self.cluster.resources, self.cluster.demand[g].tolist(), strict=True))
        devices = self.cluster.classes[g].devices
        request = devices.claims[0].requests[0][0] if devices is not None and devices.claims else None
        gpus, share = (0, 0) if request is None else (int(request.count or 0), int(dict(request.capacity)[openb.SHARE]))
        return Task(demand["cpu"], demand["memory"] // _MIB, gpus, share)

    def _now(self, n: int, room: Room) -> None:
        number = self._number.setdefault(room, len(self._rooms))
        if number == len(self._rooms):
            self._rooms.append(room)
        self.room[n], self._room_id[n] = room, number
        self._targets = {}

    def _costs(self, room: Room, task: Task) -> int:
        """Return the additional stranded capacity if the task goes to a node; it fits there."""
        key = room, task
        found = self._cost.get(key)
        if found is None:
            room_after = after(room, task)
            assert room_after is not None, (room, task)
            found = self._cost[key] = self._stranded.of(room_after) - self._stranded.of(room)
        return found

    def best(self, task: Task) -> list[tuple[int, int]]:
        """Return (cost, node) of the nodes that a task is best on, by what the rules say, the best first: two, or as many as take it."""
        found = self._targets.get(task)
        if found is None:
            g = self._class_of[task]
            open_ = np.flatnonzero(~(self._fit.rejects(g) | self._devices.rejects(g)))
            rooms, first = np.unique(self._room_id[open_], return_index=True)
            listed = sorted((self._costs(self._rooms[r], task), int(n)) for r, n in zip(rooms.tolist(), open_[first].tolist(), strict=True))
            if listed:  # the second may be in the same state as the first
                cost, n = listed[0]
                listed[1:1] = [(cost, int(m)) for m in open_[(self._room_id[open_] == self._room_id[n]) & (open_ != n)][:1]]
            found = self._targets[task] = listed[:2]
        return found

    def put(self, task: Task, n: int) -> None:
        """Place a task on a node that the rules accept, and where they take the devices that are noted as held."""
        g, room = self._class_of[task], self.room[n]
        room_after = after(room, task)
        assert room_after is not None
        assert not self._fit.rejects(g)[n]
        assert not self._devices.rejects(g)[n]
        self._fit.place(g, n)
        self._devices.place(g, n)
        gpus = tuple(k for k, (had, has) in enumerate(zip(room[2], room_after[2], strict=True)) if had != has)
        assert gpus == self._taken(task, n)
        self.running[n].setdefault(task, []).append(gpus)
        self._now(n, room_after)
        self.allocated += task.load

    def take(self, task: Task, n: int) -> None:
        """Take the last task of a kind off its node."""
        g, gpus = self._class_of[task], self.running[n][task].pop()
        assert gpus == self._taken(task, n)
        if not self.running[n][task]:
            del self.running[n][task]
        self._fit.remove(g, n)
        self._devices.remove(g, n)
        self._now(n, before(self.room[n], task, gpus))
        self.allocated -= task.load

    def _taken(self, task: Task, n: int) -> tuple[int, ...]:
        """Return the GPUs, by position, that the rules have given the last task of a kind on a node."""
        if not task.gpus:
            return ()
        first = int(self._devices.state.inventory.visible(n)[0])
        return tuple(sorted(pick.device - first for pick in self._devices.taken(self._class_of[task], n)[-1]))

    def arrive(self, task: Task) -> bool:
        """Place a task where it strands least; whether it fitted."""
        for _, n in self.best(task)[:1]:
            self.put(task, n)
            return True
        return False

    def make_room(self, task: Task) -> bool:
        """Move one running task elsewhere so that another fits, where that strands least; whether there was such a move."""
        cheapest: tuple[int, int, Task] | None = None
        for n, room in enumerate(self.room):
            cpu, memory, load = task.cpu - room[0], task.memory - room[1], task.load - sum(room[2])
            for other, allocations in self.running[n].items():
                if other.cpu < cpu or other.memory < memory or other.load < load:
                    continue
                room_after = after(before(room, other, allocations[-1]), task)
                if room_after is None:
                    continue
                for cost, target in self.best(other):
                    if target != n:
                        cost += self._stranded.of(room_after) - self._stranded.of(room)
                        if cheapest is None or cost < cheapest[0]:
                            cheapest = cost, n, other
                        break
        if cheapest is None:
            return False
        _, n, other = cheapest
        target = next(m for _, m in self.best(other) if m != n)
        self.take(other, n)
        self.put(task, n)
        self.put(other, target)
        self.moves += 1
        return True

    def tidy(self, moves: int) -> None:
        """Move up to ``moves`` tasks to nodes where less capacity is stranded, the largest gain first."""
        listed = []
        for n in range(len(self.nodes)):
            listed += [(cost, n, task) for task in self.running[n] if (cost := self._moving(task, n)[0]) < 0]
        for _, n, task in sorted(listed, key=lambda entry: entry[:2]):
            if moves and task in self.running[n]:
                cost, target = self._moving(task, n)
                if cost < 0:
                    self.take(task, n)
                    self.put(task, target)
                    self.moves += 1
                    moves -= 1

    def _moving(self, task: Task, n: int) -> tuple[int, int]:
        """Return the change of stranded capacity if the last task of a kind moves to the best other node, and that node; 0 if none fits."""
        room = self.room[n]
        for cost, target in self.best(task):
            if target != n:
                return cost + self._stranded.of(before(room, task, self.running[n][task][-1])) - self._stranded.of(room), target
        return 0, n


def online(nodes: list[Machine], arrivals: list[Task]) -> Online:
    """Return an empty cluster for some arrivals."""
    snapshot = from_objects(openb.snapshot(nodes, arrivals))
    return Online(nodes, openb.tasks(), compile_cluster(snapshot, select(snapshot)))


def run(nodes: list[Machine], arrivals: list[Task], loads: Sequence[int], *, moves: int = 0) -> tuple[list[int], Online]:
    """Return the thousandths of GPUs that are allocated when tasks that request each percentage in ``loads`` have arrived, and the cluster
    in the end. With ``moves``, after every ``BATCH`` arrivals those of them that found no place are tried again, the largest first, with
    one move each, and then tasks go where they strand less: ``moves`` moves in total."""
    cluster, full = online(nodes, arrivals), openb.capacity(nodes)
    allocated, requested, waiting = list[int](), 0, list[Task]()
    for i, task in enumerate(arrivals, 1):
        requested += task.load
        if not cluster.arrive(task):
            waiting.append(task)
        if moves and i % BATCH == 0:
            _again(cluster, waiting, moves)
            waiting = []
        while len(allocated) < len(loads) and requested * 100 >= loads[len(allocated)] * full:
            allocated.append(cluster.allocated)
    return allocated, cluster


def _again(cluster: Online, waiting: list[Task], moves: int) -> None:
    until = cluster.moves + moves
    hopeless = set[Task]()  # while nothing changes
    for task in sorted(waiting, key=lambda t: (-t.load, t.cpu, t.memory)):
        if task in hopeless or cluster.arrive(task):
            continue
        if cluster.moves < until and cluster.make_room(task):
            hopeless.clear()
        else:
            hopeless.add(task)
    cluster.tidy(until - cluster.moves)
