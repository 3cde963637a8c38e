"""The Placement document: what ``kubestow solve`` prints and ``kubestow verify`` judges.

Field names and meaning are those of the command specification; the document is versioned by ``apiVersion``.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from models.policy import Policy
from models.structure import shorten

API_VERSION: Final = "kubestow.dev/v1alpha1"

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


class Doc(msgspec.Struct, omit_defaults=False, forbid_unknown_fields=False):
    """Base of all document types."""


class Edits(Doc, omit_defaults=True):
    """What-if edits of a snapshot, each as the command line writes it: ``addNodes`` ``N:LIKE_NODE``, ``removeNodes`` names,
    ``removeDomains`` ``KEY=VALUE``, ``replicas`` ``NAME=N`` (NAME: ``[KIND/][NAMESPACE/]NAME``). ``partial``: manifests need not be placed
    whole."""

    addNodes: list[str] = []
    removeNodes: list[str] = []
    removeDomains: list[str] = []
    replicas: list[str] = []
    partial: bool = False


class SnapshotRef(Doc, omit_defaults=True):
    """Which snapshot a result belongs to.

    ``sha256`` is the hash of the input, ``nodes``/``pods`` its numbers of Node and Pod objects, ``pending`` the number of pods
    that were to be placed. ``fromScratch``: movable bound pods were treated as pending. ``includeGated``: pods with
    scheduling gates were placed too. ``daemonNamespaces``: namespaces exempt from hard anti-affinity. ``workloads``: manifests that were
    added (``Kind namespace/name``), ``edits``: what was changed before; both are part of the snapshot that the numbers speak of,
    ``sha256`` is of the input files, manifests included. ``rollout``: the Deployment whose new revision is placed, as it was named.
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
    """One tier of the lexicographic objective: its value, and a proven bound that no placement can beat."""

    tier: str
    value: int
    bound: int
    priority: int | None = None

    @property
    def gap(self) -> float:
        """|bound - value| / max(1, |value|)."""
        return abs(self.bound - self.value) / max(1, abs(self.value))


class SearchPoint(Doc, omit_defaults=True):
    """Incumbent and bound of a tier, ``seconds`` after the start of the search, whenever one of them changed; ``bound``: None while none is
    known."""

    tier: str
    seconds: float
    value: int
    bound: int | None = None
    priority: int | None = None


class ContainerZones(Doc):
    """The NUMA zones a container gets on its node."""

    name: str
    zones: list[str]


class Assignment(Doc):
    """A pod (``namespace/name``) goes to a node. ``order``: its place in the bind order, from 1; pods of one gang may share it."""

    pod: str
    node: str
    order: int
    gang: str | None = None
    containers: list[ContainerZones] = []


class Reason(Doc):
    """A rule (scheduler plugin name) that rejects a pod on ``nodes`` nodes; one node may be counted under several rules."""

    rule: str
    nodes: int
    message: str


class Unplaced(Doc, omit_defaults=True):
    """A pod without a node, with the rules that reject it once everything else is placed. A gated pod is listed with the one
    reason ``SchedulingGates``; it does not make a placement incomplete."""

    pod: str
    reasons: list[Reason]
    gang: str | None = None

    @property
    def gated(self) -> bool:
        return any(reason.rule == "SchedulingGates" for reason in self.reasons)


class GangResult(Doc):
    """A gang: how many of its ``pending`` members were placed (none, or at least ``needed``), and how many run already."""

    gang: str
    pending: int
    placed: int
    needed: int
    bound: int = 0
    topologyKey: str | None = None
    domain: str | None = None


class Fact(Doc, omit_defaults=True):
    """One rule or capacity of a cause. ``rule``: the scheduler plugin's name; ``object``: whose rule it is (``Pod``, ``Node``, ``Gang`` or
    workload, with its name); ``domain``: ``key=value`` where it concerns one topology domain; ``resource``: of a capacity; ``message``:
    the sentence."""

    rule: str
    object: str
    message: str
    domain: str | None = None
    resource: str | None = None


class WayOut(Doc, omit_defaults=True):
    """A change after which the pods can be placed, proved by solving again. ``change``: what kind; ``arguments``: of it; ``message``: the
    sentence; ``options``: of the command line that try it, where there are any."""

    change: str
    message: str
    arguments: dict[str, str] = {}
    options: list[str] = []


class Cause(Doc, omit_defaults=True):
    """Why pods (``pods``, ``namespace/name``, of ``gang`` if they are one) cannot be placed. ``facts`` together make it impossible; with
    ``minimal`` no smaller part of them does. ``alone``: impossible even without the other waiting pods; otherwise the others are taken
    where the result puts them. ``together``: how many of the pods are asked for at once: all that a gang needs, else one. ``waysOut``: the
    cheapest first."""

    pods: list[str]
    facts: list[Fact]
    gang: str | None = None
    alone: bool = True
    together: int = 1
    minimal: bool = False
    proved: bool = True
    waysOut: list[WayOut] = []


class RolloutPod(Doc):
    """A pod of the new revision gets a node. ``order``: its place in the bind order of the whole rollout, from 1."""

    pod: str
    node: str
    order: int


class Wave(Doc):
    """One round of a rollout: ``create``: pods that are placed; ``waiting``: pods created by now that nothing takes yet; then ``delete``:
    pods of old revisions that go."""

    wave: int
    create: list[RolloutPod]
    waiting: list[str]
    delete: list[str]


class Rollout(Doc):
    """A Deployment's (``Deployment namespace/name``) rollout, wave by wave; ``maxSurge`` and ``maxUnavailable`` in pods. Not ``complete``:
    it comes to a halt with pods that nothing takes (``stuck``); ``proved``: that is so whatever earlier waves choose. ``waysOut``: single
    changes with which it goes through."""

    workload: str
    strategy: Literal["RollingUpdate", "Recreate"]
    replicas: int
    maxSurge: int
    maxUnavailable: int
    complete: bool
    proved: bool
    waves: list[Wave] = []
    stuck: list[Unplaced] = []
    waysOut: list[WayOut] = []


class Unmodelled(Doc):
    """Something in the input that kubestow does not model. ``pod`` is ``namespace/name``, or ``Kind/name`` of another object."""

    pod: str
    field: str
    effect: str


class Seconds(Doc):
    """Wall-clock seconds per phase."""

    load: float = 0.0
    compile: float = 0.0
    solve: float = 0.0
    verify: float = 0.0


class FamilyResult(Doc):
    """One family of preferences: its raw points, the most it could have on its own, and what a point counts in the soft tier."""

    family: str
    value: int
    best: int
    multiplier: int = 1


class WorkloadResult(Doc):
    """What the preferences of one workload's pods (``Kind namespace/name``) gained, weighted, and what they lost against having all
    they ask for."""

    workload: str
    value: int
    lost: int = 0


class Unmet(Doc):
    """A preference that was not met in full: whose it is, what it asks for, how many pods lost how many weighted points by it."""

    workload: str
    family: str
    preference: str
    pods: int
    lost: int


class Preferences(Doc):
    """How the soft tier comes about. ``unmet``: the costliest first."""

    families: list[FamilyResult] = []
    workloads: list[WorkloadResult] = []
    unmet: list[Unmet] = []


class Placement(Doc):
    """A placement of all pending pods. ``notes`` says what a reader must know to read the proof (cuts, engine choice); ``policy`` is the
    policy that the objective was computed under, where it is not the default; ``search``: how incumbent and bound came about, where the run
    kept time."""

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
