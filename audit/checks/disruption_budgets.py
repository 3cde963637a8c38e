"""PodDisruptionBudgets that block every drain, guard nothing, or get in each other's way.

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

#: Controllers with a scale, and those that certainly have none; others may have a scale subresource.
SCALED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
UNSCALED: Final = ("DaemonSet", "Job", "CronJob", "Node")

NEVER: Final = Code(
    "KS601", "budget-allows-none", "warning", "A PodDisruptionBudget that allows no eviction even while all pods are ready",
    "Drains of the nodes that its pods run on hang, and with them upgrades of the cluster, until somebody deletes pods by hand.",
    "Allow at least one: maxUnavailable 1, or minAvailable below the number of replicas.",
)  # fmt: skip
NOW: Final = Code(
    "KS602", "budget-allows-none-now", "warning", "A PodDisruptionBudget that allows no eviction now, as too few pods are ready",
    "Drains of the nodes that its pods run on hang until more of them are ready.",
    "See why the pods are not ready; unhealthyPodEvictionPolicy AlwaysAllow lets at least those go.",
)  # fmt: skip
SINGLE: Final = Code(
    "KS603", "budget-of-single-replica", "warning", "A PodDisruptionBudget that keeps the only replica of its workload",
    "The drain of the node that it runs on hangs until somebody deletes the pod by hand.",
    "Run two replicas, or delete the budget (maxUnavailable 1 says the same).",
)  # fmt: skip
DEAD: Final = Code(
    "KS604", "budget-selects-nothing", "warning", "A PodDisruptionBudget that selects no pod",
    "It guards nothing: the pods that it is meant for, if there are any, carry other labels.",
    "Compare spec.selector with the labels of the pods, or delete the budget.",
)  # fmt: skip
SEVERAL: Final = Code(
    "KS605", "pod-under-several-budgets", "error", "A pod that several PodDisruptionBudgets select",
    "The Eviction API refuses to evict such a pod at all, so that drains fail.",
    "Let one budget select the pod: make the selectors disjoint, or delete one of them.",
)  # fmt: skip
NO_SCALE: Final = Code(
    "KS606", "budget-without-scale", "error",
    "A PodDisruptionBudget in maxUnavailable or percent over pods whose number no controller states",
    "The disruption controller cannot tell how many pods there are to be, and allows no eviction.",
    "State minAvailable as a number of pods.",
)  # fmt: skip
ALL: Final = Code(
    "KS607", "budget-allows-all", "info", "A PodDisruptionBudget that lets all pods of a workload with several replicas go at once",
    "It guards nothing: drains of several nodes at a time may take every replica.",
    "Lower maxUnavailable below the number of replicas, or raise minAvailable above 0.",
)  # fmt: skip
UNCLEAR: Final = Code(
    "KS608", "budget-unclear", "error", "A PodDisruptionBudget that states both minAvailable and maxUnavailable, or neither",
    "With both, no API server takes it; with neither, it allows no eviction.",
    "State one of them.",
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
        yield UNCLEAR.found(name, f"{both} stated", field="spec")
        return
    if running is None and not chosen:
        namespace = budget.metadata.namespace or "default"
        missed = not view.audience.anyone(selector, [namespace])
        maker = custom_maker(view.snapshot, namespace, selector or ()) if missed else None
        if maker is not None:
            view.not_checked.append(f"whether {name} selects pods that {maker} makes")
        elif missed:
            what = "without a selector" if selector is None else f"{describe(selector) or 'an empty selector'}"
            yield DEAD.found(name, f"{what} selects no pod of its namespace, nor what a workload there makes", field="spec.selector")
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
            text = f"{field} {given} lets all {scale} replicas of {some(who)} go"
            yield ALL.found(name, text, field=f"spec.{field}", pods=pods)
            return
    known = stated is not None or counted or plain  # else an unknown controller may have a scale
    if known and running is not None and running.allowed == 0 and set(running.pods) - running.free:
        ready = sum(is_ready(view.snapshot.pods[i]) for i in running.pods)
        text = f"{field} {given}; {ready} of the {len(running.pods)} running pods that it selects are ready"
        if plain and scale > len(running.pods):
            text += f", and {scale} are wanted"
        yield NOW.found(name, text, field=f"spec.{field}", pods=pods)


def _several(view: ClusterView, running: Iterable[DisruptionBudget], planned: dict[str, tuple[Subject, list[str]]]) -> Iterator[Finding]:
    """``planned``: budgets by workload, of those without pods yet."""
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
    """Return the labels of the pods whose spec is at a field."""
    return f"{path.rpartition('spec')[0]}metadata.labels"
