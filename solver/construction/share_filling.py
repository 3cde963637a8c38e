"""Placement of pods that take shares of devices, node by node, so that devices are full to the last unit.

Each device gets a set of shares that adds up to its free capacity (subset sums). See docs/algorithms/full-nodes.md
(Shared devices)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.construction.repair_state import RepairState
from kubestow.solver.devices.together import DevicePacker, together
from kubestow.solver.rules.base import Rule

MAX_DEVICE_UNITS = 4096  #: Finer capacities are rounded to this many units per device.
#: The class of each pod, and the positions of the devices that it has shares of.
_Pods: TypeAlias = list[tuple[int, tuple[int, ...]]]


@dataclass(frozen=True)
class ShareParameters:
    """Parameters of the filling.

    Attributes:
        multi_device_ratio: Pods with several devices per node, relative to the node's part of the unplaced ones. They go
            first.
        size_exponent: A share is drawn with a chance proportional to this power of its size.
        pace_lead: Fraction by which the use of other resources may lead that of devices.
        max_refilled_nodes: Nodes with gaps, and full ones, that are emptied and filled again at once.
        patience: Steps without smaller gaps before the search ends.
    """

    multi_device_ratio: float = 1.2
    size_exponent: float = 1.5
    pace_lead: float = 0.05
    max_refilled_nodes: int = 3
    patience: int = 300


PARAMETERS = ShareParameters()


@dataclass(frozen=True)
class _ShareKind:
    """Shares of one size.

    Attributes:
        groups: Positions of the devices that can give them.
        size: Size in units.
        count: Devices per pod.
        classes: Classes that request such shares.
    """

    groups: tuple[int, ...]
    size: int
    count: int
    classes: Ints


@dataclass
class _ShareNode:
    """A node with shareable devices.

    Attributes:
        kinds: Kinds of shares, largest first.
        room: Units of each device without any pod.
        pods: Pods and their devices.
        gap: Units that no pod has.
    """

    kinds: list[_ShareKind]
    room: dict[int, int]
    pods: _Pods = field(default_factory=list)
    gap: int = 0


class ShareFilling:
    """Search for a placement with full devices.

    Pods are taken off and placed again if their claims are one request for shares of one capacity and no other rule ties
    them to other pods. All others stay.

    Args:
        active: Rules in the state of ``counts``. Taken over.
        eligibility: int64[G, N].
    """

    def __init__(self, cluster: Cluster, active: Sequence[Rule], eligibility: Ints, counts: Ints, *, seed: int) -> None:
        self.cluster = cluster
        self.rng = np.random.default_rng(seed)
        answers = together(cluster)
        self.nodes: dict[int, _ShareNode] = {}
        if answers is None or not self._missing(answers, eligibility, counts):
            return
        self._together: DevicePacker = answers
        self.state = state = RepairState(cluster, active, eligibility, counts)
        free = [g for g, cls in enumerate(cluster.classes) if cls.gang is None and state.lonely[g] and state.mobile[g]]
        free = [g for g in free if not (state.settled[g] or state.exclusions.near[g] or state.exclusions.wide[g])]
        self.classes = np.array(free, dtype=np.int64)
        plain = int(np.count_nonzero(cluster.demand.any(axis=0)))
        self._columns = np.array([*range(plain), state.room.shape[1] - 1])  # resources and pod slots, devices apart
        for n in np.flatnonzero(eligibility[self.classes].any(axis=0)).tolist():
            made = self._node(n)
            if made is not None:
                self.nodes[n] = made

    def _missing(self, answers: DevicePacker, eligibility: Ints, counts: Ints) -> bool:
        """Return whether any unplaced pod requests shares."""
        waiting = np.flatnonzero(answers.lonely & (self.cluster.count > counts.sum(axis=1)) & eligibility.any(axis=1))
        return any(answers.share(g, n) is not None for g in waiting.tolist() for n in np.flatnonzero(eligibility[g]).tolist())

    def _node(self, n: int) -> _ShareNode | None:
        """Return node n with the kinds of shares that movable classes may request there, and the room of its devices.

        Return None if no such class requests shares of these devices, or if other pods on the node have devices.
        """
        state, answers = self.state, self._together
        total = answers.shared_room(n)
        by_share: dict[tuple[tuple[int, ...], int, int], list[int]] = {}
        for g in self.classes[state.block[self.classes, n] == 0].tolist():
            share = answers.share(g, n)
            if share is not None and total.keys() >= set(share[0]):
                by_share.setdefault(share, []).append(g)
        others = set(np.flatnonzero(state.counts[:, n]).tolist()).difference(*by_share.values())
        if not by_share or any(self.cluster.classes[g].devices is not None for g in others):
            return None
        unit = max(gcd(*(size for _, size, _ in by_share)), -(-max(total.values()) // MAX_DEVICE_UNITS))
        kinds = [_ShareKind(groups, -(-size // unit), count, np.array(g)) for (groups, size, count), g in by_share.items()]
        return _ShareNode(sorted(kinds, key=lambda kind: -kind.size * kind.count), {d: free // unit for d, free in total.items()})

    def run(self, over: Callable[[], bool]) -> Ints | None:
        """Return a placement int64[G, N] with fewer unplaced pods than before, or None if none was found.

        The search continues until ``over`` returns True, which is checked before each node."""
        if not self.nodes:
            return None
        state, best, quiet = self.state, self._unplaced(), 0  # steps since gaps got smaller
        for n in self.nodes:
            for g in self.classes[state.counts[self.classes, n] > 0].tolist():
                state.put(g, n, -int(state.counts[g, n]))
        self._fill(list(self.nodes), over)
        result: tuple[Ints, dict[int, _Pods]] | None = None
        while True:
            now = self._unplaced()
            if now < best:
                best, result = now, (state.counts.copy(), {n: node.pods for n, node in self.nodes.items()})
            gaps = any(node.gap for node in self.nodes.values())
            if not gaps or not state.unplaced[self.classes].any() or quiet >= PARAMETERS.patience or over():
                break
            quiet = 0 if self._refill(over) else quiet + 1
        if result is None:
            return None
        for n, pods in result[1].items():
            self._together.note(n, Counter(g for g, _ in pods), pods)
        return result[0]

    def _unplaced(self) -> tuple[int, ...]:
        """Return the unplaced pods per priority, highest first."""
        return tuple(k for _, k in sorted(self.cluster.per_priority(self.state.unplaced).items(), reverse=True))

    def _refill(self, over: Callable[[], bool]) -> bool:
        """Empty some nodes and fill them again. Return True if their gaps shrank.

        If gaps grew, the nodes get their former pods back.
        """
        gaps = [n for n, node in self.nodes.items() if node.gap]
        full = [n for n, node in self.nodes.items() if not node.gap]
        chosen: list[int] = []
        for nodes in (gaps, full):
            chosen += self.rng.permutation(np.array(nodes, dtype=np.int64))[
                : int(self.rng.integers(1, PARAMETERS.max_refilled_nodes + 1))
            ].tolist()
        before = {n: (self.nodes[n].pods, self.nodes[n].gap) for n in chosen}
        for n in chosen:
            self._put(n, self.nodes[n].pods, -1)
        self._fill(self.rng.permutation(np.array(chosen)).tolist(), over)
        gain = sum(gap for _, gap in before.values()) - sum(self.nodes[n].gap for n in chosen)
        if gain < 0:
            for n, (pods, gap) in before.items():
                self._put(n, self.nodes[n].pods, -1)
                self._put(n, pods, 1)
                self.nodes[n].pods, self.nodes[n].gap = pods, gap
        return gain > 0

    def _put(self, n: int, pods: _Pods, sign: int) -> None:
        for g, k in Counter(g for g, _ in pods).items():
            self.state.put(g, n, sign * k)

    def _fill(self, nodes: Sequence[int], over: Callable[[], bool]) -> None:
        for i, n in enumerate(nodes):
            node = self.nodes[n]
            node.pods, node.gap = [], sum(node.room.values())
            if not over():
                filling = _Filling(self, node, n, len(nodes) - i)
                node.pods, node.gap = filling.pods, sum(filling.room.values())
                self._put(n, node.pods, 1)


class _Filling:
    """The filling of one node; ``remaining_nodes``: nodes still to be filled, including this one."""

    def __init__(self, of: ShareFilling, node: _ShareNode, n: int, remaining_nodes: int) -> None:
        state, self._rng = of.state, of.rng
        self.room = dict(node.room)
        self.pods: _Pods = []
        self._all = max(1, sum(self.room.values()))
        self._unplaced = [state.unplaced[kind.classes].copy() for kind in node.kinds]
        self._demand = [state.demand[kind.classes] for kind in node.kinds]
        self._start = state.room[n]
        self._residual = self._start.copy()
        self._columns = of._columns
        self._kinds = node.kinds
        single = [i for i, kind in enumerate(node.kinds) if kind.count == 1]
        for i, kind in enumerate(node.kinds):
            if kind.count > 1:
                share = float(self._unplaced[i].sum()) / remaining_nodes * PARAMETERS.multi_device_ratio
                for _ in range(int(share + self._rng.random())):
                    if not self._several(i):
                        break
        for d in sorted(self.room):
            while self._one(d, [i for i in single if d in node.kinds[i].groups]):
                pass

    def _several(self, i: int) -> bool:
        """Give a pod of kind i several devices by first fit. Return False, with nothing changed, if it has no room.

        Return False also if the other shares could then fill one of the devices less well.
        """
        kind = self._kinds[i]
        devices = [d for d in kind.groups if self.room[d] >= kind.size][: kind.count]
        if len(devices) < kind.count or not self._fits(i).any():
            return False
        for d in devices:
            sums = self._sums(d, range(len(self._kinds)), self.room[d])
            residual = sums & ((1 << (self.room[d] - kind.size + 1)) - 1)
            if residual.bit_length() + kind.size < sums.bit_length():
                return False
        self._take(i, tuple(devices))
        return True

    def _one(self, d: int, single: Sequence[int]) -> bool:
        """Give a random pod a share of device d so that other shares can fill the device as well as possible.

        Return False, with nothing changed, if no share fits.

        Args:
            single: Kinds with one device a pod.
        """
        if not self.room[d]:
            return False
        usable = [i for i in single if self._kinds[i].size <= self.room[d] and self._fits(i).any()]
        sums = self._sums(d, usable, self.room[d])
        largest = sums.bit_length() - 1
        fine = [i for i in usable if self._kinds[i].size <= largest and sums >> (largest - self._kinds[i].size) & 1]
        if not fine:
            return False
        weights = np.array([float(self._unplaced[i].sum()) * self._kinds[i].size ** PARAMETERS.size_exponent for i in fine])
        self._take(fine[int(self._rng.choice(len(fine), p=weights / weights.sum()))], (d,))
        return True

    def _sums(self, d: int, single: Sequence[int], limit: int) -> int:
        """Return the sums of shares that device d can give, as bits: bit s is set if some shares have s units together.

        Args:
            single: The kinds of shares to use.
            limit: Largest sum, in units.
        """
        sums, mask = 1, (1 << (limit + 1)) - 1
        for i in single:
            kind = self._kinds[i]
            if d in kind.groups:
                for _ in range(min(int(self._unplaced[i].sum()), limit // kind.size)):
                    sums |= sums << kind.size & mask
        return sums

    def _fits(self, i: int) -> Bools:
        return np.asarray((self._unplaced[i] > 0) & (self._demand[i] <= self._residual).all(axis=1))

    def _take(self, i: int, devices: tuple[int, ...]) -> None:
        """Give one pod of kind i a share of each of these devices.

        Among pods that use other resources no faster than devices, take the one that uses most. If there are none, take
        the one that uses least.
        """
        kind = self._kinds[i]
        for d in devices:
            self.room[d] -= kind.size
        start = np.maximum(self._start[self._columns], 1)
        after = ((self._start - self._residual + self._demand[i])[:, self._columns] / start).max(axis=1)
        pace = 1 - sum(self.room.values()) / self._all + PARAMETERS.pace_lead
        fits = self._fits(i)
        slow = fits & (after <= pace)
        chosen = int(np.argmax(np.where(slow, after, -1.0))) if slow.any() else int(np.argmin(np.where(fits, after, np.inf)))
        self._unplaced[i][chosen] -= 1
        self._residual = self._residual - self._demand[i][chosen]
        self.pods.append((int(kind.classes[chosen]), devices))
