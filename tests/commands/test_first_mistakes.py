"""Natural mistakes end in a line that says what was probably meant, never in an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.commands.fakes import Run
from tests.commands.test_bad_input import refusals, write
from tests.objects import Object, node, pod

#: The commands that read a snapshot, with what else they need.
READING = [("solve",), ("explain",), ("rebalance", "--goal", "repair"), ("audit",)]
MANIFESTS = [("solve",), ("explain",)]

SELECTED: Object = {"matchLabels": {"app": "web"}}
SPREAD: Object = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": SELECTED,
}


def deployment(name: str = "web", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "app"}], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", node("a", cpu="4"), node("b", cpu="4"))


@pytest.fixture
def run_plainly() -> Run:
    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli.main, list(arguments), input=stdin, catch_exceptions=False)

    return invoke


# --- duplicate keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_a_key_given_twice_is_refused_in_snapshots(command: tuple[str, ...], tmp_path: Path) -> None:
    text = json.dumps({"kind": "List", "items": [node("a"), pod("p", namespace="prod", cpu="1")]})
    file = tmp_path / "s.json"
    file.write_text(text.replace('"cpu": "1"', '"cpu": "1", "cpu": "2"'))
    (line,) = refusals(tmp_path, file, command=command)
    assert line == f"{file}: Pod prod/p: spec.containers[0].resources.requests.cpu: duplicate key, expected each key once"


def test_a_key_given_twice_is_refused_in_manifests_and_results(cluster: Path, tmp_path: Path) -> None:
    text = json.dumps(deployment())
    manifest = tmp_path / "web.json"
    manifest.write_text(text.replace('"replicas": 2', '"replicas": 2, "replicas": 3'))
    (line,) = refusals(tmp_path, cluster, command=("solve", "-w", str(manifest)))
    assert line == f"{manifest}: Deployment default/web: spec.replicas: duplicate key, expected each key once"
    result = tmp_path / "result.json"
    result.write_text('{"apiVersion": "kubestow.dev/v1alpha1", "kind": "Placement", "status": "optimal", "status": "feasible"}')
    (line,) = refusals(tmp_path, cluster, command=("verify", "--result", str(result)))
    assert line == f"{result}: status: duplicate key, expected each key once"


# --- files without snapshot ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([pod("p")], "holds no Node objects (but Pod 1): expected a snapshot of the cluster, as of kubestow capture"),
        ([], "holds no Node objects: expected a snapshot"),
        ([deployment()], "(but Deployment 1): manifests are given with -w, in addition to a snapshot of the cluster"),
        (
            [node("a"), deployment(), deployment("db")],
            "Deployment default/web and 1 more have no pods, no uid and no status, which is a manifest",
        ),
        (
            [{"kind": "Status", "apiVersion": "v1", "message": "pods is forbidden"}],
            "kind: got Status, an answer of the API server, no object",
        ),
        (
            [{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}],
            "kind: got Table, a table as kubectl prints it; expected objects",
        ),
        ([node("a"), {**pod("p"), "kind": "pod"}, {**pod("q"), "kind": "pod"}], "Pod default/p: kind: got 'pod', expected Pod"),
        ([node("a"), {**deployment(), "kind": "deployments"}], "kind: got 'deployments', expected Deployment"),
        ([node("a"), {**deployment(), "apiVersion": "v1"}], "apiVersion: got 'v1', expected apps/v1 for a Deployment"),
        ([node("a"), {**deployment(), "apiVersion": "Apps/v1"}], "apiVersion: got 'Apps/v1', expected apps/v1 for a Deployment"),
    ],
)
def test_what_is_no_snapshot_is_refused(command: tuple[str, ...], objects: list[Object], expected: str, tmp_path: Path) -> None:
    file = write(tmp_path / "s.json", *objects)
    (line,) = refusals(tmp_path, file, command=command)
    assert line.startswith(f"{file}: ")
    assert expected.lower() in line.lower()


def test_what_an_api_server_has_is_no_manifest(tmp_path: Path, run_plainly: Run) -> None:
    """Workloads without pods are ordinary there: scaled to zero, new, of a dump without pods."""
    known = deployment()
    known["metadata"] = {"name": "web", "uid": "u"}
    ruled = {**deployment("ruled"), "status": {"observedGeneration": 1}}
    idle = deployment("idle")
    idle["spec"]["replicas"] = 0
    owned = {**deployment("owned-1"), "kind": "ReplicaSet"}
    owned["metadata"] = {"name": "owned-1", "ownerReferences": [{"kind": "Deployment", "name": "owned", "controller": True}]}
    file = write(tmp_path / "s.json", node("a"), known, ruled, idle, owned)
    assert run_plainly("solve", str(file)).exit_code == 0
    file = write(tmp_path / "s.json", node("a"), {**deployment(), "metadata": {"name": "web", "creationTimestamp": None}, "status": {}})
    assert run_plainly("solve", str(file)).exit_code == 1


# --- kinds of manifests -----------------------------------------------------------------------------------------------

KAFKA: Object = {"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": {"name": "k"}}
POOLS: list[Object] = [{"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool", "metadata": {"name": n}} for n in "ab"]
ROLES: list[Object] = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "c"}},
    {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}},
]


def test_kinds_that_create_no_pods_are_named(cluster: Path, tmp_path: Path, run_plainly: Run) -> None:
    manifest = write(tmp_path / "app.json", deployment(), KAFKA, *POOLS, *ROLES)
    sentence = "3 objects of kinds that create no pods here: Kafka 1, KafkaNodePool 2"
    for command in MANIFESTS:
        result = run_plainly(*command, str(cluster), "-w", str(manifest), "-q")
        assert (result.exit_code, result.stderr) == (0, f"note: {sentence}\n")
    assert sentence in json.loads(run_plainly("solve", str(cluster), "-w", str(manifest)).stdout)["notes"]
    result = run_plainly("solve", str(cluster), "-w", str(manifest), "--strict")
    assert (result.exit_code, result.stdout) == (4, "")
    assert sentence in result.stderr


def test_ordinary_kinds_of_kubernetes_are_no_noise(cluster: Path, tmp_path: Path, run_plainly: Run) -> None:
    manifest = write(tmp_path / "app.json", deployment(), *ROLES)
    assert run_plainly("solve", str(cluster), "-w", str(manifest), "--strict", "-q").stderr == ""
    assert (
        "not read of the manifests: 1 ClusterRole, 1 ConfigMap, 1 CustomResourceDefinition"
        in run_plainly("solve", str(cluster), "-w", str(manifest), "-v").stderr
    )


@pytest.mark.parametrize("command", MANIFESTS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        (
            [{**deployment(), "kind": "Deploymnt"}],
            "Deploymnt web: kind: apps/v1 of Kubernetes has no kind 'Deploymnt'; did you mean Deployment?",
        ),
        (
            [deployment(), {"apiVersion": "v1", "kind": "Whatever", "metadata": {"name": "x"}}],
            "Whatever x: kind: v1 of Kubernetes has no kind 'Whatever'",
        ),
        ([deployment(), {"kind": "StatefullSet", "metadata": {"name": "x"}}], "unknown kind 'StatefullSet'; did you mean StatefulSet?"),
        (
            [*ROLES],
            "holds nothing that creates pods (but ClusterRole 1, ConfigMap 1, CustomResourceDefinition 1), expected a Pod or Deployment",
        ),
        ([KAFKA], "holds nothing that creates pods (but Kafka 1)"),
        ([{**deployment(), "spec": {**deployment()["spec"], "replicas": 0}}], "asks for no pods: Deployment default/web: wants 0 pods"),
    ],
)
def test_manifests_without_pods_and_kinds_that_kubernetes_lacks_are_refused(
    command: tuple[str, ...], objects: list[Object], expected: str, cluster: Path, tmp_path: Path
) -> None:
    manifest = write(tmp_path / "app.json", *objects)
    (line,) = refusals(tmp_path, cluster, command=(*command, "-w", str(manifest)))
    assert line.startswith(f"{manifest}: ")
    assert expected in line


# --- fields -----------------------------------------------------------------------------------------------------------

AFFINE: Object = {"labelSelector": SELECTED, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"evenSpreading": [SPREAD]}, "spec.template.spec.evenSpreading: unknown field; did you mean topologySpreadConstraints?"),
        ({"nodeSelectr": {}}, "spec.template.spec.nodeSelectr: unknown field; did you mean nodeSelector?"),
        ({"replicas": 3}, "spec.template.spec.replicas: unknown field; did you mean spec.replicas?"),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringScheduling": [AFFINE]}}},
            "spec.template.spec.affinity.podAntiAffinity.requiredDuringScheduling: unknown field; did you mean required",
        ),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**AFFINE, "namespaceSelecter": {}}]}}},
            "requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelecter: unknown field; did you mean namespaceSelector?",
        ),
        ({"topologySpreadConstraints": [{**SPREAD, "minDomain": 1}]}, "[0].minDomain: unknown field; did you mean minDomains?"),
        ({"fooBarBaz": 1}, "spec.template.spec.fooBarBaz: unknown field (--allow-unknown-fields lets it through)"),
    ],
)
def test_unknown_fields_of_manifests_are_refused(spec: Object, expected: str, cluster: Path, tmp_path: Path, run_plainly: Run) -> None:
    manifest = write(tmp_path / "app.json", deployment(**spec))
    (line,) = refusals(tmp_path, cluster, command=("solve", "-w", str(manifest)))
    assert line.startswith(f"{manifest}: Deployment default/web: spec.template.spec.")
    assert expected in line
    for command in MANIFESTS:
        assert run_plainly(*command, str(cluster), "-w", str(manifest), "--allow-unknown-fields").exit_code in (0, 3)


def test_unknown_fields_of_yaml_and_beside_other_mistakes_are_refused(cluster: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "p.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, anotations: {}}, "
        "spec: {containers: [{name: c}], topologySpreadConstraints: [{topologyKy: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}}"
    )
    lines = refusals(tmp_path, cluster, command=("explain", "-w", str(manifest)))
    assert lines == [
        f"{manifest}: Pod default/p: metadata.anotations: unknown field; did you mean annotations?",
        f"{manifest}: Pod default/p: spec.topologySpreadConstraints[0].topologyKy: unknown field; did you mean topologyKey?",
        f"{manifest}: Pod default/p: spec.topologySpreadConstraints[0].topologyKey: missing, expected text",
    ]


def test_unknown_fields_of_snapshots_are_warnings_summed_up(tmp_path: Path, run_plainly: Run) -> None:
    odd = [pod(f"p{i}", namespace="prod") for i in range(3)]
    for each in odd:
        each["spec"]["nodeSelectr"] = {}
    odd[2]["metadata"]["uid"] = "from-a-later-version"
    file = write(tmp_path / "s.json", node("a"), *odd)
    text = "warning: Pod prod/p0 and 1 more: spec.nodeSelectr: unknown field; did you mean nodeSelector?; the field is ignored\n"
    for command in READING:
        result = run_plainly(*command, str(file))
        assert (result.exit_code, text in result.stderr) == (0, True), result.stderr


# --- one tenant's malformed annotation --------------------------------------------------------------------------------

NRI = "resource-policy.nri.io/affinity"


def hinted(name: str, text: str, **more: Any) -> Object:
    made = pod(name, namespace="prod", cpu="1", **more)
    made["metadata"]["annotations"] = {NRI: text}
    return made


WRONG = "c: [{match: {key: name, operator: Equals, values: [d]}, wieght: 3}]"
WHY = f"annotation {NRI}: container 'c', entry 0: unknown field 'wieght', expected scope, match or weight; did you mean weight?"


def test_a_malformed_annotation_of_a_pending_pod_does_not_stop_the_cluster(tmp_path: Path, run_plainly: Run) -> None:
    """The pod is placed without its hints and named, with -q too; the checker agrees; --strict refuses."""
    file = write(tmp_path / "s.json", node("a", cpu="8"), *(hinted(f"p{i}", WRONG) for i in range(7)), hinted("good", "c: [d]"))
    names = ", ".join(f"Pod prod/p{i}" for i in range(5))
    sentence = f"{names} and 2 more: {WHY}; judged without it"
    result = run_plainly("solve", str(file), "-q", "-o", str(tmp_path / "r.json"))
    assert (result.exit_code, result.stderr) == (0, f"note: {sentence}\n")
    document = json.loads((tmp_path / "r.json").read_text())
    assert len(document["assignments"]) == 8
    assert sentence in document["notes"]
    for command in (*READING, ("verify", "--result", str(tmp_path / "r.json"))):
        result = run_plainly(*command, str(file), "-q")
        assert result.exit_code in ((0, 4) if command == ("audit",) else (0,)), result.stderr
        assert f"note: {sentence}\n" in result.stderr
    refused = run_plainly("solve", str(file), "--strict")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert sentence in refused.stderr
    assert "KS701" in run_plainly("audit", str(file), "-f", "json").stdout


def test_a_malformed_gang_of_pending_pods_does_not_stop_the_cluster(tmp_path: Path, run_plainly: Run) -> None:
    """They are placed without it and named; the checker agrees; the audit keeps its finding."""
    pods = [hinted(name, "c: [d]") for name in ("a", "b", "alone", "well")]
    for each, gang in zip(pods, ("g", "g", "x/y/z", "good"), strict=True):
        each["metadata"]["annotations"] = {"kubestow.dev/gang": gang}
    pods[0]["metadata"]["annotations"]["kubestow.dev/min-member"] = "some"
    file = write(tmp_path / "s.json", node("n", cpu="8"), *pods)
    result = run_plainly("solve", str(file), "-q", "-o", str(tmp_path / "r.json"))
    count = "metadata.annotations[kubestow.dev/min-member]: got 'some', expected a whole number of at least 1"
    name = "metadata.annotations[kubestow.dev/gang]: got 'x/y/z', expected a name such as train, or namespace/name"
    said = [
        f"note: Pod prod/a: {count}; the gang's 2 pending pods are placed one by one",
        f"note: Pod prod/alone: {name}; the pod is placed without a gang",
    ]
    assert (result.exit_code, result.stderr.splitlines()) == (0, said)
    document = json.loads((tmp_path / "r.json").read_text())
    assert sorted((each["pod"], each["gang"]) for each in document["assignments"]) == [
        ("prod/a", None), ("prod/alone", None), ("prod/b", None), ("prod/well", "prod/good"),
    ]  # fmt: skip
    for command in (*READING, ("verify", "--result", str(tmp_path / "r.json"))):
        result = run_plainly(*command, str(file), "-q")
        assert result.exit_code in ((0, 4) if command == ("audit",) else (0,)), result.stderr
        assert (said[0] in result.stderr) == (command != ("audit",))
    assert run_plainly("solve", str(file), "--strict").exit_code == 4
    assert "got 'some', expected a whole number" in run_plainly("audit", str(file), "-f", "json").stdout


def test_malformed_tags_of_a_pending_pod_count_as_none(tmp_path: Path, run_plainly: Run) -> None:
    tagged = hinted("p", "c: [d]")
    tagged["metadata"]["annotations"]["kubestow.dev/tags.c"] = "no equals sign"
    result = run_plainly("solve", str(write(tmp_path / "s.json", node("a", cpu="8"), tagged)), "-q")
    assert result.exit_code == 0
    assert "note: Pod prod/p: annotation kubestow.dev/tags.c: got 'no equals sign', expected key=value,key=value; judged" in result.stderr


def test_a_malformed_annotation_of_a_manifest_is_refused(cluster: Path, tmp_path: Path) -> None:
    made = deployment()
    made["spec"]["template"]["metadata"]["annotations"] = {NRI: WRONG}
    manifest = write(tmp_path / "m.json", made, hinted("p", "c: ["), hinted("q", "c: [d]"))
    misnamed = hinted("r", "")
    misnamed["metadata"]["annotations"] = {"resource-policy.nri.io/afinity": "c: [d]"}
    manifest = write(tmp_path / "m.json", made, hinted("p", "c: 1"), hinted("q", "c: [d]"), misnamed)
    for command in MANIFESTS:
        assert refusals(tmp_path, cluster, command=(*command, "-w", str(manifest))) == [
            f"{manifest}: Deployment default/web: spec.template.metadata: {WHY}",
            f"{manifest}: Pod prod/p: metadata: annotation {NRI}: container 'c': got a text, expected a list of container names or of "
            "entries",
            f"{manifest}: Pod prod/r: metadata.annotations: no policy reads the key 'resource-policy.nri.io/afinity'; did you mean "
            "resource-policy.nri.io/affinity?",
        ]


def test_a_kind_that_this_version_does_not_know_is_a_warning_in_a_snapshot(tmp_path: Path, run_plainly: Run) -> None:
    """The cluster may be of a later version."""
    new = [{"apiVersion": "apps/v2", "kind": "FleetSet", "metadata": {"name": n, "uid": n}} for n in "ab"]
    result = run_plainly("solve", str(write(tmp_path / "s.json", node("a"), *new)))
    assert result.exit_code == 0
    assert result.stderr.count("warning: apps/v2 of Kubernetes has no kind 'FleetSet' that is known here: it is not read\n") == 1


def test_a_manifest_on_standard_input_is_no_snapshot(run_plainly: Run) -> None:
    result = run_plainly("solve", "-", stdin=json.dumps(deployment()))
    assert result.exit_code == 1
    assert result.stderr.startswith("kubestow: stdin: holds no Node objects (but Deployment 1): manifests are given with -w")


@pytest.mark.parametrize("group", ["scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"])
def test_a_misspelt_field_of_a_pod_group_is_refused(group: str, cluster: Path, tmp_path: Path, run_plainly: Run) -> None:
    """Its other fields are not known here: they are those of several projects."""
    more = {"scheduleTimeoutSeconds": 5, "queue": "q", "priorityClassName": "p", "disruptionMode": {}, "resourceClaims": []}
    gang = {"apiVersion": group, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMembers": 2, **more}}
    manifest = write(tmp_path / "app.json", deployment(), gang)
    (line,) = refusals(tmp_path, cluster, command=("solve", "-w", str(manifest)))
    assert line == f"{manifest}: PodGroup default/g: spec.minMembers: unknown field; did you mean minMember?"
    gang["spec"] = {"minMember": 2, **more}
    assert run_plainly("solve", str(cluster), "-w", str(write(tmp_path / "app.json", deployment(), gang))).exit_code == 0
