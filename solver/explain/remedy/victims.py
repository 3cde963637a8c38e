"""Eviction candidates: running pods of lower priority, and the instance in which they may leave.

In that instance they are pending pods that can only stay on their node, or be unplaced. They repel, hold and
provide the same as fixed pods, but their own filters are not checked again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from kubestow.models.cluster.anti_affinity.pod_terms import term_matches
from kubestow.models.cluster.cluster import Cluster, GangGroup
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.disruption.evictable import exclusions, living_gangs
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import objects, pod_requests
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Pod, Toleration, controller_of, is_terminating, pod_key
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.kube.selectors import canonical, selector_matches
from kubestow.models.snapshot.scope import Scope, is_mirror
from kubestow.solver import rules
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import gang_of
from kubestow.solver.rules.eligibility import possible

#: Maximum number of pods that are moved together.
MAX_MOVED_TOGETHER = 3
#: Maximum number of nodes from which pods are moved next to other remedies.
MAX_NODES_WITH_MOVES = 20
#: Maximum number of pods of one node of which several are moved together.
MAX_MOVABLE = 12


@dataclass
class EvictionProblem:
    """The instance in which candidates may leave.

    Attributes:
        own: Classes of the question.
        victims: Classes of candidates.
        at: By candidate class and node, the candidates (indices into ``snapshot.pods``).
        gangs: Running gangs of candidates, which keep their minimum or leave whole.
    """

    cluster: Cluster
    own: list[int]
    victims: list[int]
    at: dict[int, dict[int, list[int]]]
    gangs: list[VictimGang] = field(default_factory=list)


@dataclass(frozen=True)
class VictimGang:
    """A running gang whose members may leave.

    Attributes:
        name: ``namespace/name``.
        classes: Classes of the candidates.
        least: Number of candidates that must stay so that the rest of the gang keeps running.
        whole: True if all running members are candidates, so that the gang can leave whole.
    """

    name: str
    classes: tuple[int, ...]
    least: int
    whole: bool


def candidates(question: PlacementQuestion) -> list[int]:
    """Return running pods that could be evicted: of lower priority than all pods of the question.

    DaemonSet pods, static pods, terminating pods and members of the question's gang are left out.
    """
    pods = question.snapshot.pods
    priority = min((pods[i].spec.priority or 0 for i in question.pods), default=0)
    gang = gang_of(question)
    kin = set(gang.bound) if gang is not None else set()
    found = []
    for i in question.scope().fixed:
        pod = pods[i]
        owner = controller_of(pod)
        lower = (pod.spec.priority or 0) < priority and i not in kin
        if lower and not is_mirror(pod) and not is_terminating(pod) and (owner is None or owner.kind != "DaemonSet"):
            found.append(i)
    return found


def eviction_problem(question: PlacementQuestion, chosen: Sequence[int]) -> EvictionProblem:
    """Return the instance in which these pods may leave."""
    before = question.snapshot.pods
    pods = list(before)
    for i in chosen:
        pods[i] = _victim(before[i], question.snapshot.gates)
    leaving = set(chosen)
    scope = question.scope()
    cluster = compile_cluster(
        replace(question.snapshot, pods=pods),
        Scope(fixed=[i for i in scope.fixed if i not in leaving], pending=[*question.pods, *chosen]),
        daemon_namespaces=question.exempt,
        policy=question.policy,
    )
    own = [g for g, c in enumerate(cluster.classes) if c.pods[0] not in leaving]
    victims = [g for g, c in enumerate(cluster.classes) if c.pods[0] in leaving]
    for g in victims:
        cluster.classes[g].gang = None
    # A running gang of candidates may lose members.
    gangs = [gang if set(gang.classes) & set(own) else GangGroup(gang.name, (), 0) for gang in cluster.gangs]
    index = {name: n for n, name in enumerate(cluster.nodes.names)}
    at: dict[int, dict[int, list[int]]] = {}
    for g in victims:
        here = at[g] = {}
        for i in cluster.classes[g].pods:
            here.setdefault(index[before[i].spec.nodeName or ""], []).append(i)
    return EvictionProblem(replace(cluster, gangs=gangs), own, victims, at, _victim_gangs(question, cluster, victims, leaving))


def _victim_gangs(question: PlacementQuestion, cluster: Cluster, victims: Sequence[int], leaving: Set[int]) -> list[VictimGang]:
    """Return the running gangs of candidates. A class with pods of several gangs, or of none, belongs to no gang."""
    gangs_of_victims = []
    for gang in running_gangs(question):
        classes = tuple(g for g in victims if gang.pods.issuperset(cluster.classes[g].pods))
        staying = len(gang.pods - leaving)
        if classes and len(gang.pods) >= gang.needed > staying:
            gangs_of_victims.append(VictimGang(gang.name, classes, gang.needed - staying, not staying))
    return gangs_of_victims


@dataclass(frozen=True)
class RunningGang:
    """A gang with the indices of its pods that hold a node, and the number of members that it needs."""

    name: str
    pods: frozenset[int]
    needed: int


def running_gangs(question: PlacementQuestion) -> list[RunningGang]:
    """Return the gangs with at least two running pods that need two or more."""
    fixed, found = set(question.scope().fixed), []
    for gang in living_gangs(question.snapshot, question.policy.networkTiers):
        pods = frozenset(gang.pods) & fixed
        if len(pods) > 1 and gang.needed > 1:
            found.append(RunningGang(gang.name, pods, gang.needed))
    return found


def _victim(pod: Pod, gates: FeatureGates) -> Pod:
    """Return a running pod as a pending one, without its requirements on nodes."""
    anti = pod.spec.affinity.podAntiAffinity if pod.spec.affinity is not None else None
    spec = msgspec.structs.replace(
        pod.spec,
        affinity=objects.Affinity(podAntiAffinity=anti) if anti is not None else None,
        nodeSelector=None,
        topologySpreadConstraints=None,
        tolerations=[Toleration(operator="Exists")],
    )
    if pod_requests.is_resized(pod):  # its usage is in its status
        requests: objects.ResourceList = {k: f"{v}m" if k == "cpu" else v for k, v in pod_requests.pod_request(pod, gates).items()}
        ports = [p for c in (*(spec.containers or ()), *(spec.initContainers or ())) for p in c.ports or ()]
        box = objects.Container("all", objects.ResourceRequirements(requests=requests), ports or None)
        spec = msgspec.structs.replace(spec, containers=[box], initContainers=None, overhead=None, resources=None)
    return msgspec.structs.replace(pod, spec=spec, status=None)


def relevant(question: PlacementQuestion, chosen: Sequence[int]) -> list[int]:
    """Return candidates on nodes that the question could use, and candidates that affect other nodes."""
    relevant_pods: list[int] = []
    problem = eviction_problem(question, chosen)
    active = rules.build(problem.cluster)
    useful = possible(problem.cluster, active)[problem.own].sum(axis=0) > 0
    for g in problem.victims:
        felt = bool(problem.cluster.classes[g].claims) or any(rule.concerned(g) for rule in active if not rule.local)
        relevant_pods += [i for n, pods in problem.at[g].items() if felt or useful[n] for i in pods]
    kin = [gang.pods for gang in running_gangs(question) if not gang.pods.isdisjoint(relevant_pods)]
    return sorted(set(relevant_pods) | (set(chosen) & frozenset().union(*kin)))


# --- moves ------------------------------------------------------------------------------------------------------------------


def moves(question: PlacementQuestion, *, only_room: bool = False) -> Iterator[Remedy]:
    """Yield moves of pods that may make room, the fewest first, then the lowest priority. The caller tries them.

    Only pods that no other pod requires or avoids are moved, so that no running pod is worse off. Several pods are moved from
    one node, if they free enough there for a pod of the question and fewer of them do not. Other plans are left to ``kubestow
    rebalance --goal admit``.

    Args:
        only_room: True for moves of pods that free enough, from the nodes that lack least. Other moves may help in another way.
    """
    pods, cluster = question.snapshot.pods, question.cluster()
    among = _lacking_least(cluster) if only_room else set(cluster.nodes.names)
    stay = exclusions(question.snapshot, tiers=question.policy.networkTiers)
    chosen = [i for i in question.scope().fixed if pods[i].spec.nodeName in among and i not in stay and not _has_rules(pods[i])]
    if not chosen or question.needed < len(question.pods):
        return
    problem = eviction_problem(question, chosen)
    active = rules.build(problem.cluster)
    useful = possible(problem.cluster, active)[problem.own].sum(axis=0) > 0
    listed: dict[int, tuple[int, int]] = {}  # pod -> its class and node
    for g in problem.victims:
        if not problem.cluster.classes[g].claims and not any(rule.concerned(g) for rule in active if not rule.local):
            listed |= {i: (g, n) for n, here in problem.at[g].items() if useful[n] for i in here}
    chosen = sorted(listed, key=_lightest(question, problem, listed))
    makes_room = _RoomTest(cluster, problem.cluster, listed)
    groups = itertools.chain(
        sorted(((i,) for i in chosen if not only_room or makes_room((i,))), key=lambda group: not makes_room(group)),
        (group for size in range(2, MAX_MOVED_TOGETHER + 1) for group in _together(chosen, listed, size, makes_room)),
    )
    yield from (_move(question, group) for group in groups if not any(_is_counted(question, pods[i]) for i in group))


def _lacking_least(cluster: Cluster) -> set[str]:
    """Return the nodes that lack the least for a pod of the question."""
    lacking = [
        (np.maximum(demand - cluster.free[n], 0).tolist(), n)
        for demand in cluster.demand
        for n in np.flatnonzero((cluster.allocatable >= demand).all(axis=1)).tolist()
    ]
    return {cluster.nodes.names[n] for _, n in sorted(lacking)[:MAX_NODES_WITH_MOVES]}


def _together(
    chosen: Sequence[int], of: Mapping[int, tuple[int, int]], size: int, makes_room: Callable[[Sequence[int]], bool]
) -> Iterator[tuple[int, ...]]:
    """Yield this number of pods of one node that together make room, while fewer of them do not."""
    for n in dict.fromkeys(of[i][1] for i in chosen):
        for group in itertools.combinations([i for i in chosen if of[i][1] == n][:MAX_MOVABLE], size):
            if makes_room(group) and not any(makes_room(fewer) for fewer in itertools.combinations(group, size - 1)):
                yield group


def _lightest(
    question: PlacementQuestion, problem: EvictionProblem, listed: Mapping[int, tuple[int, int]]
) -> Callable[[int], tuple[int, list[int], int]]:
    """Return the key by which pods to move are sorted: the lowest priority, then the smallest requests."""
    pods, demand = question.snapshot.pods, problem.cluster.demand
    return lambda i: (pods[i].spec.priority or 0, demand[listed[i][0]].tolist(), i)


@dataclass(frozen=True)
class _RoomTest:
    """A test whether pods that leave one node free enough there for a pod of the question.

    Attributes:
        cluster: The instance of the question.
        running: The instance in which the running pods have classes.
        of: The class in ``running`` and the node of each pod.
    """

    cluster: Cluster
    running: Cluster
    of: Mapping[int, tuple[int, int]]

    def __call__(self, pods: Sequence[int]) -> bool:
        n = self.of[pods[0]][1]
        columns = [self.running.resources.index(name) if name in self.running.resources else -1 for name in self.cluster.resources]
        freed = [sum(int(self.running.demand[self.of[i][0], r]) for i in pods) if r >= 0 else 0 for r in columns]
        return any((self.cluster.free[n] + freed >= demand).all() for demand in self.cluster.demand)


def _move(question: PlacementQuestion, group: Sequence[int]) -> Remedy:
    """Return the remedy that moves pods of one node, without their new nodes."""
    pods = [question.snapshot.pods[i] for i in group]
    keys, node = [pod_key(pod) for pod in pods], pods[0].spec.nodeName or ""
    return Remedy("move", f"move {' and '.join(keys)} from {node}", {"pod": ",".join(keys), "node": node})


def _is_counted(question: PlacementQuestion, pod: Pod) -> bool:
    """Return True if required affinity or a DoNotSchedule constraint of another running pod counts the pod."""
    snapshot = question.snapshot
    labels, namespace = pod.metadata.labels or {}, pod.metadata.namespace or "default"
    for i in question.scope().fixed:
        other = snapshot.pods[i]
        if other is pod:
            continue
        if any(term_matches(snapshot, other, term, pod) for term in required_terms(other, "podAffinity")):
            return True
        if (other.metadata.namespace or "default") == namespace and any(
            constraint.whenUnsatisfiable == "DoNotSchedule"
            and (selector := canonical(constraint.labelSelector)) is not None
            and selector_matches(selector, labels)
            for constraint in other.spec.topologySpreadConstraints or ()
        ):
            return True
    return False


def _has_rules(pod: Pod) -> bool:
    """Return True if the pod has affinity to pods or a DoNotSchedule constraint."""
    affinity = pod.spec.affinity
    near = affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None)
    return near or any(c.whenUnsatisfiable == "DoNotSchedule" for c in pod.spec.topologySpreadConstraints or ())
