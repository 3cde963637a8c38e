"""Reports of a server about rules that must hold during execution, over time."""

from __future__ import annotations

import asyncio
from typing import Any

from kubestow.live.gates.broken_rules import BrokenRuleRecord
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import Object, node, pod
from tests.solver.rebalance.problem.test_problem import HOST, near


class Still:
    """A cluster that is as it was set."""

    def __init__(self, items: list[Object]) -> None:
        self.items, self.readings = items, 0

    def objects(self, kind: str) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in self.items if each["kind"] == kind}

    async def read_snapshot(self) -> Snapshot:
        self.readings += 1
        return from_objects(self.items)


def mine(**annotations: str) -> Object:
    found = pod("a", node_name="n0", affinity=near("b", HOST, "Required"))
    found["metadata"]["annotations"] = {f"kubestow.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return found


def looked(cluster: Any, watch: BrokenRuleRecord, *moments: float) -> None:
    async def look() -> None:
        for now in moments:
            await watch.look(now)

    asyncio.run(look())


OTHER = pod("b", node_name="n0", labels={"app": "b"})


def test_a_rule_is_reported_once_it_was_broken_for_its_grace_and_when_it_holds_again() -> None:
    said: list[str] = []
    cluster: Any = Still([node("n0"), mine()])
    watch = BrokenRuleRecord(cluster, 300, (), said.append, pause=1)
    looked(cluster, watch, 1000, 1299)
    assert said == []
    looked(cluster, watch, 1300, 1400)
    name = "Pod default/a on n0: podAffinity that holds during execution"
    assert said == [f"{name} is broken for 300 s or longer: plan with kubestow rebalance --goal repair"]
    cluster.items.append(OTHER)
    looked(cluster, watch, 1500)
    assert said[1:] == [f"{name} holds again, or the pod is gone"]


def test_a_rule_that_held_in_between_begins_again() -> None:
    said: list[str] = []
    cluster: Any = Still([node("n0"), mine()])
    watch = BrokenRuleRecord(cluster, 300, (), said.append, pause=1)
    looked(cluster, watch, 1000)
    cluster.items.append(OTHER)
    looked(cluster, watch, 1200)
    cluster.items.remove(OTHER)
    looked(cluster, watch, 1250, 1301, 1549)
    assert said == []
    looked(cluster, watch, 1550)
    assert len(said) == 1


def test_a_pod_states_its_own_grace() -> None:
    said: list[str] = []
    cluster: Any = Still([node("n0"), mine(execution_grace_seconds="10")])
    looked(cluster, BrokenRuleRecord(cluster, 300, (), said.append, pause=1), 1000, 1010)
    assert ["10 s or longer" in text for text in said] == [True]


def test_a_cluster_without_such_rules_is_never_read() -> None:
    cluster: Any = Still([node("n0"), pod("a", node_name="n0", affinity=near("b", HOST)), OTHER])
    looked(cluster, BrokenRuleRecord(cluster, 0, (), lambda _: None, pause=1), 1000, 1010)
    assert cluster.readings == 0
