"""Pods that wait for volumes: the cause in words and the remedies of the instances in ``instances/pending``, each remedy applied."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from msgspec import structs

from kubestow.models.catalogue.catalogue import read as read_catalogue
from kubestow.models.kube.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubestow.models.kube.storage_objects import VolumeNodeAffinity
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import load
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import applied, with_nodes
from kubestow.solver.explain.remedy.search import find_remedies
from tests import tiny
from tests.solver.explain.questions import within
from tests.solver.explain.remedy.test_search import unit
from tests.tiers import seeds

PENDING = Path(__file__).resolve().parents[3] / "instances" / "pending"


@dataclass(frozen=True)
class Row:
    """The expected cause: its facts by rule, in words, and the changes that are offered."""

    facts: dict[str, str]
    remedies: tuple[str, ...] = ()


TABLE = {
    "volume-zone-without-nodes": Row(
        {
            "VolumeBinding": "PersistentVolume pv-db (claim default/db-0-data) can be used only where topology.kubernetes.io/zone=c; "
            "no node matches"
        },
        ("add 1 node like a1 with topology.kubernetes.io/zone=c",),
    ),
    "volume-zone-full": Row(
        {
            "NodeResourcesFit": "b1 has 2 CPU free, default/db-0 asks for 3 CPU",
            "VolumeBinding": "PersistentVolume pv-db (claim default/db-0-data) can be used only where topology.kubernetes.io/zone=b: "
            "that leaves 1 of 2 nodes (b1)",
        },
        (
            "add 1 node like b1",
            "request at most 2 CPU instead of 3 in default/db-0 (fits on b1)",
            "move default/hog from b1 to a1 (kubestow rebalance --goal admit)",
        ),
    ),
    "volume-topologies-without-nodes": Row(
        {
            "VolumeBinding": "claim default/db-0-data is not bound yet and needs a new volume, which StorageClass gp3 provisions "
            "only where topology.kubernetes.io/zone=c; no node matches"
        },
        (
            "add 1 node like a1 with topology.kubernetes.io/zone=c",
            "drop allowedTopologies from StorageClass gp3 (create it again)",
        ),
    ),
    "volume-local-too-small": Row(
        {"VolumeBinding": "claim default/db-0-data asks for 20Gi; the largest free volume of class local is lv-a, 10Gi on a1"},
        ("request 10Gi instead of 20Gi in claim default/db-0-data (create it again)",),
    ),
    "volume-local-taken": Row(
        {
            "VolumeBinding": "claim default/db-0-data needs a free PersistentVolume of class local: lv-a belongs to default/other, "
            "lv-b is Released, of default/gone"
        },
    ),
    "volume-local-access-mode": Row(
        {"VolumeBinding": "claim default/shared: no free volume of class local has access mode ReadWriteMany (lv-a)"}
    ),
    "volume-class-misspelt": Row(
        {
            "VolumeBinding": "claim default/db-0-data is not bound, and its StorageClass openebs-devices does not exist: did you mean "
            "openebs-device (0 claims)?; kube-scheduler does nothing until it is bound"
        },
        ("use StorageClass openebs-device instead of openebs-devices in claim default/db-0-data (create it again)",),
    ),
    "volume-class-without-volumes": Row(
        {"VolumeBinding": "claim default/db-0-data needs a PersistentVolume of class local, and there is none"}
    ),
    "volume-claim-immediate": Row(
        {
            "VolumeBinding": "claim default/db-0-data waits for its provisioner ebs.csi.aws.com (StorageClass fast binds immediately); "
            "kube-scheduler does nothing until it is bound"
        }
    ),
    "volume-claim-without-class": Row(
        {
            "VolumeBinding": "claim default/minio-data is not bound and has no StorageClass: it waits for a default class or a "
            "PersistentVolume that fits; kube-scheduler does nothing until it is bound"
        }
    ),
    "volume-claim-missing": Row({"VolumeBinding": "claim default/claim-ann does not exist: did you mean claim-ann-2 (bound)?"}),
    "volume-claim-misspelt": Row(
        {"VolumeBinding": "claim default/claim-ann does not exist: did you mean claim-ann-2 (bound)?"},
        ("mount claim claim-ann-2 instead of claim-ann in default/hub-ann",),
    ),
    "volume-claim-lost": Row({"VolumeBinding": "claim default/db-0-data is bound to PersistentVolume pv-gone, which does not exist"}),
    "volume-selected-node-gone": Row(
        {
            "VolumeBinding": "the volume of claim default/db-0-data is being created for node n9, which is not in the cluster: "
            "that leaves 0 of 1 node"
        },
        ("remove the annotation volume.kubernetes.io/selected-node=n9 from claim default/db-0-data",),
    ),
    "volume-local-node-gone": Row(
        {
            "VolumeBinding": "PersistentVolume pv-jenkins (claim default/jenkins) can be used only where "
            "kubernetes.io/hostname=worker-node01; no node matches"
        }
    ),
    "volume-zone-label": Row(
        {"VolumeZone": "PersistentVolume pv-db (claim default/db-0-data) is labelled topology.kubernetes.io/zone=c; no node is there"},
        ("add 1 node like a1 with topology.kubernetes.io/zone=c",),
    ),
    "volume-limit": Row(
        {
            "NodeVolumeLimits": "nodes attach a limited number of volumes of ebs.csi.aws.com, which default/db-0 mounts; no room for one "
            "more pod on 1 of 1 node: a1 has 2 of 2 (pv-cache of claim default/cache, pv-logs of claim default/logs)"
        },
        ("add 1 node like a1",),
    ),
    "volume-claim-one-pod": Row(
        {"VolumeRestrictions": "claim default/ledger is ReadWriteOncePod and in use by default/writer-1 on a1, which has to end first"}
    ),
}


def question(name: str) -> PlacementQuestion:
    snapshot = load([str(PENDING / f"{name}.yaml")])
    pending = tuple(select(snapshot).pending)
    return PlacementQuestion(snapshot, pending, len(pending))


def test_the_table_has_every_instance() -> None:
    assert sorted(TABLE) == sorted(path.stem for path in PENDING.glob("volume-*.yaml"))


@pytest.mark.parametrize("name", TABLE)
def test_a_pod_that_waits_for_volumes_has_its_cause_and_remedies(name: str) -> None:
    asked, expected = question(name), TABLE[name]
    cause = minimal_cause(asked, within(20.0))
    assert cause is not None
    assert cause.minimal
    assert cause.proved
    assert {fact.rule: fact.message for fact in cause.facts} == expected.facts
    offered = find_remedies(asked, sorted(expected.facts), within(20.0))
    assert tuple(remedy.message for remedy in offered) == expected.remedies
    for remedy in offered:
        assert applied(asked, remedy).feasible(within(20.0)), remedy.message
        assert asked.feasible(within(20.0)) is False  # the change is made on a copy


def test_nodes_of_another_zone_are_not_offered_for_a_volume() -> None:
    assert [remedy.options for remedy in find_remedies(question("volume-zone-full"), [], within(20.0)) if remedy.change == "addNodes"] == [
        ["--add-nodes", "1:b1"]
    ]


def test_a_node_of_a_catalogue_is_bought_in_the_zone_of_a_volume() -> None:
    catalogue = read_catalogue(str(PENDING.parent / "catalogue.yaml"))
    asked = replace(question("volume-zone-without-nodes"), catalogue=catalogue)
    offered = find_remedies(asked, ["VolumeBinding"], within(20.0))
    assert [remedy.arguments["zone"] for remedy in offered if remedy.change == "buyNodes"] == ["c"]


def test_a_new_node_has_the_zone_of_a_volume_under_each_key() -> None:
    asked = question("volume-zone-without-nodes")
    key, snapshot = "topology.ebs.csi.aws.com/zone", asked.snapshot.copy()
    volume = snapshot.persistent_volumes["pv-db"]
    assert volume.spec is not None
    term = NodeSelectorTerm([NodeSelectorRequirement(key, "In", ["c"])])
    spec = structs.replace(volume.spec, nodeAffinity=VolumeNodeAffinity(NodeSelector([term])))
    snapshot.persistent_volumes = {"pv-db": structs.replace(volume, spec=spec)}
    (remedy,) = find_remedies(replace(asked, snapshot=snapshot), ["VolumeBinding"], within(20.0))
    assert remedy.options == ["--add-nodes", f"1:a1,{key}=c,topology.kubernetes.io/zone=c"]


@pytest.mark.full
@seeds(20, 300)
def test_if_a_copy_of_a_node_helps_a_random_pod_one_is_offered(seeds: range) -> None:
    helped = 0
    for seed, kind in itertools.product(seeds, ("volumes", "mixed")):
        asked = unit(tiny.snapshot(seed, kind, nodes=4, pods=4))
        cause = minimal_cause(asked, within(20.0)) if asked.pods and asked.feasible(within(20.0)) is False else None
        if cause is None:
            continue
        offered = find_remedies(asked, sorted({fact.rule for fact in cause.facts}), within(20.0), limit=30)
        assert all(applied(asked, remedy).feasible(within(20.0)) for remedy in offered), (kind, seed)
        copies = (with_nodes(asked, [f"1:{node.metadata.name}"]) for node in asked.snapshot.nodes)
        if any(copy.feasible(within(20.0)) for copy in copies):
            helped += 1
            assert "addNodes" in {remedy.change for remedy in offered}, (kind, seed)
    assert helped
