"""Misspelt names and the names that they were probably meant to be."""

from __future__ import annotations

import pytest

from kubestow.audit.checks import schedulers
from kubestow.audit.checks.unsatisfiable import missing_objects
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster import unmodelled
from kubestow.models.kube.lenient_decode import edit_distance, near_keys, near_names, nearest
from kubestow.models.snapshot.snapshot import InputError, from_objects
from tests.audit.checks.unsatisfiable.test_check import found
from tests.objects import Object, node, pod


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("sdd", ["ssd", "hdd", "sata"], ["ssd", "hdd"]),  # the first letter is rarely wrong
        ("disk-type", ["disktype", "kubernetes.io/os"], ["disktype"]),
        ("DiskType", ["disktype"], ["disktype"]),
        ("nvidia.com/gpus", ["nvidia.com/gpu", "amd.com/gpu"], ["nvidia.com/gpu"]),
        ("zone", ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"], ["topology.kubernetes.io/zone"]),
        ("topology.kubernetes.io/zoen", ["topology.kubernetes.io/zone"], ["topology.kubernetes.io/zone"]),
        ("defualt-schedular", ["default-scheduler"], ["default-scheduler"]),
        ("ssd", ["ssd"], []),
        ("web-data", ["web-data-0", "web-data-1", "web-dato", "web-data-old"], ["web-dato", "web-data-0"]),  # a number is missing
    ],
)
def test_nearest_names(word: str, known: list[str], meant: list[str]) -> None:
    assert nearest(word, known) == meant


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("zone-a", "zone-b"), ("eu-west-1a", "eu-west-1b"), ("n1", "n2"), ("data-1", "data-12"), ("v100", "a100"), ("a", "b"),
        ("us-east-1", "us-west-1"), ("asia-southeast1", "asia-southwest1"), ("amd64", "arm64"), ("nvidia.com/gpu", "amd.com/gpu"),
        ("m5.large", "m6.large"), ("dev", "prod"), ("blue", "green"),
    ],
)  # fmt: skip
def test_names_of_one_series_and_other_words_are_no_misspellings(word: str, other: str) -> None:
    assert nearest(word, [other]) == nearest(other, [word]) == []


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("shop/wbe-0", "; did you mean shop/web-0?"),
        ("prod/web-0", "; did you mean shop/web-0?"),  # in another namespace
        ("shop/web-7", ""),  # another pod of the series
        ("wbe", "; did you mean Deployment/shop/web?"),
        ("deployment/shop/wbe", "; did you mean Deployment/shop/web?"),
        ("StatefulSet/web", "; did you mean Deployment/shop/web?"),
        ("DaemonSet/wbe", ""),
    ],
)
def test_near_keys(key: str, hint: str) -> None:
    assert near_keys(key, ["Deployment/shop/web"] if "0" not in key and "7" not in key else ["shop/web-0", "shop/db-0"]) == hint


def test_at_most_two_names_are_suggested() -> None:
    assert nearest("gold", ["golf", "gold-", "bold", "cold"]) == ["gold-", "golf"]
    assert near_names("hihg", ["high", "low"]) == "; did you mean high?"
    assert near_names("other", ["high", "low"]) == ""


@pytest.mark.parametrize(
    ("one", "other", "edits"), [("", "abc", 3), ("abc", "abc", 0), ("sdd", "ssd", 1), ("abcd", "acbd", 1), ("kitten", "sitting", 3)]
)
def test_edit_distance(one: str, other: str, edits: int) -> None:
    assert edit_distance(one, other) == edit_distance(other, one) == edits


def _class(name: str) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 5}


def test_refused_classes_name_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no PriorityClass 'hihg' in the input, expected it or spec\.priority; did you mean high\?"):
        from_objects([node("n"), _class("high"), pod("p", priorityClassName="hihg")])
    kata = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}
    with pytest.raises(InputError, match=r"got 'katta', expected a RuntimeClass of the input; did you mean kata\?"):
        from_objects([node("n"), kata, pod("p", runtimeClassName="katta")])
    running = from_objects([node("n"), _class("high"), pod("p", priorityClassName="hihg", node_name="n")])
    assert running.warnings == ["priority class 'hihg' is not in the snapshot: priority 0 for 1 pod (default/p); did you mean high?"]


def test_a_misspelt_scheduler_is_named_as_unmodelled() -> None:
    snapshot = from_objects([node("n"), pod("p", schedulerName="defualt-scheduler"), pod("q", schedulerName="volcano")])
    assert {entry.pod: entry.effect for entry in unmodelled.find(snapshot, snapshot.pods)} == {
        "default/p": "placed by the rules of the default scheduler; did you mean default-scheduler?",
        "default/q": "placed by the rules of the default scheduler",
    }


def test_findings_about_missing_objects_name_the_nearest() -> None:
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "web-data"},
        "spec": {"storageClassName": "standrad"},
    }
    standard = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "standard"}, "provisioner": "example.com"}
    lost = pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "web-dta"}}])
    view = ClusterView(from_objects([node("n"), claim, standard, lost, pod("q", owner="ReplicaSet/q", schedulerName="defualt-scheduler")]))
    assert [finding.message for finding in (*missing_objects.find(view), *schedulers.check(view))] == [
        "there is no PersistentVolumeClaim default/web-dta; did you mean web-data?",
        "there is no StorageClass standrad; did you mean standard?",
        "no pod or workload is named defualt-scheduler, and it has not placed any pod; did you mean default-scheduler?",
    ]


def test_findings_about_node_rules_and_resources_name_the_nearest() -> None:
    gpus = node("n", labels={"disktype": "ssd"})
    gpus["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    asking = pod("q")
    asking["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpus"] = "1"
    assert [finding.message for finding in found([gpus, pod("p", selector={"disk-type": "ssd"}), asking])] == [
        "no node has disk-type=ssd; did you mean disktype=ssd (1 node)?",
        "it may use 1 node and requests nvidia.com/gpus, which no node has (did you mean nvidia.com/gpu?)",
    ]
