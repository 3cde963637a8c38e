"""The faces of a rule of the checker, and the cluster that it judges.

The checker names no rule outside ``checker/rules``. It asks each rule of the registry for these faces. Each default
is right for a rule about one pod and one node, and safe for any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kubestow.checker.reading.affinity_terms import MemberReader
from kubestow.checker.reading.gang_roster import Roster
from kubestow.checker.reading.resources import Amounts, SharedRequests
from kubestow.checker.violation import Violation
from kubestow.models.documents.placement import Assignment, DeviceResult, Placement
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

Fault = tuple[str, str]  # rule, why
#: Devices and the like that bound pods got, by pod key and name of the rule.
Holdings = Mapping[str, Mapping[str, object]]
Reading = TypeVar("Reading")

#: Faces whose omission the checker could not notice.
DECLARED = ("names", "order", "mutual", "for_moves", "can_undo", "local", "read", "faults", "add", "remove")


@dataclass(eq=False, slots=True)
class Place:
    """A node and the resources that its pods hold.

    Attributes:
        node: The node.
        name: Its name.
        capacity: Its allocatable amounts.
        pods: Number of pods.
        used: Requested amounts.
    """

    node: objects.Node
    name: str
    capacity: Amounts
    pods: int = 0
    used: Amounts = field(default_factory=dict)

    def take(self, requests: Amounts, by: int = 1) -> None:
        """Add a pod with the given requests, or remove it (``by`` -1)."""
        self.pods += by
        used = self.used
        for name, amount in requests.items():
            used[name] = used.get(name, 0) + by * amount


class NamedDevices(Protocol):
    """A document's entry for a pod on a node."""

    @property
    def node(self) -> str: ...
    @property
    def devices(self) -> list[DeviceResult]: ...


@dataclass(eq=False)
class World:
    """The cluster that rules judge. Objects are identified by id, so the snapshot and the candidates must stay in memory.

    Attributes:
        snapshot: The snapshot.
        nodes: The nodes by name.
        candidates: Pods that will be judged.
        replaced: Running pods that are left out, together with the objects that are deleted with them.
        exempt: Namespaces that are exempt from required anti-affinity.
        free: Keys of pods whose own spec.nodeName is ignored.
        policy: The policy.
        held: Devices and the like that pods get when they are bound, if that is known.
        nodes_change: True if nodes leave and join.
        supplied: Resources that rules outside of this world supply on nodes that lack them.
        requests: Requests of pods.
        members: Labels and required terms of pods.
        suppliers: The rules that supply requests on some nodes, set by the registry.
    """

    snapshot: Snapshot
    nodes: Mapping[str, objects.Node]
    candidates: Sequence[objects.Pod]
    requests: SharedRequests
    replaced: Sequence[objects.Pod] = ()
    exempt: Collection[str] = frozenset()
    free: Collection[str] = frozenset()
    policy: Policy = DEFAULT
    held: Holdings = field(default_factory=dict)
    nodes_change: bool = False
    supplied: Collection[str] = ()
    members: MemberReader = field(default_factory=MemberReader)
    suppliers: Sequence[CheckedRule[Any]] = ()

    def left_to_the_node(self, requests: Amounts, capacity: Amounts) -> Amounts:
        """Return the requests that no rule supplies on a node with this capacity."""
        if self.supplied:
            requests = {name: amount for name, amount in requests.items() if name not in self.supplied or capacity.get(name, 0) > 0}
        for rule in self.suppliers:
            requests = rule.left_to_the_node(requests, capacity)
        return requests


class CreationLedger:
    """The pods that a rule allows to be created. By default all."""

    def fault(self, pod: objects.Pod) -> Fault | None:
        """Return the rule that refuses one more pod, with the reason, or None."""
        return None

    def create(self, pod: objects.Pod) -> None:
        """Add a created pod."""

    def remove(self, pod: objects.Pod) -> None:
        """Remove a pod of the snapshot."""

    def forget(self, pod: objects.Pod) -> None:
        """Remove a pod of the snapshot, or one that was created."""


