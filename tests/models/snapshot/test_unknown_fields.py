"""Fields that are not known: bad input in manifests, a warning where nobody stored the object, not understood where an API server did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubestow.models.kube.kinds import Kind
from kubestow.models.snapshot import unknown_fields
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json, from_objects, load
from tests.objects import node, pod

Object = dict[str, Any]


def stored(obj: Object, uid: str | None = None) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": uid or f"uid-{obj['metadata']['name']}"}}


def read(*objects: Object) -> Snapshot:
    return from_json(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode(), "cluster")


def owned(name: str, owner: str = "web", **spec: Any) -> Object:
    made = stored(pod(name, owner=f"ReplicaSet/{owner}", **spec))
    for each in made["metadata"]["ownerReferences"]:
        each["uid"] = f"uid-{owner}"
    return made


def test_pods_that_wait_are_named_with_their_unknown_fields() -> None:
    found = read(node("n"), stored(pod("waits", tomorrow=1, topologySpreadConstraints=[])), stored(pod("plain")))
    assert found.not_understood == {"default/waits": [("spec.tomorrow", "unknown field, ignored")]}
    assert found.omissions == ["not understood: Pod default/waits: spec.tomorrow: unknown field, ignored"]
    assert found.warnings == []


def test_bound_pods_and_what_later_versions_say_of_metadata_and_status_are_as_they_are() -> None:
    bound = stored(pod("runs", node_name="n", tomorrow=1))
    waits = stored(pod("waits"))
    waits["status"] = {"phase": "Pending", "tomorrow": 1}
    waits["metadata"]["tomorrow"] = 1
    assert read(node("n"), bound, waits).omissions == []


def test_pods_of_one_controller_are_looked_at_once_and_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    of_kind = unknown_fields.unknown

    def counted(value: object, kind: Kind) -> Iterator[str]:
        calls.append(value)
        return of_kind(value, kind)

    monkeypatch.setattr(unknown_fields, "unknown", counted)
    items = [node("n"), *(owned(f"web-{i}", tomorrow=1) for i in range(5)), *(owned(f"db-{i}", "db") for i in range(5))]
    found = read(*items)
    assert set(found.not_understood) == {f"default/web-{i}" for i in range(5)}
    assert found.omissions == ["not understood: Pod default/web-0 and 4 more: spec.tomorrow: unknown field, ignored"]
    assert len(calls) == 3  # the node, which has no uid, and a pod of each


def test_revisions_of_a_stateful_set_are_apart() -> None:
    one, other = owned("db-0", "db"), owned("db-1", "db", tomorrow=1)
    for revision, each in (("a", one), ("b", other)):
        each["metadata"].setdefault("labels", {})["controller-revision-hash"] = revision
    assert set(read(node("n"), one, other).not_understood) == {"default/db-1"}


def test_claims_that_ask_for_more_than_is_known_are_named() -> None:
    requested = {"devices": {"requests": [{"name": "r", "tomorrow": {}, "exactly": {"deviceClassName": "c"}}], "config": [{"opaque": {}}]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "x"}, "spec": requested}
    found = read(node("n"), stored(claim))
    assert found.omissions == ["not understood: ResourceClaim x/c: spec.devices.requests[].tomorrow: unknown field, ignored"]
    assert found.not_understood == {}


def test_what_nobody_stored_is_a_warning() -> None:
    found = read(node("n"), pod("waits", tolerations=[{"ky": "a"}]))
    assert found.warnings == ["Pod default/waits: spec.tolerations[].ky: unknown field; did you mean key?; the field is ignored"]
    assert found.omissions == []


@pytest.mark.parametrize("uid", [None, "u"])
def test_in_manifests_they_are_bad_input(tmp_path: Path, uid: str | None) -> None:
    path = tmp_path / "new.json"
    made = pod("new", tolerations=[{"ky": "a", "operator": "Exists"}], tomorrow=1)
    path.write_text(json.dumps(stored(made, uid) if uid else made))
    with pytest.raises(InputError) as error:
        load([str(path)], manifests=True)
    assert error.value.problems == [
        f"{path}: Pod default/new: spec.tolerations[0].ky: unknown field; did you mean key?",
        f"{path}: Pod default/new: spec.tomorrow: unknown field (--allow-unknown-fields lets it through)",
    ]
    assert load([str(path)], manifests=True, unknown_fields=True).omissions == []


@pytest.mark.parametrize(
    ("version", "kind", "spec", "problem"),
    [
        ("v1", "ResourceClaim", {"devices": {"request": []}}, "spec.devices.request: unknown field; did you mean requests?"),
        (
            "v1",
            "ResourceClaim",
            {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}},
            "spec.devices.requests[0].deviceClassName: unknown field; did you mean spec.devices.requests.exactly.deviceClassName?",
        ),
        ("v1beta1", "ResourceClaim", {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}, None),
        (
            "v1beta1",
            "ResourceClaimTemplate",
            {"spec": {"devices": {"requests": [{"name": "r", "countt": 1}]}}},
            "spec.spec.devices.requests[0].countt: unknown field; did you mean count?",
        ),
        ("v1beta2", "DeviceClass", {"selector": []}, "spec.selector: unknown field; did you mean selectors?"),
        ("v1", "DeviceClass", {"config": [{"opaque": {"driver": "d", "parameters": {"anything": 1}}}]}, None),
    ],
)
def test_objects_of_devices_have_the_fields_of_their_version(version: str, kind: str, spec: Object, problem: str | None) -> None:
    made = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    if problem is None:
        assert from_objects([made], manifests=True, unknown_fields=False).counts() == {kind: 1}
        return
    with pytest.raises(InputError) as error:
        from_objects([made], manifests=True, unknown_fields=False)
    assert any(line.endswith(f"x: {problem}") for line in error.value.problems), error.value.problems
