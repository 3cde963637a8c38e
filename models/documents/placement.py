"""The Placement document: what ``kubestow solve`` prints and ``kubestow verify`` judges.

The document is versioned by ``apiVersion``; docs/solve.md shows it, docs/schema/ has its JSON Schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import NAMESPACE_OID, uuid5

import msgspec
from msgspec import Meta

from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.snapshot.gc_pause import no_gc

API_VERSION: Final = "kubestow.dev/v1alpha1"

_DEVICES: Final = "The devices of its claims that are not allocated yet; a claim that pods share is with each of them."

_Document = TypeVar("_Document")
Status = Literal["optimal", "feasible", "infeasible", "unknown"]


class Doc(msgspec.Struct, omit_defaults=False, forbid_unknown_fields=False):
    """Base of all document types."""


class ContainerRequests(Doc):
    """Other requests of a container, in all pods of a workload."""

    workload: Annotated[
        str, Meta(description="`Kind namespace/name`; a pod stands for its workload, and of several the largest amounts count.")
    ]
    container: Annotated[str, Meta(description="The name of the container.")]
    requests: Annotated[dict[str, str], Meta(description="What it requests: cpu and memory, as quantities.")]


class Edits(Doc, omit_defaults=True):
    """What-if edits of a snapshot, each as the command line writes it."""

    addNodes: Annotated[list[str], Meta(description="Nodes that are added, like one that there is: N:LIKE_NODE.")] = []
    removeNodes: Annotated[list[str], Meta(description="Names of nodes that are left out.")] = []
    removeDomains: Annotated[list[str], Meta(description="Labels whose nodes are left out, KEY=VALUE.")] = []
    replicas: Annotated[list[str], Meta(description="Workloads that are scaled, [KIND/][NAMESPACE/]NAME=N.")] = []
    partial: Annotated[bool, Meta(description="Whether manifests need not be placed whole.")] = False
    namespace: Annotated[str | None, Meta(description="The namespace of objects in manifests that name none, null: default.")] = None
    withoutPending: Annotated[bool, Meta(description="Whether pods that wait in the snapshot are left out.")] = False
    buy: Annotated[list[str], Meta(description="Nodes of a catalogue that are added: N:SHAPE@ZONE.")] = []
    shapes: Annotated[list[Shape], Meta(description="The shapes of these nodes, as the catalogue has them.")] = []
    requests: Annotated[list[ContainerRequests], Meta(description="Other requests of containers; limits below them are raised.")] = []
    rehouse: Annotated[
        bool, Meta(description="Whether pods that no controller makes anew wait again, too, where their nodes are left out.")
    ] = False
    buffers: Annotated[
        bool, Meta(description="Whether the chunks of CapacityBuffers wait, too, as pods of lower priority than any real one.")
    ] = False


class SnapshotRef(Doc, omit_defaults=True):
    """Which snapshot a result belongs to."""

    sha256: Annotated[str, Meta(description="Hash of the input files, manifests included.")]
    nodes: Annotated[int, Meta(description="Number of Node objects, after manifests and edits.")]
    pods: Annotated[int, Meta(description="Number of Pod objects, after manifests and edits.")]
    pending: Annotated[int, Meta(description="Number of pods that were to be placed.")]
    fromScratch: Annotated[bool, Meta(description="Whether movable bound pods were treated as pending.")] = False
    includeGated: Annotated[bool, Meta(description="Whether pods with scheduling gates were placed too.")] = False
    daemonNamespaces: Annotated[list[str], Meta(description="Namespaces exempt from hard anti-affinity.")] = []
    workloads: Annotated[list[str], Meta(description="Manifests that were added (`Kind namespace/name`).")] = []
    edits: Annotated[Edits | None, Meta(description="What-if edits that were made before anything else.")] = None
    rollout: Annotated[str | None, Meta(description="The Deployment whose new revision is placed, as it was named.")] = None
    cluster: Annotated[str | None, Meta(description="The cluster that was captured, where the snapshot names it.")] = None
    capturedAt: Annotated[str | None, Meta(description="When it was captured, RFC 3339, where the snapshot tells.")] = None
    kubernetesVersion: Annotated[str | None, Meta(description="The version of Kubernetes by whose rules it was judged.")] = None
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that were set otherwise than is the version's default.")] = {}


class TierResult(Doc, omit_defaults=True):
    """One tier of the lexicographic objective."""

    tier: Annotated[str, Meta(description="The name of the tier, such as placed, soft or strategy.")]
    value: Annotated[int, Meta(description="What the result reaches, the more the better.")]
    bound: Annotated[int, Meta(description="What no result can exceed, proved.")]
    priority: Annotated[int | None, Meta(description="The priority of the pods that it counts, for the tiers placed.")] = None

    @property
    def gap(self) -> float:
        """Return ``|bound - value| / max(1, |value|)``."""
        return abs(self.bound - self.value) / max(1, abs(self.value))


class SearchPoint(Doc, omit_defaults=True):
    """Incumbent and bound of a tier, whenever one of them changed."""

    tier: Annotated[str, Meta(description="The name of the tier, as in the objective.")]
    seconds: Annotated[float, Meta(description="Seconds since the start of the search.")]
    value: Annotated[int, Meta(description="The value of the best result by then.")]
    bound: Annotated[int | None, Meta(description="What no result can exceed, null while none is known.")] = None
    priority: Annotated[int | None, Meta(description="The priority of the tier, as in the objective.")] = None


class ContainerZones(Doc):
    """The NUMA zones a container gets on its node."""

    name: Annotated[str, Meta(description="The name of the container.")]
    zones: Annotated[list[str], Meta(description="The names of its NUMA zones.")]


class DeviceResult(Doc, omit_defaults=True):
    """A device that a pod gets for one request of a claim."""

    claim: Annotated[
        str,
        Meta(
            description="The ResourceClaim, namespace/name; of one that is yet to be made of a template namespace/POD-ENTRY; "
            "of extended resources the pod, namespace/name/extended-resources."
        ),
    ]
    request: Annotated[str, Meta(description="The request of the claim, with the alternative that is taken: request/alternative.")]
    driver: Annotated[str, Meta(description="The driver of the device.")]
    pool: Annotated[str, Meta(description="The pool that it is in.")]
    device: Annotated[str, Meta(description="Its name in the pool.")]
    adminAccess: Annotated[bool, Meta(description="Whether it is taken with admin access, which leaves it to others.")] = False
    shareID: Annotated[
        str | None, Meta(description="Which share of a device it is; the scheduler draws another UUID. Null: the device as a whole.")
    ] = None
    consumedCapacity: Annotated[dict[str, str], Meta(description="What it takes of the capacity of a device, by name.")] = {}


def share_id(claim: str, request: str, driver: str, pool: str, device: str) -> str:
    """Return what stands for the UUID that the scheduler would draw for a share of a device: the same in every run."""
    return str(uuid5(NAMESPACE_OID, "\n".join((claim, request, driver, pool, device))))


class Assignment(Doc, gc=False):
    """A pod and the node that it goes to."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    node: Annotated[str, Meta(description="The name of its node.")]
    order: Annotated[int, Meta(description="Its position in the bind order, from 1; pods of one gang may share it.")]
    gang: Annotated[str | None, Meta(description="The gang of the pod, namespace/name, null if it is in none.")] = None
    containers: Annotated[list[ContainerZones], Meta(description="The containers that get NUMA zones.")] = []
    devices: Annotated[list[DeviceResult], Meta(description=_DEVICES)] = []


