"""A rollout is reported as not fitting only where that holds for every order of deleting the old pods."""

from __future__ import annotations

import pytest

from tests.audit.gate.test_changes import workload
from tests.audit.gate.test_gate import gate, on, only
from tests.objects import Object, node, pod

ONE_BY_ONE = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def old(name: str, at: str, cost: str = "0") -> Object:
    found = pod(name, namespace="shop", labels={"app": "web"}, cpu="1", memory="0", node_name=at)
    found["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": cost}
    return found


def there(*, cost: str = "0", cpu: str = "1800m") -> list[Object]:
    """If the pod on n1 is deleted first, both new pods find room there one after the other; if that on n2 is, neither ever does."""
    pods = [old("web-1", "n1", cost), old("web-0", "n2")]
    return [node("n1", cpu=cpu), node("n2", cpu="1"), workload(strategy=ONE_BY_ONE), *pods]


@pytest.mark.parametrize(("cost", "fit"), [("0", "unproved"), ("5", "does not fit"), ("-5", "fits")])
def test_pods_that_the_controller_ranks_alike_may_go_in_any_order(cost: str, fit: str) -> None:
    found = only(gate(there(cost=cost), [on(workload(cpu="900m", image="web:2", strategy=ONE_BY_ONE), "n1")]))
    assert found.fit == fit, found.cause
    assert ("in another order" in (found.cause or "")) == (fit == "unproved")


def test_what_has_no_room_in_the_end_fits_in_no_order() -> None:
    assert only(gate(there(cpu="1700m"), [on(workload(cpu="900m", image="web:2", strategy=ONE_BY_ONE), "n1")])).fit == "does not fit"
