"""A DeschedulerPolicy as its file has it: profiles, and the arguments of the plugins that are modelled.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/api/v1alpha2/types.go and types.go of each plugin. Numbers of thresholds are
floats there, and so they are here: nothing else gives its answers at the edge.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kubestow.models.kube.objects import LabelSelector, LabelSelectorRequirement

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=100)]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Unknown fields are refused, as the descheduler refuses them in arguments."""


class _Requirement(_Strict, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class Labels(_Strict, frozen=True):
    """A label selector."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: tuple[_Requirement, ...] | None = None

    def selector(self) -> LabelSelector:
        """Return it as the API has it."""
        listed = [LabelSelectorRequirement(e.key, e.operator, list(e.values)) for e in self.matchExpressions or ()]
        return LabelSelector(self.matchLabels, listed or None)


class Namespaces(_Strict, frozen=True):
    """Namespaces that count, or that do not."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def have(self, namespace: str) -> bool:
        """Return whether a namespace counts."""
        return (not self.include or namespace in self.include) and namespace not in self.exclude


class Args(_Strict, frozen=True):
    """What all arguments may have."""

    apiVersion: str = ""
    kind: str = ""


class PriorityThreshold(_Strict, frozen=True):
    """Pods of this priority and above stay."""

    value: int | None = None
    name: str = ""


class StorageClassName(_Strict, frozen=True):
    """A storage class by name."""

    name: str


class PodsWithPVC(_Strict, frozen=True):
    """Which claims protect a pod; all where no class is named."""

    protectedStorageClasses: tuple[StorageClassName, ...] = ()


class ProtectionsConfig(_Strict, frozen=True):
    """Settings of protections."""

    PodsWithPVC: PodsWithPVC | None = None


class PodProtections(_Strict, frozen=True):
    """Which protections hold, beside or instead of the default ones."""

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


class Chosen(Args, frozen=True):
    """Arguments that say which pods a plugin looks at."""

    namespaces: Namespaces = Namespaces()
    labelSelector: Labels | None = None


class AntiAffinity(Chosen, frozen=True):
    """Arguments of RemovePodsViolatingInterPodAntiAffinity."""


class NodeAffinity(Chosen, frozen=True):
    """Arguments of RemovePodsViolatingNodeAffinity."""

    nodeAffinityType: tuple[str, ...] = ()


class NodeTaints(Chosen, frozen=True):
    """Arguments of RemovePodsViolatingNodeTaints."""

    includePreferNoSchedule: bool = False
    excludedTaints: tuple[str, ...] = ()
    includedTaints: tuple[str, ...] | None = None


class TopologySpread(Chosen, frozen=True):
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
    """Which plugins an extension point has."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class Plugins(_Strict, frozen=True):
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
    plugins: Plugins = Plugins()


class DeschedulerPolicy(_Strict, frozen=True):
    """The file."""

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


#: Plugins by extension point, with their arguments.
DESCHEDULE: Final[dict[str, type[Args]]] = {
    "RemovePodsViolatingInterPodAntiAffinity": AntiAffinity,
    "RemovePodsViolatingNodeAffinity": NodeAffinity,
    "RemovePodsViolatingNodeTaints": NodeTaints,
}
BALANCE: Final[dict[str, type[Args]]] = {
    "RemoveDuplicates": Duplicates,
    "LowNodeUtilization": LowUtilization,
    "HighNodeUtilization": HighUtilization,
    "RemovePodsViolatingTopologySpreadConstraint": TopologySpread,
}
EVICTOR: Final = "DefaultEvictor"
#: Plugins of the extension point deschedule that are not modelled: they look at how long pods run, and at how they fail.
OTHERS: Final = ("PodLifeTime", "RemoveFailedPods", "RemovePodsHavingTooManyRestarts")
