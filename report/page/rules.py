"""The rules of a pod as sentences, each with the scheduler plugin or object kind that enforces it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kubestow.models.cluster.default_spread import DefaultSpread
from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import preferred_terms, required_terms
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT, Selector, Tolerations, canonical, label_key_requirements, selector_matches
from kubestow.models.numa.annotations import has_hints
from kubestow.models.numa.container_affinity import AffinityEntry, AnnotationError, parse
from kubestow.models.numa.container_expressions import Expression
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.page import pod_requirements, words
from kubestow.report.page.pod_requirements import PodRule
from kubestow.report.page.ties import SelectorTerm, Ties

#: Tolerations that the API server adds to every pod.
_ALWAYS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Rules:
    """The rules in the specs of pods, computed once for pods that share parts."""

    def __init__(self, snapshot: Snapshot, ties: Ties, policy: Policy) -> None:
        self._ties, self._policy = ties, policy
        self._taints, self._gates = _distinct_taints(snapshot), snapshot.gates
        self._defaults = DefaultSpread(snapshot, policy)
        self._memo: dict[tuple[Any, ...], list[PodRule]] = {}

    def of(self, pod: Pod, request: dict[str, int]) -> list[PodRule]:
        """Return all rules except volumes, gangs, budgets and rules of other pods.

        ``request`` is that of :func:`kubestow.models.kube.pod_requests.pod_request`.
        """
        spec, labels, namespace = pod.spec, pod.metadata.labels, pod.metadata.namespace
        return [
            *pod_requirements.priority(spec),
            *pod_requirements.gates(spec),
            *self._once(
                ("request", *sorted(request.items()), id(spec.overhead), id(spec.resources)),
                lambda: pod_requirements.resources(request, spec),
            ),
            *self._once(("select", id(spec.nodeSelector)), lambda: pod_requirements.node_selector(spec)),
            *self._once(("nodes", id(spec.affinity), pod_requirements.daemon(pod)), lambda: pod_requirements.node_affinity(pod)),
            *pod_requirements.features(spec, self._gates),
            *pod_requirements.operating_system(spec),
            *self._once(("tolerates", id(spec.tolerations)), lambda: self._tolerations(spec)),
            *self._once(("pods", id(spec.affinity), namespace, id(labels)), lambda: self._pod_affinity(pod)),
            *self._once(
                ("spread", id(spec.topologySpreadConstraints), namespace, id(labels), id(pod.metadata.ownerReferences)),
                lambda: self._spread(pod),
            ),
            *pod_requirements.claims(spec),
            *self._once(("ports", id(spec.containers), id(spec.initContainers)), lambda: pod_requirements.ports(spec)),
            *self._once(("hints", id(pod.metadata.annotations), id(spec.containers)), lambda: self._hints(pod)),
        ]

    def _once(self, key: tuple[Any, ...], work: Callable[[], Iterable[PodRule]]) -> list[PodRule]:
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = list(work())
        return found

    # --- taints -------------------------------------------------------------------------------------------------------

    def _tolerations(self, spec: objects.PodSpec) -> Iterator[PodRule]:
        """Yield the tolerations for taints of this cluster."""
        given = [t for t in spec.tolerations or () if t.key not in _ALWAYS]
        if any((t.operator == "Exists") and not t.key and not t.effect for t in given):
            yield PodRule("TaintToleration", "tolerates every taint")
            return
        covered = Tolerations(given, self._gates)
        found = [taint for taint in self._taints if covered.cover(taint)]
        if found:
            yield PodRule("TaintToleration", f"may run on nodes tainted {words.listed([words.taint(taint) for taint in found])}")

    # --- other pods ---------------------------------------------------------------------------------------------------

    def _pod_affinity(self, pod: Pod) -> Iterator[PodRule]:
        if pod.spec.affinity is None:
            return
        first = self._may_be_first(pod)
        for kind, must, wish, more in (
            ("podAffinity", "only {}", "prefers {}", ", unless it is the first such pod" if first else ""),
            ("podAntiAffinity", "never {}", "avoids {}", ""),
        ):
            part: objects.PodAffinity | None = getattr(pod.spec.affinity, kind)
            stays = (part.requiredDuringSchedulingRequiredDuringExecution if part is not None else None) or []
            for term in required_terms(pod, kind):
                found = self._term(pod, term, must)
                # By identity, because a term may be in both lists.
                yield found._replace(text=f"{found.text}{more}{', also while it runs' if any(term is each for each in stays) else ''}")
            for weighted in preferred_terms(pod, kind):
                found = self._term(pod, weighted.podAffinityTerm, wish)
                yield found._replace(text=f"{found.text} (weight {weighted.weight})")

    def _may_be_first(self, pod: Pod) -> bool:
        """Return True if its affinity holds before any pod matches, because it matches all its own terms
        (interpodaffinity, satisfyPodAffinity).
        """
        matched = [self._ties.term(pod, term) for term in required_terms(pod, "podAffinity")]
        return bool(matched) and all(each is not None and self._matches(pod, each) for each in matched)

    def _term(self, pod: Pod, term: objects.PodAffinityTerm, form: str) -> PodRule:
        where = words.one_domain(term.topologyKey)
        if form.startswith(("only", "never")):
            where = f"{words.preposition(term.topologyKey)} {where}"
        matched = self._ties.term(pod, term)
        if matched is None:
            return PodRule("InterPodAffinity", f"{form.format(where)} with pods of a missing selector, which matches none")
        own = pod.metadata.namespace or "default"
        whom = words.pods(matched.selector, matched.namespaces, own, others=self._matches(pod, matched))
        return PodRule("InterPodAffinity", f"{form.format(where)} with {whom}", self._ties.workloads(matched.namespaces, matched.selector))

    @staticmethod
    def _matches(pod: Pod, term: SelectorTerm) -> bool:
        """Return True if a pod matches a term of its own."""
        own = pod.metadata.namespace or "default"
        return (term.namespaces is None or own in term.namespaces) and selector_matches(term.selector, pod.metadata.labels or {})

    def _spread(self, pod: Pod) -> Iterator[PodRule]:
        own = pod.metadata.namespace or "default"
        for constraint in pod.spec.topologySpreadConstraints or ():
            extra = label_key_requirements(pod.metadata.labels or {}, constraint.matchLabelKeys)
            selector = canonical(constraint.labelSelector, extra)
            least = f", with at least {constraint.minDomains}" if constraint.minDomains is not None else ""
            whom = words.pods(selector, frozenset((own,)), own) if selector else "pods of a missing selector, which counts none,"
            where = f"{words.domains(constraint.topologyKey)}{least}{_counted(constraint)}"
            what = f"{whom} differ by at most {constraint.maxSkew} between {where}"
            hard = constraint.whenUnsatisfiable == "DoNotSchedule"
            yield PodRule("PodTopologySpread", what if hard else f"prefers that {what}", self._tied(own, selector))
        defaults = [constraint for constraint, _ in self._defaults.of(pod)]
        if defaults:
            selector = canonical(defaults[0].labelSelector)
            whom = words.pods(selector or (), frozenset((own,)), own)
            levels = " and ".join(f"{c.maxSkew} between {words.domains(c.topologyKey)}" for c in defaults)
            text = f"prefers, by the cluster's default, that {whom} differ by at most {levels}"
            yield PodRule("PodTopologySpread", text, self._tied(own, selector))

    def _tied(self, own: str, selector: Selector | None) -> tuple[int, ...] | None:
        """Return the workloads that a selector matches in the pod's namespace. Constraints without a selector count no pods."""
        return self._ties.workloads(frozenset((own,)), selector) if selector else None

    # --- container affinity -------------------------------------------------------------------------------------------

    def _hints(self, pod: Pod) -> Iterator[PodRule]:
        if not has_hints(pod) or not self._policy.multipliers.containerAffinity:
            return
        try:
            found = parse(pod, symmetric=self._policy.shorthand == "symmetric")
        except AnnotationError as error:
            yield PodRule("ContainerAffinity", f"invalid: {error}")
            return
        for entry in found.entries:
            yield PodRule("ContainerAffinity", _entry(entry))


