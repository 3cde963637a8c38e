"""The meaning of a scheduler's configuration: its profiles, with the defaults of kube-scheduler filled in.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/apis/config/v1/default_plugins.go and defaults.go, and
getScoreWeights and expandMultiPointPlugins in pkg/scheduler/framework/runtime/framework.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubestow.models.documents.policy import SYSTEM_CONSTRAINTS, DefaultConstraint, Multipliers, Policy
from kubestow.models.kube.objects import Pod, PreferredSchedulingTerm
from kubestow.models.scheduler.configuration import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginSet,
    PodTopologySpreadArgs,
    ProfileSection,
    ResourceSpec,
    SchedulerConfiguration,
    ScoringStrategy,
    read,
)

DEFAULT_SCHEDULER: Final = "default-scheduler"
#: Plugins that give points to nodes, with their default weights, in the order of kube-scheduler.
SCORE_WEIGHTS: Final[Mapping[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
#: Plugins that reject nodes.
FILTERS: Final = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
)
#: All plugins of kube-scheduler itself; any other is out of tree.
IN_TREE: Final = frozenset(
    (
        *SCORE_WEIGHTS,
        *FILTERS,
        "SchedulingGates",
        "PrioritySort",
        "DefaultPreemption",
        "DefaultBinder",
        "GangScheduling",
        "TopologyPlacementGenerator",
        "PodGroupPodsCount",
        "*",
    )
)
_CPU_AND_MEMORY: Final = (ResourceSpec("cpu"), ResourceSpec("memory"))
_LEAST_ALLOCATED: Final = ScoringStrategy(resources=_CPU_AND_MEMORY)


@dataclass(frozen=True)
class Profile:
    """A scheduler's way to give points to nodes.

    Attributes:
        name: The schedulerName of its pods.
        weights: Weights of the plugins that give points, in the order of kube-scheduler.
        strategy: The score of NodeResourcesFit, with its resources.
        balanced: Resources that NodeResourcesBalancedAllocation compares.
        spread: ScheduleAnyway constraints of pods that have no constraints.
        hard_spread: DoNotSchedule constraints of these pods.
        is_spread_by_system: True if these are the system's defaults, which do not require every topology key of a node.
        hard_affinity_weight: Points of each required pod affinity term of another pod that matches.
        ignores_terms_of_others: True if preferred terms of other pods count only for pods with preferred terms.
        added_terms: Preferred node affinity of all pods.
        percentage: Share of the nodes to find before the scheduler stops looking, in percent; 0 for its default.
        preempts: True if the profile evicts pods of lower priority.
        deallocates: True if it looks for claims to deallocate first.
        candidates_percentage: Share of the nodes among which preemption looks for candidates, in percent.
        min_candidates: The least number of these nodes.
        unmodelled: Parts of the profile that kubestow does not follow, in words.
    """

    name: str = DEFAULT_SCHEDULER
    weights: Mapping[str, int] = field(default_factory=lambda: dict(SCORE_WEIGHTS))
    strategy: ScoringStrategy = _LEAST_ALLOCATED
    balanced: tuple[ResourceSpec, ...] = _CPU_AND_MEMORY
    spread: tuple[DefaultConstraint, ...] = SYSTEM_CONSTRAINTS
    hard_spread: tuple[DefaultConstraint, ...] = ()
    is_spread_by_system: bool = True
    hard_affinity_weight: int = 1
    ignores_terms_of_others: bool = False
    added_terms: tuple[PreferredSchedulingTerm, ...] = ()
    percentage: int = 0
    preempts: bool = True
    deallocates: bool = True
    candidates_percentage: int = 10
    min_candidates: int = 100
    unmodelled: tuple[str, ...] = ()

    def policy(self, base: Policy) -> Policy:
        """Return a policy under which a compiled cluster has all preferences that the plugins read."""
        return msgspec.structs.replace(
            base,
            multipliers=Multipliers(1, 1, 1, 1, 1, 1, 0),
            hardPodAffinityWeight=self.hard_affinity_weight,
            defaultConstraints=self.spread,
            symmetricPreferredAntiAffinity=True,
        )


#: The only profile of a kube-scheduler without a configuration.
DEFAULT_PROFILE: Final = Profile()


def profile_of(pod: Pod, found: Mapping[str, Profile] | None) -> Profile | None:
    """Return the profile of a pod, or None if no profile has its schedulerName. Without profiles every pod has the default one."""
    return DEFAULT_PROFILE if found is None else found.get(pod.spec.schedulerName or DEFAULT_SCHEDULER)


def read_profiles(path: str) -> dict[str, Profile]:
    """Return the profiles in a configuration file by schedulerName.

    Raises:
        InputError: As for :func:`kubestow.models.scheduler.configuration.read`.
    """
    return profiles(*read(path))


def profiles(configuration: SchedulerConfiguration, arguments: Collection[Mapping[str, Any]]) -> dict[str, Profile]:
    """Return the profiles of a configuration by schedulerName.

    Args:
        arguments: Arguments by plugin, for each profile.
    """
    sections = configuration.profiles or (ProfileSection(),)
    found = [_profile(configuration, section, args) for section, args in zip(sections, arguments or [{}], strict=True)]
    return {profile.name: profile for profile in found}


def unmodelled(found: Mapping[str, Profile] | None) -> list[str]:
    """Return a sentence for each part of the configuration that kubestow does not follow."""
    return [f"scheduler profile {profile.name}: {part}" for profile in (found or {}).values() for part in profile.unmodelled]


def default_rules(found: Mapping[str, Profile] | None) -> list[str]:
    """Return a sentence for each profile whose DoNotSchedule default constraints only a simulation follows."""
    return [f"scheduler profile {each.name}: default constraints DoNotSchedule" for each in (found or {}).values() if each.hard_spread]


def _profile(configuration: SchedulerConfiguration, section: ProfileSection, arguments: Mapping[str, Any]) -> Profile:
    fit: NodeResourcesFitArgs = arguments.get("NodeResourcesFit", NodeResourcesFitArgs())
    balanced: NodeResourcesBalancedAllocationArgs = arguments.get("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocationArgs())
    spread: PodTopologySpreadArgs = arguments.get("PodTopologySpread", PodTopologySpreadArgs())
    affinity: InterPodAffinityArgs = arguments.get("InterPodAffinity", InterPodAffinityArgs())
    added = (arguments.get("NodeAffinity") or NodeAffinityArgs()).addedAffinity
    preemption: DefaultPreemptionArgs = arguments.get("DefaultPreemption", DefaultPreemptionArgs())
    own, own_share = spread.defaultingType == "List", section.percentageOfNodesToScore
    soft, hard = (
        tuple(DefaultConstraint(each.topologyKey, each.maxSkew) for each in spread.defaultConstraints if each.whenUnsatisfiable == action)
        for action in ("ScheduleAnyway", "DoNotSchedule")
    )
    return Profile(
        name=section.schedulerName or DEFAULT_SCHEDULER,
        weights=_weights(section),
        strategy=msgspec.structs.replace(fit.scoringStrategy, resources=_weighted(fit.scoringStrategy.resources)),
        balanced=_weighted(balanced.resources),
        spread=soft if own else SYSTEM_CONSTRAINTS,
        hard_spread=hard,
        is_spread_by_system=not own,
        hard_affinity_weight=affinity.hardPodAffinityWeight,
        ignores_terms_of_others=affinity.ignorePreferredTermsOfExistingPods,
        added_terms=tuple((added.preferredDuringSchedulingIgnoredDuringExecution if added else None) or ()),
        percentage=(configuration.percentageOfNodesToScore if own_share is None else own_share) or 0,
        candidates_percentage=preemption.minCandidateNodesPercentage,
        min_candidates=preemption.minCandidateNodesAbsolute,
        preempts=not _is_disabled(section, section.plugins.postFilter, "DefaultPreemption"),
        deallocates=not _is_disabled(section, section.plugins.postFilter, "DynamicResources"),
        unmodelled=tuple(_unmodelled(configuration, section, arguments)),
    )


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(ResourceSpec(each.name, each.weight or 1) for each in resources) or _CPU_AND_MEMORY


def _is_disabled(section: ProfileSection, point: PluginSet, name: str) -> bool:
    """Return True if a plugin that is enabled by default is disabled at an extension point, or at every one."""
    if any(plugin.name == name for plugin in point.enabled):
        return False
    if any(plugin.name in (name, "*") for plugin in point.disabled):
        return True
    if any(plugin.name == name for plugin in section.plugins.multiPoint.enabled):
        return False
    return any(plugin.name in (name, "*") for plugin in section.plugins.multiPoint.disabled)


def _weights(section: ProfileSection) -> dict[str, int]:
    """Return the weights of the plugins that are enabled to give points."""
    plugins = section.plugins
    given = {plugin.name: plugin.weight or 1 for plugin in (*plugins.multiPoint.enabled, *plugins.score.enabled)}
    return {name: given.get(name, weight) for name, weight in SCORE_WEIGHTS.items() if not _is_disabled(section, plugins.score, name)}


def _unmodelled(configuration: SchedulerConfiguration, section: ProfileSection, arguments: Mapping[str, Any]) -> list[str]:
    """Return the parts of a profile that neither rules nor points follow, in words."""
    plugins = section.plugins
    points: dict[str, PluginSet] = {name: getattr(plugins, name) for name in plugins.__struct_fields__}
    foreign = sorted({plugin.name for point in points.values() for plugin in point.enabled} - IN_TREE)
    found = [f"plugin {name} is out of tree" for name in foreign]
    found += [f"filter {name} is disabled" for name in FILTERS if _is_disabled(section, plugins.filter, name)]
    found += [f"extender {extender.get('urlPrefix', '')}" for extender in configuration.extenders]
    fit: NodeResourcesFitArgs = arguments.get("NodeResourcesFit", NodeResourcesFitArgs())
    ignored = [*fit.ignoredResources, *(f"{group}/*" for group in fit.ignoredResourceGroups)]
    found += [f"NodeResourcesFit ignores {', '.join(ignored)}"] if ignored else []
    added = (arguments.get("NodeAffinity") or NodeAffinityArgs()).addedAffinity
    if added is not None and added.requiredDuringSchedulingIgnoredDuringExecution is not None:
        found.append("NodeAffinity adds required node affinity")
    return found
