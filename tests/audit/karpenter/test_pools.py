"""NodePools are validated like an API server does; each error is a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubestow.models.snapshot.snapshot import InputError
from tests.audit.karpenter.planted import judged, machine, node_pool, read
from tests.objects import Object


def with_disruption(**fields: Any) -> Object:
    plain = node_pool()
    plain["spec"]["disruption"] = fields
    return plain


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool"}, "expected karpenter.sh/v1, NodePool"),
        ([], "expected karpenter.sh/v1, NodePool"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, "holds no NodePool"),
        ({"apiVersion": "v1", "kind": "List", "items": [node_pool(), node_pool()]}, "duplicate, expected one"),
        ({**node_pool(), "metadata": {}}, "metadata.name: missing"),
        (with_disruption(consolidationPolicy="WhenIdle"), "consolidationPolicy: 'WhenIdle'"),
        (with_disruption(consolidateAfter="soon"), "consolidateAfter: 'soon'"),
        (with_disruption(budgets=[{"nodes": "some"}]), "budgets[0].nodes: 'some'"),
        (with_disruption(budgets=[{"nodes": "1", "reasons": ["Bored"]}]), "reasons: 'Bored'"),
        (with_disruption(budgets=[{"nodes": "1", "schedule": "@daily"}]), "must be set together"),
        (with_disruption(budgets=[{"nodes": "1", "schedule": "@never", "duration": "1h"}]), "schedule: '@never'"),
        (with_disruption(budgets=5), "budgets"),
        ({**node_pool(), "spec": {"limits": {"cpu": "lots"}}}, "NodePool p: spec.limits.cpu: 'lots' is not a quantity"),
        ({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "own"}}, "holds no NodePool"),
        ({"apiVersion": "example.org/v1", "kind": "NodeClass", "metadata": {"name": "own"}}, "expected karpenter.sh/v1, NodePool"),
        (node_pool(requirements=[{"key": "a", "operator": "Is"}]), "is not valid"),
        (node_pool(requirements=[{"key": "a", "operator": "In", "values": []}]), "is not valid"),
        (node_pool(requirements=[{"key": "a", "operator": "Gt", "values": ["x"]}]), "takes one whole number"),
    ],
)
def test_what_an_api_server_refuses_is_refused_in_a_line(tmp_path: Path, plain: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, plain)
    (line,) = refused.value.problems
    assert said in line
    assert "\n" not in line


def test_a_node_class_beside_its_pool_is_named_and_passed_over(tmp_path: Path) -> None:
    own = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "own"}, "spec": {"role": "r"}}
    pools = read(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [own, node_pool()]})
    assert list(pools.named) == ["p"]
    assert pools.not_modelled == ["EC2NodeClass 'own': node classes are not read"]


def test_without_a_word_on_disruption_a_tenth_may_go(tmp_path: Path) -> None:
    plain = node_pool()
    del plain["spec"]["disruption"]
    pools = read(tmp_path, plain)
    pool = pools.named["p"]
    assert (pool.spec.disruption.consolidationPolicy, pool.spec.disruption.consolidateAfter) == ("WhenEmptyOrUnderutilized", "0s")
    assert [pools.allowed(pool, nodes, "Empty") for nodes in (0, 1, 10, 11, 25)] == [0, 1, 1, 2, 3]


def test_of_several_budgets_the_strictest_counts_if_it_is_about_the_reason_and_active(tmp_path: Path) -> None:
    nights = {"nodes": "0", "schedule": "0 22 * * *", "duration": "8h"}
    plain = node_pool(budgets=[{"nodes": "5"}, {"nodes": "2", "reasons": ["Underutilized"]}, nights])
    by_day = read(tmp_path, plain, "2026-03-04T12:00:00Z")
    assert [by_day.allowed(by_day.named["p"], 10, reason) for reason in ("Empty", "Underutilized")] == [5, 2]
    by_night = read(tmp_path, plain, "2026-03-04T23:00:00Z")
    assert by_night.allowed(by_night.named["p"], 10, "Empty") == 0
    assert not by_day.not_modelled
    unknown = read(tmp_path, plain)
    assert unknown.allowed(unknown.named["p"], 10, "Empty") == 0
    assert any("schedule" in text for text in unknown.not_modelled)


def test_what_is_not_modelled_is_named(tmp_path: Path) -> None:
    plain = node_pool(
        consolidateAfter="5m", consolidationPolicy="Balanced", requirements=[{"key": "a", "operator": "Exists", "minValues": 2}]
    )
    found = judged(tmp_path, plain, [machine("n1"), machine("n2")])
    for said in ("consolidateAfter 5m", "Balanced", "minValues", "prices"):
        assert any(said in text for text in found.notModelled), said
