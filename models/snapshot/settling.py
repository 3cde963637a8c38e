"""Data of a snapshot that depend on several objects: default classes, pods on missing nodes, the version.

Also finds pod templates in objects of kinds that are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from kubestow.models.kube import defaults, objects
from kubestow.models.kube.feature_gates import DEFAULT_VERSION, FeatureGates, GateError, feature_gates, nearest, newest
from kubestow.models.kube.lenient_decode import near_names, plain, shorten, some
from kubestow.models.kube.namespace_limits import RuntimeClass
from kubestow.models.kube.storage_objects import PersistentVolumeClaim, StorageClass
from kubestow.models.snapshot.api_types import Unread
from kubestow.models.snapshot.capture_info import Capture

#: Lists of containers in a pod spec; ``steps`` is that of Tekton's tasks.
_CONTAINER_LISTS: Final = ("containers", "initContainers", "steps")
#: Single containers, as in Argo's workflows.
_SINGLE_CONTAINERS: Final = ("container", "script")
#: Names of containers (DNS-1123 labels). Patterns of policies, such as ``*``, do not match.
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
#: Parts of an object from which no controller makes pods.
_NO_PODS: Final = ("metadata", "status")


class ClassedPods(Protocol):
    """The part of a snapshot that :func:`classes` reads."""

    pods: list[objects.Pod]
    runtime_classes: dict[str, RuntimeClass]
    priority_classes: dict[str, objects.PriorityClass]
    warnings: list[str]


class UnreadTemplates(NamedTuple):
    """An object with pod templates, of a kind that is not read.

    Attributes:
        ref: ``Kind namespace/name``.
        api_version: Its apiVersion; "" if it states none.
        paths: The fields that hold pod specs.
        source: The file.
        stored: True if an API server has stored it; its pods are then objects of their own.
        reason: The reason why an object of a known kind is not read; empty for unknown kinds.
    """

    ref: str
    api_version: str
    paths: tuple[str, ...]
    source: str
    stored: bool
    reason: str = ""


def _plain_value(unread: Unread) -> Mapping[str, Any]:
    """Return an object of a kind that is not read as plain data; empty if it is no readable mapping."""
    try:
        value = unread.value()
    except (msgspec.DecodeError, RecursionError, ValueError):  # invalid numbers, excessive nesting: no pod template of any API
        return {}
    return value if isinstance(value, Mapping) else {}


def new_custom_object(unread: Unread) -> tuple[str, str] | None:
    """Return namespace and name of an object of a kind that is not read, if it has a name and is not stored yet."""
    given = _plain_value(unread).get("metadata")
    metadata = given if isinstance(given, Mapping) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace") or unread.namespace
    if metadata.get("uid") or not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return namespace, name


def unread_templates(unread: Unread) -> UnreadTemplates | None:
    """Return the pod templates anywhere in an object of a kind that is not read; None if it has none."""
    value = _plain_value(unread)
    paths = tuple(path for key, below in value.items() if key not in _NO_PODS for path in _pod_specs(below, plain(str(key))))
    if not paths:
        return None
    given = value.get("metadata")
    metadata = given if isinstance(given, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    ref = plain(f"{unread.kind} {metadata.get('namespace') or unread.namespace}/{name}")
    return UnreadTemplates(ref, plain(unread.api_version or ""), paths, unread.source, stored=bool(metadata.get("uid")))


def _pod_specs(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of values with containers, as in a pod spec, in document order."""
    waiting: list[tuple[Any, str]] = [(value, path)]
    while waiting:
        part, where = waiting.pop()
        if isinstance(part, Mapping):
            if _has_containers(part):
                yield where
                continue
            waiting += [(below, f"{where}.{plain(str(key))}") for key, below in reversed(list(part.items()))]
        elif isinstance(part, list | tuple):
            waiting += [(below, f"{where}[{i}]") for i, below in reversed(list(enumerate(part)))]


def _has_containers(value: Mapping[Any, Any]) -> bool:
    if any(isinstance(value.get(key), Mapping) and isinstance(value[key].get("image"), str) for key in _SINGLE_CONTAINERS):
        return True
    lists = [listed for key in _CONTAINER_LISTS if isinstance(listed := value.get(key), list | tuple) and listed]
    return any(all(map(_is_container, listed)) for listed in lists)


