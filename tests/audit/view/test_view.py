"""The data that checks use: the owners of pods, and values that are computed once."""

from __future__ import annotations

import pytest

from kubestow.audit.view.label_matches import LabelMatches
from kubestow.audit.view.usable_nodes import UsableNodes
from kubestow.audit.view.view import ClusterView
from kubestow.models.snapshot.snapshot import from_objects
from tests.audit.clusters import NODES, kubeadm, pod_of, replica_set, runs, spread, workload
from tests.objects import Object, node


def names(*things: Object) -> list[str]:
    return [subject.name for subject in ClusterView(from_objects(things)).subjects]


def test_what_is_made_for_a_view_is_made_once() -> None:
    view = ClusterView(from_objects([*kubeadm(), *runs("Deployment", "web", NODES[:2])]))
    assert view.once(LabelMatches) is view.once(LabelMatches)
    assert view.once(UsableNodes) is view.once(UsableNodes)
    assert view.once(LabelMatches) is not ClusterView(view.snapshot).once(LabelMatches)
    assert view.once(lambda view: 1) == 1


def test_workloads_of_operators_are_their_own() -> None:
    assert names(*runs("Deployment", "web", ["n0"], owner=("Console", "c"))) == ["Deployment default/web"]
    assert names(*runs("StatefulSet", "db", [], owner=("Prometheus", "c"))) == ["StatefulSet default/db"]
    assert names(workload("Job", "run", 1, owner=("Workflow", "c"))) == ["Job default/run"]
    assert names(workload("ReplicaSet", "web", 2, owner=("Rollout", "c"))) == ["ReplicaSet default/web"]
    assert names(workload("ReplicaSet", "web", 0, owner=("Rollout", "c"))) == []
    assert names(workload("ReplicaSet", "web", 0)) == ["ReplicaSet default/web"]


def test_what_a_workload_makes_is_not_another_one() -> None:
    assert names(*runs("Deployment", "web", ["n0"]), replica_set("web", "old", 0)) == ["Deployment default/web"]
    job = workload("Job", "night-1", 1, owner=("CronJob", "night"))
    assert names(workload("CronJob", "night", 1), job) == ["CronJob default/night"]
    assert names(job) == ["Job default/night-1"]  # the snapshot lacks the CronJob
    assert names(replica_set("web", "abc", 1), pod_of("Deployment", "web", 0, "n0")) == ["Deployment default/web"]


def test_finished_jobs_are_nobody() -> None:
    job = workload("Job", "run", 1)
    assert names(job) == ["Job default/run"]
    assert names({**job, "status": {"succeeded": 1}}) == []
    assert names({**job, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}) == []
    assert names(workload("Job", "run", 1, of={"suspend": True})) == ["Job default/run"]
    assert names(workload("Job", "run", 0)) == ["Job default/run"]  # paused


def test_no_pod_of_a_job_is_made_to_see_whether_it_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a billion there would be no end."""
    monkeypatch.setattr("kubestow.models.workloads.replicas.Slot", None)
    for more in ({}, {"completions": 10**9}, {"completions": 10**9, "completionMode": "Indexed"}):
        assert names(workload("Job", "run", 10**9, of=more)) == ["Job default/run"]


def test_the_revision_that_rules_read_is_the_one_that_runs() -> None:
    rule = spread("web", matchLabelKeys=["pod-template-hash"])

    def label(*things: Object) -> str:
        (subject,) = ClusterView(from_objects([node("n0"), *things])).subjects
        return subject.labels["pod-template-hash"]

    assert label(*runs("Deployment", "web", ["n0"], topologySpreadConstraints=rule)) == "abc"
    newer = workload("Deployment", "web", 1, topologySpreadConstraints=rule, nodeSelector={"disk": "ssd"})
    _, *old = runs("Deployment", "web", ["n0"], topologySpreadConstraints=rule)
    assert label(newer, *old) != "abc"  # their template is another
    assert label(newer, old[-1]) == "abc"  # and here nothing says that it is older
