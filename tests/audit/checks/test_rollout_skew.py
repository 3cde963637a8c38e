"""Rolling updates that can end with a larger skew than a spread constraint allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubestow.audit.checks.rollout_skew import check
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects, load
from tests.objects import Object, node
from tests.solver.rollout.rollouts import ZONE, deployment, even, old, replica_set

INSTANCES = Path(__file__).resolve().parents[3] / "instances"


def found(objects: list[Object]) -> list[Finding]:
    return list(check.check(ClusterView(from_objects(objects))))


def three_zones(*where: str, **spec: Any) -> list[Object]:
    """A Deployment with a pod on each of the named nodes. Each of three zones has one node."""
    nodes = [node(f"{zone}1", labels={ZONE: zone}) for zone in "abc"]
    return [*nodes, deployment(len(where), **spec), replica_set(), *(old(i, name) for i, name in enumerate(where))]


def test_the_finding_names_the_end_and_what_the_remedy_leads_to() -> None:
    (finding,) = check.check(ClusterView(load([str(INSTANCES / "audit" / "KS407-rollout-skew.yaml")])))
    assert (finding.code, finding.severity, finding.object) == ("KS407", "warning", "Deployment shop/app")
    assert "its next rollout can end with 3 in " in finding.message
    assert finding.message.endswith("which is a skew of 3")
    assert finding.field == "spec.template.spec.topologySpreadConstraints[0]"
    assert "then the skew is at most 1" in (finding.fix or "")


def test_soft_spread_is_worth_knowing() -> None:
    (finding,) = found(three_zones("a1", "b1", "c1", spread=[even(whenUnsatisfiable="ScheduleAnyway")]))
    assert (finding.severity, finding.rule) == ("info", "PodTopologySpread")
    assert finding.message.endswith("a skew of 2, although each new pod goes to a domain with the fewest pods")


@pytest.mark.parametrize(
    "spec",
    [
        {"spread": [even(matchLabelKeys=["pod-template-hash"])]},
        {"spread": [even()], "strategy": {"type": "Recreate"}},
        {"spread": [even(skew=3)]},
        {"spread": [even(labelSelector={"matchLabels": {"app": "other"}})]},
    ],
)
def test_rollouts_that_end_within_max_skew_are_not_reported(spec: dict[str, Any]) -> None:
    assert found(three_zones("a1", "b1", "c1", **spec)) == []


def test_a_deployment_whose_pods_are_linked_by_other_rules_is_named() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    view = ClusterView(from_objects(three_zones("a1", "a1", "b1", "b1", "c1", spread=[even()], affinity=together)))
    assert list(check.check(view)) == []
    assert any("spread after rollouts" in entry and "Deployment default/web" in entry for entry in view.not_checked)
