"""The nodes that remain under the facts of a cause, for the numbers in its sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.explain.conflict.fact_model import FactEncoding, Tag
from kubestow.solver.rules.wording import listed

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
            where = self.inside(tags)
            for topic in {tag.topic for tag in tags}:
                there = self.encoding.rules[tags[0].rule].fact_room(topic, g)
                if there is not None:
                    room[where] = np.minimum(room, there)[where]
        return room

    def open_to(self, classes: Sequence[int]) -> Bools:
        """Return bool[N], the nodes open to some of the classes."""
        return np.asarray(np.logical_or.reduce([self.nowhere, *(self.open[g] for g in classes)]), dtype=bool)

    def inside(self, tags: Sequence[Tag]) -> Bools:
        """Return bool[N], the nodes that a fact concerns."""
        cells = [tag.cell for tag in tags if tag.cell is not None]
        return np.isin(self.encoding.cell_of, cells) if cells else ~self.nowhere

    def shared_keys(self) -> set[str]:
        """Return the topology keys of which all pods of some fact must be in one domain."""
        keys = (self.encoding.rules[tag.rule].fact_keys(tag.topic) for tags, _ in self.core for tag in tags)
        return {key for by_key in keys for key, shared in by_key.items() if shared}

    def blockers(self, classes: Sequence[int], nodes: Bools) -> list[str]:
        """Return the rules of the cause that keep pods of some classes off some nodes, sorted."""
        names = {rule for rule, bars in self.bars.items() if any(g in bars and (bars[g] & nodes).any() for g in classes)}
        for tag, *others in (tags for tags, _ in self.core):
            if self.encoding.rules[tag.rule].fact_room(tag.topic, 0) is not None and (self.inside([tag, *others]) & nodes).any():
                names.add(tag.rule)
        return sorted(names)

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