class CheckedRule(Generic[Reading]):
    """One scheduler plugin, or several that share a folder, as the checker reads them.

    Attributes:
        names: Names of the plugins, as faults and documents give them.
        order: Position of the faults among those of a pod; equal positions are sorted by name.
        mutual: True if pods that bind as a unit see each other. The rule is then judged with the whole unit present.
        for_moves: False if the rule does not apply to pods that move or come back.
        can_undo: False if pods cannot be removed from the state.
        for_good: True if the rule decides which nodes a pod could ever use, for the minimum of a soft spread constraint.
        recounted: False if the numbers of nodes in the reasons of documents are not recounted.
        local: True if a pod changes the verdict only on its own node.
    """

    names: ClassVar[tuple[str, ...]]
    order: ClassVar[int] = 1000
    mutual: ClassVar[bool] = False
    for_moves: ClassVar[bool] = True
    can_undo: ClassVar[bool] = True
    for_good: ClassVar[bool] = False
    recounted: ClassVar[bool] = True
    local: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        self.world = world

    # --- the state ----------------------------------------------------------------------------------------------------

    def announce(self, pods: Iterable[objects.Pod], *, judged: bool) -> None:
        """Read pods that will be judged or added. All pods are announced before the first call of :meth:`read`."""

    def read(self, pod: objects.Pod, *, judged: bool) -> Reading | None:
        """Return the reading of a pod, the same for all its replicas.

        None means that the rule rejects the pod on no node, and that the pod does not change the state. For a pod that
        is only added (``judged`` False), only the latter matters.
        """
        raise NotImplementedError

    def faults(self, reading: Reading, pod: objects.Pod, place: Place) -> Iterable[Fault]:
        """Return why the rule rejects a pod on a node. The pod is not in the state."""
        raise NotImplementedError

    def add(self, reading: Reading, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        """Add a pod. ``placed``: a document binds it there; it did not run before."""

    def remove(self, reading: Reading, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        """Undo :meth:`add`, apart from what binding the pod created."""

    def leave(self, name: str) -> None:
        """Remove a node whose pods are already removed."""

    def join(self, name: str) -> None:
        """Undo :meth:`leave`."""

    def reset(self) -> None:
        """Forget what binding pods created and what the leaving of nodes changed. All placed pods are removed, all nodes joined."""

    # --- units and final states -----------------------------------------------------------------------------------------

    def open_unit(self, unit: Sequence[tuple[Reading | None, objects.Pod, Place]]) -> Sequence[Any]:
        """Return, for each pod of a unit, what :meth:`unit_faults` needs of the state before the unit."""
        return [None] * len(unit)

    def unit_faults(self, reading: Reading, pod: objects.Pod, place: Place, opened: Any) -> Iterable[Fault]:
        """Return why a ``mutual`` rule rejects a pod on a node. The other pods of its unit are in the state, the pod is not."""
        return self.faults(reading, pod, place)

    def disturbs(self, reading: Reading, pod: objects.Pod, place: Place) -> bool:
        """Return True if the filter accepts a pod that breaks the rule for a placed pod."""
        return False

    def final_faults(self) -> Iterable[tuple[objects.Pod, str, str, str]]:
        """Return the rules that the final state breaks for placed pods, as pod, node, rule and reason."""
        return ()

    # --- nominated pods -------------------------------------------------------------------------------------------------

    def second_pass(self, reading: Reading | None) -> bool:
        """Return True if kube-scheduler runs the filter again with the pods that are nominated to the node."""
        return True

    def welcome(self, reading: Reading, place: Place, guests: Iterable[objects.Pod]) -> None:
        """Adjust the state to nominated pods, which it already includes as running pods."""

    # --- what pods get beyond their node ----------------------------------------------------------------------------------

    def left_to_the_node(self, requests: Amounts, capacity: Amounts) -> Amounts:
        """Return the requests without those that this rule supplies on a node with this capacity."""
        return requests

    def content(self, pod: objects.Pod) -> object:
        """Return a key that distinguishes candidates by objects that this rule reads beyond the pod, or None."""
        return None

    def holdings(self, pod: objects.Pod) -> object:
        """Return the devices and the like that a bound pod got, or None."""
        return None

    def entry_faults(self, pod: objects.Pod, claimed: NamedDevices, *, later: bool) -> Iterable[Fault]:
        """Return false claims of a document's entry for a bound pod.

        Args:
            pod: The pod.
            claimed: The entry.
            later: True if the snapshot is later than the document's.
        """
        return ()

    # --- documents, controllers and other snapshots -------------------------------------------------------------------------

    @classmethod
    def document_faults(
        cls, snapshot: Snapshot, placement: Placement, roster: Roster, entries: Sequence[Assignment], refusals: Mapping[str, str | None]
    ) -> Iterable[Violation]:
        """Return the violations of a placement as a whole, and its false claims about the rule.

        Args:
            snapshot: The snapshot.
            placement: The document.
            roster: Gangs of the snapshot.
            entries: Assignments of known pods to known nodes, each pod once.
            refusals: Why the document does not have to place each pod, by key; None if it has to.
        """
        return ()

    @classmethod
    def refused(cls, snapshot: Snapshot, policy: Policy, exempt: Collection[str]) -> Mapping[str, Fault]:
        """Return the rule and reason for each pod of ``snapshot.to_create`` that cannot be created, by pod key."""
        return {}

    @classmethod
    def creations(cls, snapshot: Snapshot, absent: Collection[str], policy: Policy, exempt: Collection[str]) -> CreationLedger | None:
        """Return the ledger of created pods, or None if the rule does not refuse pods at creation. See :class:`CreationLedger`."""
        return None

    @classmethod
    def released(cls, snapshot: Snapshot, gone: Collection[str]) -> Snapshot:
        """Return the snapshot without the objects that are deleted with the pods of these keys."""
        return snapshot

    @classmethod
    def supplied(cls, snapshot: Snapshot) -> Collection[str]:
        """Return the resources that the rule supplies on nodes that lack them."""
        return ()


class StaticRule(CheckedRule[Reading]):
    """A rule without a state of its own: pods that come and go do not change what it reads."""

    mutual, for_moves, can_undo, local = False, True, True, True

    def add(self, reading: Reading, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        """Do nothing."""

    def remove(self, reading: Reading, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        """Do nothing."""
