"""The state of a cluster while kube-scheduler places one pod after the other: filters, points and pods on nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import Pod, is_terminating
from kubestow.models.kube.selectors import Bools
from kubestow.models.scheduler.profiles import FILTERS, Profile
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.kube_scheduler.node_points import NodePoints
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.facts import Refusal
from kubestow.solver.runtime.options import Options


def priority_of(pod: Pod) -> int:
    """Return the priority of a pod."""
    return pod.spec.priority or 0


class ClusterState:
    """The pods of a snapshot on its nodes, under all rules, with the points of one profile.

    Args:
        scope: The pods by their part.
        profile: The profile whose points count.

    Attributes:
        on_node: Pods that may be taken off each node again, by node: running pods of low priority, and pods placed here.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope, profile: Profile, options: Options) -> None:
        self.snapshot, self.profile = snapshot, profile
        highest = max((priority_of(snapshot.pods[i]) for i in scope.pending), default=0)
        low = [i for i in scope.fixed if priority_of(snapshot.pods[i]) < highest and not is_terminating(snapshot.pods[i])]
        among = frozenset(low)
        inside = Scope([i for i in scope.fixed if i not in among], [*scope.pending, *low], scope.gated, scope.invisible)
        self.cluster = compile_cluster(
            snapshot,
            inside,
            daemon_namespaces=options.exempt,
            policy=profile.policy(options.policy),
            running=dict.fromkeys(low, 0),
            hard_spread=profile.hard_spread,
        )
        self.rules = _in_order(rules.build(self.cluster))
        self.points = NodePoints(self.cluster, profile)
        self.class_of = {i: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}
        self.on_node: list[list[int]] = [[] for _ in range(self.cluster.n_nodes)]
        place = {name: n for n, name in enumerate(self.cluster.nodes.names)}
        for i in low:
            self.put(i, place[snapshot.pods[i].spec.nodeName or ""])

    def put(self, i: int, n: int) -> None:
        """Add pod i on node n."""
        g = self.class_of[i]
        for rule in self.rules:
            rule.place(g, n)
        self.points.place(g, n)
        self.on_node[n].append(i)

    def take(self, i: int, n: int) -> None:
        """Remove pod i from node n."""
        g = self.class_of[i]
        for rule in self.rules:
            rule.remove(g, n)
        self.points.place(g, n, -1)
        self.on_node[n].remove(i)

    def feasible(self, i: int) -> Bools:
        """Return bool[N], the nodes that every filter accepts for pod i."""
        rejected = np.zeros(self.cluster.n_nodes, dtype=bool)
        for rule in self.rules:
            rejected |= rule.rejects(self.class_of[i])
        return ~rejected

    def accepts(self, i: int, n: int) -> bool:
        """Return True if every filter accepts pod i on node n."""
        return not any(rule.rejects(self.class_of[i])[n] for rule in self.rules)

    def refusals(self, i: int) -> list[Refusal]:
        """Return the reasons of the first filter that rejects pod i on each node, as the scheduler asks no further."""
        remaining, found = np.ones(self.cluster.n_nodes, dtype=bool), list[Refusal]()
        for rule in self.rules:
            given = rule.refusals(self.class_of[i])
            here = [Refusal(each.text, each.nodes & remaining, each.is_lasting & remaining) for each in given]
            found += [each for each in here if each.nodes.any()]
            for each in given:
                remaining = remaining & ~each.nodes
        return found


def _in_order(active: Sequence[Rule]) -> list[Rule]:
    """Return the rules in the order in which kube-scheduler asks its filters; rules that it does not have come first."""
    rank = {name: number for number, name in enumerate(FILTERS)}
    return sorted(active, key=lambda rule: rank.get(rule.name, -1))


def message(refusals: Collection[Refusal], n_nodes: int, ending: str = "") -> str:
    """Return kube-scheduler's message on a pod that fits no node (framework/types.go, FitError).

    Args:
        ending: The message of preemption.
    """
    if not n_nodes:
        return "no nodes available to schedule pods"
    counts: dict[str, int] = {}
    for refusal in refusals:
        counts[refusal.text] = counts.get(refusal.text, 0) + int(refusal.nodes.sum())
    reasons = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    parts = [f"0/{n_nodes} nodes are available:", f"{reasons}." if reasons else "", ending]
    return " ".join(part for part in parts if part)
