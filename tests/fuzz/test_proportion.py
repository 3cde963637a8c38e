"""Work in proportion to the input: twice as many taints and tolerations, terms, values or labels are about twice the work, in the solver
and in the checker. Calls are counted, so that it does not matter how fast the machine is."""

from __future__ import annotations

import cProfile
import gc
import pstats
from collections.abc import Callable
from typing import Any

import pytest

from kubestow.checker.placement import verify
from kubestow.checker.reading import matching, taints
from kubestow.checker.rules.node_static import rule as node_rules
from kubestow.models.documents.placement import Placement
from kubestow.models.kube import objects
from kubestow.models.kube.selectors import LabelRequirement, NodeColumns, requirement_holds
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

_MANY = 300


def _taints(count: int, effect: str = "NoSchedule") -> list[Object]:
    return [{"key": f"k{i}", "value": f"v{i}", "effect": effect} for i in range(count)]


def _affinity(kind: str, terms: list[Object]) -> Object:
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {kind: required if kind.startswith("required") else terms}}


def _expression(*values: str) -> Object:
    return {"matchExpressions": [{"key": "z", "operator": "In", "values": list(values)}]}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _tolerated(count: int) -> list[Object]:
    given = list(reversed(_taints(count)))
    return [
        node("n1", taints=_taints(count)),
        node("n2", taints=_taints(count, "PreferNoSchedule")),
        pod("p", tolerations=given),
        pod("q", tolerations=[{"key": each["key"], "operator": "Exists"} for each in given]),
        pod("r", node_name="n1", tolerations=given),
    ]


def _one_toleration_each(count: int) -> list[Object]:
    pods = [pod(f"p{i}", node_name="n1", cpu="1m", tolerations=[{"operator": "Exists"}]) for i in range(count // 10)]
    return [node("n1", memory="1Ti", pods="1000", taints=_taints(count)), *pods, pod("q", tolerations=[{"operator": "Exists"}])]


def _nodes(count: int) -> list[Object]:
    return [node(f"n{i}", labels={"z": f"v{i}"}) for i in range(count // 10)]


def _terms(count: int) -> list[Object]:
    labelled = [_expression(f"v{i}") for i in reversed(range(count))]
    named: list[Object] = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{i}"]}]} for i in reversed(range(count))
    ]
    pods = [pod(f"p{i}", node_name=f"n{i}", affinity=_affinity(_REQUIRED, labelled)) for i in range(5)]
    return [*_nodes(count), *pods, pod("q", affinity=_affinity(_REQUIRED, named)), pod("r", affinity=_affinity(_REQUIRED, labelled))]


def _values(count: int) -> list[Object]:
    return [*_nodes(count), pod("p", affinity=_affinity(_REQUIRED, [_expression(*[f"v{i}" for i in reversed(range(count))])]))]


def _preferences(count: int) -> list[Object]:
    terms = [{"weight": 1, "preference": _expression(f"v{i}")} for i in range(count)]
    return [*_nodes(100), pod("p", affinity=_affinity(_PREFERRED, terms))]


def _labels(count: int) -> list[Object]:
    labels = {f"l{i}": "x" for i in range(count)}
    return [node("n1", labels=labels), node("n2", labels=labels), pod("p", selector=labels)]


def _ports(count: int) -> list[Object]:
    containers = [{"name": "c", "ports": [{"containerPort": 1, "hostPort": i + 1} for i in range(count)]}]
    return [node("n1"), node("n2"), pod("p", node_name="n1", containers=containers), pod("q", containers=containers)]


_SHAPES: dict[str, Callable[[int], list[Object]]] = {
    "taints": _tolerated,
    "taints of many pods": _one_toleration_each,
    "terms": _terms,
    "values": _values,
    "preferences": _preferences,
    "labels": _labels,
    "ports": _ports,
}


def _calls(work: Callable[[], Any]) -> tuple[int, Any]:
    """Return the number of calls that some work takes, and its result. Calls of the garbage collector do not count."""
    profile = cProfile.Profile()
    gc.collect()
    gc.disable()
    try:
        found = profile.runcall(work)
    finally:
        gc.enable()
    return int(pstats.Stats(profile).total_calls), found  # type: ignore[attr-defined]


#: Results that the checker keeps for the life of the process. They are cleared whenever too many are held, so work done
#: for one snapshot can be charged to another.
_KEPT_BY_THE_CHECKER = (matching._requirements_of, matching._alternatives, *taints._filed, node_rules._features_asked)


def _cost(shape: Callable[[int], list[Object]], count: int) -> tuple[int, int]:
    """Return the calls of the solver and of the checker, each from empty caches."""
    for cache in _KEPT_BY_THE_CHECKER:
        cache.clear()
    items = shape(count)
    snapshot: Snapshot = from_objects(items)
    placing, found = _calls(lambda: place(snapshot, Options(engine="greedy", workers=1)))
    placement: Placement = found
    checking, violations = _calls(lambda: list(verify(snapshot, placement)))
    assert violations == []
    return placing, checking


@pytest.mark.full
@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES)
def test_twice_the_input_is_about_twice_the_work(shape: Callable[[int], list[Object]]) -> None:
    _cost(shape, 2 * _MANY)  # computed or imported once
    once, twice = _cost(shape, _MANY), _cost(shape, 2 * _MANY)
    assert twice[0] < 2.5 * once[0]
    assert twice[1] < 2.5 * once[1]


class _Counted(str):
    """Text that counts how often it is compared."""

    compared = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def _compared(work: Callable[[], Any]) -> int:
    _Counted.compared = 0
    work()
    return _Counted.compared


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_many_values_are_looked_up(operator: str) -> None:
    count = 300
    values = [f"v{i}" for i in reversed(range(count))]
    nodes = [objects.Node(objects.ObjectMeta(f"n{i}", labels={"z": _Counted(f"v{i}")})) for i in range(count)]
    term = objects.NodeSelectorTerm([objects.NodeSelectorRequirement("z", operator, values)])
    assert _compared(lambda: NodeColumns(nodes).term(term)) < 20 * count
    assert _compared(lambda: [matching.term_holds(term, each.metadata.labels or {}, "") for each in nodes]) < 20 * count
    selector = LabelRequirement("z", operator, tuple(sorted(values)))
    assert _compared(lambda: [requirement_holds(selector, each.metadata.labels or {}) for each in nodes]) < 20 * count
