"""Errors in manifests that are to become pods.

These are objects that the API server would reject, and selectors that miss their own pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from kubestow.models.cel import selectors as device_selectors
from kubestow.models.kube import defaults, device_objects, objects, workload_objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import near_names, plain, shorten
from kubestow.models.kube.selectors import Selector, canonical, selector_matches
from kubestow.models.kube.validation.texts import forbidden
from kubestow.models.numa.annotations import TAGS
from kubestow.models.snapshot.affinity_keys import PREFIXES, meant
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import OwnedPods
from kubestow.models.workloads.replicas import REPLICAS, stated_pods
from kubestow.models.workloads.view import WorkloadView, listed, priority_of, selector, view

_SELECTING: Final = (workload_objects.Deployment, workload_objects.ReplicaSet, workload_objects.StatefulSet, workload_objects.DaemonSet)


def problems(obj: Any, snapshot: Snapshot) -> Iterator[str]:
    """Yield the reasons why a workload cannot have pods.

    Source: pkg/apis/{apps,batch,core}/validation and the admission plugins Priority and RuntimeClass.

    Args:
        snapshot: Holds the classes of both inputs.
    """
    workload = view(obj)
    if workload is None:
        paths = {"CronJob": "spec.jobTemplate.spec.template", "PodTemplate": "template"}
        yield f"{paths.get(type(obj).__name__, 'spec.template')}.spec: missing, expected a pod template"
        return
    if isinstance(obj, _SELECTING):
        yield from _selector(workload, obj.spec.selector if obj.spec is not None else None)
    elif isinstance(obj, workload_objects.ReplicationController) and obj.spec is not None:
        yield from _selector(workload, objects.LabelSelector(matchLabels=obj.spec.selector))
    elif isinstance(obj, workload_objects.PodTemplate):
        for annotations in (obj.metadata.annotations, workload.annotations):
            text = (annotations or {}).get(REPLICAS, "1")
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                yield f"metadata.annotations[{REPLICAS}]: got {shorten(text)}, expected a whole number of at least 0"
    yield from hints(workload.template.metadata, workload.spec, f"{workload.path}.metadata")
    if isinstance(obj, workload_objects.StatefulSet):
        for i, template in enumerate((obj.spec.volumeClaimTemplates if obj.spec is not None else None) or ()):
            if template.metadata is None or not template.metadata.name:
                yield f"spec.volumeClaimTemplates[{i}].metadata.name: missing, expected text"
    yield from refused_classes(workload.spec, f"{workload.path}.spec", snapshot)
    yield from unknown_templates(workload.spec, workload.namespace, f"{workload.path}.spec", snapshot)


def hints(metadata: objects.ObjectMeta | None, spec: objects.PodSpec, path: str) -> Iterator[str]:
    """Yield the errors of container-affinity annotations: hints between containers, and tags of containers."""
    pod = objects.Pod(metadata or objects.ObjectMeta(), spec)
    for key in pod.metadata.annotations or ():
        near = meant(key)
        if near is not None:
            yield f"{path}.annotations: no policy reads the key {shorten(key)}; did you mean {near}?"
    if not any(key.startswith((*PREFIXES, TAGS)) for key in pod.metadata.annotations or ()):
        return
    from kubestow.models.numa.container_affinity import AnnotationError, parse, views

    for read in (parse, views):
        try:
            read(pod)
        except AnnotationError as error:
            yield f"{path}: {str(error).partition(': ')[2]}"


def refused_classes(spec: objects.PodSpec, path: str, snapshot: Snapshot) -> Iterator[str]:
    """Yield classes that neither input has, and contradictions to a PriorityClass or a RuntimeClass."""
    if priority_of(spec, snapshot) is None:
        name, near = shorten(spec.priorityClassName), near_names(spec.priorityClassName or "", snapshot.priority_classes)
        yield f"{path}.priorityClassName: no PriorityClass {name} in the input, expected it or {path}.priority{near}"
    yield from _stated_by_pods(spec, path, snapshot)
    try:
        defaults.with_runtime_class(spec, snapshot.runtime_classes)
    except defaults.RuntimeClassError as error:
        yield f"{path}.{error}"


def _stated_by_pods(spec: objects.PodSpec, path: str, snapshot: Snapshot) -> Iterator[str]:
    """Yield, in the API server's words, the preemption policy of a new pod that contradicts its PriorityClass."""
    stated, computed = spec.preemptionPolicy, defaults.admitted_preemption_policy(spec, snapshot.priority_classes)
    if stated and computed is not None and stated != computed:
        reason = f"the string value of PreemptionPolicy ({plain(stated)}) must not be provided in pod spec"
        computes = f"priority admission controller computed {computed} from the given PriorityClass name"
        yield f"{path}.preemptionPolicy: {forbidden(f'{reason}; {computes}')}"


