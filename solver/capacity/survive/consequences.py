"""The consequences of a failure other than pending pods: violated disruption budgets, lost majorities, and pods
that nothing recreates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import comb
from typing import Final, Literal

from kubestow.models.disruption.pod_disruption_budgets import budgets, is_healthy
from kubestow.models.documents.survival import Consequence, Exposure
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import Pod, controller_of, is_terminal, is_terminating, pod_key
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import named, pods_of_sets
from kubestow.solver.capacity.survive.failures import is_bare

#: Minimum number of members for which a majority can survive the loss of one.
_MIN_QUORUM_MEMBERS: Final = 3
#: Name of etcd in labels and in names of its static pods.
_ETCD: Final = "etcd"


@dataclass(frozen=True)
class _RunningMinimum:
    """Pods with a minimum number that must run.

    Attributes:
        pods: Indices of the pods that count.
        have: Current number, which differs from the number of ``pods`` if a status says so.
        needed: Minimum number.
        members: Number of members of a quorum; 0 for a budget.
    """

    kind: Literal["PodDisruptionBudget", "quorum"]
    object: str
    pods: tuple[int, ...]
    have: int
    needed: int
    members: int = 0

    def broken(self, lost: int) -> bool:
        """Return True if losing this number of pods breaks a requirement that holds now."""
        return self.have - lost < self.needed <= self.have

    def sentence(self, lost: int) -> str:
        """Return the sentence on the loss of this number of pods."""
        remaining = max(0, self.have - lost)
        verb = "is" if remaining == 1 else "are"
        if self.kind == "quorum":
            return f"{remaining} of {self.members} members {verb} left; a majority needs {self.needed}"
        return f"{remaining} healthy pod{'' if remaining == 1 else 's'} of {self.needed} required {verb} left"


class Stakes:
    """The requirements of a snapshot that failures of nodes can break.

    A quorum is assumed for each StatefulSet of three pods or more, whether or not its software needs one, and
    for etcd's static pods.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._pods = snapshot.pods
        self._groups = [*_budgets(snapshot), *_quorums(snapshot)]
        self._of_node: dict[str, dict[int, int]] = {}
        for k, group in enumerate(self._groups):
            for i in group.pods:
                counts = self._of_node.setdefault(snapshot.pods[i].spec.nodeName or "", {})
                counts[k] = counts.get(k, 0) + 1
        self._lost: dict[str, list[str]] = {}
        for pod in snapshot.pods:
            if pod.spec.nodeName and is_bare(pod):
                self._lost.setdefault(pod.spec.nodeName or "", []).append(pod_key(pod))

    def of(self, nodes: Iterable[str], pending: Collection[str] = ()) -> list[Consequence]:
        """Return the consequences of the failure of these nodes.

        Args:
            pending: Pods (namespace/name) that stay pending after it.
        """
        lost: Counter[int] = Counter()
        gone: list[str] = []
        for node in nodes:
            lost.update(self._of_node.get(node, {}))
            gone += self._lost.get(node, ())
        waiting, consequences = frozenset(pending), []
        for k, group in enumerate(self._groups):
            if group.broken(lost[k]):
                stay = sum(pod_key(self._pods[i]) in waiting for i in group.pods) if waiting else 0
                suffix = f"; {stay} of its pods stay{'s' if stay == 1 else ''} pending" if stay else ""
                consequences.append(Consequence(group.kind, group.object, group.sentence(lost[k]) + suffix))
        return consequences + ([Consequence("lost", _pods(gone), _gone(gone))] if gone else [])

    def over_all(self, domains: Mapping[str, Iterable[str]], at_once: int) -> list[Exposure]:
        """Return each consequence that some failure of ``at_once`` domains has, with the number of such failures.

        The most frequent consequence comes first, and bare pods come last.

        Args:
            domains: The names of each domain's nodes.
        """
        lost: dict[int, Counter[str]] = {}
        gone: dict[str, list[str]] = {}
        for name, nodes in domains.items():
            for node in nodes:
                for k, count in self._of_node.get(node, {}).items():
                    lost.setdefault(k, Counter())[name] += count
                if node in self._lost:
                    gone.setdefault(name, []).extend(self._lost[node])
        exposures = []
        for k, counts in sorted(lost.items()):
            group = self._groups[k]
            worst = _worst(counts, at_once)
            largest_loss = sum(counts[name] for name in worst)
            if group.broken(largest_loss):
                failures = subsets(counts.values(), len(domains), at_once, group.have - group.needed + 1)
                exposures.append(Exposure(group.kind, group.object, failures, worst, group.sentence(largest_loss)))
        exposures.sort(key=lambda exposure: -exposure.failures)
        if gone:
            worst = _worst(Counter({name: len(pods) for name, pods in gone.items()}), at_once)
            failures = comb(len(domains), at_once) - comb(len(domains) - len(gone), at_once)
            everyone = [pod for pods in gone.values() for pod in pods]
            exposures.append(Exposure("lost", _pods(everyone), failures, worst, _gone([pod for name in worst for pod in gone[name]])))
        return exposures


