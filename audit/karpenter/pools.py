"""Reader of NodePools, with the validation of the API server.

Source: https://github.com/kubernetes-sigs/karpenter, pkg/apis/v1/nodepool.go (defaults and validation are in its
markers).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from kubestow.audit.karpenter import schedule
from kubestow.models.documents import settings_file
from kubestow.models.kube import quantity
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.objects import Taint
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.snapshot import sources, yaml_reader
from kubestow.models.snapshot.snapshot import InputError

API_VERSION: Final = "karpenter.sh/v1"
POOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INITIALIZED: Final = "karpenter.sh/initialized"
Reason = Literal["Empty", "Underutilized"]
_REASONS: Final = ("Empty", "Underutilized", "Drifted")
_POLICIES: Final = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
_NODES: Final = re.compile(r"((100|[0-9]{1,2})%|[0-9]+)\Z", re.ASCII)
_AFTER: Final = re.compile(r"(([0-9]+[smh])+|Never)\Z", re.ASCII)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")


class _ManifestPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base class that skips unknown fields, such as those of future nodes."""


class Budget(_ManifestPart, frozen=True):
    """Number of nodes that may be disrupted at once, and when this limit applies."""

    nodes: str = "10%"
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: str | None = None


class Disruption(_ManifestPart, frozen=True):
    """Disruption settings of a pool."""

    consolidateAfter: str = "0s"
    consolidationPolicy: str = "WhenEmptyOrUnderutilized"
    budgets: tuple[Budget, ...] = (Budget(),)


