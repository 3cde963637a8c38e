"""The API server's validation of pods, and of the parts that other kinds share with them (selectors, quantities, claims).

Every function appends ``path: problem, expected value`` to ``out``. See
:mod:`kubestow.models.kube.validation.kinds` for the source.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from kubestow.models.kube import defaults, objects, quantity
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import did_you_mean, shorten

Problems = list[str]


class UnknownValue(str):
    """A problem of new objects only: a value outside a set that later versions may extend. In stored objects it is accepted.

    Attributes:
        field: Path of the field.
        value: The value, safe for one line.
        effect: How a stored value is treated.
    """

    field: str
    value: str
    effect: str

    def __new__(cls, field: str, value: str, allowed: tuple[str, ...], effect: str) -> UnknownValue:
        """Create the text ``field: got value, expected one of the allowed values``."""
        near = did_you_mean(value, allowed)
        made = super().__new__(cls, f"{field}: got {shorten(value)}, expected {', '.join(allowed[:-1])} or {allowed[-1]}{near}")
        made.field, made.value, made.effect = field, shorten(value), effect
        return made


SELECTOR_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*SELECTOR_OPERATORS, "Gt", "Lt")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
_COMPARISONS: Final = ("Gt", "Lt")
#: Treatment of unknown stored values. :mod:`kubestow.models.kube.validation.stored` implements the first one.
UNREADABLE: Final = "a pending pod is rejected everywhere, a bound one loses all terms of the list"
_NO_NODE: Final = "the term matches no node"
_NO_TAINT: Final = "it tolerates nothing"
_DECIMAL: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})\Z", re.ASCII)


def decimal_int64(text: str | None) -> int | None:
    """Return the number of a text in canonical decimal form; None for other texts and for numbers beyond 64 bits."""
    value = int(text) if _DECIMAL.match(text or "") and text else None
    return value if value is not None and -MAX_INT64 - 1 <= value <= MAX_INT64 else None


def check_choice(value: str | None, allowed: tuple[str, ...], path: str, out: Problems, effect: str = "it has no effect") -> None:
    """Append a problem if a value is not allowed. An empty value counts as absent and is defaulted.

    ``effect`` describes how a stored value is treated.
    """
    if value and value not in allowed:
        out.append(UnknownValue(path, value, allowed, effect))


def check_range(value: int | None, low: int, high: int, path: str, out: Problems) -> None:
    if value is not None and not low <= value <= high:
        at_least = "" if low < 0 else f" of at least {low}"
        allowed = f" within {low}..{high}" if high < MAX_INT32 else f"{at_least} that fits {32 if high == MAX_INT32 else 64} bits"
        out.append(f"{path}: got {shorten(value)}, expected a whole number{allowed}")


# --- quantities -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def _counted(raw: objects.RawQuantity, scale: int) -> int | str:
    """Return a quantity in the scheduler's unit (1/``scale``), rounded up, or an error text."""
    try:
        value = quantity.parse(raw) * scale
    except quantity.QuantityError as error:
        return str(error)
    if abs(value) > quantity.INT64_MAX:
        return f"got {shorten(raw)}, expected a quantity that fits 64 bits{' in thousandths' if scale == 1000 else ''}"
    return quantity.ceil(value)


def _scale(name: str) -> int:
    return 1000 if name == "cpu" else 1


def check_quantity(name: str, raw: objects.RawQuantity, path: str, out: Problems, *, negative: bool = False) -> None:
    counted = _counted(raw, _scale(name))
    if isinstance(counted, str):
        out.append(f"{path}: {counted}")
    elif counted < 0 and not negative:
        out.append(f"{path}: got {shorten(raw)}, expected a quantity of at least 0")


def check_resources(resources: objects.ResourceList | None, path: str, out: Problems) -> None:
    for name, raw in (resources or {}).items():
        check_quantity(name, raw, f"{path}.{name}", out)


