"""The Placement document, which ``kubestow solve`` prints and ``kubestow verify`` checks.

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

_DEVICES: Final = "Devices chosen for its unallocated claims. A shared claim appears under every pod that uses it."

_Document = TypeVar("_Document")
Status = Literal["optimal", "feasible", "infeasible", "unknown"]


class Doc(msgspec.Struct, omit_defaults=False, forbid_unknown_fields=False):
    """Base of all document types."""


class ContainerRequests(Doc):
    """A change of a container's requests in all pods of a workload."""

    workload: Annotated[str, Meta(description="The workload, `Kind namespace/name`. Of several named pods, the largest amounts apply.")]
    container: Annotated[str, Meta(description="The name of the container.")]
    requests: Annotated[dict[str, str], Meta(description="The new requests for cpu and memory, as Kubernetes quantities.")]


class Edits(Doc, omit_defaults=True):
    """What-if edits of a snapshot, in the notation of the command line."""

    addNodes: Annotated[list[str], Meta(description="Nodes to add as copies of an existing node, N:LIKE_NODE.")] = []
    removeNodes: Annotated[list[str], Meta(description="Names of the nodes to remove.")] = []
    removeDomains: Annotated[list[str], Meta(description="Labels of the nodes to remove, KEY=VALUE.")] = []
    replicas: Annotated[list[str], Meta(description="Workloads to scale, [KIND/][NAMESPACE/]NAME=N.")] = []
    partial: Annotated[bool, Meta(description="True if only part of the manifests' pods need to be placed.")] = False
    namespace: Annotated[str | None, Meta(description="The namespace of manifest objects that do not set one; null means default.")] = None
    withoutPending: Annotated[bool, Meta(description="True if the pending pods of the snapshot are removed.")] = False
    buy: Annotated[list[str], Meta(description="Nodes to add from a catalogue, N:SHAPE@ZONE.")] = []
    shapes: Annotated[list[Shape], Meta(description="The catalogue entries of the shapes in `buy`.")] = []
    requests: Annotated[list[ContainerRequests], Meta(description="New container requests. Limits below them are raised.")] = []
    rehouse: Annotated[bool, Meta(description="True if bare pods on removed nodes become pending instead of being lost.")] = False
    buffers: Annotated[bool, Meta(description="True if chunks of CapacityBuffers are pending pods of the lowest priority.")] = False


class SnapshotRef(Doc, omit_defaults=True):
    """The snapshot that a result belongs to."""

    sha256: Annotated[str, Meta(description="SHA-256 of the input files, manifests included.")]
    nodes: Annotated[int, Meta(description="Number of Node objects, after manifests and edits.")]
    pods: Annotated[int, Meta(description="Number of Pod objects, after manifests and edits.")]
    pending: Annotated[int, Meta(description="Number of pods to place.")]
    fromScratch: Annotated[bool, Meta(description="True if movable bound pods were treated as pending.")] = False
    includeGated: Annotated[bool, Meta(description="True if pods with scheduling gates were placed too.")] = False
    daemonNamespaces: Annotated[list[str], Meta(description="Namespaces exempt from hard anti-affinity.")] = []
    workloads: Annotated[list[str], Meta(description="Manifests that were added (`Kind namespace/name`).")] = []
    edits: Annotated[Edits | None, Meta(description="What-if edits made before the search.")] = None
    rollout: Annotated[str | None, Meta(description="The Deployment whose new revision is placed, as given on the command line.")] = None
    cluster: Annotated[str | None, Meta(description="The captured cluster, if the snapshot names it.")] = None
    capturedAt: Annotated[str | None, Meta(description="Capture time, RFC 3339, if the snapshot records it.")] = None
    kubernetesVersion: Annotated[str | None, Meta(description="The Kubernetes version whose rules apply.")] = None
    featureGates: Annotated[dict[str, bool], Meta(description="Feature gates that differ from the defaults of the version.")] = {}


class TierResult(Doc, omit_defaults=True):
    """One tier of the lexicographic objective."""

    tier: Annotated[str, Meta(description="The name of the tier, such as placed, soft or strategy.")]
    value: Annotated[int, Meta(description="The value of this result; higher is better.")]
    bound: Annotated[int, Meta(description="The proved upper bound on the value.")]
    priority: Annotated[int | None, Meta(description="The priority of the counted pods, for the tier placed.")] = None

    @property
    def gap(self) -> float:
        """The relative optimality gap, ``|bound - value| / max(1, |value|)``."""
        return abs(self.bound - self.value) / max(1, abs(self.value))


