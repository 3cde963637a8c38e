"""A claim is bound to a volume of the same volumeAttributesClassName only, as the volume binder has it."""

from __future__ import annotations

import pytest

from kubestow.checker.placement import verify
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod


def case(wanted: str | None, offered: str | None) -> Snapshot:
    """Return a pod whose claim one volume may serve."""
    both: Object = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    attributes = [{} if name is None else {"volumeAttributesClassName": name} for name in (wanted, offered)]
    return from_objects(
        [
            node("n1"),
            {
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
                "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
                "spec": {**both, "resources": {"requests": {"storage": "1Gi"}}, **attributes[0]},
            },
            {
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "status": {"phase": "Available"},
                "spec": {**both, "capacity": {"storage": "2Gi"}, "local": {"path": "/data"}, **attributes[1]},
            },
            pod("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "offered", "placed"),
    [
        (None, None, True), ("gold", "gold", True), ("", None, True),
        ("gold", None, False), (None, "gold", False), ("gold", "silver", False),
    ],
)  # fmt: skip
def test_the_class_of_attributes_has_to_be_the_same(wanted: str | None, offered: str | None, placed: bool) -> None:
    snapshot = case(wanted, offered)
    found = place(snapshot, Options(time_limit=5, workers=1))
    assert ([each.node for each in found.assignments] == ["n1"]) is placed
    assert (found.status, verify(snapshot, found)) == ("optimal" if placed else "infeasible", [])
