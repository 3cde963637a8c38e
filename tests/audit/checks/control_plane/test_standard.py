"""Requirements of scs-0213-v1 and scs-0214-v2: each one met, broken or not provable; halves of components in the record's words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.audit.checks.control_plane.check import check, requirements
from kubestow.audit.checks.control_plane.standard import sharing, splits
from kubestow.models.documents.findings.audit import RequirementStatus
from tests.audit.control_planes import ALL, HOST_ID, REGION, ZONE, codes, found, look, member, plane, static
from tests.objects import Object, node

PLACED = {"topology_kubernetes_io__zone": "a", "topology_kubernetes_io__region": "r"}
MACHINES = "control-plane nodes on several physical machines"
ZONES = "control-plane nodes in several failure zones"
CURRENT = "these labels are kept up to date"
WORKER_ZONES = "workers in several zones"
DOUBLED = "every component at least twice"
HALVES = "half of every component on other nodes and other machines than the other half"
WORKERS = "workers on different machines"
MAPPED = "nodes labelled with the machine that they share"


def status(objects: Sequence[Object], **options: Any) -> dict[str, RequirementStatus]:
    return {entry.text: entry.status for entry in requirements(look(objects, **options)) or ()}


def why(objects: Sequence[Object], text: str, **options: Any) -> str:
    (one,) = [entry.why for entry in requirements(look(objects, **options)) or () if entry.text == text]
    return one


def worker(name: str, host: str | None = None, **labels: str) -> Object:
    return member(name, role=None, host=host, **labels)


def placed(*hosts: str | None) -> list[Object]:
    """A control plane, a node with all components in each zone of one region."""
    nodes = [
        member(f"cp-{i}", host=host, zone=f"z{i}", topology_kubernetes_io__region="r") for i, host in enumerate(hosts)
    ]  # fmt: skip
    return nodes + [static(part, f"cp-{i}") for part in ALL for i in range(len(hosts))]


def test_six_nodes_without_zone_or_region_are_found_by_label() -> None:
    """The input of the issue: three control-plane nodes with a machine each, three workers, no zone and no region anywhere."""
    objects = [member(f"cp{i}", host=f"h{i}") for i in range(3)] + [node(f"w{i}") for i in range(3)]
    lacking = [finding for finding in check(look(objects)) if finding.code == "KS913"]
    assert [(each.field, each.severity, len(each.nodes)) for each in lacking] == [
        (f"metadata.labels[{ZONE}]", "info", 6), (f"metadata.labels[{REGION}]", "info", 6),
    ]  # fmt: skip
    assert status(objects) == {
        MACHINES: "met", ZONES: "not provable", f"every node carries {ZONE}": "broken", f"every node carries {REGION}": "broken",
        CURRENT: "not provable", WORKER_ZONES: "not provable", DOUBLED: "not provable", HALVES: "not provable",
        WORKERS: "not provable", MAPPED: "broken",
    }  # fmt: skip
    assert why(objects, MAPPED) == f"0 of 3 workers have {HOST_ID}; the machines of the 3 without it are unknown"


def test_a_control_plane_that_meets_everything() -> None:
    objects = [
        *placed("h0", "h1", "h2"),
        *(worker(f"w{i}", f"h{i + 3}", **PLACED | {"topology_kubernetes_io__zone": f"z{i}"}) for i in range(2)),
    ]
    assert set(status(objects).values()) == {"met", "not provable"}
    assert [text for text, each in status(objects).items() if each != "met"] == [CURRENT]
    assert codes(objects) == []
    assert [finding.code for finding in check(look(objects))] == []


@pytest.mark.parametrize(
    ("hosts", "labels", "machines", "zones"),
    [
        (["h0", "h0"], {}, "broken", "not provable"),
        (["h0", "h1"], {}, "met", "not provable"),
        (["h0"], {}, "broken", "broken"),
        ([None, None], {}, "not provable", "not provable"),
        (["h0", None, "h1"], {}, "met", "not provable"),
        (["h0", None, "h0"], {}, "not provable", "not provable"),
        ([None, None], {"cp-0": "a", "cp-1": "b"}, "met", "met"),  # zones are never on one machine
        ([None, None], {"cp-0": "a", "cp-1": "a"}, "not provable", "broken"),
        (["h0", "h0"], {"cp-0": "a", "cp-1": "b"}, "broken", "met"),  # the label of the machine decides where all have it
    ],
)
def test_machines_and_zones_of_a_control_plane(hosts: list[str | None], labels: dict[str, str], machines: str, zones: str) -> None:
    objects = [member(f"cp-{i}", host=host, zone=labels.get(f"cp-{i}")) for i, host in enumerate(hosts)]
    objects += [static(part, f"cp-{i}") for part in ALL for i in range(len(hosts))] + [node("w0")]
    found_ = status(objects)
    assert (found_[MACHINES], found_[ZONES]) == (machines, zones)


def test_a_hostname_is_a_machine_where_that_was_asked_for() -> None:
    objects = plane([None, None, None])
    assert status(objects)[MACHINES] == "not provable"
    assert status(objects, machine_labels=("kubernetes.io/hostname",))[MACHINES] == "met"
    assert status(objects, machine_labels=("kubernetes.io/hostname",))[HALVES] == "met"


def test_labels_that_contradict_each_other_are_not_kept_up_to_date() -> None:
    former = worker("w0", "h9", **PLACED, failure_domain_beta_kubernetes_io__zone="b")
    former["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"] = "b"
    assert why([*placed("h0", "h1"), former], CURRENT) == f"{ZONE} differs from failure-domain.beta.kubernetes.io/zone on w0"
    torn = [worker("w0", "h9", **PLACED), worker("w1", "h9", **PLACED | {"topology_kubernetes_io__zone": "b"})]
    assert why([*placed("h0", "h1"), *torn], CURRENT) == f"machine h9 has several values of {ZONE}: a, b"
    assert status([*placed("h0", "h1"), *torn])[CURRENT] == "broken"


def test_components_that_run_once_or_are_not_seen() -> None:
    assert status(plane(["h0", "h1"]))[DOUBLED] == "met"
    once = [each for each in plane(["h0", "h1"]) if each["metadata"]["name"] != "kube-scheduler-cp-1"]
    assert (status(once)[DOUBLED], why(once, DOUBLED)) == ("broken", "kube-scheduler runs once")
    assert why(plane(["h0", "h1"], ("kube-apiserver", "etcd")), DOUBLED) == "not seen: kube-controller-manager, kube-scheduler"


@pytest.mark.parametrize(
    ("hosts", "broken"),
    [
        (["h0", "h1"], False), (["h0", "h0"], True), (["h0", "h0", "h1"], False), (["h0", "h1", "h2"], False),
        (["h0", "h0", "h0", "h1"], True), (["h0", "h0", "h1", "h1"], False), (["h0", "h0", "h1", "h1", "h2", "h2"], True),
        (["h0", "h0", "h0", "h1", "h1"], False), (["h0", "h0", "h0", "h0", "h1"], True),
    ],
)  # fmt: skip
def test_halves_of_components_in_the_words_of_the_record(hosts: list[str], broken: bool) -> None:
    objects = plane(hosts, ("kube-apiserver",))
    halves = [each for each in found(objects) if each.code == "KS914"]
    assert [each.object for each in halves] == (["Component kube-apiserver"] if broken else [])
    assert status(objects)[HALVES] == ("broken" if broken else "not provable")  # the other components are not seen
    assert status(plane(hosts))[HALVES] == ("broken" if broken else "met")


def test_what_a_finding_about_halves_says() -> None:
    (one,) = [each for each in found(plane(["h0", "h0", "h1", "h1", "h2", "h2"], ("kube-apiserver",))) if each.code == "KS914"]
    assert one.message == ("6 instances of kube-apiserver cannot be split into 3 and 3 on different machines: 2 on h0, 2 on h1, 2 on h2")
    assert one.severity == "warning"


def test_unknown_machines_prove_nothing_about_halves_but_nodes_may() -> None:
    assert status(plane([None, None]))[HALVES] == "not provable"
    twice = [*plane([None], ("kube-apiserver",)), node("w0")]
    twice.append(static("kube-apiserver", "cp-0"))
    twice[-1]["metadata"]["name"] = "kube-apiserver-again"
    twice.append(member("cp-1"))
    assert [each.code for each in found(twice)] == ["KS902", "KS914", "KS903", "KS911", "KS905"]
    assert status(twice)[HALVES] == "broken"
    assert status([member("a", zone="x"), member("b", zone="y"), *(static(p, n) for p in ALL for n in "ab")])[HALVES] == "met"


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 12))
def test_splits_are_those_of_all_subsets(counts: list[int], half: int) -> None:
    sums = {sum(part) for size in range(len(counts) + 1) for part in combinations(counts, size)}
    assert splits(counts, half) is (half in sums)


def test_workers_that_share_a_machine_are_counted_with_and_without_the_label() -> None:
    labels: dict[str, dict[str, str]] = {"w0": {HOST_ID: "a"}, "w1": {HOST_ID: "a"}, "w2": {HOST_ID: "b"}, "w3": {}, "w4": {HOST_ID: ""}}
    assert sharing(labels, list(labels), [HOST_ID]) == (
        f"3 of 5 workers have {HOST_ID}, on 2 machines: 2 share theirs with another worker; the machines of the 2 without it are unknown"
    )
    assert sharing(labels, ["w0", "w2"], [HOST_ID]) == f"2 of 2 workers have {HOST_ID}, on 2 machines: no two share one"
    (bare,) = [
        each for each in found([*placed("h0", "h1", "h2"), worker("w0", "h3"), worker("w1", "h3"), worker("w2")]) if each.code == "KS908"
    ]
    assert bare.message.endswith("on 1 machine: 2 share theirs with another worker; the machines of the 1 without it are unknown")


def test_nothing_is_asked_where_neither_a_control_plane_nor_a_machine_is_seen() -> None:
    assert requirements(look([node("w0"), node("w1")])) is None
    assert requirements(look([member("cp-0", host="h0")])) is None  # one node
    managed = status([worker("w0", "h0"), worker("w1", "h0")])
    assert MACHINES not in managed
    assert (managed[WORKERS], managed[f"every node carries {ZONE}"]) == ("broken", "broken")
