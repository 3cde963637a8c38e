from __future__ import annotations

import pytest

from kubestow.models.documents.placement import FamilyResult, Seconds, SnapshotRef, TierResult, Unmodelled
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Eviction, Excluded, Limits, Move, NodeUse, Obstacle, RebalancePlan, Summary
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.report.terminal.canvas import Surface, render
from kubestow.report.terminal.rebalance_plan import plan_line, plan_table
from tests.objects import node, pod

_GIB = 2**30


def _use(name: str, pods: int, cpu: int) -> NodeUse:
    return NodeUse(name, pods, cpu, 4000, pods * _GIB, 8 * _GIB)


@pytest.fixture
def snapshot() -> Snapshot:
    web = [pod(f"web-{i}", namespace="prod", node_name=f"n{1 + i % 2}", owner="ReplicaSet/web-7f9") for i in range(4)]
    return from_objects(
        [*(node(f"n{i}") for i in range(1, 5)), *web, pod("db-0", namespace="prod", node_name="n1", owner="StatefulSet/db")]
    )


@pytest.fixture
def plan(snapshot: Snapshot) -> RebalancePlan:
    """web moves to n3 in two waves, db over n4 to n3; low is evicted for gang; n1 is freed."""
    moves = [
        Move(1, 1, "prod/web-0", "n1", "n3", "consolidate: frees n1"),
        Move(2, 1, "prod/web-1", "n2", "n3", "consolidate: frees n1"),
        Move(3, 1, "prod/web-2", "n1", "n3", "consolidate: frees n1"),
        Move(4, 1, "prod/db-0", "n1", "n4", "makes room", stopover=True),
        Move(5, 2, "prod/db-0", "n4", "n3", "consolidate: frees n1"),
        Move(7, 2, "prod/g-0", None, "n2", "admit", gang="g"),
    ]
    before = Summary(
        0, 2, [_use("n1", 3, 1000), _use("n2", 2, 2000), _use("n3", 0, 100)], {"NodeAffinity": 2}, [FamilyResult("taints", 5, 9)], 7
    )
    after = Summary(1, 2, [_use("n1", 0, 0), _use("n2", 2, 2000), _use("n3", 4, 3900)], {}, [FamilyResult("taints", 5, 9)], 9)
    return RebalancePlan(
        SnapshotRef(snapshot.sha256, 4, 6, 1),
        ["repair", "consolidate"],
        "exact",
        "feasible",
        [TierResult("rules", 0, 0), TierResult("freed", 2, 3), TierResult("evictions", -1, -1), TierResult("moves", -5, -4)],
        moves,
        [Eviction(6, 2, "prod/low", "n2", "admit: makes room for g")],
        before,
        after,
        freed=["n1"],
        seconds=Seconds(0.5, 0.5, 1.0, 0.1),
    )


def draw(plan: RebalancePlan, snapshot: Snapshot, width: int = 100, *, colour: bool = False, encoding: str = "utf-8") -> str:
    surface = Surface(width, colour, encoding)
    return render(list(plan_table(plan, snapshot, surface)), surface).decode(encoding)


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_line(plan: RebalancePlan) -> None:
    said = "5 moves and 1 binding in 2 waves, 0 broken rules left (bound 0), 1 node freed (bound 2), 1 eviction; feasible; 2.1 s"
    assert plan_line(plan, 2.06) == said


def test_line_of_other_goals(plan: RebalancePlan) -> None:
    plan.moves, plan.drain, plan.evictions = plan.moves[:5], ["n1", "n2"], []
    plan.objective = [
        TierResult("drained", -3, -1),
        TierResult("evictions", 0, 0, 5),
        TierResult("placed", 1, 2, 5),
        TierResult("placed", 0, 0, 0),
    ]
    said = "5 moves in 2 waves, 3 pods left on nodes to drain (bound 1), 1 of 2 pending pods placed (bound 2), 0 evictions; feasible; 1.0 s"
    assert plan_line(plan, 1) == said
    plan.objective = [TierResult("drained", 0, 0), TierResult("improve", 1200, 1300)]
    assert "2 nodes drained, score 1,200 (bound 1,300)" in plan_line(plan, 1)
    plan.objective, plan.policy = [TierResult("freed", -90, -80)], Policy(priceLabel="price")
    assert "1 node freed (cost 90, bound 80)" in plan_line(plan, 1)


