"""By which version a snapshot is judged: its server's, its newest kubelet's, the default."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.kube.feature_gates import FeatureGates, GateError
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.settling import gates_of
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import node

KUBELET = "the snapshot does not state the server's version: assumed to be that of the newest kubelet, Kubernetes "


def of_kubelet(name: str, version: str | None) -> dict[str, Any]:
    made = node(name)
    made.setdefault("status", {})["nodeInfo"] = {"kubeletVersion": version}
    return made


def of_server(version: str, *kubelets: str) -> Snapshot:
    listed = {"kind": "List", "metadata": {"annotations": Capture(server_version=version).annotations()}, "items": []}
    return from_objects([listed, *(of_kubelet(f"n{i}", kubelet) for i, kubelet in enumerate(kubelets))])


@pytest.mark.parametrize(
    ("snapshot", "version", "notes"),
    [
        (from_objects([node("n")]), "1.36", []),
        (from_objects([of_kubelet("n", None)]), "1.36", []),
        (of_server("v1.35.2-eks-1", "v1.34.0"), "1.35", []),
        (of_server("odd", "v1.34.0"), "1.34", [f"{KUBELET}1.34"]),
        (of_server("odd"), "1.36", ["the server's version 'odd' cannot be read: judged by the rules of Kubernetes 1.36"]),
        (from_objects([of_kubelet("a", "v1.34.9"), of_kubelet("b", "v1.35.0"), of_kubelet("c", "v1.9.0")]), "1.35", [f"{KUBELET}1.35"]),
        (of_server("v1.29.1"), "1.34", ["the rules of Kubernetes 1.29 are not known: using those of 1.34, the nearest known version"]),
        (
            from_objects([of_kubelet("n", "v1.38.0")]),
            "1.37",
            [f"{KUBELET}1.38", "the rules of Kubernetes 1.38 are not known: using those of 1.37, the nearest known version"],
        ),
    ],
)
def test_what_the_snapshot_tells(snapshot: Snapshot, version: str, notes: list[str]) -> None:
    assert snapshot.gates == FeatureGates(version)  # as it was loaded
    assert gates_of(snapshot.capture, snapshot.nodes) == (FeatureGates(version), notes)


def test_what_is_asked_for_comes_first_and_needs_no_note() -> None:
    snapshot = of_server("v1.34.1", "v1.34.1")
    gated = FeatureGates("1.36", (("VolumeLimitScaling", True),))
    assert gates_of(snapshot.capture, snapshot.nodes, "1.36", {"VolumeLimitScaling": True}) == (gated, [])
    gates, notes = gates_of(snapshot.capture, snapshot.nodes, "1.40")
    assert gates == FeatureGates("1.37")
    assert notes == ["the rules of Kubernetes 1.40 are not known: using those of 1.37, the nearest known version"]


def test_gates_have_to_be_of_the_version_that_the_snapshot_tells() -> None:
    with pytest.raises(GateError, match=r"Kubernetes 1.34 has no feature gate VolumeLimitScaling, which came with 1.35"):
        gates_of(of_server("v1.34.1").capture, [], None, {"VolumeLimitScaling": True})


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(GateError, match=r"kubernetesVersion: got 'new', expected a version such as 1.36"):
        gates_of(None, [], "new")


def test_manifests_are_read_for_the_version_of_their_server() -> None:
    gates = FeatureGates("1.35")
    assert from_objects([node("n")], manifests=True, gates=gates).gates == gates
