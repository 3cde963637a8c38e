"""Claims of plans: tiers, summaries and gangs, against numbers worked out by hand and the checker of placements."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubestow.checker.objective import preferences
from kubestow.checker.plan.plan import verify_plan
from kubestow.models.documents.placement import TierResult
from kubestow.models.documents.policy import DEFAULT, AgeCost, Moves, Multipliers, PriorityCost
from kubestow.models.documents.rebalance_plan import Excluded, Limits
from kubestow.models.snapshot.snapshot import from_objects
from tests.checker import strategy
from tests.checker.plan.plans import evict, faults, move, plan, running, tier
from tests.objects import node, pod

Object = dict[str, Any]
_HALF = {"cpu": "2", "memory": "4Gi"}


def _preferring(name: str, at: str | None, disk: str) -> Object:
    term = {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return running(name, at, affinity=affinity, **_HALF)


def test_improvement() -> None:
    """10 points for the better disk, and a balance of utilisation that is the same before and after."""
    things = [node("n0", labels={"disk": "hdd"}), node("n1", labels={"disk": "ssd"}), _preferring("a-0", "n0", "ssd")]
    balance = -2 * 500**2  # half of both resources of one node
    steps = [move(1, 1, "a-0", "n0", "n1")]
    snapshot, document = plan(things, ("improve",), (tier("improve", 100_000 + balance - 30_000), tier("moves", -1)), *steps,
                              limits=Limits(minGain=3))  # fmt: skip
    assert faults(snapshot, document) == []
    assert (document.before.balance, document.after.balance) == (balance, balance)
    assert [sum(f.value for f in summary.preferences) for summary in (document.before, document.after)] == [0, 10]
    policy = msgspec.structs.replace(DEFAULT, multipliers=Multipliers(nodeAffinity=7))
    _, weighted = plan(things, ("improve",), (tier("improve", 700_000 + balance - 30_000), tier("moves", -1)), *steps, policy=policy,
                       limits=Limits(minGain=3))  # fmt: skip
    assert faults(snapshot, weighted) == []


def test_summaries_agree_with_the_checker_of_placements() -> None:
    """Points and balance are those of a placement of the pods that may move, the others fixed."""
    things = [*(node(f"n{i}", labels={"disk": "ssd" if i else "hdd"}) for i in range(2)), _preferring("a-0", "n0", "hdd"),
              _preferring("b-0", "n1", "hdd"), pod("bare", node_name="n0", cpu="1")]  # fmt: skip
    excluded = [Excluded("bare", ["default/bare"])]
    snapshot, document = plan(things, ("improve",), (), move(1, 1, "b-0", "n1", "n0"), excluded=excluded)
    for summary, b in ((document.before, "n1"), (document.after, "n0")):
        placed = {"default/a-0": "n0", "default/b-0": b}
        families = preferences.score(snapshot, placed, placed, DEFAULT, pending=placed).families
        assert {f.family: f.value for f in summary.preferences} == families
        assert summary.balance == strategy.points(snapshot, placed, placed, DEFAULT)


def test_drain() -> None:
    """Daemons, static pods and terminating pods are not counted."""
    static = pod("static", node_name="n0")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    going = running("c-0", "n0")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    things = [node("n0"), node("n1"), running("a-0", "n0"), running("b-0", "n0"), running("d-0", "n0", owner="DaemonSet/d"), static, going]
    excluded = [Excluded("daemonset", ["default/d-0"]), Excluded("mirror", ["default/static"]), Excluded("terminating", ["default/c-0"])]
    for value, expected in ((-1, []), (0, ["tier drained: the value is 0, the plan is worth -1"])):
        tiers = (tier("drained", value), tier("moves", -1))
        document = plan(things, ("drain",), tiers, move(1, 1, "a-0", "n0", "n1"), drain=("n0",), excluded=excluded)
        assert [why for _, why in faults(*document)] == expected


def test_freed_nodes() -> None:
    """Control planes and nodes that are to be kept are never freed; prices are in thousandths."""
    kept = node("kept")
    kept["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    control = node("control", labels={"node-role.kubernetes.io/master": ""})
    things = [kept, control, node("n0"), node("n1"), node("n2"), running("a-0", "kept"), running("b-0", "n0"), running("c-0", "n1")]
    steps = (move(1, 1, "a-0", "kept", "n1"), move(2, 1, "b-0", "n0", "n1"))
    document = plan(things, ("consolidate",), (tier("freed", 2), tier("moves", -2)), *steps, freed=("n0",))
    assert faults(*document) == []
    assert (document[1].before.emptyNodes, document[1].after.emptyNodes) == (2, 4)
    priced = [{**thing, "metadata": {**thing["metadata"], "labels": {**thing["metadata"]["labels"], "price": "1.5"}}}
              if thing["kind"] == "Node" else thing for thing in things]  # fmt: skip
    policy = msgspec.structs.replace(DEFAULT, priceLabel="price")
    document = plan(priced, ("consolidate",), (tier("freed", -4500), tier("moves", -2)), *steps, freed=("n0",), policy=policy)
    assert faults(*document) == []
    document = plan(things, ("consolidate",), (tier("freed", 2), tier("moves", -2)), *steps, freed=("n0",), policy=policy)
    assert any("a node has no price" in why for _, why in faults(*document))


def test_more_nodes_are_freed_than_asked_for() -> None:
    """A user who requests one node and gets two sees both; the tier counts one."""
    things = [*(node(f"n{i}") for i in range(4)), running("a-0", "n0"), running("b-0", "n1"), running("c-0", "n2")]
    steps = (move(1, 1, "a-0", "n0", "n2"), move(2, 1, "b-0", "n1", "n2"))
    for value, freed, expected in (
        (2, ("n0", "n1"), []),
        (3, ("n0", "n1"), ["tier freed: the value is 3, the plan is worth 2"]),
        (2, ("n0",), ["freed is n0, it should be n0, n1"]),
    ):
        tiers = (tier("freed", value), tier("moves", -2))
        document = plan(things, ("consolidate",), tiers, *steps, freed=freed, limits=Limits(maxFreed=1))
        assert [why for _, why in faults(*document)] == expected


def _aged(thing: Object, created: str, **annotations: str) -> Object:
    return {**thing, "metadata": {**thing["metadata"], "creationTimestamp": created, "annotations": annotations}}


def test_costs() -> None:
    """The own annotation before the dearest of priority and age."""
    things = [node("n0"), node("n1"), _aged(running("a-0", "n0"), "2026-01-01T00:00:00Z", **{"kubestow.dev/move-cost": "7"}),
              _aged(running("b-0", "n0", priority=100), "2026-01-01T00:00:00Z"), _aged(running("c-0", "n0"), "2026-01-03T00:00:00Z"),
              running("d-0", "n0", priority=100)]  # fmt: skip
    moves = Moves(priorities=(PriorityCost(1, 2), PriorityCost(100, 3)), ages=(AgeCost(24, 5),))
    steps = [move(i + 1, 1, f"{app}-0", "n0", "n1") for i, app in enumerate("abcd")]
    policy = msgspec.structs.replace(DEFAULT, moves=moves)
    snapshot, document = plan(things, (), (tier("moves", -(7 + 5 + 1 + 3)),), *steps, policy=policy)
    assert faults(snapshot, document) == []


# --- gangs --------------------------------------------------------------------------------------------------------------------


def _gang(count: int, **spec: Any) -> list[Object]:
    found = [running(f"g-{i}", None, cpu="1", **spec) for i in range(count)]
    return [{**each, "metadata": {**each["metadata"], "annotations": {"kubestow.dev/gang": "g"}}} for each in found]


def test_a_gang_is_placed_whole() -> None:
    things = [node("n0"), node("n1"), *_gang(2)]
    steps = [move(1, 1, "g-0", None, "n0", gang="default/g"), move(2, 1, "g-1", None, "n1", gang="default/g")]
    assert faults(*plan(things, ("admit",), (tier("placed", 2, 0), tier("moves", 0)), *steps)) == []
    half = plan(things, ("admit",), (tier("placed", 1, 0), tier("moves", 0)), steps[0])
    assert [rule for rule, _ in faults(*half)] == ["GangScheduling"]
    steps[1].gang = None
    unnamed = plan(things, ("admit",), (tier("placed", 2, 0), tier("moves", 0)), *steps)
    assert [why for _, why in faults(*unnamed)] == ["the pod is said to be of no gang, it is of gang default/g"]
    steps[1].gang = "default/h"
    misnamed = plan(things, ("admit",), (tier("placed", 2, 0), tier("moves", 0)), *steps)
    assert [why for _, why in faults(*misnamed)] == ["the pod is said to be of gang default/h, it is of gang default/g"]


def test_a_gang_counts_at_its_lowest_priority() -> None:
    members = _gang(2, priority=5)
    members[1]["spec"] = {**members[1]["spec"], "priority": 3}
    steps = [move(1, 1, "g-0", None, "n0", gang="default/g"), move(2, 1, "g-1", None, "n0", gang="default/g")]
    assert faults(*plan([node("n0"), *members], ("admit",), (tier("placed", 2, 3), tier("moves", 0)), *steps)) == []


@pytest.mark.parametrize("shared", [True, False])
def test_members_that_need_each_other(shared: bool) -> None:
    """Each wants the other kind near it: only as a unit, which is one step."""
    one = running("g-0", None, app="x", affinity=_near("y"))
    other = running("g-1", None, app="y", affinity=_near("x"))
    things = [node("n0"), *({**each, "metadata": {**each["metadata"], "annotations": {"kubestow.dev/gang": "g"}}} for each in (one, other))]
    steps = [move(1, 1, "g-0", None, "n0", gang="default/g"), move(1 if shared else 2, 1, "g-1", None, "n0", gang="default/g")]
    found = {rule for rule, _ in faults(*plan(things, ("admit",), (tier("placed", 2, 0), tier("moves", 0)), *steps))}
    assert found == (set() if shared else {"InterPodAffinity"})


def _near(app: str) -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_evictions_have_a_tier_for_each_priority_without_admission_too() -> None:
    things = [node("n0"), running("a-0", "n0")]
    for tiers, expected in (
        ((tier("drained", 0), tier("evictions", -1, 0), tier("moves", 0)), []),
        ((tier("drained", 0), tier("evictions", 0, 5), tier("evictions", -1, 0), tier("moves", 0)), []),
        (
            (tier("drained", 0), tier("evictions", -1, 0), tier("evictions", 0, 5), tier("moves", 0)),
            ["tier evictions of priority 5 comes after one of lower rank"],
        ),
        ((tier("drained", 0), tier("moves", 0)), ["there is no tier evictions of priority 0"]),
        (
            (tier("drained", 0), tier("evictions", -1), tier("moves", 0)),
            ["the goals have no tier evictions", "there is no tier evictions of priority 0"],
        ),
        ((tier("evictions", -1, 0), tier("drained", 0), tier("moves", 0)), ["tier drained comes after one of lower rank"]),
    ):
        document = plan(things, ("drain",), tiers, evict(1, 1, "a-0", "n0"), drain=("n0",), limits=Limits(allowEviction=True))
        assert [why for _, why in faults(*document)] == expected, tiers


@pytest.mark.parametrize(
    ("goals", "order"),
    [
        (("drain", "consolidate"), ("drained", "evictions", "freed", "moves")),
        (("drain", "consolidate", "repair"), ("drained", "freed", "rules", "evictions", "moves")),
        (("drain", "repair", "consolidate"), ("drained", "rules", "evictions", "freed", "moves")),
    ],
)
def test_evictions_weigh_as_much_as_the_last_goal_that_asks_for_them(goals: tuple[str, ...], order: tuple[str, ...]) -> None:
    things = [node("n0"), node("n1"), running("a-0", "n0")]
    values = {"drained": 0, "rules": 0, "evictions": -1, "freed": 2, "moves": 0}
    place = order.index("evictions")
    for at in range(len(order)):
        names = [name for name in order if name != "evictions"]
        names.insert(at, "evictions")
        tiers = [tier(name, values[name], 0 if name == "evictions" else None) for name in names]
        gone = evict(1, 1, "a-0", "n0")
        document = plan(things, goals, tiers, gone, drain=("n0",), freed=("n0",) if "consolidate" in goals else (),
                        limits=Limits(allowEviction=True))  # fmt: skip
        assert bool(faults(*document)) is (at != place), names


def test_nothing_to_do() -> None:
    snapshot, document = plan([node("n0"), running("a-0", "n0")], ("repair",), (TierResult("rules", 0, 0), TierResult("moves", 0, 0)))
    document.status = "optimal"
    assert verify_plan(snapshot, document) == []
    assert document.before == document.after
    assert document.snapshot.sha256 == from_objects([node("n0"), running("a-0", "n0")]).sha256
