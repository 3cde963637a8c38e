"""Facts about feature gates, as each version's source states them: the default, and whether the gate is locked to it.

A gate has the state of the last entry that is not newer than the version. An entry without a default says that the gate was removed.
Read from pkg/features/kube_features.go of v1.36.2 (which has the history of earlier versions as well) and, for 1.37, from the features of
the scheduler, which 1.37 keeps in a file of their own. `RestartAllContainersOnContainerExits`, `UserNamespacesHostNetworkSupport` and the
removal of `GangScheduling` are those of the reference of feature gates on kubernetes.io.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Stage(NamedTuple):
    """The state of a gate from a version on. ``default``: None if the gate was removed."""

    version: str
    default: bool | None
    locked: bool = False


def _stages(*texts: str) -> list[Stage]:
    """Return stages of ``1.34 on``, ``1.35 off``, ``1.36 locked`` and ``1.37 removed``."""
    words = {"on": (True, False), "off": (False, False), "locked": (True, True), "removed": (None, False)}
    return [Stage(version, *words[word]) for version, word in (text.split() for text in texts)]


FACTS: Final = {
    "CompositePodGroup": _stages("1.37 off"),
    "DRAAdminAccess": _stages("1.32 off", "1.34 on", "1.36 locked"),
    "DRAConsumableCapacity": _stages("1.34 off", "1.36 on"),
    "DRADerivedAttributes": _stages("1.37 off"),
    "DRADeviceBindingConditions": _stages("1.34 off", "1.36 on"),
    "DRADeviceCompatibilityGroups": _stages("1.37 off"),
    "DRADeviceTaintRules": _stages("1.35 off", "1.36 off", "1.37 on"),
    "DRADeviceTaints": _stages("1.33 off", "1.36 on", "1.37 on"),
    "DRAExtendedResource": _stages("1.34 off", "1.36 on", "1.37 locked"),
    "DRAFractionalCapacityRange": _stages("1.37 on"),
    "DRAListTypeAttributes": _stages("1.36 off"),
    "DRANodeAllocatableResources": _stages("1.36 off"),
    "DRAOptionalNodeOperations": _stages("1.37 off"),
    "DRAPartitionableDevices": _stages("1.33 off", "1.36 on"),
    "DRAPrioritizedList": _stages("1.33 off", "1.34 on", "1.36 on", "1.37 locked"),
    "DRAResourceClaimDeviceStatus": _stages("1.32 off", "1.33 on", "1.37 locked"),
    "DRASchedulerFilterTimeout": _stages("1.34 on"),
    "DRAWorkloadResourceClaims": _stages("1.36 off", "1.37 off"),
    "DynamicResourceAllocation": _stages("1.26 off", "1.32 off", "1.34 on", "1.35 locked"),
    "GangScheduling": _stages("1.35 off", "1.37 removed"),
    "GenericWorkload": _stages("1.35 off", "1.37 off"),
    "InPlacePodLevelResourcesVerticalScaling": _stages("1.35 off", "1.36 on"),
    "InPlacePodVerticalScaling": _stages("1.27 off", "1.33 on", "1.35 locked"),
    "InPlacePodVerticalScalingSchedulerPreemption": _stages("1.37 off"),
    "MaxUnavailableStatefulSet": _stages("1.24 off", "1.35 off"),
    "NodeDeclaredFeatures": _stages("1.35 off", "1.36 on", "1.37 locked"),
    "PodGroupPreemptionPolicy": _stages("1.37 off"),
    "PodLevelResources": _stages("1.32 off", "1.34 on"),
    "RestartAllContainersOnContainerExits": _stages("1.35 off", "1.36 on"),
    "StorageCapacityScoring": _stages("1.33 off", "1.37 on"),
    "TaintTolerationComparisonOperators": _stages("1.35 off"),
    "TopologyAwareWorkloadScheduling": _stages("1.36 off"),
    "UserNamespacesHostNetworkSupport": _stages("1.35 off"),
    "VolumeLimitScaling": _stages("1.35 off", "1.37 on"),
}

#: The other feature gates of the scheduler of 1.37: their stages, and why they are not in the table.
OTHERS: Final = {
    "InterPodAffinityHostnameFastPath": (_stages("1.37 off"), "speed"),
    "MatchLabelKeysInPodTopologySpread": (_stages("1.25 off", "1.27 on"), "on in all versions, and read as on"),
    "NodeInclusionPolicyInPodTopologySpread": (_stages("1.25 off", "1.26 on", "1.33 locked"), "locked in all versions"),
    "NominatedNodeNameForExpectation": (_stages("1.34 off", "1.35 on"), "says where a pod will go, not where it may"),
    "OpportunisticBatching": (_stages("1.35 on"), "speed"),
    "SchedulerAsyncAPICalls": (_stages("1.34 off"), "speed"),
    "SchedulerAsyncPreemption": (_stages("1.32 off", "1.33 on"), "speed"),
    "SchedulerPopFromBackoffQ": (_stages("1.33 on"), "order of the queue"),
    "SchedulerPreQueueingHints": (_stages("1.37 off"), "speed"),
    "VolumeAttributesClass": (_stages("1.29 off", "1.31 off", "1.34 on", "1.36 locked"), "no filter reads it"),
}


def state(stages: list[Stage], version: str) -> str:
    """Return the state of a gate in a version, in the words of `kubestow.models.kube.feature_gates.table`."""

    def place(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    reached = [stage for stage in stages if place(stage.version) <= place(version)]
    if not reached or reached[-1].default is None:
        return "none"
    return "locked" if reached[-1].locked else "on" if reached[-1].default else "off"
