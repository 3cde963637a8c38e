"""Everything a cluster's dump and manifests say: files, directories, standard input or plain objects to one :class:`Snapshot`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Final

from kubestow.models.helm import hooks as helm_hooks
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
from kubestow.models.snapshot import api_types, bundles, duplicate_keys, interning, settling, sources, workload_status
from kubestow.models.snapshot.capture_info import Capture, capture_info
from kubestow.models.snapshot.decode import Reader, identity_of
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.object_names import LABEL_TEXT, NameCheck, is_label, key_of
from kubestow.models.snapshot.unknown_fields import FieldCheck, NotUnderstood, field_check
from kubestow.models.snapshot.yaml_reader import YamlError, documents

_LARGE_YAML: Final = 10_000_000  # bytes; beyond this a hint is due: YAML reads about a hundred times slower than JSON


class InputError(Exception):
    """Bad input: one line per problem, each naming file, object and field path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass
class Snapshot:
    """All objects of the input, defaulted as the API server would, in input order.
    Equal pods share what is below ``metadata`` and ``spec``, and their ``status``: replace such parts, never change them in place.
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
    ignored: dict[str, int] = field(default_factory=dict)  # other kinds: how many
    unread: list[settling.UnreadTemplates] = field(default_factory=list)  # objects of other kinds with pod templates, if nobody stored them
    custom_objects: dict[tuple[str, str], str] = field(default_factory=dict)  # new ones: (namespace, name) -> kind
    warnings: list[str] = field(default_factory=list)
    omissions: list[str] = field(default_factory=list)  # what is not taken into account, a sentence each; --strict refuses it
    closed_by: dict[str, closed_nodes.ClosedBy] = field(default_factory=dict)  # nodes with the mark of a run of apply, which count as open
    assumed: list[str] = field(default_factory=list)  # what is taken otherwise than the objects have it, a sentence each
    capture: Capture | None = None
    sha256: str = ""
    left_out: list[objects.Pod] = field(default_factory=list)  # pods of the cluster that are not placed, and count in quotas all the same
    to_create: list[str] = field(default_factory=list)  # pods that are no objects of the cluster yet, in the order of their creation
    chosen_here: frozenset[str] = frozenset()  # pods whose node is this run's choice: quotas charge for them as for pods without a node
    sources: dict[str, str] = field(default_factory=dict)  # of manifests: "Kind namespace/name" -> file
    hooks: list[helm_hooks.Hook] = field(default_factory=list)  # of manifests, those of Helm, in the order in which they run
    unscaled: set[str] = field(default_factory=set)  # of manifests: "Kind namespace/name" of those that state no replicas
    not_understood: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by pod: fields of later versions, what becomes of them
    shared_gpus: str = "none"  # the system whose shared GPUs are read as devices, as the policy names it
    admission_plugins: frozenset[str] = frozenset()  # that are off by default and on here, as the policy names them
    gates: FeatureGates = DEFAULT_GATES  # by which Kubernetes version and feature gates its rules are read

    @property
    def notes(self) -> list[str]:
        """Return what a reader of any result must know of its input."""
        return [*self.assumed, *self.omissions]

    def counts(self) -> dict[str, int]:
        """Return how many objects of each kind were read, in the order of the kinds table; kinds without objects are left out."""
        counts = {name: len(self.collection(name)) for name in kinds.KINDS}
        return {name: count for name, count in counts.items() if count}

    def copy(self) -> Snapshot:
        """Return a snapshot of the same objects whose lists and dicts may be changed."""
        found = replace(self)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, list | dict | set):
                setattr(found, each.name, value.copy())
        found.workloads = {kind: list(listed) for kind, listed in self.workloads.items()}
        return found

    def collection(self, kind: str) -> Any:
        """Return the list or dict that holds a kind."""
        return self.workloads.get(kind, []) if kind in kinds.WORKLOADS else getattr(self, kinds.FIELDS[kind])


def load(
    paths: Sequence[str],
    *,
    manifests: bool = False,
    unknown_fields: bool = False,
    namespace: str | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> Snapshot:
    """Read files, directories (recursively) and ``-`` (standard input), JSON or YAML, gzip or not, into one snapshot.

    ``manifests``: what is read is to be added to a cluster (:func:`kubestow.models.workloads.expand.expand`), so that what its objects
    decide (priority by class, default storage class) is left open. Fields and kinds that Kubernetes lacks are bad input there;
    with ``unknown_fields`` such fields are let through. ``namespace``: that of objects which name none, ``default`` if it is not given.
    ``gates``: of the API server that is to take manifests.

    Raises:
        InputError: anything unreadable, malformed, invalid, or duplicate with other content; all of it, not only the first.
    """
    if namespace is not None and not is_label(namespace):
        raise InputError([f"namespace {shorten(namespace)}: {LABEL_TEXT}"])
    intake = _Intake(validate=True, manifests=manifests, gates=gates)
    fields = field_check(intake.problem if manifests else None, gates, intake.not_understood, lenient=unknown_fields)
    reader = Reader(intake, manifests=manifests, fields=fields)
    reader.namespace = namespace or reader.namespace
    digests: list[bytes] = []
    with no_gc():
        for path, directory in sources.files(paths, lambda path, message: intake.problem(path, "", message)):
            label = sources.label(path)
            try:
                data = sources.read(path)
            except ValueError as error:
                intake.problem(label, "", str(error))
                continue
            overlay = bundles.overlay(data, path) if manifests else None
            as_json = bundles.reads_as_json(data, label)
            if overlay is None and directory is not None and bundles.is_stray(data, path, as_json=as_json):
                intake.versioned(bundles.server_version(data, path))
                intake.stray.setdefault(directory, []).append(os.path.relpath(path, directory))
                continue
            refusal = overlay or sources.foreign_text(data)
            if refusal is not None:
                intake.problem(label, "", refusal)
                continue
            intake.gathered, reader.implied = (False, (None, None)) if directory is None else (True, bundles.implied(path))
            with duplicate_keys.looking_through(data, digests, as_json) as twice:
                _read(intake, reader, data, label, as_json)
            for name, message in twice:
                intake.problem(label, name, message)
            del data
        snapshot = intake.finish()
    if fields is not None:
        snapshot.warnings += fields.warnings()
    snapshot.sha256 = sources.combine(digests)
    return snapshot


def from_json(data: bytes, label: str) -> Snapshot:
    """Return the snapshot that :func:`load` reads of a file with this JSON, in which no object has a field twice. ``label`` stands for the
    file.

    Raises:
        InputError: as for :func:`load`.
    """
    intake = _Intake(validate=True)
    fields = FieldCheck(None, intake.not_understood)
    with no_gc():
        Reader(intake, fields=fields).json(data, label)
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
    """Return a snapshot of plain API objects (Lists are unfolded), as :func:`load` makes it of their JSON; ``manifests`` and ``gates`` as
    there, and without ``unknown_fields`` such fields of manifests are bad input.

    With ``validate=False`` objects need only have the API's structure: what an API server would refuse (no name, an empty topologyKey, a
    malformed quantity) is let through, and later objects of a name replace or join earlier ones.

    Raises:
        InputError: as for :func:`load`; the place in ``items`` stands for the file.
    """
    intake = _Intake(validate=validate, manifests=manifests, gates=gates)
    fields = field_check(intake.problem if (manifests and validate) or not unknown_fields else None, gates, lenient=unknown_fields)
    reader = Reader(intake, names=validate, manifests=manifests and validate, fields=fields)
    digests: list[bytes] = []
    with no_gc():
        for index, item in enumerate(items):
            reader.plain(item, f"objects[{index}]", "")
            digests.append(sources.fingerprint(item))
        snapshot = intake.finish()
    snapshot.sha256 = sources.combine(digests)
    return snapshot


def _read(intake: _Intake, reader: Reader, data: bytes, label: str, as_json: bool) -> None:
    if as_json:
        reader.json(data, label)
        return
    if len(data) > _LARGE_YAML:
        intake.warn(f"{label}: {len(data) // 1_000_000} MB of YAML take long to read; JSON (kubectl get -o json) is read at once")
    found = 0
    try:
        for number, document in enumerate(documents(data), 1):
            if document is not None:
                found += 1
                reader.plain(document, label, f"document {number}")
    except YamlError as error:
        intake.problem(label, "", str(error))
        return
    if not found:
        intake.problem(label, "", "holds no objects, expected JSON or YAML of Kubernetes objects")


class _Intake:
    """Takes objects as they are decoded: trims, checks, defaults and files them."""

    def __init__(self, *, validate: bool, manifests: bool = False, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._validate = validate
        self._manifests = manifests
        self._taken_by = gates if manifests else None
        self._snapshot = Snapshot()
        self._problems: list[str] = []
        self._pool = interning.Pool(self._taken_by)
        self._names = NameCheck()
        self._seen: dict[str, dict[str, tuple[Any, str]]] = {name: {} for name in kinds.KINDS}
        self._foreign: Counter[tuple[str, str]] = Counter()  # kinds that Kubernetes itself does not have
        self._bad_classes: set[str] = set()  # kinds of which objects are malformed
        self.not_understood = NotUnderstood()
        self.gathered = False  # whether what is read now is from a directory
        self.stray: dict[str, list[str]] = {}  # files without objects, by directory
        self._again: list[str] = []

    def warn(self, message: str) -> None:
        self._snapshot.warnings.append(message)

    def problem(self, source: str, where: str, message: str) -> None:
        self._problems.append(": ".join(part for part in (plain(source, None), plain(where), plain(message)) if part))

    def omit(self, message: str) -> None:
        if message not in self._snapshot.omissions:
            self._snapshot.omissions.append(message)

    def listed(self, metadata: object) -> None:
        found, known = capture_info(metadata), self._snapshot.capture
        for sentence in found.left_out if found is not None else ():
            self.omit(f"the snapshot lacks something: {sentence}")
        if found is not None and (known is None or found.time > known.time):
            self._snapshot.capture = found

    def versioned(self, server_version: str | None) -> None:
        """Take the server's version from a file that holds nothing else; a capture's own counts first."""
        known = self._snapshot.capture or Capture()
        if server_version and not known.server_version:
            self._snapshot.capture = replace(known, server_version=server_version)

    def ignore(self, unread: api_types.Unread) -> None:
        kind, api_version = unread.kind, unread.api_version
        document = api_types.ignored_document(unread)
        if document is not None:
            self.warn(document)
        elif not api_types.is_kubernetes(api_version, kind):
            unread = unread._replace(value=cache(unread.value))
            self._foreign[api_version or "", kind] += 1
            key = settling.new_custom_object(unread)
            self._snapshot.custom_objects |= {key: plain(kind)} if key is not None else {}
            found = settling.unread_templates(unread)
            self._snapshot.unread += [found] if found is not None and (self._manifests or not found.stored) else []
        self._snapshot.ignored[kind] = self._snapshot.ignored.get(kind, 0) + 1

    def found(self, kind: kinds.Kind, obj: Any, source: str, *, known: bool = False) -> bool:
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
        """Return whether no object of this name came before; one with other content is a problem."""
        key = key_of(kind, obj)
        known = self._seen[kind.name].setdefault(key, (obj, source))
        if known[0] is obj:
            return True
        if workload_status.lasting(known[0]) == workload_status.lasting(obj):
            return False
        if self.gathered and obj.metadata.uid and known[0].metadata.uid:
            self._again.append(identity_of(kind, obj))  # as a must-gather has them: listed first, then one by one
        else:
            self.problem(source, identity_of(kind, obj), f"already in {known[1]} with other content, expected each object once")
        return False

    def _file(self, kind: kinds.Kind, obj: Any) -> None:
        if kind.name in kinds.WORKLOADS:
            self._snapshot.workloads.setdefault(kind.name, []).append(obj)
            return
        into: Any = getattr(self._snapshot, kinds.FIELDS[kind.name])
        if isinstance(into, list):
            into.append(obj)
        else:
            into[key_of(kind, obj)] = obj

    # --- what needs all objects -------------------------------------------------------------------------------------

    def finish(self) -> Snapshot:
        """Settle what depends on other objects.

        Raises:
            InputError: anything was wrong.
        """
        if self._taken_by is not None:
            self._snapshot.gates = self._taken_by
            self._snapshot.hooks, told = helm_hooks.set_aside(self._snapshot.pods, self._snapshot.workloads)
            for sentence in (*told, *settling.without_pods(self._foreign, self._snapshot.ignored)):
                self.omit(sentence)
            self._snapshot.sources = {identity_of(kinds.KINDS[n], o): s for n, seen in self._seen.items() for o, s in seen.values()}
            self._snapshot.sources |= {each.ref: each.source for each in self._snapshot.unread}
        else:
            self._classes()
            found = self._snapshot
            settling.storage_classes(found.storage_classes.values(), found.persistent_volume_claims.values())
            found.warnings += settling.lost_pods(found.nodes, found.pods)
            found.gates, _ = settling.gates_of(found.capture, found.nodes)
            for api_version, kind in self._foreign:
                if api_types.is_own_group(api_version):
                    self.warn(f"{plain(api_version)} of Kubernetes has no kind {shorten(kind)} that is known here: it is not read")
        self._snapshot.closed_by = closed_nodes.marks(self._snapshot.nodes)
        self._snapshot.assumed += [plain(text) for text in closed_nodes.open_all(self._snapshot.nodes)]
        for name in pod_requests.unknown_resources(self._snapshot.pods):
            self.warn(f"requests for {shorten(name)} are ignored: no resource that the scheduler knows, and not of the form domain/name")
        self._snapshot.omissions += [plain(bundles.skipped(directory, names), None) for directory, names in self.stray.items()]
        if self._again:
            self.warn(f"read more than once, with other content: the first counts of {settling.some_of(self._again, 'object')}")
        self._snapshot.omissions += map(plain, self.not_understood.sentences())
        self._snapshot.not_understood = self.not_understood.of_pods
        if self._problems:
            raise InputError(self._problems)
        return self._snapshot

    def _classes(self) -> None:
        """Fill in what pods have of their RuntimeClasses, then of their PriorityClasses. The former looks for pods without a priority."""
        found = self._snapshot
        runtime = settling.runtime_classes(found.pods, found.runtime_classes, refuse=self._validate)
        priority = settling.priorities(found.pods, found.priority_classes, refuse=self._validate)
        for kind, (refused, warnings) in (("RuntimeClass", runtime), ("PriorityClass", priority)):
            found.warnings += warnings
            for pod, why in refused if kind not in self._bad_classes else ():
                key = objects.pod_key(pod)
                self.problem(self._seen["Pod"][key][1], f"Pod {key}", f"spec.{why}")
