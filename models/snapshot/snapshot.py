"""The content of a cluster's dump and manifests, read from files, standard input or plain objects."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from typing import Any

from kubestow.models.custom_workloads.collected import CustomObjects
from kubestow.models.custom_workloads.generated_names import GeneratedNames
from kubestow.models.helm import hooks as helm_hooks
from kubestow.models.input_error import InputError as InputError
from kubestow.models.kube import (
    closed_nodes,
    defaults,
    device_objects,
    kinds,
    namespace_limits,
    objects,
    pod_requests,
    storage_objects,
    topology_objects,
    workload_objects,
)
from kubestow.models.kube.feature_gates import DEFAULT as DEFAULT_GATES
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import plain, shorten
from kubestow.models.kube.validation import stored
from kubestow.models.kube.validation.kinds import problems as validation_problems
from kubestow.models.kube.workload_objects import PodSet
from kubestow.models.snapshot import api_types, duplicate_keys, interning, settling, sources, workload_status
from kubestow.models.snapshot.capture_info import Capture, capture_info
from kubestow.models.snapshot.decode import DocumentReader, identity_of
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.object_names import LABEL_TEXT, NameCheck, is_label, key_of
from kubestow.models.snapshot.texts import bundles, exports, inputs
from kubestow.models.snapshot.unknown_fields import FieldCheck, NotUnderstood, field_check, template_fields


@dataclass
class Snapshot:
    """All objects of the input, defaulted as by the API server, in input order.

    Equal pods share their ``status`` and the parts below ``metadata`` and ``spec``. Replace such parts, never
    change them.
    """

    nodes: list[objects.Node] = field(default_factory=list)
    pods: list[objects.Pod] = field(default_factory=list)
    namespaces: dict[str, objects.Namespace] = field(default_factory=dict)
    priority_classes: dict[str, objects.PriorityClass] = field(default_factory=dict)
    persistent_volumes: dict[str, storage_objects.PersistentVolume] = field(default_factory=dict)
    persistent_volume_claims: dict[str, storage_objects.PersistentVolumeClaim] = field(default_factory=dict)  # "namespace/name"
    storage_classes: dict[str, storage_objects.StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, storage_objects.CSINode] = field(default_factory=dict)
    csi_drivers: dict[str, storage_objects.CSIDriver] = field(default_factory=dict)
    resource_slices: dict[str, device_objects.ResourceSlice] = field(default_factory=dict)
    device_classes: dict[str, device_objects.DeviceClass] = field(default_factory=dict)
    device_taint_rules: dict[str, device_objects.DeviceTaintRule] = field(default_factory=dict)
    resource_claims: dict[str, device_objects.ResourceClaim] = field(default_factory=dict)  # "namespace/name"
    resource_claim_templates: dict[str, device_objects.ResourceClaimTemplate] = field(default_factory=dict)  # "namespace/name"
    node_topologies: dict[str, topology_objects.NodeResourceTopology] = field(default_factory=dict)
    balloons_policies: dict[str, topology_objects.BalloonsPolicy] = field(default_factory=dict)  # "namespace/name"
    topology_aware_policies: dict[str, topology_objects.TopologyAwarePolicy] = field(default_factory=dict)  # "namespace/name"
    capacity_buffers: dict[str, workload_objects.CapacityBuffer] = field(default_factory=dict)  # "namespace/name"
    pod_disruption_budgets: list[workload_objects.PodDisruptionBudget] = field(default_factory=list)
    eviction_requests: dict[str, workload_objects.EvictionRequest] = field(default_factory=dict)  # "namespace/name"
    services: list[objects.Service] = field(default_factory=list)
    resource_quotas: dict[str, namespace_limits.ResourceQuota] = field(default_factory=dict)  # "namespace/name"
    limit_ranges: dict[str, namespace_limits.LimitRange] = field(default_factory=dict)  # "namespace/name"
    runtime_classes: dict[str, namespace_limits.RuntimeClass] = field(default_factory=dict)
    service_accounts: dict[str, objects.ServiceAccount] = field(default_factory=dict)  # "namespace/name"
    pod_groups: list[workload_objects.PodGroup] = field(default_factory=list)
    scheduling_workloads: dict[str, workload_objects.Workload] = field(default_factory=dict)  # "namespace/name"
    workloads: dict[str, list[Any]] = field(default_factory=dict)  # kind -> objects (Deployment, ReplicaSet, ...)
    ignored: dict[str, int] = field(default_factory=dict)  # numbers of objects of other kinds
    # objects of other kinds with pod templates that no API server has stored
    unread: list[settling.UnreadTemplates] = field(default_factory=list)
    custom_objects: dict[tuple[str, str], str] = field(default_factory=dict)  # not stored yet: (namespace, name) -> kind
    warnings: list[str] = field(default_factory=list)
    omissions: list[str] = field(default_factory=list)  # data that are not taken into account, one sentence each; --strict rejects them
    closed_by: dict[str, closed_nodes.ClosedBy] = field(default_factory=dict)  # nodes with the mark of a run of apply, which count as open
    assumed: list[str] = field(default_factory=list)  # deviations from the objects as given, one sentence each
    capture: Capture | None = None
    sha256: str = ""
    left_out: list[objects.Pod] = field(default_factory=list)  # pods that are not placed but count in quotas
    to_create: list[str] = field(default_factory=list)  # pods that are not in the cluster yet, in the order of creation
    chosen_here: frozenset[str] = frozenset()  # pods whose node this run chose: quotas treat them as unbound
    sources: dict[str, str] = field(default_factory=dict)  # of manifests: "Kind namespace/name" -> file
    hooks: list[helm_hooks.Hook] = field(default_factory=list)  # of manifests: Helm's hooks, in the order in which they run
    unscaled: set[str] = field(default_factory=set)  # of manifests: "Kind namespace/name" of objects without replicas
    not_understood: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by pod: fields of later versions and their effect
    shared_gpus: str = "none"  # the system whose shared GPUs are read as devices, as named in the policy
    admission_plugins: frozenset[str] = frozenset()  # plugins that are on here but off by default, as named in the policy
    gates: FeatureGates = DEFAULT_GATES  # the Kubernetes version and feature gates whose rules apply

    @property
    def notes(self) -> list[str]:
        """The notes on the input for readers of any result."""
        return [*self.assumed, *self.omissions]

    def counts(self) -> dict[str, int]:
        """Return the number of objects read per kind, in the order of the kinds table, without kinds that have none."""
        counts = {name: len(self.collection(name)) for name in kinds.KINDS}
        return {name: count for name, count in counts.items() if count}

    def copy(self) -> Snapshot:
        """Return a snapshot of the same objects with copies of its lists and dicts."""
        copied = replace(self)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, list | dict | set):
                setattr(copied, each.name, value.copy())
        copied.workloads = {kind: list(listed) for kind, listed in self.workloads.items()}
        return copied

    def collection(self, kind: str) -> Any:
        """Return the list or dict that holds a kind."""
        return self.workloads.get(kind, []) if kind not in kinds.FIELDS else getattr(self, kinds.FIELDS[kind])


def load(
    paths: Sequence[str],
    *,
    manifests: bool = False,
    unknown_fields: bool = False,
    namespace: str | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> Snapshot:
    """Read JSON or YAML, compressed or not, from files, directories (recursively), archives (.tar, .zip) and ``-`` (standard input).

    Args:
        manifests: The objects are to be added to a cluster (:func:`kubestow.models.workloads.expand.expand`).
            Defaults from other objects stay open, and fields and kinds that Kubernetes lacks are bad input.
        unknown_fields: Allow unknown fields in manifests.
        namespace: Namespace of objects that state none (default: ``default``).
        gates: Feature gates of the API server that is to accept manifests.

    Raises:
        InputError: All unreadable, malformed or invalid input, and duplicates with other content.
    """
    if namespace is not None and not is_label(namespace):
        raise InputError([f"namespace {shorten(namespace)}: {LABEL_TEXT}"])
    intake = _Intake(validate=True, manifests=manifests, gates=gates)
    fields = field_check(intake.problem if manifests else None, gates, intake.not_understood, lenient=unknown_fields)
    intake.lenient = unknown_fields
    reader = DocumentReader(intake, manifests=manifests, fields=fields)
    reader.namespace = namespace or reader.namespace
    digests: list[bytes] = []
    with no_gc():
        for text in inputs.texts(paths, lambda path, message: intake.problem(path, "", message)):
            overlay = bundles.overlay(text.data, text.path) if manifests else None
            if overlay is None and text.group is not None and bundles.is_stray(text.data, text.path, as_json=text.as_json):
                intake.versioned(bundles.server_version(text.data, text.path))
                intake.stray.setdefault(text.group, []).append(os.path.relpath(text.path, text.group))
                continue
            refusal = overlay or exports.refusal(text.data)
            if refusal is not None:
                intake.problem(text.label, "", refusal)
                continue
            intake.gathered, reader.implied = (False, (None, None)) if text.group is None else (True, bundles.implied(text.path))
            digests.append(sources.digest(text.data))
            bundles.read_objects(reader, intake, text.data, text.label, as_json=text.as_json)
            for name, message in duplicate_keys.problems(text.data) if text.as_json else ():
                intake.problem(text.label, name, message)
            del text
        snapshot = intake.finish()
    if fields is not None:
        snapshot.warnings += fields.warnings()
    snapshot.sha256 = sources.combine(digests)
    return snapshot


def from_json(data: bytes, label: str) -> Snapshot:
    """Return the snapshot that :func:`load` reads from a file with this JSON, without a check for duplicate keys.

    Raises:
        InputError: See :func:`load`.
    """
    intake = _Intake(validate=True)
    fields = FieldCheck(None, intake.not_understood)
    with no_gc():
        DocumentReader(intake, fields=fields).json(data, label)
        snapshot = intake.finish()
    snapshot.warnings += fields.warnings()
    snapshot.sha256 = sources.combine([sources.digest(data)])
    return snapshot


def from_objects(
    items: Iterable[Mapping[str, Any]],
    *,
    validate: bool = True,
    manifests: bool = False,
    unknown_fields: bool = True,
    gates: FeatureGates = DEFAULT_GATES,
) -> Snapshot:
    """Return a snapshot of plain API objects, as :func:`load` reads it from their JSON. Lists are unfolded.

    Args:
        validate: If False, accept objects that an API server would reject but that have the API's structure (no
            name, an empty topologyKey, a malformed quantity). Later objects of a name then replace or join
            earlier ones.
        manifests, gates, unknown_fields: See :func:`load`.

    Raises:
        InputError: See :func:`load`; the index in ``items`` replaces the file.
    """
    intake = _Intake(validate=validate, manifests=manifests, gates=gates)
    fields = field_check(intake.problem if (manifests and validate) or not unknown_fields else None, gates, lenient=unknown_fields)
    intake.lenient = unknown_fields
    reader = DocumentReader(intake, names=validate, manifests=manifests and validate, fields=fields)
    digests: list[bytes] = []
    with no_gc():
        for index, item in enumerate(items):
            reader.plain(item, f"objects[{index}]", "")
            digests.append(sources.fingerprint(item))
        snapshot = intake.finish()
    snapshot.sha256 = sources.combine(digests)
    return snapshot


class _Intake:
    """Trims, checks, defaults and stores objects as they are decoded."""

    def __init__(self, *, validate: bool, manifests: bool = False, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._validate = validate
        self._manifests = manifests
        self._taken_by = gates if manifests else None
        self._snapshot = Snapshot()
        self._problems: list[str] = []
        self._pool = interning.PodPool(self._taken_by)
        self._names = NameCheck()
        self._seen: dict[str, dict[str, tuple[Any, str]]] = {name: {} for name in kinds.KINDS}
        self._generated = GeneratedNames()
        self._custom = CustomObjects(self._generated, manifests=manifests)
        self.lenient = False  # allow unknown fields in manifests
        self._foreign: Counter[tuple[str, str]] = Counter()  # kinds that Kubernetes itself lacks
        self._bad_classes: set[str] = set()  # kinds with malformed objects
        self.not_understood = NotUnderstood()
        self.gathered = False  # True while reading from a directory
        self.stray: dict[str, list[str]] = {}  # files without objects, by directory
        self._again: list[str] = []

    def warn(self, message: str) -> None:
        self._snapshot.warnings.append(message)

    def problem(self, source: str, where: str, message: str) -> None:
        self._problems.append(": ".join(part for part in (plain(source, None), plain(where), plain(message)) if part))

    def unresolved(self, ref: str, api_version: str, path: str, source: str, reason: str) -> None:
        self._snapshot.unread.append(settling.UnreadTemplates(ref, api_version, (path,), source, False, reason))

    def omit(self, message: str) -> None:
        if message not in self._snapshot.omissions:
            self._snapshot.omissions.append(message)

    def stand_in(self, ref: str, kind: str, metadata: objects.ObjectMeta) -> str | None:
        if not (self._manifests and metadata.generateName):
            return None
        name = self._generated.stand_in(kind, metadata.generateName)
        self.omit(f"{plain(ref)}: is named {plain(name)} here, as an API server would generate its name")
        return name

    def listed(self, metadata: object) -> None:
        info, known = capture_info(metadata), self._snapshot.capture
        for sentence in info.left_out if info is not None else ():
            self.omit(f"the snapshot lacks something: {sentence}")
        if info is not None and (known is None or info.time > known.time):
            self._snapshot.capture = info

    def versioned(self, server_version: str | None) -> None:
        """Set the server's version from a file without other content. A capture's own version takes precedence."""
        known = self._snapshot.capture or Capture()
        if server_version and not known.server_version:
            self._snapshot.capture = replace(known, server_version=server_version)

    def ignore(self, unread: api_types.Unread) -> Iterable[tuple[str, Mapping[str, Any]]]:
        unread = unread._replace(value=cache(unread.value))
        kind, api_version = unread.kind, unread.api_version
        inner = self._custom.take(kind, api_version, unread.value, unread.source, unread.namespace)
        if inner is not None:
            return inner
        document = api_types.ignored_document(unread)
        if document is not None:
            self.warn(document)
        elif not api_types.is_kubernetes(api_version, kind):
            self._foreign[api_version or "", kind] += 1
            key = settling.new_custom_object(unread)
            self._snapshot.custom_objects |= {key: plain(kind)} if key is not None else {}
            templates = settling.unread_templates(unread)
            self._snapshot.unread += [templates] if templates is not None and (self._manifests or not templates.stored) else []
        self._snapshot.ignored[kind] = self._snapshot.ignored.get(kind, 0) + 1
        return ()

    def accept(self, kind: kinds.Kind, obj: Any, source: str, *, known: bool = False) -> bool:
        interning.trim(obj.metadata)
        workload_status.trim(obj)
        if kind.name == "Pod":
            problems = self._pool.pod(obj, validate=self._validate, known=known)
        else:
            problems = validation_problems(obj, self._taken_by) if self._validate else []
            if self._manifests and getattr(getattr(obj, "spec", None), "replicas", 1) is None:
                self._snapshot.unscaled.add(identity_of(kind, obj))
            defaults.apply(obj)
        if self._validate:
            if problems and obj.metadata.uid is not None and self._taken_by is None:
                problems, unknown = stored.forgive(obj, problems)
                for each in unknown:
                    self.not_understood.note(identity_of(kind, obj), each.field, f"{each.value} is not known here: {each.effect}")
            problems = self._names.problems(kind, obj) + problems
        for problem in problems:
            self.problem(source, identity_of(kind, obj), problem)
        if problems:
            self._bad_classes.add(kind.name)
        elif not self._validate or self._first(kind, obj, source):
            self._file(kind, obj)
        return not problems

    def _first(self, kind: kinds.Kind, obj: Any, source: str) -> bool:
        """Return True if no object of this name came before. One with other content is a problem."""
        key = key_of(kind, obj)
        known = self._seen.setdefault(kind.name, {}).setdefault(key, (obj, source))
        if known[0] is obj:
            return True
        if workload_status.lasting(known[0]) == workload_status.lasting(obj):
            return False
        if self.gathered and obj.metadata.uid and known[0].metadata.uid:
            self._again.append(identity_of(kind, obj))  # must-gathers have objects twice: in lists, then one by one
        else:
            self.problem(source, identity_of(kind, obj), f"already in {known[1]} with other content, expected each object once")
        return False

    def _file(self, kind: kinds.Kind, obj: Any) -> None:
        if kind.name in kinds.WORKLOADS or isinstance(obj, PodSet):
            self._snapshot.workloads.setdefault(kind.name, []).append(obj)
            return
        into: Any = getattr(self._snapshot, kinds.FIELDS[kind.name])
        if isinstance(into, list):
            into.append(obj)
        else:
            into[key_of(kind, obj)] = obj

    def finish(self) -> Snapshot:
        """Settle data that depend on other objects; raise InputError if anything was wrong."""
        native = partial(settling.plain_workload, self._snapshot.workloads)
        self._custom.settle(self, native, template_fields, strict=self._manifests, lenient=self.lenient)
        if self._taken_by is not None:
            self._snapshot.gates = self._taken_by
            self._snapshot.hooks, hook_notes = helm_hooks.set_aside(self._snapshot.pods, self._snapshot.workloads)
            for sentence in (*hook_notes, *settling.without_pods(self._foreign, self._snapshot.ignored)):
                self.omit(sentence)
            if not self._snapshot.pods and not any(self._snapshot.workloads.values()):
                for sentence in settling.groups_alone(len(self._snapshot.pod_groups), len(self._snapshot.scheduling_workloads)):
                    self.omit(sentence)
            self._snapshot.sources = {identity_of(kinds.kind_of(o), o): s for seen in self._seen.values() for o, s in seen.values()}
            self._snapshot.sources |= {each.ref: each.source for each in self._snapshot.unread}
        else:
            snapshot = self._snapshot
            for kind, pod, why in settling.classes(snapshot, refuse=self._validate):
                if kind not in self._bad_classes:
                    key = objects.pod_key(pod)
                    self.problem(self._seen["Pod"][key][1], f"Pod {key}", f"spec.{why}")
            settling.storage_classes(snapshot.storage_classes.values(), snapshot.persistent_volume_claims.values())
            snapshot.warnings += settling.lost_pods(snapshot.nodes, snapshot.pods)
            snapshot.gates, _ = settling.gates_of(snapshot.capture, snapshot.nodes)
            for api_version, kind in self._foreign:
                if api_types.is_own_group(api_version):
                    self.warn(f"{plain(api_version)} of Kubernetes has no kind {shorten(kind)} that is known here: it is not read")
        self._snapshot.closed_by = closed_nodes.marks(self._snapshot.nodes)
        self._snapshot.assumed += [plain(text) for text in closed_nodes.open_all(self._snapshot.nodes)]
        for name in pod_requests.unknown_resources(self._snapshot.pods):
            self.warn(f"requests for {shorten(name)} are ignored: no resource that the scheduler knows, and not of the form domain/name")
        self._snapshot.omissions += [plain(bundles.skipped(directory, names), None) for directory, names in self.stray.items()]
        if self._again:
            self.warn(f"read more than once with different content, the first one counts: {settling.some_of(self._again, 'object')}")
        self._snapshot.omissions += map(plain, self.not_understood.sentences())
        self._snapshot.not_understood = self.not_understood.of_pods
        if self._problems:
            raise InputError(self._problems)
        return self._snapshot