class Reason(Doc):
    """A rule that rejects a pod."""

    rule: Annotated[str, Meta(description="The scheduler plugin's name.")]
    nodes: Annotated[int, Meta(description="The number of nodes on which it does; a node may count under several rules.")]
    message: Annotated[str, Meta(description="What is wrong, in a few words.")]


class Unplaced(Doc, omit_defaults=True):
    """A pod without a node. One that only SchedulingGates rejects does not make a placement incomplete."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    reasons: Annotated[
        list[Reason], Meta(description="The rules that reject it once all others are placed; only SchedulingGates if it is gated.")
    ]
    gang: Annotated[str | None, Meta(description="The gang of the pod, namespace/name, if it is in one.")] = None

    @property
    def gated(self) -> bool:
        return any(reason.rule == "SchedulingGates" for reason in self.reasons)


class GangResult(Doc):
    """What became of a gang."""

    gang: Annotated[str, Meta(description="The gang, namespace/name.")]
    pending: Annotated[int, Meta(description="Members that were to be placed.")]
    placed: Annotated[int, Meta(description="Members that were placed, none or at least as many as are needed.")]
    needed: Annotated[int, Meta(description="Members that must be placed if any is.")]
    bound: Annotated[int, Meta(description="Members that run already.")] = 0
    topologyKey: Annotated[
        str | None, Meta(description="The node label of which all members must share a value, null if they need not.")
    ] = None
    domain: Annotated[str | None, Meta(description="The value that all placed members share, null if there is none.")] = None


class Fact(Doc, omit_defaults=True):
    """One rule or capacity of a cause."""

    rule: Annotated[str, Meta(description="The scheduler plugin's name.")]
    object: Annotated[str, Meta(description="The object whose rule it is (`Pod`, `Node`, `Gang` or workload, with its name).")]
    message: Annotated[str, Meta(description="The fact as a sentence.")]
    domain: Annotated[str | None, Meta(description="The topology domain, key=value, where it concerns one.")] = None
    resource: Annotated[str | None, Meta(description="The resource, where it is a capacity.")] = None


class Remedy(Doc, omit_defaults=True):
    """A change after which the pods can be placed, proved by solving again."""

    change: Annotated[str, Meta(description="What kind of change it is.")]
    message: Annotated[str, Meta(description="The change as a sentence.")]
    arguments: Annotated[dict[str, str], Meta(description="The parts of the change by name, all of them texts.")] = {}
    options: Annotated[list[str], Meta(description="Options of the command line that try it, where there are any.")] = []


class Cause(Doc, omit_defaults=True):
    """Why pods cannot be placed."""

    pods: Annotated[list[str], Meta(description="The pods concerned, namespace/name.")]
    facts: Annotated[list[Fact], Meta(description="The rules and capacities that together make it impossible.")]
    gang: Annotated[str | None, Meta(description="The gang of the pods, namespace/name, if they are one.")] = None
    alone: Annotated[
        bool, Meta(description="Whether it holds without the other pending pods; if not, they are where the result puts them.")
    ] = True
    together: Annotated[int, Meta(description="How many of the pods are asked for at once: all that a gang needs, or one.")] = 1
    minimal: Annotated[bool, Meta(description="Whether no fact can be left out.")] = False
    proved: Annotated[bool, Meta(description="Whether the impossibility is proved.")] = True
    waysOut: Annotated[list[Remedy], Meta(description="Changes that were tried and work, the cheapest first.")] = []


class RolloutPod(Doc, omit_defaults=True):
    """A pod of the new revision and the node that it goes to."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    node: Annotated[str, Meta(description="The name of its node.")]
    order: Annotated[int, Meta(description="Its position in the bind order of the whole rollout, from 1.")]
    devices: Annotated[list[DeviceResult], Meta(description=_DEVICES)] = []
    old: Annotated[bool, Meta(description="Whether it is of an old revision, and waited for a node.")] = False


