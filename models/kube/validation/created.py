"""The API server's validation of new objects with pods, in its own words: a table of rules over plain data.

Stored objects are not checked against these rules, because an older API server may have accepted them. Rules that
also hold for stored objects (operators, ranges, quantities) are in :mod:`kubestow.models.kube.validation.pods`. A
field that those reject is not reported twice.

Sources: pkg/apis/{core,apps,batch}/validation/validation.go of
https://github.com/kubernetes/kubernetes/tree/v1.36.2, function by function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.validation import controllers, resources, scheduling
from kubestow.models.kube.validation.new_pods import NewPods, Refused, label_selector, listed, mapping, named
from kubestow.models.kube.validation.texts import (
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    labels,
    port_name,
    qualified_name,
    required,
    unsupported,
)

#: Path of the pod template of each kind. A Pod is its own template.
_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
_RESTARTS: Final = ("Always", "OnFailure", "Never")
#: Kinds whose pods always restart.
_ALWAYS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")
#: Kinds whose pods must not have a deadline, with the name that the server uses for them.
_ENDLESS: Final = {kind: "ReplicaSet" if kind == "Deployment" else kind for kind in _ALWAYS}
#: Kinds whose pods end.
_ENDING: Final = ("Job", "CronJob")
#: Container fields that init containers may have only with restartPolicy Always.
_OF_SIDECARS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_MAX_INT32: Final = 2**31 - 1


# --- metadata and the pod itself --------------------------------------------------------------------------------------


def _metadata(pods: NewPods) -> Refused:
    if pods.path:
        yield from _of_metadata(mapping(pods.template.get("metadata")), f"{pods.path}.metadata")


def _of_metadata(metadata: Mapping[str, Any], path: str) -> Refused:
    yield from labels(metadata.get("labels"), f"{path}.labels")
    for key in mapping(metadata.get("annotations")):
        yield from ((f"{path}.annotations", invalid(key, reason)) for reason in qualified_name(str(key).lower()))


def _pod(pods: NewPods) -> Refused:
    spec, start = pods.spec, pods.start
    yield from labels(spec.get("nodeSelector"), f"{start}.nodeSelector")
    for field, check in (("priorityClassName", dns_subdomain), ("runtimeClassName", dns_subdomain), ("serviceAccountName", dns_subdomain),
                         ("hostname", dns_label), ("subdomain", dns_label)):  # fmt: skip
        yield from named(spec.get(field), f"{start}.{field}", check)
    seconds = spec.get("activeDeadlineSeconds")
    if isinstance(seconds, int) and not 1 <= seconds <= _MAX_INT32:
        yield f"{start}.activeDeadlineSeconds", invalid(seconds, f"must be between 1 and {_MAX_INT32}, inclusive")
    if seconds is not None and pods.kind in _ENDLESS:
        yield f"{start}.activeDeadlineSeconds", forbidden(f"activeDeadlineSeconds in {_ENDLESS[pods.kind]} is not Supported")
    policy = spec.get("preemptionPolicy")
    if isinstance(policy, str) and policy not in ("", "PreemptLowerPriority", "Never"):
        yield f"{start}.preemptionPolicy", unsupported(policy, ("PreemptLowerPriority", "Never"))


def _restart_policy(pods: NewPods) -> Refused:
    """Yield faults of the restart policy. A Job without one is accepted, although the default is not allowed for Jobs."""
    policy, where = pods.spec.get("restartPolicy"), f"{pods.start}.restartPolicy"
    if not isinstance(policy, str) or not policy:
        return
    if policy not in _RESTARTS:
        yield where, unsupported(policy, _RESTARTS)
    if pods.kind in _ALWAYS and policy != "Always":
        yield where, unsupported(policy, ("Always",))
    elif pods.kind in _ENDING and policy == "Always":
        yield where, required('valid values: "OnFailure", "Never"')
    elif pods.kind in _ENDING and policy not in _RESTARTS:
        yield where, unsupported(policy, ("OnFailure", "Never"))


def _gates(pods: NewPods) -> Refused:
    seen: set[str] = set()
    for index, gate in listed(pods.spec.get("schedulingGates")):
        name, where = gate.get("name") or "", f"{pods.start}.schedulingGates[{index}]"
        if isinstance(name, str):
            yield from ((where, invalid(name, reason)) for reason in qualified_name(name))
            if name in seen:
                yield where, duplicate(name)
            seen.add(name)


def _overhead(pods: NewPods) -> Refused:
    """Yield invalid amounts. The comparison with the RuntimeClass is done elsewhere, with the snapshot's classes."""
    overhead = pods.spec.get("overhead")
    if not isinstance(overhead, dict) or not overhead:
        return
    for where, reason in resources.requirements({"limits": overhead}, f"{pods.start}.overhead"):
        yield where.replace(".overhead.limits", ".overhead"), reason


def _pod_level(pods: NewPods) -> Refused:
    if pods.gates.enabled("PodLevelResources"):
        yield from resources.pod_level(pods.spec, pods.start)


# --- containers -------------------------------------------------------------------------------------------------------


def _container_names(pods: NewPods) -> Refused:
    for _, where, container in pods.containers():
        if container.get("name") == "":
            yield f"{where}.name", required()
        yield from named(container.get("name"), f"{where}.name", dns_label)


def _container_resources(pods: NewPods) -> Refused:
    for _, where, container in pods.containers():
        yield from resources.requirements(container.get("resources"), f"{where}.resources")


