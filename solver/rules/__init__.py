"""The scheduling rules: one folder per scheduler plugin, with its filter and its part of the model.

Enter at :func:`build` for every rule, and at :meth:`kubestow.solver.rules.base.Rule.of` for a single rule. The
package imports ``models`` and :mod:`kubestow.solver.cpsat`. Rules do not import each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Final, get_args

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.plans import PlanFace, StaticFace

#: The order of the rules: of checks, models and words. Rules that are not listed come last, by name.
_ORDER: Final = (
    "LimitRanger",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "ResourceQuota",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "PodOS",
    "BalloonsPolicy",
    "TopologyAwarePolicy",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "DynamicResources",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourceTopologyMatch",
    "GangScheduling",
)


def _classes(name: str) -> Iterator[type[Any]]:
    """Yield the classes that the module of this name defines in each folder that has it."""
    for folder in iter_modules(__path__):
        full = f"{__name__}.{folder.name}.{name}"
        if folder.ispkg and find_spec(full) is not None:
            module = import_module(full)
            yield from (kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == full)


def _position(kind: type[Rule]) -> tuple[int, str]:
    return _ORDER.index(kind.name) if kind.name in _ORDER else len(_ORDER), kind.name


ALL: tuple[type[Rule], ...] = tuple(
    sorted((kind for kind in _classes("rule") if issubclass(kind, Rule) and "name" in vars(kind)), key=_position)
)
_FACES: Final = {
    get_args(base)[0]: face
    for face in (*_classes("rule"), *_classes("plans"))
    if issubclass(face, PlanFace)
    for base in vars(face).get("__orig_bases__", ())
}
#: The plan face of each rule: the one whose type argument is the rule. A rule without one gets the safe defaults.
PLAN_FACES: Final[dict[type[Rule], type[PlanFace[Any]]]] = {kind: _FACES[kind] for kind in ALL if kind in _FACES}


def plan_face(rule: Rule) -> PlanFace[Any]:
    """Return the face of a rule for plans, rollouts and capacity."""
    return PLAN_FACES.get(type(rule), StaticFace if rule.static else PlanFace)(rule)


def build(cluster: Cluster) -> list[Rule]:
    """Return every rule over a cluster, in the state of its fixed pods."""
    return [kind(cluster) for kind in ALL]


def having(cluster: Cluster, trait: Callable[[type[Rule]], bool]) -> list[Rule]:
    """Return the rules of :func:`build` whose class has a trait."""
    return [kind(cluster) for kind in ALL if trait(kind)]


def unencoded() -> list[str]:
    """Return the names of the rules that add nothing to a model (:meth:`Rule.encode`) although their verdict depends on other pods."""
    return [kind.name for kind in ALL if not kind.static and kind.encode is Rule.encode]


def linking(cluster: Cluster) -> list[Rule]:
    """Return the rules of :func:`build` that make the bind order of classes matter (:meth:`Rule.order_links`)."""
    return having(cluster, lambda kind: not kind.any_order or kind.order_links is not Rule.order_links)


def replay(cluster: Cluster, sequence: Iterable[tuple[int, int, int]]) -> list[Rule]:
    """Return every rule in the state after a placement.

    Args:
        sequence: (class, node, pods) in bind order.
    """
    active = build(cluster)
    for g, n, k in sequence:
        for rule in active:
            rule.place(g, n, k)
    return active
