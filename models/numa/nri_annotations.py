"""Annotations of nri-plugins and its predecessor, and the effect of not honouring each.

A key is ``NAME.DOMAIN`` with an optional scope: ``/pod`` or ``/container.C``. Container affinity is read
elsewhere (:mod:`kubestow.models.numa.container_affinity`), as is the balloon type if the snapshot has the
policy.

Source: nri-plugins pkg/resmgr/cache/cache.go, cmd/plugins/*/ (docs/sources.md#container-affinity).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from kubestow.models.kube import quantity
from kubestow.models.kube.lenient_decode import did_you_mean, shorten
from kubestow.models.kube.objects import Container, Pod
from kubestow.models.kube.pod_spec import GUARANTEED, qos_class
from kubestow.models.snapshot.affinity_keys import KEYS, meant
from kubestow.models.snapshot.interning import is_of_node_policy

POLICY: Final = "resource-policy.nri.io"
_OLD_POLICY: Final = "cri-resource-manager.intel.com"
#: Balloon type of a pod or container.
BALLOON: Final = f"balloon.balloons.{POLICY}"
#: Excludes a container's CPUs from a policy.
PRESERVE: Final = f"cpu.preserve.{POLICY}"

#: Rank of an annotation for all containers, without a scope in its key.
UNSCOPED_RANK: Final = 2

_CHOICE: Final = "ignored: the CPUs and memory zones on the node are chosen without it"
_HINTS: Final = "not checked: the container is not created where its CPUs or memory do not match the hints of its devices"
_ISOLATED: Final = "not checked: the container is not created where the node has too few isolated CPUs left"
_OF_AWARE: Final = "ignored: no node runs the topology-aware policy, which alone reads it"
_OF_BALLOONS: Final = "ignored: no node runs the balloons policy, which alone reads it"
_NO_STRICT: Final = "ignored: the container has no topology hints, or the value is not true"
_NO_CPUS: Final = "ignored: no container of the pod gets CPUs of its own"
_TAKEN: Final = "checked against all isolated CPUs of a node: those that other containers have taken are not counted"
_PARTLY: Final = "checked only where the isolated CPUs of a node are known: the container is not created where too few are left"
_BALLOON: Final = "not checked: the container is not created where the node's policy has no such type of balloon, or no room in it"
_ROOM: Final = "not checked: the container is not created where its balloon has no room; its type is checked where the policy is given"
_VALUE: Final = "not checked: the container is not created where the plugin refuses the value"
#: The annotation has no effect on where a pod can run.
_NOTHING: Final = ""

#: Effects of requirements, which the value false disables.
_IF_TRUE: Final = (_HINTS, _ISOLATED)
#: The words for truth values of Go's strconv.ParseBool.
FALSE: Final = ("0", "f", "F", "false", "False", "FALSE")
TRUE: Final = ("1", "t", "T", "true", "True", "TRUE")

#: Annotations for strict hints and for a container's hints, and a value that disables the hints.
_STRICT_KEY: Final = f"strict.topologyhints.{POLICY}"
_HINTS_KEY: Final = f"topologyhints.{POLICY}"
NO_HINTS: Final = "none"

#: Names below ``resource-policy.nri.io`` -> effect of not honouring them.
_NAMES: Final = {
    "balloon.balloons": _BALLOON,
    "blockioclass": _NOTHING,
    "cold-start": _CHOICE,
    "cpu-class": _VALUE,
    "cpu.preserve": _CHOICE,
    "hide-hyperthreads": _CHOICE,
    "irq-affinity": _VALUE,
    "memory-type": _CHOICE,
    "memory.preserve": _CHOICE,
    "pick-resources-by-hints": _CHOICE,
    "prefer-cpu-priority": _CHOICE,
    "prefer-isolated-cpus": _CHOICE,
    "prefer-reserved-cpus": _CHOICE,
    "prefer-shared-cpus": _CHOICE,
    "rdtclass": _NOTHING,
    "require-isolated-cpus": _ISOLATED,
    "scheduling-class": _NOTHING,
    "topologyhints": _CHOICE,
    "allow.topologyhints": _CHOICE,
    "deny.topologyhints": _CHOICE,
    "strict.topologyhints": _HINTS,
    "test.topologyhints": _CHOICE,
    "toptierlimit": _NOTHING,
    "unlimited-burstable": _CHOICE,
}
#: Separate plugins: domain -> names, and whether a container's scope is ``/container.C`` or ``/C``.
_PLUGINS: Final[dict[str, tuple[dict[str, str], bool]]] = {
    POLICY: (_NAMES, True),
    _OLD_POLICY: (_NAMES, True),
    "memory-policy.nri.io": ({"class": _VALUE, "policy": _VALUE}, True),
    "memory-qos.nri.io": (
        {"class": _VALUE, "memory.high": _NOTHING, "memory.low": _NOTHING, "memory.max": _NOTHING, "memory.min": _NOTHING,
         "memory.oom.group": _NOTHING, "memory.swap.high": _NOTHING, "memory.swap.max": _NOTHING},
        False,
    ),
    "memtierd.nri.io": ({"class": _NOTHING}, False),
    "nri.io": ({"epc-limit": _VALUE}, True),
}  # fmt: skip
#: Every key without a scope, for suggestions.
_KNOWN: Final = (*KEYS, *(f"{name}.{domain}" for domain, (names, _) in _PLUGINS.items() for name in names))


class NodePluginFacts(Protocol):
    """The knowledge of a snapshot about the plugins on its nodes."""

    @property
    def balloons(self) -> bool:
        """True if some node may run the balloons policy."""

    @property
    def balloons_given(self) -> bool:
        """True if BalloonsPolicies are in the snapshot."""

    @property
    def aware(self) -> bool:
        """True if some node may run the topology-aware policy."""

    @property
    def isolated_known(self) -> bool:
        """True if the isolated CPUs of all nodes that may run the topology-aware policy are known."""

    @property
    def isolated_partly(self) -> bool:
        """True if the isolated CPUs of some nodes are known."""


def not_honoured(pod: Pod, plugins: NodePluginFacts) -> Iterator[tuple[str, str]]:
    """Yield field and effect of each annotation of these plugins that is not honoured."""
    for key, value in (pod.metadata.annotations or {}).items():
        if key not in KEYS and (is_of_node_policy(key) or meant(key) is not None):
            effect = _effect(key, pod)
            if effect in _IF_TRUE and value in FALSE:
                continue
            if key.partition("/")[0].endswith(f".{POLICY}"):
                effect = _given(pod, effect, plugins)
            if effect:
                yield f"metadata.annotations[{key}]", effect


def _given(pod: Pod, effect: str, plugins: NodePluginFacts) -> str:
    """Return the effect of an annotation on a pod, more precise where the policies of the nodes are known."""
    if effect == _BALLOON:
        return _OF_BALLOONS if not plugins.balloons else _ROOM if plugins.balloons_given else effect
    if effect not in _IF_TRUE:
        return effect
    if not plugins.aware:
        return _OF_AWARE
    if effect == _HINTS:
        return effect if any(_is_strict(pod, each.name or "") for each in _containers(pod)) else _NO_STRICT
    if qos_class(pod) != GUARANTEED or not any(map(_whole_cpus, _containers(pod))):
        return _NO_CPUS
    return _TAKEN if plugins.isolated_known else _PARTLY if plugins.isolated_partly else effect


def _containers(pod: Pod) -> list[Container]:
    return [*(pod.spec.initContainers or ()), *(pod.spec.containers or ())]


def _whole_cpus(container: Container) -> bool:
    """Return True if a container may get exclusive CPUs."""
    given = container.resources
    amounts = {**((given.limits if given else None) or {}), **((given.requests if given else None) or {})}
    return "cpu" in amounts and quantity.parse(amounts["cpu"]) * 1000 > 999


def _is_strict(pod: Pod, container: str) -> bool:
    """Return True if hints are strict for a container and it may have some."""
    hints = effective(pod, _HINTS_KEY, container)
    none = hints is not None and (hints in FALSE or NO_HINTS in hints.split(","))
    return not none and effective(pod, _STRICT_KEY, container) in TRUE


def effective(pod: Pod, key: str, container: str) -> str | None:
    """Return the value of an annotation for a container: its own, or else the pod's, or else the one without a scope."""
    given = pod.metadata.annotations or {}
    return next((given[each] for each in (f"{key}/container.{container}", f"{key}/pod", key) if each in given), None)


