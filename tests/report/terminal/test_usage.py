from __future__ import annotations

from collections.abc import Callable

from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.kube.objects import Node, NodeStatus, ObjectMeta, Pod, PodStatus
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.node_rows import zone_of
from kubestow.report.terminal.columns import share
from kubestow.report.terminal.usage import Usage, per_node, per_zone


def test_bound_and_assigned_pods_count_on_their_nodes(snapshot: Snapshot, placement: Placement) -> None:
    n1, n2, n3 = per_node(snapshot, placement)
    assert (n1.used, n1.new) == ({"cpu": 2000, "memory": 2 * 2**30, "pods": 2}, 1)
    assert (n2.used["cpu"], n2.new, n3.used["pods"], n3.new) == (1000, 1, 0, 0)
    assert n1.allocatable == {"cpu": 4000, "memory": 8 * 2**30, "pods": 110}


def test_a_pod_placed_anew_counts_where_it_goes(snapshot: Snapshot, placement: Placement) -> None:
    placement.assignments.append(Assignment("prod/old", "n3", 3))
    n1, _, n3 = per_node(snapshot, placement)
    assert (n1.used["pods"], n3.used["pods"]) == (1, 1)


def test_ended_pods_and_unknown_nodes_do_not_count(snapshot: Snapshot, placement: Placement, make_pod: Callable[..., Pod]) -> None:
    ended = make_pod("ended", node="n3")
    ended.status = PodStatus(phase="Succeeded")
    snapshot.pods += [ended, make_pod("lost", node="gone")]
    assert per_node(snapshot, placement)[2].used["pods"] == 0


def test_capacity_stands_in_for_absent_allocatable(placement: Placement) -> None:
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(capacity={"cpu": "2"}))
    assert per_node(Snapshot(nodes=[node]), placement)[0].allocatable["cpu"] == 2000


def test_zones_are_sums_with_zoneless_nodes_last(snapshot: Snapshot, placement: Placement) -> None:
    zones = per_zone(per_node(snapshot, placement))
    assert [(z.zone, z.nodes, z.new) for z in zones] == [("a", 1, 1), ("b", 1, 1), (None, 1, 0)]
    assert sum(z.used["cpu"] for z in zones) == 3000


def test_the_old_zone_label_counts() -> None:
    assert zone_of(Node(metadata=ObjectMeta(name="n", labels={"failure-domain.beta.kubernetes.io/zone": "z"}))) == "z"


def test_share_rounds_down_and_knows_nothing_from_full() -> None:
    assert [share(999, 1000), share(1000, 1000), share(0, 0), share(1, 0), share(3, 2)] == [99, 100, 0, 100, 150]


def test_fullness_is_led_by_the_scarcest_resource() -> None:
    usage = Usage("n", None)
    usage.used.update(cpu=1, memory=3)
    usage.allocatable.update(cpu=4, memory=4, pods=10)
    assert usage.fullness() == [7500, 2500, 0]
