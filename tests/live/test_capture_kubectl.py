"""Capture with the real kubectl, where there is one: against an API server of our own, and against none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kubestow.live.capture import PAGE_OBJECTS, CaptureOptions, capture
from kubestow.live.capture_kinds import ORDER
from kubestow.models.snapshot.snapshot import InputError, from_objects
from tests.live.capture_objects import SECRET, cluster
from tests.live.capture_server import serving
from tests.live.capture_stand_in import Server
from tests.objects import node, pod

pytestmark = [pytest.mark.full, pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")]

Object = dict[str, Any]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl caches its discovery of a server."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


def kubeconfig(folder: Path, port: int) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "contexts": [{"name": "a b", "context": {"cluster": "here", "user": "me"}}],
                "users": [{"name": "me", "user": {}}],
            }
        )
    )
    return str(path)


def refusal(options: CaptureOptions) -> str:
    with pytest.raises(InputError) as caught:
        capture(options)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def test_a_cluster_is_captured_whole(tmp_path: Path) -> None:
    with serving(Server(cluster(), warn="so old")) as port:
        found = capture(CaptureOptions(kubeconfig=kubeconfig(tmp_path, port), context="a b"))
    assert found.problems == []
    assert set(found.counts) == set(ORDER)
    text = b"".join(found.parts()).decode()
    assert SECRET not in text
    assert from_objects(json.loads(text)["items"]).counts() == found.counts
    assert [line for line in found.notes if "so old" in line] == ["kubectl: Warning: so old"]


def test_pages_missing_kinds_and_refusals(tmp_path: Path) -> None:
    objects: list[Object] = [node("n1"), *(pod(f"p{i}") for i in range(3 * PAGE_OBJECTS))]
    server = Server(objects, lacking=["PodGroup", "Workload"], forbidden=["/api/v1/services"], expires=2)
    server.errors["/apis/apps/v1/daemonsets"] = (500, "InternalError", "no luck")
    with serving(server) as port:
        found = capture(CaptureOptions(kubeconfig=kubeconfig(tmp_path, port), context="a b"))
    assert found.counts == {"Pod": 3 * PAGE_OBJECTS, "Node": 1}
    assert found.problems == [
        "left out: daemonsets.apps: no luck",
        'left out: services: services is forbidden: User "dev" cannot list resource "services"',
    ]


def test_single_namespaces(tmp_path: Path) -> None:
    with serving(Server(cluster())) as port:
        config = kubeconfig(tmp_path, port)
        found = capture(CaptureOptions(kubeconfig=config, context="a b", namespaces=("office",)))
        assert (found.counts["Pod"], found.counts["Namespace"]) == (1, 1)
        line = refusal(CaptureOptions(kubeconfig=config, context="a b", namespaces=("nowhere",)))
    assert line == 'namespace nowhere does not exist: namespaces "nowhere" not found'


def test_unauthorised(tmp_path: Path) -> None:
    errors = {"/api/v1/pods": (401, "Unauthorized", "Unauthorized")}
    with serving(Server(cluster(), errors=errors)) as port:
        line = refusal(CaptureOptions(kubeconfig=kubeconfig(tmp_path, port), context="a b"))
    assert line == "kubectl get --raw /api/v1/pods: You must be logged in to the server (Unauthorized)"


def test_no_server_no_context_no_kubeconfig(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, 1)
    line = refusal(CaptureOptions(kubeconfig=config, context="a b"))
    assert line.startswith("kubectl api-resources: The connection to the server 127.0.0.1:1 was refused")
    assert refusal(CaptureOptions(kubeconfig=config, context="nope")) == 'kubectl api-resources: context "nope" does not exist'
    line = refusal(CaptureOptions(kubeconfig=str(tmp_path / "none")))
    assert line == f"kubectl api-resources: stat {tmp_path}/none: no such file or directory"
    (tmp_path / "bad").write_text("{{{")
    assert "error loading config file" in refusal(CaptureOptions(kubeconfig=str(tmp_path / "bad")))
