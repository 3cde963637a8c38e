"""Failures of domains against brute force over all sets of domains."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.audit.checks.control_plane.failure_domains import grade, machines, spread, stages, survives
from kubestow.audit.checks.control_plane.members import ControlPlaneComponent, Members
from kubestow.models.documents.findings.audit import Stage
from tests.audit.control_planes import HOST_ID, HOSTNAME, REGION, ZONE

counts = st.lists(st.integers(0, 4), max_size=6)


def by_force(present: list[int], needed: int) -> int:
    """Return the largest number of domains that can always fail with enough members left; 0 also where there are too few already."""
    best = 0
    for failing in range(len(present) + 1):
        if all(sum(present) - sum(gone) >= needed for gone in combinations(present, failing)):
            best = failing
        else:
            break
    return best


@pytest.mark.full
@given(counts, st.integers(1, 8))
def test_survives_is_what_all_sets_of_failed_domains_say(present: list[int], needed: int) -> None:
    assert survives(present, needed) == by_force(present, needed)


@pytest.mark.parametrize(
    ("present", "etcd", "other"),
    [([1], 0, 0), ([1, 1], 0, 1), ([2], 0, 0), ([2, 1], 0, 1), ([1, 1, 1], 1, 2), ([1] * 4, 1, 3), ([2, 2, 1], 1, 2), ([1] * 5, 2, 4)],
)
def test_etcd_needs_a_majority_and_the_others_one(present: list[int], etcd: int, other: int) -> None:
    homes = tuple(f"{machine}" for machine, count in enumerate(present) for _ in range(count))
    assert survives(present, ControlPlaneComponent("etcd", homes).needed) == etcd
    assert survives(present, ControlPlaneComponent("kube-apiserver", homes).needed) == other


homes = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=7)
places = st.fixed_dictionaries({node: st.sampled_from("123") for node in "abcdef"})


@pytest.mark.full
@given(homes, homes, places, places)
def test_a_stage_survives_what_all_its_components_do(api: list[str], etcd: list[str], host: dict[str, str], zone: dict[str, str]) -> None:
    parts = ControlPlaneComponent("kube-apiserver", tuple(api)), ControlPlaneComponent("etcd", tuple(etcd))
    nodes = tuple(dict.fromkeys(api + etcd))
    labels = {node: {HOST_ID: host[node], ZONE: zone[node]} for node in nodes}
    found = stages(labels, nodes, parts, machines(labels, nodes, ()), {})
    for stage, where in zip(found[:2], (host, zone), strict=True):
        domains = sorted({where[node] for node in nodes})
        assert stage.domains == len(domains)
        enough = [
            failing
            for failing in range(len(domains) + 1)
            if all(
                sum(where[home] not in gone for home in part.homes) >= part.needed
                for gone in combinations(domains, failing)
                for part in parts
            )
        ]
        assert stage.survives == max(enough)
        assert stage.reached == (stage.survives > 0)
    assert (grade(found, by_node=1) == "machines") == found[0].reached


@pytest.mark.full
@given(homes, places)
def test_distribution_over_zones_is_distribution_over_machines(members: list[str], zone: dict[str, str]) -> None:
    """Known zones bound the failures of unknown machines from below, however the nodes share machines."""
    part = ControlPlaneComponent("etcd", tuple(members))
    nodes = tuple(dict.fromkeys(members))
    labels = {node: {HOSTNAME: node, ZONE: zone[node]} for node in nodes}
    first = stages(labels, nodes, (part,), machines(labels, nodes, ()), {})[0]
    together = {node: zone[node] for node in nodes}  # at worst a zone is one machine
    at_worst = survives(spread(part, together).values(), part.needed)
    assert first.reached == (at_worst > 0 or (first.known and first.survives > 0))
    assert first.survives >= at_worst
    assert first.known == (len(set(together.values())) == len(nodes))


@pytest.mark.parametrize(
    ("labels", "asked", "key", "sense"),
    [
        ({"a": {HOST_ID: "1", HOSTNAME: "a"}, "b": {HOST_ID: "2", HOSTNAME: "b"}}, (), HOST_ID, "machine"),
        ({"a": {HOST_ID: "1", HOSTNAME: "a"}, "b": {HOSTNAME: "b"}}, (), HOSTNAME, "node"),
        ({"a": {HOST_ID: "", HOSTNAME: "a"}, "b": {HOST_ID: "2", HOSTNAME: "b"}}, (), HOSTNAME, "node"),
        ({"a": {HOSTNAME: "a"}, "b": {HOSTNAME: "b"}}, (HOSTNAME,), HOSTNAME, "machine"),
        ({"a": {ZONE: "z"}, "b": {ZONE: "z"}}, (), ZONE, "zone"),
        ({"a": {}, "b": {}}, (), None, "node"),
        ({"a": {"rack": "1", HOST_ID: "1"}, "b": {HOST_ID: "1"}}, ("rack", HOST_ID), HOST_ID, "machine"),
        ({"a": {HOST_ID: "1"}, "b": {HOST_ID: "1"}}, ("rack",), None, "node"),
    ],
)
def test_the_machine_label_is_one_for_all_nodes(labels: dict[str, dict[str, str]], asked: tuple[str, ...], key: str, sense: str) -> None:
    found = machines(labels, ("a", "b"), asked)
    assert (found.label, found.sense) == (key, sense)


def test_zones_as_machines_are_a_lower_bound() -> None:
    labels = {name: {ZONE: name} for name in "abc"} | {"d": {ZONE: "c"}}
    spread_out = stages(labels, "abc", (ControlPlaneComponent("etcd", tuple("abc")),), machines(labels, "abc", ()), {})
    assert [(s.domains, s.survives, s.reached, s.known) for s in spread_out[:2]] == [(3, 1, True, False), (3, 1, True, True)]
    narrow = stages(labels, "acd", (ControlPlaneComponent("etcd", tuple("acd")),), machines(labels, "acd", ()), {})
    assert (narrow[0].survives, narrow[0].reached, grade(narrow, by_node=1)) == (0, False, "unknown")


def test_a_stage_counts_only_where_all_nodes_have_its_label() -> None:
    labels = {name: {HOST_ID: name, ZONE: name, REGION: name, "cloud": name} for name in "abc"}
    part = (ControlPlaneComponent("etcd", tuple("abc")),)
    del labels["c"][ZONE]
    found = stages(labels, "abc", part, machines(labels, "abc", ()), {"clouds": "cloud"})
    zones = Stage("zones", 0, 0, True, None, False)  # a zone lies within one location, and the locations are distinct
    assert found[1:] == [zones, Stage("clouds", 3, 1, True, "cloud"), Stage("locations", 3, 1, True, REGION)]
    assert grade(found, by_node=1) == "locations"
    assert grade(stages(labels, "abc", part, machines(labels, "abc", ()), {"locations": "none"}), by_node=1) == "machines"


def test_known_machines_are_believed_rather_than_zones() -> None:
    """Labels that contradict each other: three nodes of three zones on one machine."""
    labels = {name: {HOST_ID: "h", ZONE: name} for name in "abc"}
    found = stages(labels, "abc", (ControlPlaneComponent("etcd", tuple("abc")),), machines(labels, "abc", ()), {})
    assert [stage.reached for stage in found] == [False, True, False, False]
    assert grade(found, by_node=1) == "non-distributed"


def test_etcd_shares_nodes_with_api_servers_or_not() -> None:
    api, etcd = ControlPlaneComponent("kube-apiserver", ("a", "b")), ControlPlaneComponent("etcd", ("b", "c"))
    assert Members(("a", "b", "c"), (), (api, etcd)).etcd == "stacked"
    assert Members(("a", "b", "c"), ("a", "b"), (etcd,)).etcd == "stacked"
    assert Members(("a", "b", "c"), (), (api, ControlPlaneComponent("etcd", ("c",)))).etcd == "external"
    assert Members(("a", "b"), (), (api,)).etcd == "unknown"
