"""Data that placement depends on: requests, node labels, allocatable resources and priority classes."""

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
#: Deprecated labels and their replacements.
DEPRECATED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
RESOURCES: Final = ("cpu", "memory")

REQUESTS: Final = Code(
    "KS801", "missing-requests", "warning", "Containers request no cpu or no memory",
    "The scheduler counts them as 0, so nodes get overcommitted. Placements by kubestow have the same blind spot.",
    "Set requests according to the usage of the containers, or define defaults in a LimitRange of the namespace.",
)  # fmt: skip
BEST: Final = Code(
    "KS802", "best-effort-with-priority", "info", "Pods with a priority above 0 have neither requests nor limits",
    "They may preempt other pods, yet they are the first to be killed when a node runs short of memory.",
    "Set requests, or remove the priority class.",
)  # fmt: skip
LABELS: Final = Code(
    "KS803", "node-without-topology-label", "warning", "Nodes lack a topology label that other nodes have or rules use",
    "Rules over this label ignore such nodes: spread constraints and affinity never select them, and anti-affinity has no effect there.",
    "Label the nodes. Normally the kubelet sets the hostname, and the cloud provider sets zone and region.",
)  # fmt: skip
HOSTNAME: Final = Code(
    "KS804", "hostname-shared", "warning", "Several nodes have the same value of kubernetes.io/hostname",
    "Anti-affinity and spread over the hostname treat them as one node, so only one node gets a pod with anti-affinity to itself.",
    "Give each node its own value. A usual cause is a cloned node or a copied label.",
)  # fmt: skip
ALLOCATABLE: Final = Code(
    "KS805", "node-without-allocatable", "error", "A node has no allocatable cpu, memory or pods",
    "No pod that requests the missing resource can be placed there. Without allocatable pods, no pod can be placed at all.",
    "Check that the kubelet runs and reports its status. In a manifest, set status.allocatable.",
)  # fmt: skip
BETA: Final = Code(
    "KS806", "deprecated-label-differs", "warning",
    "A node's deprecated topology label differs from its replacement",
    "Rules over the two labels see different zones or regions for the same node.",
    "Give both the same value, or remove the deprecated label and change rules to the current one.",
)  # fmt: skip
DEFAULTS: Final = Code(
    "KS807", "several-default-priorities", "warning", "More than one PriorityClass is the global default",
    "The one with the lowest value applies, and the others have no effect as defaults.",
    "Set globalDefault on one PriorityClass only.",
)  # fmt: skip
REGIONS: Final = Code(
    "KS808", "zone-in-several-regions", "warning", "A zone name occurs in several regions",
    "Rules over zones treat the zones of different regions as one zone.",
    "Use zone names that are unique across regions, such as REGION-1.",
)  # fmt: skip
UNITS: Final = Code(
    "KS810", "memory-without-unit", "warning", "Containers have requests or limits below 1 MiB of memory or local storage",
    "The scheduler counts almost nothing, and a container with such a limit is killed at once. The suffix m means thousandths of a byte.",
    "Write the intended unit: 128Mi instead of 128m, and 1Gi instead of 1024.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (REQUESTS, BEST, LABELS, HOSTNAME, ALLOCATABLE, BETA, DEFAULTS, REGIONS, UNITS)
#: Bytes. Smaller amounts are certainly mistakes: container runtimes refuse memory limits below 6 MB.
_MIN_PLAUSIBLE_BYTES: Final = 2**20
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
    """Yield findings about containers without requests, and about BestEffort pods with a priority.

    Running pods take precedence over the template, because admission may have added requests.
    """
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
    """Return the app containers and sidecars without a request for a resource. A request of 0 counts as set."""
    if spec.resources is not None and name in (spec.resources.requests or {}):
        return []
    containers: list[Container] = [*(spec.containers or ()), *(c for c in spec.initContainers or () if c.restartPolicy == "Always")]
    return [c.name or "" for c in containers if name not in ((c.resources.requests if c.resources is not None else None) or {})]


def _units(view: ClusterView, subject: Subject) -> Iterator[Finding]:
    """Yield a finding about amounts in bytes that are implausibly small, probably because of a wrong unit.

    Running pods take precedence over the template, as in :func:`_requests`.
    """
    pod = view.snapshot.pods[subject.pods[0]] if subject.pods else subject.pod
    texts, field = [], ""
    for path, found in _stated(pod.spec):
        for name in _IN_BYTES:
            value = quantity.parse(found[name]) if name in found else 0
            if 0 < value < _MIN_PLAUSIBLE_BYTES:
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
    """Return the requests field of a container that has none."""
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.initContainers)):
        for i, each in enumerate(containers or ()):
            if (each.name or "") == container:
                return f"{kind}[{i}].resources.requests"
    return "containers"


# --- labels of nodes ----------------------------------------------------------------------------------------------------


def _labels(view: ClusterView) -> Iterator[Finding]:
    subject_by_key: dict[str, str] = {}
    required: set[str] = set()
    for subject in view.subjects:
        for key, hard in _asked(subject.pod):
            subject_by_key.setdefault(key, subject.name)
            if hard:
                required.add(key)
    old = {new: key for key, new in DEPRECATED.items()}
    for key in (HOST, ZONE, REGION):
        codes, _ = view.nodes.column(key)
        lacking = [view.nodes.names[n] for n in range(view.nodes.size) if codes[n] < 0]
        if not lacking or (len(lacking) == view.nodes.size and key not in subject_by_key):
            continue
        why = f"{subject_by_key[key]} has a rule over it" if key in subject_by_key else f"{view.nodes.size - len(lacking)} others have it"
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
    """Yield the topology keys of a pod's own rules, each with True if the rule is required."""
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
    """Return a node's allocatable resources, or its capacity if they are missing, as the API server does."""
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
