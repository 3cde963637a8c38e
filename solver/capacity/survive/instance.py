"""A snapshot compiled once for all failures, from which the cluster after each failure is derived.

Every pod that could have to return is in it twice: as a fixed pod where it runs, and as a pending pod of its
class. A failure removes the fixed pods of its nodes, closes these nodes, and keeps those pending pods that
ran there.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import Cluster, FixedTerm, Ints, PlacedPods, PodClass
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.gangs import markers
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.kube.pod_spec import SELECTED_NODE, claim_keys
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.decide import compiled, hard
from kubestow.solver.capacity.survive.failures import after, is_bare
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.runtime.options import Options

_NONE: Final[tuple[int, ...]] = ()


class _Remaining(PlacedPods):
    """The fixed pods on nodes that have not failed."""

    def __init__(self, all_: PlacedPods, gone: Ints) -> None:
        self._all, self._gone = all_, gone

    def per_node(self, hits: Bools) -> Ints:
        total = self._all.per_node(hits)
        total[self._gone] = 0
        return total


class FailureInstance:
    """The compiled snapshot for all failures.

    Attributes:
        cluster: All classes of pods that could have to return (``scope.pending``), against all running pods.
        returning: By node, the classes of the pods that run there, one entry per pod.
        pods: All pods that could have to return, as pending pods.
        special: Indices of those with devices or in a gang.
        bare: Keys of pods that no controller recreates.
    """

    def __init__(self, snapshot: Snapshot, request: SurviveOptions, options: Options, extra: Sequence[Pod] = ()) -> None:
        """Compile a snapshot.

        Args:
            extra: Pods without volumes and devices that are pending after every failure.
        """
        self.snapshot, self.request, self.options, self._extra = snapshot, request, options, extra
        names = [node.metadata.name or "" for node in snapshot.nodes]
        self._index = {name: n for n, name in enumerate(names)}
        self._add_twins(names)
        self.cluster = compile_cluster(self._both, self._scope, daemon_namespaces=options.exempt, policy=hard(options.policy))
        self.bare = [pod_key(pod) for pod in self._both.pods[: len(self._scope.fixed)] if is_bare(pod)]
        cluster = self.cluster
        of = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
        odd = self._gang_twins() | {i for cls in cluster.classes if cls.gang is not None or cls.devices is not None for i in cls.pods}
        self.special = {i for i in self._twin if i in odd or i not in of}
        self._here: list[list[tuple[int, int]]] = [[] for _ in names]  # by node, (class, pod)
        self._uncommon: set[int] = set()  # nodes whose failure cannot be derived
        for i, n in self._twin.items():
            if i in self.special:
                self._uncommon.add(n)
            else:
                self._here[n].append((of[i], i))
        self._always: dict[int, list[int]] = {}  # by class, the extra pods
        for i in range(len(self._both.pods) - len(self._extra), len(self._both.pods)):
            self._always.setdefault(of[i], []).append(i)
        self.returning = [[g for g, _ in here] for here in self._here]
        self._anti = [(cluster.matches(fixed.term.matcher), fixed) for fixed in cluster.fixed_anti]
        self._choosing = self._twins_by_selected_node()

    def _add_twins(self, names: Sequence[str]) -> None:
        """Add a pending twin for each running pod that could have to return, and record its node."""
        snapshot = self.snapshot
        running = select(snapshot).fixed
        aftermath = after(snapshot, set(names), self.request)
        at = {pod_key(snapshot.pods[i]): self._index[snapshot.pods[i].spec.nodeName or ""] for i in running}
        self._both = snapshot.copy()
        self._both.to_create = []
        self._both.pods = [snapshot.pods[i] for i in running]
        self._twin: dict[int, int] = {}
        self.pods = [aftermath.snapshot.pods[b] for b in aftermath.back]
        for b in aftermath.back:
            pod = aftermath.snapshot.pods[b]
            self._twin[len(self._both.pods)] = at[pod_key(pod)]
            self._both.pods.append(pod)
        waiting = [i for i in self._twin if not self._both.pods[i].spec.resourceClaims]
        waiting += range(len(self._both.pods), len(self._both.pods) + len(self._extra))
        self._both.pods += self._extra
        self._scope = Scope(fixed=list(range(len(running))), pending=waiting)

    def _gang_twins(self) -> set[int]:
        """Return the twins that belong to gangs."""
        gangs = markers.members(self._both.pods, self._twin)
        return {i for members in gangs.values() for i in members}

    def _twins_by_selected_node(self) -> dict[str, list[int]]:
        """Return by node the twins whose volume a provisioner was asked to create there. The failure of the node cancels that."""
        twins: dict[str, list[int]] = {}
        claims = self.snapshot.persistent_volume_claims
        for i in self._scope.pending:
            pod: Pod = self._both.pods[i]
            for key in claim_keys(pod) if pod.spec.volumes else ():
                claim = claims.get(key)
                node = (claim.metadata.annotations or {}).get(SELECTED_NODE) if claim is not None else None
                if node is not None:
                    twins.setdefault(node, []).append(i)
        return twins

    # --- one failure ------------------------------------------------------------------------------------------------------------

    def nodes(self, names: Sequence[str]) -> Ints:
        """Return the indices of nodes."""
        return np.array([self._index[name] for name in names], dtype=np.int64)

    def derivable(self, gone: Sequence[int]) -> bool:
        """Return True if the cluster after the failure of some nodes can be derived, because no pod there has devices or a gang."""
        if not self._uncommon.isdisjoint(gone):
            return False
        if not self._choosing:
            return True
        names = self.cluster.nodes.names
        back = {i for n in gone for _, i in self._here[n]}
        return not any(back.intersection(self._choosing.get(names[n], _NONE)) for n in gone)

    def surviving(self, names: Sequence[str], only: Container[int] | None = None) -> Cluster:
        """Return the instance after the failure of some nodes.

        Args:
            only: Classes whose pods return from the failed nodes; None for all. Ignored if this failure cannot be derived from
                the compiled instance.
        """
        gone = self.nodes(names)
        if not self.derivable(gone.tolist()):
            return compiled(self.snapshot, names, self.request, self.options)
        base = self.cluster
        back = {g: list(pods) for g, pods in self._always.items()}
        for n in gone.tolist():
            for g, i in self._here[n]:
                if only is None or g in only:
                    back.setdefault(g, []).append(i)
        classes = sorted(back)
        pods: list[PodClass] = [replace(base.classes[g], pods=sorted(back[g])) for g in classes]
        chosen = np.array(classes, dtype=np.int64)
        out = np.zeros(base.n_nodes, dtype=bool)
        out[gone] = True
        free, slots = base.free.copy(), base.slots.copy()
        free[gone], slots[gone] = np.minimum(free[gone], 0), np.minimum(slots[gone], 0)
        anti = [
            FixedTerm(fixed.term, stay)
            for matches, fixed in self._anti
            if matches[chosen].any() and len(stay := fixed.nodes[~out[fixed.nodes]])
        ]
        return replace(
            base,
            scope=Scope(fixed=base.scope.fixed, pending=sorted(i for listed in back.values() for i in listed)),
            free=free,
            slots=slots,
            classes=pods,
            demand=base.demand[chosen],
            supposed=base.supposed[chosen],
            count=np.array([cls.count for cls in pods], dtype=np.int64),
            priority=base.priority[chosen],
            profile=base.profile[chosen],
            node_sets=[mask & ~out for mask in base.node_sets],
            fixed_anti=anti,
            fixed_ports={port: nodes[~out[nodes]] for port, nodes in base.fixed_ports.items()},
            fixed_claims={key: users for key, nodes in base.fixed_claims.items() if (users := {n for n in nodes if not out[n]})},
            declared=[],
            gangs=[],
            devices=None,
            _placed=_Remaining(base._placed, gone),
            _settled=_Remaining(base._settled, gone),
            _by_profile=None,
        )
