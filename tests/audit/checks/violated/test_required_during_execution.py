"""Rules that hold during execution: who would have to go, and in what order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubestow.audit.checks.violated import check, required_during_execution
from kubestow.audit.checks.violated.execution import grace_notes
from kubestow.audit.view.view import ClusterView
from kubestow.checker.plan.execution_violators import violators as checked
from kubestow.checker.plan.state import Board
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.execution.execution_grace import History
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.execution_violators import violators
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from tests.checker.plan.plans import apart, running, together
from tests.histories import snapshot as snapshot_of
from tests.objects import node, pod
from tests.plans import tiny

Object = dict[str, Any]
PLAIN, ENFORCED = "requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"


def enforced(affinity: Object) -> Object:
    return {part: {ENFORCED: terms[PLAIN]} for part, terms in affinity.items()}


def on_disk(value: str) -> Object:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}]}
    return {"nodeAffinity": {PLAIN: terms}}


def found(*things: Object) -> list[Finding]:
    return list(required_during_execution.check(ClusterView(from_objects(things))))


def plainly(*things: Object) -> list[str]:
    """Codes of rules that only scheduling looks at."""
    return [finding.code for finding in check.check(ClusterView(from_objects(things)))]


def going(*things: Object) -> list[str]:
    """Names of those that would have to go, of one finding."""
    (finding,) = found(*things)
    assert ", ".join(finding.pods) in finding.message
    return [key.partition("/")[2] for key in finding.pods]


def test_both_judges_of_plans_say_that_they_would_have_to_go() -> None:
    named = 0
    for seed in range(60):
        snapshot = from_objects(tiny.cluster(seed, "repair"))
        view = ClusterView(snapshot)
        pods = {key for finding in required_during_execution.check(view) for key in finding.pods}
        board = Board(snapshot, (), ())
        breaks = {key: board.broken(board.runners[key]) for key in pods}
        assert pods <= {pod_key(snapshot.pods[i]) for i in violators(snapshot)}
        assert checked(board, pods, breaks) == pods
        named += len(pods)
    assert named > 10


def test_once_they_are_gone_nothing_of_node_affinity_and_anti_affinity_is_broken() -> None:
    named = 0
    for seed in range(60):
        things = tiny.cluster(seed, "repair")
        gone = {key for finding in found(*things) for key in finding.pods if finding.code != "KS122"}
        left = [t for t in things if t["kind"] != "Pod" or f"{t['metadata']['namespace']}/{t['metadata']['name']}" not in gone]
        assert {finding.code for finding in found(*left)} <= {"KS122"}
        named += len(gone)
    assert named > 10


def test_node_affinity_is_told_apart_from_that_of_scheduling_alone() -> None:
    bad, good = on_disk("ssd"), on_disk("hdd")
    at = node("n0", labels={"disk": "hdd"})
    assert [f.code for f in found(at, running("a-0", "n0", affinity=enforced(bad)))] == ["KS121"]
    assert plainly(at, running("a-0", "n0", affinity=enforced(bad))) == []
    both = {"nodeAffinity": {**enforced(good)["nodeAffinity"], **bad["nodeAffinity"]}}
    assert found(at, running("a-0", "n0", affinity=both)) == []
    assert plainly(at, running("a-0", "n0", affinity=both)) == ["KS101"]
    selects = running("a-0", "n0", selector={"disk": "ssd"}, affinity=enforced(good))
    assert (found(at, selects), plainly(at, selects)) == ([], ["KS101"])


def test_affinity_lets_the_pod_with_the_rule_go_whatever_its_priority() -> None:
    nodes = [node("n0"), node("n1")]
    pods = [running("a-0", "n0", affinity=enforced(together("b")), priority=100), running("b-0", "n1", priority=0)]
    assert going(*nodes, *pods) == ["a-0"]
    assert plainly(*nodes, *pods) == []


def test_affinity_of_both_kinds_is_broken_in_execution_only_by_its_own_terms() -> None:
    nodes = [node("n0"), node("n1")]
    terms = {"podAffinity": {**together("b")["podAffinity"], **enforced(together("c"))["podAffinity"]}}
    mine = running("a-0", "n0", affinity=terms)
    both = running("x-0", "n0", labels={"app": "b"}), running("c-0", "n0")
    # Each term is met by another pod, but no pod matches both, as the scheduler asks for.
    assert found(*nodes, mine, *both) == []
    assert plainly(*nodes, mine, *both) == ["KS106"]
    assert going(*nodes, mine, both[0], running("c-0", "n1")) == ["a-0"]
    assert plainly(*nodes, mine, both[0], running("c-0", "n1")) == []


@pytest.mark.parametrize(("mine", "others", "goes"), [(0, 0, "a-0"), (10, 0, "b-0"), (0, 10, "a-0")])
def test_of_a_pair_the_lower_priority_goes_or_else_the_pod_with_the_rule(mine: int, others: int, goes: str) -> None:
    owner = running("a-0", "n0", affinity=enforced(apart("b")), priority=mine)
    assert going(node("n0"), owner, running("b-0", "n0", priority=others)) == [goes]


def test_the_lowest_priorities_go_until_it_is_kept() -> None:
    pods = [running(f"a-{i}", "n0", affinity=enforced(apart("a")), priority=p) for i, p in enumerate((20, 0, 10, 20))]
    assert going(node("n0"), *pods) == ["a-1", "a-2", "a-0"]


def test_the_youngest_of_equals_goes_first() -> None:
    pods = [running(f"a-{i}", "n0", affinity=enforced(apart("a"))) for i in range(2)]
    for each, day in zip(pods, (1, 2), strict=True):
        each["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
    assert going(node("n0"), *pods) == ["a-1"]


def test_who_is_gone_for_one_rule_breaks_no_other() -> None:
    """b-0 goes for the rule of a-0, and then c-0, which has to be apart from b, may stay."""
    owner = running("a-0", "n0", affinity=enforced(apart("b")), priority=100)
    third = running("c-0", "n0", affinity=enforced(apart("b")), priority=50)
    findings = found(node("n0"), owner, running("b-0", "n0", priority=0), third)
    assert {key for finding in findings for key in finding.pods} == {"default/b-0"}


def test_nobody_goes_for_a_pod_that_is_being_deleted() -> None:
    other = running("b-0", "n0")
    other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert found(node("n0"), running("a-0", "n0", affinity=enforced(apart("b"))), other) == []


def test_plain_rules_are_none_of_execution() -> None:
    assert found(node("n0"), running("a-0", "n0", affinity=apart("b")), running("b-0", "n0")) == []
    assert found(running("a-0", "n0", affinity=enforced(apart("b")))) == []  # no nodes: nothing can be said


# --- who goes along, and who need not --------------------------------------------------------------------------------------


def test_who_has_to_be_near_one_that_goes_goes_before_it() -> None:
    """d needs c, c needs a, and a needs b, which is gone."""
    chain = [running(f"{name}-0", "n0", affinity=enforced(together(other))) for name, other in (("d", "c"), ("a", "b"), ("c", "a"))]
    (finding,) = found(node("n0"), *chain)
    assert finding.pods == ["default/d-0", "default/c-0", "default/a-0"]
    assert "(default/d-0, default/c-0 must run near default/a-0)" in finding.message


def test_pods_that_have_another_provider_stay() -> None:
    a, other = running("a-0", "n0", affinity=enforced(together("b"))), running("x-0", "n0", labels={"app": "a"})
    assert going(node("n0"), a, other, running("c-0", "n0", affinity=enforced(together("a")))) == ["a-0"]


def test_cascades_follow_node_affinity_and_anti_affinity() -> None:
    c = running("c-0", "n0", affinity=enforced(together("a")), priority=50)
    bad = running("a-0", "n0", affinity=enforced(on_disk("ssd")))
    assert going(node("n0", labels={"disk": "hdd"}), bad, c) == ["c-0", "a-0"]
    owner = running("a-0", "n0", affinity=enforced(apart("b")))
    assert going(node("n0"), owner, running("b-0", "n0"), c) == ["c-0", "a-0"]


def test_of_two_that_need_each_other_one_goes() -> None:
    pods = [running(f"a-{i}", f"n{i}", affinity=enforced(together("a"))) for i in range(2)]
    for each, day in zip(pods, (1, 2), strict=True):
        each["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
    assert going(node("n0"), node("n1"), *pods) == ["a-1"]


def test_circles_of_pods_that_need_each_other_end() -> None:
    pods = [running(f"{a}-0", "n0", affinity=enforced(together(b)), labels={"app": a, b: "x"}) for a, b in (("a", "c"), ("c", "a"))]
    bad = running("b-0", "n0", affinity=enforced(together("gone")), labels={"app": "b"})
    assert going(node("n0"), *pods, bad) == ["b-0"]
    pods[0]["spec"]["affinity"]["nodeAffinity"] = enforced(on_disk("ssd"))["nodeAffinity"]
    assert sorted(going(node("n0", labels={"disk": "hdd"}), *pods)) == ["a-0", "c-0"]


def test_a_pod_that_waits_would_mend_it() -> None:
    waits = pod("b-0", labels={"app": "b"})
    (finding,) = found(node("n0"), running("a-0", "n0", affinity=enforced(together("b"))), waits)
    assert finding.severity == "warning"
    assert "pending default/b-0 would repair it in kubernetes.io/hostname=n0, so it does not count as broken yet" in finding.message
    for astray in (pod("b-0", labels={"app": "b"}, selector={"disk": "ssd"}), pod("c-0", labels={"app": "c"})):
        (finding,) = found(node("n0"), running("a-0", "n0", affinity=enforced(together("b"))), astray)
        assert (finding.severity, "wait before" in finding.message) == ("error", False)


def test_among_equals_who_mends_most_goes() -> None:
    hub = running("z-0", "n0", affinity=enforced(apart("a")))
    leaves = [running(f"a-{i}", "n0", affinity=enforced(apart("z"))) for i in range(3)]
    assert {key for finding in found(node("n0"), *leaves, hub) for key in finding.pods} == {"default/z-0"}


def test_one_that_has_to_be_near_another_may_make_way_for_it_by_going() -> None:
    """a has to be apart from b, which has to be near a: once b is gone, nothing is broken."""
    pods = [running("a-0", "n0", affinity=enforced(apart("b"))), running("b-0", "n0", affinity=enforced(together("a")))]
    assert going(node("n0"), *pods) == ["b-0"]


@pytest.mark.full
def test_who_is_named_is_who_a_plan_evicts() -> None:
    """On one node, where nobody can move: the audit names the pods that repair evicts, and none is left then."""
    named = 0
    for seed in range(40):
        rng = random.Random(seed)
        pods = []
        for i in range(rng.randint(2, 5)):
            kind = rng.choice((together, apart))
            rule = enforced(kind(rng.choice("abc"))) if rng.random() < 0.7 else None
            pods.append(running(f"{rng.choice('abc')}-{i}", "n0", affinity=rule, priority=rng.choice((0, 0, 5))))
        things = [node("n0"), *pods]
        names = {key for finding in found(*things) for key in finding.pods}
        snapshot = from_objects(things)
        plan = rebalance(snapshot, PlanOptions(goals=("repair",), limits=Limits(allowEviction=True)))
        priorities = {pod_key(each): each.spec.priority or 0 for each in snapshot.pods}
        assert sorted(priorities[key] for key in names) == sorted(priorities[e.pod] for e in plan.evictions), seed
        if len(names) == len(plan.evictions):
            named += len(names)
    assert named > 20


# --- within the grace -----------------------------------------------------------------------------------------------------


def judged(now: list[Object], before: list[Object], ago: int = 10, grace: int = 300) -> tuple[list[str], list[str]]:
    """Return the codes of broken rules, including rules of scheduling alone, and the notes about the grace period."""
    view = ClusterView(snapshot_of(now), history=History(grace, (snapshot_of(before, ago),)))
    codes = [finding.code for each in (required_during_execution, check) for finding in each.check(view)]
    return codes, grace_notes(view)


def test_affinity_within_its_grace_is_no_finding_and_is_noted() -> None:
    nodes = [node("n0"), node("n1")]
    alone = [*nodes, running("a-0", "n0", affinity=enforced(together("b")))]
    both = [*alone, running("b-0", "n0")]
    assert judged(alone, both) == (
        [],
        ["default/a-0 breaks podAffinity that holds during execution; within its grace of 300 s it does not count yet"],
    )
    assert judged(alone, alone, 300) == (["KS122"], [])
    assert judged(alone, both, 301) == (["KS122"], [])


def test_a_plain_rule_beside_a_forgiven_one_is_still_found() -> None:
    nodes = [node("n0"), node("n1")]
    terms = {"podAffinity": {**together("b")["podAffinity"], **enforced(together("c"))["podAffinity"]}}
    mine = running("a-0", "n0", affinity=terms)
    good = running("x-0", "n0", labels={"app": "b"})
    bad = running("x-0", "n1", labels={"app": "b"})
    c = running("c-0", "n0")
    assert judged([*nodes, mine, bad], [*nodes, mine, bad, c])[0] == ["KS106"]
    assert judged([*nodes, mine, good], [*nodes, mine, good, c])[0] == []


def test_node_affinity_within_its_grace_is_no_finding_of_scheduling_either() -> None:
    mine = running("a-0", "n0", affinity=enforced(on_disk("ssd")))
    now, before = [node("n0", labels={"disk": "hdd"}), mine], [node("n0", labels={"disk": "ssd"}), mine]
    assert judged(now, before)[0] == []
    assert judged(now, now)[0] == ["KS121"]


def test_who_has_to_be_near_a_pod_that_is_forgiven_stays() -> None:
    owner = running("a-0", "n0", affinity=enforced(apart("b")))
    now = [node("n0"), owner, running("b-0", "n0"), running("c-0", "n0", affinity=enforced(together("a")))]
    assert judged(now, [node("n0"), owner])[0] == []
    assert judged(now, now)[0] == ["KS123"]


def wants(app: str, *, away: bool = False) -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity" if away else "podAffinity": {ENFORCED: [term]}}


def test_a_pod_that_goes_for_another_one_is_named() -> None:
    """`x` needs `y` and would go before it; then `y` and `not-x`, which are to be away from x, may both stay."""
    things = [
        node("n1", labels={"kubernetes.io/hostname": "n1"}),
        pod("x", node_name="n1", labels={"app": "x"}, affinity=wants("y")),
        pod("not-x", node_name="n1", labels={"app": "o"}, affinity=wants("x", away=True)),
        pod("y", node_name="n1", labels={"app": "y"}, affinity=wants("x", away=True)),
    ]
    assert going(*things) == ["x"]


@pytest.mark.full
def test_no_finding_names_nobody() -> None:
    """Small clusters full of broken rules: each finding says who would have to go, and without them nothing is broken."""
    named = 0
    for seed in range(400):
        rng = random.Random(f"nobody-{seed}")
        things = [node(f"n{i}", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(2)]
        for i in range(rng.randint(2, 5)):
            affinity: Object = {}
            for away in (False, True):
                if rng.random() < 0.5:
                    affinity |= wants(rng.choice("xyz"), away=away)
            where, app, priority = f"n{rng.choice((0, 0, 1))}", rng.choice("xyz"), rng.choice((0, 0, 1))
            things.append(pod(f"p{i}", node_name=where, labels={"app": app}, priority=priority, affinity=affinity))
        gone = {key.partition("/")[2] for finding in found(*things) for key in finding.pods}
        assert all(finding.pods for finding in found(*things)), f"seed {seed}"
        assert not found(*(thing for thing in things if thing["metadata"]["name"] not in gone)), f"seed {seed}"
        named += len(gone)
    assert named > 200
