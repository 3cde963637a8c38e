"""The faces of a rule for explanations: the words of causes, and the remedies that the rule suggests.

Explanations know no rule. The defaults are safe for any rule: a generic sentence, and no remedy of its own. Remedies are proved
before they are reported. A rule declares each of :data:`DECLARED`, even if it takes the default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.facts import Refusal
from kubestow.solver.rules.wording import listed

if TYPE_CHECKING:
    from kubestow.models.kube.objects import Pod
    from kubestow.models.snapshot.snapshot import Snapshot
    from kubestow.solver.cpsat.model import PlacementModel
    from kubestow.solver.rules.facts import CellModel, FactPart, Leavers
    from kubestow.solver.rules.remedies import Idea, Number, PodEdit, SnapshotChange

#: Faces whose omission an explanation could not notice.
DECLARED = ("sentence", "drop_rank", "counts_nominated", "helped_by_new_nodes", "helped_by_fewer_pods")


class ExplanationFaces(ABC):
    """The part of a rule that explanations read.

    Attributes:
        counts_nominated: True if the state also counts pods that are nominated to a node, but not bound yet.
        of_nodes_alike: True if a new node gets the verdict of the node that it is a copy of.
        reads_namespace_labels: True if verdicts depend on labels of namespaces, which a snapshot may lack.
        helped_by_new_nodes: True if more nodes may satisfy the rule.
        helped_by_fewer_pods: True if fewer running pods may satisfy the rule.
        helped_by_uncordoning: True if a node without its cordon may satisfy the rule.
        helped_by_quota: True if larger quotas may satisfy the rule.
        pod_changes: By the kind of a remedy, the change of pods.
        snapshot_changes: By the kind of a remedy, the change of other objects.
        drop_rank: Position among the rules whose facts a minimal cause leaves out if the others suffice. Facts that
            are hard to understand have a low rank.
        facts_by_owner: True if facts are distinguished by the workloads that they concern.
    """

    name: ClassVar[str]
    cluster: Cluster
    counts_nominated: ClassVar[bool] = True
    of_nodes_alike: ClassVar[bool] = False
    reads_namespace_labels: ClassVar[bool] = False
    helped_by_new_nodes: ClassVar[bool] = True
    helped_by_fewer_pods: ClassVar[bool] = True
    helped_by_uncordoning: ClassVar[bool] = False
    helped_by_quota: ClassVar[bool] = False
    pod_changes: ClassVar[Mapping[str, PodEdit]] = {}
    snapshot_changes: ClassVar[Mapping[str, SnapshotChange]] = {}
    drop_rank: ClassVar[int] = 0
    facts_by_owner: ClassVar[bool] = True

    @abstractmethod
    def rejects(self, g: int) -> Bools:
        """Return bool[N], the nodes on which this rule alone rejects one more pod of class g in the current state."""

    @abstractmethod
    def encode(self, encoding: PlacementModel) -> None:
        """Add the constraints that ``never`` does not cover to the model."""

    @abstractmethod
    def message(self, g: int, rejected: Bools) -> str:
        """Return a few words on why pods of class g are rejected on these nodes."""

    def refusals(self, g: int) -> list[Refusal]:
        """Return the reasons of kube-scheduler for the nodes that reject one more pod of class g.

        A node may have several. By default it is this rule's own message, and evicting pods helps if the rule counts pods.
        """
        rejected = self.rejects(g)
        lasting = rejected if not self.helped_by_fewer_pods else np.zeros_like(rejected)
        return [Refusal(f"node(s) rejected by {self.name} ({self.message(g, rejected)})", rejected, lasting)] if rejected.any() else []

    def encode_leaving(self, encoding: PlacementModel, leavers: Leavers) -> None:
        """Add the constraints for an instance in which running pods may leave: these are pending pods that stay or are unplaced."""
        self.encode(encoding)

    @classmethod
    def bind(cls, snapshot: Snapshot, bound: Snapshot, placed: Sequence[tuple[int, str]]) -> None:
        """Change the objects of ``bound`` that this rule reads, as the binding of the placed pods changes them.

        Args:
            snapshot: The snapshot before.
            bound: A copy of it in which the pods have their nodes. Its tables of objects may be replaced.
            placed: (index of a pod, its node), in bind order.
        """

    # --- faces for remedies, which are proved before they are reported ----------------------------------------------

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        """Yield corrections of mistakes of the pending pods, such as misspelt names. They give up nothing, so they come first."""
        return iter(())

    @classmethod
    def node_changes(cls, cluster: Cluster) -> Iterator[Idea]:
        """Yield changes of single nodes after which this rule may accept the pending pods there."""
        return iter(())

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        """Yield the relaxations of this rule that may help the pending pods, except those with numbers."""
        return iter(())

    @classmethod
    def raises(cls, cluster: Cluster) -> Iterator[Number]:
        """Yield the numbers of this rule whose increase may help the pending pods."""
        return iter(())

    @classmethod
    def lowers(cls, cluster: Cluster) -> Iterator[Number]:
        """Yield the numbers of pending pods whose decrease may satisfy this rule."""
        return iter(())

    # --- faces for minimal causes -------------------------------------------------------------------------------------

    @classmethod
    def topology_keys(cls, cluster: Cluster) -> set[str]:
        """Return the topology keys over which this rule counts the pods of the classes."""
        return set()

    @classmethod
    def hopeless(cls, needed: int, pods: int, nodes: int) -> tuple[str, str] | None:
        """Return why these numbers alone rule a placement out, as (object, sentence). The object is empty for the pods' owners.

        Args:
            needed: Number of pods that must be placed.
            pods: Number of pods.
            nodes: Number of nodes.
        """
        return None

    @classmethod
    def fact_kind(cls, topic: Hashable) -> Hashable:
        """Return the coarsest group of facts of this rule to which a topic belongs."""
        return topic[0] if isinstance(topic, tuple) else type(topic).__name__

    def comes_first(self, topic: Hashable) -> bool:
        """Return True if nothing else about the pods matters before this fact is changed, because an object is missing or not ready."""
        return False

    def fact_keys(self, topic: Hashable) -> dict[str, bool]:
        """Return the topology keys of a fact, each True if all pods of the fact must be in one domain."""
        return {}

    def fact_room(self, topic: Hashable, g: int) -> Ints | None:
        """Return int64[N], the pods of class g that a fact about capacities admits on each node; None for other facts."""
        return None

    def encode_cells(self, model: CellModel) -> None:
        """Add redundant rows over cells of nodes, which make proofs short, to a model of named facts."""

    def sentence(self, part: FactPart) -> str:
        """Return the meaning of a fact, and name the object, domain and resource in ``part.fact`` if it has some."""
        if not part.barred.any():
            return f"{self.name} does not admit {part.pods}"
        words = dict.fromkeys(self.message(g, part.barred) for g in part.classes)
        return f"{part.view.of_all(part.barred)} reject {part.pods}: {listed(words)}"

    def rejects_with(self, g: int, n: int, guests: Sequence[Pod]) -> bool:
        """Return True if node n rejects one more pod of class g once the pods nominated to it (``guests``) are bound.

        These pods are in the state.
        """
        return bool(self.rejects(g)[n])

    def order_note(self, classes: Sequence[int]) -> str:
        """Return a clause on why the bind order matters for pods of the classes; empty if there is no special reason."""
        return ""