def test_line_without_moves(plan: RebalancePlan) -> None:
    plan.moves, plan.evictions = [], []
    assert plan_line(plan, 1) == "no moves: no plan better than none was found in the time given (not proved); 1.0 s"
    plan.status = "optimal"
    assert plan_line(plan, 1) == "nothing to do: no plan would be better than none (proved); 1.0 s"
    plan.obstacles = [Obstacle("drain", "prod/x finds no place"), Obstacle("drain", "prod/y finds no place")]
    said = "no moves: 0 broken rules left (bound 0), 1 node freed (bound 2), 2 obstacles (proved); 1.0 s"
    assert plan_line(plan, 1) == said


def test_the_gains_come_first_and_the_tiers_last(plan: RebalancePlan, snapshot: Snapshot) -> None:
    text = draw(plan, snapshot)
    lines = squeezed(text)
    assert lines[0].startswith("5 moves and 1 binding in 2 waves")
    assert "Objective: feasible (exact engine, 2.1 s)" in lines
    assert "goals: repair, then consolidate" in lines
    assert "nodes free 2 3 50.0 %" in lines
    assert "empty nodes 0 1 +1" in lines
    assert "pods that break NodeAffinity 2 0 -2" in lines
    assert "points of taints 5 5 =" in lines
    assert "n3 0 → 4 3% → 98% 0% → 50%" in squeezed(draw(plan, snapshot, 60))
    assert text.index("Before and after") < text.index("Nodes that change") < text.index("Wave 1") < text.index("Objective")


def test_waves(plan: RebalancePlan, snapshot: Snapshot) -> None:
    """Pods of a workload that go to one node share a line, a reason stands once, and names are aligned over all waves."""
    text = draw(plan, snapshot)
    assert text.split("\nWave 1")[1].split("\nFreed")[0].splitlines() == [
        "  4 moves",
        "  consolidate: frees n1",
        "    ~  prod/web-7f9 (3 pods)  n1 (2), n2 → n3",
        "  makes room",
        "    ~  prod/db-0              n1 → n4  stopover",
        "",
        "Wave 2  1 move, 1 binding, 1 eviction",
        "  consolidate: frees n1",
        "    ~  prod/db-0              n4 → n3",
        "  admit: makes room for g",
        "    -  prod/low               n2  evicted, stays pending",
        "  admit",
        "    +  prod/g-0               → n2  gang g",
    ]


def test_what_is_not_reached_comes_before_the_steps(plan: RebalancePlan, snapshot: Snapshot) -> None:
    plan.drain, plan.goals, plan.limits = ["n1"], ["drain", "repair"], Limits(maxMoves=9, allowEviction=True, alsoMove=["bare"], minGain=3)
    plan.obstacles = [Obstacle("repair", "prod/x breaks NodeAffinity", proved=True), *(Obstacle("drain", f"pod {i}") for i in range(30))]
    plan.excluded = [Excluded("bare", ["prod/b"]), Excluded("daemonset", [f"kube-system/d-{i}" for i in range(9)])]
    plan.unmodelled = [Unmodelled(f"prod/p{i}", "spec.resourceClaims", "ignored") for i in range(5)]
    plan.notes = ["the search was cut short"]
    text = draw(plan, snapshot)
    lines = squeezed(text)
    assert "goals: drain n1, then repair (at most 9 moves, evictions allowed, also moves bare pods, 3 points per move)" in " ".join(lines)
    assert "repair: prod/x breaks NodeAffinity (proved)" in lines
    assert "... and 11 more (--all lists all)" in lines
    assert lines.index("9 daemonset kube-system/d-0, kube-system/d-1, kube-system/d-2, ...") < lines.index("1 bare prod/b")
    assert "spec.resourceClaims: ignored (5: prod/p0, prod/p1, prod/p2, ...)" in lines
    assert lines[lines.index("Notes") + 1 :][:3] == ["the search was cut short", "", "Objective: feasible (exact engine, 2.1 s)"]
    assert text.index("Not reached") < text.index("Wave 1") < text.index("Left where they are")