def _is_container(value: Any) -> bool:
    """Return True if plain data has the name of a container, or an image and no name."""
    if not isinstance(value, Mapping):
        return False
    name = value.get("name")
    return isinstance(value.get("image"), str) if name is None else isinstance(name, str) and _LABEL.fullmatch(name) is not None


#: Pods that an API server would reject, each with the field below ``spec`` and the problem; and warnings about
#: others.
Settled = tuple[list[tuple[objects.Pod, str]], list[str]]


def runtime_classes(pods: Iterable[objects.Pod], classes: Mapping[str, RuntimeClass], *, refuse: bool) -> Settled:
    """Apply RuntimeClasses to pods that no API server has stored (no uid, no priority). Change the pods in place.

    Replicas keep sharing the parts of their specs.

    Args:
        refuse: Return waiting pods for which this fails, each with the reason, instead of a note on them.

    Returns:
        The refused pods with their reasons, and notes on the other pods for which this fails.
    """
    refused: list[tuple[objects.Pod, str]] = []
    without: dict[str, list[str]] = {}
    known: dict[tuple[object, ...], objects.PodSpec] = {}
    for pod in pods:
        spec = pod.spec
        if spec.runtimeClassName is None or spec.priority is not None or pod.metadata.uid:
            continue
        if spec.overhead and spec.runtimeClassName not in classes:
            continue  # it has been admitted: only the plugin sets an overhead
        parts = spec.runtimeClassName, id(spec.overhead), id(spec.nodeSelector), id(spec.tolerations)
        try:
            made = known.setdefault(parts, defaults.with_runtime_class(spec, classes))
        except defaults.RuntimeClassError as error:
            if refuse and objects.is_waiting(pod):
                refused.append((pod, str(error)))
            else:
                without.setdefault(str(error), []).append(objects.pod_key(pod))
            continue
        pod.spec = msgspec.structs.replace(spec, overhead=made.overhead, nodeSelector=made.nodeSelector, tolerations=made.tolerations)
    return refused, [f"RuntimeClass not applied to {some_of(names, 'pod')}: spec.{why}" for why, names in without.items()]


def priorities(pods: Iterable[objects.Pod], classes: Mapping[str, objects.PriorityClass], *, refuse: bool) -> Settled:
    """Give pods without a priority the priority and preemption policy of their class. Change the pods in place.

    Pods of an unknown class get priority 0.

    Args:
        refuse: Return waiting pods of an unknown class, each with the reason, instead of a note on them.

    Returns:
        The refused pods with their reasons, and notes on the other pods of unknown classes.
    """
    default = defaults.default_priority(classes.values())
    refused: list[tuple[objects.Pod, str]] = []
    unknown: dict[str, list[str]] = {}
    for pod in pods:
        spec = pod.spec
        if spec.priority is not None:
            continue
        value = defaults.priority(spec, classes) if spec.priorityClassName else default
        if value is None:
            value = 0
            if refuse and objects.is_waiting(pod):
                name = spec.priorityClassName or ""
                why = f"no PriorityClass {shorten(name)} in the input, expected it or spec.priority{near_names(name, classes)}"
                refused.append((pod, f"priorityClassName: {why}"))
            else:
                unknown.setdefault(spec.priorityClassName or "", []).append(objects.pod_key(pod))
        spec.priority = value
        spec.preemptionPolicy = defaults.preemption_policy(spec, classes)
    return refused, [
        f"priority class {shorten(name)} is not in the snapshot: priority 0 for {some_of(names, 'pod')}{near_names(name, classes)}"
        for name, names in unknown.items()
    ]


def classes(snapshot: ClassedPods, *, refuse: bool) -> Iterator[tuple[str, objects.Pod, str]]:
    """Apply RuntimeClasses to the pods of a snapshot, then PriorityClasses. The former skip pods that already have a priority.

    Yields:
        The kind of class, the refused pod, and the field below ``spec`` with the problem.
    """
    runtime = runtime_classes(snapshot.pods, snapshot.runtime_classes, refuse=refuse)
    priority = priorities(snapshot.pods, snapshot.priority_classes, refuse=refuse)
    for kind, (refused, warnings) in (("RuntimeClass", runtime), ("PriorityClass", priority)):
        snapshot.warnings += warnings
        yield from ((kind, pod, why) for pod, why in refused)


