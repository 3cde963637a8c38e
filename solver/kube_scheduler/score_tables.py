"""The points of kube-scheduler for each feasible node of a pod: why it goes there and not elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube.objects import pod_key
from kubestow.models.scheduler.profiles import Profile, profile_of
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.explain.per_node import PodVerdict
from kubestow.solver.kube_scheduler.node_points import NodePoints


@dataclass(frozen=True)
class Scorer:
    """The schedulers of a cluster, and how its pods are read.

    Attributes:
        profiles: Profiles by schedulerName. None: every pod has the default profile.
        policy: The policy; its weights of preferences do not count.
        daemon_namespaces: Namespaces exempt from required anti-affinity.
    """

    profiles: Mapping[str, Profile] | None = None
    policy: Policy = DEFAULT
    daemon_namespaces: tuple[str, ...] = ()

    def scored(self, snapshot: Snapshot, verdicts: Sequence[PodVerdict]) -> list[PodVerdict]:
        """Return the verdicts with the points of the feasible nodes, best first. Nodes with equal points keep their order.

        Pods whose scheduler has no profile have no points.
        """
        index = {pod_key(pod): i for i, pod in enumerate(snapshot.pods)}
        groups: dict[tuple[str, str | None], list[int]] = {}
        for v, verdict in enumerate(verdicts):
            profile = profile_of(snapshot.pods[index[verdict.pod]], self.profiles)
            if profile is not None:  # a bound pod is taken off its node, which changes the points of all others
                groups.setdefault((profile.name, verdict.pod if verdict.runs_on is not None else None), []).append(v)
        found = list(verdicts)
        for (_, bound), members in groups.items():
            pods = [index[verdicts[v].pod] for v in members]
            for v, scores in zip(members, self._scores(snapshot, [verdicts[v] for v in members], pods, bound), strict=True):
                found[v] = replace(verdicts[v], scores=scores)
        return found

    def _scores(
        self, snapshot: Snapshot, verdicts: Sequence[PodVerdict], pods: Sequence[int], bound: str | None
    ) -> list[dict[str, dict[str, int]]]:
        """Return the points of pods of one profile by node and plugin.

        Args:
            pods: Their indices in the snapshot.
            bound: The pod that is taken off its node, if any.
        """
        profile = profile_of(snapshot.pods[pods[0]], self.profiles)
        assert profile is not None
        scope = select(snapshot, include_gated=True, unbind=bound)
        scope.pending = list(pods)
        cluster = compile_cluster(snapshot, scope, daemon_namespaces=self.daemon_namespaces, policy=profile.policy(self.policy))
        points = NodePoints(cluster, profile)
        class_of = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
        place = {name: n for n, name in enumerate(cluster.nodes.names)}
        known: dict[tuple[int, tuple[str, ...]], dict[str, dict[str, int]]] = {}
        found = []
        for verdict, i in zip(verdicts, pods, strict=True):
            key = class_of[i], tuple(verdict.feasible)
            if key not in known:
                chosen = np.array([place[name] for name in verdict.feasible], dtype=np.int64)
                feasible = np.zeros(cluster.n_nodes, dtype=bool)
                feasible[chosen] = True
                by_plugin = points.of(class_of[i], feasible)
                total = sum(by_plugin.values(), np.zeros(cluster.n_nodes, dtype=np.int64))
                best = chosen[np.argsort(-total[chosen], kind="stable")].tolist()
                known[key] = {cluster.nodes.names[n]: {name: int(row[n]) for name, row in by_plugin.items()} for n in best}
            found.append(known[key])
        return found
