"""Workloads of kinds that Kubernetes lacks become pods by the table of kinds: numbers, names, labels, owners, gangs, bad input."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import operator
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.audit.view.view import ClusterView
from kubestow.commands.core import workload_kinds
from kubestow.models.custom_workloads import table
from kubestow.models.gangs.gangs import GANG, MIN_MEMBER, find
from kubestow.models.kube import objects
from kubestow.models.snapshot import scope
from kubestow.models.snapshot.snapshot import InputError, from_objects, load
from kubestow.models.workloads.expand import expand
from kubestow.models.workloads.ownership import PodOwners
from tests.models.custom_workloads.objects import NODES, Object, custom, gangs, grown, job_set, lws, owners, stems, template

KINDS = Path(table.__file__).with_name("kinds")
pytestmark = pytest.mark.skipif(not table.available(), reason="no CEL library on this platform")


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(KINDS.glob("*.yaml")), ids=lambda path: str(path.stem))
def test_every_entry_has_the_form_that_users_files_have(path: Path) -> None:
    entries = table.read(yaml.safe_load(path.read_text(encoding="utf-8")), path.name)
    assert entries
    assert all(entry.system and entry.source.startswith("https://") for entry in entries)


def test_names_are_unique_and_differ_from_those_of_kubernetes() -> None:
    names = [entry.name for entry in table.entries()]
    assert len(names) == len(set(names))
    from kubestow.models.kube import kinds

    assert not set(names) & set(kinds.KINDS)


def test_mistakes_in_a_table_are_named() -> None:
    entry = {"kind": "A", "group": "b.c", "versions": ["v1"]}

    def problems(**more: Any) -> list[str]:
        with pytest.raises(table.TableError) as error:
            table.read({"apiVersion": "kubestow.dev/v1alpha1", "kind": "WorkloadKinds", "workloadKinds": [{**entry, **more}]}, "f")
        return error.value.problems

    assert problems(setz=[]) == ["f: workloadKinds[0].setz: unknown field; did you mean sets?"]
    assert problems(sets=[{"templat": "spec"}]) == ["f: workloadKinds[0].sets[0].templat: unknown field; did you mean template?"]
    assert problems(sets=[{}]) == ["f: workloadKinds[0].sets[0]: expected exactly one of template, spec and build"]
    assert "unknown placeholder {nam}; did you mean name?" in problems(gang="{nam}")[0]
    assert "expected a path such as" in problems(sets=[{"template": "a..b"}])[0]
    assert "sets[0].replicas: 'item.(' does not compile" in problems(sets=[{"template": "a", "replicas": "item.("}])[0]
    assert problems(versions=["1"]) == ["f: workloadKinds[0].versions: got '1', expected one such as v1beta1"]


def test_the_nearest_version_is_used_and_named() -> None:
    found = from_objects([{**job_set(("w", 1, 2)), "apiVersion": "jobset.x-k8s.io/v1beta1"}], manifests=True)
    assert found.omissions == ["JobSet default/a: version v1beta1 is not known here: read as v1alpha2"]
    entry = table.find("ray.io/v1beta1", "RayCluster")
    assert entry is not None
    assert (entry.nearest("v1beta1"), entry.nearest("v2"), entry.nearest("v1alpha2")) == ("v1", "v1", "v1alpha1")


# --- pods -------------------------------------------------------------------------------------------------------------

T = {"template": template()}
HEAD = {"headGroupSpec": T, "workerGroupSpecs": [{"groupName": "g", "replicas": 2, "numOfHosts": 2, **T}]}
RUNTIME = custom(
    "trainer.kubeflow.org/v1alpha1",
    "ClusterTrainingRuntime",
    {
        "mlPolicy": {"numNodes": 2},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node"}]}}},
                        },
                    }
                ]
            }
        },
    },
    name="rt",
)
#: Manifests, the names of the pods without random suffixes, and the gangs with their pods and the pods that they need.
MADE: dict[str, tuple[list[Object], list[str], dict[str, tuple[int, int]]]] = {
    "JobSet": (
        [job_set(("w", 2, 2), ("d", 1, 1))],
        ["a-w-0-0-", "a-w-0-1-", "a-w-1-0-", "a-w-1-1-", "a-d-0-0-"],
        {"a": (5, 5)},
    ),
    "LeaderWorkerSet": ([lws(2, 3)], ["a-0", "a-1", "a-0-1", "a-0-2", "a-1-1", "a-1-2"], {"a-0": (3, 3), "a-1": (3, 3)}),
    "LeaderWorkerSet of single pods": ([lws(2, 1, leaderTemplate=template("1"))], ["a-0", "a-1"], {"a-0": (1, 1), "a-1": (1, 1)}),
    "DisaggregatedSet": (
        [
            custom(
                "disaggregatedset.x-k8s.io/v1",
                "DisaggregatedSet",
                {
                    "slices": 2,
                    "roles": [
                        {"name": "prefill", "spec": {"replicas": 2, "leaderWorkerTemplate": {"workerTemplate": template()}}},
                        {"name": "decode", "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}},
                    ],
                },
            )
        ],
        [
            *("a-0-RANDOM-prefill-0", "a-0-RANDOM-prefill-1", "a-1-RANDOM-prefill-0", "a-1-RANDOM-prefill-1"),
            *("a-0-RANDOM-decode-0", "a-1-RANDOM-decode-0", "a-0-RANDOM-decode-0-1", "a-1-RANDOM-decode-0-1"),
        ],
        {f"a-{copy}-prefill-{group}": (1, 1) for copy in (0, 1) for group in (0, 1)} | {f"a-{copy}-decode-0": (2, 2) for copy in (0, 1)},
    ),
    "TrainJob": (
        [RUNTIME, custom("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "rt"}, "trainer": {"numNodes": 3}})],
        ["a-node-0-0-", "a-node-0-1-", "a-node-0-2-"],
        {"a": (3, 3)},
    ),
    "TrainJob with the runtime's nodes": (
        [RUNTIME, custom("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "rt"}})],
        ["a-node-0-0-", "a-node-0-1-"],
        {"a": (2, 2)},
    ),
    "PyTorchJob": (
        [custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": T, "Worker": {"replicas": 2, **T}}})],
        ["a-master-0", "a-worker-0", "a-worker-1"],
        {"a": (3, 3)},
    ),
    "TFJob": (
        [
            custom(
                "kubeflow.org/v1",
                "TFJob",
                {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}, "tfReplicaSpecs": {"PS": T, "Worker": {"replicas": 2, **T}}},
            )
        ],
        ["a-ps-0", "a-worker-0", "a-worker-1"],
        {"a": (3, 2)},
    ),
    "XGBoostJob": ([custom("kubeflow.org/v1", "XGBoostJob", {"xgbReplicaSpecs": {"Master": T}})], ["a-master-0"], {"a": (1, 1)}),
    "PaddleJob": ([custom("kubeflow.org/v1", "PaddleJob", {"paddleReplicaSpecs": {"Worker": T}})], ["a-worker-0"], {"a": (1, 1)}),
    "JAXJob": ([custom("kubeflow.org/v1", "JAXJob", {"jaxReplicaSpecs": {"Worker": T}})], ["a-worker-0"], {"a": (1, 1)}),
    "MPIJob": (
        [custom("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": {"Launcher": T, "Worker": {"replicas": 2, **T}}})],
        ["a-launcher-", "a-worker-0", "a-worker-1"],
        {"a": (3, 3)},
    ),
    "RayCluster": ([custom("ray.io/v1", "RayCluster", HEAD)], ["a-head-", *["a-g-worker-"] * 4], {"a": (5, 5)}),
    "RayJob": (
        [custom("ray.io/v1", "RayJob", {"entrypoint": "x", "rayClusterSpec": HEAD})],
        ["a-RANDOM-head-", *["a-RANDOM-g-worker-"] * 4, "a-"],
        {"a": (5, 5)},
    ),
    "RayService": (
        [custom("ray.io/v1", "RayService", {"rayClusterConfig": HEAD})],
        ["a-RANDOM-head-", *["a-RANDOM-g-worker-"] * 4],
        {"a": (5, 5)},
    ),
    "Volcano Job": (
        [
            custom(
                "batch.volcano.sh/v1alpha1",
                "Job",
                {"minAvailable": 2, "tasks": [{"name": "m", "replicas": 1, **T}, {"replicas": 2, **T}]},
            )
        ],
        ["a-m-0", "a-default1-0", "a-default1-1"],
        {"a": (3, 2)},
    ),
    "SparkApplication": (
        [custom("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {"cores": 1}, "executor": {"instances": 2}})],
        ["a-driver", "a-exec-1-", "a-exec-2-"],
        {"a": (3, 3)},
    ),
    "MiniCluster": (
        [custom("flux-framework.org/v1alpha2", "MiniCluster", {"size": 2, "containers": [{"image": "i"}]})],
        ["a-0-", "a-1-"],
        {"a": (2, 2)},
    ),
    "AppWrapper": (
        [
            custom(
                "workload.codeflare.dev/v1beta2",
                "AppWrapper",
                {
                    "components": [
                        {"template": {**job_set(("w", 1, 2)), "metadata": {"name": "x"}}},
                        {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template()["spec"]}},
                    ]
                },
            )
        ],
        ["p", "x-w-0-0-", "x-w-0-1-"],
        {"a": (3, 3)},
    ),
    "Workload": (
        [custom("kueue.x-k8s.io/v1beta2", "Workload", {"podSets": [{"name": "m", "count": 1, **T}, {"name": "w", "count": 2, **T}]})],
        ["a-m-", "a-w-", "a-w-"],
        {"a": (3, 3)},
    ),
    "Rollout": ([custom("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, **T})], ["a-HASH-"] * 2, {"a": (2, 2)}),
    "CloneSet": ([custom("apps.kruise.io/v1alpha1", "CloneSet", {"replicas": 2, **T})], ["a-", "a-"], {"a": (2, 2)}),
    "Advanced StatefulSet": ([custom("apps.kruise.io/v1beta1", "StatefulSet", {"replicas": 2, **T})], ["a-0", "a-1"], {"a": (2, 2)}),
    "Knative Service": (
        [custom("serving.knative.dev/v1", "Service", {"template": template(annotations={"autoscaling.knative.dev/min-scale": "2"})})],
        ["a-00001-deployment-HASH-"] * 2,
        {"a": (2, 2)},
    ),
    "InferenceService": (
        [
            custom(
                "serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"minReplicas": 2, "model": {"modelFormat": {"name": "x"}}}}
            )
        ],
        ["a-predictor-HASH-"] * 2,
        {"a-predictor": (2, 2)},
    ),
}


@pytest.mark.parametrize(("manifests", "names", "expected"), MADE.values(), ids=MADE)
def test_pods_and_gangs(manifests: list[Object], names: list[str], expected: dict[str, tuple[int, int]]) -> None:
    snapshot = grown(*manifests)
    assert stems(snapshot) == names
    assert gangs(snapshot) == expected


def test_every_kind_is_tried_here() -> None:
    tried = {(m["apiVersion"].partition("/")[0], m["kind"]) for manifests, _, _ in MADE.values() for m in manifests}
    runtimes = {("trainer.kubeflow.org", "TrainingRuntime")}
    assert {(entry.group, entry.kind) for entry in table.entries()} - runtimes == tried


def test_pods_have_the_labels_and_owners_that_the_controller_gives_them() -> None:
    snapshot = grown(job_set(("w", 2, 2)))
    assert owners(snapshot) == ["Job a-w-0"] * 2 + ["Job a-w-1"] * 2
    last = snapshot.pods[-1].metadata.labels or {}
    assert last["jobset.sigs.k8s.io/replicatedjob-name"] == "w"
    assert (last["jobset.sigs.k8s.io/job-index"], last["batch.kubernetes.io/job-completion-index"]) == ("1", "1")
    assert owners(grown(lws(1, 2))) == ["StatefulSet a", "StatefulSet a-0"]


def test_a_gang_is_only_set_where_none_is_stated() -> None:
    stated = job_set(("w", 1, 2), annotations={GANG: "mine", MIN_MEMBER: "1"})
    assert gangs(grown(stated)) == {"mine": (2, 1)}
    grouped = job_set(("w", 1, 2))
    grouped["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert list(gangs(grown(grouped))) == ["g"]


def test_workloads_of_one_name_are_gangs_of_their_own() -> None:
    found = gangs(grown(job_set(("w", 1, 2)), custom("ray.io/v1", "RayCluster", HEAD)))
    assert found == {"a-jobset": (2, 2), "a-raycluster": (5, 5)}


def test_partial_gangs() -> None:
    assert gangs(grown(job_set(("w", 1, 2)), partial=True)) == {"a": (2, 1)}


def test_running_pods_are_not_made_again() -> None:
    first = grown(job_set(("w", 2, 2)))
    running = []
    for pod in first.pods[:3]:
        labels = {**(pod.metadata.labels or {})}
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": objects.controller_of(pod).name, "controller": True}  # type: ignore[union-attr]
        running.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": pod.metadata.name, "namespace": "default", "labels": labels, "ownerReferences": [reference]},
                "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
                "status": {"phase": "Running"},
            }
        )
    again = grown(job_set(("w", 2, 2)), cluster=tuple(running))
    assert stems(again) == ["a-w-1-1-"]
    (gang,) = find(again, scope.select(again))
    assert (len(gang.bound), len(gang.pods)) == (3, 1)


def test_suspended_objects_make_no_pods_unless_kueue_starts_them() -> None:
    held = job_set(("w", 1, 2))
    held["spec"]["suspend"] = True
    assert stems(grown(held)) == []
    held["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    assert len(stems(grown(held))) == 2


def test_resources_of_the_trainer_and_of_spark() -> None:
    trainer = {"resourcesPerNode": {"requests": {"cpu": "2"}}}
    snapshot = grown(RUNTIME, custom("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "rt"}, "trainer": trainer}))
    resources = (snapshot.pods[0].spec.containers or [])[0].resources
    assert resources is not None
    assert resources.requests == {"cpu": "2"}
    spec = {"type": "Python", "driver": {"memory": "2g", "coreRequest": "500m"}, "executor": {"memory": "512m", "memoryOverhead": "1g"}}
    spark = grown(custom("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec))
    requests = [(pod.spec.containers or [])[0].resources.requests for pod in spark.pods]  # type: ignore[union-attr]
    assert requests == [{"cpu": "500m", "memory": "2867Mi"}, {"cpu": "1", "memory": "1536Mi"}]


def test_a_rollout_takes_the_template_of_its_deployment() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template("3", {"app": "web"})},
    }
    rollout = custom("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, "workloadRef": {"kind": "Deployment", "name": "web"}})
    snapshot = grown(deployment, rollout)
    assert [(pod.metadata.labels or {})["app"] for pod in snapshot.pods] == ["web", "web"]
    alone = from_objects([rollout], manifests=True)
    assert [each.reason for each in alone.unread] == ["no Deployment 'web' in the input: its pods are unknown"]


# --- bad input --------------------------------------------------------------------------------------------------------


def test_mistakes_in_an_object_are_named() -> None:
    def problems(*manifests: Object, **options: Any) -> list[str]:
        with pytest.raises(InputError) as error:
            from_objects(list(manifests), manifests=True, **options)
        return [problem.partition(": ")[2] for problem in error.value.problems]

    misspelt = job_set(("w", 1, 2))
    misspelt["spec"]["replicatedJob"] = misspelt["spec"].pop("replicatedJobs")
    assert problems(misspelt) == ["JobSet default/a: spec.replicatedJob: unknown field; did you mean replicatedJobs?"]
    inner = job_set(("w", 1, 2))
    inner["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["resourses"] = {}
    path = "spec.replicatedJobs[0].template.spec.template.spec.containers[0]"
    assert problems(inner, unknown_fields=False) == [f"JobSet default/a: {path}.resourses: unknown field; did you mean resources?"]
    wrong = job_set(("w", 1, 2))
    wrong["spec"]["replicatedJobs"][0]["replicas"] = "many"
    assert "got many, expected a whole number of at least 0" in problems(wrong)[0]
    quantity = job_set(("w", 1, 2))
    quantity["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = template("lots")
    assert problems(quantity)[0].startswith(f"JobSet default/a: {path}.resources.requests.cpu: 'lots' is not a quantity")


#: Values of other types than the fields have.
ODD: list[Any] = [None, 0, -1, 3, 2.5, "x", "", [], {}, [1], {"a": 1}, True, 10**30, "{name}", [None], {"": None}]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all parts of plain data."""
    yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*at, key))