class PoolRequirement(_ManifestPart, frozen=True):
    """Allowed values of a node label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    minValues: int | None = None

    def allows(self, value: str | None) -> bool:
        """Return True if a node with this value is allowed. None: the node lacks the label."""
        if self.operator in ("In", "NotIn"):
            return (value in self.values) == (self.operator == "In")
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) == (self.operator == "Exists")
        if value is None or not value.isdigit():
            return False
        number, limit = int(value), int(self.values[0])
        return {"Gt": number > limit, "Gte": number >= limit, "Lt": number < limit, "Lte": number <= limit}[self.operator]


class TemplateMeta(_ManifestPart, frozen=True):
    """Metadata of future nodes."""

    labels: dict[str, str] = {}


class TemplateSpec(_ManifestPart, frozen=True):
    """Spec of future nodes."""

    requirements: tuple[PoolRequirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    startupTaints: tuple[Taint, ...] = ()


class PoolTemplate(_ManifestPart, frozen=True):
    """Template of future nodes."""

    metadata: TemplateMeta = TemplateMeta()
    spec: TemplateSpec = TemplateSpec()


class Meta(_ManifestPart, frozen=True):
    """Metadata of a pool."""

    name: str = ""


class Spec(_ManifestPart, frozen=True):
    """Spec of a pool."""

    template: PoolTemplate = PoolTemplate()
    disruption: Disruption = Disruption()
    limits: dict[str, str | int | float] = {}
    weight: int | None = None
    replicas: int | None = None


class NodePool(_ManifestPart, frozen=True):
    """A NodePool."""

    metadata: Meta = Meta()
    spec: Spec = Spec()

    @property
    def name(self) -> str:
        """The name of the pool."""
        return self.metadata.name

    @property
    def spot(self) -> bool:
        """True if its nodes may be spot nodes."""
        requirements = [each for each in self.spec.template.spec.requirements if each.key == CAPACITY_TYPE]
        return all(each.allows("spot") for each in requirements)

    @property
    def off(self) -> bool:
        """True if consolidation is off."""
        return self.spec.disruption.consolidateAfter == "Never"


@dataclass(frozen=True)
class NodePools:
    """NodePools by name, in the order of the files.

    Attributes:
        named: The pools.
        time: Capture time of the snapshot, in seconds since 1970. None if unknown.
        not_modelled: Parts that are not simulated, one sentence each.
    """

    named: dict[str, NodePool]
    time: int | None = None
    not_modelled: list[str] = field(default_factory=list)

    def allowed(self, pool: NodePool, nodes: int, reason: Reason) -> int:
        """Return the number of nodes that the budgets of a pool with ``nodes`` nodes allow to disrupt at once.

        Without a known time, every schedule counts as active.
        """
        least = nodes
        for budget in pool.spec.disruption.budgets:
            if budget.reasons is not None and reason not in budget.reasons:
                continue
            if budget.schedule is not None and self.time is not None and not schedule.active(budget.schedule, budget.duration, self.time):
                continue
            share = budget.nodes
            least = min(least, -(-int(share[:-1]) * nodes // 100) if share.endswith("%") else int(share))
        return least


def read(paths: Sequence[str], captured: str) -> NodePools:
    """Read NodePools. A file may contain several, or Lists.

    Args:
        paths: The files.
        captured: Capture time of the snapshot in RFC 3339, or empty.

    Raises:
        InputError: A file cannot be read, or an API server would reject it; one line per problem.
    """
    problems: list[str] = []
    ignored: list[str] = []
    named: dict[str, NodePool] = {}
    for path in paths:
        found = 0
        for where, plain in _documents(path):
            if _is_class(plain):
                ignored.append(f"{plain['kind']} {shorten((plain.get('metadata') or {}).get('name'))}: node classes are not read")
                continue
            found += 1
            pool = _pool(where, plain, problems)
            if pool is not None and pool.name in named:
                problems.append(f"{where}: NodePool {pool.name}: duplicate, expected one")
            elif pool is not None:
                named[pool.name] = pool
        if not found:
            problems.append(f"{sources.label(path)}: holds no NodePool, expected {API_VERSION} NodePool")
    if problems:
        raise InputError(problems)
    time = schedule.seconds(captured)
    return NodePools(named, time, [*_not_modelled(named.values(), time), *dict.fromkeys(ignored)])


def _is_class(plain: Any) -> bool:
    """Return True if a document is a NodeClass of a provider, which is often in the same file as its NodePools."""
    version, kind = (plain.get("apiVersion"), plain.get("kind")) if isinstance(plain, dict) else (None, None)
    group = version.partition("/")[0] if isinstance(version, str) else ""
    return "karpenter" in group and isinstance(kind, str) and kind.endswith("NodeClass") and isinstance(plain.get("metadata") or {}, dict)


def _documents(path: str) -> Iterator[tuple[str, Any]]:
    label = sources.label(path)
    try:
        listed = [each for each in yaml_reader.documents(sources.read(path)) if each is not None]
    except (yaml_reader.YamlError, ValueError) as error:
        raise InputError([f"{label}: {error}"]) from error
    for each in listed:
        items = each.get("items") if isinstance(each, dict) and str(each.get("kind", "")).endswith("List") else None
        for item in items if isinstance(items, list) else [each]:
            yield label, item


def _pool(where: str, plain: Any, problems: list[str]) -> NodePool | None:
    version, kind = (plain.get("apiVersion"), plain.get("kind")) if isinstance(plain, dict) else (None, None)
    if version != API_VERSION or kind != "NodePool":
        problems.append(f"{where}: apiVersion {version!r}, kind {kind!r}: expected {API_VERSION}, NodePool")
        return None
    try:
        pool = settings_file.fitted(where, plain, NodePool)
    except InputError as error:
        problems += error.problems
        return None
    wrong = list(_wrong(pool))
    problems += [f"{where}: NodePool {pool.name or '?'}: {text}" for text in wrong]
    return None if wrong else pool


def _wrong(pool: NodePool) -> Iterator[str]:
    if not pool.name:
        yield "metadata.name: missing, expected the value of the nodes' label karpenter.sh/nodepool"
    disruption = pool.spec.disruption
    if disruption.consolidationPolicy not in _POLICIES:
        yield f"spec.disruption.consolidationPolicy: {disruption.consolidationPolicy!r} (expected one of {', '.join(_POLICIES)})"
    if not _AFTER.match(disruption.consolidateAfter):
        yield f"spec.disruption.consolidateAfter: {disruption.consolidateAfter!r} (expected a duration such as 30s, or Never)"
    for k, budget in enumerate(disruption.budgets):
        at = f"spec.disruption.budgets[{k}]"
        if not _NODES.match(budget.nodes):
            yield f"{at}.nodes: {budget.nodes!r} (expected a number or a percentage)"
        yield from (
            f"{at}.reasons: {each!r} (expected one of {', '.join(_REASONS)})" for each in budget.reasons or () if each not in _REASONS
        )
        if (budget.schedule is None) != (budget.duration is None):
            yield f"{at}: schedule and duration must be set together"
        elif budget.schedule is not None and (problem := schedule.problem(budget.schedule, budget.duration)):
            yield f"{at}.{problem}"
    for name, limit in pool.spec.limits.items():
        try:
            quantity.parse(limit)
        except QuantityError as error:
            yield f"spec.limits.{name}: {error}"
    for each in pool.spec.template.spec.requirements:
        number = each.operator in ("Gt", "Lt", "Gte", "Lte")
        if each.operator not in _OPERATORS or (each.operator == "In" and not each.values):
            yield f"spec.template.spec.requirements: {each.key}: {each.operator} {list(each.values)} is not valid"
        elif number and not (len(each.values) == 1 and each.values[0].isdigit()):
            yield f"spec.template.spec.requirements: {each.key}: {each.operator} takes one whole number"


def _not_modelled(pools: Iterable[NodePool], time: int | None) -> Iterator[str]:
    for pool in pools:
        disruption = pool.spec.disruption
        if disruption.consolidateAfter not in ("0s", "Never"):
            yield f"NodePool {pool.name}: consolidateAfter {disruption.consolidateAfter}: all nodes count as unchanged for that long"
        if disruption.consolidationPolicy == "Balanced":
            yield f"NodePool {pool.name}: consolidationPolicy Balanced: treated as WhenEmptyOrUnderutilized, without its scores"
        if time is None and any(budget.schedule is not None for budget in disruption.budgets):
            yield f"NodePool {pool.name}: budgets with a schedule: all count as active: the snapshot has no time (see kubestow capture)"
        if any(each.minValues is not None for each in pool.spec.template.spec.requirements):
            yield f"NodePool {pool.name}: minValues of requirements"
