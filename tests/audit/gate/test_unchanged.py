"""A manifest equal to the object in the cluster changes nothing, with any additions of the server; a different one does."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from kubestow.audit.gate import unread_fields
from kubestow.audit.gate.changes import WorkloadChange, as_applied, changes, not_compared
from kubestow.live.redact import Keeper
from kubestow.models.kube import kinds
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.models.workloads.merge import merge
from kubestow.models.workloads.template import DIGESTS
from tests.audit.gate.stored_objects import KINDS, Object, given_back, stored
from tests.objects import node
from tests.tiers import sampled, seeds

#: Number of seeds for each form in which a snapshot may have an object.
FEW, CI, LONG = 90, 400, 2000
NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


def whole(obj: Object) -> Object:
    return obj


def captured(obj: Object) -> Object:
    """Return an object as a capture has it."""
    kind = kinds.find(obj["apiVersion"], obj["kind"])
    assert kind is not None
    (found,) = Keeper(kind, obj["apiVersion"]).single(json.dumps(obj).encode())
    result: Object = json.loads(found)
    return result


def captured_before(obj: Object) -> Object:
    """Return an object as captures had it before they kept digests of annotations."""
    found = captured(obj)
    found["metadata"].get("annotations", {}).pop(DIGESTS, None)
    return found


FORMS = (whole, captured, captured_before)


def change_of(there: Object, manifest: Object) -> WorkloadChange:
    cluster = from_objects([node("n1"), NAMESPACE, there])
    brought = from_objects([manifest], manifests=True)
    problems: list[str] = []
    merged = merge(cluster, brought, problems)
    assert problems == []
    files = [{"x.json": json.dumps(obj).encode()} for obj in (manifest, there)]
    stated, stored_there = (unread_fields.templates(each, brought.sources, "default") for each in files)
    (change,) = changes(cluster, as_applied(cluster, brought), merged, unread_fields.differing(stated, stored_there))
    return change


def draw(seed: int) -> tuple[str, random.Random, Object]:
    kind, rng = KINDS[seed % len(KINDS)], random.Random(f"unchanged-{seed}")
    return kind, rng, stored(kind, rng)


def failures(seeds: range, form: Callable[[Object], Object]) -> Iterator[str]:
    for seed in seeds:
        _, rng, obj = draw(seed)
        manifest = given_back(obj, rng)
        change = change_of(form(obj), manifest)
        if (change.action, change.refused) != ("unchanged", ()):
            yield f"{seed} {obj['kind']}: {change.action}, {change.refused}: {json.dumps(manifest)}"


@pytest.mark.parametrize("form", FORMS)
def test_a_few_objects_given_back_are_unchanged(form: Callable[[Object], Object]) -> None:
    assert list(failures(range(FEW), form)) == []


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
@seeds(CI, LONG)
def test_objects_given_back_are_unchanged(seeds: range, form: Callable[[Object], Object]) -> None:
    assert list(failures(seeds, form)) == []


# --- real changes --------------------------------------------------------------------------------------------------------


def _spec(obj: Object) -> Any:
    template = obj.get("template") or obj["spec"].get("template") or obj["spec"]["jobTemplate"]["spec"]["template"]
    return template["spec"]


def _metadata(obj: Object) -> Any:
    template = obj.get("template") or obj["spec"].get("template") or obj["spec"]["jobTemplate"]["spec"]["template"]
    return template["metadata"]


#: Changes of a template that a capture sees, each as a function that edits a manifest.
SEEN: dict[str, Callable[[Object], object]] = {
    "cpu": lambda obj: _spec(obj)["containers"][0].update(resources={"requests": {"cpu": "7"}}),
    "host port": lambda obj: _spec(obj)["containers"][0].update(ports=[{"containerPort": 1, "hostPort": 1}]),
    "a container more": lambda obj: _spec(obj)["containers"].append({"name": "more", "image": "x"}),
    "node selector": lambda obj: _spec(obj).update(nodeSelector={"a": "b"}),
    "toleration": lambda obj: _spec(obj).update(tolerations=[{"operator": "Exists"}]),
    "label": lambda obj: _metadata(obj)["labels"].update(more="x"),
    "annotation added": lambda obj: _metadata(obj).update(annotations={**_metadata(obj).get("annotations", {}), "more": "x"}),
    "annotation of another value": lambda obj: _metadata(obj).update(
        annotations={**_metadata(obj).get("annotations", {}), "note": "another"}
    ),
    "volume": lambda obj: _spec(obj).update(
        volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}}}]
    ),
    "host users": lambda obj: _spec(obj).update(hostUsers=True),
}
#: Changes of fields that placement does not read, which a capture does not have.
UNREAD: dict[str, Callable[[Object], object]] = {
    "image": lambda obj: _spec(obj)["containers"][0].update(image="registry.example/web:2"),
    "environment": lambda obj: _spec(obj)["containers"][0].update(env=[{"name": "A", "value": "2"}]),
    "environment gone": lambda obj: _spec(obj)["containers"][0].pop("env"),
    "command": lambda obj: _spec(obj)["containers"][0].update(command=["other"]),
    "port's name": lambda obj: _spec(obj)["containers"][0]["ports"][0].update(name="other"),
    "probe": lambda obj: _spec(obj)["containers"][0].update(readinessProbe={"httpGet": {"path": "/ready", "port": "http"}}),
    "probe's period": lambda obj: _spec(obj)["containers"][0]["livenessProbe"].update(periodSeconds=11),
    "grace period": lambda obj: _spec(obj).update(terminationGracePeriodSeconds=31),
    "config map": lambda obj: _spec(obj)["volumes"][0]["configMap"].update(name="other"),
    "size limit": lambda obj: _spec(obj)["volumes"][1]["emptyDir"].update(sizeLimit="2Gi"),
    "service account": lambda obj: _spec(obj).update(serviceAccountName="other"),
    "security": lambda obj: _spec(obj).update(securityContext={"runAsUser": 7}),
}
_TEMPLATES = [kind for kind in KINDS if kind != "Pod"]


@pytest.mark.parametrize("form", [whole, captured])
@pytest.mark.parametrize("what", SEEN)
@pytest.mark.parametrize("kind", sampled(_TEMPLATES, every=3))
def test_a_change_of_the_template_is_one(kind: str, what: str, form: Callable[[Object], Object]) -> None:
    for seed in range(5):
        rng = random.Random(f"changed-{kind}-{seed}")
        obj = stored(kind, rng)
        manifest = given_back(obj, rng)
        SEEN[what](manifest)
        change = change_of(form(obj), manifest)
        expected = "rolling update" if kind in ("Deployment", "StatefulSet", "DaemonSet") else "changed"
        assert change.action == expected, (seed, what)
        assert bool(change.refused) == (kind == "Job")


@pytest.mark.parametrize("what", UNREAD)
def test_a_change_of_what_placement_does_not_read_is_one_where_it_is_known(what: str) -> None:
    obj = stored("Deployment", random.Random("unread"))
    probe = {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3}
    _spec(obj)["containers"][0] |= {
        "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80, "protocol": "TCP"}], "livenessProbe": probe,
    }  # fmt: skip
    _spec(obj)["volumes"] = [{"name": "c", "configMap": {"name": "a"}}, {"name": "s", "emptyDir": {"sizeLimit": "1Gi"}}]
    manifest = copy.deepcopy(obj)
    _spec(manifest)["volumes"][1]["emptyDir"]["sizeLimit"] = "1024Mi"
    assert change_of(obj, manifest).action == "unchanged"
    UNREAD[what](manifest)
    assert change_of(obj, manifest).action == "rolling update"
    assert change_of(captured(obj), manifest).action == "unchanged"


def test_templates_are_found_in_lists_of_every_form() -> None:
    items = [stored(kind, random.Random(kind)) for kind in KINDS]
    refs = {f"{kind} shop/web" for kind in KINDS}
    listed = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "List", "items": items}]}
    typed = {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [{k: v for k, v in items[0].items() if k != "kind"}]}
    expected = unread_fields.templates({f"{i}.json": json.dumps(each).encode() for i, each in enumerate(items)}, refs, "default")
    assert list(expected) == [f"{kind} shop/web" for kind in KINDS if kind != "Pod"]
    assert unread_fields.templates({"a.json": json.dumps(listed).encode()}, refs, "default") == expected
    assert unread_fields.templates({"a.yaml": yaml.safe_dump(listed).encode()}, refs, "default") == expected
    for data in (json.dumps(typed), yaml.safe_dump(typed)):
        assert unread_fields.templates({"a": data.encode()}, refs, "default") == {"Deployment shop/web": expected["Deployment shop/web"]}


def test_removed_annotations_count_but_for_those_of_other_tools() -> None:
    obj = stored("Deployment", random.Random("removed"))
    manifest = copy.deepcopy(obj)
    for form, action in ((whole, "rolling update"), (captured, "rolling update"), (captured_before, "unchanged")):
        _metadata(obj)["annotations"] = {"note": "x"}
        _metadata(manifest).pop("annotations", None)
        assert change_of(form(obj), manifest).action == action
        _metadata(obj)["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-11-01T00:00:00Z"}
        assert change_of(form(obj), manifest).action == "unchanged"
    _metadata(manifest)["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-11-02T00:00:00Z"}
    assert change_of(captured(obj), manifest).action == "rolling update"


def test_annotations_of_ephemeral_claims_count() -> None:
    obj = stored("Deployment", random.Random("claims"))
    claim: Object = {"metadata": {"annotations": {"note": "x"}}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    _spec(obj)["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]
    manifest = copy.deepcopy(obj)
    assert change_of(captured(obj), manifest).action == "unchanged"
    _spec(manifest)["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["metadata"]["annotations"]["note"] = "y"
    assert change_of(captured(obj), manifest).action == "rolling update"
    assert change_of(whole(obj), manifest).action == "rolling update"


def test_what_a_snapshot_lacks_is_named() -> None:
    obj = stored("Deployment", random.Random("lacks"))
    assert not_compared([change_of(obj, obj)]) == []
    rest = "images, environment, commands, probes and other fields that placement does not read"
    end = "of Deployment shop/web: changes there are not detected"
    assert not_compared([change_of(captured(obj), obj)]) == [f"the snapshot lacks {rest} {end}"]
    assert not_compared([change_of(captured_before(obj), obj)]) == [f"the snapshot lacks annotations, {rest} {end}"]
