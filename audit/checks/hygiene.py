"""What placement has to work with: requests, node labels and allocatable, priority classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.documents.findings.audit import Finding, Severity
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Container, Node, NodeStatus, Pod, PodSpec, ResourceList
from kubestow.models.kube.pod_spec import BEST_EFFORT, affinity_terms, qos_class

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
#: Labels of old, with those that took their place.
DEPRECATED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
RESOURCES: Final = ("cpu", "memory")

REQUESTS: Final = Code(
    "KS801", "missing-requests", "warning", "Containers that request no cpu or no memory",
    "The scheduler counts them as nothing, so that nodes are filled beyond what they have, and every placement here is as blind.",
    "State requests by what the containers use, or let a LimitRange of the namespace fill them in.",
)  # fmt: skip
BEST: Final = Code(
    "KS802", "best-effort-with-priority", "info", "Pods with a priority above 0 that request and limit nothing",
    "They may preempt others to be placed, and are still the first that a node short of memory kills.",
    "State requests, or drop the priority class.",
)  # fmt: skip
LABELS: Final = Code(
    "KS803", "node-without-topology-label", "warning", "Nodes without a topology label that others have, or that rules ask for",
    "Rules over this label do not see such nodes: spread constraints and affinity never choose them, anti-affinity keeps none apart there.",
    "Label the nodes; the kubelet sets the hostname, the cloud provider zone and region.",
)  # fmt: skip
HOSTNAME: Final = Code(
    "KS804", "hostname-shared", "warning", "Several nodes with one value of kubernetes.io/hostname",
    "Anti-affinity and spread over the hostname take them for one node: at most one of them gets a pod that minds its own kind.",
    "Give each node its own value; most often a node was cloned, or the label copied.",
)  # fmt: skip
ALLOCATABLE: Final = Code(
    "KS805", "node-without-allocatable", "error", "A node that states no allocatable cpu, memory or number of pods",
    "No pod that asks for it can be placed there; without a number of pods none at all.",
    "See whether the kubelet runs and reports; in a manifest state status.allocatable.",
)  # fmt: skip
BETA: Final = Code(
    "KS806", "deprecated-label-differs", "warning",
    "A node whose deprecated topology label says something else than the one that took its place",
    "Rules written over one and the other see different zones or regions for the same node.",
    "Give both the same value, or remove the deprecated one and move rules to the current one.",
)  # fmt: skip
DEFAULTS: Final = Code(
    "KS807", "several-default-priorities", "warning", "More than one PriorityClass is the global default",
    "Of several the lowest value counts, which is hardly what the others were marked for.",
    "Leave globalDefault on one PriorityClass.",
)  # fmt: skip
REGIONS: Final = Code(
    "KS808", "zone-in-several-regions", "warning", "A zone label whose value occurs in several regions",
    "Rules over zones take zones of different regions for one.",
    "Give zones names that are unique over all regions, such as REGION-1.",
)  # fmt: skip
UNITS: Final = Code(
    "KS810", "memory-without-unit", "warning", "Containers that request or are limited to less than a mebibyte of memory or local storage",
    "The scheduler counts almost nothing, and a container with such a limit is killed at once. The suffix m means thousandths of a byte.",
    "Write the unit that was meant: 128Mi, not 128m, and 1Gi, not 1024.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (REQUESTS, BEST, LABELS, HOSTNAME, ALLOCATABLE, BETA, DEFAULTS, REGIONS, UNITS)
#: Bytes that no container gets along with: container runtimes refuse limits of memory below 6 MB.
_SMALLEST: Final = 2**20
_IN_BYTES: Final = ("memory", "ephemeral-storage")


def check(view: ClusterView) -> Iterator[Finding]:
    for subject in view.subjects:
        yield from _requests(view, subject)
        yield from _units(view, subject)
    nodes = view.snapshot.nodes
    if nodes:
        yield from _labels(view)
        yield from _hostnames(nodes)
        yield from _allocatable(nodes)
        yield from _deprecated(nodes)
        yield from _regions(nodes)
    yield from _priorities(view)


# --- requests -----------------------------------------------------------------------------------------------------------


def _requests(view: ClusterView, subject: Subject) -> Iterator[Finding]:
    """Of pods that run it is they that count: admission may have filled in what the template lacks."""
    pod = view.snapshot.pods[subject.pods[0]] if subject.pods else subject.pod
    bare = {name: _without(pod.spec, name) for name in RESOURCES}
    names = list(dict.fromkeys(container for containers in bare.values() for container in containers))
    if not names:
        return
    texts = [f"{container} requests no {' and no '.join(n for n in RESOURCES if container in bare[n])}" for container in names]
    field, pods = f"{subject.path}.{_bare(pod.spec, names[0])}", view.keys(subject.pods)
    severity: Severity = "warning" if subject.wanted and subject.kind != "DaemonSet" else "info"
    yield REQUESTS.found(subject.name, some(texts), field=field, pods=pods, severity=severity)
    priority = pod.spec.priority or 0
    if priority > 0 and qos_class(pod) == BEST_EFFORT:
        which = f" ({pod.spec.priorityClassName})" if pod.spec.priorityClassName else ""
        yield BEST.found(subject.name, f"priority {priority}{which} in the quality-of-service class BestEffort", field=field, pods=pods)


def _without(spec: PodSpec, name: str) -> list[str]:
    """App containers and sidecars without a request for a resource; a request of 0 is a statement, too."""
    if spec.resources is not None and name in (spec.resources.requests or {}):
        return []
    containers: list[Container] = [*(spec.containers or ()), *(c for c in spec.initContainers or () if c.restartPolicy == "Always")]
    return [c.name or "" for c in containers if name not in ((c.resources.requests if c.resources is not None else None) or {})]


def _units(view: ClusterView, subject: Subject) -> Iterator[Finding]:
    """Of pods that run it is they that count, as in :func:`_requests`."""
    pod = view.snapshot.pods[subject.pods[0]] if subject.pods else subject.pod
    texts, field = [], ""
    for path, found in _stated(pod.spec):
        for name in _IN_BYTES:
            value = quantity.parse(found[name]) if name in found else 0
            if 0 < value < _SMALLEST:
                unit = "thousandths of a byte" if str(found[name]).endswith("m") else "bytes"
                texts.append(f"{path}.{name} {found[name]} is in {unit}")
                field = field or f"{subject.path}.{path}.{name}"
    if texts:
        yield UNITS.found(subject.name, some(texts), field=field, pods=view.keys(subject.pods))


def _stated(spec: PodSpec) -> Iterator[tuple[str, ResourceList]]:
    """Yield the requests and limits of the pod and its containers, each with its field in the pod spec."""
    parts = [("resources", spec.resources)]
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.initContainers)):
        parts += [(f"{kind}[{i}].resources", container.resources) for i, container in enumerate(containers or ())]
    for path, found in parts:
        if found is not None:
            yield from ((f"{path}.{name}", listed) for name in ("requests", "limits") if (listed := getattr(found, name)))


def _bare(spec: PodSpec, container: str) -> str:
    """Return the field that a container without requests lacks."""
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.initContainers)):
        for i, each in enumerate(containers or ()):
            if (each.name or "") == container:
                return f"{kind}[{i}].resources.requests"
    return "containers"


# --- labels of nodes ----------------------------------------------------------------------------------------------------


def _labels(view: ClusterView) -> Iterator[Finding]:
    asked: dict[str, str] = {}
    required: set[str] = set()
    for subject in view.subjects:
        for key, hard in _asked(subject.pod):
            asked.setdefault(key, subject.name)
            if hard:
                required.add(key)
    old = {new: key for key, new in DEPRECATED.items()}
    for key in (HOST, ZONE, REGION):
        codes, _ = view.nodes.column(key)
        lacking = [view.nodes.names[n] for n in range(view.nodes.size) if codes[n] < 0]
        if not lacking or (len(lacking) == view.nodes.size and key not in asked):
            continue
        why = f"{asked[key]} has a rule over it" if key in asked else f"{view.nodes.size - len(lacking)} others have it"
        text = f"without {key}: {len(lacking)} of {view.nodes.size} nodes ({some(lacking)}); {why}"
        if key in old and all(view.nodes.column(old[key])[0][view.node_index[name]] >= 0 for name in lacking):
            text += f"; they have the deprecated {old[key]}"
        yield LABELS.found(
            f"Node {lacking[0]}" if len(lacking) == 1 else "Nodes",
            text,
            field=f"metadata.labels[{key}]",
            nodes=lacking,
            severity="info" if key not in required and (key == REGION or len(lacking) == view.nodes.size) else None,
        )


def _asked(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The topology keys of a pod's own rules, and whether they are required."""
    for constraint in pod.spec.topologySpreadConstraints or ():
        yield constraint.topologyKey, constraint.whenUnsatisfiable == "DoNotSchedule"
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from ((term.topologyKey, required) for term, required in affinity_terms(pod, kind))