def unknown_templates(spec: objects.PodSpec, namespace: str, path: str, snapshot: Snapshot) -> Iterator[str]:
    """Yield templates of device claims that neither input has. Pods without them wait indefinitely."""
    for index, entry in enumerate(spec.resourceClaims or ()):
        name = entry.resourceClaimTemplateName
        if name is not None and f"{namespace}/{name}" not in snapshot.resource_claim_templates:
            expected = f"no ResourceClaimTemplate {shorten(f'{namespace}/{name}')} in the input, expected it"
            yield f"{path}.resourceClaims[{index}].resourceClaimTemplateName: {expected}"


def unreadable_selectors(obj: Any, gates: FeatureGates) -> Iterator[str]:
    """Yield device selectors of a DeviceClass, ResourceClaim or ResourceClaimTemplate that an API server would reject."""
    if not device_selectors.available():
        return
    for path, selectors in _device_selectors(obj):
        for index, each in enumerate(selectors or ()):
            if each.cel is None:
                continue
            try:
                device_selectors.compile_selector(each.cel.expression, gates, new=True)
            except device_selectors.CelError as error:
                yield f"{path}[{index}].cel.expression: {error}"
            except device_selectors.UnsupportedExpression:
                continue


def _device_selectors(obj: Any) -> Iterator[tuple[str, list[device_objects.DeviceSelector] | None]]:
    if isinstance(obj, device_objects.DeviceClass):
        yield "spec.selectors", obj.spec.selectors if obj.spec is not None else None
        return
    template = isinstance(obj, device_objects.ResourceClaimTemplate)
    spec = (obj.spec.spec if obj.spec is not None else None) if template else obj.spec
    start = "spec.spec.devices.requests" if template else "spec.devices.requests"
    for i, request in enumerate((spec.devices.requests if spec is not None and spec.devices is not None else None) or ()):
        if request.exactly is not None:
            yield f"{start}[{i}].exactly.selectors", request.exactly.selectors
        for j, alternative in enumerate(request.firstAvailable or ()):
            yield f"{start}[{i}].firstAvailable[{j}].selectors", alternative.selectors


def _selector(workload: WorkloadView, label_selector: objects.LabelSelector | None) -> Iterator[str]:
    selector = canonical(label_selector)
    if not selector:
        yield "spec.selector: missing or empty, expected one that selects the template's labels"
    elif not selector_matches(selector, workload.labels):
        yield f"spec.selector: {describe(selector)} does not select the labels of {workload.path}, expected one that does"


def describe(selector: Selector) -> str:
    """Return a selector in kubectl's notation."""
    texts = {
        "In": "{key} in ({values})",
        "NotIn": "{key} notin ({values})",
        "Exists": "{key}",
        "DoesNotExist": "!{key}",
    }
    return ", ".join(
        f"{r.key}={r.values[0]}"
        if r.operator == "In" and len(r.values) == 1
        else texts.get(r.operator, "{key}").format(key=r.key, values=", ".join(r.values))
        for r in selector
    )


