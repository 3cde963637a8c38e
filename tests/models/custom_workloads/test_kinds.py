"""What controllers make of single fields, as their sources say: the table of kinds names the file of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.custom_workloads import table
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests.models.custom_workloads.objects import RANDOM, Object, custom, gangs, grown, owners, stems, template
from tests.objects import node

pytestmark = pytest.mark.skipif(not table.available(), reason="no CEL library on this platform")
T = {"template": template()}


def labels(snapshot: Snapshot, key: str) -> list[str | None]:
    return [(pod.metadata.labels or {}).get(key) for pod in snapshot.pods]


def requests(snapshot: Snapshot, number: int = 0, *, inits: bool = False) -> dict[str, dict[str, Any] | None]:
    """Return the requests of the containers of a pod by name."""
    spec = snapshot.pods[number].spec
    listed = (spec.initContainers if inits else spec.containers) or []
    return {each.name or "": each.resources.requests if each.resources is not None else None for each in listed}


def running(pod: objects.Pod, owner: str, **changes: Any) -> Object:
    """Return a running pod with the labels of a made one, and another name and owner."""
    kind, name = owner.split()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": changes["name"],
            "namespace": "default",
            "labels": {**(pod.metadata.labels or {}), **changes.get("labels", {})},
            "ownerReferences": [{"apiVersion": "x/v1", "kind": kind, "name": name, "controller": True}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    }


# --- groups of Jobs ---------------------------------------------------------------------------------------------------


def test_jobs_of_a_job_set_are_indexed_unless_stated() -> None:
    job = {"name": "w", "groupName": "g", "template": {"spec": {"parallelism": 2, "completionMode": "NonIndexed", **T}}}
    other = {"name": "x", "template": {"spec": T}}
    snapshot = grown(custom("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [job, other]}))
    assert stems(snapshot) == ["a-x-0-0-", "a-w-0-", "a-w-0-"]
    assert sorted(map(str, labels(snapshot, "batch.kubernetes.io/job-completion-index"))) == ["0", "None", "None"]
    assert gangs(snapshot) == {"a": (3, 3)}  # a group only labels its jobs


def test_subgroups_of_a_leader_worker_set_are_one_gang() -> None:
    spec = {"leaderWorkerTemplate": {"size": 4, "workerTemplate": template(), "subGroupPolicy": {"subGroupSize": 2}}}
    assert gangs(grown(custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec))) == {"a-0": (4, 4)}


def disaggregated(**more: Any) -> Object:
    worker = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}
    spec = {"slices": 2, "roles": [{"name": "p", "spec": worker}, {"name": "d", "spec": worker}]}
    return custom("disaggregatedset.x-k8s.io/v1", "DisaggregatedSet", spec, **more)


def test_running_pods_of_a_slice_are_not_made_again() -> None:
    made = grown(disaggregated())
    pods = {pod.metadata.name: pod for pod in made.pods}
    leader, worker = f"a-1-{RANDOM}-d-0", f"a-1-{RANDOM}-d-0-1"
    again = grown(
        disaggregated(),
        cluster=(
            running(pods[leader], "StatefulSet a-1-0f1e2d3c-d", name="a-1-0f1e2d3c-d-0"),
            running(pods[worker], "StatefulSet a-1-0f1e2d3c-d-0", name="a-1-0f1e2d3c-d-0-1"),
        ),
    )
    assert len(again.to_create) == 6
    assert not {leader, worker} & {pod.metadata.name for pod in again.pods}


def train_job(runtime: str, **trainer: Any) -> Object:
    return custom("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": runtime}, "trainer": trainer})


def test_the_launcher_of_a_train_job_is_one_of_its_nodes() -> None:
    assert stems(grown(train_job("deepspeed-distributed"))) == ["a-node-0-0-", "a-launcher-0-0-"]
    three = grown(train_job("deepspeed-distributed", numNodes=3))
    assert stems(three) == ["a-node-0-0-", "a-node-0-1-", "a-launcher-0-0-"]


def test_resources_of_a_node_are_merged_one_by_one() -> None:
    runtime = custom(
        "trainer.kubeflow.org/v1alpha1",
        "TrainingRuntime",
        {
            "mlPolicy": {"numNodes": 1},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                                "spec": {"template": {"spec": {"containers": [{"name": "node", "resources": {"requests": {"cpu": "1"}}}]}}},
                            },
                        }
                    ]
                }
            },
        },
        name="rt",
    )
    job = train_job("rt", resourcesPerNode={"requests": {"memory": "1Gi"}})
    job["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    assert requests(grown(runtime, job)) == {"node": {"cpu": "1", "memory": "1Gi"}}


def volcano(*tasks: Object, **spec: Any) -> Object:
    return custom("batch.volcano.sh/v1alpha1", "Job", {"tasks": list(tasks), **spec})


def test_a_volcano_job_needs_the_sum_of_its_tasks() -> None:
    idle, some, all_ = {"name": "i", **T}, {"name": "s", "replicas": 3, "minAvailable": 1, **T}, {"name": "a", "replicas": 2, **T}
    snapshot = grown(volcano(idle, some, all_))
    assert stems(snapshot) == ["a-s-0", "a-s-1", "a-s-2", "a-a-0", "a-a-1"]
    assert gangs(snapshot) == {"a": (5, 3)}
    parts = {"name": "p", "replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}, **T}
    assert gangs(grown(volcano(parts))) == {"a": (4, 2)}


def test_pods_of_a_volcano_job_have_its_priority_class_unless_they_state_one() -> None:
    stated = {"name": "b", "replicas": 1, "template": template(priorityClassName="low")}
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cluster = tuple({**classes, "metadata": {"name": name}, "value": value} for name, value in (("low", 1), ("high", 2)))
    snapshot = grown(volcano({"name": "a", "replicas": 1, **T}, stated, priorityClassName="high"), cluster=cluster)
    assert {pod.metadata.name: pod.spec.priorityClassName for pod in snapshot.pods} == {"a-a-0": "high", "a-b-0": "low"}


def test_a_flux_cluster_only_prefers_nodes_of_its_own() -> None:
    spec = {"size": 2, "containers": [{"image": "i"}], "services": [{"image": "s"}]}
    snapshot = grown(custom("flux-framework.org/v1alpha2", "MiniCluster", spec))
    assert sorted(stems(snapshot)) == ["a-0-", "a-1-", "a-services"]
    affinity = next(pod for pod in snapshot.pods if pod.metadata.name != "a-services").spec.affinity
    assert affinity is not None
    assert affinity.podAntiAffinity is not None
    assert not affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
    assert affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution


# --- Kubeflow ---------------------------------------------------------------------------------------------------------


def mpi(version: str, **spec: Any) -> Object:
    specs = {"Launcher": T, "Worker": {"replicas": 2, **T}}
    return custom(f"kubeflow.org/{version}", "MPIJob", {"mpiReplicaSpecs": specs, **spec})


def test_the_launcher_of_mpi_is_a_pod_in_v1_and_a_job_later() -> None:
    assert owners(grown(mpi("v1"))) == ["MPIJob a"] * 3
    assert stems(grown(mpi("v1"))) == ["a-launcher", "a-worker-0", "a-worker-1"]
    assert owners(grown(mpi("v2beta1"))) == ["Job a-launcher", "MPIJob a", "MPIJob a"]


def test_workers_count_from_one_if_the_launcher_is_a_worker() -> None:
    snapshot = grown(mpi("v2beta1", runLauncherAsWorker=True))
    assert stems(snapshot) == ["a-launcher-", "a-worker-0", "a-worker-1"]
    assert labels(snapshot, "training.kubeflow.org/replica-index")[1:] == ["1", "2"]


def test_workers_wait_for_a_master() -> None:
    snapshot = grown(custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": T, "Worker": T}}))
    assert [requests(snapshot, i, inits=True) for i in (0, 1)] == [{}, {"init-pytorch": {"cpu": "50m", "memory": "10Mi"}}]
    alone = grown(custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": T}}))
    assert requests(alone, inits=True) == {}


# --- Ray --------------------------------------------------------------------------------------------------------------


def ray(**more: Any) -> Object:
    return {"headGroupSpec": T, "workerGroupSpecs": [{"groupName": "g", "replicas": 3, "minReplicas": 1, "numOfHosts": 2, **T}], **more}


def test_an_autoscaled_ray_cluster_needs_its_minimum_and_has_an_autoscaler() -> None:
    snapshot = grown(custom("ray.io/v1", "RayCluster", ray(enableInTreeAutoscaling=True)))
    assert gangs(snapshot) == {"a": (7, 3)}
    assert requests(snapshot) == {"c": {"cpu": "100m"}, "autoscaler": {"cpu": "500m", "memory": "512Mi"}}
    assert requests(snapshot, 1, inits=True) == {"wait-gcs-ready": {"cpu": "200m", "memory": "256Mi"}}
    assert gangs(grown(custom("ray.io/v1", "RayCluster", ray()))) == {"a": (7, 7)}


def test_the_submitter_of_a_ray_job_is_in_no_gang() -> None:
    modes = {"K8sJobMode": (8, 1), "SidecarMode": (7, 2), "HTTPMode": (7, 1)}
    for mode, (pods, containers) in modes.items():
        snapshot = grown(custom("ray.io/v1", "RayJob", {"submissionMode": mode, "rayClusterSpec": ray()}))
        head = next(pod for pod in snapshot.pods if (pod.metadata.labels or {}).get("ray.io/node-type") == "head")
        assert (len(snapshot.pods), len(head.spec.containers or [])) == (pods, containers)
        assert gangs(snapshot) == {"a": (7, 7)}


def test_running_pods_of_a_ray_job_are_not_made_again() -> None:
    job = custom("ray.io/v1", "RayJob", {"submissionMode": "HTTPMode", "rayClusterSpec": ray()})
    head = next(pod for pod in grown(job).pods if (pod.metadata.labels or {}).get("ray.io/node-type") == "head")
    pod = running(
        head, "RayCluster a-x7k2p", name="a-x7k2p-head-vb5nq", labels={"ray.io/cluster": "a-x7k2p", "ray.io/identifier": "a-x7k2p-head"}
    )
    assert len(grown(job, cluster=(pod,)).to_create) == 6


# --- Spark and queued workloads ---------------------------------------------------------------------------------------


def spark(**spec: Any) -> Object:
    return custom("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {}, "executor": {}, **spec})


def test_executors_of_spark_begin_with_the_largest_stated_number() -> None:
    dynamic = {"enabled": True, "initialExecutors": 1, "minExecutors": 2}
    assert len(grown(spark(dynamicAllocation=dynamic, executor={"instances": 3})).pods) == 4
    assert len(grown(spark(dynamicAllocation={"enabled": True})).pods) == 1
    assert len(grown(spark()).pods) == 2


def test_running_executors_are_known_by_their_number() -> None:
    application = spark(executor={"instances": 2})
    made = {(pod.metadata.labels or {}).get("spark-exec-id"): pod for pod in grown(application).pods}
    cluster = (running(made["1"], "Pod a-driver", name="a-9f3c2d-exec-1"),)
    assert stems(grown(application, cluster=cluster)) == ["a-driver", "a-exec-2-"]


def test_pods_of_spark_have_sidecars_and_the_batch_scheduler() -> None:
    side = {"name": "s", "resources": {"requests": {"cpu": "1"}}}
    snapshot = grown(spark(batchScheduler="volcano", driver={"sidecars": [side], "schedulerName": "x"}))
    assert requests(snapshot)["s"] == {"cpu": "1"}
    assert snapshot.pods[0].spec.schedulerName == "volcano"


def wrapper(**spec: Any) -> Object:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template()["spec"]}
    return custom("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": pod}], **spec})


def test_a_suspended_app_wrapper_makes_nothing_unless_kueue_starts_it() -> None:
    held = from_objects([wrapper(suspend=True)], manifests=True)
    assert (held.pods, held.omissions) == ([], ["AppWrapper default/a: is suspended: no objects inside are made"])
    queued = wrapper(suspend=True)
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    assert len(from_objects([queued], manifests=True).pods) == 1


def test_a_pod_set_of_kueue_may_be_admitted_in_part() -> None:
    topology = {"required": "rack", "podSetSliceRequiredTopology": "host", "podSetSliceSize": 2}
    sets = [{"name": "m", **T}, {"name": "w", "count": 4, "minCount": 2, "topologyRequest": topology, **T}]
    snapshot = grown(custom("kueue.x-k8s.io/v1beta2", "Workload", {"podSets": sets}))
    assert gangs(snapshot) == {"a": (5, 3)}
    worker = snapshot.pods[-1].metadata.annotations or {}
    parts = ("size", "required-topology")
    assert [worker[f"kueue.x-k8s.io/podset-slice-{part}"] for part in parts] == ["2", "host"]


# --- services ---------------------------------------------------------------------------------------------------------


def test_a_rollout_takes_a_pod_template() -> None:
    pods = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": template(labels={"app": "web"})}
    rollout = custom("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, "workloadRef": {"kind": "PodTemplate", "name": "t"}})
    assert stems(grown(pods, rollout)).count("a-HASH-") == 2


def test_ordinals_of_an_advanced_stateful_set_begin_where_stated() -> None:
    spec = {"replicas": 2, "ordinals": {"start": 5}, **T}
    assert stems(grown(custom("apps.kruise.io/v1beta1", "StatefulSet", spec))) == ["a-5", "a-6"]


def test_a_knative_revision_has_fields_of_its_own() -> None:
    revision = template(annotations={"autoscaling.knative.dev/initialScale": "3"}, containerConcurrency=5, timeoutSeconds=9)
    service = custom("serving.knative.dev/v1", "Service", {"template": revision})
    from_objects([service], manifests=True, unknown_fields=False)
    assert stems(grown(service)) == ["a-00001-deployment-HASH-"] * 3


def inference(predictor: Object, **more: Any) -> Object:
    return custom("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor, "canary": [{"name": "x"}]}, **more)


def test_a_model_server_has_the_default_resources_that_it_does_not_state() -> None:
    named = {"storageUri": "s3://b/m", "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}
    for predictor in ({"model": named}, {"sklearn": named}):
        snapshot = grown(inference(predictor))
        assert requests(snapshot) == {"kserve-container": {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1"}}
        assert requests(snapshot, inits=True) == {"storage-initializer": {"cpu": "100m", "memory": "100Mi"}}
    assert stems(grown(inference({"model": {}}, annotations={"serving.kserve.io/stop": "true"}))) == []


# --- finished objects and generated names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "status"),
    [
        (
            custom("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "w", "template": {"spec": T}}]}),
            {"terminalState": "Failed"},
        ),
        (train_job("torch-distributed"), {"conditions": [{"type": "Complete", "status": "True"}]}),
        (mpi("v2beta1"), {"conditions": [{"type": "Created", "status": "True"}, {"type": "Succeeded", "status": "True"}]}),
        (volcano({"name": "a", "replicas": 2, **T}), {"state": {"phase": "Completed"}}),
        (custom("ray.io/v1", "RayJob", {"rayClusterSpec": ray()}), {"jobDeploymentStatus": "Complete"}),
        (spark(), {"applicationState": {"state": "COMPLETED"}}),
        (custom("kueue.x-k8s.io/v1beta2", "Workload", {"podSets": [T]}), {"conditions": [{"type": "Finished", "status": "True"}]}),
        (wrapper(), {"phase": "Succeeded"}),
    ],
    ids=lambda value: value.get("kind"),
)
def test_a_finished_object_makes_no_more_pods(obj: Object, status: Object) -> None:
    assert stems(grown(obj))
    snapshot = from_objects([{**obj, "status": status}], manifests=True)
    assert any("is finished: no" in note for note in snapshot.omissions)
    assert stems(grown({**obj, "status": status})) == []


def test_objects_with_a_generated_name_get_one_of_their_own() -> None:
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "j-"},
        "spec": {"template": {"spec": template()["spec"]}},
    }
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    ray_job = custom("ray.io/v1", "RayCluster", ray())
    ray_job["metadata"] = {"generateName": "r-"}
    snapshot = from_objects([job, job, ray_job], manifests=True)
    assert [each.metadata.name for each in snapshot.workloads["Job"]] == ["j-00001", "j-00002"]
    assert [each.metadata.name for each in snapshot.workloads["RayCluster"]] == ["r-00001.head", "r-00001.g"]
    note = "Job default/j-: is named j-00001 here, as an API server would generate its name"
    assert note in snapshot.omissions
    with pytest.raises(InputError, match="generateName is resolved by the API server only"):
        from_objects([job])


def test_manifests_keep_the_generated_name(tmp_path: Path) -> None:
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "j-"}}
    job["spec"] = {"template": {"spec": template(restartPolicy="Never")["spec"]}}
    (tmp_path / "c.json").write_text(json.dumps(node("n1")), encoding="utf-8")
    (tmp_path / "m.json").write_text(json.dumps(job), encoding="utf-8")
    result = CliRunner().invoke(cli.main, ["solve", f"{tmp_path}/c.json", "-w", f"{tmp_path}/m.json", "-f", "manifests"])
    written = yaml.safe_load(result.stdout)
    assert (written["metadata"].get("name"), written["metadata"]["generateName"]) == (None, "j-")
    assert written["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
