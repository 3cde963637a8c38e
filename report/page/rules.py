"""The rules of a pod in words: each sentence under the name of the scheduler plugin (or object kind) that keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from models import kube, requests
from models.annotations import has_hints
from models.compile import host_ports, preferred_terms, required_terms
from models.container_affinity import AnnotationError, Entry, parse
from models.container_expressions import Expression
from models.default_spread import DefaultSpread
from models.kube import Pod
from models.policy import Policy
from models.selectors import UNSCHEDULABLE_TAINT, Selector, canonical, label_key_requirements, selector_matches, tolerates
from models.snapshot import Snapshot
from report.page import words
from report.page.ties import Namespaces, Ties

#: Resources that a shape shows apart.
_SHOWN: Final = ("cpu", "memory")
#: Tolerations that the API server gives every pod.
_ALWAYS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Rule(NamedTuple):
    """``rule``: plugin or kind; ``text``: the sentence; ``workloads``: those that its selector matches (None: it has none, or very
    many)."""

    rule: str
    text: str
    workloads: tuple[int, ...] | None = None


class Rules:
    """The rules that pods have of themselves; those of pods that share parts are worked out once."""

    def __init__(self, snapshot: Snapshot, ties: Ties, policy: Policy) -> None:
        self._ties, self._policy = ties, policy
        self._taints = _distinct_taints(snapshot)
        self._defaults = DefaultSpread(snapshot, policy)
        self._memo: dict[tuple[Any, ...], list[Rule]] = {}

    def of(self, pod: Pod, request: dict[str, int]) -> list[Rule]:
        """All of them but volumes, gangs, budgets and what other pods' rules say. ``request``: of :func:`models.requests.pod_request`."""
        spec, labels, namespace = pod.spec, pod.metadata.labels, pod.metadata.namespace
        return [
            *_priority(spec),
            *_gates(spec),
            *self._once(("request", *sorted(request.items()), id(spec.overhead)), lambda: _resources(request, spec)),
            *self._once(("select", id(spec.nodeSelector)), lambda: _node_selector(spec)),
            *self._once(("nodes", id(spec.affinity), _daemon(pod)), lambda: _node_affinity(pod)),
            *self._once(("tolerates", id(spec.tolerations)), lambda: self._tolerations(spec)),
            *self._once(("pods", id(spec.affinity), namespace, id(labels)), lambda: self._pod_affinity(pod)),
            *self._once(
                ("spread", id(spec.topologySpreadConstraints), namespace, id(labels), id(pod.metadata.ownerReferences)),
                lambda: self._spread(pod),
            ),
            *self._once(("ports", id(spec.containers), id(spec.initContainers)), lambda: _ports(spec)),
            *self._once(("hints", id(pod.metadata.annotations), id(spec.containers)), lambda: self._hints(pod)),
        ]

    def _once(self, key: tuple[Any, ...], work: Callable[[], Iterable[Rule]]) -> list[Rule]:
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = list(work())
        return found

    # --- taints -------------------------------------------------------------------------------------------------------

    def _tolerations(self, spec: kube.PodSpec) -> Iterator[Rule]:
        """Those that open nodes of this cluster."""
        given = [t for t in spec.tolerations or () if t.key not in _ALWAYS]
        if any((t.operator == "Exists") and not t.key and not t.effect for t in given):
            yield Rule("TaintToleration", "tolerates every taint")
            return
        found = [taint for taint in self._taints if any(tolerates(t, taint) for t in given)]
        if found:
            yield Rule("TaintToleration", f"may run on nodes tainted {words.listed([words.taint(taint) for taint in found])}")

    # --- other pods ---------------------------------------------------------------------------------------------------

    def _pod_affinity(self, pod: Pod) -> Iterator[Rule]:
        if pod.spec.affinity is None:
            return
        for kind, must, wish in (("podAffinity", "only {}", "prefers {}"), ("podAntiAffinity", "never {}", "avoids {}")):
            for term in required_terms(pod, kind):
                yield self._term(pod, term, must, kind == "podAntiAffinity")
            for weighted in preferred_terms(pod, kind):
                found = self._term(pod, weighted.podAffinityTerm, wish, kind == "podAntiAffinity")
                yield found._replace(text=f"{found.text} (weight {weighted.weight})")

    def _term(self, pod: Pod, term: kube.PodAffinityTerm, form: str, anti: bool) -> Rule:
        where = words.one_domain(term.topologyKey)
        if form.startswith(("only", "never")):
            where = f"{words.preposition(term.topologyKey)} {where}"
        matched = self._ties.term(pod, term)
        if matched is None:
            return Rule("InterPodAffinity", f"{form.format(where)} with pods of a selector that is missing and matches none")
        namespaces, selector = matched
        own = pod.metadata.namespace or "default"
        itself = self._matches(pod, namespaces, selector)
        whom = words.pods(selector, namespaces, own, others=anti and itself)
        return Rule("InterPodAffinity", f"{form.format(where)} with {whom}", self._ties.workloads(namespaces, selector))

    @staticmethod
    def _matches(pod: Pod, namespaces: Namespaces, selector: Selector) -> bool:
        own = pod.metadata.namespace or "default"
        return (namespaces is None or own in namespaces) and selector_matches(selector, pod.metadata.labels or {})

    def _spread(self, pod: Pod) -> Iterator[Rule]:
        own = pod.metadata.namespace or "default"
        for constraint in pod.spec.topologySpreadConstraints or ():
            extra = label_key_requirements(pod.metadata.labels or {}, constraint.matchLabelKeys)
            selector = canonical(constraint.labelSelector, extra)
            least = f", over at least {constraint.minDomains} of them" if constraint.minDomains is not None else ""
            whom = words.pods(selector, frozenset((own,)), own) if selector else "pods of no selector, which counts none,"
            what = f"{whom} differ by at most {constraint.maxSkew} between {words.domains(constraint.topologyKey)}{least}"
            hard = constraint.whenUnsatisfiable == "DoNotSchedule"
            yield Rule("PodTopologySpread", what if hard else f"prefers that {what}", self._tied(own, selector))
        defaults = [constraint for constraint, _ in self._defaults.of(pod)]
        if defaults:
            selector = canonical(defaults[0].labelSelector)
            whom = words.pods(selector or (), frozenset((own,)), own)
            levels = " and ".join(f"{c.maxSkew} between {words.domains(c.topologyKey)}" for c in defaults)
            text = f"prefers, by the cluster's default, that {whom} differ by at most {levels}"
            yield Rule("PodTopologySpread", text, self._tied(own, selector))

    def _tied(self, own: str, selector: Selector | None) -> tuple[int, ...] | None:
        """The workloads that a selector matches in the pod's namespace; constraints without one count no pods."""
        return self._ties.workloads(frozenset((own,)), selector) if selector else None

    # --- container affinity -------------------------------------------------------------------------------------------

    def _hints(self, pod: Pod) -> Iterator[Rule]:
        if not has_hints(pod) or not self._policy.multipliers.containerAffinity:
            return
        try:
            found = parse(pod, symmetric=self._policy.shorthand == "symmetric")
        except AnnotationError as error:
            yield Rule("ContainerAffinity", f"cannot be read: {error}")
            return
        for entry in found.entries:
            yield Rule("ContainerAffinity", _entry(entry))


