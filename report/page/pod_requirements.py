"""Requirements of a pod on nodes, independent of other pods, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kubestow.models.kube import objects, pod_requests
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import host_ports, required_features
from kubestow.report.documents import numbers
from kubestow.report.page import words

#: Resources that a shape shows separately.
_SHOWN: Final = ("cpu", "memory")


class PodRule(NamedTuple):
    """A sentence about a pod.

    Attributes:
        rule: Plugin or kind.
        text: The sentence.
        workloads: Workloads that its selector matches. None: it has no selector, or matches very many.
    """

    rule: str
    text: str
    workloads: tuple[int, ...] | None = None


def priority(spec: objects.PodSpec) -> Iterator[PodRule]:
    """Yield the priority unless it is 0."""
    if spec.priorityClassName or spec.priority:
        named = f"class {spec.priorityClassName}, " if spec.priorityClassName else ""
        never = ", never preempts" if spec.preemptionPolicy == "Never" else ""
        yield PodRule("Priority", f"{named}priority {spec.priority or 0:,}{never}")


def gates(spec: objects.PodSpec) -> Iterator[PodRule]:
    """Yield the pod's scheduling gates."""
    if spec.schedulingGates:
        yield PodRule("SchedulingGates", f"waits for {words.listed([gate.name for gate in spec.schedulingGates])}")


def resources(request: dict[str, int], spec: objects.PodSpec) -> Iterator[PodRule]:
    """Yield the requests that a shape does not show: other resources, pod-level requests, overhead."""
    found = [f"{name} {numbers.amount(name, value)}" for name, value in sorted(request.items()) if name not in _SHOWN]
    if found:
        yield PodRule("NodeResourcesFit", f"also requests {words.listed(found)}")
    stated = pod_requests.allocatable(spec.resources.requests if spec.resources is not None else None)
    whole = [f"{name} {numbers.amount(name, value)}" for name, value in sorted(stated.items()) if pod_requests.pod_level_resource(name)]
    if whole:
        yield PodRule("NodeResourcesFit", f"requests {words.listed(whole)} at pod level, regardless of its containers")
    overhead = pod_requests.allocatable(spec.overhead)
    if overhead:
        of = [f"{name} {numbers.amount(name, value)}" for name, value in sorted(overhead.items())]
        yield PodRule("NodeResourcesFit", f"its requests include an overhead of {words.listed(of)}")


def node_selector(spec: objects.PodSpec) -> Iterator[PodRule]:
    """Yield the required node labels."""
    if spec.nodeSelector:
        yield PodRule("NodeAffinity", f"only on nodes with {words.labels(spec.nodeSelector)}")


def features(spec: objects.PodSpec, gates: FeatureGates) -> Iterator[PodRule]:
    """Yield the kubelet features that the node must declare."""
    found = required_features(spec)
    if found and gates.enabled("NodeDeclaredFeatures"):
        yield PodRule("NodeDeclaredFeatures", f"only on nodes whose kubelet declares {words.listed(found)}")


def operating_system(spec: objects.PodSpec) -> Iterator[PodRule]:
    """Yield the required operating system."""
    if spec.os is not None and spec.os.name:
        yield PodRule("PodOS", f"only on nodes that run {spec.os.name}")


def daemon(pod: Pod) -> bool:
    """Return True if a DaemonSet owns the pod."""
    owner = objects.controller_of(pod)
    return owner is not None and owner.kind == "DaemonSet"


def node_affinity(pod: Pod) -> Iterator[PodRule]:
    """Yield required and preferred node affinity."""
    found = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    if found is None:
        return
    stays = found.requiredDuringSchedulingRequiredDuringExecution
    for required, also in ((found.requiredDuringSchedulingIgnoredDuringExecution, ""), (stays, ", also while it runs")):
        if required is None:
            continue
        if daemon(pod) and _names_one_node(required):
            yield PodRule("NodeAffinity", f"only on its own node, as a pod of a DaemonSet{also}")
        else:
            which = words.node_selector(required)
            yield PodRule("NodeAffinity", f"only on nodes with {which}{also}" if which else "on no node: its node affinity is empty")
    for weighted in found.preferredDuringSchedulingIgnoredDuringExecution or ():
        which = words.node_term(weighted.preference)
        if which:
            yield PodRule("NodeAffinity", f"prefers nodes with {which} (weight {weighted.weight})")


def _names_one_node(found: objects.NodeSelector) -> bool:
    """Return True if the selector has the form that the DaemonSet controller writes, which would make one shape per node."""
    terms: Sequence[objects.NodeSelectorTerm] = found.nodeSelectorTerms or ()
    return bool(terms) and all(not term.matchExpressions and [f.key for f in term.matchFields or ()] == ["metadata.name"] for term in terms)


def ports(spec: objects.PodSpec) -> Iterator[PodRule]:
    """Yield the host ports of the pod."""
    found = sorted(host_ports(spec))
    if found:
        texts = [f"{protocol} {port}{'' if ip == '*' else f' of {ip}'}" for ip, protocol, port in found]
        yield PodRule("NodePorts", f"takes host port{'s' if len(texts) > 1 else ''} {words.listed(texts)}")


def claims(spec: objects.PodSpec) -> Iterator[PodRule]:
    """Yield the device claims of the pod."""
    found = [
        f"claim {entry.resourceClaimName}" if entry.resourceClaimName else f"a claim of template {entry.resourceClaimTemplateName}"
        for entry in spec.resourceClaims or ()
    ]
    if found:
        yield PodRule("DynamicResources", f"needs the devices of {words.listed(found)}")