def plain_workload(workloads: Mapping[str, Sequence[Any]], kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
    """Return a workload of Kubernetes' own kinds as plain data; None if there is none of that name."""
    for obj in workloads.get(kind, ()):
        if obj.metadata.name == name and (obj.metadata.namespace or "default") == namespace:
            found: Mapping[str, Any] = msgspec.to_builtins(obj)
            return found
    return None


def storage_classes(classes: Collection[StorageClass], claims: Collection[PersistentVolumeClaim]) -> None:
    """Give claims without a storage class the default one. Change the claims in place."""
    default = defaults.default_storage_class(classes)
    if default is None:
        return
    for claim in claims:
        if claim.spec is not None and claim.spec.storageClassName is None and not claim.spec.volumeName:
            claim.spec.storageClassName = default


def lost_pods(nodes: Sequence[objects.Node], pods: Sequence[objects.Pod]) -> list[str]:
    """Return a warning if pods run on nodes that the snapshot lacks."""
    names = {node.metadata.name for node in nodes}
    lost = [p.spec.nodeName for p in pods if p.spec.nodeName and p.spec.nodeName not in names and not objects.is_terminal(p)]
    run = "pods run" if len(lost) > 1 else "pod runs"
    return [f"{len(lost)} {run} on nodes that the snapshot lacks: {some(list(dict.fromkeys(lost)))}"] if lost else []


def gates_of(
    capture: Capture | None, nodes: Sequence[objects.Node], version: str | None = None, given: Mapping[str, bool] | None = None
) -> tuple[FeatureGates, list[str]]:
    """Return the version and feature gates whose rules apply to a snapshot, and the notes on them.

    Without ``version``, this is the server's version if the snapshot has it. Otherwise it is the newest
    kubelet's, since no server is older than its kubelets, or else the default. An unknown version is replaced
    by the nearest known one.

    Args:
        version: The requested version.

    Raises:
        GateError: Not a version, or a gate that the version lacks or has locked to another value.
    """
    server = capture.server_version if capture is not None else None
    newest_version = newest([version or server])
    if version is not None and newest_version is None:
        raise GateError(f"kubernetesVersion: got {shorten(version)}, expected a version such as {DEFAULT_VERSION}")
    notes = []
    if newest_version is None:
        newest_version = newest(node.status.nodeInfo.kubeletVersion for node in nodes if node.status and node.status.nodeInfo)
        if newest_version is not None:
            notes.append(
                f"the snapshot does not state the server's version: assumed to be that of the newest kubelet, Kubernetes {newest_version}"
            )
    if newest_version is None and server:
        notes.append(f"the server's version {shorten(server)} cannot be read: judged by the rules of Kubernetes {DEFAULT_VERSION}")
    judged = DEFAULT_VERSION if newest_version is None else nearest(newest_version)
    if newest_version not in (None, judged):
        notes.append(f"the rules of Kubernetes {newest_version} are not known: using those of {judged}, the nearest known version")
    return feature_gates(judged, given or {}), notes


def some_of(names: Sequence[str], noun: str) -> str:
    """Return the number of objects with their noun, and the first names."""
    return f"{len(names)} {noun}{'s' if len(names) > 1 else ''} ({some(names)})"


def groups_alone(groups: int, workloads: int) -> list[str]:
    """Return a note on PodGroups and Workloads of manifests without any pods.

    Args:
        groups: Number of PodGroups.
        workloads: Number of Workloads of scheduling.k8s.io.
    """
    counts = {"PodGroup": groups, "Workload": workloads}
    listed = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count)
    return [f"objects that only group pods, and no pods: {listed}"] if listed else []


def without_pods(foreign: Mapping[tuple[str, str], int], ignored: Mapping[str, int]) -> list[str]:
    """Return notes on objects of manifests that create no pods here, although controllers may create some in a
    cluster.

    Args:
        foreign: Number of objects by apiVersion and kind, of kinds that Kubernetes lacks.
        ignored: Number of objects by kind, of kinds that are not read.
    """
    counts: Counter[str] = Counter()
    for (_, kind), count in foreign.items():
        counts[plain(kind)] += count
    found = []
    if counts:
        listed = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
        found.append(f"{counts.total()} object{'s' if counts.total() > 1 else ''} of kinds that create no pods here: {listed}")
    scalers = ignored.get("HorizontalPodAutoscaler", 0)
    if scalers:
        found.append(f"replicas set by {scalers} HorizontalPodAutoscaler{'s' if scalers > 1 else ''}: spec.replicas counts instead")
    return found