def _entry(entry: Entry) -> str:
    where = "of its pod" if entry.scope is None else f"of pods where {_expression(entry.scope)}"
    if entry.scope is not None and entry.scope.operator == "AlwaysTrue":
        where = "of any pod"
    what = "every container" if entry.match.operator == "AlwaysTrue" else f"containers where {_expression(entry.match)}"
    wish = "close to" if entry.weight >= 0 else "away from"
    return f"container {entry.container} wants to be {wish} {what} {where} (weight {abs(entry.weight)})"


def _expression(found: Expression) -> str:
    values = f" {words.listed(found.values)}" if found.values else ""
    return f"{found.key} {found.operator}{values}".strip()


def _distinct_taints(snapshot: Snapshot) -> list[kube.Taint]:
    found: dict[tuple[str, str | None, str], kube.Taint] = {}
    for node in snapshot.nodes:
        spec = node.spec
        if spec is not None:
            for taint in (*(spec.taints or ()), *((UNSCHEDULABLE_TAINT,) if spec.unschedulable else ())):
                found.setdefault((taint.key, taint.value, taint.effect), taint)
    return list(found.values())


# --- what a pod says of itself and of nodes -------------------------------------------------------------------------------


def _priority(spec: kube.PodSpec) -> Iterator[Rule]:
    if spec.priorityClassName or spec.priority:
        named = f"class {spec.priorityClassName}, " if spec.priorityClassName else ""
        never = ", never preempts" if spec.preemptionPolicy == "Never" else ""
        yield Rule("Priority", f"{named}priority {spec.priority or 0}{never}")