def scope(pod: Pod, key: str, container: str) -> int | None:
    """Return the scope of the annotation for a container: 0 its own, 1 the pod's, :data:`UNSCOPED_RANK`; None: not set."""
    given = pod.metadata.annotations or {}
    return next((i for i, each in enumerate((f"{key}/container.{container}", f"{key}/pod", key)) if each in given), None)


def _effect(key: str, pod: Pod) -> str:
    name, _, scope = key.partition("/")
    domain = max((each for each in _PLUGINS if name.endswith(f".{each}")), key=len, default=None)
    names, prefixed = _PLUGINS[domain] if domain is not None else ({}, True)
    effect = names.get(name.removesuffix(f".{domain}"))
    if effect is None:
        near = meant(key)
        if near is not None:
            return f"no policy reads this key, ignored; did you mean {near}?"
        return f"unknown annotation of nri-plugins, ignored{did_you_mean(name, _KNOWN)}"
    if not scope or (scope == "pod" and prefixed):
        return effect
    container = scope.removeprefix("container.") if prefixed else scope
    if prefixed and container == scope:
        return f"got the scope {shorten(scope)}, expected pod or container.NAME: ignored"
    listed = [each.name for each in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))]
    if container not in listed:
        return f"the pod has no container {shorten(container)}: ignored{did_you_mean(container, listed)}"
    return effect
