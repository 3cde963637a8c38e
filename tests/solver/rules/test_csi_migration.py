"""In-tree volumes on nodes that have migrated their plugin: limits, node affinity, both readings."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec
import pytest

from kubestow.checker.placement import rejecting_rules, verify
from kubestow.checker.rules.volumes import migration
from kubestow.models.cluster.storage import migrated_volumes
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import NodeSelector
from kubestow.models.kube.storage_objects import PersistentVolume
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.per_node import explain
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod
from tests.tiers import sampled

GA, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
SOURCES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "kubernetes.io/aws-ebs": ("ebs.csi.aws.com", {"awsElasticBlockStore": {"volumeID": "aws://us-1a/vol-{}"}}),
    "kubernetes.io/gce-pd": ("pd.csi.storage.gke.io", {"gcePersistentDisk": {"pdName": "d-{}"}}),
    "kubernetes.io/azure-disk": ("disk.csi.azure.com", {"azureDisk": {"diskURI": "/d-{}", "kind": "Managed"}}),
    "kubernetes.io/cinder": ("cinder.csi.openstack.org", {"cinder": {"volumeID": "d-{}"}}),
    "kubernetes.io/portworx-volume": ("pxd.portworx.com", {"portworxVolume": {"volumeID": "d-{}"}}),
    "kubernetes.io/azure-file": ("file.csi.azure.com", {"azureFile": {"shareName": "s-{}"}}),
    "kubernetes.io/vsphere-volume": ("csi.vsphere.vmware.com", {"vsphereVolume": {"volumePath": "d-{}"}}),
}


def csi_node(name: str, *plugins: str, **limits: int) -> dict[str, Any]:
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": count}} for driver, count in limits.items()]
    metadata = {"name": name, "annotations": {migrated_volumes.ANNOTATION: ",".join(plugins)}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def volume(i: int, source: dict[str, Any], labels: dict[str, str] | None = None, zones: dict[str, list[str]] | None = None) -> list[Any]:
    """A volume with its claim, bound to each other. ``zones``: its node affinity, by key."""
    source = {kind: {k: v.format(i) for k, v in fields.items()} for kind, fields in source.items()}
    spec: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c", **source}
    spec["claimRef"] = {"namespace": "default", "name": f"c{i}"}
    if zones:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in zones.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "c", "volumeName": f"v{i}"}
    claim["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"v{i}", "labels": labels or {}},
            "spec": spec,
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"c{i}", "namespace": "default"},
            "spec": claim,
            "status": {"phase": "Bound"},
        },
    ]


def user(name: str, *claims: int, node_name: str | None = None) -> dict[str, Any]:
    mounts = [{"name": f"m{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in claims]
    return pod(name, node_name=node_name, volumes=mounts)


def rejected(snapshot: Snapshot, name: str) -> dict[str, list[str]]:
    (verdict,) = explain(snapshot, pod=f"default/{name}")
    (chosen,) = [p for p in snapshot.pods if p.metadata.name == name]
    for found in snapshot.nodes:
        here = found.metadata.name or ""
        assert rejecting_rules(snapshot, chosen, here) == verdict.rejected.get(here, []), here
    return verdict.rejected


@pytest.mark.parametrize("plugin", SOURCES)
@pytest.mark.parametrize("migrated", [True, False])
def test_in_tree_volumes_count_for_the_driver_of_a_migrated_plugin(plugin: str, migrated: bool) -> None:
    driver, source = SOURCES[plugin]
    csi = {"csi": {"driver": driver, "volumeHandle": "handle-{}"}}
    objects = [node("n"), csi_node("n", *([plugin] if migrated else []), **{driver: 2}), *volume(0, source), *volume(1, csi)]
    snapshot = from_objects([*objects, *volume(2, source), user("a", 0, node_name="n"), user("b", 1, node_name="n"), user("p", 2)])
    counted = migrated and plugin in migrated_volumes.PLUGINS
    assert rejected(snapshot, "p") == ({"n": ["NodeVolumeLimits"]} if counted else {})
    result = place(snapshot, Options(deterministic=True))
    assert len(result.unplaced) == counted
    assert verify(snapshot, result) == []


def test_one_volume_counts_once_in_tree_and_as_csi() -> None:
    driver, source = SOURCES["kubernetes.io/aws-ebs"]
    csi = {"csi": {"driver": driver, "volumeHandle": "vol-0"}}
    objects = [node("n"), csi_node("n", "kubernetes.io/aws-ebs", **{driver: 1}), *volume(0, source), *volume(1, csi), *volume(2, source)]
    snapshot = from_objects([*objects, user("a", 0, node_name="n"), user("same", 1), user("other", 2)])
    assert rejected(snapshot, "same") == {}
    assert rejected(snapshot, "other") == {"n": ["NodeVolumeLimits"]}


def test_a_volume_with_the_beta_zone_goes_where_its_driver_has_the_zone() -> None:
    _, source = SOURCES["kubernetes.io/aws-ebs"]
    old, new = node("old", labels={BETA: "us-1a"}), node("new", labels={GA: "us-1a", EBS_ZONE: "us-1a"})
    other = node("other", labels={GA: "us-1b", EBS_ZONE: "us-1b", BETA: "us-1a"})
    csi = [csi_node("old"), csi_node("new", "kubernetes.io/aws-ebs"), csi_node("other", "kubernetes.io/aws-ebs")]
    snapshot = from_objects([old, new, other, *csi, *volume(0, source, zones={BETA: ["us-1a"]}), user("p", 0)])
    assert rejected(snapshot, "p") == {"other": ["VolumeBinding"]}
    assert next(each.node for each in place(snapshot, Options(deterministic=True)).assignments) in ("old", "new")


def test_a_volume_that_cannot_be_translated_binds_on_no_node_that_has_migrated_it() -> None:
    snapshot = from_objects(
        [
            node("n"), node("m"), csi_node("n", "kubernetes.io/aws-ebs"), csi_node("m"),
            *volume(0, {"awsElasticBlockStore": {"volumeID": "aws://us-1a/disk"}}), user("p", 0),
        ]
    )  # fmt: skip
    assert rejected(snapshot, "p") == {"n": ["VolumeBinding"]}


def test_a_new_volume_counts_for_the_driver_of_its_migrated_provisioner() -> None:
    driver = "ebs.csi.aws.com"
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"},
            "provisioner": "kubernetes.io/aws-ebs", "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c0", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "c", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        },
        {
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver},
            "spec": {"preventPodSchedulingIfMissing": True},
        },
        node("moved"), node("plain"), node("without"), csi_node("moved", "kubernetes.io/aws-ebs", **{driver: 0}),
        csi_node("plain", **{driver: 0}), csi_node("without", "kubernetes.io/aws-ebs"), user("p", 0),
    ]  # fmt: skip
    snapshot = from_objects(objects)
    assert rejected(snapshot, "p") == {"moved": ["NodeVolumeLimits"]}
    snapshot.gates = FeatureGates("1.36", (("VolumeLimitScaling", True),))
    assert rejected(snapshot, "p") == {"moved": ["NodeVolumeLimits"], "without": ["NodeVolumeLimits"]}


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://zone/a/b"}}, {}, None),
        ({"gcePersistentDisk": {"pdName": "d"}}, {}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {GA: "us-east1-b"}, "projects/UNSPECIFIED/zones/us-east1-b/disks/d"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {BETA: "us-east1-b__us-east1-c"}, "projects/UNSPECIFIED/regions/us-east1/disks/d"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {GA: "us-east1-b__us-west1-c"}, None),
        ({"azureDisk": {"diskURI": "/d"}}, {}, "/d"),
        ({"azureDisk": {"diskURI": "/d", "kind": "Dedicated"}}, {}, None),
    ],
)
def test_handles(source: dict[str, Any], labels: dict[str, str], handle: str | None) -> None:
    found = msgspec.convert({"metadata": {"name": "v", "labels": labels}, "spec": source}, PersistentVolume)
    assert migrated_volumes.handle(found) == handle
    plugin = migrated_volumes.plugin_of(found)
    assert plugin is not None
    attached = migration.attached(found, frozenset((plugin,)))
    assert attached == (None if handle is None else (migrated_volumes.PLUGINS[plugin].driver, handle))
    assert migration.attached(found, frozenset()) is None


def _random(seed: int) -> Snapshot:
    rng = random.Random(seed)
    plugins = list(SOURCES)[: rng.choice((2, 7))]
    keys = (GA, BETA, EBS_ZONE, BETA_REGION)
    objects: list[dict[str, Any]] = []
    for name in ("n0", "n1", "n2"):
        objects.append(node(name, labels={key: rng.choice(("us-1-a", "us-1-b")) for key in keys if rng.random() < 0.6}))
        if rng.random() < 0.9:
            chosen = rng.sample(plugins, rng.randint(0, 2))
            objects.append(csi_node(name, *chosen, **{SOURCES[plugin][0]: rng.randint(0, 3) for plugin in plugins}))
    for i in range(5):
        driver, source = SOURCES[rng.choice(plugins)]
        if rng.random() < 0.3:
            source = {"csi": {"driver": driver, "volumeHandle": f"h{rng.randint(0, 4)}"}}
        labels = {key: rng.choice(("us-1-a", "us-1-a__us-1-b", "")) for key in (GA, BETA) if rng.random() < 0.3}
        zones = {key: rng.sample(("us-1-a", "us-1-b"), rng.randint(1, 2)) for key in keys if rng.random() < 0.3}
        objects += volume(i, source, labels, zones)
    objects += [user(f"f{i}", rng.randrange(5), node_name=rng.choice(("n0", "n1", "n2"))) for i in range(3)]
    return from_objects([*objects, *(user(f"p{i}", *rng.sample(range(5), rng.randint(1, 2))) for i in range(2))])


@pytest.mark.parametrize("seed", sampled(range(240), every=24, full=6))
def test_both_readings_agree_on_random_volumes(seed: int) -> None:
    snapshot = _random(seed)
    for name in ("p0", "p1"):
        rejected(snapshot, name)
    for found in snapshot.persistent_volumes.values():
        plugin = migrated_volumes.plugin_of(found)
        key = migrated_volumes.PLUGINS[plugin].topology if plugin else None
        if plugin and key and migrated_volumes.handle(found) is not None:
            theirs = migration.affinity(found, frozenset((plugin,)))
            assert (migrated_volumes.node_affinity(found, key) or NodeSelector()) == (theirs or NodeSelector())


@pytest.mark.parametrize("seed", sampled(range(40), every=8, full=4))
def test_placements_of_random_volumes_are_valid(seed: int) -> None:
    snapshot = _random(seed)
    assert verify(snapshot, place(snapshot, Options(deterministic=True, time_limit=5, workers=1))) == []