def _requirements(resources: objects.ResourceRequirements | None, path: str, out: Problems) -> None:
    if resources is not None:
        check_resources(resources.requests, f"{path}.requests", out)
        check_resources(resources.limits, f"{path}.limits", out)


# --- selectors --------------------------------------------------------------------------------------------------------


def _values(count: int, operator: str, path: str, out: Problems) -> None:
    if operator in ("In", "NotIn") and count == 0:
        out.append(f"{path}.values: missing, expected at least one value with operator {operator}")
    elif operator in ("Exists", "DoesNotExist") and count:
        out.append(f"{path}.values: got {count}, expected none with operator {operator}")
    elif operator in ("Gt", "Lt") and count != 1:
        out.append(f"{path}.values: got {count}, expected exactly one value with operator {operator}")


def _requirements_of(
    requirements: Iterable[objects.LabelSelectorRequirement | objects.NodeSelectorRequirement] | None,
    operators: tuple[str, ...],
    path: str,
    out: Problems,
    effect: str,
) -> None:
    for index, requirement in enumerate(requirements or ()):
        where = f"{path}[{index}]"
        if requirement.operator in operators:
            _values(len(requirement.values or ()), requirement.operator, where, out)
        else:
            out.append(UnknownValue(f"{where}.operator", requirement.operator, operators, effect))


def check_label_selector(selector: objects.LabelSelector | None, path: str, out: Problems, effect: str = "it selects nothing") -> None:
    if selector is not None:
        _requirements_of(selector.matchExpressions, SELECTOR_OPERATORS, f"{path}.matchExpressions", out, effect)


def _node_term(term: objects.NodeSelectorTerm, path: str, out: Problems) -> None:
    _requirements_of(term.matchExpressions, _NODE_OPERATORS, f"{path}.matchExpressions", out, _NO_NODE)
    _requirements_of(term.matchFields, _NODE_OPERATORS, f"{path}.matchFields", out, _NO_NODE)


def check_node_selector(selector: objects.NodeSelector | None, path: str, out: Problems) -> None:
    # An empty list of terms, which the API server rejects, matches no node and is harmless.
    for index, term in enumerate((selector.nodeSelectorTerms if selector else None) or ()):
        _node_term(term, f"{path}.nodeSelectorTerms[{index}]", out)


# --- pods -------------------------------------------------------------------------------------------------------------


def _pod_term(term: objects.PodAffinityTerm, path: str, out: Problems) -> None:
    if not term.topologyKey:
        out.append(f"{path}.topologyKey: empty, expected a node label key")
    check_label_selector(term.labelSelector, f"{path}.labelSelector", out, UNREADABLE)
    check_label_selector(term.namespaceSelector, f"{path}.namespaceSelector", out, UNREADABLE)
    for field, keys in (("matchLabelKeys", term.matchLabelKeys), ("mismatchLabelKeys", term.mismatchLabelKeys)):
        if keys and term.labelSelector is None:
            out.append(f"{path}.{field}: expected together with a labelSelector only")


def _pod_affinity(affinity: objects.PodAffinity | None, path: str, out: Problems) -> None:
    if affinity is None:
        return
    for field in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        for index, term in enumerate(getattr(affinity, field) or ()):
            _pod_term(term, f"{path}.{field}[{index}]", out)
    for index, weighted in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        check_range(weighted.weight, 1, 100, f"{where}.weight", out)
        _pod_term(weighted.podAffinityTerm, f"{where}.podAffinityTerm", out)


def _node_affinity(affinity: objects.NodeAffinity | None, path: str, out: Problems) -> None:
    if affinity is None:
        return
    for field in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        check_node_selector(getattr(affinity, field), f"{path}.{field}", out)
    for index, preferred in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        check_range(preferred.weight, 1, 100, f"{where}.weight", out)
        _node_term(preferred.preference, f"{where}.preference", out)


