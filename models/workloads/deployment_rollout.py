"""The progress of a Deployment's rollout: the pods that its controllers create and delete next.

Sources: pkg/controller/deployment/{rolling,recreate}.go, pkg/controller/deployment/util (ResolveFenceposts,
NewRSNewReplicas) and pkg/controller/controller_utils.go (ActivePodsWithRanks). Snapshots lack minReadySeconds,
progress deadlines, restart counts and the time since which a pod is ready, so these are left out. A pod's age
replaces the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.workload_objects import Deployment, DeploymentStrategy, ReplicaSet, RollingUpdate, WorkloadSpec
from kubestow.models.snapshot.snapshot import InputError, Snapshot

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
#: The API server's default for maxSurge and maxUnavailable.
DEFAULT: Final = "25%"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
#: Seconds since 1970, later than any creation time: the value of an unknown time.
_LATEST_SECONDS: Final = 10**12


@dataclass(frozen=True, slots=True)
class Pace:
    """The strategy of a rollout, in pods.

    Attributes:
        replicas: Pods wanted.
        surge: Pods allowed above ``replicas``.
        unavailable: Pods allowed to be unavailable.
        recreate: Delete all old pods before creating the first new one.
    """

    replicas: int
    surge: int
    unavailable: int
    recreate: bool = False

    @property
    def most(self) -> int:
        """Largest allowed number of pods of all revisions."""
        return self.replicas + self.surge

    @property
    def least(self) -> int:
        """Smallest allowed number of available pods."""
        return max(0, self.replicas - self.unavailable)


def scaled(value: int | str, replicas: int, *, up: bool) -> int:
    """Return a number of pods, or a percentage of ``replicas`` rounded ``up`` or down
    (GetScaledValueFromIntOrPercent).

    Raises:
        ValueError: Neither a whole number nor a percentage.
    """
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"got {value!r}, expected a whole number or a percentage such as 50%")
    product = int(value.removesuffix("%")) * replicas
    return -(-product // 100) if up else product // 100


def pace(deployment: Deployment, replicas: int | None = None) -> Pace:
    """Return the strategy of a Deployment in pods (ResolveFenceposts).

    The default is 25 % for both maxSurge, rounded up, and maxUnavailable, rounded down. If both are 0, maxUnavailable is 1.

    Args:
        replicas: Number of replicas; None: that of the Deployment.

    Raises:
        InputError: A strategy, maxSurge or maxUnavailable cannot be read.
    """
    spec = deployment.spec or WorkloadSpec()
    if replicas is None:
        replicas = 1 if spec.replicas is None else spec.replicas
    strategy = spec.strategy or DeploymentStrategy()
    where = f"Deployment {deployment.metadata.namespace or 'default'}/{deployment.metadata.name}: spec.strategy"
    if strategy.type == "Recreate":
        return Pace(replicas, 0, replicas, recreate=True)
    if strategy.type not in (None, "", "RollingUpdate"):
        raise InputError([f"{where}.type: got {shorten(strategy.type)}, expected RollingUpdate or Recreate"])
    rolling = strategy.rollingUpdate or RollingUpdate()
    found = []
    for field, up in (("maxSurge", True), ("maxUnavailable", False)):
        value = getattr(rolling, field)
        try:
            found.append(scaled(DEFAULT if value is None else value, replicas, up=up))
        except ValueError as error:
            raise InputError([f"{where}.rollingUpdate.{field}: {error}"]) from error
    surge, unavailable = found
    return Pace(replicas, surge, unavailable if surge or unavailable else 1)


@dataclass(frozen=True, slots=True)
class Old:
    """A pod of an old revision.

    Attributes:
        index: Index into ``snapshot.pods``.
        node: Its node; None if it has none.
        family: Rank of its ReplicaSet by age, 0 for the oldest.
        before: Deletion rank within the family, lower first, above the number of pods on the node.
        after: Deletion rank within the family, lower first, below the number of pods on the node.
    """

    index: int
    key: str
    node: str | None
    available: bool
    family: int
    before: tuple[int, ...]
    after: tuple[int, str]


def _seconds(timestamp: str | None) -> int | None:
    try:
        return None if timestamp is None else int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return None


def is_ready(pod: objects.Pod) -> bool:
    """Return True if a pod serves: by its Ready condition or, without one, if it runs."""
    status = pod.status or objects.PodStatus()
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return status.phase in (None, "Running")


def _cost(pod: objects.Pod) -> int:
    try:
        return int((pod.metadata.annotations or {}).get(DELETION_COST, "0"))
    except ValueError:  # the API server rejects it; the controller assumes 0
        return 0


def old_pods(snapshot: Snapshot, indices: Sequence[int]) -> tuple[list[Old], list[int]]:
    """Return the pods of old revisions as their controllers see them, and the pods being deleted, which they leave
    out.

    Args:
        indices: The pods, as indices into ``snapshot.pods``.
    """
    active = [i for i in indices if not objects.is_terminating(snapshot.pods[i])]
    going = [i for i in indices if objects.is_terminating(snapshot.pods[i])]
    families: dict[tuple[str, str], int] = {}
    sets: list[ReplicaSet] = snapshot.workloads.get("ReplicaSet", [])
    ages = {(r.metadata.namespace or "default", r.metadata.name or ""): r.metadata.creationTimestamp for r in sets}
    for i in active:
        pod = snapshot.pods[i]
        family = _family(pod)
        born = _seconds(ages.get(family) or pod.metadata.creationTimestamp)
        families[family] = min(families.get(family, _LATEST_SECONDS), _LATEST_SECONDS if born is None else born)
    by_age = {family: place for place, (_, family) in enumerate(sorted((born, family) for family, born in families.items()))}
    found = []
    for i in active:
        pod = snapshot.pods[i]
        assigned, ready = bool(pod.spec.nodeName), is_ready(pod)
        phase = _PHASES.get((pod.status.phase if pod.status else None) or "Running", 2)
        born = _seconds(pod.metadata.creationTimestamp)
        found.append(
            Old(
                i, objects.pod_key(pod), pod.spec.nodeName or None, assigned and ready, by_age[_family(pod)],
                (int(assigned), phase, int(ready), _cost(pod)), (-_LATEST_SECONDS if born is None else -born, objects.pod_key(pod)),
            )
        )  # fmt: skip
    return found, going


def _family(pod: objects.Pod) -> tuple[str, str]:
    owner = objects.controller_of(pod)
    return pod.metadata.namespace or "default", owner.name if owner is not None else ""


def creations(pace: Pace, old: int, created: int) -> int:
    """Return the number of new pods to create next (NewRSNewReplicas).

    Args:
        old: Existing pods of old revisions.
        created: Existing new pods.
    """
    if pace.recreate:
        return 0 if old else pace.replicas - created
    return max(0, min(pace.replicas - created, pace.most - old - created))


def deletions(pace: Pace, old: Sequence[Old], together: Callable[[str], int], available: int) -> list[Old]:
    """Return the old pods to delete next. With the strategy Recreate, these are all old pods.

    Unavailable pods go first. Then others go while ``pace.least`` pods stay available. Both start with the
    oldest ReplicaSet. Within one, the ReplicaSet controller prefers pods without a node, then not running, not
    ready, with a lower deletion cost, with more of the Deployment's pods on their node, then younger ones.
    Upstream leaves other ties open; here the name decides.

    Args:
        together: Returns the number of the Deployment's pods, of any revision, on a node.
        available: Number of available new pods.
    """
    if pace.recreate:
        return list(old)
    spare = len(old) + available - pace.least  # = all pods - least - new pods that are not available
    if spare <= 0:
        return []
    families: dict[int, list[Old]] = {}
    for entry in old:
        families.setdefault(entry.family, []).append(entry)
    take = dict.fromkeys(sorted(families), 0)
    for family in take:
        take[family] = min(spare, sum(not entry.available for entry in families[family]))
        spare -= take[family]
    excess = sum(entry.available for entry in old) + available - pace.least
    for family in take:
        more = max(0, min(excess, len(families[family]) - take[family]))
        take[family] += more
        excess -= more
    found = []
    for family, number in take.items():
        ranked = sorted(families[family], key=lambda e: (e.before, -together(e.node) if e.node else 0, e.after))
        found += ranked[:number]
    return found


def ranked_alike(old: Sequence[Old]) -> bool:
    """Return True if the deletion order of old pods is open.

    Some pods on different nodes then differ only in age. The controller compares the times since which pods are
    ready on a coarse scale (LogarithmicScaleDown), and chooses at random among about equal ones.
    """
    first: dict[tuple[int, tuple[int, ...]], str | None] = {}
    return any(first.setdefault((entry.family, entry.before), entry.node) != entry.node for entry in old)
