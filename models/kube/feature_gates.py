"""Feature gates by Kubernetes version, in one table that all rules use.

docs/rules.md describes the rules behind the gates.

Source: pkg/features/kube_features.go of each version; 1.37 keeps the scheduler's gates in a separate file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kubestow.models.kube.lenient_decode import did_you_mean, shorten

#: Versions with known rules, oldest first.
VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")
#: Version assumed if the input does not determine one.
DEFAULT_VERSION: Final = "1.36"

#: Gate -> per version of :data:`VERSIONS`: ``+`` on, ``-`` off, ``!`` on and locked, `` `` unknown to that version (off, cannot be set).
#: A test compares this table with tests/models/kube/gate_facts.py.
_TABLE: Final = {
    "DynamicResourceAllocation": "+!!!",
    "DRAPrioritizedList": "+++!",
    "DRAAdminAccess": "++!!",
    "DRADeviceTaints": "--++",
    "DRADeviceTaintRules": " --+",
    "DRAPartitionableDevices": "--++",
    "DRAConsumableCapacity": "--++",
    "DRAFractionalCapacityRange": "   +",
    "DRAExtendedResource": "--+!",
    "DRADeviceBindingConditions": "--++",
    "DRAResourceClaimDeviceStatus": "+++!",
    "DRASchedulerFilterTimeout": "++++",
    "DRAListTypeAttributes": "  --",
    "DRANodeAllocatableResources": "  --",
    "DRAWorkloadResourceClaims": "  --",
    "DRADeviceCompatibilityGroups": "   -",
    "DRADerivedAttributes": "   -",
    "DRAOptionalNodeOperations": "   -",
    "NodeDeclaredFeatures": " -+!",
    "TaintTolerationComparisonOperators": " ---",
    "VolumeLimitScaling": " --+",
    "StorageCapacityScoring": "---+",
    "PodLevelResources": "++++",
    "InPlacePodVerticalScaling": "+!!!",
    "InPlacePodLevelResourcesVerticalScaling": " -++",
    "InPlacePodVerticalScalingSchedulerPreemption": "   -",
    "RestartAllContainersOnContainerExits": " -++",
    "UserNamespacesHostNetworkSupport": " ---",
    "MaxUnavailableStatefulSet": "----",
    "GenericWorkload": " ---",
    "GangScheduling": " -- ",
    "TopologyAwareWorkloadScheduling": "  --",
    "CompositePodGroup": "   -",
    "PodGroupPreemptionPolicy": "   -",
}
#: Changes of behaviour without a gate: name -> first version with the change.
_CHANGES: Final = {
    "incomplete pools yield no devices": "1.35",
    "taint rules have a gate of their own": "1.35",
    "containers have restart policies": "1.35",
    "resize footprint is a maximum of sums": "1.37",
    "stored selectors may call includes": "1.36",
}


#: ``v1.36.2-eks-3abbec1``, ``1.36+``: text after major and minor is ignored.
_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?!\d)", re.ASCII)


class GateError(ValueError):
    """A feature gate that does not exist or cannot be set as requested."""


@dataclass(frozen=True)
class FeatureGates:
    """A version and its gates that differ from the defaults (:func:`feature_gates`).

    Attributes:
        version: One of :data:`VERSIONS`.
        given: Pairs of gate and state, sorted by name.
    """

    version: str = DEFAULT_VERSION
    given: tuple[tuple[str, bool], ...] = ()

    def enabled(self, gate: str) -> bool:
        """Return True if a gate is on.

        Raises:
            KeyError: the table has no gate of this name.
        """
        return dict(self.given).get(gate, _TABLE[gate][VERSIONS.index(self.version)] in "+!")

    def has(self, change: str) -> bool:
        """Return True if the version has a change of behaviour without a gate (:data:`_CHANGES`)."""
        return VERSIONS.index(self.version) >= VERSIONS.index(_CHANGES[change])

    def __str__(self) -> str:
        """Return a text such as ``Kubernetes 1.36 with DRAExtendedResource=false``."""
        listed = ", ".join(f"{gate}={str(on).lower()}" for gate, on in self.given)
        return f"Kubernetes {self.version}{' with ' if listed else ''}{listed}"


DEFAULT: Final = FeatureGates()


def feature_gates(version: str, given: Mapping[str, bool]) -> FeatureGates:
    """Return a version with these gates set.

    Raises:
        GateError: the version lacks the gate, or it is locked to the opposite state.
    """
    column = VERSIONS.index(version)
    for gate, on in given.items():
        if gate not in _TABLE:
            raise GateError(f"unknown feature gate {shorten(gate)}{did_you_mean(gate, _TABLE)}")
        state = _TABLE[gate][column]
        if state == " ":
            raise GateError(f"Kubernetes {version} has no feature gate {gate}, which {_came_or_went(gate, column)}")
        if state == "!" and not on:
            raise GateError(f"Kubernetes {version} has the feature gate {gate} locked to true")
    differing = {gate: on for gate, on in given.items() if on != (_TABLE[gate][column] in "+!")}
    return FeatureGates(version, tuple(sorted(differing.items())))


def _came_or_went(gate: str, column: int) -> str:
    """Return in words which version introduced or removed a gate."""
    known = [i for i, state in enumerate(_TABLE[gate]) if state != " "]
    return f"came with {VERSIONS[known[0]]}" if column < known[0] else f"was removed in {VERSIONS[known[-1] + 1]}"


def parse_gate(text: str) -> tuple[str, bool]:
    """Parse NAME=true or NAME=false.

    Raises:
        GateError: the text has another form, or no version has the gate.
    """
    gate, _, value = text.partition("=")
    if value.lower() not in ("true", "false"):
        raise GateError(f"{shorten(text)} is not of the form NAME=true or NAME=false")
    if gate not in _TABLE:
        raise GateError(f"unknown feature gate {shorten(gate)}{did_you_mean(gate, _TABLE)}")
    return gate, value.lower() == "true"


def newest(texts: Iterable[str | None]) -> str | None:
    """Return major and minor of the newest version among texts such as ``v1.36.2`` or ``1.37+``, or None."""
    versions = [match for text in texts if text and (match := _VERSION.match(text))]
    return ".".join(map(str, max((int(match[1]), int(match[2])) for match in versions))) if versions else None


def nearest(version: str) -> str:
    """Return the newest of :data:`VERSIONS` that is not newer than the given version, or the oldest."""

    def place(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    return max((known for known in VERSIONS if place(known) <= place(version)), key=place, default=VERSIONS[0])


def table() -> dict[str, dict[str, str]]:
    """Return the state of each gate in each version: ``on``, ``off``, ``locked`` (on) or ``none`` (no such gate)."""
    words = {"+": "on", "-": "off", "!": "locked", " ": "none"}
    return {gate: dict(zip(VERSIONS, map(words.__getitem__, states), strict=True)) for gate, states in _TABLE.items()}
