"""Manifests as Helm and kustomize have them: hooks that do not run with the release, overlays that are not what is applied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import cli
from models.snapshot.snapshot import InputError, from_objects, load
from report.documents import yaml_text
from tests.objects import Object, node, pod


def hook(name: str, events: str) -> Object:
    found = pod(name, cpu="2")
    found["metadata"]["annotations"] = {"helm.sh/hook": events, "helm.sh/hook-delete-policy": "hook-succeeded"}
    return found


@pytest.mark.parametrize(("events", "when"), [
    ("test", "do not run when the release is installed or upgraded"),
    ("test-success", "do not run when the release is installed or upgraded"),
    ("pre-delete", "do not run when the release is installed or upgraded"),
    ("pre-install, pre-upgrade", "run before the release"),
    ("pre-install,post-delete", "run before the release"),
    ("post-install", None),
    ("pre-install,post-install", None),
])  # fmt: skip
def test_hooks_are_placed_only_where_they_run_beside_the_release(events: str, when: str | None) -> None:
    found = from_objects([hook("h", events), pod("p")], manifests=True)
    assert [each.metadata.name for each in found.pods] == (["h", "p"] if when is None else ["p"])
    said = f"Helm hooks that {when} are not placed: Pod default/h ({events})"
    assert found.omissions == ([] if when is None else [said])
    assert len(from_objects([hook("h", events), pod("p")]).pods) == 2  # in a cluster they are pods as others


def test_check_does_not_count_hooks_that_are_over(tmp_path: Path) -> None:
    cluster, manifests = tmp_path / "cluster.json", tmp_path / "rendered.yaml"
    cluster.write_text(json.dumps(node("n", cpu="4")))
    web = pod("web", cpu="3")
    manifests.write_text("---\n".join(yaml_text.dump(each) for each in (web, hook("t", "test"), hook("migrate", "pre-install"))))
    result = CliRunner().invoke(cli.main, ["check", str(manifests), "--cluster", str(cluster), "-q", "-f", "json"])
    document = json.loads(result.stdout)
    assert [(each["workload"], each["fit"]) for each in document["workloads"]] == [("Pod default/web", "fits")]
    assert "Pod default/migrate (pre-install)" in str(document["notes"])
    assert "Pod default/t (test)" in str(document["notes"])


@pytest.mark.parametrize(("text", "what"), [
    ("resources: [app.yaml]\npatches: [{path: p.yaml}]\nnamePrefix: x-\n", "has patches, namePrefix"),
    ("resources: [../base]\n", "takes objects from ../base"),
    ("resources: [app.yaml]\n", None),
])  # fmt: skip
def test_overlays_are_refused(tmp_path: Path, text: str, what: str | None) -> None:
    (tmp_path / "kustomization.yaml").write_text(text)
    (tmp_path / "app.yaml").write_text(yaml_text.dump(pod("p")))
    assert len(load([str(tmp_path)]).pods) == 1
    if what is None:
        assert len(load([str(tmp_path)], manifests=True).pods) == 1
        return
    for given in (tmp_path, tmp_path / "kustomization.yaml"):
        with pytest.raises(InputError) as error:
            load([str(given)], manifests=True)
        reason = "so that the files beside it are not what is applied: run kustomize build, and give its output"
        assert error.value.problems == [f"{tmp_path / 'kustomization.yaml'}: {what}, {reason}"]