def test_no_moves_no_waves(plan: RebalancePlan, snapshot: Snapshot) -> None:
    plan.moves, plan.evictions, plan.freed, plan.objective = [], [], [], []
    plan.after = plan.before
    assert squeezed(draw(plan, snapshot)) == [
        "no moves: no plan better than none was found in the time given (not proved)",
        "goals: repair, then consolidate",
        "",
        "Objective: feasible (exact engine, 2.1 s)",
    ]


def _large(plan: RebalancePlan, domain: str = "") -> RebalancePlan:
    """200 moves of 40 workloads over 60 nodes."""
    names = [f"ip-10-0-{i}{domain}" for i in range(60)]
    plan.moves = [
        Move(
            i + 1,
            1 + i // 50,
            f"prod/a-workload-with-a-long-name-{i % 40}-{i:05}",
            names[i % 60],
            names[(7 * i + 1) % 60],
            f"frees {i % 5}",
        )
        for i in range(200)
    ]
    plan.before.nodes = [_use(name, 10 + i, 1000) for i, name in enumerate(names)]
    plan.after.nodes = [_use(name, i, 3000) for i, name in enumerate(names)]
    plan.freed, plan.evictions = names[1:], []
    return plan


@pytest.mark.full
@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("domain", ["", ".eu-west-1.compute.internal"])
def test_200_moves_fit_the_terminal(plan: RebalancePlan, snapshot: Snapshot, width: int, domain: str) -> None:
    text = draw(_large(plan, domain), snapshot, width)
    assert max(map(len, text.splitlines())) <= width
    if width >= 100:
        assert sum(line.strip().startswith("~") for line in text.splitlines()) == 200
        assert len(text.splitlines()) < 300
        assert "41 more" in text
        assert not domain or domain in text


def test_routes_go_below_names_that_leave_them_no_room(plan: RebalancePlan, snapshot: Snapshot) -> None:
    name = f"prod/{'x' * 79}"  # with the seven columns before it, and the nine of the route
    plan.moves, plan.evictions = [Move(1, 1, name, "n1", "n3", "")], []
    assert f"    ~  {name}  n1 → n3" in draw(plan, snapshot, 100).splitlines()
    lines = draw(plan, snapshot, 99).splitlines()
    assert lines[lines.index(f"    ~  {name}") + 1] == f"{' ' * 8}n1 → n3"
    assert "n1 → n3" in draw(plan, snapshot, 99)


def test_long_plans_are_cut_and_say_so(plan: RebalancePlan, snapshot: Snapshot) -> None:
    plan.moves, plan.evictions = [Move(i + 1, 1 + i // 100, f"prod/p{i}", "n1", "n2", "") for i in range(1000)], []
    text = draw(plan, snapshot)
    shown = sum(line.strip().startswith("~") for line in text.splitlines())
    assert f"... and {1000 - shown:,} more steps (--all lists all)" in text
    assert 200 <= shown < 1000


def test_markup_and_control_characters_are_shown_as_they_are(plan: RebalancePlan, snapshot: Snapshot) -> None:
    plan.moves.append(Move(8, 3, "prod/[red]x[/red]", "n[b]", "\x1b[2Jn", "for [/bold]\nWave 9"))
    plan.drain, plan.goals, plan.freed = ["d[x]\x07"], ["drain"], ["f[x]"]
    plan.obstacles, plan.notes = [Obstacle("drain", "o\r[x]")], ["see [link=x]"]
    plan.excluded = [Excluded("bare", ["e[x]\x1b"])]
    plan.before.rules["r[x]\x1b"] = 1
    text = draw(plan, snapshot, 120)
    for said in (
        "prod/[red]x[/red]",
        "n[b] → \\x1b[2Jn",
        "for [/bold]\\nWave 9",
        "d[x]\\x07",
        "f[x]",
        "o\\r[x]",
        "see [link=x]",
        "e[x]\\x1b",
        "r[x]\\x1b",
    ):
        assert said in text
    assert not {"\x1b", "\x07", "\r"} & set(text)


def test_colour_only_when_asked_and_ascii_where_there_is_no_more(plan: RebalancePlan, snapshot: Snapshot) -> None:
    assert "\x1b[" in draw(plan, snapshot, colour=True)
    text = draw(plan, snapshot, encoding="ascii")
    assert "n1 (2), n2 -> n3" in text
    assert "?" not in text
