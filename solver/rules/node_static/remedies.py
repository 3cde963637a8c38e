"""The remedies for TaintToleration and NodeAffinity: taints to tolerate, and requirements on nodes to drop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.cluster.cluster import HARD_EFFECTS, Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, Taint, Toleration
from kubestow.models.kube.selectors import Tolerations
from kubestow.models.workloads.ownership import name
from kubestow.solver.rules.base import StaticRule
from kubestow.solver.rules.remedies import Arguments, Idea, PodEdit, templates, text, with_spec


def _node_selector(pod: Pod, arguments: Arguments) -> Pod:
    entries = pod.spec.nodeSelector or {}
    if entries.get(arguments["key"]) != arguments["value"]:
        return pod
    return with_spec(pod, nodeSelector={k: v for k, v in entries.items() if k != arguments["key"]} or None)


def _node_affinity(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod without an expression in every alternative. An alternative without other expressions then admits every node."""
    affinity = pod.spec.affinity
    part = affinity.nodeAffinity if affinity is not None else None
    if affinity is None or part is None:
        return pod
    changed: dict[str, object] = {}
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        selector: objects.NodeSelector | None = getattr(part, variant)
        if selector is not None:
            changed[variant] = _without(selector, arguments["expression"])
    return with_spec(pod, affinity=msgspec.structs.replace(affinity, nodeAffinity=msgspec.structs.replace(part, **changed)))


def _without(selector: objects.NodeSelector, expression: str) -> objects.NodeSelector | None:
    terms = []
    for term in selector.nodeSelectorTerms or ():
        expressions = [e for e in term.matchExpressions or () if text(e) != expression]
        fields = [f for f in term.matchFields or () if text(f) != expression]
        if (term.matchExpressions or term.matchFields) and not expressions and not fields:
            return None
        terms.append(objects.NodeSelectorTerm(expressions or None, fields or None))
    return objects.NodeSelector(terms)


def _toleration(pod: Pod, arguments: Arguments) -> Pod:
    value = arguments.get("value")
    added = Toleration(arguments["key"], "Equal" if value else "Exists", value, arguments["effect"])
    return with_spec(pod, tolerations=[*(pod.spec.tolerations or ()), added])


def _taints(cluster: Cluster) -> list[Taint]:
    """Return each distinct taint that rejects pods."""
    taints: dict[tuple[str, str, str], Taint] = {}
    for n in range(cluster.n_nodes):
        for taint in cluster.nodes.taints(n):
            if taint.effect in HARD_EFFECTS:
                taints[taint.key, taint.value or "", taint.effect] = taint
    return [taint for _, taint in sorted(taints.items())]


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _expressions(pod: Pod) -> Iterable[objects.NodeSelectorRequirement]:
    """Return each distinct requirement of required node affinity."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    if affinity is None:
        return []
    owner = objects.controller_of(pod)
    pinned = owner is not None and owner.kind == "DaemonSet"  # its controller creates each pod for one node, by metadata.name
    expressions: dict[str, objects.NodeSelectorRequirement] = {}
    for selector in (affinity.requiredDuringSchedulingIgnoredDuringExecution, affinity.requiredDuringSchedulingRequiredDuringExecution):
        for term in selector.nodeSelectorTerms or () if selector is not None else ():
            fields = () if pinned else term.matchFields or ()
            for requirement in (*(term.matchExpressions or ()), *fields):
                expressions[text(requirement)] = requirement
    return expressions.values()


class TolerationRemedies(StaticRule):
    """Taints to tolerate."""

    pod_changes = {"tolerate": PodEdit(_toleration)}

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        taints = _taints(cluster)
        for owner, pod in templates(cluster):
            own = Tolerations(pod.spec.tolerations, cluster.snapshot.gates)
            for taint in taints:
                if not own.cover(taint):
                    arguments = {"workload": owner, "key": taint.key, "effect": taint.effect}
                    if taint.value:
                        arguments["value"] = taint.value
                    yield Idea(cls.name, 1, Remedy("tolerate", f"let {name(owner)} tolerate the taint {_taint(taint)}", arguments))


class SelectionRemedies(StaticRule):
    """Requirements on nodes to drop."""

    pod_changes = {"dropNodeSelector": PodEdit(_node_selector, admitted_again=True), "dropNodeAffinity": PodEdit(_node_affinity)}

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, pod in templates(cluster):
            imposed = namespace_admission.selector(cluster.snapshot, pod.metadata.namespace or "default")
            runtime = cluster.snapshot.runtime_classes.get(pod.spec.runtimeClassName or "")
            scheduling = runtime.scheduling if runtime is not None else None
            for key, value in (pod.spec.nodeSelector or {}).items():
                if imposed.get(key) == value or (scheduling is not None and key in (scheduling.nodeSelector or {})):
                    continue  # the namespace or the RuntimeClass would add it again
                message = f"drop {key}={value} from the nodeSelector of {name(owner)}"
                yield Idea(cls.name, 6, Remedy("dropNodeSelector", message, {"workload": owner, "key": key, "value": value}))
            for expression in _expressions(pod):
                values = f" {sorted(expression.values)}".replace("'", "") if expression.values else ""
                words = f"{expression.key} {expression.operator}{values}"
                message = f"drop {words} from the required node affinity of {name(owner)}"
                yield Idea(cls.name, 6, Remedy("dropNodeAffinity", message, {"workload": owner, "expression": text(expression)}))
