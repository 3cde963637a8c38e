"""Specs that are read once for all replicas: what comes out is what reading each by itself gives."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubestow.models.kube.objects import PodSpec
from kubestow.models.snapshot import interning
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json

Object = dict[str, Any]
TOKEN: Object = {"projected": {"sources": []}}


def pod(name: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "prod"}, "spec": spec}


def running(name: str, node: str | None, token: str) -> Object:
    """A pod as a cluster has it: its token's volume is called differently from that of each replica."""
    mount = {"name": f"kube-api-access-{token}", "mountPath": "/var/run/secrets"}
    where = {} if node is None else {"nodeName": node}
    return pod(
        name,
        containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}, "volumeMounts": [mount]}],
        volumes=[{"name": f"kube-api-access-{token}", **TOKEN}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        **where,
    )


def read(*items: Object, indent: int | None = None) -> Snapshot:
    return from_json(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}, indent=indent).encode(), "cluster.json")


def decoded(monkeypatch: pytest.MonkeyPatch, *items: Object, indent: int | None = None) -> tuple[Snapshot, int]:
    """Return the input's pods, and the number of specs found by their text."""
    met = 0
    find = interning.Specs.find

    def counted(self: interning.Specs, text: bytes) -> tuple[PodSpec | None, bytes | None]:
        nonlocal met
        found = find(self, text)
        met += found[0] is not None
        return found

    monkeypatch.setattr(interning.Specs, "find", counted)
    return read(*items, indent=indent), met


def alone(item: Object) -> bytes:
    return msgspec.json.encode(read(item).pods[0])


@pytest.mark.parametrize("indent", [None, 4])
def test_replicas_are_decoded_once_whatever_their_node_and_their_token(monkeypatch: pytest.MonkeyPatch, indent: int | None) -> None:
    items = [running("a", "n1", "abcde"), running("b", "n2", "fghij"), running("c", "n1", "k2345"), running("d", None, "abcde")]
    items.append(running("e", None, "zzzzz"))
    snapshot, met = decoded(monkeypatch, *items, indent=indent)
    assert met == 3
    assert [p.spec.nodeName for p in snapshot.pods] == ["n1", "n2", "n1", None, None]
    assert [msgspec.json.encode(p) for p in snapshot.pods] == [alone(item) for item in items]


def test_what_of_a_spec_is_read_tells_texts_apart() -> None:
    """A label called nodeName, a claim called like a token: cut out of the text these would be taken for equal."""
    plain = [{"name": "c"}]
    containers = [{"name": "c", "env": [{"fieldPath": "spec.nodeName"}]}]
    specs: list[Object] = [{"containers": plain, "nodeSelector": {"nodeName": n}} for n in ("n1", "n2", "n1")]
    specs += [{"containers": plain, "nodeSelector": {"nodeName": n}, "nodeName": "n1"} for n in ("n1", "n2", "n1")]
    specs += [{"containers": containers, "nodeName": n} for n in ("n1", "n2", "n1")]
    for token in ("abcde", "fghij"):
        claim = {"claimName": f"kube-api-access-{token}"}
        specs.append({"containers": plain, "volumes": [{"name": "v", "persistentVolumeClaim": claim}]})
    items = [pod(f"p{number}", **spec) for number, spec in enumerate(specs)]
    assert [msgspec.json.encode(p) for p in read(*items).pods] == [alone(item) for item in items]


def test_an_escaped_key_is_no_node_of_another_pod() -> None:
    """The key nodeName of the second is written with an escape, so that the only one in plain letters is a label's."""
    text = '{"containers":[{"name":"c"}],"nodeSelector":{"nodeName":"%s"},"\\u006eodeName":"n1"}'
    items = [
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s"},"spec":%s}' % (name.encode(), (text % name).encode())
        for name in ("n1", "n2")
    ]
    snapshot = from_json(b'{"apiVersion":"v1","kind":"List","items":[' + b",".join(items) + b"]}", "cluster.json")
    assert [(p.spec.nodeName, p.spec.nodeSelector) for p in snapshot.pods] == [("n1", {"nodeName": "n1"}), ("n1", {"nodeName": "n2"})]


def test_a_claim_is_not_one_whose_name_is_the_same_without_what_a_token_has() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": f"kube-api-access-{suffix}"}} for suffix in ("f", "abcdef")]
    items = [pod(f"p{number}", containers=[{"name": "c"}], volumes=[volume]) for number, volume in enumerate(volumes)]
    assert [msgspec.json.encode(p) for p in read(*items).pods] == [alone(item) for item in items]


def test_an_empty_node_is_not_that_of_another_pod() -> None:
    """Without its node a text is the same as one whose node is empty."""
    nodes = ["n1", "", "n2", "", "kube-api-access-abcde"]
    items = [pod(f"p{number}", containers=[{"name": "c"}], nodeName=node) for number, node in enumerate(nodes)]
    assert [p.spec.nodeName for p in read(*items).pods] == nodes


def test_problems_are_told_of_each_pod() -> None:
    wrong = [pod(name, containers=[{"name": "c", "resources": {"requests": {"cpu": "much"}}}]) for name in ("a", "b")]
    with pytest.raises(InputError) as error:
        read(*wrong)
    assert [problem.split(": ")[1] for problem in error.value.problems] == ["Pod prod/a", "Pod prod/b"]


def test_pods_that_share_a_spec_can_be_given_a_priority_each() -> None:
    """Data from other objects are settled later, pod by pod."""
    first, second = read(running("a", "n1", "abcde"), running("b", "n2", "fghij")).pods
    assert first.spec is not second.spec
    assert first.spec.containers is second.spec.containers


def test_texts_that_never_come_again_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "_MIN_TRIED_SPECS", 10)
    specs = interning.Specs()
    for number in range(30):
        text = json.dumps({"priority": number}).encode()
        _, key = specs.find(text)
        if key is not None:
            specs.keep(text, key, PodSpec(priority=number))
    assert specs.lookups == 10
    assert specs.find(b'{"priority": 3}') == (None, None)


def test_labels_in_another_order_stay_in_theirs() -> None:
    items = [pod(name, containers=[{"name": "c"}]) for name in ("a", "b")]
    items[0]["metadata"]["labels"] = {"x": "1", "y": "2"}
    items[1]["metadata"]["labels"] = {"y": "2", "x": "1"}
    assert [list(p.metadata.labels or {}) for p in read(*items).pods] == [["x", "y"], ["y", "x"]]