class Wave(Doc):
    """One round of a rollout."""

    wave: Annotated[int, Meta(description="The number of the wave, from 1.")]
    create: Annotated[list[RolloutPod], Meta(description="Pods that are placed.")]
    waiting: Annotated[list[str], Meta(description="Pods created by now that fit nowhere yet.")]
    delete: Annotated[list[str], Meta(description="Pods of old revisions that are deleted.")]


class Rollout(Doc):
    """The rollout of a Deployment, a StatefulSet or a DaemonSet, wave by wave."""

    workload: Annotated[str, Meta(description="The workload, `Kind namespace/name`.")]
    strategy: Annotated[Literal["RollingUpdate", "Recreate", "OnDelete"], Meta(description="The strategy type that the workload states.")]
    replicas: Annotated[int, Meta(description="The number of pods that it asks for.")]
    maxSurge: Annotated[int, Meta(description="Pods that may exist beyond these, percentages resolved.")]
    maxUnavailable: Annotated[int, Meta(description="Pods that may be unavailable, percentages resolved.")]
    complete: Annotated[bool, Meta(description="Whether it completes, or comes to a halt.")]
    proved: Annotated[bool, Meta(description="Whether it comes to a halt whatever earlier waves choose.")]
    waves: Annotated[list[Wave], Meta(description="The waves, in their order.")] = []
    stuck: Annotated[list[Unplaced], Meta(description="New pods that fit nowhere when it halts, or lack a volume on their node.")] = []
    waysOut: Annotated[list[Remedy], Meta(description="Single changes with which it completes.")] = []
    refused: Annotated[
        Reason | None, Meta(description="The ResourceQuota or LimitRange that keeps the next new pod from being created when it halts.")
    ] = None
    halted: Annotated[str | None, Meta(description="Where and why it halts, of a StatefulSet or DaemonSet, or if nothing rolls.")] = None
    withoutPod: Annotated[list[str], Meta(description="Nodes that a DaemonSet leaves without a pod that serves when it halts.")] = []
    partition: Annotated[int | None, Meta(description="The pods of a StatefulSet, from the first ordinal on, that are kept.")] = None
    podManagementPolicy: Annotated[
        Literal["OrderedReady", "Parallel"] | None, Meta(description="In which order a StatefulSet makes its pods.")
    ] = None


class Unmodelled(Doc):
    """Something in the input that kubestow does not model."""

    pod: Annotated[str, Meta(description="The pod, namespace/name, or another object, Kind/name.")]
    field: Annotated[str, Meta(description="The field of the object.")]
    effect: Annotated[str, Meta(description="What becomes of it, in a few words.")]


class Seconds(Doc):
    """Wall-clock seconds of a run, by phase."""

    load: Annotated[float, Meta(description="Reading the input.")] = 0.0
    compile: Annotated[float, Meta(description="Compiling it into an instance.")] = 0.0
    solve: Annotated[float, Meta(description="The search.")] = 0.0
    verify: Annotated[float, Meta(description="Checking the result.")] = 0.0


