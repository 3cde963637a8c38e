"""Directories in practice: manifests next to files of tools, must-gathers, support bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.snapshot.snapshot import InputError, load
from kubestow.report.documents import yaml_text
from tests.objects import Object, node, pod


def put(folder: Path, files: dict[str, Any]) -> str:
    """Write files: text as it is, the rest as JSON or YAML."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content) if ".json" in name else yaml_text.dump(content)
        path.write_text(text, encoding="utf-8")
    return str(folder)


def listed(kind: str, *items: Object, version: str = "v1", bare: bool = False) -> Object:
    """Return a list; ``bare``: its items state neither apiVersion nor kind."""
    given = [{k: v for k, v in each.items() if not bare or k not in ("apiVersion", "kind")} for each in items]
    return {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "7"}, "items": given}


_STRAY = {
    "kustomization.yaml": "resources: [a.yaml]\nkind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\n",
    "plain/kustomization.yaml": "resources: [a.yaml]\n",
    "chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "chart/values.yaml": "replicas: 3\nkind: DaemonSet\n",
    "empty.yaml": "# nothing\n",
    "package.json": {"name": "web", "version": "1.0.0"},
    "names.json": ["a", "b"],
    "text.json": '"only text"',
}
_OBJECTS = {"a.json": node("n"), "b.yaml": pod("p")}


def test_files_of_a_directory_without_objects_are_skipped_by_name(tmp_path: Path) -> None:
    folder = put(tmp_path / "all", {**_OBJECTS, **_STRAY})
    found = load([folder])
    assert (len(found.nodes), len(found.pods)) == (1, 1)
    assert found.omissions == [f"{folder}: 8 files without Kubernetes objects skipped: {', '.join(sorted(_STRAY))}"]
    words = ["solve", folder, "-f", "json"]
    result = CliRunner().invoke(cli.main, [*words, "-q"])
    assert (result.exit_code, result.stderr) == (0, f"note: {found.omissions[0]}\n")
    assert found.omissions[0] in json.loads(result.stdout)["notes"]
    strict = CliRunner().invoke(cli.main, [*words, "--strict"])
    assert (strict.exit_code, strict.stdout) == (4, "")
    assert "kustomization.yaml" in strict.stderr


@pytest.mark.parametrize("name", ["plain/kustomization.yaml", "chart/Chart.yaml", "empty.yaml", "package.json", "names.json", "text.json"])
def test_the_same_file_given_by_name_is_an_error(tmp_path: Path, name: str) -> None:
    folder = put(tmp_path, {**_OBJECTS, **_STRAY})
    with pytest.raises(InputError):
        load([str(tmp_path / "a.json"), str(Path(folder) / name)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cut.json", '{"apiVersion": "v1", "kind": "PodList", "items": [{"metad'),
        ("template.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Values.name }}}\n"),
        ("nameless.yaml", "apiVersion: v1\nkind: Pod\nspec: {}\n"),
        ("tab.yaml", "a:\n\t- b\n"),
    ],
)
def test_what_may_be_objects_is_never_skipped(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InputError, match=name):
        load([put(tmp_path, {**_OBJECTS, name: text})])


def running(name: str, uid: str, phase: str = "Running") -> Object:
    found = pod(name, namespace="shop", node_name="n1")
    found["metadata"]["uid"] = uid
    found["status"]["phase"] = phase
    return found


def test_a_must_gather_is_read_as_it_comes(tmp_path: Path) -> None:
    """Pods are in it twice: in the list of the namespace, and one by one, some seconds later."""
    root = "quay-io-release-sha256-1"
    folder = put(
        tmp_path,
        {
            "timestamp": "2026-11-22 10:00:00\n",
            "event-filter.html": "<html></html>",
            f"{root}/version": "openshift/must-gather\n",
            f"{root}/cluster-scoped-resources/core/nodes/n1.yaml": node("n1"),
            f"{root}/cluster-scoped-resources/config.openshift.io/clusterversions.yaml": listed(
                "ClusterVersionList", version="config.openshift.io/v1"
            ),
            f"{root}/namespaces/shop/shop.yaml": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            f"{root}/namespaces/shop/core/pods.yaml": listed("PodList", running("web", "u1"), running("db", "u2"), bare=True),
            f"{root}/namespaces/shop/core/events.yaml": listed("EventList"),
            f"{root}/namespaces/shop/pods/web/web.yaml": running("web", "u1", "Succeeded"),
            f"{root}/namespaces/shop/pods/db/db.yaml": running("db", "u2"),
            f"{root}/monitoring/prometheus/status/flags.json": {"status": "success", "data": {"kind": 1}},
            f"{root}/etcd_info/endpoint_status.json": [{"Endpoint": "https://10.0.0.1:2379", "Status": {"version": "3.5"}}],
        },
    )
    found = load([folder])
    assert [(p.metadata.name, p.status.phase if p.status else None) for p in found.pods] == [("web", "Running"), ("db", "Running")]
    assert (len(found.nodes), list(found.namespaces)) == (1, ["shop"])
    assert [line.partition(": ")[2] for line in found.omissions] == [
        f"2 files without Kubernetes objects skipped: {root}/etcd_info/endpoint_status.json, {root}/monitoring/prometheus/status/flags.json"
    ]
    assert "read more than once with different content, the first one counts: 1 object (Pod shop/web)" in found.warnings