class SearchPoint(Doc, omit_defaults=True):
    """The incumbent and bound of a tier, recorded when either changes."""

    tier: Annotated[str, Meta(description="The name of the tier, as in the objective.")]
    seconds: Annotated[float, Meta(description="Seconds since the start of the search.")]
    value: Annotated[int, Meta(description="The value of the incumbent at that time.")]
    bound: Annotated[int | None, Meta(description="The upper bound at that time, null if none is known yet.")] = None
    priority: Annotated[int | None, Meta(description="The priority of the tier, as in the objective.")] = None


class ContainerZones(Doc):
    """The NUMA zones that a container gets on its node."""

    name: Annotated[str, Meta(description="The name of the container.")]
    zones: Annotated[list[str], Meta(description="The names of its NUMA zones.")]


class DeviceResult(Doc, omit_defaults=True):
    """A device allocated to one request of a pod's claim."""

    claim: Annotated[
        str,
        Meta(
            description="The ResourceClaim, namespace/name. A claim still to be created from a template is namespace/POD-ENTRY; "
            "one for extended resources is namespace/POD/extended-resources."
        ),
    ]
    request: Annotated[str, Meta(description="The request of the claim; with alternatives, request/alternative.")]
    driver: Annotated[str, Meta(description="The driver of the device.")]
    pool: Annotated[str, Meta(description="The pool of the device.")]
    device: Annotated[str, Meta(description="The name of the device in its pool.")]
    adminAccess: Annotated[bool, Meta(description="True if the request has admin access, which does not reserve the device.")] = False
    shareID: Annotated[str | None, Meta(description="The share of the device, null for all of it. The scheduler has its own.")] = None
    consumedCapacity: Annotated[dict[str, str], Meta(description="The consumed device capacity, by capacity name.")] = {}


def share_id(claim: str, request: str, driver: str, pool: str, device: str) -> str:
    """Return a reproducible placeholder for the UUID that the scheduler would draw for a device share."""
    return str(uuid5(NAMESPACE_OID, "\n".join((claim, request, driver, pool, device))))


class Assignment(Doc, gc=False):
    """The node chosen for a pod."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    node: Annotated[str, Meta(description="The name of its node.")]
    order: Annotated[int, Meta(description="Its position in the bind order, from 1; pods of one gang may share it.")]
    gang: Annotated[str | None, Meta(description="The gang of the pod, namespace/name, or null.")] = None
    containers: Annotated[list[ContainerZones], Meta(description="The NUMA zones of its containers.")] = []
    devices: Annotated[list[DeviceResult], Meta(description=_DEVICES)] = []


class Reason(Doc):
    """A rule that rejects a pod."""

    rule: Annotated[str, Meta(description="The scheduler plugin's name.")]
    nodes: Annotated[int, Meta(description="The number of nodes that it rejects. A node can count under several rules.")]
    message: Annotated[str, Meta(description="The problem in a few words.")]


class Preemption(Doc):
    """Pods that kube-scheduler would evict for a pod."""

    node: Annotated[str, Meta(description="The node on which they run, which the pod would get.")]
    victims: Annotated[list[str], Meta(description="The pods to evict, namespace/name, most important first.")]


class Unplaced(Doc, omit_defaults=True):
    """A pod without a node. A placement is complete even if pods remain that only SchedulingGates rejects."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    reasons: Annotated[list[Reason], Meta(description="The rules that reject it at the end; SchedulingGates alone if it is gated.")]
    gang: Annotated[str | None, Meta(description="The gang of the pod, namespace/name, or null.")] = None
    schedulerMessage: Annotated[str | None, Meta(description="In a simulation: kube-scheduler's own message on the pod.")] = None
    preemption: Annotated[Preemption | None, Meta(description="In a simulation: the pods that kube-scheduler would evict for it.")] = None

    @property
    def gated(self) -> bool:
        return any(reason.rule == "SchedulingGates" for reason in self.reasons)


