"""Budgets that wait for pods which are pending because nodes are closed. The wave is interrupted for them, since waiting cannot help."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import msgspec

from kubestow.live.api.answers import Object, ServerAnswer
from kubestow.live.apply.moving.work import StepContext
from kubestow.live.apply.pod_locations import key_of
from kubestow.live.apply.steps import RunStep
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import LabelSelector
from kubestow.models.kube.selectors import Selector, canonical, selector_matches


def by_budget(answer: ServerAnswer) -> bool:
    """Return True if a budget refused the eviction, not an overloaded server."""
    details = answer.body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return answer.code == 429 and any(isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget" for cause in causes or ())


def awaited(steps: Iterable[RunStep], work: StepContext) -> list[str]:
    """Return the names of pending foreign pods that the budgets of these steps' pods select."""
    pods = [pod for step in steps if step.source is not None and (pod := work.cluster.pod(work.where.of[step.pod].uid)) is not None]
    foreign = work.foreign().values()
    budgets = list(_budgets(pods, work)) if foreign else []
    return sorted(key_of(pod) for pod in foreign if any(_counts(budget, pod) for budget in budgets))


def waits_for(steps: Iterable[RunStep], work: StepContext) -> str:
    """Return the end of a sentence that names these pods; empty without any."""
    found = awaited(steps, work)
    if not found:
        return ""
    return f"; the budget waits for {'pod' if len(found) == 1 else 'pods'} {some(found)} without a node"


def first_try(steps: Iterable[RunStep], work: StepContext) -> float:
    """Return the time of the first attempt at one of these steps; now if there was none."""
    return min((work.tried[step.id] for step in steps if step.id in work.tried), default=time.monotonic())


def _budgets(pods: list[Object], work: StepContext) -> Iterator[tuple[str, Selector]]:
    for budget in work.cluster.objects("PodDisruptionBudget").values():
        given = (budget.get("spec") or {}).get("selector")
        selector = canonical(msgspec.convert(given, LabelSelector)) if given is not None else None
        found = (budget["metadata"].get("namespace") or "default", selector)
        if selector is not None and any(_counts((found[0], selector), pod) for pod in pods):
            yield found[0], selector


def _counts(budget: tuple[str, Selector], pod: Object) -> bool:
    namespace, selector = budget
    labels = pod["metadata"].get("labels") or {}
    return namespace == key_of(pod).partition("/")[0] and selector_matches(selector, labels)
