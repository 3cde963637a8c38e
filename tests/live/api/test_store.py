"""Nothing older replaces something newer, in any order of arrival."""

from __future__ import annotations

import json

import pytest

from kubestow.live.api.store import Known, Store, StoredObject, entry, newer
from kubestow.live.capture_kinds import Resource
from kubestow.models.kube.kinds import KINDS
from tests.objects import pod

PODS = Resource(KINDS["Pod"], "pods", "v1", True)


def state(name: str, version: int, uid: str = "", node: str | None = None) -> StoredObject:
    found = pod(name, node_name=node, owner="ReplicaSet/web")
    found["metadata"] |= {"uid": uid or f"uid-{name}", "resourceVersion": str(version), "managedFields": [{}]}
    return entry(PODS, json.dumps(found).encode())


def names(store: Store) -> list[str]:
    return [each.known.place.partition("/")[2] for each in store.entries()]


def test_an_older_state_is_no_news() -> None:
    store = Store(PODS)
    assert store.put(state("a", 5))
    assert not store.put(state("a", 5))
    assert not store.put(state("a", 4))
    assert not store.remove("uid-a", "4")
    assert store["uid-a"]["metadata"]["resourceVersion"] == "5"
    assert store.put(state("a", 6, node="n"))
    assert store["uid-a"]["metadata"]["resourceVersion"] == "6"
    assert len(store.on("n")) == 1
    assert store.remove("uid-a", "7")
    assert not store.put(state("a", 6))
    assert (list(store), store.on("n"), store.owned("ReplicaSet-web"), store.at("default/a")) == ([], [], [], None)


def test_a_late_event_brings_back_nothing_that_was_gone_by_the_last_list() -> None:
    store = Store(PODS)
    store.put(state("stays", 2))
    store.put(state("went", 3))
    listed = [state("stays", 2).known, state("new", 8).known]
    assert store.stale(listed, "10") == [Known("uid-new", "default/new", "8")]
    assert names(store) == ["stays"]
    assert not store.put(state("went", 4), event=True)
    assert not store.put(state("flash", 9), event=True)  # it came and went, and nobody here heard of it
    assert store.put(state("new", 8), event=True)  # before it was read by itself
    assert store.put(state("later", 11), event=True)
    assert names(store) == ["later", "new", "stays"]


def test_a_list_takes_out_nothing_that_is_newer() -> None:
    store = Store(PODS)
    store.put(state("a", 12))
    assert store.stale([], "10") == []
    assert names(store) == ["a"]


def test_one_name_may_have_two_uids_for_a_moment() -> None:
    store = Store(PODS)
    store.put(state("db-0", 1, uid="old"))
    store.put(state("db-0", 3, uid="new"))
    store.remove("old", "2")
    found = store.at("default/db-0")
    assert found is not None
    assert found["metadata"]["uid"] == "new"


def test_objects_are_in_the_order_of_the_server_s_keys() -> None:
    store = Store(PODS)
    for name in ("b", "a-b", "a", "a.b"):
        store.put(state(name, 1))
    found = json.loads(state("z", 1).raw)
    found["metadata"] |= {"namespace": "default-2", "uid": "other"}
    store.put(entry(PODS, json.dumps(found).encode()))
    assert names(store) == ["z", "a", "a-b", "a.b", "b"]  # "default-2/" is before "default/"


def test_an_entry_is_the_object_without_managed_fields() -> None:
    raw = {"metadata": {"name": "x", "managedFields": [1]}, "spec": {"nodeName": "n"}, "status": {}, "kind": "Else"}
    found = entry(PODS, json.dumps(raw).encode())
    assert json.loads(found.raw) == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"nodeName": "n"}, "status": {}}
    assert (found.known, found.node, found.owner) == (Known("x", "x", ""), "n", "")
    with pytest.raises(ValueError, match="missing required field"):
        entry(PODS, b'{"spec": {}}')


@pytest.mark.parametrize(
    ("version", "than", "is_newer"),
    [("10", "9", True), ("9", "10", False), ("9", "9", False), ("a", "b", True), ("a", "a", False), ("9", "", True)],
)
def test_versions_are_compared_as_numbers(version: str, than: str, is_newer: bool) -> None:
    assert newer(version, than) is is_newer


def odd(name: str, version: str, node: str | None = None) -> StoredObject:
    """Return a state whose version is no number."""
    found = json.loads(state(name, 1, node=node).raw)
    found["metadata"]["resourceVersion"] = version
    return entry(PODS, json.dumps(found).encode())


def test_states_without_comparable_versions_count_in_the_order_in_which_they_arrive() -> None:
    store = Store(PODS)
    assert store.put(odd("a", "v2"))
    assert store.put(odd("a", "v1", node="n"))
    assert not store.put(odd("a", "v1", node="n"))
    assert (store.unordered, len(store.on("n"))) == ("v1", 1)
    assert store.remove("uid-a", "v3")
    assert names(store) == []


def test_a_list_without_comparable_version_takes_out_what_was_here_before_it_was_requested() -> None:
    store = Store(PODS)
    store.put(odd("old", "v1"))
    begun = store.arrivals
    store.put(odd("new", "v2"))  # while the list was under way
    store.stale([], "v9", begun)
    assert names(store) == ["new"]


def test_a_deletion_that_is_older_than_what_is_here_takes_out_nothing() -> None:
    store = Store(PODS)
    store.put(state("a", 10))
    assert not store.remove("uid-a", "9")
    assert store.unordered == ""
