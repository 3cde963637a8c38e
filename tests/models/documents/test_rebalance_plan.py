"""The RebalancePlan document: read back as written, in its order, and refused where it is none."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubestow.models.documents.placement import (
    API_VERSION,
    FamilyResult,
    SearchPoint,
    Seconds,
    SnapshotRef,
    TierResult,
    Unmodelled,
    from_builtins,
)
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import (
    Eviction,
    Excluded,
    ExecutionGrace,
    Limits,
    Move,
    NodeUse,
    Obstacle,
    RebalancePlan,
    Summary,
    to_builtins,
)


def _least() -> RebalancePlan:
    return RebalancePlan(SnapshotRef("abc", 1, 2, 0), ["repair"], "exact", "optimal", [], [], [], Summary(1, 0), Summary(1, 0))


def _full() -> RebalancePlan:
    use = NodeUse("n1", 3, 1500, 4000, 2**30, 2**33)
    summary = Summary(1, 2, [use], {"NodeAffinity": 1}, [FamilyResult("nodeAffinity", 5, 10, 2)], -1200)
    return RebalancePlan(
        snapshot=SnapshotRef("abc", 3, 9, 2),
        goals=["drain", "admit"],
        engine="lns",
        status="feasible",
        objective=[TierResult("drained", -1, 0), TierResult("placed", 2, 2, 100)],
        moves=[
            Move(1, 1, "default/p", "n1", "n2", "n1 is drained", stopover=True),
            Move(3, 2, "default/g", None, "n1", "is pending", gang="default/train"),
        ],
        evictions=[Eviction(2, 4, "default/q", "n1", "makes room")],
        before=summary,
        after=Summary(0, 0),
        drain=["n1"],
        freed=["n3"],
        limits=Limits(5, 1, 2, 3, allowEviction=True, alsoMove=["bare"], minGain=0),
        obstacles=[Obstacle("drain", "default/r stays", "default/r", "n1", proved=True)],
        excluded=[Excluded("bare", ["default/r"])],
        unmodelled=[Unmodelled("Node/n1", "NodeResourceTopology", "unknown")],
        executionGrace=ExecutionGrace(60),
        policy=Policy(strategy="pack"),
        notes=["a note"],
        seconds=Seconds(compile=0.5),
        search=[SearchPoint("moves", 0.5, -1, -1)],
    )


@pytest.mark.parametrize("plan", [_least(), _full()], ids=["least", "full"])
def test_it_is_read_as_written(plan: RebalancePlan) -> None:
    plain = to_builtins(plan)
    assert from_builtins(json.loads(json.dumps(plain)), RebalancePlan) == plan
    assert (plain["apiVersion"], plain["kind"]) == (API_VERSION, "RebalancePlan")


def test_every_field_is_written_in_the_documents_order() -> None:
    plain = to_builtins(_full())
    assert set(plain) == {field.encode_name for field in msgspec.structs.fields(RebalancePlan)}
    assert list(plain)[:4] == ["apiVersion", "kind", "snapshot", "goals"]
    assert list(plain)[-4:] == ["policy", "notes", "seconds", "search"]
    assert set(to_builtins(_least())) == set(plain) - {"executionGrace", "policy", "seconds", "search"}


def test_what_a_move_does_not_have_is_left_out() -> None:
    moves = to_builtins(_full())["moves"]
    assert moves[0] == {"step": 1, "wave": 1, "pod": "default/p", "from": "n1", "to": "n2", "reason": "n1 is drained", "stopover": True}
    assert moves[1]["from"] is None
    assert "stopover" not in moves[1]
    assert to_builtins(_least())["limits"] == {}


def test_waves_are_counted() -> None:
    assert (_least().waves, _full().waves) == (0, 4)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"apiVersion": "kubestow.dev/v9"}, "apiVersion"),
        ({"kind": "Placement"}, "kind"),
        ({"status": "perfect"}, "status"),
        ({"moves": [{"step": 1}]}, r"moves\[0\]"),
        ({"moves": [{"step": 1, "wave": 1, "pod": "default/p", "to": "n2", "reason": "r"}]}, "from"),
        ({"limits": {"maxMoves": "many"}}, "limits.maxMoves"),
        ({"excluded": [{"reason": "tired", "pods": []}]}, r"excluded\[0\].reason"),
    ],
)
def test_what_is_no_plan_is_refused_by_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=path):
        from_builtins({**to_builtins(_least()), **change}, RebalancePlan)


@pytest.mark.parametrize("plain", [None, [], "plan", {}])
def test_other_things_are_refused(plain: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        from_builtins(plain, RebalancePlan)