def _gates(spec: kube.PodSpec) -> Iterator[Rule]:
    if spec.schedulingGates:
        yield Rule("SchedulingGates", f"waits for {words.listed([gate.name for gate in spec.schedulingGates])}")


def _resources(request: dict[str, int], spec: kube.PodSpec) -> Iterator[Rule]:
    found = [f"{name} {words.amount(name, value)}" for name, value in sorted(request.items()) if name not in _SHOWN]
    if found:
        yield Rule("NodeResourcesFit", f"also requests {words.listed(found)}")
    overhead = requests.allocatable(spec.overhead)
    if overhead:
        of = [f"{name} {words.amount(name, value)}" for name, value in sorted(overhead.items())]
        yield Rule("NodeResourcesFit", f"its requests include an overhead of {words.listed(of)}")


def _node_selector(spec: kube.PodSpec) -> Iterator[Rule]:
    if spec.nodeSelector:
        yield Rule("NodeAffinity", f"only on nodes with {words.labels(spec.nodeSelector)}")


def _daemon(pod: Pod) -> bool:
    owner = kube.controller_of(pod)
    return owner is not None and owner.kind == "DaemonSet"


def _node_affinity(pod: Pod) -> Iterator[Rule]:
    found = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    if found is None:
        return
    stays = found.requiredDuringSchedulingRequiredDuringExecution
    for required, also in ((found.requiredDuringSchedulingIgnoredDuringExecution, ""), (stays, ", also while it runs")):
        if required is None:
            continue
        if _daemon(pod) and _names_one_node(required):
            yield Rule("NodeAffinity", f"only on its own node, as a pod of a DaemonSet{also}")
        else:
            which = words.node_selector(required)
            yield Rule("NodeAffinity", f"only on nodes with {which}{also}" if which else "on no node: its node affinity is empty")
    for weighted in found.preferredDuringSchedulingIgnoredDuringExecution or ():
        which = words.node_term(weighted.preference)
        if which:
            yield Rule("NodeAffinity", f"prefers nodes with {which} (weight {weighted.weight})")


def _names_one_node(found: kube.NodeSelector) -> bool:
    """Whether it is what the DaemonSet controller writes: a pod for each node, which would be a shape for each."""
    terms: Sequence[kube.NodeSelectorTerm] = found.nodeSelectorTerms or ()
    return bool(terms) and all(not term.matchExpressions and [f.key for f in term.matchFields or ()] == ["metadata.name"] for term in terms)


def _ports(spec: kube.PodSpec) -> Iterator[Rule]:
    found = sorted(host_ports(spec))
    if found:
        texts = [f"{protocol} {port}{'' if ip == '*' else f' of {ip}'}" for ip, protocol, port in found]
        yield Rule("NodePorts", f"takes host port{'s' if len(texts) > 1 else ''} {words.listed(texts)}")