def test_objects_of_a_directory_that_no_server_wrote_may_not_differ(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already in"):
        load([put(tmp_path, {"n.json": node("n"), "a.json": pod("p"), "b.json": pod("p", cpu="2")})])


def test_a_support_bundle_is_read_as_it_comes(tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment: Object = {"metadata": {"name": "web", "namespace": "shop", "uid": "d1"}, "spec": spec}
    base = "support-bundle-1/cluster-resources"
    folder = put(
        tmp_path,
        {
            "support-bundle-1/version.yaml": "apiVersion: troubleshoot.sh/v1beta1\nkind: SupportBundle\nspec: {versionNumber: v0.120.0}\n",
            "support-bundle-1/analysis.json": [{"name": "node.count", "severity": "debug"}],
            "support-bundle-1/cluster-info/cluster_version.json": {"info": {"gitVersion": "v1.35.4"}, "string": "v1.35.4"},
            f"{base}/nodes.json": listed("NodeList", node("n1"), bare=True),
            f"{base}/namespaces.json": [{"metadata": {"name": "shop"}}],
            f"{base}/pods/shop.json": {
                "metadata": {},
                "items": [{k: v for k, v in running("web", "u1").items() if k not in ("apiVersion", "kind")}],
            },
            f"{base}/pods/empty.json": listed("PodList"),
            f"{base}/deployments/shop.json": listed("DeploymentList", deployment, version="apps/v1"),
            f"{base}/pvcs/shop.json": [{"metadata": {"name": "data", "namespace": "shop"}, "spec": {}}],
            f"{base}/pod-disruption-budgets-errors.json": {"shop": "the server could not find the requested resource"},
            f"{base}/pods-errors.json": "null",
            f"{base}/auth-cani-list/shop.json": {"metadata": {}, "spec": {}, "status": {"resourceRules": [], "incomplete": False}},
            f"{base}/resources.json": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "verbs": ["list"]}]}],
            f"{base}/groups.json": [{"name": "", "versions": [{"groupVersion": "v1", "version": "v1"}]}],
            f"{base}/custom-resource-definitions.json": listed("CustomResourceDefinitionList", version="apiextensions.k8s.io/v1"),
        },
    )
    found = load([folder])
    assert found.counts() == {"Node": 1, "Pod": 1, "Namespace": 1, "PersistentVolumeClaim": 1, "Deployment": 1}
    assert found.capture is not None
    assert found.capture.server_version == "v1.35.4"
    assert found.gates.version == "1.35"
    assert [line.partition(": ")[2].partition(": ")[0] for line in found.omissions] == ["8 files without Kubernetes objects skipped"]
    for name in ("version.yaml", "analysis.json", "cluster_version.json", "pod-disruption-budgets-errors.json", "auth-cani-list/shop.json"):
        assert name in found.omissions[0]


def test_many_names_are_counted(tmp_path: Path) -> None:
    folder = put(tmp_path, {**_OBJECTS, **{f"v{i:03}.json": {"a": i} for i in range(300)}})
    assert load([folder]).omissions[0].endswith("v018.json, v019.json and 280 more")


@pytest.mark.parametrize("text", ["{}", "[]", '{"info": "v1"}', '{"info": {}, "string": ""}', '{"info": {"gitVersion": 7}}', "{"])
def test_a_version_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    folder = put(tmp_path, {"a.json": node("n"), "cluster-info/cluster_version.json": text})
    if text == "{":
        with pytest.raises(InputError, match=r"cluster_version\.json: JSON is malformed"):
            load([folder])
    else:
        assert load([folder]).capture is None


@pytest.mark.parametrize("items", ["null", "[]"])
def test_empty_lists_of_kinds_that_are_not_read(tmp_path: Path, items: str) -> None:
    text = f'{{"kind": "IngressList", "apiVersion": "networking.k8s.io/v1", "metadata": {{"resourceVersion": "7"}}, "items": {items}}}'
    found = load([put(tmp_path, {"a.json": node("n"), "ingress/a.json": text, "ingress/b.json": text})])
    assert (found.warnings, found.omissions, found.ignored) == ([], [], {})
