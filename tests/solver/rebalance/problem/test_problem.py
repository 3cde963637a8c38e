"""The problem of a snapshot: movable pods, pods that only have rules, waiting pods, and nodes that may be emptied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from kubestow.models.documents.policy import Moves, Policy, PriorityCost
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError, from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.runtime.options import Options
from tests.objects import node, pod
from tests.plans import tiny

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"


def running(name: str, at: str, **more: Any) -> Object:
    """A running pod that may move."""
    return pod(name, node_name=at, **{"owner": "ReplicaSet/r", **more})


def gang(name: str, *members: Object) -> list[Object]:
    """Pods that are bound together or not at all."""
    for member in members:
        member["metadata"]["annotations"] = {"kubestow.dev/gang": f"default/{name}"}
    return list(members)


def apart(app: str, key: str = HOST, during: str = "Ignored") -> Object:
    """Required anti-affinity to pods of an app."""
    return {"podAntiAffinity": {f"requiredDuringScheduling{during}DuringExecution": [_term(app, key)]}}


def near(app: str, key: str = HOST, during: str = "Ignored") -> Object:
    """Required affinity to pods of an app."""
    return {"podAffinity": {f"requiredDuringScheduling{during}DuringExecution": [_term(app, key)]}}


def _term(app: str, key: str) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def even(app: str, key: str, skew: int = 1) -> list[Object]:
    """One DoNotSchedule constraint."""
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def budget(name: str, app: str, **spec: Any) -> Object:
    """A PodDisruptionBudget over an app."""
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }  # fmt: skip


def case_of(
    objects: Iterable[Object], goals: Sequence[str] = (), drain: Sequence[str] = (), limits: Limits | None = None, **options: Any
) -> RebalanceProblem:
    return read_problem(from_objects(objects), PlanOptions(tuple(goals), tuple(drain), limits or Limits(), Options(**options)))


def class_of(problem: RebalanceProblem, name: str) -> int:
    """The class of a pod, in the namespace default unless the name says other."""
    pods, key = problem.cluster.snapshot.pods, name if "/" in name else f"default/{name}"
    return next(g for g, cls in enumerate(problem.cluster.classes) if any(pod_key(pods[i]) == key for i in cls.pods))


def names(problem: RebalanceProblem, mask: Iterable[Any]) -> set[str]:
    """Names of the pods of some classes."""
    pods = problem.cluster.snapshot.pods
    chosen = [cls for cls, marked in zip(problem.cluster.classes, mask, strict=True) if marked]
    return {pods[i].metadata.name or "" for cls in chosen for i in cls.pods}


def step_names(problem: RebalanceProblem, steps: Iterable[Step]) -> list[tuple[str, str | None, str | None]]:
    """Steps of single pods in words: the name of the first pod of the class, and of the nodes."""
    nodes, pods = problem.cluster.nodes.names, problem.cluster.snapshot.pods
    return [
        (pods[problem.cluster.classes[s.g].pods[0]].metadata.name or "", nodes[s.a] if s.a >= 0 else None, nodes[s.b] if s.b >= 0 else None)
        for s in steps
        for _ in range(s.k)
    ]


# --- pods -------------------------------------------------------------------------------------------------------------------------------


def _mixed() -> list[Object]:
    leaving = pod("leaving", node_name="n1", affinity=apart("x"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return [
        node("n1"), node("n2"), running("web", "n1"), pod("plain", node_name="n1"), pod("apart", node_name="n2", affinity=apart("x")),
        pod("near", node_name="n2", affinity=near("x")), pod("even", node_name="n2", spread=even("x", HOST)),
        pod("agent", node_name="n1", owner="DaemonSet/agent"), leaving, pod("new"),
    ]  # fmt: skip


def test_pods_that_move_or_hold_rules_are_classes_and_others_are_fixed() -> None:
    problem = case_of(_mixed(), ["repair"])
    assert names(problem, problem.movable) == {"web"}
    assert names(problem, problem.subjects & ~problem.movable) == {"apart", "near", "even"}
    assert not problem.pending.any()
    assert problem.start.sum(axis=1).tolist() == [1] * 4
    assert problem.start[class_of(problem, "web")].tolist() == [1, 0]
    fixed = 2 * 100 + 100  # plain, agent and leaving are on n1
    assert problem.cluster.free[:, 0].tolist() == [4000 - fixed, 4000]


def test_pods_that_wait_are_there_for_the_goal_admit_only() -> None:
    problem = case_of(_mixed(), ["repair", "admit"])
    assert names(problem, problem.pending) == {"new"}
    assert not problem.start[problem.pending].any()
    assert not (problem.pending & (problem.subjects | problem.movable)).any()


def test_what_is_left_where_it_is_is_listed_by_reason() -> None:
    listed = {entry.reason: entry.pods for entry in case_of(_mixed()).excluded}
    bare = ["default/plain", "default/apart", "default/near", "default/even"]
    assert listed == {"bare": bare, "daemonset": ["default/agent"], "terminating": ["default/leaving"]}
    also = case_of(_mixed(), limits=Limits(alsoMove=["bare"]))
    assert names(also, also.movable) == {"web", "plain", "apart", "near", "even"}


def test_drained_nodes_are_closed_and_say_who_stays() -> None:
    problem = case_of(_mixed(), drain=[f"{HOST}=n1"])
    assert (problem.closed.tolist(), problem.drain) == ([True, False], [0])
    assert [problem.cluster.snapshot.pods[i].metadata.name for i in problem.stranded] == [
        "plain"
    ]  # neither the agent nor who leaves anyway


def test_nodes_to_be_drained_that_are_not_there_are_an_error() -> None:
    with pytest.raises(InputError, match="n9"):
        case_of(_mixed(), drain=["n9"])


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_running_pod_of_a_class_is_counted_where_it_runs(kind: str) -> None:
    for seed in range(15):
        goals, drain, limits = tiny.plan_options(seed, kind)
        problem = case_of(tiny.cluster(seed, kind), goals, drain, limits)
        pods, nodes = problem.cluster.snapshot.pods, problem.cluster.nodes.names
        seen = [i for cls in problem.cluster.classes for i in cls.pods]
        assert len(seen) == len(set(seen))
        for g, cls in enumerate(problem.cluster.classes):
            assert problem.pending[g] + problem.movable[g] + (problem.subjects[g] and not problem.movable[g]) == 1
            where = [pods[i].spec.nodeName for i in cls.pods]
            assert problem.start[g].tolist() == [where.count(name) for name in nodes]
            assert problem.pending[g] == (not any(where))


# --- pods alike but for properties that matter to plans -----------------------------------------------------------------------------------


def test_pods_that_a_budget_guards_are_apart_from_those_that_need_none() -> None:
    objects = [node("n1"), budget("guard", "web", minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")]
    pods = [running(f"p{i}", "n1", labels={"app": "web"}) for i in range(3)]
    pods[2]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    problem = case_of([*objects, *pods, running("other", "n1")])
    assert class_of(problem, "p0") == class_of(problem, "p1") != class_of(problem, "p2")
    assert [problem.budget[class_of(problem, name)] for name in ("p0", "p2", "other")] == [0, None, None]
    assert problem.budgets[0].allowed == 1


def test_pods_of_several_budgets_or_of_one_that_allows_nothing_do_not_move() -> None:
    objects = [node("n1"), budget("a", "web", minAvailable=0), budget("b", "web", minAvailable=0), budget("c", "db", minAvailable=1)]
    problem = case_of(
        [*objects, running("web", "n1", labels={"app": "web"}), running("db", "n1", labels={"app": "db"}), running("p", "n1")]
    )
    assert names(problem, problem.movable) == {"p"}
    assert [(entry.reason, entry.pods) for entry in problem.excluded] == [("budgets", ["default/web", "default/db"])]


def test_workloads_are_numbered_where_there_is_a_limit_on_them() -> None:
    objects = [node("n1"), *(running(f"p{i}", "n1", owner=f"ReplicaSet/{'ab'[i // 2]}") for i in range(4))]
    problem = case_of(objects)
    assert problem.workloads.tolist() == [-1]  # nothing distinguishes them
    problem = case_of(objects, limits=Limits(maxMovesPerWorkload=1))
    assert [class_of(problem, f"p{i}") for i in (0, 2)] == [class_of(problem, f"p{i}") for i in (1, 3)]
    assert len(set(problem.workloads.tolist())) == 2


def test_namespaces_are_told_apart_where_there_is_a_limit_on_them() -> None:
    """Though nothing else is different."""
    problem = case_of([node("n1"), running("p", "n1"), running("q", "n1", namespace="other")], limits=Limits(maxMovesPerNamespace=1))
    assert len(set(problem.namespaces.tolist())) == 2


def test_a_resized_pod_is_apart_and_holds_what_its_status_says_until_it_moves() -> None:
    pods = [running(f"p{i}", "n1", cpu="1") for i in range(2)]
    pods[1]["status"]["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "128Mi"}}}]
    problem = case_of([node("n1"), node("n2"), *pods])
    state, resized = PlanState(problem), class_of(problem, "p1")
    assert class_of(problem, "p0") != resized
    assert state.fit.free[:, 0].tolist() == [4000 - 1000 - 2000, 4000]
    state.apply(Step(resized, 0, 1))
    assert state.fit.free[:, 0].tolist() == [4000 - 1000, 4000 - 1000]
    state.undo(Step(resized, 0, 1))
    assert state.fit.free[:, 0].tolist() == [1000, 4000]


def test_pods_of_another_cost_are_apart() -> None:
    policy = Policy(moves=Moves(priorities=(PriorityCost(100, 7),)))
    dear = running("dear", "n1")
    dear["metadata"]["annotations"] = {"kubestow.dev/move-cost": "3"}
    problem = case_of([node("n1"), running("p", "n1"), dear, running("high", "n1", priority=100)], policy=policy)
    assert [int(problem.cost[class_of(problem, name)]) for name in ("p", "dear", "high")] == [1, 3, 7]


# --- evictions ------------------------------------------------------------------------------------------------------------------------


def _ranked() -> list[Object]:
    pods = [running(f"p{rank}", "n1", priority=rank) for rank in (0, 5, 9)]
    return [node("n1"), node("n2"), *pods, running("q", "n2", priority=7), pod("new", priority=5)]


@pytest.mark.parametrize(
    ("goals", "drain", "allowed", "going"),
    [
        (["admit"], [], True, {"p0"}),
        (["admit"], [], False, set()),
        (["consolidate"], [], True, set()),
        ([], ["n2"], True, {"q"}),
        ([], ["n2"], False, set()),
        (["admit"], ["n1"], True, {"p0", "p5", "p9"}),
    ],
)
def test_who_may_be_evicted(goals: list[str], drain: list[str], allowed: bool, going: set[str]) -> None:
    problem = case_of(_ranked(), goals, drain, Limits(allowEviction=allowed))
    assert names(problem, problem.evictable) == going


def test_who_breaks_a_rule_that_holds_during_execution_may_be_evicted_for_repair() -> None:
    pods = [running("p", "n1", labels={"app": "x"}, affinity=apart("y", during="Required")), running("q", "n1", labels={"app": "y"})]
    for goal, going in (("repair", {"p"}), ("consolidate", set[str]())):
        problem = case_of([node("n1"), *pods], [goal], limits=Limits(allowEviction=True))
        assert names(problem, problem.evictable) == going


# --- nodes ------------------------------------------------------------------------------------------------------------------------------


def test_nodes_that_may_be_freed() -> None:
    kept = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}, {"karpenter.sh/do-not-disrupt": "true"}
    nodes = [node(f"n{i}") for i in range(10)]
    nodes[0]["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    nodes[1]["metadata"]["labels"]["node-role.kubernetes.io/master"] = ""
    nodes[2]["metadata"]["annotations"], nodes[3]["metadata"]["annotations"] = kept
    nodes[4]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "false"}
    mirror = pod("static", node_name="n7")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    over = pod("over", node_name="n8")
    over["status"]["phase"] = "Succeeded"
    pods = [pod("bare", node_name="n5"), pod("agent", node_name="n6", owner="DaemonSet/agent"), mirror, over, running("web", "n9")]
    problem = case_of([*nodes, *pods], ["consolidate"])
    assert [n for n in range(10) if problem.freeable[n]] == [4, 6, 7, 8, 9]


def test_moves_are_arrivals_of_pods_that_ran() -> None:
    problem = case_of([node("n1"), node("n2"), running("p", "n1"), running("q", "n1", cpu="1"), pod("new", cpu="2")], ["admit"])
    end = problem.start.copy()
    end[class_of(problem, "p")] = [0, 1]
    end[class_of(problem, "q")] = [0, 0]  # evicted
    end[class_of(problem, "new")] = [0, 1]
    assert problem.moves(end) == 1
