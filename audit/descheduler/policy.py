"""Reader of DeschedulerPolicy files, as strict as the descheduler.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/descheduler/policyconfig.go and validation.go of each
plugin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.audit.descheduler import arguments as args
from kubestow.models.disruption.node_selection import parse
from kubestow.models.documents import settings_file
from kubestow.models.kube.objects import LabelSelector
from kubestow.models.snapshot import yaml_reader
from kubestow.models.snapshot.snapshot import InputError, Snapshot

API_VERSION: Final = "descheduler/v1alpha2"
#: Lowest priority of system-critical pods.
CRITICAL_PRIORITY: Final = 2_000_000_000
_AFFINITY_TYPES: Final = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
_DEFAULT_PROTECTIONS: Final = ("PodsWithLocalStorage", "SystemCriticalPods", "FailedBarePods", "DaemonSetPods")
_EXTRA_PROTECTIONS: Final = ("PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims")
_KINDS: Final[dict[str, type[args.Args]]] = {**args.DESCHEDULE, **args.BALANCE, args.EVICTOR: args.DefaultEvictor}
_OPERATORS: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


@dataclass(frozen=True)
class PolicyProfile:
    """A profile with its plugins in order.

    Attributes:
        name: Name of the profile.
        deschedule: Plugins of the extension point deschedule, with arguments.
        balance: Plugins of the extension point balance, with arguments.
        evictor: Arguments of DefaultEvictor.
        protections: Active protections.
        threshold: Pods with this priority or higher are protected.
    """

    name: str
    deschedule: tuple[tuple[str, args.Args], ...]
    balance: tuple[tuple[str, args.Args], ...]
    evictor: args.DefaultEvictor
    protections: frozenset[str]
    threshold: int


@dataclass(frozen=True)
class SimulatedPolicy:
    """A policy. ``not_modelled`` lists the parts that are not simulated, one sentence each."""

    path: str
    profiles: tuple[PolicyProfile, ...]
    node_selector: LabelSelector | None
    per_node: int | None
    per_namespace: int | None
    total: int | None
    not_modelled: tuple[str, ...] = field(default=())


def read(path: str, snapshot: Snapshot) -> SimulatedPolicy:
    """Read a policy from a file or from the ConfigMap that contains it.

    Raises:
        InputError: The file cannot be read, has another version, or would be rejected by the descheduler; one line
            per problem.
    """
    plain = _unpacked(path, settings_file.document(path, "DeschedulerPolicy"))
    version, kind = plain.get("apiVersion"), plain.get("kind")
    if version != API_VERSION or kind != "DeschedulerPolicy":
        raise InputError([f"{path}: DeschedulerPolicy: apiVersion {version!r}, kind {kind!r}: expected {API_VERSION}, DeschedulerPolicy"])
    plain = _stated(plain)
    for profile in plain["profiles"] if isinstance(plain.get("profiles"), list) else ():
        if isinstance(profile, dict) and isinstance(profile.get("plugins"), dict):
            profile["plugins"] = {str(key).lower(): value for key, value in profile["plugins"].items()}
    found = settings_file.fitted(path, plain, args.DeschedulerPolicy)
    reader = _ProfileReader(path, snapshot)
    selector = reader.node_selector(found.nodeSelector or "", "nodeSelector")
    profiles = tuple(reader.profile(k, profile) for k, profile in enumerate(found.profiles))
    if not profiles:
        reader.problem("profiles", "empty (expected at least one)")
    if reader.problems:
        raise InputError(reader.problems)
    limits = found.maxNoOfPodsToEvictPerNode, found.maxNoOfPodsToEvictPerNamespace, found.maxNoOfPodsToEvictTotal
    return SimulatedPolicy(path, profiles, selector, *limits, tuple(dict.fromkeys(reader.not_modelled)))


def _stated(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping without null values, which Go treats as missing."""
    return {key: _inside(value) for key, value in plain.items() if value is not None}


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return _stated(value)
    return [_inside(each) for each in value] if isinstance(value, list) else value


def _unpacked(path: str, plain: Any) -> dict[str, Any]:
    """Return the policy in a ConfigMap, or any other document unchanged."""
    if not isinstance(plain, dict):
        raise InputError([f"{path}: DeschedulerPolicy: found a {type(plain).__name__}, expected a mapping"])
    if plain.get("kind") != "ConfigMap":
        return plain
    data = plain.get("data") if isinstance(plain.get("data"), dict) else {}
    texts = [text for text in (data or {}).values() if isinstance(text, str) and "DeschedulerPolicy" in text]
    if len(texts) != 1:
        raise InputError([f"{path}: ConfigMap: data: {len(texts)} DeschedulerPolicies (expected one)"])
    try:
        found = [each for each in yaml_reader.documents(texts[0]) if each is not None]
    except (yaml_reader.YamlError, ValueError) as error:
        raise InputError([f"{path}: ConfigMap: data: {error}"]) from error
    if len(found) != 1 or not isinstance(found[0], dict):
        raise InputError([f"{path}: ConfigMap: data: expected one mapping"])
    return found[0]


