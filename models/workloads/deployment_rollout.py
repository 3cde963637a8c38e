"""How a Deployment's rollout goes on: how many pods come and which go, as its controllers decide it.

Sources: pkg/controller/deployment/{rolling,recreate}.go, pkg/controller/deployment/util (ResolveFenceposts, NewRSNewReplicas) and
pkg/controller/controller_utils.go (ActivePodsWithRanks). Left out, since snapshots do not hold it: minReadySeconds, progress deadlines,
restart counts, and since when a pod has been ready (its age stands in for it).
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
#: What the API server fills in for maxSurge and maxUnavailable.
DEFAULT: Final = "25%"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_NO_TIME: Final = 10**12


@dataclass(frozen=True, slots=True)
class Pace:
    """``replicas``: pods wanted; ``surge``: pods above them, ``unavailable``: pods missing that the strategy admits, all in pods.
    ``recreate``: all old pods go before the first new one comes."""

    replicas: int
    surge: int
    unavailable: int
    recreate: bool = False

    @property
    def most(self) -> int:
        """Pods of all revisions that there may be."""
        return self.replicas + self.surge

    @property
    def least(self) -> int:
        """Available pods that there have to be."""
        return max(0, self.replicas - self.unavailable)


def scaled(value: int | str, replicas: int, *, up: bool) -> int:
    """Return a number of pods, or a percentage of ``replicas`` rounded ``up`` or down (GetScaledValueFromIntOrPercent).

    Raises:
        ValueError: neither a whole number nor a percentage.
    """
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"got {value!r}, expected a whole number or a percentage such as 50%")
    product = int(value.removesuffix("%")) * replicas
    return -(-product // 100) if up else product // 100


def pace(deployment: Deployment, replicas: int | None = None) -> Pace:
    """Strategy of a Deployment in pods, for as many replicas as it wants or as are given: 25 % each by default, maxSurge rounded up,
    maxUnavailable rounded down, and not both of them 0 (ResolveFenceposts).

    Raises:
        InputError: a strategy, maxSurge or maxUnavailable that cannot be read.
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
    """A pod of an old revision. ``index``: into ``snapshot.pods``; ``node``: where it runs (None: nowhere); ``family``: its ReplicaSet's
    place by age, 0 the oldest; ``rank``: which of a family go first, lower first, apart from how many share the node (``before`` that,
    ``after`` it)."""

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
    """Return whether a pod serves: its Ready condition; without one, whether it runs."""
    status = pod.status or objects.PodStatus()
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return status.phase in (None, "Running")


def _cost(pod: objects.Pod) -> int:
    try:
        return int((pod.metadata.annotations or {}).get(DELETION_COST, "0"))
    except ValueError:  # the API server refuses it; the controller takes 0
        return 0


def old_pods(snapshot: Snapshot, indices: Sequence[int]) -> tuple[list[Old], list[int]]:
    """Pods of old revisions (``indices`` into ``snapshot.pods``) as their controllers see them, and those that are being deleted already,
    which these leave out."""
    active = [i for i in indices if not objects.is_terminating(snapshot.pods[i])]
    going = [i for i in indices if objects.is_terminating(snapshot.pods[i])]
    families: dict[tuple[str, str], int] = {}
    sets: list[ReplicaSet] = snapshot.workloads.get("ReplicaSet", [])
    ages = {(r.metadata.namespace or "default", r.metadata.name or ""): r.metadata.creationTimestamp for r in sets}
    for i in active:
        pod = snapshot.pods[i]
        family = _family(pod)
        born = _seconds(ages.get(family) or pod.metadata.creationTimestamp)
        families[family] = min(families.get(family, _NO_TIME), _NO_TIME if born is None else born)
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
                (int(assigned), phase, int(ready), _cost(pod)), (-_NO_TIME if born is None else -born, objects.pod_key(pod)),
            )
        )  # fmt: skip
    return found, going


def _family(pod: objects.Pod) -> tuple[str, str]:
    owner = objects.controller_of(pod)
    return pod.metadata.namespace or "default", owner.name if owner is not None else ""


def creations(pace: Pace, old: int, created: int) -> int:
    """Return how many new pods are created next, with ``old`` pods of old revisions and ``created`` new ones there (NewRSNewReplicas)."""
    if pace.recreate:
        return 0 if old else pace.replicas - created
    return max(0, min(pace.replicas - created, pace.most - old - created))


def deletions(pace: Pace, old: Sequence[Old], together: Callable[[str], int], available: int) -> list[Old]:
    """Return which old pods go next. ``together``: how many pods of the Deployment, of any revision, are on a node; ``available``: new
    pods that have one.

    Unavailable pods go first, then others as long as ``pace.least`` pods stay available, both from the oldest ReplicaSet on. Within one
    the ReplicaSet controller takes those without a node, then not running, not ready, of lower deletion cost, with more of the
    Deployment's pods on their node, younger; then by name, as upstream leaves the rest open.
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
    """Return whether the order in which old pods go is open: some on different nodes differ in their ages only, which the controller
    compares by since when pods have been ready, roughly (LogarithmicScaleDown), and leaves to chance where they are about equal."""
    first: dict[tuple[int, tuple[int, ...]], str | None] = {}
    return any(first.setdefault((entry.family, entry.before), entry.node) != entry.node for entry in old)