class FamilyResult(Doc):
    """One family of preferences."""

    family: Annotated[str, Meta(description="The name of the family.")]
    value: Annotated[int, Meta(description="The points it gained, before the multiplier.")]
    best: Annotated[int, Meta(description="The most it could have on its own.")]
    multiplier: Annotated[int, Meta(description="What a point counts in the soft tier.")] = 1


class WorkloadResult(Doc):
    """The preferences of one workload's pods."""

    workload: Annotated[str, Meta(description="The workload, Kind namespace/name.")]
    value: Annotated[int, Meta(description="The weighted points they gained.")]
    lost: Annotated[int, Meta(description="The weighted points they lack to have all they ask for.")] = 0


class Unmet(Doc):
    """A preference that was not met in full."""

    workload: Annotated[str, Meta(description="The workload, Kind namespace/name.")]
    family: Annotated[str, Meta(description="The family it belongs to.")]
    preference: Annotated[str, Meta(description="What it asks for.")]
    pods: Annotated[int, Meta(description="The number of pods that lost points by it.")]
    lost: Annotated[int, Meta(description="The weighted points that they lost.")]


class Preferences(Doc):
    """What the soft tier consists of."""

    families: Annotated[list[FamilyResult], Meta(description="The points of each family.")] = []
    workloads: Annotated[list[WorkloadResult], Meta(description="The points that each workload gained and lost.")] = []
    unmet: Annotated[list[Unmet], Meta(description="Preferences that were not met in full, the costliest first.")] = []


class Placement(Doc):
    """A placement of all pending pods."""

    snapshot: Annotated[SnapshotRef, Meta(description="What was placed, and how that was asked for.")]
    engine: Annotated[str, Meta(description="What computed it: greedy, or exact or lns where CP-SAT took part.")]
    status: Annotated[
        Status,
        Meta(description="Optimal: every tier that was asked for is proved; feasible: one is not; infeasible: proved that nothing fits."),
    ]
    objective: Annotated[list[TierResult], Meta(description="The tiers in their order of importance.")]
    assignments: Annotated[list[Assignment], Meta(description="Pods with their nodes.")]
    unplaced: Annotated[list[Unplaced], Meta(description="Pods without a node.")] = []
    gangs: Annotated[list[GangResult], Meta(description="The gangs with members to be placed.")] = []
    causes: Annotated[list[Cause], Meta(description="Why pods are left, and what would help.")] = []
    rollout: Annotated[Rollout | None, Meta(description="The rollout wave by wave, where one was asked for.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    preferences: Annotated[Preferences | None, Meta(description="What the soft tier consists of.")] = None
    policy: Annotated[Policy | None, Meta(description="The policy that the objective was computed under, if it is not the default.")] = None
    notes: Annotated[list[str], Meta(description="What a reader must know to read the proof (cuts, engine choice).")] = []
    seconds: Annotated[Seconds | None, Meta(description="How long it took, absent in a deterministic run.")] = None
    search: Annotated[list[SearchPoint], Meta(description="How incumbents and bounds developed, where the run kept time.")] = []
    apiVersion: str = API_VERSION
    kind: str = "Placement"


#: Top-level order of the printed document (msgspec keeps declaration order, which puts defaulted fields last).
_ORDER: Final = (
    "apiVersion", "kind", "snapshot", "engine", "status", "objective", "assignments", "unplaced", "gangs", "causes", "rollout",
    "unmodelled", "preferences", "policy", "notes", "seconds", "search",
)  # fmt: skip


def to_builtins(placement: Placement) -> dict[str, Any]:
    """Return plain dicts and lists, in the document's order. What a run does not have (``seconds`` and ``search`` of a deterministic one,
    ``preferences``, ``policy``, ``rollout``) is left out, and so are the devices of pods that get none."""
    with no_gc():
        plain = msgspec.to_builtins(placement)
        leave_out_no_devices(plain["assignments"])
    return {key: plain[key] for key in _ORDER if plain[key] is not None and (key != "search" or plain[key])}


def leave_out_no_devices(assignments: Iterable[dict[str, Any]]) -> None:
    """Take the devices out of plain assignments (changed) that have none."""
    for assignment in assignments:
        if not assignment["devices"]:
            del assignment["devices"]


def from_builtins(plain: object, type_: type[_Document]) -> _Document:
    """Read a document of a type, decoded from JSON or YAML.

    Raises:
        msgspec.ValidationError: it states another kind or version, or a field is missing or has a wrong type; the message carries its path.
    """
    for field, wanted in (("apiVersion", API_VERSION), ("kind", type_.__name__)):
        if isinstance(plain, dict) and plain.get(field) != wanted:
            raise msgspec.ValidationError(f"expected {field} {wanted!r}, got {shorten(plain.get(field))} - at `$.{field}`")
    return msgspec.convert(plain, type_)
