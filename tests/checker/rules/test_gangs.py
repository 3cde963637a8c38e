"""The checker on gangs: every sentence of the definition, with a placement it accepts and one it refuses; units against the letter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.objective.preferences import score
from kubestow.checker.placement import Judge, verify
from kubestow.models.documents.placement import Assignment, GangResult, Placement, SnapshotRef, TierResult, Unplaced
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.gangs.gangs import GANG, MIN_MEMBER, PREFERRED_TOPOLOGY, PREFERRED_TOPOLOGY_POINTS, REQUIRED_TOPOLOGY
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import Object, node, pod
from tests.tiers import examples

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
Row = tuple[str, str, int]  # pod, node, order

#: Two zones of two nodes each, and a node that is in none.
ZONES = [node(name, labels={ZONE: zone}) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))] + [node("nowhere")]


def member(name: str, gang: str | None = "g", *, note: dict[str, str] | None = None, **more: Any) -> Object:
    """A pod of a gang. ``note``: further annotations."""
    made = pod(name, **more)
    made["metadata"]["annotations"] = {**({GANG: gang} if gang else {}), **(note or {})}
    return made


def need(*apps: str, key: str = ZONE) -> Object:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} for app in apps]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def shun(app: str, key: str = HOST) -> Object:
    return {"podAntiAffinity": need(app, key=key)["podAffinity"]}


def app(name: str) -> dict[str, str]:
    return {"app": name}


def even(name: str, *keys: str) -> list[Object]:
    selector = {"matchLabels": {"app": name}}
    return [{"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector} for key in keys]


def document(snapshot: Snapshot, *rows: Row, from_scratch: bool = False) -> Placement:
    """A document that is right in all but its assignments."""
    placed = {f"default/{name}" for name, _, _ in rows}
    nodes = {entry.metadata.name for entry in snapshot.nodes}
    gang_of: dict[str, str] = {}
    members: dict[str, list[kube_objects.Pod]] = {}
    for entry in snapshot.pods:
        name = (entry.metadata.annotations or {}).get(GANG)
        if name is not None:
            members.setdefault(f"default/{name}", []).append(entry)
    waiting = {kube_objects.pod_key(p): p for p in snapshot.pods if not p.spec.schedulingGates and (from_scratch or not p.spec.nodeName)}
    ranks = {key: p.spec.priority or 0 for key, p in waiting.items()}
    results = []
    for gang, pods in sorted(members.items()):
        pending = [kube_objects.pod_key(p) for p in pods if kube_objects.pod_key(p) in waiting]
        if not pending:
            continue
        lowest = min(ranks[key] for key in pending)
        gang_of |= dict.fromkeys(pending, gang)
        ranks |= dict.fromkeys(pending, lowest)
        minimum = (pods[0].metadata.annotations or {}).get(MIN_MEMBER)
        running = [p.spec.nodeName for p in pods if p.spec.nodeName and kube_objects.pod_key(p) not in waiting]
        needed = len(pending) if minimum is None else max(0, int(minimum) - len(running))
        bound = sum(name in nodes for name in running)
        results.append(GangResult(gang, len(pending), len(placed & set(pending)), needed, bound))
    count = Counter(ranks[key] for key in placed)
    return Placement(
        SnapshotRef("", len(snapshot.nodes), len(snapshot.pods), len(waiting), fromScratch=from_scratch),
        "test",
        "feasible",
        [TierResult("placed", count[p], len(waiting), p) for p in sorted(set(ranks.values()), reverse=True)],
        [Assignment(f"default/{name}", where, order, gang_of.get(f"default/{name}")) for name, where, order in rows],
        [Unplaced(key, [], gang_of.get(key)) for key in waiting if key not in placed],
        results,
    )


def judged(objects: list[Object], *rows: Row, **how: Any) -> list[tuple[str, str]]:
    """Pod and rule of every violation."""
    snapshot = from_objects(objects)
    return [(v.pod.removeprefix("default/"), v.rule) for v in verify(snapshot, document(snapshot, *rows, **how))]


def said(objects: list[Object], placement: Placement) -> list[str]:
    """Return the faults of the document, which must all be of this rule."""
    found = verify(from_objects(objects), placement)
    assert {violation.rule for violation in found} <= {"Placement"}
    return [violation.why for violation in found]


def together(*where: tuple[str, str]) -> list[Row]:
    """As one unit."""
    return [(name, target, 1) for name, target in where]


def apart(*where: tuple[str, str]) -> list[Row]:
    """One by one."""
    return [(name, target, order) for order, (name, target) in enumerate(where, 1)]


# --- affinity in a unit -----------------------------------------------------------------------------------------------------------------

A = member("a", labels=app("a"), affinity=need("b"))
B = member("b", labels=app("b"), affinity=need("a"))


def test_mutual_affinity_is_met_by_a_unit_and_by_no_order() -> None:
    assert judged([*ZONES, A, B], *together(("a", "a1"), ("b", "a2"))) == []
    assert judged([*ZONES, A, B], *apart(("a", "a1"), ("b", "a2"))) == [("a", "InterPodAffinity")]
    assert judged([*ZONES, A, B], *apart(("b", "a1"), ("a", "a2"))) == [("b", "InterPodAffinity")]


def test_mutual_affinity_needs_the_other_in_the_same_domain_and_the_key() -> None:
    refused = [("a", "InterPodAffinity"), ("b", "InterPodAffinity")]
    assert judged([*ZONES, A, B], *together(("a", "a1"), ("b", "b1"))) == refused
    assert judged([*ZONES, A, B], *together(("a", "nowhere"), ("b", "nowhere"))) == refused


def test_pairs_that_satisfy_each_other_open_nothing() -> None:
    more = [member("a2", labels=app("a"), affinity=need("b")), member("b2", labels=app("b"), affinity=need("a"))]
    items = [*ZONES, A, B, *more]
    assert judged(items, *together(("a", "a1"), ("b", "a2"), ("a2", "a2"), ("b2", "a1"))) == []
    assert judged(items, *together(("a", "a1"), ("b", "a2"), ("a2", "b2"), ("b2", "b1"))) == []
    assert judged(items, ("a", "a1", 1), ("b", "a2", 1), ("a2", "b2", 2), ("b2", "b1", 2)) == []
    refused = [("a2", "InterPodAffinity"), ("b2", "InterPodAffinity")]
    assert judged(items, ("a", "a1", 1), ("b", "a2", 1), ("a2", "b2", 2), ("b2", "b1", 3)) == refused[:1]
    hosts = [
        {**entry, "spec": {**entry["spec"], "affinity": need(other, key=HOST)}} for entry, other in zip(items[-4:], "baba", strict=True)
    ]
    assert judged([*ZONES, *hosts], *together(("a", "a1"), ("b", "a1"), ("a2", "a2"), ("b2", "a2"))) == []
    assert judged([*ZONES, *hosts], *together(("a", "a1"), ("b", "a1"), ("a2", "a2"), ("b2", "a1"))) == refused[:1]


def test_a_pair_is_satisfied_where_the_cluster_has_a_match_elsewhere() -> None:
    unit = together(("a", "a1"), ("b", "a2"))
    for where in ("a1", "b1", "nowhere"):
        assert judged([*ZONES, pod("there", labels=app("b"), node_name=where), A, B], *unit) == []
    running = pod("there", labels=app("b"), node_name="b1")
    assert judged([*ZONES, running, A, B], *together(("a", "b2"), ("b", "b2"))) == []
    assert judged([*ZONES, running, A, B], *together(("a", "a1"), ("b", "b2"))) == [("a", "InterPodAffinity"), ("b", "InterPodAffinity")]


def test_a_match_on_a_node_with_any_of_the_keys_ends_opening_for_all_of_them() -> None:
    nodes = [node("racked", labels={ZONE: "a", "rack": "r"}), node("loose", labels={ZONE: "a"})]
    both = {"podAffinity": need("a")["podAffinity"]}
    terms = both["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms += need("a", key="rack")["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    pods = [member(f"a{i}", labels=app("a"), affinity=both) for i in (1, 2)]
    unit = together(("a1", "racked"), ("a2", "racked"))
    assert judged([*nodes, *pods], *unit) == []
    there = pod("there", labels=app("a"), node_name="loose")
    assert judged([*nodes, there, *pods], *unit) == [("a1", "InterPodAffinity"), ("a2", "InterPodAffinity")]


def test_a_cycle_of_three_may_lie_in_two_zones() -> None:
    ring = [member(f"{one}{i}", labels=app(one), affinity=need(other)) for i in (1, 2) for one, other in zip("abc", "bca", strict=True)]
    unit = [("a1", "a1"), ("b1", "a1"), ("c1", "a2"), ("a2", "b1"), ("b2", "b1"), ("c2", "b2")]
    assert judged([*ZONES, *ring], *together(*unit)) == []
    assert judged([*ZONES, *ring], *together(*unit[:5], ("c2", "a1"))) == [("b2", "InterPodAffinity")]
    # running matches elsewhere do not matter
    running = pod("there", labels=app("b"), node_name="b1")
    assert judged([*ZONES, running, *ring], *together(*unit)) == []


def test_a_member_without_terms_of_its_own_provides_in_every_zone() -> None:
    pods = [member(f"c{i}", labels=app("c"), affinity=need("s")) for i in (1, 2)] + [member(f"s{i}", labels=app("s")) for i in (1, 2)]
    unit = [("c1", "a1"), ("c2", "b1"), ("s1", "a2"), ("s2", "b2")]
    assert judged([*ZONES, *pods], *together(*unit)) == []
    assert judged([*ZONES, *pods], *apart(*unit)) == [("c1", "InterPodAffinity"), ("c2", "InterPodAffinity")]
    assert judged([*ZONES, *pods], *apart(*reversed(unit))) == []


@pytest.mark.parametrize("rows", [together, apart])
def test_a_self_affine_gang_opens_one_zone(rows: Any) -> None:
    pods = [member(f"p{i}", labels=app("web"), affinity=need("web")) for i in range(3)]
    inside, across = [("p0", "a1"), ("p1", "a2"), ("p2", "a1")], [("p0", "a1"), ("p1", "a2"), ("p2", "b1")]
    assert judged([*ZONES, *pods], *rows(*inside)) == []
    assert judged([*ZONES, *pods], *rows(*across)) == [("p2", "InterPodAffinity")]
    for where, refused in (("a2", set()), ("b1", {"p0", "p1", "p2"}), ("nowhere", set())):
        found = judged([*ZONES, pod("there", labels=app("web"), node_name=where), *pods], *rows(*inside))
        # one by one the first is refused, and the others find it there all the same
        assert {name for name, _ in found} == (refused if rows is together else refused & {"p0"})
    both = [pod(f"there-{name}", labels=app("web"), node_name=name) for name in ("a2", "b2")]
    assert judged([*ZONES, *both, *pods], *rows(*across)) == []


def test_a_member_that_does_not_match_the_terms_it_shares_rides_with_one_that_does() -> None:
    pods = [member("w", labels=app("web"), affinity=need("web")), member("x", labels=app("other"), affinity=need("web"))]
    assert judged([*ZONES, *pods], *together(("w", "a1"), ("x", "a2"))) == []
    assert judged([*ZONES, *pods], *together(("w", "a1"), ("x", "b2"))) == [("x", "InterPodAffinity")]
    assert judged([*ZONES, pods[1]], *together(("x", "a1"))) == [("x", "InterPodAffinity")]
    running = pod("there", labels=app("web"), node_name="b1")
    refused = [("w", "InterPodAffinity"), ("x", "InterPodAffinity")]
    assert judged([*ZONES, running, *pods], *together(("w", "a1"), ("x", "a2"))) == refused


def test_all_terms_have_to_match() -> None:
    labels = {"app": "b", "tier": "t"}
    pods = [member("p", labels=app("p"), affinity=need("b", "t")), member("b", labels=labels), member("t", labels=app("t"))]
    assert judged([*ZONES, *pods], *together(("p", "a1"), ("b", "a1"), ("t", "a1"))) == [("p", "InterPodAffinity")]


# --- the other rules in a unit ----------------------------------------------------------------------------------------------------------


def test_anti_affinity_sees_all_of_the_unit_in_both_directions() -> None:
    pods = [member("x", labels=app("x"), affinity=shun("y")), member("y", labels=app("y"))]
    assert judged([*ZONES, *pods], *together(("x", "a1"), ("y", "a2"))) == []
    for unit in (together(("x", "a1"), ("y", "a1")), together(("y", "a1"), ("x", "a1"))):
        assert sorted(judged([*ZONES, *pods], *unit)) == [("x", "InterPodAffinity"), ("y", "InterPodAffinity")]
    # nobody is averse to itself, all are to those that run
    alone = [member(f"p{i}", labels=app("p"), affinity=shun("p")) for i in range(2)]
    assert judged([*ZONES, *alone], *together(("p0", "a1"), ("p1", "a2"))) == []
    running = pod("there", labels=app("y"), node_name="a1")
    assert judged([*ZONES, running, *pods], *together(("x", "a1"), ("y", "a2"))) == [("x", "InterPodAffinity")]


def test_a_spread_that_no_order_satisfies_is_satisfied_by_a_unit() -> None:
    nodes = [node("h1", labels={ZONE: "z1"}), node("h2", labels={ZONE: "z1"}), node("h3", labels={ZONE: "z2"})]
    there = [pod(f"r{i}", labels=app("web"), node_name=name) for i, name in enumerate(("h1", "h1", "h3"))]
    pods = [member(f"p{i}", labels=app("web"), spread=even("web", ZONE, HOST)) for i in (2, 3)]
    items = [*nodes, *there, *pods]
    assert judged(items, *together(("p2", "h2"), ("p3", "h3"))) == []
    assert judged(items, *apart(("p2", "h2"), ("p3", "h3"))) == [("p2", "PodTopologySpread")]
    assert judged(items, *apart(("p3", "h3"), ("p2", "h2"))) == [("p3", "PodTopologySpread")]
    wrong = judged(items, *together(("p2", "h2"), ("p3", "h1")))
    assert {("p2", "PodTopologySpread"), ("p3", "PodTopologySpread")} <= set(wrong)


def test_a_spread_in_a_unit_needs_the_key_and_counts_no_member_that_it_does_not_select() -> None:
    pods = [member("p", labels=app("p"), spread=even("web", ZONE)), member("w", labels=app("web"))]
    assert judged([*ZONES, *pods], *together(("p", "a1"), ("w", "a1"))) == []  # 1 - 0, itself not counted
    assert ("p", "PodTopologySpread") in judged([*ZONES, *pods], *together(("p", "nowhere"), ("w", "a1")))
    running = pod("there", labels=app("web"), node_name="a2")
    assert ("p", "PodTopologySpread") in judged([*ZONES, running, *pods], *together(("p", "a1"), ("w", "a1")))  # 2 - 0
    assert judged([*ZONES, running, *pods], *together(("p", "a1"), ("w", "b1"))) == []


def test_other_rules_are_judged_one_after_the_other() -> None:
    port = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    for more, rule in (({"cpu": "3"}, "NodeResourcesFit"), (port, "NodePorts")):
        pods = [member(name, labels=app(name), affinity=need(other), **more) for name, other in ("ab", "ba")]
        assert judged([*ZONES, *pods], *together(("a", "a1"), ("b", "a2"))) == []
        assert judged([*ZONES, *pods], *together(("a", "a1"), ("b", "a1"))) == [("b", rule)]
        assert judged([*ZONES, *pods], *together(("b", "a1"), ("a", "a1"))) == [("a", rule)]


# --- whole, and in one domain -----------------------------------------------------------------------------------------------------------


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    pods = [member(f"p{i}") for i in range(3)]
    assert judged([*ZONES, *pods], *apart(("p0", "a1"), ("p1", "a1"), ("p2", "b1"))) == []
    assert judged([*ZONES, *pods]) == []
    assert judged([*ZONES, *pods], *apart(("p0", "a1"), ("p1", "a1"))) == [("", "GangScheduling")]
    # gangs are whole each for itself, and pods without one are nobody's
    others = [member("q", "h"), pod("single")]
    assert judged([*ZONES, *pods, *others], ("q", "a1", 1)) == []


def test_a_minimum_counts_members_that_run() -> None:
    pods = [member(f"p{i}", note={MIN_MEMBER: "2"}) for i in range(3)]
    assert judged([*ZONES, *pods], *apart(("p0", "a1"), ("p1", "a1"))) == []
    assert judged([*ZONES, *pods], *apart(("p0", "a1"))) == [("", "GangScheduling")]
    running = [member(f"r{i}", node_name="b1") for i in range(2)]
    assert judged([*ZONES, *pods, running[0]], *apart(("p0", "a1"))) == []
    assert judged([*ZONES, *pods, *running], *apart(("p0", "a1"))) == []
    # a member that runs where the snapshot has no node is there all the same
    assert judged([*ZONES, *pods, member("r0", node_name="gone")], *apart(("p0", "a1"))) == []


def test_from_scratch_members_that_run_are_placed_anew() -> None:
    pods = [member(f"p{i}", node_name="a1", owner="Job/j") for i in range(2)]
    assert judged([*ZONES, *pods], *apart(("p0", "a1"), ("p1", "b1")), from_scratch=True) == []
    assert judged([*ZONES, *pods], *apart(("p0", "a1")), from_scratch=True) == [("", "GangScheduling")]


def test_required_topology() -> None:
    note = {REQUIRED_TOPOLOGY: ZONE}
    pods = [member(f"p{i}", note=note) for i in range(2)]

    def found(*where: str, running: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        there = [member(f"r{i}", note=note, node_name=name) for i, name in enumerate(running)]
        items = [*ZONES, *there, *pods]
        alike = judged(items, *together(("p0", where[0]), ("p1", where[1])))
        assert judged(items, *apart(("p0", where[0]), ("p1", where[1]))) == alike
        return alike

    p0, p1 = ("p0", "GangScheduling"), ("p1", "GangScheduling")
    assert found("a1", "a2") == []
    assert found("a1", "b1") == [p1]
    assert found("nowhere", "b1") == [p0]
    assert found("nowhere", "nowhere") == [p0, p1]
    assert found("a1", "a2", running=("a2",)) == []
    assert found("b1", "b2", running=("a2",)) == [p0, p1]
    assert found("b1", "b2", running=("a2", "b1")) == []
    assert found("a1", "b2", running=("a2", "b1")) == [p1]
    assert found("a1", "a2", running=("nowhere",)) == [p0, p1]
    three = [member(f"p{i}", note=note) for i in range(3)]
    assert judged([*ZONES, *three], *apart(("p0", "a1"), ("p1", "nowhere"), ("p2", "b1"))) == [p1, ("p2", "GangScheduling")]
    assert judged([*ZONES, *three], *apart(("p0", "a1"), ("p1", "b1"), ("p2", "a2"))) == [p1]
    # only preferred: anywhere
    liked = [member(f"p{i}", note={PREFERRED_TOPOLOGY: ZONE}) for i in range(2)]
    assert judged([*ZONES, *liked], *apart(("p0", "a1"), ("p1", "nowhere"))) == []


@pytest.mark.parametrize(
    ("where", "running", "pairs"),
    [
        (("a1", "a2"), (), 2),
        (("a1", "a1"), (), 2),
        (("a1", "b1"), (), 0),
        (("nowhere", "nowhere"), (), 0),
        (("a1", "a2"), ("a1",), 6),
        (("a1", "b2"), ("a1", "a2", "b1"), 6),  # those that run are no pair that the placement decides
        (("a1", "a1"), ("b1", "b2", "nowhere", "gone"), 2),
    ],
)
def test_preferred_topology_counts_ordered_pairs_of_members(where: tuple[str, str], running: tuple[str, ...], pairs: int) -> None:
    note = {PREFERRED_TOPOLOGY: ZONE}
    pods = [member(f"p{i}", note=note) for i in range(2)] + [member(f"r{i}", note=note, node_name=at) for i, at in enumerate(running)]
    stranger = [member("s", "h", note=note, node_name="a1"), pod("single", node_name="a1")]
    snapshot = from_objects([*ZONES, *pods, *stranger])
    placed = {"default/p0": where[0], "default/p1": where[1]}
    families = score(snapshot, placed, (), DEFAULT, pending=placed.keys()).families
    assert families["podAffinity"] == PREFERRED_TOPOLOGY_POINTS * pairs
    placement = document(snapshot, *apart(("p0", where[0]), ("p1", where[1])))
    worth = PREFERRED_TOPOLOGY_POINTS * pairs * DEFAULT.multipliers.podAffinity
    placement.objective.append(TierResult("soft", worth, worth))
    assert verify(snapshot, placement) == []
    placement.objective[-1] = TierResult("soft", worth + 1, worth + 1)
    assert [v.why.split(" (")[0] for v in verify(snapshot, placement)] == [
        f"tier soft: the value is {worth + 1}, the placement is worth {worth}"
    ]


def test_required_topology_and_unplaced_members_give_no_points() -> None:
    pods = [member(f"p{i}", note={REQUIRED_TOPOLOGY: ZONE}) for i in range(2)] + [
        member(f"q{i}", "h", note={PREFERRED_TOPOLOGY: ZONE, MIN_MEMBER: "1"}) for i in range(2)
    ]
    placed = {"default/p0": "a1", "default/p1": "a1", "default/q0": "a1"}
    assert score(from_objects([*ZONES, *pods]), placed, (), DEFAULT, pending=[*placed, "default/q1"]).families["podAffinity"] == 0


# --- documents --------------------------------------------------------------------------------------------------------------------------


def test_members_count_at_the_lowest_priority_among_those_to_be_placed() -> None:
    pods = [member("p0", priority=10), member("p1", priority=5), member("r", priority=1, node_name="a1"), pod("single", priority=10)]
    objects = [*ZONES, *pods]
    placement = document(from_objects(objects), *apart(("p0", "a1"), ("p1", "a1")))
    assert [(tier.priority, tier.value) for tier in placement.objective] == [(10, 0), (5, 2)]
    assert said(objects, placement) == []
    placement.objective = [TierResult("placed", 1, 2, 10), TierResult("placed", 1, 1, 5)]
    assert said(objects, placement) == [
        "tier placed of priority 10: the value is 1, 0 such pods are assigned",
        "tier placed of priority 5: the value is 1, 2 such pods are assigned",
    ]
    # a priority that only members of a lower gang have needs no tier
    objects.remove(pods[-1])
    placement = document(from_objects(objects), *apart(("p0", "a1"), ("p1", "a1")))
    assert [tier.priority for tier in placement.objective] == [5]
    assert said(objects, placement) == []


def test_every_pod_names_its_gang() -> None:
    objects = [*ZONES, member("p"), member("q", "h"), pod("single"), pod("left")]
    snapshot = from_objects(objects)
    rows = apart(("p", "a1"), ("single", "a1"))
    assert said(objects, document(snapshot, *rows)) == []
    is_g, is_none = "it is of gang default/g", "it is of no gang that is to be placed"
    for position, gang, why in (
        (0, None, f"the pod is said to be of no gang, {is_g}"),
        (0, "default/h", f"the pod is said to be of gang default/h, {is_g}"),
        (0, "g", f"the pod is said to be of gang g, {is_g}"),
        (1, "default/g", f"the pod is said to be of gang default/g, {is_none}"),
    ):
        placement = document(snapshot, *rows)
        placement.assignments[position].gang = gang
        assert said(objects, placement) == [why]
    for position, gang, why in (
        (0, None, "the pod is said to be of no gang, it is of gang default/h"),
        (0, "default/g", "the pod is said to be of gang default/g, it is of gang default/h"),
        (1, "default/h", f"the pod is said to be of gang default/h, {is_none}"),
    ):
        placement = document(snapshot, *rows)
        placement.unplaced[position].gang = gang
        assert said(objects, placement) == [why]


def test_a_gated_member_keeps_a_gang_from_being_whole() -> None:
    gated = member("gated", schedulingGates=[{"name": "wait"}])
    assert ("", "GangScheduling") in judged([*ZONES, member("p"), gated], ("p", "a1", 1))
    assert judged([*ZONES, member("p", note={MIN_MEMBER: "1"}), gated], ("p", "a1", 1)) == []


def test_a_gated_pod_is_of_no_gang_that_is_to_be_placed() -> None:
    objects = [*ZONES, member("p"), member("gated", schedulingGates=[{"name": "wait"}])]
    placement = document(from_objects(objects))
    placement.gangs = [GangResult("default/g", pending=1, placed=0, needed=2)]
    placement.unplaced.append(Unplaced("default/gated", []))
    assert said(objects, placement) == []
    placement.unplaced[-1].gang = "default/g"
    assert said(objects, placement) == ["the pod is said to be of gang default/g, it is of no gang that is to be placed"]


def test_gangs_are_listed_with_their_numbers() -> None:
    note = {REQUIRED_TOPOLOGY: ZONE, MIN_MEMBER: "3"}
    objects = [*ZONES, *(member(f"p{i}", note=note) for i in range(3)), member("r", note=note, node_name="a1")]
    right = {"pending": 3, "placed": 2, "needed": 2, "bound": 1}

    def found(**changed: Any) -> list[str]:
        placement = document(from_objects(objects), *apart(("p0", "a1"), ("p1", "a2")))
        placement.gangs = [GangResult(**{"gang": "default/g", **right, **changed})]
        return said(objects, placement)

    assert found() == []
    assert found(topologyKey=ZONE, domain="a") == []
    for name, number in right.items():
        assert found(**{name: number + 1}) == [f"gang default/g: {name} is said to be {number + 1}, it is {number}"]
    assert found(topologyKey=HOST) == [f"gang default/g: its topology key is said to be {HOST}, it is {ZONE}"]
    assert found(domain="b") == ["gang default/g: its domain is said to be b, the pods are in a"]


def test_a_domain_is_of_placed_pods_and_a_key() -> None:
    for note, key, rows, why in (
        ({PREFERRED_TOPOLOGY: ZONE}, ZONE, apart(("p0", "a1"), ("p1", "b2")), "its domain is said to be a, the pods are in a, b"),
        ({PREFERRED_TOPOLOGY: ZONE}, ZONE, apart(("p0", "a1"), ("p1", "nowhere")), "its domain is said to be a, the pods are in a, none"),
        ({PREFERRED_TOPOLOGY: ZONE}, ZONE, apart(("p0", "a1"), ("p1", "a2")), None),
        ({REQUIRED_TOPOLOGY: ZONE}, ZONE, [], "its domain is said to be a, the pods are in none"),
        ({}, None, apart(("p0", "a1"), ("p1", "a1")), "its domain is said to be a, the pods are in none"),
    ):
        objects = [*ZONES, *(member(f"p{i}", note=note) for i in range(2))]
        placement = document(from_objects(objects), *rows)
        placement.gangs[0].topologyKey, placement.gangs[0].domain = key, "a"
        assert said(objects, placement) == ([f"gang default/g: {why}"] if why else [])


def test_all_gangs_that_are_to_be_placed_are_listed_once_and_no_other() -> None:
    objects = [*ZONES, member("p"), member("q", "h"), member("r", "runs", node_name="a1")]
    snapshot = from_objects(objects)
    placement = document(snapshot, *apart(("p", "a1")))
    assert [result.gang for result in placement.gangs] == ["default/g", "default/h"]
    assert said(objects, placement) == []
    left_out = msgspec.structs.replace(placement, gangs=placement.gangs[:1])
    assert said(objects, left_out) == ["gang default/h: it has pods to be placed and is not listed"]
    twice = msgspec.structs.replace(placement, gangs=[*placement.gangs, placement.gangs[0]])
    assert said(objects, twice) == ["gang default/g: it is given twice"]
    more = msgspec.structs.replace(placement, gangs=[*placement.gangs, GangResult("default/runs", 0, 0, 0, 1)])
    assert said(objects, more) == ["gang default/runs: no such gang is to be placed"]


def test_order_numbers_are_shared_inside_one_gang_only() -> None:
    other = member("b", "h", labels=app("b"), affinity=need("a"))
    shared = together(("a", "a1"), ("b", "a2"))
    objects = [*ZONES, A, other]
    # the two do not see each other: judged one by one
    assert judged(objects, *shared) == [("b", "Placement"), ("a", "InterPodAffinity")]
    # regardless of their names in the document
    placement = document(from_objects(objects), *shared)
    placement.assignments[1].gang = "default/g"
    found = verify(from_objects(objects), placement)
    assert found[0].why == "order 1 is shared with default/a, and they are not of one gang"
    assert ("default/a", "InterPodAffinity") in [(v.pod, v.rule) for v in found]
    singles = [{**entry, "metadata": {**entry["metadata"], "annotations": {}}} for entry in (A, B)]
    assert judged([*ZONES, *singles], *shared) == [("b", "Placement"), ("a", "InterPodAffinity")]
    assert judged([*ZONES, A, B], *shared) == []


# --- units against the letter of the rule -----------------------------------------------------------------------------------------------

KEYS = ("zone", "rack")
PLACES = {"n1": {"zone": "a", "rack": "r"}, "n2": {"zone": "a", "rack": "s"}, "n3": {"zone": "b", "rack": "t"}, "n4": {"zone": "b"}}
Term = tuple[str, str]  # label that it asks for, topology key


@dataclass(frozen=True)
class Sketch:
    """A pod by what the two rules read of it. ``spread``: label, key and maxSkew."""

    labels: frozenset[str]
    affinity: tuple[Term, ...]
    anti: tuple[Term, ...]
    spread: tuple[tuple[str, str, int], ...]

    def pod(self, name: str) -> kube_objects.Pod:
        def required(terms: tuple[Term, ...]) -> Object:
            listed = [{"topologyKey": key, "labelSelector": {"matchLabels": {label: "1"}}} for label, key in terms]
            return {"requiredDuringSchedulingIgnoredDuringExecution": listed}

        constraints = [
            {"topologyKey": k, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {label: "1"}}}
            for label, k, skew in self.spread
        ]
        affinity = {"podAffinity": required(self.affinity), "podAntiAffinity": required(self.anti)}
        metadata = {"name": name, "namespace": "d", "labels": dict.fromkeys(self.labels, "1")}
        return msgspec.convert(
            {"metadata": metadata, "spec": {"affinity": affinity, "topologySpreadConstraints": constraints}}, kube_objects.Pod
        )

    def matches(self, terms: tuple[Term, ...]) -> bool:
        return all(label in self.labels for label, _ in terms)

    def asks(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(label for label, _ in self.affinity), frozenset(key for _, key in self.affinity)


Placed = tuple[Sketch, str]
LABEL = st.sampled_from("xyz")
TERM = st.tuples(LABEL, st.sampled_from(KEYS))
ANTI = st.lists(TERM, max_size=1).map(tuple)
SPREAD = st.lists(st.tuples(LABEL, st.sampled_from(KEYS), st.integers(1, 2)), max_size=1).map(tuple)


def sketches(asks: list[tuple[Term, ...]], size: tuple[int, int]) -> st.SearchStrategy[list[Placed]]:
    """Pods with one of these sets of affinity terms, on a node."""
    one = st.builds(Sketch, st.frozensets(LABEL, max_size=2), st.sampled_from(asks), ANTI, SPREAD)
    return st.lists(st.tuples(one, st.sampled_from(sorted(PLACES))), min_size=size[0], max_size=size[1])


#: Pods that run, and a unit, of few distinct sets of terms: only pods that share or answer them are of interest.
STATES = st.lists(st.lists(TERM, max_size=2).map(tuple), min_size=1, max_size=3).flatmap(
    lambda asks: st.tuples(sketches(asks, (0, 3)), sketches(asks, (2, 5)))
)


def domain_of(place: str, key: str) -> str | None:
    return PLACES[place].get(key)


def affinity_refuses(before: list[Placed], unit: list[Placed]) -> list[bool]:
    opened: dict[object, str] = {}
    verdicts = []
    for p, (sketch, place) in enumerate(unit):
        refused = False
        keys = sorted({key for _, key in sketch.affinity})
        for key in keys:
            domain = domain_of(place, key)
            if any(domain_of(place, k) is None for k in keys) or domain is None:
                refused = True
                continue
            if any(other.matches(sketch.affinity) and domain_of(where, key) == domain for other, where in before):
                continue
            free = opening = False
            for q, (other, where) in enumerate(unit):
                if other.matches(sketch.affinity) and domain_of(where, key) == domain:
                    alike = q == p or other.asks() == sketch.asks()
                    free, opening = free or not alike, opening or alike
            if free:
                continue
            elsewhere = any(
                other.matches(sketch.affinity) and any(domain_of(where, k) is not None for k in keys) for other, where in before
            )
            if not opening or elsewhere or opened.setdefault((sketch.asks(), key), domain) != domain:
                refused = True
        verdicts.append(refused)
    return verdicts


def anti_refuses(present: list[Placed], p: int) -> bool:
    sketch, place = present[p]
    for q, (other, where) in enumerate(present):
        if q != p:
            for label, key in sketch.anti:
                if label in other.labels and domain_of(place, key) is not None and domain_of(place, key) == domain_of(where, key):
                    return True
            for label, key in other.anti:
                if label in sketch.labels and domain_of(place, key) is not None and domain_of(place, key) == domain_of(where, key):
                    return True
    return False


def spread_refuses(present: list[Placed], p: int) -> bool:
    """Count less minimum in the state with everybody present."""
    sketch, place = present[p]
    eligible = [name for name in PLACES if all(domain_of(name, key) is not None for _, key, _ in sketch.spread)]
    if sketch.spread and place not in eligible:
        return True
    for label, key, skew in sketch.spread:
        counts = Counter({domain_of(name, key): 0 for name in eligible})
        counts.update(domain_of(where, key) for other, where in present if label in other.labels and where in eligible)
        if counts[domain_of(place, key)] - min(counts.values()) > skew:
            return True
    return False


@pytest.mark.full
@examples(400)
@given(STATES)
def test_a_unit_is_judged_by_the_letter(state: tuple[list[Placed], list[Placed]]) -> None:
    before, unit = state
    status = kube_objects.NodeStatus(allocatable={"pods": "99"})
    nodes = [kube_objects.Node(kube_objects.ObjectMeta(name=name, labels=labels), status=status) for name, labels in PLACES.items()]
    running = [sketch.pod(f"b{i}") for i, (sketch, _) in enumerate(before)]
    for entry, (_, place) in zip(running, before, strict=True):
        entry.spec.nodeName = place
    members = [sketch.pod(f"m{i}") for i, (sketch, _) in enumerate(unit)]
    judge = Judge(Snapshot(nodes=nodes, pods=[*running, *members]), members)
    verdicts = [{rule for rule, _ in faults} for faults in judge.bind([(m, place) for m, (_, place) in zip(members, unit, strict=True)])]
    present, lonely = [*unit, *before], affinity_refuses(before, unit)
    for p, found in enumerate(verdicts):
        assert ("InterPodAffinity" in found) is (lonely[p] or anti_refuses(present, p))
        assert ("PodTopologySpread" in found) is spread_refuses(present, p)
        assert found <= {"InterPodAffinity", "PodTopologySpread"}
