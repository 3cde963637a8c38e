"""A KubeSchedulerConfiguration as its file has it (kubescheduler.config.k8s.io/v1), without defaults.

Enter at :func:`read`. :mod:`kubestow.models.scheduler.profiles` gives what it means.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/, and its validation in
https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/apis/config/validation/
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents import settings_file
from kubestow.models.kube.objects import NodeAffinity
from kubestow.models.snapshot.snapshot import InputError

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
_Weight = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Percentage = Annotated[int, Meta(ge=0, le=100)]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections. An unknown field is an error, as for kube-scheduler."""


class Plugin(_Section, frozen=True):
    """A plugin at an extension point. ``weight``: 0 means the default, which is 1."""

    name: str
    weight: _Weight = 0


class PluginSet(_Section, frozen=True):
    """The plugins of an extension point that differ from the defaults. A disabled ``*`` disables all defaults."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(_Section, frozen=True):
    """Plugins by extension point. ``multiPoint`` means every point that a plugin implements."""

    preEnqueue: PluginSet = PluginSet()
    queueSort: PluginSet = PluginSet()
    preFilter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    postFilter: PluginSet = PluginSet()
    preScore: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    preBind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    postBind: PluginSet = PluginSet()
    multiPoint: PluginSet = PluginSet()
    placementGenerate: PluginSet = PluginSet()
    placementScore: PluginSet = PluginSet()


class _Args(_Section, frozen=True):
    """Base of the arguments of plugins."""

    apiVersion: Literal["kubescheduler.config.k8s.io/v1"] = API_VERSION
    kind: str = ""


class ResourceSpec(_Section, frozen=True):
    """A resource that a score counts. ``weight``: 0 means 1."""

    name: str
    weight: Annotated[int, Meta(ge=0, le=100)] = 1


class ShapePoint(_Section, frozen=True):
    """A point of a piecewise linear score: ``utilization`` in percent, ``score`` from 0 to 10."""

    utilization: _Percentage
    score: Annotated[int, Meta(ge=0, le=10)]


class RequestedToCapacityRatio(_Section, frozen=True):
    """The shape of the score of the strategy RequestedToCapacityRatio, by ascending utilization."""

    shape: tuple[ShapePoint, ...]

    def __post_init__(self) -> None:
        at = [point.utilization for point in self.shape]
        if not at or any(a >= b for a, b in pairwise(at)):
            raise ValueError("shape: expected at least one point, by ascending utilization")


class ScoringStrategy(_Section, frozen=True):
    """The score of NodeResourcesFit."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()
    requestedToCapacityRatio: RequestedToCapacityRatio | None = None

    def __post_init__(self) -> None:
        if (self.type == "RequestedToCapacityRatio") != (self.requestedToCapacityRatio is not None):
            raise ValueError("requestedToCapacityRatio: expected with the type RequestedToCapacityRatio, and with no other")


class NodeResourcesFitArgs(_Args, frozen=True):
    ignoredResources: tuple[str, ...] = ()
    ignoredResourceGroups: tuple[str, ...] = ()
    scoringStrategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesBalancedAllocationArgs(_Args, frozen=True):
    resources: tuple[ResourceSpec, ...] = ()

    def __post_init__(self) -> None:
        names = [resource.name for resource in self.resources]
        if len(set(names)) < len(names) or any(resource.weight > 1 for resource in self.resources):
            raise ValueError("resources: expected each name once, with weight 1")


class DefaultSpreadConstraint(_Section, frozen=True):
    """A spread constraint for pods without constraints of their own."""

    maxSkew: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    topologyKey: Annotated[str, Meta(min_length=1, max_length=317)]
    whenUnsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]


class PodTopologySpreadArgs(_Args, frozen=True):
    defaultConstraints: tuple[DefaultSpreadConstraint, ...] = ()
    defaultingType: Literal["", "System", "List"] = ""

    def __post_init__(self) -> None:
        if self.defaultConstraints and self.defaultingType != "List":
            raise ValueError("defaultConstraints: expected with defaultingType List only")
        pairs = [(each.topologyKey, each.whenUnsatisfiable) for each in self.defaultConstraints]
        if len(set(pairs)) < len(pairs):
            raise ValueError("defaultConstraints: expected each pair of topologyKey and whenUnsatisfiable once")


class InterPodAffinityArgs(_Args, frozen=True):
    hardPodAffinityWeight: _Percentage = 1
    ignorePreferredTermsOfExistingPods: bool = False


class NodeAffinityArgs(_Args, frozen=True):
    addedAffinity: NodeAffinity | None = None


class VolumeBindingArgs(_Args, frozen=True):
    bindTimeoutSeconds: Annotated[int, Meta(ge=0)] = 600
    shape: tuple[ShapePoint, ...] = ()