class GangResult(Doc):
    """The placed members of a gang."""

    gang: Annotated[str, Meta(description="The gang, namespace/name.")]
    pending: Annotated[int, Meta(description="Members to place.")]
    placed: Annotated[int, Meta(description="Members placed: either 0 or at least `needed`.")]
    needed: Annotated[int, Meta(description="The minimum number of members to place together.")]
    bound: Annotated[int, Meta(description="Members that already run.")] = 0
    topologyKey: Annotated[str | None, Meta(description="The node label whose value all members must share, or null.")] = None
    domain: Annotated[str | None, Meta(description="The label value that all placed members share, or null.")] = None


class Fact(Doc, omit_defaults=True):
    """A rule or capacity that takes part in a cause."""

    rule: Annotated[str, Meta(description="The scheduler plugin's name.")]
    object: Annotated[str, Meta(description="The object that has the rule: `Pod`, `Node`, `Gang` or a workload, with its name.")]
    message: Annotated[str, Meta(description="The fact as a sentence.")]
    domain: Annotated[str | None, Meta(description="The topology domain concerned, key=value, or null.")] = None
    resource: Annotated[str | None, Meta(description="The resource, if the fact is a capacity.")] = None


class Remedy(Doc, omit_defaults=True):
    """A change after which the pods can be placed, proved by solving again."""

    change: Annotated[str, Meta(description="The kind of change.")]
    message: Annotated[str, Meta(description="The change as a sentence.")]
    arguments: Annotated[dict[str, str], Meta(description="The arguments of the change, by name.")] = {}
    options: Annotated[list[str], Meta(description="Command-line options that apply the change, if there are any.")] = []


class Cause(Doc, omit_defaults=True):
    """A set of facts that together prevent pods from being placed."""

    pods: Annotated[list[str], Meta(description="The pods concerned, namespace/name.")]
    facts: Annotated[list[Fact], Meta(description="The conflicting rules and capacities.")]
    gang: Annotated[str | None, Meta(description="The gang of the pods, namespace/name, or null.")] = None
    alone: Annotated[bool, Meta(description="True if it holds without the other pending pods, false if these are on their nodes.")] = True
    together: Annotated[int, Meta(description="The number of pods to place together: the minimum of a gang, or 1.")] = 1
    minimal: Annotated[bool, Meta(description="True if no fact can be left out.")] = False
    proved: Annotated[bool, Meta(description="True if the conflict is proved.")] = True
    waysOut: Annotated[list[Remedy], Meta(description="Changes proved to resolve the conflict, cheapest first.")] = []
    untried: Annotated[list[str], Meta(description="Kinds of changes of which not all were tried, for lack of time or by a limit.")] = []


