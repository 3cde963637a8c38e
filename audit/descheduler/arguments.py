"""Schema of a DeschedulerPolicy file: profiles, and the arguments of the modelled plugins.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/api/v1alpha2/types.go and types.go of each plugin.
Thresholds are floats, as in the descheduler, so that results agree at the boundary.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kubestow.models.kube.objects import LabelSelector, LabelSelectorRequirement

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=100)]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base class that rejects unknown fields, as the descheduler does in arguments."""


class _Requirement(_Strict, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class Labels(_Strict, frozen=True):
    """A label selector."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: tuple[_Requirement, ...] | None = None

    def selector(self) -> LabelSelector:
        """Return the selector as an API object."""
        listed = [LabelSelectorRequirement(e.key, e.operator, list(e.values)) for e in self.matchExpressions or ()]
        return LabelSelector(self.matchLabels, listed or None)


class Namespaces(_Strict, frozen=True):
    """Included or excluded namespaces."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def have(self, namespace: str) -> bool:
        """Return True if a namespace is included."""
        return (not self.include or namespace in self.include) and namespace not in self.exclude


class Args(_Strict, frozen=True):
    """Fields common to all arguments."""

    apiVersion: str = ""
    kind: str = ""


class PriorityThreshold(_Strict, frozen=True):
    """Pods with this priority or higher are protected."""

    value: int | None = None
    name: str = ""


class StorageClassName(_Strict, frozen=True):
    """A storage class by name."""

    name: str


class PodsWithPVC(_Strict, frozen=True):
    """Protection of pods with claims, for the given storage classes or for all."""

    protectedStorageClasses: tuple[StorageClassName, ...] = ()


class ProtectionsConfig(_Strict, frozen=True):
    """Settings of protections."""

    PodsWithPVC: PodsWithPVC | None = None


class PodProtections(_Strict, frozen=True):
    """Protections to enable or disable in addition to the defaults."""

    extraEnabled: tuple[str, ...] = ()
    defaultDisabled: tuple[str, ...] = ()
    config: ProtectionsConfig | None = None


class DefaultEvictor(Args, frozen=True):
    """Arguments of DefaultEvictor."""

    nodeSelector: str = ""
    labelSelector: Labels | None = None
    namespaceLabelSelector: Labels | None = None
    priorityThreshold: PriorityThreshold | None = None
    nodeFit: bool = False
    minReplicas: Count = 0
    minPodAge: str | None = None
    noEvictionPolicy: str = ""
    podProtections: PodProtections = PodProtections()
    evictLocalStoragePods: bool = False
    evictDaemonSetPods: bool = False
    evictSystemCriticalPods: bool = False
    ignorePvcPods: bool = False
    ignorePodsWithoutPDB: bool = False
    evictFailedBarePods: bool = False


class PodSelectionArgs(Args, frozen=True):
    """Arguments that select the pods for a plugin."""

    namespaces: Namespaces = Namespaces()
    labelSelector: Labels | None = None


class AntiAffinity(PodSelectionArgs, frozen=True):
    """Arguments of RemovePodsViolatingInterPodAntiAffinity."""


class NodeAffinityArgs(PodSelectionArgs, frozen=True):
    """Arguments of RemovePodsViolatingNodeAffinity."""

    nodeAffinityType: tuple[str, ...] = ()


class NodeTaints(PodSelectionArgs, frozen=True):
    """Arguments of RemovePodsViolatingNodeTaints."""

    includePreferNoSchedule: bool = False
    excludedTaints: tuple[str, ...] = ()
    includedTaints: tuple[str, ...] | None = None


class TopologySpread(PodSelectionArgs, frozen=True):
    """Arguments of RemovePodsViolatingTopologySpreadConstraint."""

    constraints: tuple[str, ...] = ()
    topologyBalanceNodeFit: bool = True


class Duplicates(Args, frozen=True):
    """Arguments of RemoveDuplicates."""

    namespaces: Namespaces = Namespaces()
    excludeOwnerKinds: tuple[str, ...] = ()


class EvictionLimits(_Strict, frozen=True):
    """Limits of one plugin."""

    node: Count | None = None


class HighUtilization(Args, frozen=True):
    """Arguments of HighNodeUtilization."""

    thresholds: dict[str, Share] = {}
    numberOfNodes: int = 0
    evictionModes: tuple[str, ...] = ()
    evictableNamespaces: Namespaces = Namespaces()


class LowUtilization(Args, frozen=True):
    """Arguments of LowNodeUtilization."""

    thresholds: dict[str, Share] = {}
    targetThresholds: dict[str, Share] = {}
    numberOfNodes: int = 0
    useDeviationThresholds: bool = False
    metricsUtilization: dict[str, Any] | None = None
    evictableNamespaces: Namespaces = Namespaces()
    evictionLimits: EvictionLimits = EvictionLimits()


class PluginConfig(_Strict, frozen=True):
    """The arguments of one plugin of a profile."""

    name: str
    args: dict[str, Any] | None = None


class PluginSet(_Strict, frozen=True):
    """The plugins of an extension point."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class ProfilePlugins(_Strict, frozen=True):
    """The extension points of a profile."""

    presort: PluginSet = PluginSet()
    sort: PluginSet = PluginSet()
    deschedule: PluginSet = PluginSet()
    balance: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    preevictionfilter: PluginSet = PluginSet()


class Profile(_Strict, frozen=True):
    """A profile."""

    name: str = ""
    pluginConfig: tuple[PluginConfig, ...] = ()
    plugins: ProfilePlugins = ProfilePlugins()


class DeschedulerPolicy(_Strict, frozen=True):
    """The contents of a policy file."""

    apiVersion: str = ""
    kind: str = ""
    profiles: tuple[Profile, ...] = ()
    nodeSelector: str | None = None
    maxNoOfPodsToEvictPerNode: Count | None = None
    maxNoOfPodsToEvictPerNamespace: Count | None = None
    maxNoOfPodsToEvictTotal: Count | None = None
    evictionFailureEventNotification: bool | None = None
    metricsCollector: dict[str, Any] | None = None
    metricsProviders: tuple[dict[str, Any], ...] = ()
    gracePeriodSeconds: int | None = None


#: Plugins by extension point, with their argument types.
DESCHEDULE: Final[dict[str, type[Args]]] = {
    "RemovePodsViolatingInterPodAntiAffinity": AntiAffinity,
    "RemovePodsViolatingNodeAffinity": NodeAffinityArgs,
    "RemovePodsViolatingNodeTaints": NodeTaints,
}
BALANCE: Final[dict[str, type[Args]]] = {
    "RemoveDuplicates": Duplicates,
    "LowNodeUtilization": LowUtilization,
    "HighNodeUtilization": HighUtilization,
    "RemovePodsViolatingTopologySpreadConstraint": TopologySpread,
}
EVICTOR: Final = "DefaultEvictor"
#: Plugins of the extension point deschedule that are not modelled, because they depend on pod age and failures.
OTHERS: Final = ("PodLifeTime", "RemoveFailedPods", "RemovePodsHavingTooManyRestarts")
