"""Feature gates by Kubernetes version: the one table that rules ask.

Source: pkg/features/kube_features.go of each version; 1.37 keeps the gates of the scheduler in a file of their own. The rules behind the
gates are in docs/rules.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kubestow.models.kube.lenient_decode import did_you_mean, shorten

#: The versions whose rules are known, oldest first.
VERSIONS: Final = ("1.34", "1.35", "1.36", "1.37")
#: What is taken where nothing tells the version.
DEFAULT_VERSION: Final = "1.36"

#: Gate -> per version of :data:`VERSIONS`: ``+`` on, ``-`` off, ``!`` on and locked, `` `` unknown to that version (off, cannot be set).
#: tests/models/kube/gate_facts.py has the facts of each gate that this table is compared with.
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
#: Changes of meaning that came with a version and have no gate: name -> the first version that has it.
_CHANGES: Final = {
    "incomplete pools yield no devices": "1.35",
    "taint rules have a gate of their own": "1.35",
    "containers have restart policies": "1.35",
    "resize footprint is a maximum of sums": "1.37",
    "stored selectors may call includes": "1.36",
}


#: ``v1.36.2-eks-3abbec1``, ``1.36+``: what comes behind major and minor does not matter.
_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?!\d)", re.ASCII)


class GateError(ValueError):
    """A feature gate that there is not, or that cannot be set so."""


@dataclass(frozen=True)
class FeatureGates:
    """A version and what is set otherwise than its defaults (:func:`feature_gates`). ``given``: (gate, on), sorted by name.

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

    def __str__(self) -> str:
        """Return ``Kubernetes 1.36 with DRAExtendedResource=false``."""
        listed = ", ".join(f"{gate}={str(on).lower()}" for gate, on in self.given)
        return f"Kubernetes {self.version}{' with ' if listed else ''}{listed}"


DEFAULT: Final = FeatureGates()


def feature_gates(version: str, given: Mapping[str, bool]) -> FeatureGates:
    """Return a version with these gates set.

    Raises:
        GateError: the version has no such gate, or it is locked otherwise.
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
    """Return in words since when a version after this one has a gate, or since when none has it."""
    known = [i for i, state in enumerate(_TABLE[gate]) if state != " "]
    return f"came with {VERSIONS[known[0]]}" if column < known[0] else f"went with {VERSIONS[known[-1] + 1]}"


def parse_gate(text: str) -> tuple[str, bool]:
    """Return gate and value of NAME=true or NAME=false.

    Raises:
        GateError: it is not of that form, or no version has the gate.
    """
    gate, _, value = text.partition("=")
    if value.lower() not in ("true", "false"):
        raise GateError(f"{shorten(text)} is not of the form NAME=true or NAME=false")
    if gate not in _TABLE:
        raise GateError(f"unknown feature gate {shorten(gate)}{did_you_mean(gate, _TABLE)}")
    return gate, value.lower() == "true"


def newest(texts: Iterable[str | None]) -> str | None:
    """Return major and minor of the newest of some versions (``v1.36.2``, ``1.37+``), None if none of them is a version."""
    found = [match for text in texts if text and (match := _VERSION.match(text))]
    return ".".join(map(str, max((int(match[1]), int(match[2])) for match in found))) if found else None


def nearest(version: str) -> str:
    """Return the one of :data:`VERSIONS` that is nearest to a version of the form of :func:`newest`."""

    def place(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    return max((known for known in VERSIONS if place(known) <= place(version)), key=place, default=VERSIONS[0])


def table() -> dict[str, dict[str, str]]:
    """Return for each gate the state in each version: ``on``, ``off``, ``locked`` (on) or ``none`` (there is no such gate)."""
    words = {"+": "on", "-": "off", "!": "locked", " ": "none"}
    return {gate: dict(zip(VERSIONS, map(words.__getitem__, states), strict=True)) for gate, states in _TABLE.items()}