class RolloutPod(Doc, omit_defaults=True):
    """The node chosen for a pod of the new revision."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    node: Annotated[str, Meta(description="The name of its node.")]
    order: Annotated[int, Meta(description="Its position in the bind order of the whole rollout, from 1.")]
    devices: Annotated[list[DeviceResult], Meta(description=_DEVICES)] = []
    old: Annotated[bool, Meta(description="True if the pod belongs to an old revision and was pending.")] = False


class Wave(Doc):
    """One round of a rollout."""

    wave: Annotated[int, Meta(description="The number of the wave, from 1.")]
    create: Annotated[list[RolloutPod], Meta(description="Pods that are created or pending, and placed in this wave.")]
    waiting: Annotated[list[str], Meta(description="Pods created in this or an earlier wave that fit no node yet.")]
    delete: Annotated[list[str], Meta(description="Pods of old revisions that are deleted.")]


class WorstEnd(Doc):
    """The worst end of a rolling update for a topology spread constraint that counts the pods of old revisions, too."""

    constraint: Annotated[str, Meta(description="The field of the pod template's spec.")]
    topologyKey: Annotated[str, Meta(description="Its topology key.")]
    whenUnsatisfiable: Annotated[Literal["DoNotSchedule", "ScheduleAnyway"], Meta(description="Its whenUnsatisfiable.")]
    maxSkew: Annotated[int, Meta(description="Its maxSkew.")]
    skew: Annotated[int | None, Meta(description="The largest skew of an end that was found, or null.")]
    bound: Annotated[int, Meta(description="A proved upper bound on the skew of every end.")]
    counts: Annotated[dict[str, int], Meta(description="Matching pods by domain at this end; domains without pods are left out.")] = {}
    waves: Annotated[list[Wave], Meta(description="The choices that lead to this end.")] = []
    waysOut: Annotated[list[Remedy], Meta(description="Changes with which the bound is smaller, computed with them.")] = []


class Rollout(Doc):
    """The rollout of a Deployment, a StatefulSet or a DaemonSet, wave by wave."""

    workload: Annotated[str, Meta(description="The workload, `Kind namespace/name`.")]
    strategy: Annotated[Literal["RollingUpdate", "Recreate", "OnDelete"], Meta(description="The update strategy of the workload.")]
    replicas: Annotated[int, Meta(description="The desired number of pods.")]
    maxSurge: Annotated[int, Meta(description="Pods allowed above `replicas`, percentages resolved.")]
    maxUnavailable: Annotated[int, Meta(description="Pods allowed to be unavailable, percentages resolved.")]
    complete: Annotated[bool, Meta(description="True if the rollout completes, false if it halts.")]
    proved: Annotated[bool, Meta(description="True if it is proved to halt for every choice of nodes in earlier waves.")]
    waves: Annotated[list[Wave], Meta(description="The waves, in their order.")] = []
    stuck: Annotated[list[Unplaced], Meta(description="New pods that fit no node when it halts, or lack a volume on their node.")] = []
    waysOut: Annotated[list[Remedy], Meta(description="Single changes that let it complete.")] = []
    refused: Annotated[Reason | None, Meta(description="The ResourceQuota or LimitRange that rejects the next new pod when it halts.")] = (
        None
    )
    halted: Annotated[str | None, Meta(description="Position and reason of the halt (StatefulSet, DaemonSet, or no wave at all).")] = None
    withoutPod: Annotated[list[str], Meta(description="Nodes without a serving pod of the DaemonSet when it halts.")] = []
    partition: Annotated[int | None, Meta(description="StatefulSet pods, from the first ordinal on, that keep the old revision.")] = None
    podManagementPolicy: Annotated[
        Literal["OrderedReady", "Parallel"] | None, Meta(description="The pod management policy of a StatefulSet.")
    ] = None
    worstEnds: Annotated[
        list[WorstEnd],
        Meta(description="The worst ends of a Deployment's rolling update that completes, by constraint that counts old revisions."),
    ] = []


class Unmodelled(Doc):
    """A field of the input that kubestow does not model."""

    pod: Annotated[str, Meta(description="The pod, namespace/name, or another object, Kind/name.")]
    field: Annotated[str, Meta(description="The field of the object.")]
    effect: Annotated[str, Meta(description="How kubestow treats it, in a few words.")]


class Seconds(Doc):
    """Wall-clock seconds of a run, by phase."""

    load: Annotated[float, Meta(description="Reading the input.")] = 0.0
    compile: Annotated[float, Meta(description="Compiling the input into an optimisation instance.")] = 0.0
    solve: Annotated[float, Meta(description="Searching for the result.")] = 0.0
    verify: Annotated[float, Meta(description="Checking the result.")] = 0.0


class FamilyResult(Doc):
    """The points of one family of preferences."""

    family: Annotated[str, Meta(description="The name of the family.")]
    value: Annotated[int, Meta(description="The points gained, before the multiplier.")]
    best: Annotated[int, Meta(description="The upper bound on its points if it were the only family.")]
    multiplier: Annotated[int, Meta(description="The weight of a point in the soft tier.")] = 1


class WorkloadResult(Doc):
    """The preference points of one workload's pods."""

    workload: Annotated[str, Meta(description="The workload, Kind namespace/name.")]
    value: Annotated[int, Meta(description="The weighted points gained.")]
    lost: Annotated[int, Meta(description="The weighted points missing from a full match.")] = 0


class Unmet(Doc):
    """A preference that was not met in full."""

    workload: Annotated[str, Meta(description="The workload, Kind namespace/name.")]
    family: Annotated[str, Meta(description="The family of the preference.")]
    preference: Annotated[str, Meta(description="The preference as a sentence.")]
    pods: Annotated[int, Meta(description="The number of pods that lost points.")]
    lost: Annotated[int, Meta(description="The weighted points lost.")]