class _ProfileReader:
    """Reader of profiles that collects problems and unmodelled parts."""

    def __init__(self, path: str, snapshot: Snapshot) -> None:
        self.path, self.snapshot = path, snapshot
        self.problems: list[str] = []
        self.not_modelled: list[str] = []

    def problem(self, where: str, text: str) -> None:
        self.problems.append(f"{self.path}: DeschedulerPolicy: {where}: {text}")

    def node_selector(self, text: str, where: str) -> LabelSelector | None:
        selector = parse(text) if text.strip() else None
        if text.strip() and selector is None:
            self.problem(where, f"{text!r} is not a label selector (expected one such as pool=old,zone!=a)")
        return selector

    def profile(self, k: int, profile: args.Profile) -> PolicyProfile:
        where = f"profiles[{k}]"
        given: dict[str, args.Args] = {}
        for j, config in enumerate(profile.pluginConfig):
            kind = _KINDS.get(config.name)
            if kind is not None:
                found = self._args(f"{where}.pluginConfig[{j}].args", config.args or {}, kind)
                if found is not None:
                    given.setdefault(config.name, found)
            elif config.name in args.OTHERS:
                given.setdefault(config.name, args.Args())
            else:
                self.problem(f"{where}.pluginConfig[{j}].name", f"{config.name!r} is not a plugin of the descheduler")
        self._points(where, profile.plugins)
        evictor = given.get(args.EVICTOR, args.DefaultEvictor())
        assert isinstance(evictor, args.DefaultEvictor)
        if evictor.minPodAge is not None:
            self.not_modelled.append(f"profile {profile.name}: DefaultEvictor: minPodAge: start times are not read; all pods count as old")
        chosen = (
            self._enabled(f"{where}.plugins.deschedule", profile, profile.plugins.deschedule.enabled, args.DESCHEDULE, given),
            self._enabled(f"{where}.plugins.balance", profile, profile.plugins.balance.enabled, args.BALANCE, given),
        )
        return PolicyProfile(profile.name, *chosen, evictor, _protections(evictor), self._threshold(where, evictor))

    def _args(self, where: str, plain: dict[str, Any], kind: type[args.Args]) -> args.Args | None:
        try:
            found = settings_file.fitted(self.path, plain, kind)
        except InputError as error:
            self.problems += [line.replace(f"{kind.__name__}: ", f"DeschedulerPolicy: {where}: ", 1) for line in error.problems]
            return None
        for text in _wrong(found):
            self.problem(where, text)
        return found

    def _points(self, where: str, plugins: args.ProfilePlugins) -> None:
        """Check enabled plugins at points that allow only DefaultEvictor, and note disabled plugins, which have no effect."""
        for point in ("presort", "sort", "filter", "preevictionfilter"):
            for name in getattr(plugins, point).enabled:
                if name != args.EVICTOR or point in ("presort", "sort"):
                    self.problem(f"{where}.plugins.{point}", f"{name!r} is not a plugin of this extension point")
        for point in ("presort", "sort", "deschedule", "balance", "filter", "preevictionfilter"):
            for name in getattr(plugins, point).disabled:
                self.not_modelled.append(f"{where}.plugins.{point}.disabled: {name}: the descheduler ignores disabled plugins")

    def _enabled(
        self, where: str, profile: args.Profile, names: tuple[str, ...], kinds: dict[str, type[args.Args]], given: dict[str, args.Args]
    ) -> tuple[tuple[str, args.Args], ...]:
        found = []
        others = args.OTHERS if where.endswith("deschedule") else ()
        configured = {config.name for config in profile.pluginConfig}
        for name in names:
            if name not in kinds and name not in others:
                self.problem(where, f"{name!r} is not a plugin of this extension point (expected one of {', '.join([*kinds, *others])})")
            elif name not in configured:
                self.problem(where, f"{name} is enabled without a pluginConfig, so the descheduler does not start")
            elif name in others:
                self.not_modelled.append(f"profile {profile.name}: {name}: a snapshot has no pod history; its evictions are not simulated")
            elif name in given:
                config = given[name]
                if isinstance(config, args.LowUtilization) and config.metricsUtilization is not None:
                    text = f"profile {profile.name}: {name}: metricsUtilization: a snapshot has no actual usage"
                    self.not_modelled.append(f"{text}; its evictions are not simulated")
                found.append((name, config))
        return tuple(found)

    def _threshold(self, where: str, evictor: args.DefaultEvictor) -> int:
        given = evictor.priorityThreshold
        if given is None or (given.value is None and not given.name):
            return CRITICAL_PRIORITY
        value = given.value
        if value is None:
            known = self.snapshot.priority_classes.get(given.name)
            if known is None:
                self.problem(f"{where}: DefaultEvictor: priorityThreshold.name", f"the snapshot has no PriorityClass {given.name!r}")
                return CRITICAL_PRIORITY
            value = known.value
        if value > CRITICAL_PRIORITY:
            self.problem(f"{where}: DefaultEvictor: priorityThreshold", f"{value} (expected at most {CRITICAL_PRIORITY})")
        return value