class DefaultPreemptionArgs(_Args, frozen=True):
    minCandidateNodesPercentage: _Percentage = 10
    minCandidateNodesAbsolute: Annotated[int, Meta(ge=0)] = 100


class DynamicResourcesArgs(_Args, frozen=True):
    filterTimeout: str = ""
    bindingTimeout: str = ""


#: The arguments of each plugin that has any.
ARGUMENTS: Final[Mapping[str, type[_Args]]] = {
    kind.__name__.removesuffix("Args"): kind
    for kind in (
        NodeResourcesFitArgs,
        NodeResourcesBalancedAllocationArgs,
        PodTopologySpreadArgs,
        InterPodAffinityArgs,
        NodeAffinityArgs,
        VolumeBindingArgs,
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
    )
}


class PluginConfig(_Section, frozen=True):
    """The arguments of a plugin, plain. :func:`arguments` converts them."""

    name: str
    args: dict[str, Any] | None = None


class ProfileSection(_Section, frozen=True):
    """A profile: the scheduler of the pods with this schedulerName."""

    schedulerName: str | None = None
    percentageOfNodesToScore: _Percentage | None = None
    plugins: Plugins = Plugins()
    pluginConfig: tuple[PluginConfig, ...] = ()


class SchedulerConfiguration(_Section, frozen=True):
    """A configuration file of kube-scheduler. Its fields about the process, not about choices, are not read further."""

    apiVersion: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    parallelism: Annotated[int, Meta(ge=1)] | None = None
    leaderElection: dict[str, Any] | None = None
    clientConnection: dict[str, Any] | None = None
    enableProfiling: bool | None = None
    enableContentionProfiling: bool | None = None
    percentageOfNodesToScore: _Percentage | None = None
    podInitialBackoffSeconds: Annotated[int, Meta(ge=1)] | None = None
    podMaxBackoffSeconds: Annotated[int, Meta(ge=1)] | None = None
    profiles: tuple[ProfileSection, ...] = ()
    extenders: tuple[dict[str, Any], ...] = ()
    delayCacheUntilActive: bool = False


def read(path: str) -> tuple[SchedulerConfiguration, list[dict[str, Any]]]:
    """Read a KubeSchedulerConfiguration, or the one in a ConfigMap.

    Returns:
        The configuration, and for each of its profiles the arguments by plugin, as Structs of ``ARGUMENTS``.

    Raises:
        InputError: The file cannot be read, is neither of them, or has an unknown field or a value that kube-scheduler would refuse.
    """
    plain = settings_file.document(path, KIND)
    if isinstance(plain, dict) and plain.get("kind") == "ConfigMap":
        plain = _from_config_map(path, plain)
    if not isinstance(plain, dict) or plain.get("kind") != KIND:
        found = plain.get("kind") if isinstance(plain, dict) else None
        raise InputError([f"{path}: kind: got {found!r}, expected {KIND}, or a ConfigMap that holds one"])
    configuration = settings_file.fitted(path, plain, SchedulerConfiguration)
    _check_names(path, configuration)
    return configuration, [_arguments(path, p, profile) for p, profile in enumerate(configuration.profiles)]


def _from_config_map(path: str, plain: dict[str, Any]) -> Any:
    """Return the KubeSchedulerConfiguration in the data of a ConfigMap.

    Raises:
        InputError: None of its values is one, or several are.
    """
    found = []
    for key, text in (plain.get("data") or {}).items():
        if isinstance(text, str) and KIND in text:
            found.append((key, settings_file.parsed(f"{path}: data[{key}]", text, KIND)))
    if len(found) != 1:
        raise InputError([f"{path}: expected one {KIND} in the data of the ConfigMap, found {len(found)}"])
    return found[0][1]


def _check_names(path: str, configuration: SchedulerConfiguration) -> None:
    """Refuse several profiles without different names, as kube-scheduler does."""
    names = [profile.schedulerName for profile in configuration.profiles]
    if len(names) > 1 and (None in names or "" in names or len(set(names)) < len(names)):
        raise InputError([f"{path}: {KIND}: profiles: expected a schedulerName of its own in each of several profiles"])


def _arguments(path: str, number: int, profile: ProfileSection) -> dict[str, Any]:
    """Return the arguments of a profile by plugin. Plugins out of tree have none here.

    Raises:
        InputError: Arguments have an unknown field or a wrong value, or a plugin has two entries.
    """
    found: dict[str, Any] = {}
    for i, entry in enumerate(profile.pluginConfig):
        where = f"{path}: profiles[{number}].pluginConfig[{i}]"
        if entry.name in found:
            raise InputError([f"{where}: repeated entry of {entry.name}"])
        if entry.name in ARGUMENTS:
            found[entry.name] = settings_file.fitted(where, entry.args or {}, ARGUMENTS[entry.name])
    return found
