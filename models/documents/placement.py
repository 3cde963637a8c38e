"""The Placement document: what ``kubestow solve`` prints and ``kubestow verify`` judges.

Field names and meaning are those of the command specification; the document is versioned by ``apiVersion``.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from models.documents.policy import Policy
from models.kube.lenient_decode import shorten

API_VERSION: Final = "kubestow.dev/v1alpha1"

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


class Doc(msgspec.Struct, omit_defaults=False, forbid_unknown_fields=False):
    """Base of all document types."""


class Edits(Doc, omit_defaults=True):
    """What-if edits of a snapshot, each as the command line writes it. ``addNodes``: so many nodes more, like one of them, N:LIKE_NODE;
    ``removeNodes``: names of nodes that are left out; ``removeDomains``: labels whose nodes are left out, KEY=VALUE; ``replicas``:
    workloads that are scaled, [KIND/][NAMESPACE/]NAME=N; ``partial``: whether manifests need not be placed whole."""

    addNodes: list[str] = []
    removeNodes: list[str] = []
    removeDomains: list[str] = []
    replicas: list[str] = []
    partial: bool = False


class SnapshotRef(Doc, omit_defaults=True):
    """Which snapshot a result belongs to.

    ``sha256``: hash of the input files, manifests included. ``nodes``: number of Node objects, after manifests and edits. ``pods``: number
    of Pod objects, after manifests and edits. ``pending``: number of pods that were to be placed. ``fromScratch``: whether movable bound
    pods were treated as pending. ``includeGated``: whether pods with scheduling gates were placed too. ``daemonNamespaces``: namespaces
    exempt from hard anti-affinity. ``workloads``: manifests that were added (``Kind namespace/name``). ``edits``: what-if edits that were
    made before anything else. ``rollout``: the Deployment whose new revision is placed, as it was named.
    """

    sha256: str
    nodes: int
    pods: int
    pending: int
    fromScratch: bool = False
    includeGated: bool = False
    daemonNamespaces: list[str] = []
    workloads: list[str] = []
    edits: Edits | None = None
    rollout: str | None = None


class TierResult(Doc, omit_defaults=True):
    """One tier of the lexicographic objective. ``tier``: its name, as placed, soft or strategy; ``value``: what the result reaches, the
    more the better; ``bound``: what no result can exceed, proved; ``priority``: that of the pods it counts, for the tiers placed."""

    tier: str
    value: int
    bound: int
    priority: int | None = None

    @property
    def gap(self) -> float:
        """|bound - value| / max(1, |value|)."""
        return abs(self.bound - self.value) / max(1, abs(self.value))


class SearchPoint(Doc, omit_defaults=True):
    """Incumbent and bound of a tier, whenever one of them changed. ``tier``: its name, as in the objective; ``seconds``: since the start of
    the search; ``value``: the best result by then; ``bound``: what no result can exceed, None while none is known; ``priority``: as in the
    objective."""

    tier: str
    seconds: float
    value: int
    bound: int | None = None
    priority: int | None = None


class ContainerZones(Doc):
    """The NUMA zones a container gets on its node. ``name``: the container; ``zones``: the names of its zones."""

    name: str
    zones: list[str]


class Assignment(Doc):
    """A pod goes to a node. ``pod``: the pod, namespace/name; ``node``: the name of its node; ``order``: its place in the bind order, from
    1; pods of one gang may share it; ``gang``: its gang, namespace/name, None if it is in none; ``containers``: those that get NUMA
    zones."""

    pod: str
    node: str
    order: int
    gang: str | None = None
    containers: list[ContainerZones] = []


class Reason(Doc):
    """A rule that rejects a pod. ``rule``: the scheduler plugin's name; ``nodes``: on how many nodes it does, each of which may be counted
    under several rules; ``message``: a few words on it."""

    rule: str
    nodes: int
    message: str


class Unplaced(Doc, omit_defaults=True):
    """A pod without a node. ``pod``: the pod, namespace/name; ``reasons``: the rules that reject it once everything else is placed,
    SchedulingGates alone for a gated pod, which does not make a placement incomplete; ``gang``: its gang, namespace/name, if it is in
    one."""

    pod: str
    reasons: list[Reason]
    gang: str | None = None

    @property
    def gated(self) -> bool:
        return any(reason.rule == "SchedulingGates" for reason in self.reasons)


class GangResult(Doc):
    """What became of a gang. ``gang``: the gang, namespace/name; ``pending``: members that were to be placed; ``placed``: how many of these
    were, none or at least as many as are needed; ``needed``: how many of these must be placed, if any is; ``bound``: members that ran
    already; ``topologyKey``: the node label of which all members are to share a value, None if they need not; ``domain``: the value that
    all placed members share, None if there is none."""

    gang: str
    pending: int
    placed: int
    needed: int
    bound: int = 0
    topologyKey: str | None = None
    domain: str | None = None


class Fact(Doc, omit_defaults=True):
    """One rule or capacity of a cause. ``rule``: the scheduler plugin's name; ``object``: whose rule it is (``Pod``, ``Node``, ``Gang`` or
    workload, with its name); ``domain``: the topology domain, key=value, where it concerns one; ``resource``: the resource, where it is a
    capacity; ``message``: the fact as a sentence."""

    rule: str
    object: str
    message: str
    domain: str | None = None
    resource: str | None = None


class Remedy(Doc, omit_defaults=True):
    """A change after which the pods can be placed, proved by solving again. ``change``: what kind of change it is; ``message``: the change
    as a sentence; ``arguments``: what the change is made of, by name, all of them texts; ``options``: options of the command line that try
    it, where there are any."""

    change: str
    message: str
    arguments: dict[str, str] = {}
    options: list[str] = []


class Cause(Doc, omit_defaults=True):
    """Why pods cannot be placed. ``pods``: the pods concerned, namespace/name; ``facts``: what together makes it impossible; ``gang``:
    their gang, namespace/name, if they are one; ``alone``: whether it is impossible even without the other waiting pods; otherwise the
    others are taken where the result puts them; ``together``: how many of the pods are asked for at once, all that a gang needs, else one;
    ``minimal``: whether no smaller part of the facts makes it impossible; ``proved``: whether the impossibility is proved; ``waysOut``:
    changes that were tried and work, the cheapest first."""

    pods: list[str]
    facts: list[Fact]
    gang: str | None = None
    alone: bool = True
    together: int = 1
    minimal: bool = False
    proved: bool = True
    waysOut: list[Remedy] = []


class RolloutPod(Doc):
    """A pod of the new revision gets a node. ``pod``: the pod, namespace/name; ``node``: the name of its node; ``order``: its place in the
    bind order of the whole rollout, from 1."""

    pod: str
    node: str
    order: int


class Wave(Doc):
    """One round of a rollout. ``wave``: its number, from 1; ``create``: pods that are placed; ``waiting``: pods created by now that nothing
    takes yet; then ``delete``: pods of old revisions that go."""

    wave: int
    create: list[RolloutPod]
    waiting: list[str]
    delete: list[str]


class Rollout(Doc):
    """A Deployment's rollout, wave by wave. ``workload``: the Deployment, Deployment namespace/name; ``strategy``: as the Deployment states
    it; ``replicas``: how many pods it asks for; ``maxSurge``, ``maxUnavailable``: number of pods, percentages resolved; ``complete``:
    whether it goes through, or comes to a halt; ``proved``: whether it comes to a halt whatever earlier waves choose; ``waves``: its
    rounds, in their order; ``stuck``: new pods that nothing takes when it halts; ``waysOut``: single changes with which it goes through."""

    workload: str
    strategy: Literal["RollingUpdate", "Recreate"]
    replicas: int
    maxSurge: int
    maxUnavailable: int
    complete: bool
    proved: bool
    waves: list[Wave] = []
    stuck: list[Unplaced] = []
    waysOut: list[Remedy] = []


class Unmodelled(Doc):
    """Something in the input that kubestow does not model. ``pod``: the pod, namespace/name, or another object, Kind/name; ``field``: where
    in the object; ``effect``: what becomes of it."""

    pod: str
    field: str
    effect: str


class Seconds(Doc):
    """Wall-clock seconds of a run, by phase. ``load``: reading the input; ``compile``: making an instance of it; ``solve``: the search;
    ``verify``: checking the result."""

    load: float = 0.0
    compile: float = 0.0
    solve: float = 0.0
    verify: float = 0.0


class FamilyResult(Doc):
    """One family of preferences. ``family``: its name; ``value``: its points, before the multiplier; ``best``: the most it could have on
    its own; ``multiplier``: what a point counts in the soft tier."""

    family: str
    value: int
    best: int
    multiplier: int = 1


class WorkloadResult(Doc):
    """The preferences of one workload's pods. ``workload``: whose pods, Kind namespace/name; ``value``: the weighted points they gained;
    ``lost``: the weighted points they lack to have all they ask for."""

    workload: str
    value: int
    lost: int = 0


class Unmet(Doc):
    """A preference that was not met in full. ``workload``: whose it is; ``family``: the family it belongs to; ``preference``: what it asks
    for; ``pods``: how many pods lost points by it; ``lost``: the weighted points that they lost."""

    workload: str
    family: str
    preference: str
    pods: int
    lost: int


class Preferences(Doc):
    """How the soft tier comes about. ``families``: the points of each family; ``workloads``: who gained and lost; ``unmet``: preferences
    that were not met in full, the costliest first."""

    families: list[FamilyResult] = []
    workloads: list[WorkloadResult] = []
    unmet: list[Unmet] = []


class Placement(Doc):
    """A placement of all pending pods. ``snapshot``: what was placed, and how that was asked for; ``engine``: what made it, greedy, or
    exact or lns where CP-SAT took part; ``status``: optimal where every tier is proved, feasible where there is a placement, infeasible
    where it is proved that nothing can be placed, else unknown; ``objective``: the tiers, the first counts before all others;
    ``assignments``: pods with their nodes; ``unplaced``: pods without a node; ``gangs``: those with members to be placed; ``causes``: why
    pods are left, and what would help; ``rollout``: its waves, where one was asked for; ``unmodelled``: what of the input is not honoured;
    ``preferences``: where the soft tier comes from; ``policy``: the policy that the objective was computed under, where it is not the
    default; ``notes``: what a reader must know to read the proof (cuts, engine choice); ``seconds``: how long it took, absent in a
    deterministic run; ``search``: how incumbent and bound came about, where the run kept time."""

    snapshot: SnapshotRef
    engine: str
    status: Status
    objective: list[TierResult]
    assignments: list[Assignment]
    unplaced: list[Unplaced] = []
    gangs: list[GangResult] = []
    causes: list[Cause] = []
    rollout: Rollout | None = None
    unmodelled: list[Unmodelled] = []
    preferences: Preferences | None = None
    policy: Policy | None = None
    notes: list[str] = []
    seconds: Seconds | None = None
    search: list[SearchPoint] = []
    apiVersion: str = API_VERSION
    kind: str = "Placement"


#: Top-level order of the printed document (msgspec keeps declaration order, which puts defaulted fields last).
_ORDER: Final = (
    "apiVersion", "kind", "snapshot", "engine", "status", "objective", "assignments", "unplaced", "gangs", "causes", "rollout",
    "unmodelled", "preferences", "policy", "notes", "seconds", "search",
)  # fmt: skip


def to_builtins(placement: Placement) -> dict[str, Any]:
    """Plain dicts and lists, in the document's order. What a run does not have (``seconds`` and ``search`` of a deterministic one,
    ``preferences``, ``policy``, ``rollout``) is left out."""
    plain = msgspec.to_builtins(placement)
    return {key: plain[key] for key in _ORDER if plain[key] is not None and (key != "search" or plain[key])}


def from_builtins(plain: object) -> Placement:
    """Read a Placement document that was decoded from JSON or YAML.

    Raises:
        msgspec.ValidationError: a field is missing or has a wrong type; the message carries its path.
    """
    expect(plain, "Placement")
    return msgspec.convert(plain, Placement)


def expect(plain: object, kind: str) -> None:
    """That a decoded document says it is of this kind and version.

    Raises:
        msgspec.ValidationError: it does not.
    """
    if not isinstance(plain, dict):
        return  # what else is wrong with it says the conversion
    for field, wanted in (("apiVersion", API_VERSION), ("kind", kind)):
        if plain.get(field) != wanted:
            raise msgspec.ValidationError(f"expected {field} {wanted!r}, got {shorten(plain.get(field))} - at `$.{field}`")
