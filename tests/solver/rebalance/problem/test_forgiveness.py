"""Which broken rules that hold during execution do not count yet."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.execution.execution_grace import History
from kubestow.models.snapshot.snapshot import InputError
from kubestow.solver.rebalance.problem.forgiveness import forgive
from tests.histories import snapshot
from tests.objects import node, pod
from tests.solver.rebalance.problem.test_problem import HOST, apart, near

Object = dict[str, Any]
NODES = [node("n0", labels={"disk": "hdd"}), node("n1", labels={"disk": "ssd"})]
FAST: Object = {
    "nodeAffinity": {
        "requiredDuringSchedulingRequiredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
        }
    }
}
#: a wants b on its node; b is not there.
ALONE = [*NODES, pod("a", node_name="n0", affinity=near("b", HOST, "Required"))]
#: And is.
BOTH = [*ALONE, pod("b", node_name="n0", labels={"app": "b"})]


def forgiven(now: list[Object], *earlier: tuple[list[Object], int], grace: int = 300) -> list[str]:
    found = snapshot(now)
    history = History(grace, tuple(snapshot(objects, ago) for objects, ago in earlier))
    rules = forgive(found, history).rules
    return [f"{found.pods[i].metadata.name} {field}[{k}]" for i, (field, k) in rules]


@pytest.mark.parametrize(
    ("earlier", "names"),
    [
        ([], []),
        ([(ALONE, 10)], []),
        ([(BOTH, 10)], ["a podAffinity[0]"]),
        ([(BOTH, 300)], ["a podAffinity[0]"]),  # at the very begin of the grace
        ([(BOTH, 301)], []),
        ([(BOTH, 301), (ALONE, 200)], []),
        ([(ALONE, 10), (BOTH, 200)], ["a podAffinity[0]"]),
        ([(ALONE, 200), (BOTH, 10)], ["a podAffinity[0]"]),
        ([(NODES, 10)], ["a podAffinity[0]"]),  # the pod was not there
        ([([*NODES, pod("a", node_name="n1", affinity=near("b", HOST, "Required"))], 10)], ["a podAffinity[0]"]),  # another of its name
    ],
)
def test_a_rule_counts_only_if_every_snapshot_within_the_grace_has_it_broken(
    earlier: list[tuple[list[Object], int]], names: list[str]
) -> None:
    assert forgiven(ALONE, *earlier) == names


def test_a_pod_with_another_uid_is_another_pod() -> None:
    def with_uid(uid: str) -> list[Object]:
        found = pod("a", node_name="n0", affinity=near("b", HOST, "Required"))
        found["metadata"]["uid"] = uid
        return [*NODES, found]

    assert forgiven(with_uid("1"), (with_uid("1"), 10)) == []
    assert forgiven(with_uid("2"), (with_uid("1"), 10)) == ["a podAffinity[0]"]


@pytest.mark.parametrize(
    ("said", "names"), [("60", []), ("0", []), ("90", ["a podAffinity[0]"]), ("5m", ["a podAffinity[0]"]), (None, ["a podAffinity[0]"])]
)
def test_a_pod_states_its_own_grace(said: str | None, names: list[str]) -> None:
    mine = pod("a", node_name="n0", affinity=near("b", HOST, "Required"))
    mine["metadata"]["annotations"] = {"kubestow.dev/execution-grace-seconds": said} if said is not None else {}
    assert forgiven([*NODES, mine], (BOTH, 90), grace=100) == names


def test_node_affinity_and_each_term_of_anti_affinity_have_their_own_time() -> None:
    mine = pod("a", node_name="n0", affinity=FAST)
    assert forgiven([*NODES, mine], ([node("n0", labels={"disk": "ssd"}), NODES[1], mine], 10)) == ["a nodeAffinity[0]"]
    terms = [apart(name, HOST, "Required")["podAntiAffinity"] for name in "bc"]
    field = "requiredDuringSchedulingRequiredDuringExecution"
    two = pod("a", node_name="n0", affinity={"podAntiAffinity": {field: [*terms[0][field], *terms[1][field]]}})
    b, c = (pod(name, node_name="n0", labels={"app": name}) for name in "bc")
    assert forgiven([*NODES, two, b, c], ([*NODES, two, b], 10)) == ["a podAntiAffinity[1]"]
    other = pod("b-2", node_name="n0", labels={"app": "b"})  # the rule is broken all the time, by one pod or another
    assert forgiven([*NODES, two, b], ([*NODES, two, other], 10)) == []


def test_what_the_earlier_snapshots_do_not_reach_is_counted_and_reported() -> None:
    found = snapshot(ALONE)
    assert forgive(found, History(300)).uncovered == 1
    assert forgive(found, History(300, (snapshot(ALONE, 100),))).uncovered == 1
    assert forgive(found, History(300, (snapshot(ALONE, 100), snapshot(BOTH, 400)))).uncovered == 0
    assert forgive(found, History(0)).uncovered == 0


def test_snapshots_without_a_time_are_refused_where_others_are_earlier() -> None:
    with pytest.raises(InputError, match="does not say when it was captured"):
        forgive(snapshot(ALONE, None), History(300, (snapshot(BOTH, 10),)))
    with pytest.raises(InputError, match="does not say when it was captured"):
        forgive(snapshot(ALONE), History(300, (snapshot(BOTH, None),)))
    assert forgive(snapshot(ALONE, None), History(300)).rules == {}