def _counted(constraint: objects.TopologySpreadConstraint) -> str:
    """Return the counted nodes of a constraint if they differ from the default: nodes that node affinity allows, regardless of taints."""
    more = "those that its node affinity excludes" if constraint.nodeAffinityPolicy == "Ignore" else ""
    less = "those whose taints it does not tolerate" if constraint.nodeTaintsPolicy == "Honor" else ""
    return (f", nodes count with {more}" if more else "") + (f", {'and' if more else 'nodes count'} without {less}" if less else "")


def _entry(entry: AffinityEntry) -> str:
    where = "of its pod" if entry.scope is None else f"of pods where {_expression(entry.scope)}"
    if entry.scope is not None and entry.scope.operator == "AlwaysTrue":
        where = "of any pod"
    what = "every container" if entry.match.operator == "AlwaysTrue" else f"containers where {_expression(entry.match)}"
    wish = "close to" if entry.weight >= 0 else "away from"
    return f"container {entry.container} wants to be {wish} {what} {where} (weight {abs(entry.weight)})"


def _expression(found: Expression) -> str:
    values = f" {words.listed(found.values)}" if found.values else ""
    return f"{found.key} {found.operator}{values}".strip()


def _distinct_taints(snapshot: Snapshot) -> list[objects.Taint]:
    found: dict[tuple[str, str | None, str], objects.Taint] = {}
    for node in snapshot.nodes:
        spec = node.spec
        if spec is not None:
            for taint in (*(spec.taints or ()), *((UNSCHEDULABLE_TAINT,) if spec.unschedulable else ())):
                found.setdefault((taint.key, taint.value, taint.effect), taint)
    return list(found.values())
