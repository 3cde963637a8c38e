"""PodDisruptionBudgets that block every drain, protect nothing, or conflict with each other.

Sources: pkg/controller/disruption/disruption.go and pkg/registry/core/pod/storage/eviction.go of Kubernetes, as in
models.disruption.pod_disruption_budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.label_matches import custom_maker
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget, budgets, ignores_budgets, is_ready
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube import objects, workload_objects
from kubestow.models.kube.selectors import Selector, canonical, selector_matches
from kubestow.models.workloads.checks import describe
from kubestow.models.workloads.deployment_rollout import scaled

#: Controllers with a scale subresource, and controllers that certainly have none. Others may have one.
SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
UNSCALED: Final = ("DaemonSet", "Job", "CronJob", "Node")

NEVER: Final = Code(
    "KS601", "budget-allows-none", "warning", "A PodDisruptionBudget allows no eviction even if all pods are ready",
    "Drains of the nodes that run its pods hang, and so do cluster upgrades, until the pods are deleted manually.",
    "Allow at least one eviction: set maxUnavailable to 1, or minAvailable below the number of replicas.",
)  # fmt: skip
NOW: Final = Code(
    "KS602", "budget-allows-none-now", "warning", "A PodDisruptionBudget allows no eviction now, because too few pods are ready",
    "Drains of the nodes that run its pods hang until more pods are ready.",
    "Find out why the pods are not ready. unhealthyPodEvictionPolicy AlwaysAllow permits evicting at least the unready ones.",
)  # fmt: skip
SINGLE: Final = Code(
    "KS603", "budget-of-single-replica", "warning", "A PodDisruptionBudget protects the only replica of its workload",
    "A drain of its node hangs until the pod is deleted manually.",
    "Run two replicas, or delete the budget (maxUnavailable 1 has the same effect).",
)  # fmt: skip
DEAD: Final = Code(
    "KS604", "budget-selects-nothing", "warning", "A PodDisruptionBudget selects no pod",
    "It protects nothing. The intended pods, if any exist, have other labels.",
    "Compare spec.selector with the labels of the pods, or delete the budget.",
)  # fmt: skip
SEVERAL: Final = Code(
    "KS605", "pod-under-several-budgets", "error", "Several PodDisruptionBudgets select the same pod",
    "The Eviction API refuses to evict such a pod, so drains fail.",
    "Make the selectors disjoint, or delete all but one of the budgets.",
)  # fmt: skip
NO_SCALE: Final = Code(
    "KS606", "budget-without-scale", "error",
    "A PodDisruptionBudget uses maxUnavailable or a percentage for pods without a scalable controller",
    "The disruption controller cannot determine the desired number of pods, so it allows no eviction.",
    "Set minAvailable to a number of pods.",
)  # fmt: skip
ALL: Final = Code(
    "KS607", "budget-allows-all", "info", "A PodDisruptionBudget allows evicting all replicas of a workload at once",
    "It protects nothing: simultaneous drains of several nodes may evict every replica.",
    "Lower maxUnavailable below the number of replicas, or raise minAvailable above 0.",
)  # fmt: skip
UNCLEAR: Final = Code(
    "KS608", "budget-unclear", "error", "A PodDisruptionBudget sets both minAvailable and maxUnavailable, or neither",
    "With both, API servers reject it. With neither, it allows no eviction.",
    "Set only one of the two fields.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (NEVER, NOW, SINGLE, DEAD, SEVERAL, NO_SCALE, ALL, UNCLEAR)


def check(view: ClusterView) -> Iterator[Finding]:
    if not view.snapshot.pod_disruption_budgets:
        return
    running = {budget.name: budget for budget in budgets(view.snapshot)}
    subjects: dict[str, list[Subject]] = {}
    for subject in view.subjects:
        subjects.setdefault(subject.namespace, []).append(subject)
    several: dict[str, tuple[Subject, list[str]]] = {}
    for budget in view.snapshot.pod_disruption_budgets:
        namespace = budget.metadata.namespace or "default"
        name = f"{namespace}/{budget.metadata.name or ''}"
        selector = canonical((budget.spec or workload_objects.PodDisruptionBudgetSpec()).selector)
        chosen = [s for s in subjects.get(namespace, ()) if selector_matches(selector, s.labels)]
        for subject in chosen:
            if not subject.pods:
                several.setdefault(subject.name, (subject, []))[1].append(name)
        yield from _one(view, budget, selector, chosen, running.get(name))
    yield from _several(view, running.values(), several)


def _one(
    view: ClusterView,
    budget: workload_objects.PodDisruptionBudget,
    selector: Selector | None,
    chosen: list[Subject],
    running: DisruptionBudget | None,
) -> Iterator[Finding]:
    spec = budget.spec or workload_objects.PodDisruptionBudgetSpec()
    name = f"PodDisruptionBudget {budget.metadata.namespace or 'default'}/{budget.metadata.name or ''}"
    if (spec.minAvailable is None) == (spec.maxUnavailable is None):
        both = "neither minAvailable nor maxUnavailable is" if spec.minAvailable is None else "both minAvailable and maxUnavailable are"
        yield UNCLEAR.found(name, f"{both} set", field="spec")
        return
    if running is None and not chosen:
        namespace = budget.metadata.namespace or "default"
        missed = not view.audience.anyone(selector, [namespace])
        maker = custom_maker(view.snapshot, namespace, selector or ()) if missed else None
        if maker is not None:
            view.not_checked.append(f"whether {name} selects pods that {maker} creates")
        elif missed:
            what = "without a selector" if selector is None else f"{describe(selector) or 'an empty selector'}"
            yield DEAD.found(name, f"{what} selects no pod and no pod template in its namespace", field="spec.selector")
        return
    pods = view.keys(running.pods) if running is not None else []
    who = [subject.name for subject in chosen]
    field = "maxUnavailable" if spec.maxUnavailable is not None else "minAvailable"
    given: int | str = getattr(spec, field)
    stated = budget.status.disruptionsAllowed if budget.status is not None else None
    counted = field == "minAvailable" and isinstance(given, int)
    odd = [s.name for s in chosen if s.kind in UNSCALED] or (who if who and all(s.kind == "Pod" for s in chosen) else [])
    if odd and not counted and not stated:
        text = f"{field} {given} needs the number of pods of {some(odd)}, which has no scale"
        yield NO_SCALE.found(name, text, field=f"spec.{field}", pods=pods)
        return
    scale = sum(subject.wanted for subject in chosen)
    plain = bool(chosen) and all(subject.kind in SCALED for subject in chosen)
    if field == "maxUnavailable" and scaled(given, 100, up=True) == 0:
        yield NEVER.found(
            name, f"maxUnavailable {given} allows no eviction of {some(who) or 'its pods'}", field="spec.maxUnavailable", pods=pods
        )
        return
    if plain and scale:
        number = scaled(given, scale, up=True)
        kept = number if field == "minAvailable" else scale - number
        if kept >= scale:
            code = SINGLE if scale == 1 else NEVER
            text = f"{field} {given} keeps {min(number, scale)} of {scale} replica{'s' * (scale > 1)} of {some(who)}"
            yield code.found(name, text, field=f"spec.{field}", pods=pods)
            return
        if kept <= 0 and scale > 1:
            text = f"{field} {given} allows evicting all {scale} replicas of {some(who)}"
            yield ALL.found(name, text, field=f"spec.{field}", pods=pods)
            return
    known = stated is not None or counted or plain  # otherwise an unknown controller may have a scale
    if known and running is not None and running.allowed == 0 and set(running.pods) - running.free:
        ready = sum(is_ready(view.snapshot.pods[i]) for i in running.pods)
        text = f"{field} {given}; {ready} of the {len(running.pods)} running pods that it selects are ready"
        if plain and scale > len(running.pods):
            text += f", and {scale} are wanted"
        yield NOW.found(name, text, field=f"spec.{field}", pods=pods)


def _several(view: ClusterView, running: Iterable[DisruptionBudget], planned: dict[str, tuple[Subject, list[str]]]) -> Iterator[Finding]:
    """Yield findings for pods under several budgets. ``planned`` holds the budgets of workloads without pods yet."""
    of: dict[int, list[str]] = {}
    for budget in running:
        for i in budget.pods:
            of.setdefault(i, []).append(budget.name)
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for i, names in of.items():
        if len(names) > 1 and not ignores_budgets(view.snapshot.pods[i]):
            subject = view.subject_of.get(i)
            owner = subject.name if subject is not None else f"Pod {objects.pod_key(view.snapshot.pods[i])}"
            found.setdefault((owner, tuple(names)), []).append(i)
    for (owner, several), pods in found.items():
        text = f"{len(pods)} pod{'s are' if len(pods) > 1 else ' is'} under the budgets {some(several)}"
        path = subject.path if (subject := view.subject_of.get(pods[0])) is not None else "spec"
        yield SEVERAL.found(owner, text, field=_labels(path), pods=view.keys(pods))
    for subject, names in planned.values():
        if len(names) > 1:
            yield SEVERAL.found(subject.name, f"its pods will be under the budgets {some(names)}", field=_labels(subject.path))


def _labels(path: str) -> str:
    """Return the labels field that belongs to the pod spec at ``path``."""
    return f"{path.rpartition('spec')[0]}metadata.labels"