class SimulatedOutcome(Doc):
    """One outcome of repeated simulations. Outcomes that give each pod the same node are one."""

    times: Annotated[int, Meta(description="The number of simulations with this outcome.")]
    seed: Annotated[int, Meta(description="The seed of the first such simulation.")]
    placed: Annotated[int, Meta(description="The number of placed pods.")]
    unplaced: Annotated[list[str], Meta(description="The pods that stay, namespace/name.")] = []


class Preferences(Doc):
    """The parts of the soft tier."""

    families: Annotated[list[FamilyResult], Meta(description="The points of each family.")] = []
    workloads: Annotated[list[WorkloadResult], Meta(description="The points that each workload gained and lost.")] = []
    unmet: Annotated[list[Unmet], Meta(description="Preferences not met in full, most points lost first.")] = []


class Placement(Doc):
    """A placement of all pending pods."""

    snapshot: Annotated[SnapshotRef, Meta(description="The snapshot and the options that decide which pods are placed.")]
    engine: Annotated[str, Meta(description="The engine: greedy, exact or lns (these two use CP-SAT), or a simulated kube-scheduler.")]
    status: Annotated[
        Status,
        Meta(description="Optimal if every requested tier is proved, infeasible if it is proved that nothing fits, else feasible."),
    ]
    objective: Annotated[list[TierResult], Meta(description="The tiers in their order of importance.")]
    assignments: Annotated[list[Assignment], Meta(description="The placed pods and their nodes.")]
    unplaced: Annotated[list[Unplaced], Meta(description="Pods without a node.")] = []
    gangs: Annotated[list[GangResult], Meta(description="The gangs with members to be placed.")] = []
    causes: Annotated[list[Cause], Meta(description="The conflicts that leave pods unplaced, with remedies.")] = []
    rollout: Annotated[Rollout | None, Meta(description="The rollout, wave by wave, if one was requested.")] = None
    outcomes: Annotated[list[SimulatedOutcome], Meta(description="The outcomes of repeated simulations, most frequent first.")] = []
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    preferences: Annotated[Preferences | None, Meta(description="The parts of the soft tier.")] = None
    policy: Annotated[Policy | None, Meta(description="The policy of the objective, if it is not the default.")] = None
    notes: Annotated[list[str], Meta(description="Remarks on the proof, such as the choice of engine.")] = []
    seconds: Annotated[Seconds | None, Meta(description="Run time by phase, absent in a deterministic run.")] = None
    search: Annotated[list[SearchPoint], Meta(description="The history of incumbents and bounds, absent in a deterministic run.")] = []
    apiVersion: str = API_VERSION
    kind: str = "Placement"


#: Top-level order of the printed document (msgspec keeps declaration order, which puts defaulted fields last).
_ORDER: Final = (
    "apiVersion", "kind", "snapshot", "engine", "status", "objective", "assignments", "unplaced", "gangs", "causes", "rollout",
    "outcomes", "unmodelled", "preferences", "policy", "notes", "seconds", "search",
)  # fmt: skip


def to_builtins(placement: Placement) -> dict[str, Any]:
    """Return the document as plain dicts and lists, in printed order.

    Leave out null fields (such as ``seconds``, ``policy`` and ``rollout``), an empty ``search`` or ``outcomes``, and empty ``devices``.
    """
    with no_gc():
        plain = msgspec.to_builtins(placement)
        leave_out_no_devices(plain["assignments"])
    return {key: plain[key] for key in _ORDER if plain[key] is not None and (key not in ("search", "outcomes") or plain[key])}


def leave_out_no_devices(assignments: Iterable[dict[str, Any]]) -> None:
    """Delete the empty ``devices`` lists of plain assignments, in place."""
    for assignment in assignments:
        if not assignment["devices"]:
            del assignment["devices"]


def from_builtins(plain: object, type_: type[_Document]) -> _Document:
    """Return a decoded JSON or YAML document as a Struct of the given type.

    Raises:
        msgspec.ValidationError: The kind or version differs, or a field is missing or has a wrong type. The message has its path.
    """
    for field, wanted in (("apiVersion", API_VERSION), ("kind", type_.__name__)):
        if isinstance(plain, dict) and plain.get(field) != wanted:
            raise msgspec.ValidationError(f"expected {field} {wanted!r}, got {shorten(plain.get(field))} - at `$.{field}`")
    return msgspec.convert(plain, type_)