def held_by_buffers(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the PodTemplates that CapacityBuffers refer to. No pods are made from these."""
    found = set()
    for obj in snapshot.capacity_buffers.values():
        for part in (obj.spec, obj.status):
            if part is not None and part.podTemplateRef is not None:
                found.add((obj.metadata.namespace or "default", part.podTemplateRef.name or ""))
    return frozenset(found)


def is_held(obj: Any, buffered: Collection[tuple[str, str]]) -> bool:
    """Return True if an object is one of these PodTemplates."""
    return isinstance(obj, workload_objects.PodTemplate) and (obj.metadata.namespace or "default", obj.metadata.name or "") in buffered


def given_as_snapshot(snapshot: Snapshot) -> list[str]:
    """Return the workloads of a snapshot that want pods, have none, and were never stored: most likely manifests.

    An API server gives each object a uid, and its controller a status. A snapshot for a test may leave out both
    everywhere.
    """
    if snapshot.capture is not None and not any(node.metadata.uid for node in snapshot.nodes):
        return []
    found: list[str] = []
    pods: OwnedPods | None = None
    buffered = held_by_buffers(snapshot)
    for obj in listed(snapshot):
        if (
            obj.metadata.uid
            or is_held(obj, buffered)
            or getattr(obj, "status", None) not in (None, workload_objects.JobStatus())
            or objects.controller_of(obj) is not None
        ):
            continue
        workload = view(obj)
        if workload is None or (stated_pods(workload) == 0 and workload.kind != "DaemonSet"):
            continue
        pods = pods or OwnedPods(snapshot)
        name = workload.kind, workload.namespace, workload.name
        if not pods.of(*name, selector(obj)) and not pods.finished(*name):
            found.append(workload.ref)
    return found


class Audience:
    """The label sets of the snapshot's pods, by namespace."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._namespaces = snapshot.namespaces
        self._labels: dict[str, dict[tuple[tuple[str, str], ...], None]] = {}
        for pod in snapshot.pods:
            if not objects.is_terminal(pod):
                self._labels.setdefault(pod.metadata.namespace or "default", {})[tuple(sorted((pod.metadata.labels or {}).items()))] = None

    def anyone(self, selector: Selector | None, namespaces: Iterable[str] | None) -> bool:
        """Return True if the selector selects any pod in these namespaces (None: all)."""
        chosen = self._labels if namespaces is None else namespaces
        return any(selector_matches(selector, dict(labels)) for namespace in chosen for labels in self._labels.get(namespace, ()))

    def namespaces(self, term: objects.PodAffinityTerm, own: str) -> list[str]:
        """Return the namespaces with pods that an affinity term covers."""
        if not term.namespaces and term.namespaceSelector is None:
            return [own]
        selector = canonical(term.namespaceSelector)
        return [
            namespace
            for namespace in self._labels
            if namespace in (term.namespaces or ()) or selector_matches(selector, self._namespace_labels(namespace))
        ]

    def _namespace_labels(self, name: str) -> dict[str, str]:
        namespace = self._namespaces.get(name)
        labels = namespace.metadata.labels if namespace is not None else None
        return {"kubernetes.io/metadata.name": name, **(labels or {})}


def misses(spec: objects.PodSpec, namespace: str, path: str, audience: Audience) -> list[str]:
    """Return the required anti-affinity terms and spread constraints whose selector selects no pod of the input.

    Not even the template's own pods are selected. Such a rule has no effect, so it was most likely meant for
    other labels.
    """
    found: list[str] = []
    anti = spec.affinity.podAntiAffinity if spec.affinity else None
    terms: Sequence[objects.PodAffinityTerm] = (anti.requiredDuringSchedulingIgnoredDuringExecution if anti else None) or ()
    for i, term in enumerate(terms):
        selector = canonical(term.labelSelector)
        if selector is not None and not audience.anyone(selector, audience.namespaces(term, namespace)):
            where = f"{path}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[{i}]"
            found.append(f"{where}.labelSelector: {describe(selector)} selects no pod of the input, its own included: it has no effect")
    for i, constraint in enumerate(spec.topologySpreadConstraints or ()):
        selector = canonical(constraint.labelSelector)
        if selector is not None and not audience.anyone(selector, [namespace]):
            where = f"{path}.topologySpreadConstraints[{i}]"
            found.append(f"{where}.labelSelector: {describe(selector)} selects no pod of the input, its own included: it has no effect")
    return found