def _hostnames(nodes: list[Node]) -> Iterator[Finding]:
    found: dict[str, list[str]] = {}
    for node in nodes:
        value = (node.metadata.labels or {}).get(HOST)
        if value is not None:
            found.setdefault(value, []).append(node.metadata.name or "")
    for value, names in found.items():
        if len(names) > 1:
            text = f"{some(names)} all have {value}"
            yield HOSTNAME.found(f"Node {names[0]}", text, field=f"metadata.labels[{HOST}]", nodes=names, domain=f"{HOST}={value}")


def _deprecated(nodes: list[Node]) -> Iterator[Finding]:
    for node in nodes:
        labels = node.metadata.labels or {}
        for old, new in DEPRECATED.items():
            if old in labels and new in labels and labels[old] != labels[new]:
                text = f"{old} is {labels[old]}, {new} is {labels[new]}"
                yield BETA.found(f"Node {node.metadata.name}", text, field=f"metadata.labels[{old}]", nodes=[node.metadata.name or ""])


def _regions(nodes: list[Node]) -> Iterator[Finding]:
    found: dict[str, dict[str, list[str]]] = {}
    for node in nodes:
        labels = node.metadata.labels or {}
        if ZONE in labels and REGION in labels:
            found.setdefault(labels[ZONE], {}).setdefault(labels[REGION], []).append(node.metadata.name or "")
    for zone, regions in found.items():
        if len(regions) > 1:
            first = [names[0] for names in regions.values()]
            text = f"zone {zone} occurs in the regions {some(list(regions))}"
            yield REGIONS.found(f"Node {first[0]}", text, field=f"metadata.labels[{ZONE}]", nodes=first, domain=f"{ZONE}={zone}")


