"""The checker of plans: a valid plan passes, each single fault in it is named, by the right rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubestow.models.documents.placement import TierResult
from kubestow.models.documents.rebalance_plan import Excluded, Limits, NodeUse, Obstacle, RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot
from tests.checker.plan.plans import (
    apart,
    budget,
    evict,
    faults,
    move,
    plan,
    rules,
    running,
    spread,
    tier,
    together,
)
from tests.objects import node, pod

Object = dict[str, Any]


def _things() -> list[Object]:
    """Two pods of a that must be apart run on n0; b and c are alone on n1, which moving both frees."""
    return [
        *(node(f"n{i}") for i in range(3)),
        running("a-0", "n0", affinity=apart("a")),
        running("a-1", "n0", affinity=apart("a")),
        running("b-0", "n1"),
        running("c-0", "n1", priority=5),
        pod("daemon", node_name="n1", owner="DaemonSet/daemon"),
        pod("bare", node_name="n2"),
        budget("a", minAvailable=1),
    ]


def _plan() -> tuple[Snapshot, RebalancePlan]:
    return plan(
        _things(), ("repair", "consolidate"), (tier("rules", 0), tier("freed", 1), tier("moves", -4)),
        move(1, 1, "a-1", "n0", "n2"), move(2, 1, "b-0", "n1", "n2", stopover=True),
        move(3, 2, "c-0", "n1", "n0"), move(4, 2, "b-0", "n2", "n0"),
        freed=("n1",), excluded=(Excluded("bare", ["default/bare"]), Excluded("daemonset", ["default/daemon"])),
    )  # fmt: skip


def test_a_valid_plan() -> None:
    snapshot, document = _plan()
    assert faults(snapshot, document) == []
    assert document.before.rules == {"InterPodAffinity": 2}
    assert document.after.rules == {}
    assert (document.before.emptyNodes, document.after.emptyNodes) == (0, 1)
    assert [use.pods for use in document.before.nodes] == [2, 3, 1]
    assert [use.pods for use in document.after.nodes] == [3, 1, 2]
    assert document.after.nodes[0] == NodeUse("n0", 3, 300, 4000, 3 * 128 * 2**20, 8 * 2**30)


Change = Callable[[RebalancePlan], object]


def _set(path: str, value: object) -> Change:
    """A change of one field, such as ``moves.0.to``."""

    def change(document: RebalancePlan) -> None:
        *parts, last = path.split(".")
        at: Any = document
        for part in parts:
            at = at[int(part)] if part.isdigit() else getattr(at, part)
        if last.isdigit():
            at[int(last)] = value
        else:
            setattr(at, last, value)

    return change


def _all(*changes: Change) -> Change:
    return lambda document: [change(document) for change in changes]


MUTATIONS: list[tuple[str, Change, str, str]] = [
    ("another snapshot", _set("snapshot.sha256", "f" * 64), "RebalancePlan", "the plan is for snapshot ffff"),
    ("nodes of the snapshot", _set("snapshot.nodes", 9), "RebalancePlan", "snapshot.nodes is 9, it should be 3"),
    ("pods of the snapshot", _set("snapshot.pods", 0), "RebalancePlan", "snapshot.pods is 0, it should be 6"),
    ("pending pods of the snapshot", _set("snapshot.pending", 1), "RebalancePlan", "snapshot.pending is 1, it should be 0"),
    ("from scratch", _set("snapshot.fromScratch", True), "RebalancePlan", "a plan does not place running pods from scratch"),
    ("engine", _set("engine", "auto"), "RebalancePlan", "there is no engine 'auto'"),
    ("drained twice", _set("drain", ["n0", "n0"]), "RebalancePlan", "a node to be drained is given twice"),
    ("gang of a running pod", _set("moves.0.gang", "default/g"), "RebalancePlan", "said to be of gang default/g, it is of no gang"),
    ("unknown goal", _set("goals", ["repair", "consolidate", "please"]), "RebalancePlan", "there is no goal 'please'"),
    ("goal twice", _set("goals", ["repair", "consolidate", "repair"]), "RebalancePlan", "a goal is given twice"),
    ("drain without nodes", _set("goals", ["drain", "repair", "consolidate"]), "RebalancePlan", "the goal drain comes first"),
    ("nodes without drain", _set("drain", ["n1"]), "RebalancePlan", "the goal drain comes first"),
    ("drain of nothing", _set("drain", ["n9"]), "RebalancePlan", "no such node to be drained"),
    ("target is drained", _set("drain", ["n0"]), "RebalancePlan", "step 3 (wave 2): the node is to be drained"),
    ("gap in steps", _set("moves.3.step", 7), "RebalancePlan", "without a gap, expected 4 and got 7"),
    ("steps from 0", _set("moves.0.step", 0), "RebalancePlan", "expected 1 and got 0"),
    ("shared step", _set("moves.1.step", 1), "RebalancePlan", "step 1 is shared by pods that are not bound as one gang"),
    ("step in two waves", _set("moves.2.step", 2), "RebalancePlan", "step 2 is in more than one wave"),
    ("gap in waves", _all(_set("moves.2.wave", 3), _set("moves.3.wave", 3)), "RebalancePlan", "none is empty, expected 2"),
    ("waves do not rise", _set("moves.0.wave", 3), "RebalancePlan", "waves rise with the steps"),
    ("unsorted", lambda d: d.moves.reverse(), "RebalancePlan", "moves are not listed by step"),
    ("unknown pod", _set("moves.0.pod", "default/a-9"), "RebalancePlan", "the snapshot has no such pod"),
    ("unknown node", _set("moves.0.to", "n9"), "RebalancePlan", "the snapshot has no such node"),
    ("elsewhere", _set("moves.0.source", "n1"), "RebalancePlan", "the pod is said to be on n1, it is on n0"),
    ("not where it stopped over", _set("moves.3.source", "n1"), "RebalancePlan", "the pod is said to be on n1, it is on n2"),
    ("not pending", _set("moves.0.source", None), "RebalancePlan", "the pod is said to be without a node, it is on n0"),
    ("no move", _set("moves.0.to", "n0"), "RebalancePlan", "the pod is there already"),
    ("twice in a wave", _set("moves.3.wave", 1), "RebalancePlan", "the pod moves more than once in wave 1"),
    ("no stopover", _set("moves.0.stopover", True), "RebalancePlan", "step 1 is a stopover, and the pod does not move on"),
    ("hidden stopover", _set("moves.1.stopover", False), "RebalancePlan", "not said to be a stopover"),
    ("too many moves", _set("limits.maxMoves", 3), "RebalancePlan", "4 moves, at most 3 are allowed"),
    ("of a namespace", _set("limits.maxMovesPerNamespace", 3), "RebalancePlan", "4 moves in namespace default"),
    ("of a workload", _set("limits.maxMovesPerWorkload", 1), "RebalancePlan", "2 moves of ReplicaSet default/b, at most 1"),
    ("too many waves", _set("limits.maxWaves", 1), "RebalancePlan", "2 waves, at most 1 are allowed"),
    ("more waves at least than there are", _set("leastWaves", 3), "RebalancePlan", "pods that wait for others need only 2"),
    ("bare pod", _set("moves.2", move(3, 2, "bare", "n2", "n0")), "RebalancePlan", "the pod must not be moved (bare)"),
    ("daemon", _set("moves.2", move(3, 2, "daemon", "n1", "n0")), "RebalancePlan", "the pod must not be moved (daemonset)"),
    ("not excluded", _set("excluded.0.pods", ["default/bare", "default/a-0"]), "RebalancePlan", "excluded for bare, it is for nothing"),
    ("wrong exclusion", _set("excluded.0.reason", "mirror"), "RebalancePlan", "excluded for mirror, it is for bare"),
    ("missing exclusion", lambda d: d.excluded.clear(), "RebalancePlan", "excluded for nothing, it is for bare"),
    ("exclusion twice", lambda d: d.excluded.append(d.excluded[0]), "RebalancePlan", "listed as excluded twice"),
    ("budget", _set("moves.1", move(2, 1, "a-0", "n0", "n1")), "PodDisruptionBudget", "evicts 2 pods of budget default/a"),
    ("anti-affinity", _set("moves.2", move(3, 2, "a-1", "n2", "n0")), "InterPodAffinity", "step 3 (wave 2): pod default/a-0 in"),
    ("freed no more", _set("moves.0.to", "n1"), "RebalancePlan", "freed is n1, it should be empty"),
    ("obstacle of a pod", _set("obstacles", [Obstacle("repair", "m", pod="default/z")]), "RebalancePlan", "obstacle names a pod"),
    ("obstacle of a node", _set("obstacles", [Obstacle("repair", "m", node="n9")]), "RebalancePlan", "obstacle names a node"),
    ("nothing freed", _set("freed", []), "RebalancePlan", "freed is empty, it should be n1"),
    ("another freed", _set("freed", ["n2"]), "RebalancePlan", "freed is n2, it should be n1"),
    ("rules before", _set("before.rules", {}), "RebalancePlan", "before.rules is {}"),
    ("rules after", _set("after.rules", {"NodePorts": 1}), "RebalancePlan", "after.rules is {'NodePorts': 1}, it should be {}"),
    ("empty nodes", _set("after.emptyNodes", 0), "RebalancePlan", "after.emptyNodes is 0, it should be 1"),
    ("pending", _set("before.pending", 1), "RebalancePlan", "before.pending is 1, it should be 0"),
    ("nodes before", lambda d: d.before.nodes.pop(), "RebalancePlan", "before.nodes"),
    ("use after", _set("after.nodes.0.cpu", 1), "RebalancePlan", "after.nodes"),
    ("balance", _set("after.balance", 0), "RebalancePlan", "after.balance is 0"),
    ("preferences", lambda d: d.after.preferences.pop(), "RebalancePlan", "after.preferences"),
    ("value", _set("objective.0", TierResult("rules", -1, 0)), "RebalancePlan", "tier rules: the value is -1, the plan is worth 0"),
    ("value of freed", _set("objective.1", tier("freed", 2)), "RebalancePlan", "tier freed: the value is 2, the plan is worth 1"),
    ("value of moves", _set("objective.2", tier("moves", -3)), "RebalancePlan", "tier moves: the value is -3, the plan is worth -4"),
    ("bound", _set("objective.2.bound", -5), "RebalancePlan", "tier moves: the bound -5 is below the value -4"),
    ("optimal", _all(_set("status", "optimal"), _set("objective.2.bound", -3)), "RebalancePlan", "is optimal"),
    ("missing tier", lambda d: d.objective.pop(1), "RebalancePlan", "there is no tier freed"),
    ("missing moves", lambda d: d.objective.pop(2), "RebalancePlan", "there is no tier moves"),
    ("another tier", lambda d: d.objective.insert(0, tier("improve", 0)), "RebalancePlan", "the goals have no tier improve"),
    ("tier of a priority", _set("objective.1.priority", 0), "RebalancePlan", "the goals have no tier freed of priority 0"),
    ("tier twice", lambda d: d.objective.append(tier("moves", -4)), "RebalancePlan", "tier moves is given twice"),
    ("evictions without drain or repair", _all(_set("goals", ["consolidate"]), lambda d: d.objective.pop(0),
                                               lambda d: d.objective.insert(0, tier("evictions", 0))),
     "RebalancePlan", "the goals have no tier evictions"),
    ("order of tiers", lambda d: d.objective.reverse(), "RebalancePlan", "tier freed comes after one of lower rank"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "rule", "why"), MUTATIONS, ids=[entry[0] for entry in MUTATIONS])
def test_one_fault(name: str, change: Change, rule: str, why: str) -> None:
    snapshot, document = _plan()
    change(document)
    found = faults(snapshot, document)
    assert any(by == rule and why in text for by, text in found), found
    if name == "another snapshot":
        assert len(found) == 1


# --- evictions ----------------------------------------------------------------------------------------------------------------


def _admission(policy: str = "PreemptLowerPriority", **limits: Any) -> tuple[Snapshot, RebalancePlan]:
    """x of priority 10 waits for the place that y of priority 1 has; z waits, too, at priority 0, and finds none."""
    things = [node("n0", cpu="1"), running("y-0", "n0", cpu="800m", priority=1),
              running("x-0", None, cpu="800m", priority=10, preemptionPolicy=policy),
              running("z-0", None, cpu="800m", priority=0)]  # fmt: skip
    tiers = (tier("evictions", 0, 10), tier("placed", 1, 10), tier("evictions", -1, 1), tier("placed", 0, 0), tier("moves", 0))
    return plan(
        things, ("admit",), tiers, evict(1, 1, "y-0", "n0"), move(2, 2, "x-0", None, "n0"), limits=Limits(allowEviction=True, **limits)
    )


def test_evictions_for_pods_of_higher_priority() -> None:
    snapshot, document = _admission()
    assert faults(snapshot, document) == []
    assert (document.before.pending, document.after.pending) == (2, 2)


def test_no_evictions_for_pods_that_do_not_preempt() -> None:
    snapshot, document = _admission("Never")
    assert [why for _, why in faults(snapshot, document)] == ["step 1 (wave 1): the pod is evicted for good, and no goal asks for that"]


EVICTIONS: list[tuple[str, Change, str, str]] = [
    ("not allowed", _set("limits.allowEviction", False), "RebalancePlan", "evicted for good, which is not allowed"),
    ("too many", _set("limits.maxEvictions", 0), "RebalancePlan", "1 evictions, at most 0 are allowed"),
    ("no goal", _set("goals", ["repair"]), "RebalancePlan", "the pod is evicted for good, and no goal asks for that"),
    ("admit is no goal", _set("goals", ["repair"]), "RebalancePlan", "a pending pod is placed, and admit is no goal"),
    ("in one wave", _set("moves.0.wave", 1), "NodeResourcesFit", "step 2 (wave 1): cpu"),
    ("evicted before", lambda d: d.moves.append(move(3, 3, "y-0", None, "n0")), "RebalancePlan", "the pod was evicted for good before"),
    ("no tier of all evictions", lambda d: d.objective.insert(4, tier("evictions", -1)), "RebalancePlan", "have no tier evictions"),
    ("gang of a lone pod", _set("moves.0.gang", "default/g"), "RebalancePlan", "said to be of gang default/g, it is of no gang"),
    ("evictions of a priority", _set("objective.2.value", 0), "RebalancePlan", "tier evictions of priority 1"),
    ("placed of a priority", _set("objective.1.value", 2), "RebalancePlan", "tier placed of priority 10"),
    ("no tier of an eviction", lambda d: d.objective.pop(2), "RebalancePlan", "there is no tier evictions of priority 1"),
    ("no tier of a pending pod", lambda d: d.objective.pop(3), "RebalancePlan", "there is no tier placed of priority 0"),
    ("priorities in disorder", lambda d: d.objective.insert(0, d.objective.pop(3)), "RebalancePlan", "comes after one of lower rank"),
    ("unsorted", lambda d: d.evictions.insert(0, evict(3, 3, "x-0", "n0")), "RebalancePlan", "evictions are not listed by step"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "rule", "why"), EVICTIONS, ids=[entry[0] for entry in EVICTIONS])
def test_one_fault_of_evictions(name: str, change: Change, rule: str, why: str) -> None:
    snapshot, document = _admission()
    change(document)
    found = faults(snapshot, document)
    assert any(by == rule and why in text for by, text in found), (name, found)


# --- rules --------------------------------------------------------------------------------------------------------------------


def _moved(things: list[Object], *steps: Any, excluded: tuple[Excluded, ...] = ()) -> set[str]:
    """The rules that moves without a goal break."""
    moves = sum(step.source is not None for step in steps)
    return rules(*plan([*(node(f"n{i}") for i in range(3)), *things], (), (tier("moves", -moves),), *steps, excluded=excluded))


def test_landing_rules() -> None:
    """One landing each, refused by one rule, and accepted without that rule."""
    port = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    plain, pinned = running("a-0", "n0"), running("a-0", "n0", selector={"kubernetes.io/hostname": "n0"})
    cases: list[tuple[str, list[Object], list[Object]]] = [
        ("NodeResourcesFit", [running("a-0", "n0", cpu="3"), running("b-0", "n1", cpu="2")], [running("b-0", "n1", cpu="1")]),
        ("InterPodAffinity", [running("a-0", "n0", affinity=apart("b")), running("b-0", "n1")], [running("b-0", "n2")]),
        ("InterPodAffinity", [plain, running("b-0", "n1", affinity=apart("a"))], [running("b-0", "n2", affinity=apart("a"))]),
        ("InterPodAffinity", [running("a-0", "n0", affinity=together("b")), running("b-0", "n0")], [running("b-0", "n1")]),
        ("PodTopologySpread", [running("a-0", "n0", spread=spread("a")), running("a-1", "n1")], [running("a-1", "n2")]),
        ("NodeAffinity", [pinned], [plain]),
    ]
    for rule, things, instead in cases:
        assert _moved(things, move(1, 1, "a-0", "n0", "n1")) == {rule}, things
        kept = [thing for thing in things if all(thing["metadata"] != other["metadata"] for other in instead)]
        assert _moved([*kept, *instead], move(1, 1, "a-0", "n0", "n1")) == set(), instead
    ported = [{**running(f"{app}-0", f"n{i}"), "spec": {"nodeName": f"n{i}", **port}} for i, app in enumerate("ab")]
    assert _moved(ported, move(1, 1, "a-0", "n0", "n1")) == {"NodePorts"}
    assert _moved(ported, move(1, 1, "a-0", "n0", "n2")) == set()


def test_cordons_and_taints() -> None:
    taint = {"key": "k", "effect": "NoExecute"}
    for extra, rule in (({"unschedulable": True}, "NodeUnschedulable"), ({"taints": [taint]}, "TaintToleration")):
        things = [node("m0", **extra), node("m1", **extra), running("a-0", "m0"), running("b-0", "m0")]
        snapshot, document = plan(things, (), (tier("moves", -1),), move(1, 1, "a-0", "m0", "m1"))
        assert rules(snapshot, document) == {rule}
        assert document.before.rules == ({} if rule == "NodeUnschedulable" else {rule: 2})  # a cordon breaks nothing that runs


def test_a_volume_for_one_pod() -> None:
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"},
    }  # fmt: skip
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOncePod"]}}
    mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    alone = [claim, volume, running("a-0", "n0", volumes=mounts)]
    assert _moved(alone, move(1, 1, "a-0", "n0", "n1")) == set()
    both = [*alone, running("b-0", "n2", volumes=mounts)]
    assert _moved(both, move(1, 1, "a-0", "n0", "n1")) == {"VolumeRestrictions"}


def test_room_is_made_in_an_earlier_wave() -> None:
    things = [running("a-0", "n0", cpu="3"), running("b-0", "n1", cpu="3")]
    steps = [move(1, 1, "b-0", "n1", "n2"), move(2, 2, "a-0", "n0", "n1")]
    assert _moved(things, *steps) == set()
    assert _moved(things, steps[0], move(2, 1, "a-0", "n0", "n1")) == {"NodeResourcesFit"}


def test_nobody_is_left_alone() -> None:
    """A provider may leave once another one is there, and a domain may be emptied no further than the skew allows."""
    near = [running("a-0", "n0", affinity=together("b")), running("b-0", "n0"), running("b-1", "n1")]
    assert _moved(near, move(1, 1, "b-0", "n0", "n2")) == {"InterPodAffinity"}
    assert _moved(near, move(1, 1, "b-1", "n1", "n0"), move(2, 2, "b-0", "n0", "n2")) == set()
    assert _moved(near, move(1, 1, "b-1", "n1", "n0"), move(2, 1, "b-0", "n0", "n2")) == {"InterPodAffinity"}
    even = [running("a-0", "n0", spread=spread("a")), running("a-1", "n1"), running("a-2", "n2")]
    assert _moved(even, move(1, 1, "a-2", "n2", "n0")) == {"PodTopologySpread"}  # a-0 has a mate then, and n2 nobody
    assert _moved(even, move(1, 1, "a-2", "n2", "n1")) == set()


def test_never_worse() -> None:
    """Broken rules may stay broken but not get worse, and a pod that moved breaks nothing."""
    skewed = [running(f"a-{i}", "n0", spread=spread("a")) for i in range(3)]
    assert _moved([*skewed, running("a-3", "n1")], move(1, 1, "a-0", "n0", "n2")) == set()
    assert _moved([*skewed, running("a-3", "n1")], move(1, 1, "a-3", "n1", "n0")) == {"PodTopologySpread"}
    lonely = running("a-0", "n0", affinity=together("b"))
    assert _moved([lonely, running("b-0", "n1")], move(1, 1, "b-0", "n1", "n2")) == set()
    steps = [move(1, 1, "a-0", "n0", "n1"), move(2, 2, "b-0", "n1", "n2")]
    assert _moved([lonely, running("b-0", "n1")], *steps) == {"InterPodAffinity"}


def test_never_worse_is_by_filter() -> None:
    """web breaks its anti-affinity on n0, so it may lose the pod of db that its affinity asks for; without a foe there it may not."""
    both = {**together("db"), **apart("foe")}
    things = [node("n0"), node("n1"), running("web-0", "n0", affinity=both), running("db-0", "n0"), running("foe-0", "n0")]
    moved = move(1, 1, "db-0", "n0", "n1")
    assert faults(*plan(things, ("repair",), (tier("rules", -2), tier("moves", -1)), moved)) == []
    things[-1] = running("foe-0", "n1")
    assert rules(*plan(things, ("repair",), (tier("rules", -1), tier("moves", -1)), moved)) == {"InterPodAffinity"}