def _protections(evictor: args.DefaultEvictor) -> frozenset[str]:
    """Return the active protections (getEffectivePodProtections)."""
    given = evictor.podProtections
    if given.extraEnabled or given.defaultDisabled:
        return frozenset({*_DEFAULT_PROTECTIONS} - {*given.defaultDisabled} | {*given.extraEnabled})
    enabled = {
        "PodsWithLocalStorage": not evictor.evictLocalStoragePods,
        "DaemonSetPods": not evictor.evictDaemonSetPods,
        "SystemCriticalPods": not evictor.evictSystemCriticalPods,
        "FailedBarePods": not evictor.evictFailedBarePods,
        "PodsWithPVC": evictor.ignorePvcPods,
        "PodsWithoutPDB": evictor.ignorePodsWithoutPDB,
    }
    return frozenset(name for name, holds in enabled.items() if holds)


def _wrong(given: args.Args) -> Iterator[str]:
    """Yield the problems in a plugin's arguments that the descheduler rejects."""
    namespaces = getattr(given, "namespaces", None)
    if namespaces is not None and namespaces.include and namespaces.exclude:
        yield "namespaces: only one of include and exclude may be given"
    for name in ("labelSelector", "namespaceLabelSelector"):
        yield from _bad_selector(name, getattr(given, name, None))
    match given:
        case args.DefaultEvictor():
            yield from _bad_evictor(given)
        case args.NodeAffinityArgs(nodeAffinityType=types):
            expected = " or ".join(_AFFINITY_TYPES)
            if not types:
                yield f"nodeAffinityType: empty (expected {expected})"
            yield from (f"nodeAffinityType: {each!r} (expected {expected})" for each in types if each not in _AFFINITY_TYPES)
        case args.NodeTaints(excludedTaints=excluded, includedTaints=included) if excluded and included:
            yield "only one of includedTaints and excludedTaints may be given"
        case args.TopologySpread(constraints=constraints):
            known = ("DoNotSchedule", "ScheduleAnyway")
            yield from (f"constraints: {each!r} (expected {' or '.join(known)})" for each in constraints if each not in known)
        case args.HighUtilization():
            yield from _bad_thresholds("thresholds", given.thresholds, given.evictableNamespaces)
            for each in given.evictionModes:
                if each != "OnlyThresholdingResources":
                    yield f"evictionModes: {each!r} (expected OnlyThresholdingResources)"
        case args.LowUtilization():
            yield from _bad_thresholds("thresholds", given.thresholds, given.evictableNamespaces)
            yield from _bad_thresholds("targetThresholds", given.targetThresholds, args.Namespaces())
            if given.thresholds.keys() != given.targetThresholds.keys():
                yield "thresholds and targetThresholds must name the same resources"
            elif not given.useDeviationThresholds:
                over = [name for name, value in given.thresholds.items() if value > given.targetThresholds[name]]
                yield from (f"thresholds: {name}: greater than in targetThresholds" for name in over)


def _bad_selector(name: str, given: args.Labels | None) -> Iterator[str]:
    for each in (given.matchExpressions or ()) if given is not None else ():
        needs = _OPERATORS.get(each.operator)
        if needs is None or needs != bool(each.values):
            yield f"{name}.matchExpressions: {each.key}: operator {each.operator!r} with {len(each.values)} values is not valid"


def _bad_evictor(given: args.DefaultEvictor) -> Iterator[str]:
    if given.priorityThreshold is not None and given.priorityThreshold.value is not None and given.priorityThreshold.name:
        yield "priorityThreshold: only one of value and name may be given"
    if given.noEvictionPolicy not in ("", "Preferred", "Mandatory"):
        yield f"noEvictionPolicy: {given.noEvictionPolicy!r} (expected Preferred or Mandatory)"
    if given.nodeSelector.strip() and parse(given.nodeSelector) is None:
        yield f"nodeSelector: {given.nodeSelector!r} is not a label selector (expected one such as pool=old,zone!=a)"
    own = given.podProtections
    old = (
        given.evictLocalStoragePods, given.evictDaemonSetPods, given.evictSystemCriticalPods, given.ignorePvcPods,
        given.evictFailedBarePods, given.ignorePodsWithoutPDB,
    )  # fmt: skip
    if any(old) and (own.extraEnabled or own.defaultDisabled):
        yield "podProtections: cannot be combined with the fields that it replaces (such as evictLocalStoragePods)"
    for name, listed, known in (
        ("extraEnabled", own.extraEnabled, _EXTRA_PROTECTIONS),
        ("defaultDisabled", own.defaultDisabled, _DEFAULT_PROTECTIONS),
    ):
        yield from (f"podProtections.{name}: {each!r} (expected one of {', '.join(known)})" for each in listed if each not in known)
        if len(set(listed)) < len(listed):
            yield f"podProtections.{name}: contains duplicates"


def _bad_thresholds(name: str, given: dict[str, float], namespaces: args.Namespaces) -> Iterator[str]:
    if namespaces.include:
        yield "evictableNamespaces: only exclude may be given"
    if not given:
        yield f"{name}: no resource is named"