# --- others -------------------------------------------------------------------------------------------------------------


def stated(node: Node) -> dict[str, str | int | float]:
    """Return what a node has to give; its capacity where it says nothing of that, as the API server fills it in."""
    status = node.status or NodeStatus()
    return (status.allocatable if status.allocatable is not None else status.capacity) or {}


def _allocatable(nodes: list[Node]) -> Iterator[Finding]:
    for node in nodes:
        given = stated(node)
        lacking = [name for name in (*RESOURCES, "pods") if name not in given or quantity.parse(given[name]) <= 0]
        if lacking:
            text = f"status.allocatable has no {', no '.join(lacking)}"
            yield ALLOCATABLE.found(f"Node {node.metadata.name}", text, field="status.allocatable", nodes=[node.metadata.name or ""])


def _priorities(view: ClusterView) -> Iterator[Finding]:
    classes = [c for c in view.snapshot.priority_classes.values() if c.globalDefault]
    if len(classes) > 1:
        classes.sort(key=lambda c: (c.value, c.metadata.name or ""))
        names = [f"{c.metadata.name} ({c.value})" for c in classes]
        text = f"{some(names)} are; {classes[0].metadata.name} counts"
        yield DEFAULTS.found(f"PriorityClass {classes[0].metadata.name}", text, field="globalDefault")