def _spread(constraints: list[objects.TopologySpreadConstraint] | None, path: str, out: Problems) -> None:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints or ()):
        where = f"{path}[{index}]"
        check_range(constraint.maxSkew, 1, MAX_INT32, f"{where}.maxSkew", out)
        if not constraint.topologyKey:
            out.append(f"{where}.topologyKey: empty, expected a node label key")
        if constraint.whenUnsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            when = ("DoNotSchedule", "ScheduleAnyway")
            out.append(UnknownValue(f"{where}.whenUnsatisfiable", constraint.whenUnsatisfiable, when, "the constraint has no effect"))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            check_choice(getattr(constraint, field), ("Honor", "Ignore"), f"{where}.{field}", out, "it is treated as Ignore")
        if constraint.minDomains is not None:
            check_range(constraint.minDomains, 1, MAX_INT32, f"{where}.minDomains", out)
            if constraint.whenUnsatisfiable == "ScheduleAnyway":
                out.append(f"{where}.minDomains: expected with whenUnsatisfiable DoNotSchedule only")
        check_label_selector(constraint.labelSelector, f"{where}.labelSelector", out, UNREADABLE)
        if constraint.matchLabelKeys and constraint.labelSelector is None:
            out.append(f"{where}.matchLabelKeys: expected together with a labelSelector only")
        pair = (constraint.topologyKey, constraint.whenUnsatisfiable)
        if pair in seen:
            out.append(f"{where}: repeats topologyKey {shorten(pair[0])} with {shorten(pair[1])}, expected each pair once")
        seen.add(pair)


def _container(container: objects.Container, path: str, out: Problems) -> None:
    _requirements(container.resources, f"{path}.resources", out)
    for index, port in enumerate(container.ports or ()):
        where = f"{path}.ports[{index}]"
        check_range(port.containerPort, 1, 65535, f"{where}.containerPort", out)
        check_range(port.hostPort, 0, 65535, f"{where}.hostPort", out)
        check_choice(port.protocol, ("TCP", "UDP", "SCTP"), f"{where}.protocol", out, "its ports conflict with no other")


def affinity_problems(affinity: objects.Affinity | None, path: str = "spec.affinity") -> Problems:
    """Return the problems of a pod's affinity."""
    out: Problems = []
    if affinity is not None:
        _node_affinity(affinity.nodeAffinity, f"{path}.nodeAffinity", out)
        _pod_affinity(affinity.podAffinity, f"{path}.podAffinity", out)
        _pod_affinity(affinity.podAntiAffinity, f"{path}.podAntiAffinity", out)
    return out


def check_toleration(toleration: objects.Toleration, path: str, gates: FeatureGates | None, out: Problems) -> None:
    """Append the problems of a toleration.

    Stored Gt and Lt are accepted, new ones only with their feature gate (KEP-5471). ``gates`` is None for a stored object.
    """
    operator, gate = toleration.operator, "TaintTolerationComparisonOperators"
    compares = operator in _COMPARISONS
    if compares and gates is not None and not gates.enabled(gate):
        out.append(f"{path}.operator: got {operator}, expected Exists or Equal (the feature gate {gate} is off)")
    elif compares and gates is not None and decimal_int64(toleration.value) is None:
        out.append(f"{path}.value: got {shorten(toleration.value or '')}, expected a whole number with operator {operator}")
    elif not compares:
        check_choice(operator, ("Exists", "Equal"), f"{path}.operator", out, _NO_TAINT)
    check_choice(toleration.effect, EFFECTS, f"{path}.effect", out, _NO_TAINT)


