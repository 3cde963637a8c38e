"""Relaxations of pods' rules, each as a remedy that is not yet proved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.cluster.cluster import HARD_EFFECTS, Cluster
from kubestow.models.cluster.pod_terms import term_matches
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, PodAffinityTerm, Taint
from kubestow.models.kube.pod_spec import host_ports, required_terms
from kubestow.models.kube.selectors import Selector, Tolerations, canonical
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy import device_edits
from kubestow.solver.explain.remedy.apply import gang_of
from kubestow.solver.explain.remedy.pod_edits import text

TERMS: Final = {"podAffinity": "affinity", "podAntiAffinity": "anti-affinity"}


@dataclass(frozen=True)
class Idea:
    """A remedy to be tried.

    Attributes:
        rule: Scheduler plugin that it relaxes.
        size: Size of the concession, for comparisons.
    """

    rule: str
    size: int
    remedy: Remedy


def spread_constraints(question: PlacementQuestion) -> list[tuple[str, objects.TopologySpreadConstraint]]:
    """Return each distinct DoNotSchedule constraint with its owner."""
    constraints: dict[tuple[str, str], tuple[str, objects.TopologySpreadConstraint]] = {}
    for owner, pod in _templates(question):
        for constraint in pod.spec.topologySpreadConstraints or ():
            if constraint.whenUnsatisfiable == "DoNotSchedule":
                constraints[owner, text(constraint)] = owner, constraint
    return list(constraints.values())


def raised(owner: str, constraint: objects.TopologySpreadConstraint, skew: int) -> Remedy:
    """Return the remedy that raises maxSkew to ``skew``."""
    return Remedy(
        "raiseMaxSkew",
        f"raise maxSkew over {constraint.topologyKey} of {name(owner)} from {constraint.maxSkew} to {skew}",
        {"workload": owner, "constraint": text(constraint), "to": str(skew)},
    )


def ideas(question: PlacementQuestion, cluster: Cluster) -> list[Idea]:
    """Return the possible relaxations, the smallest first, except those with numbers (maxSkew, replicas, nodes).

    Relaxations that several owners share are tried for each owner, and for all together.
    """
    found: dict[tuple[str, str], Idea] = {}
    groups: dict[str, list[Idea]] = {}
    devices = [Idea(device_edits.RULE, size, remedy) for size, remedy in device_edits.dropped(question, cluster)]
    for idea in [*_own(question, cluster), *devices, *_repelling(question, cluster)]:
        arguments = dict(idea.remedy.arguments)
        owner = arguments.pop("workload", "")
        key = idea.remedy.change + msgspec.json.encode(arguments, order="sorted").decode()
        if (owner, key) not in found:
            found[owner, key] = idea
            groups.setdefault(key, []).append(idea)
    joint = [_joint(group) for group in groups.values() if len(group) > 1]
    return sorted([*found.values(), *joint, *_topology(question)], key=lambda idea: (idea.size, idea.remedy.message))


def _joint(group: list[Idea]) -> Idea:
    owners = "; ".join(idea.remedy.arguments["workload"] for idea in group)
    first, *others = group
    names = ", ".join(name(idea.remedy.arguments["workload"]) for idea in others)
    remedy = Remedy(first.remedy.change, f"{first.remedy.message}; the same of {names}", {**first.remedy.arguments, "workload": owners})
    return Idea(first.rule, max(idea.size for idea in group) + 10 * len(others), remedy)


def _templates(question: PlacementQuestion) -> Iterator[tuple[str, Pod]]:
    """Yield an owner and one of its pods, for each distinct set of rules."""
    snapshot = question.snapshot
    for owner, pods in PodOwners(snapshot).group(question.pods).items():
        seen: set[bytes] = set()
        for i in pods:
            spec = snapshot.pods[i].spec
            key = msgspec.json.encode((spec.affinity, spec.nodeSelector, spec.topologySpreadConstraints, spec.tolerations, spec.containers))
            if key not in seen:
                seen.add(key)
                yield owner, snapshot.pods[i]


def _own(question: PlacementQuestion, cluster: Cluster) -> Iterator[Idea]:
    taints = _taints(cluster)
    for owner, pod in _templates(question):
        who, own = name(owner), Tolerations(pod.spec.tolerations, cluster.snapshot.gates)
        for taint in taints:
            if not own.cover(taint):
                arguments = {"workload": owner, "key": taint.key, "effect": taint.effect}
                if taint.value:
                    arguments["value"] = taint.value
                yield Idea("TaintToleration", 1, Remedy("tolerate", f"let {who} tolerate the taint {_taint(taint)}", arguments))
        for constraint in pod.spec.topologySpreadConstraints or ():
            if constraint.whenUnsatisfiable == "DoNotSchedule":
                message = f"make the spread of {who} over {constraint.topologyKey} ScheduleAnyway"
                yield Idea("PodTopologySpread", 3, Remedy("scheduleAnyway", message, {"workload": owner, "constraint": text(constraint)}))
        for size, kind in ((4, "podAntiAffinity"), (5, "podAffinity")):
            for term in required_terms(pod, kind):
                yield _term(owner, kind, term, size)
        imposed = namespace_admission.selector(cluster.snapshot, pod.metadata.namespace or "default")
        runtime = cluster.snapshot.runtime_classes.get(pod.spec.runtimeClassName or "")
        scheduling = runtime.scheduling if runtime is not None else None
        for key, value in (pod.spec.nodeSelector or {}).items():
            if imposed.get(key) == value or (scheduling is not None and key in (scheduling.nodeSelector or {})):
                continue  # the namespace or the RuntimeClass would add it again
            remedy = Remedy(
                "dropNodeSelector", f"drop {key}={value} from the nodeSelector of {who}", {"workload": owner, "key": key, "value": value}
            )
            yield Idea("NodeAffinity", 6, remedy)
        for expression in _expressions(pod):
            words = f"{expression.key} {expression.operator}{f' {sorted(expression.values)}' if expression.values else ''}".replace("'", "")
            remedy = Remedy(
                "dropNodeAffinity",
                f"drop {words} from the required node affinity of {who}",
                {"workload": owner, "expression": text(expression)},
            )
            yield Idea("NodeAffinity", 6, remedy)
        for _, protocol, port in sorted(host_ports(pod.spec)):
            remedy = Remedy(
                "dropHostPort",
                f"give up host port {port}/{protocol} of {who}",
                {"workload": owner, "port": str(port), "protocol": protocol},
            )
            yield Idea("NodePorts", 7, remedy)


def _term(owner: str, kind: str, term: PodAffinityTerm, size: int) -> Idea:
    about = selector_text(canonical(term.labelSelector))
    message = f"make the {TERMS[kind]} of {name(owner)} over {term.topologyKey} ({about}) preferred"
    return Idea("InterPodAffinity", size, Remedy("preferTerm", message, {"workload": owner, "kind": kind, "term": text(term)}))


def _topology(question: PlacementQuestion) -> Iterator[Idea]:
    gang = gang_of(question)
    if gang is not None and gang.required and gang.key is not None:
        remedy = Remedy(
            "preferTopology", f"make the topology {gang.key} of gang {gang.name} preferred", {"gang": gang.name, "key": gang.key}
        )
        yield Idea("GangScheduling", 2, remedy)


def _repelling(question: PlacementQuestion, cluster: Cluster) -> Iterator[Idea]:
    """Yield the anti-affinity of running pods of other owners against pods of the question."""
    snapshot = question.snapshot
    where = {
        cluster.nodes.names[n]
        for fixed in cluster.fixed_anti
        if cluster.matches(fixed.term.matcher).any()
        for n in fixed.nodes.tolist()
    }  # fmt: skip
    if not where:
        return
    owners = PodOwners(snapshot)
    own = [pod for _, pod in _templates(question)]
    seen: set[tuple[str, str]] = set()
    for i in cluster.scope.fixed:
        pod = snapshot.pods[i]
        if pod.spec.nodeName not in where:
            continue
        for term in required_terms(pod, "podAntiAffinity"):
            key = (owners.of(pod), text(term))
            if key not in seen:
                seen.add(key)
                if any(term_matches(snapshot, pod, term, target) for target in own):
                    yield _term(key[0], "podAntiAffinity", term, 8)


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


def selector_text(selector: Selector | None) -> str:
    """Return a label selector as text, such as ``app=db``."""
    if selector is None:
        return "no pods"
    words = []
    for key, operator, values in selector:
        if operator in ("In", "NotIn"):
            equal = "=" if operator == "In" else "!="
            words.append(f"{key}{equal}{values[0]}" if len(values) == 1 else f"{key}{equal}({'|'.join(values)})")
        else:
            words.append(key if operator == "Exists" else f"!{key}")
    return ",".join(words) or "all pods"
