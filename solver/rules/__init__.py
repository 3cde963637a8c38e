"""The scheduling rules: one folder per scheduler plugin, with its filter and its part of the model.

Enter at :func:`build` for every rule, and at :meth:`kubestow.solver.rules.base.Rule.of` for a single rule. The
package imports ``models`` and :mod:`kubestow.solver.cpsat`. Rules do not import each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.rules.admission.rule import LimitRanger, PodNodeSelector, PodTolerationRestriction, ResourceQuota
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.dynamic_resources.plans import DevicesInPlans
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from kubestow.solver.rules.gang_scheduling.plans import GangsInPlans
from kubestow.solver.rules.gang_scheduling.rule import GangScheduling
from kubestow.solver.rules.inter_pod_affinity.plans import AffinityInPlans
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.node_ports.plans import PortsInPlans
from kubestow.solver.rules.node_ports.rule import NodePorts
from kubestow.solver.rules.node_resource_topology.plans import ZonesInPlans
from kubestow.solver.rules.node_resource_topology.rule import NodeResourceTopologyMatch
from kubestow.solver.rules.node_resources_fit.plans import CapacityInPlans
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.node_static.plans import NodeAffinityInPlans, TaintTolerationInPlans
from kubestow.solver.rules.node_static.rule import NodeAffinity, NodeDeclaredFeatures, NodeName, NodeUnschedulable, PodOS, TaintToleration
from kubestow.solver.rules.nri_policies.rule import BalloonsPolicy, TopologyAwarePolicy
from kubestow.solver.rules.plans import PlanFace, StaticFace
from kubestow.solver.rules.pod_topology_spread.plans import SpreadInPlans
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread
from kubestow.solver.rules.volumes.plans import BindingInPlans, LimitsInPlans, RestrictionsInPlans
from kubestow.solver.rules.volumes.rule import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone

ALL: tuple[type[Rule], ...] = (
    LimitRanger,
    PodNodeSelector,
    PodTolerationRestriction,
    ResourceQuota,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodeDeclaredFeatures,
    PodOS,
    BalloonsPolicy,
    TopologyAwarePolicy,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    DynamicResources,
    PodTopologySpread,
    InterPodAffinity,
    NodeResourceTopologyMatch,
    GangScheduling,
)


#: The plan face of each rule. A rule without one gets the safe defaults.
PLAN_FACES: Final[dict[type[Rule], type[PlanFace[Any]]]] = {
    TaintToleration: TaintTolerationInPlans,
    NodeAffinity: NodeAffinityInPlans,
    NodePorts: PortsInPlans,
    NodeResourcesFit: CapacityInPlans,
    VolumeRestrictions: RestrictionsInPlans,
    NodeVolumeLimits: LimitsInPlans,
    VolumeBinding: BindingInPlans,
    DynamicResources: DevicesInPlans,
    PodTopologySpread: SpreadInPlans,
    InterPodAffinity: AffinityInPlans,
    NodeResourceTopologyMatch: ZonesInPlans,
    GangScheduling: GangsInPlans,
}


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
