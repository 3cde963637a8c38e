"""The interface of a family of preferences for the checker: its points, and a recount of what each pod gains and loses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from kubestow.checker.objective.kinds import Kinds, Nodes, PodKind
from kubestow.checker.rules import affinity, resources
from kubestow.models.documents.policy import Policy
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

WeightedTerm = tuple[affinity.AffinityTerm, int]


@dataclass(frozen=True)
class Scene:
    """The input of a family.

    Attributes:
        snapshot: The snapshot.
        policy: The policy.
        nodes: The nodes by name.
        placed: Node of each placed pod, by pod key.
        gangs: Gangs of the pods to be placed.
        requests: Requests of pods, if they were read already.
    """

    snapshot: Snapshot
    policy: Policy
    nodes: Nodes
    placed: Mapping[str, str]
    gangs: Sequence[Gang] = ()
    requests: resources.SharedRequests | None = None


class Recount(NamedTuple):
    """Points of replicas of a pod by one preference.

    Attributes:
        text: The document's words for the preference.
        losses: Points lost by each replica.
        gain: Points gained by all.
    """

    text: str
    losses: Sequence[int]
    gain: int


class Family(ABC):
    """A family of preferences. Points are without the policy's multiplier.

    Attributes:
        name: The family's field in the policy's multipliers.
        recounts: How claims about gains and losses are checked: each one, only the sum of the costs, or none.
        optional: True if the family has points only with a multiplier above 0.
    """

    name: ClassVar[str]
    recounts: ClassVar[Literal["each", "sum", "none"]] = "each"
    optional: ClassVar[bool] = False

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @classmethod
    def counts(cls, policy: Policy) -> bool:
        """Return True if the policy has the family counted."""
        return not cls.optional or cls.weight(policy) > 0

    @classmethod
    def weight(cls, policy: Policy) -> int:
        """Return the family's multiplier."""
        return int(getattr(policy.multipliers, cls.name))

    def expect(self, pod: objects.Pod, kind: PodKind) -> None:
        """Register a pod to be placed, placed or not, for all its replicas."""

    def add(self, pod: objects.Pod, kind: PodKind, nodes: Sequence[str], *, placed: bool) -> None:
        """Add replicas of a pod, one on each of the nodes: placed ones, or ones that stay."""

    @abstractmethod
    def points(self, kinds: Kinds) -> int:
        """Return the points of all pods that were added."""

    def unevenness(self, kinds: Kinds) -> int | None:
        """Return the value of the tier `topologySpread`, or None if no constraint of the family counts."""
        return None

    def recount(self, pod: objects.Pod, nodes: Sequence[str]) -> Iterator[Recount]:
        """Yield the points of placed replicas by each preference for nodes."""
        return iter(())

    def terms(self, pod: objects.Pod, *, staying: bool = False) -> list[WeightedTerm]:
        """Return the weighted terms of a pod.

        Args:
            pod: The pod.
            staying: True for the effect of a pod that stays on pods to be placed.
        """
        return []

    def words(self, weight: int, key: str) -> str:
        """Return the document's words for a term."""
        # only families that yield terms are asked for their words, and those override this
        raise NotImplementedError(f"{self.name} has no terms")


class NodeFamily(Family):
    """A family whose points depend on a pod and its node only.

    Attributes:
        text: The document's words for points that a node does not give.
    """

    text: ClassVar[str]

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._total = 0

    @abstractmethod
    def worth(self, pod: objects.Pod, node: str) -> int:
        """Return the points of one pod on a node."""

    def best(self, pod: objects.Pod) -> int:
        """Return the points of one pod on its best node."""
        return max(self.worth(pod, node) for node in self.scene.nodes)

    def add(self, pod: objects.Pod, kind: PodKind, nodes: Sequence[str], *, placed: bool) -> None:
        if placed:
            self._total += sum(self.worth(pod, node) for node in nodes)

    def points(self, kinds: Kinds) -> int:
        return self._total

    def recount(self, pod: objects.Pod, nodes: Sequence[str]) -> Iterator[Recount]:
        best, worth = self.best(pod), [self.worth(pod, node) for node in nodes]
        yield Recount(self.text, [best - points for points in worth], sum(worth))