@pytest.mark.parametrize("seed", range(4))
def test_odd_values_are_bad_input_and_never_a_traceback(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        manifests = copy.deepcopy(rng.choice(list(MADE.values()))[0])
        obj = rng.choice(manifests)
        *path, last = rng.choice([at for at in places(obj) if at[:1] in (("metadata",), ("spec",))])
        functools.reduce(operator.getitem, path, obj)[last] = rng.choice(ODD)
        for as_manifests in (True, False):
            with contextlib.suppress(InputError):
                snapshot = from_objects(manifests, manifests=as_manifests)
                if as_manifests:
                    expand(from_objects(NODES), snapshot)


def test_fields_that_are_not_followed_are_noted() -> None:
    exclusive = job_set(("w", 2, 2), annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"})
    (note,) = from_objects([exclusive], manifests=True).omissions
    assert note.endswith("exclusive-topology]: not followed: jobs may share a domain, and a job may be split")


def test_files_with_objects_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(lws(2, 3)), encoding="utf-8")
    found = load([str(file)], manifests=True)
    assert sorted(found.sources) == ["LeaderWorkerSet default/a.leader", "LeaderWorkerSet default/a.worker"]


# --- users' kinds, owners and commands --------------------------------------------------------------------------------

PAGE = Path(table.__file__).parents[2] / "docs" / "workload-kinds.md"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, [*map(str, arguments), "-f", "json"])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The two files of kinds of the page, and a manifest for each."""
    monkeypatch.chdir(tmp_path)
    for i, text in enumerate(PAGE.read_text(encoding="utf-8").split("```yaml\n")[1:]):
        (tmp_path / f"kinds{i}.yaml").write_text(text.partition("```")[0], encoding="utf-8")
    made = [
        custom("games.example.com/v1", "GameServerSet", {"replicas": 2, "template": template()}, name="gs"),
        custom("ml.example.com/v1", "TrainingSet", {"roles": {"W": {"replicas": 2, "hostsPerReplica": 2, "podTemplate": template()}}}),
    ]
    (tmp_path / "m.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}), encoding="utf-8")
    (tmp_path / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": NODES}), encoding="utf-8")
    return tmp_path


def test_the_examples_of_the_page_are_read(files: Path) -> None:
    result = run("check", "--cluster", "c.json", "m.json", "--workload-kinds", "kinds0.yaml", "--workload-kinds", "kinds1.yaml")
    found = {each["workload"]: each["fit"] for each in json.loads(result.stdout)["workloads"]}
    assert found == {"GameServerSet default/gs": "fits", "TrainingSet default/a": "fits"}
    with table.extended(workload_kinds.read(["kinds0.yaml", "kinds1.yaml"])):
        snapshot = grown(*json.loads((files / "m.json").read_text(encoding="utf-8"))["items"])
    assert gangs(snapshot) == {"a-w-0": (2, 2), "a-w-1": (2, 2)}


def test_a_kind_that_no_entry_covers_is_an_error_with_the_entry_to_add(files: Path) -> None:
    result = run("check", "--cluster", "c.json", "m.json")
    assert result.exit_code == 4
    fixes = [fault["finding"]["fix"] for fault in json.loads(result.stdout)["faults"] if fault["finding"]["code"] == "KS809"]
    snippets = [fix.partition("describe the kind: ")[2].partition(" in a file")[0] for fix in fixes]
    document = {"apiVersion": "kubestow.dev/v1alpha1", "kind": "WorkloadKinds", "workloadKinds": [yaml.safe_load(s) for s in snippets]}
    assert [entry.kind for entry in table.read(document, "f")] == ["GameServerSet", "TrainingSet"]


def test_a_mistake_in_a_file_of_kinds_ends_the_command(files: Path) -> None:
    text = (files / "kinds0.yaml").read_text(encoding="utf-8").replace("replicas:", "replica:")
    (files / "bad.yaml").write_text(text, encoding="utf-8")
    result = run("check", "m.json", "--workload-kinds", "bad.yaml")
    assert result.exit_code == 1
    assert "bad.yaml: workloadKinds[0].sets[0].replica: unknown field; did you mean replicas?" in result.stderr


def test_the_table_of_the_page_is_current() -> None:
    """Out of date: python packaging/make_kinds_page.py --write"""
    script = Path(table.__file__).parents[2] / "packaging" / "make_kinds_page.py"
    assert subprocess.run([sys.executable, str(script)], check=False).returncode == 0


def test_findings_about_one_role_have_its_line(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    volcano = custom("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"name": "a", **T}, {"name": "b", **T}]})
    manifest.write_text(yaml.safe_dump(json.loads(json.dumps(volcano))), encoding="utf-8")
    faults = json.loads(run("check", manifest).stdout)["faults"]
    assert {fault["finding"]["object"]: fault["position"]["line"] for fault in faults if fault["finding"]["code"] == "KS801"} == {
        "VolcanoJob default/a.a": 15,
        "VolcanoJob default/a.b": 25,
    }


def test_running_pods_belong_to_the_object() -> None:
    stored = custom("ray.io/v1", "RayCluster", HEAD, uid="u1")
    made = grown(custom("ray.io/v1", "RayCluster", HEAD))
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod.metadata.name,
                "namespace": "default",
                "labels": pod.metadata.labels,
                "ownerReferences": [{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "a", "controller": True}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
            "status": {"phase": "Running"},
        }
        for pod in made.pods
    ]
    snapshot = from_objects([*NODES, stored, *pods])
    assert {owner: len(members) for owner, members in PodOwners(snapshot).group(range(5)).items()} == {
        "RayCluster default/a.head": 1,
        "RayCluster default/a.g": 4,
    }
    assert [subject.name for subject in ClusterView(snapshot).subjects] == [
        "RayCluster default/a.head",
        "RayCluster default/a.g",
    ]