def spec_problems(spec: objects.PodSpec, path: str = "spec", gates: FeatureGates | None = None) -> Problems:
    """Return the problems of a pod's spec except its affinity and volumes.

    Args:
        spec: The spec.
        path: Its path.
        gates: Feature gates of the API server that will receive it; None for a stored object.
    """
    out: Problems = []
    if not spec.containers:
        out.append(f"{path}.containers: missing, expected at least one container")
    names: set[str] = set()
    entries = {entry.name for entry in spec.resourceClaims or ()}
    for field, containers in (("containers", spec.containers), ("initContainers", spec.initContainers)):
        for index, container in enumerate(containers or ()):
            where = f"{path}.{field}[{index}]"
            _container(container, where, out)
            if gates is not None:
                _named_claims(container, entries, where, out)
            if container.name:
                if container.name in names:
                    out.append(f"{where}.name: {shorten(container.name)} is taken, expected a unique name within the pod")
                names.add(container.name)
    check_range(spec.priority, -MAX_INT32 - 1, MAX_INT32, f"{path}.priority", out)
    _requirements(spec.resources, f"{path}.resources", out)
    check_resources(spec.overhead, f"{path}.overhead", out)
    for index, toleration in enumerate(spec.tolerations or ()):
        check_toleration(toleration, f"{path}.tolerations[{index}]", gates, out)
    _spread(spec.topologySpreadConstraints, f"{path}.topologySpreadConstraints", out)
    if not out:
        _total(spec, path, out)
    return out


def _named_claims(container: objects.Container, entries: Collection[str], where: str, out: Problems) -> None:
    claims = container.resources.claims if container.resources is not None else None
    for index, claim in enumerate(claims or ()):
        if claim.name not in entries:
            listed = f"expected one of spec.resourceClaims ({', '.join(sorted(entries)) or 'it has none'})"
            out.append(f"{where}.resources.claims[{index}].name: got {shorten(claim.name)}, {listed}")


def _total(spec: objects.PodSpec, path: str, out: Problems) -> None:
    """Append a problem if the pod's totals exceed 64 bits, although each container's amounts fit."""

    def requested(resources: objects.ResourceRequirements) -> objects.ResourceList:
        return {**(resources.limits or {}), **(resources.requests or {})}

    lists = [requested(c.resources) for c in (*(spec.containers or ()), *(spec.initContainers or ())) if c.resources is not None]
    counted = [_counted(raw, _scale(name)) for amounts in (*lists, spec.overhead or {}) for name, raw in amounts.items()]
    if sum(value for value in counted if isinstance(value, int)) <= quantity.INT64_MAX:
        return  # even the sum over all resources fits
    total = defaults.aggregate(spec, requested)
    for name, raw in (spec.overhead or {}).items():
        total[name] = total.get(name, Fraction(0)) + quantity.parse(raw)
    for name, value in total.items():
        if value * _scale(name) > quantity.INT64_MAX:
            out.append(f"{path}.containers: the total of {name} exceeds 64 bits, expected less")


def check_claim_spec(spec: objects.PersistentVolumeClaimSpec | None, path: str, out: Problems) -> None:
    if spec is not None:
        check_resources(spec.resources.requests if spec.resources else None, f"{path}.resources.requests", out)
        check_label_selector(spec.selector, f"{path}.selector", out)


def volume_problems(volumes: list[objects.Volume] | None, path: str = "spec.volumes") -> Problems:
    """Return the problems of a pod's volumes. Only the claim templates of ephemeral volumes are checked."""
    out: Problems = []
    for index, volume in enumerate(volumes or ()):
        template = volume.ephemeral.volumeClaimTemplate if volume.ephemeral else None
        if template is not None:
            check_claim_spec(template.spec, f"{path}[{index}].ephemeral.volumeClaimTemplate.spec", out)
    return out


def status_problems(status: objects.PodStatus | None) -> Problems:
    """Return the problems of the resources that a running pod's status reports."""
    out: Problems = []
    if status is not None:
        for field in ("containerStatuses", "initContainerStatuses"):
            for index, container in enumerate(getattr(status, field) or ()):
                check_resources(container.allocatedResources, f"status.{field}[{index}].allocatedResources", out)
                _requirements(container.resources, f"status.{field}[{index}].resources", out)
    return out
