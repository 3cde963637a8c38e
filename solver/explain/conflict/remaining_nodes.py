"""The nodes that remain under the facts of a cause, for the numbers in its sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.explain.conflict.fact_model import FactEncoding, Tag
from kubestow.solver.explain.conflict.wording import listed
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit

#: The facts of a cause: the tags of each, and the topology domain (key, code) of its nodes if it was split by a
#: key.
Core = Sequence[tuple[tuple[Tag, ...], tuple[str, int] | None]]


class RemainingNodes:
    """The nodes that remain under a cause.

    Attributes:
        bars: By rule and class, bool[N], the nodes that its facts exclude.
        open: By class, bool[N], the nodes that no exclusion of the cause closes.
        room: By class, int64[N], the pods that each node can take under the exclusions and capacities of the
            cause.
    """

    def __init__(self, encoding: FactEncoding, core: Core) -> None:
        self.encoding, self.cluster, self.core = encoding, encoding.cluster, core
        self._owners = PodOwners(encoding.cluster.snapshot)
        self.bars: dict[str, dict[int, Bools]] = {}
        for tags, _ in core:
            for g, mask in self.excluded(tags).items():
                mine = self.bars.setdefault(tags[0].rule, {})
                mine[g] = mine[g] | mask if g in mine else mask
        every = range(self.cluster.n_classes)
        self.open = [~np.logical_or.reduce([self.nowhere, *(bars[g] for bars in self.bars.values() if g in bars)]) for g in every]
        self.room = [self._rooms(g) for g in every]

    @property
    def nowhere(self) -> Bools:
        return np.zeros(self.cluster.n_nodes, dtype=bool)

    def excluded(self, tags: Sequence[Tag]) -> dict[int, Bools]:
        """Return by class the nodes that these tags exclude, bool[N]."""
        masks: dict[int, Bools] = {}
        for tag in tags:
            for g, mask in self.encoding.barred.get(tag, {}).items():
                masks[g] = masks[g] | mask if g in masks else mask
        return masks

    def _rooms(self, g: int) -> Ints:
        room = np.where(self.open[g], self.cluster.count[g], 0).astype(np.int64)
        for tags, _ in self.core:
            if tags[0].rule == NodeResourcesFit.name:
                where = self.inside(tags)
                for resource in {str(tag.topic) for tag in tags}:
                    demand = int(self.demand(resource)[g])
                    if demand:
                        room[where] = np.minimum(room, self.free(resource) // demand)[where]
        return room

    def open_to(self, classes: Sequence[int]) -> Bools:
        """Return bool[N], the nodes open to some of the classes."""
        return np.asarray(np.logical_or.reduce([self.nowhere, *(self.open[g] for g in classes)]), dtype=bool)

    def free(self, resource: str) -> Ints:
        """Return int64[N], the free amount of a resource or of pod slots (``pods``)."""
        cluster = self.cluster
        return np.maximum(cluster.slots if resource == "pods" else cluster.free[:, cluster.resources.index(resource)], 0)

    def demand(self, resource: str) -> Ints:
        """Return int64[G], the request of one pod of each class."""
        cluster = self.cluster
        return np.ones_like(cluster.count) if resource == "pods" else cluster.demand[:, cluster.resources.index(resource)]

    def inside(self, tags: Sequence[Tag]) -> Bools:
        """Return bool[N], the nodes that a fact concerns."""
        cells = [tag.cell for tag in tags if tag.cell is not None]
        return np.isin(self.encoding.cell_of, cells) if cells else ~self.nowhere

    def domain(self, key: str, code: int) -> str:
        """Return ``key=value``, or ``no key`` for code -1."""
        return f"{key}={self.cluster.nodes.column(key)[1][code]}" if code >= 0 else f"no {key}"

    def pods(self, classes: Sequence[int]) -> list[Pod]:
        cluster = self.cluster
        return [cluster.snapshot.pods[i] for i in sorted(i for g in classes for i in cluster.classes[g].pods)]

    def objects(self, classes: Sequence[int]) -> str:
        """Return the owners of the pods, such as ``Deployment prod/db``."""
        return listed(self._owners.of(pod) for pod in self.pods(classes))

    def whom(self, classes: Sequence[int]) -> str:
        """Return the pods and their owners: ``the 8 pods of train/worker`` or ``default/p``."""
        pods = self.pods(classes)
        if len(pods) == 1:
            return pod_key(pods[0])
        owners = dict.fromkeys(self._owners.of(pod) for pod in pods)
        named = [name(owner) for owner in owners if not owner.startswith("Pod ")]
        bare = [name(owner) for owner in owners if owner.startswith("Pod ")]
        if named and bare:
            named.append(f"{len(bare)} bare pod{'s' * (len(bare) > 1)}")
        return f"the {len(pods)} pods of {listed(named)}" if named else f"the {len(pods)} pods {listed(bare)}"

    def names(self, nodes: Bools) -> str:
        return listed(self.cluster.nodes.names[n] for n in np.flatnonzero(nodes).tolist())

    def of_all(self, nodes: Bools) -> str:
        """Return ``3 of 10 nodes``."""
        total = self.cluster.n_nodes
        return f"{int(np.count_nonzero(nodes))} of {total} node{'s' * (total != 1)}"