def subsets(counts: Iterable[int], domains: int, at_once: int, threshold: int) -> int:
    """Return the number of sets of ``at_once`` out of ``domains`` domains whose counts sum to ``threshold`` or more.

    Domains without an entry in ``counts`` have count 0.
    """
    kinds = Counter(counts)
    kinds[0] += domains - kinds.total()
    ways = {(0, 0): 1}  # (domains taken, sum capped at the threshold) -> number of sets
    for count, number in kinds.items():
        more: dict[tuple[int, int], int] = {}
        for (chosen, total), sets in ways.items():
            for k in range(min(number, at_once - chosen) + 1):
                key = chosen + k, min(threshold, total + k * count)
                more[key] = more.get(key, 0) + sets * comb(number, k)
        ways = more
    return ways.get((at_once, threshold), 0)


def _worst(counts: Counter[str], at_once: int) -> list[str]:
    return sorted(sorted(counts), key=lambda name: -counts[name])[:at_once]


def _budgets(snapshot: Snapshot) -> Iterator[_RunningMinimum]:
    for budget in budgets(snapshot):
        pods = tuple(i for i in budget.pods if is_healthy(snapshot.pods[i]))
        if pods and budget.desired > 0:
            yield _RunningMinimum("PodDisruptionBudget", f"PodDisruptionBudget {budget.name}", pods, budget.healthy, budget.desired)


def _quorums(snapshot: Snapshot) -> Iterator[_RunningMinimum]:
    stateful: dict[tuple[str, str], list[int]] = {}
    etcd: dict[str, list[int]] = {}
    of_sets = pods_of_sets(snapshot)  # such as the leaders of a LeaderWorkerSet, which do not vote
    for i, pod in enumerate(snapshot.pods):
        if not pod.spec.nodeName or is_terminal(pod) or is_terminating(pod) or i in of_sets:
            continue
        owner, namespace = controller_of(pod), pod.metadata.namespace or "default"
        if owner is not None and owner.kind == "StatefulSet":
            stateful.setdefault((namespace, owner.name), []).append(i)
        elif is_mirror(pod) and (name := _etcd(pod)) is not None:
            etcd.setdefault(f"{namespace}/{name}", []).append(i)
    for name, pods in etcd.items():
        yield _RunningMinimum("quorum", f"etcd {name}", tuple(pods), len(pods), len(pods) // 2 + 1, len(pods))
    for (namespace, name), pods in stateful.items():
        stateful_set = named(snapshot, "StatefulSet", namespace, name)
        members = len(pods) if stateful_set is None or stateful_set.spec is None else max(len(pods), stateful_set.spec.replicas)
        if members >= _MIN_QUORUM_MEMBERS:
            yield _RunningMinimum("quorum", f"StatefulSet {namespace}/{name}", tuple(pods), len(pods), members // 2 + 1, members)


def _etcd(pod: Pod) -> str | None:
    """Return the name of the etcd cluster of a static pod.

    It comes from the label of kubeadm, kops, Talos or OpenShift, or from the pod's name without the node's
    name.
    """
    labels = pod.metadata.labels or {}
    own = (pod.metadata.name or "").removesuffix(f"-{pod.spec.nodeName}")
    for name in (labels.get("component"), labels.get("k8s-app"), labels.get("app"), own):
        if name is not None and (name == _ETCD or name.startswith(("etcd-manager-", "etcd-events"))):
            return name
    return None


def _pods(pods: Iterable[str]) -> str:
    return f"Pod {','.join(pods)}"


def _gone(pods: list[str]) -> str:
    what = "pod that no controller recreates is" if len(pods) == 1 else "pods that no controller recreates are"
    return f"{len(pods)} {what} gone: {some(pods)}"
