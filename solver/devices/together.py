"""Cached answers whether the devices of a node can serve several pods together, in any order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.devices.inventory import DeviceBooks
from kubestow.models.kube.selectors import Bools
from kubestow.solver.devices.clusters import Claims, DeviceClusters
from kubestow.solver.devices.device_groups import groups_of
from kubestow.solver.devices.packing import Taken, pack
from kubestow.solver.devices.state import DeviceState

#: Maximum number of steps of a search on behalf of an engine, which queries often and has alternatives.
MAX_QUERY_STEPS = 200
#: Pods of one node: class -> number.
Pods = Mapping[int, int]


class DevicePacker:
    """The answers for classes whose devices concern one node and no other pod, given the snapshot's allocation.

    Attributes:
        lonely: bool[G], the classes in question.
    """

    def __init__(self, cluster: Cluster) -> None:
        table = cluster.devices
        assert table is not None
        self._pack = pack
        state = DeviceState(table)
        self._inventory = table.inventory
        self._groups = groups_of(table)
        self._asks: list[Claims] = [()]
        number = {self._asks[0]: 0}
        #: int64[G, N]: the requested claims, by position in ``_asks``.
        self._asked: Ints = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
        self.lonely: Bools = np.zeros(cluster.n_classes, dtype=bool)
        for g, cls in enumerate(cluster.classes):
            if cls.devices is None:
                continue
            self.lonely[g] = not state.joined and all(claim.key is None for claim in cls.devices.claims)
            for where, claims in table.variants(cls.devices) if self.lonely[g] else ():
                if claims not in number:
                    number[claims] = len(self._asks)
                    self._asks.append(claims)
                self._asked[g, where] = number[claims]
        self._states = state.states()
        self._alike: dict[int, int] = {}  # state -> a node
        self._made: dict[int, DeviceClusters] = {}
        self._found: dict[tuple[int, tuple[tuple[int, int], ...]], bool] = {}
        self._plans: dict[tuple[int, tuple[int, tuple[tuple[int, int], ...]]], list[Taken]] = {}  # with the node
        self._shares: dict[tuple[int, int], tuple[Taken, int, int] | None] = {}  # by state and position in ``_asks``

    @property
    def books(self) -> DeviceBooks:
        """The allocation of the snapshot."""
        return self._inventory.books

    def _key(self, n: int, pods: Pods) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the key under which an answer is cached: the state of node n, and the number of pods by claims."""
        pods_by_claims: dict[int, int] = {}
        for g, k in pods.items():
            ask = int(self._asked[g, n])
            if ask and k:
                pods_by_claims[ask] = pods_by_claims.get(ask, 0) + k
        return int(self._states[n]), tuple(sorted(pods_by_claims.items()))

    def note(self, n: int, pods: Pods, groups: Sequence[tuple[int, Taken]] = ()) -> None:
        """Record that these pods fit on node n together, and how.

        Args:
            pods: Number of pods by class.
            groups: (class, groups of devices) of each pod; empty if unknown.
        """
        key = self._key(n, pods)
        self._found[key] = True
        if groups:
            self._plans[n, key] = [each for _, each in sorted((int(self._asked[g, n]), each) for g, each in groups)]

    def share(self, g: int, n: int) -> tuple[Taken, int, int] | None:
        """Return the request of a pod of class g on node n, if it consists only of shares of one capacity; None otherwise.

        The result is the groups (one shared device each) that may serve it, the amount per share, and the
        number of shares.
        """
        key = int(self._states[n]), int(self._asked[g, n])
        if key not in self._shares:
            self._shares[key] = self._share(self._clusters(self._alike.setdefault(key[0], n)), self._asks[key[1]])
        return self._shares[key]

    @staticmethod
    def _share(clusters: DeviceClusters, claims: Claims) -> tuple[Taken, int, int] | None:
        if len(claims) != 1 or claims[0].constraints or [len(ways) for ways in claims[0].requests] != [1]:
            return None
        option = clusters.options[claims][0][0][0]
        count, amounts = option.request.count, {amounts for _, amounts in option.groups}
        if not count or option.request.admin or len(amounts) != 1 or any(clusters.uses[g] for g, _ in option.groups):
            return None
        each = amounts.pop()
        if len(each) != 1 or each[0][1] <= 0:
            return None
        return tuple(g for g, _ in option.groups), each[0][1], count

    def shared_room(self, n: int) -> dict[int, int]:
        """Return by group the remaining amount of each shared device with one capacity on node n.

        Only the allocation of the snapshot is taken off.
        """
        clusters, books, residual = self._clusters(self._alike.setdefault(int(self._states[n]), n)), self.books, {}
        for g, group in enumerate(clusters.groups):
            if group.kind.shared and len(clusters.capacity[g]) == 1 and group.free(books):
                ((name, total),) = clusters.capacity[g].items()
                residual[g] = max(0, total - int(books.consumed.get((group.units[0], name), 0) * clusters.scale))
        return residual

    def fits(self, n: int, pods: Pods) -> bool:
        """Return True if a short search finds devices on node n for pods of lonely classes. False proves nothing.

        Args:
            pods: Number of pods by class.
        """
        key = self._key(n, pods)
        if not key[1]:
            return True
        fits = self._found.get(key)
        if fits is None:
            node = self._alike.setdefault(key[0], n)
            listed = [self._asks[ask] for ask, k in key[1] for _ in range(k)]
            fits = self._found[key] = (
                self._pack(self._clusters(node), self._inventory.books, listed, tries=1, steps=MAX_QUERY_STEPS)[0] is not None
            )
        return fits

    def plan(self, n: int, books: DeviceBooks, pods: Pods) -> tuple[dict[int, list[Taken]] | None, bool]:
        """Return the devices of each class's pods on node n, in addition to those that ``books`` records as taken.

        Args:
            pods: Number of pods by class.

        Returns:
            The groups of devices of each pod by class, or None; and True if that is certain; see :func:`packing.pack`.
        """
        order = sorted(
            (int(self._asked[g, n]), g) for g, k in pods.items() for _ in range(k)
        )  # the order of ``fits``, so that its plans are found
        units = [unit for group in self._clusters(n).groups for unit in group.units]
        known = self._plans.get((n, self._key(n, pods)))
        plan, sure = known, True
        if plan is None or any(books.shares[unit] != self.books.shares[unit] for unit in units):
            plan, sure = self._pack(self._clusters(n), books, [self._asks[ask] for ask, _ in order])
        groups: dict[int, list[Taken]] = {g: [] for _, g in order}
        for (_, g), each in zip(order, plan or (), strict=plan is not None):
            groups[g].append(each)
        return (None if plan is None else groups), sure

    def groups(self, n: int, units: list[int]) -> Taken:
        """Return the groups of a plan that contain these units of node n."""
        of = self._clusters(n).group_of
        return tuple(of[unit] for unit in units)

    def _clusters(self, n: int) -> DeviceClusters:
        site = int(self._inventory.site_of[n])
        clusters = self._made.get(site)
        if clusters is None:
            clusters = self._made[site] = DeviceClusters(self._groups, site, self._asks)
        return clusters


def together(cluster: Cluster) -> DevicePacker | None:
    """Return the cached answers for a cluster; None if no pod requests devices."""
    table = cluster.devices
    if table is None:
        return None
    return table.cached("together", lambda: DevicePacker(cluster), of=cluster.classes)
