"""Shapes: requests and rules, shared by all pods that are equal in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubestow.models.disruption.pod_disruption_budgets import budgets
from kubestow.models.documents.policy import Policy
from kubestow.models.gangs import gangs
from kubestow.models.gangs.markers import members
from kubestow.models.kube import objects, pod_requests, workload_objects
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.kube.selectors import canonical
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.documents.output import counted
from kubestow.report.page import words
from kubestow.report.page.pod_requirements import PodRule
from kubestow.report.page.rules import Rules
from kubestow.report.page.storage import Storage
from kubestow.report.page.ties import MAX_TIED_WORKLOADS, SelectorTerm, Ties

Request = dict[str, int]
#: Workloads by name and namespace, and the index of each pod's.
Owners = tuple[Sequence[tuple[str, str]], Sequence[int]]


class Shapes:
    """The shape of each pod.

    Attributes:
        found: The shapes in the form of the page.
        of_pod: Shape index of each pod.
        notes: Notes on data that could not be evaluated.

    Raises:
        InputError: A request is invalid or beyond 64 bits.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        pods: Sequence[objects.Pod],
        owners: Owners,
        policy: Policy,
        scope: Scope,
    ) -> None:
        self._gates = snapshot.gates
        self.notes: list[str] = []
        self.found: list[dict[str, Any]] = []
        named, workloads = owners
        self._pods, self._names = pods, [name for name, _ in named]
        self._ties = Ties(snapshot, pods, workloads)
        self._rules = Rules(snapshot, self._ties, policy)
        self._storage = Storage(snapshot)
        self._requests: dict[tuple[int, ...], Request] = {}
        self._containers: dict[tuple[int, int], tuple[tuple[Any, ...], ...]] = {}
        self._ids: dict[tuple[Any, ...], int] = {}
        self._gangs = self._gang_rules(snapshot, policy, scope)
        self._budgets = self._budget_rules(snapshot)
        self._repelled = self._repelling(workloads)
        memo: dict[tuple[Any, ...], int] = {}
        self.of_pod: list[int] = []
        for i, pod in enumerate(pods):
            key = self._key(i, pod)
            at = memo.get(key)
            if at is None:
                at = memo[key] = self._shape(i, pod)
            self.of_pod.append(at)

    def request(self, pod: objects.Pod, *, recreated: bool = False) -> Request:
        """Return the effective request of a pod. With ``recreated``, ignore an in-place resize, which its
        replacement does not inherit.
        """
        spec, status = pod.spec, pod.status
        resized = pod_requests.is_resized(pod)
        state = id(status) if resized and not recreated else 0
        key = id(spec.containers), id(spec.initContainers), id(spec.overhead), id(spec.resources), state
        found = self._requests.get(key)
        if found is None:
            asks = objects.Pod(pod.metadata, spec) if recreated else pod
            try:
                found = self._requests[key] = pod_requests.pod_request(asks, self._gates)
            except ValueError as error:
                raise InputError([f"Pod {objects.pod_key(pod)}: requests: {error}"]) from error
        return found

    # --- rules from other objects ---------------------------------------------------------------------------------------

    def _gang_rules(self, snapshot: Snapshot, policy: Policy, scope: Scope) -> dict[int, str]:
        """Return the rule of each pod's gang, by index into ``pods``."""
        found = {
            i: f"member of gang {marker.name}" for marker, listed in members(self._pods, range(len(self._pods))).items() for i in listed
        }
        if not found:
            return found
        at = {id(pod): i for i, pod in enumerate(self._pods)}
        try:
            declared = gangs.find(snapshot, scope, tiers=policy.networkTiers)
        except InputError as error:
            self.notes += error.problems
            return found
        for gang in declared:
            least = f"all {len(gang.pods) + len(gang.bound)}" if gang.minimum is None else f"at least {gang.minimum}"
            where = ""
            if gang.key is not None:
                wish = "" if gang.required else ", if possible,"
                where = f"{wish} {words.preposition(gang.key)} one {words.one_domain(gang.key).removeprefix('a ')}"
            text = f"member of gang {gang.name}: {least} of its pods together{where}, or none"
            for i in (*gang.pods, *gang.bound):
                found[at[id(snapshot.pods[i])]] = text
        return found

    def _budget_rules(self, snapshot: Snapshot) -> dict[int, list[PodRule]]:
        """Return the PodDisruptionBudgets of pods, by index of their class in :class:`Ties`.

        If the selectors match too many pods, some budgets are left out and a note is added.
        """
        found: dict[int, list[PodRule]] = {}
        if not snapshot.pod_disruption_budgets:
            return found
        allowed = {budget.name: budget.allowed for budget in budgets(snapshot)}
        for budget in snapshot.pod_disruption_budgets:
            spec = budget.spec or workload_objects.PodDisruptionBudgetSpec()
            namespace = budget.metadata.namespace or "default"
            name = f"{namespace}/{budget.metadata.name or ''}"
            asks = [f"{key} {value}" for key in ("minAvailable", "maxUnavailable") if (value := getattr(spec, key)) is not None]
            now = f"{counted(allowed[name], 'eviction') if allowed[name] else 'no eviction'} allowed now" if name in allowed else ""
            text = f"{name}: {', '.join([*asks, *([now] if now else [])]) or 'no requirement'}"
            selected = self._ties.selected(namespace, canonical(spec.selector))
            if selected is None:
                self.notes.append("PodDisruptionBudgets are shown for some pods only, because their selectors match too many pods")
                break
            for each in selected:
                found.setdefault(each.index, []).append(PodRule("PodDisruptionBudget", text))
        return found

    def _repelling(self, workloads: Sequence[int]) -> dict[int, list[PodRule]]:
        """Return, by class, the other workloads whose required anti-affinity excludes its pods.

        Terms of its own workload are kept for :meth:`_own_anti`.
        """
        terms: dict[tuple[int, SelectorTerm], None] = {}
        seen: set[tuple[int, int]] = set()
        for i, pod in enumerate(self._pods):
            anti = pod.spec.affinity.podAntiAffinity if pod.spec.affinity is not None else None
            if anti is None or (id(pod.spec.affinity), self._ties.of_pod[i]) in seen:
                continue
            seen.add((id(pod.spec.affinity), self._ties.of_pod[i]))
            terms.update(dict.fromkeys((workloads[i], term) for term in self._anti(pod)))
        found, self._own, whole = self._ties.repelled(terms)
        if not whole:
            self.notes.append("the anti-affinity of other pods is shown in part only, because its selectors match too many pods")
        rules: dict[int, list[PodRule]] = {}
        shared: dict[tuple[str, tuple[int, ...]], PodRule] = {}
        for at, by_key in found.items():
            for key, owners in sorted(by_key.items()):
                owner_key = tuple(sorted(owners))
                if (key, owner_key) not in shared:
                    whom = words.listed([self._names[w] for w in owner_key])
                    text = f"kept away from {words.domains(key)} of {whom}, by {'its' if len(owner_key) == 1 else 'their'} anti-affinity"
                    shared[key, owner_key] = PodRule("InterPodAffinity", text, owner_key if len(owner_key) <= MAX_TIED_WORKLOADS else None)
                rules.setdefault(at, []).append(shared[key, owner_key])
        return rules

    def _anti(self, pod: objects.Pod) -> list[SelectorTerm]:
        """Return a pod's terms of required anti-affinity."""
        matched = (self._ties.term(pod, term) for term in required_terms(pod, "podAntiAffinity"))
        return [term for term in matched if term is not None]

    def _own_anti(self, at: int, pod: objects.Pod) -> list[PodRule]:
        """Return anti-affinity of other pods in its workload that the pod itself lacks."""
        terms = self._own.get(at, set())
        keys = {term.key for term in terms.difference(self._anti(pod))} if terms else ()
        return [
            PodRule("InterPodAffinity", f"kept away from {words.domains(key)} of other pods of its workload, by their anti-affinity")
            for key in sorted(keys)
        ]

    # --- shapes -----------------------------------------------------------------------------------------------------------

    def _key(self, i: int, pod: objects.Pod) -> tuple[Any, ...]:
        """Return a cheap key that differs for pods with possibly different shapes. Equal parts are one object
        (kubestow.models.snapshot.interning).
        """
        spec, metadata = pod.spec, pod.metadata
        return (
            self._ties.of_pod[i], id(self.request(pod)), id(spec.containers), id(spec.initContainers), id(spec.affinity),
            id(spec.topologySpreadConstraints), id(spec.nodeSelector), id(spec.tolerations), id(spec.overhead), spec.priority,
            spec.priorityClassName, spec.preemptionPolicy, id(spec.schedulingGates), id(spec.resourceClaims),
            id(metadata.annotations), id(metadata.ownerReferences),
            self._gangs.get(i), self._storage.of(pod),
        )  # fmt: skip

    def _shape(self, i: int, pod: objects.Pod) -> int:
        request, at = self.request(pod), self._ties.of_pod[i]
        rules = [*self._rules.of(pod, request), *self._storage.of(pod)]
        if i in self._gangs:
            rules.append(PodRule("GangScheduling", self._gangs[i]))
        rules += self._own_anti(at, pod)
        rules += self._repelled.get(at, [])
        rules += self._budgets.get(at, [])
        containers = self._listed(pod.spec)
        key = request.get("cpu", 0), request.get("memory", 0), containers, tuple(rules)
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self.found)
            self.found.append(
                {
                    "cpu": key[0],
                    "memory": key[1],
                    "containers": [{"name": n, "cpu": c, "memory": m, "init": init} for n, c, m, init in containers],
                    "rules": [_plain(rule) for rule in rules],
                }
            )
        return known

    def _listed(self, spec: objects.PodSpec) -> tuple[tuple[Any, ...], ...]:
        """Return name, CPU and memory as written, and True for an ordinary init container, for each container."""
        key = id(spec.containers), id(spec.initContainers)
        found = self._containers.get(key)
        if found is None:
            both = [*((c, c.restartPolicy != "Always") for c in spec.initContainers or ()), *((c, False) for c in spec.containers or ())]
            found = self._containers[key] = tuple((c.name or "", _asked(c, "cpu"), _asked(c, "memory"), init) for c, init in both)
        return found


def _asked(container: objects.Container, resource: str) -> str:
    given = container.resources.requests if container.resources is not None else None
    raw = (given or {}).get(resource)
    return "" if raw is None else str(raw)


def _plain(rule: PodRule) -> dict[str, Any]:
    found: dict[str, Any] = {"rule": rule.rule, "text": rule.text}
    if rule.workloads is not None:
        found["workloads"] = list(rule.workloads)
    return found
