"""Feature gates by Kubernetes version: the one table that rules ask.

Source: pkg/features/kube_features.go of each version; the rules behind the gates are in docs/rules.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The versions whose rules are known, oldest first.
VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")
#: What is taken where nothing tells the version.
DEFAULT_VERSION: Final = "1.36"

#: Gate -> per version of :data:`VERSIONS`: ``+`` on, ``-`` off, ``!`` on and locked, `` `` unknown to that version (off, cannot be set).
_TABLE: Final = {
    "DynamicResourceAllocation": "!!!!",
    "DRAPrioritizedList": "++!!",
    "DRAAdminAccess": "++!!",
    "DRADeviceTaints": "--+!",
    "DRADeviceTaintRules": " --!",
    "DRAPartitionableDevices": "--++",
    "DRAConsumableCapacity": "--++",
    "DRAExtendedResource": "--+!",
    "DRADeviceBindingConditions": "--++",
    "DRAResourceClaimDeviceStatus": "+++!",
    "DRASchedulerFilterTimeout": "++++",
    "DRAListTypeAttributes": "  --",
    "DRANodeAllocatableResources": "  --",
    "DRAWorkloadResourceClaims": "  --",
    "NodeDeclaredFeatures": " -+!",
    "TaintTolerationComparisonOperators": " ---",
    "VolumeLimitScaling": " ---",
    "PodLevelResources": "++++",
    "InPlacePodVerticalScaling": "+!!!",
    "InPlacePodLevelResourcesVerticalScaling": " -++",
    "RestartAllContainersOnContainerExits": " -++",
    "UserNamespacesHostNetworkSupport": " ---",
    "GenericWorkload": " ---",
    "GangScheduling": " ---",
    "TopologyAwareWorkloadScheduling": "  --",
}
#: Changes of meaning that came with a version and have no gate: name -> the first version that has it.
_CHANGES: Final = {
    "incomplete pools yield no devices": "1.35",
    "resize footprint is a maximum of sums": "1.37",
}


@dataclass(frozen=True)
class FeatureGates:
    """A version and what is set otherwise than its defaults. ``given``: (gate, on), sorted by name.

    ``version``: one of :data:`VERSIONS`.
    """

    version: str = DEFAULT_VERSION
    given: tuple[tuple[str, bool], ...] = ()

    def enabled(self, gate: str) -> bool:
        """Return whether a gate is on.

        Raises:
            KeyError: there is no gate of this name in the table.
        """
        return dict(self.given).get(gate, _TABLE[gate][VERSIONS.index(self.version)] in "+!")

    def has(self, change: str) -> bool:
        """Return whether the version has a change of meaning that no gate guards (:data:`_CHANGES`)."""
        return VERSIONS.index(self.version) >= VERSIONS.index(_CHANGES[change])


DEFAULT: Final = FeatureGates()