def _container_restarts(pods: NewPods) -> Refused:
    rules = pods.gates.has("containers have restart policies")
    for field, where, container in pods.containers():
        policy, path = container.get("restartPolicy"), f"{where}.restartPolicy"
        if not isinstance(policy, str):
            if rules and container.get("restartPolicyRules"):
                yield path, required("must specify restartPolicy when restart rules are used")
        elif rules and policy not in _RESTARTS:
            yield path, unsupported(policy, sorted(_RESTARTS))
        elif not rules and field == "containers":
            yield path, forbidden("may not be set for non-init containers")
        elif not rules and policy != "Always":
            yield path, unsupported(policy, ("Always",))


def _init_containers(pods: NewPods) -> Refused:
    for field, where, container in pods.containers():
        if field == "initContainers" and container.get("restartPolicy") != "Always":
            for name in _OF_SIDECARS:
                if container.get(name) is not None:
                    yield f"{where}.{name}", forbidden("may not be set for init containers without restartPolicy=Always")


def _ports(pods: NewPods) -> Refused:
    for _, where, container in pods.containers():
        names: set[str] = set()
        for index, port in listed(container.get("ports")):
            at, name = f"{where}.ports[{index}]", port.get("name")
            if port.get("containerPort") is None:
                yield f"{at}.containerPort", required()
            if isinstance(name, str) and name:
                reasons = list(port_name(name))
                yield from ((f"{at}.name", invalid(name, reason)) for reason in reasons)
                if not reasons and name in names:
                    yield f"{at}.name", duplicate(name)
                names.add(name)


def _host_ports(pods: NewPods) -> Refused:
    """Yield conflicts of host ports, and host ports that differ from the container port under hostNetwork.

    App containers share the ports of their node. Each init container runs alone and is compared with no other.
    """
    shared: set[tuple[str, str, int]] = set()
    for field, where, container in pods.containers():
        used = shared if field == "containers" else set()
        for index, port in listed(container.get("ports")):
            number, own = port.get("hostPort"), port.get("containerPort")
            at = f"{where}.ports[{index}].hostPort"
            if not isinstance(number, int) or number == 0:
                continue
            key = (str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""), number)
            if key in used:
                yield at, duplicate("/".join(map(str, key)))
            used.add(key)
            if field == "containers" and pods.spec.get("hostNetwork") is True and number != own:
                yield at, invalid(number, "must match `containerPort` when `hostNetwork` is true")


def _volumes(pods: NewPods) -> Refused:
    names: set[str] = set(pods.claims)
    for index, volume in listed(pods.spec.get("volumes")):
        name, where = volume.get("name"), f"{pods.start}.volumes[{index}].name"
        yield from named(name, where, dns_label)
        if isinstance(name, str) and name:
            if name in names and name not in pods.claims:
                yield where, duplicate(name)
            names.add(name)
    for _, where, container in pods.containers():
        paths: set[str] = set()
        for index, mount in listed(container.get("volumeMounts")):
            name, path, at = mount.get("name"), mount.get("mountPath"), f"{where}.volumeMounts[{index}]"
            if isinstance(name, str) and name and name not in names:
                yield f"{at}.name", f'Not found: "{name}"'
            if isinstance(path, str) and path in paths:
                yield f"{at}.mountPath", invalid(path, "must be unique")
            paths.add(path if isinstance(path, str) else "")


# --- the table --------------------------------------------------------------------------------------------------------


class CreationRule(NamedTuple):
    """A part of the API server's validation.

    Attributes:
        source: The function with the rule, in one of the files that the module names.
        check: Yields the rejected fields, each with the server's reason.
    """

    source: str
    check: Callable[[NewPods], Refused]


RULES: Final = (
    CreationRule("ValidatePodTemplateSpec", _metadata),
    CreationRule("validateContainerCommon", _container_names),
    CreationRule("ValidateContainerResourceRequirements", _container_resources),
    CreationRule("validateContainerPorts", _ports),
    CreationRule("checkHostPortConflicts, validatePodHostNetworkDeps", _host_ports),
    CreationRule("validateContainerRestartPolicy", _container_restarts),
    CreationRule("validateInitContainers", _init_containers),
    CreationRule("ValidateVolumes, ValidateVolumeMounts", _volumes),
    CreationRule("ValidatePodSpec", _pod),
    CreationRule("validatePodResources", _pod_level),
    CreationRule("validateOverhead", _overhead),
    CreationRule("validateSchedulingGates", _gates),
    CreationRule("validateRestartPolicy, ValidateDeploymentSpec, ValidateJobSpec", _restart_policy),
    CreationRule("ValidateTolerations", scheduling.tolerations),
    CreationRule("validateNodeAffinity", scheduling.node_affinity),
    CreationRule("validatePodAffinity", scheduling.pod_affinity),
    CreationRule("validateTopologySpreadConstraints", scheduling.spread),
)


def refused(kind: str, value: Any, gates: FeatureGates) -> list[str]:
    """Return the faults that the API server would find in a new object given as plain data, each as ``path: reason``."""
    if not isinstance(value, Mapping):
        return []
    problems = list(_of_metadata(mapping(value.get("metadata")), "metadata"))
    steps = _TEMPLATES.get(kind)
    if steps is not None:
        template = value
        for step in steps:
            template = mapping(template.get(step))
        spec = mapping(value.get("spec"))
        if kind != "ReplicationController" and steps:
            problems += label_selector(spec.get("selector"), "spec.selector")
        claims = frozenset(str(mapping(each.get("metadata")).get("name")) for _, each in listed(spec.get("volumeClaimTemplates")))
        pods = NewPods(kind, template, ".".join(steps), gates, claims)
        for rule in RULES:
            problems += rule.check(pods)
        problems += controllers.refused(kind, spec)
    return [f"{path}: {reason}" for path, reason in dict.fromkeys(problems)]
