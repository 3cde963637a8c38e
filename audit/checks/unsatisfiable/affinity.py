"""Affinity and anti-affinity that can never hold with the existing nodes and pods.

All verdicts are conservative. A finding means that no node remains even if every possible provider ran on each of
its usable nodes, and each term were alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from kubestow.audit.view.container_fields import host_port
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.label_matches import LabelMatches
from kubestow.audit.view.pod_terms import PodTerm
from kubestow.audit.view.usable_nodes import SubjectNodes, UsableNodes, grave, running, wanted
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.admission.deprecated_labels import hint
from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.documents.findings.audit import Finding, Severity
from kubestow.models.kube.selectors import Bools, NodeColumns
from kubestow.models.workloads.checks import describe

_KEY: Final = Code(
    "KS215", "affinity-key-missing", "error",
    "No eligible node has the topology key of a required affinity rule",
    "A node without the key belongs to no domain and is rejected, so none of the pods can be placed.",
    "Correct the topologyKey, or label the nodes.",
)  # fmt: skip
_IDLE: Final = Code(
    "KS216", "anti-affinity-key-missing", "warning",
    "No node has the topology key of an anti-affinity or preferred affinity rule",
    "Unlike required affinity, such a rule rejects no node. It has no effect, so pods that it should separate may share a domain.",
    "Correct the topologyKey, or label the nodes.",
)  # fmt: skip
_TARGET: Final = Code(
    "KS217", "affinity-without-target", "error",
    "Required affinity matches no existing pod",
    "Every node is rejected until a matching pod runs. Only a pod that matches all its own terms can be placed first.",
    "Correct the selector, deploy the required pods, or make the affinity preferred.",
)  # fmt: skip
_REACH: Final = Code(
    "KS218", "affinity-out-of-reach", "error",
    "Required affinity to pods whose domains the workload cannot use",
    "In the domains of these pods, the workload's own node rules, tolerations or requests exclude every node.",
    "Allow both to use nodes of a common domain, or use a topologyKey with larger domains.",
)  # fmt: skip
_MANY: Final = Code(
    "KS219", "replicas-exceed-domains", "error",
    "A workload has more replicas than domains for its required anti-affinity",
    "Each domain takes one replica, and the others stay pending.",
    "Add domains, lower the number of replicas, use a key with more domains, or make the rule preferred.",
)  # fmt: skip
_PORTS: Final = Code(
    "KS220", "replicas-exceed-host-ports", "error",
    "A workload with a host port has more replicas than nodes",
    "A node can assign a host port only once, so each node takes one replica, and the others stay pending.",
    "Use a Service instead of the host port, lower the number of replicas, or use a DaemonSet.",
)  # fmt: skip
_BOTH: Final = Code(
    "KS221", "affinity-contradicts-anti-affinity", "error",
    "Required affinity and anti-affinity contradict each other for the same pods",
    "Required anti-affinity works in both directions, so it rejects every node that the affinity allows.",
    "Remove one of the two rules, or change them to different pods or domains.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_KEY, _IDLE, _TARGET, _REACH, _MANY, _PORTS, _BOTH)


def judge(matches: LabelMatches, usable_nodes: UsableNodes, s: int) -> Iterator[Finding]:
    """Yield the findings about subject ``s``."""
    view, subject = matches.view, matches.view.subjects[s]
    for term in matches.terms[s]:
        if term.kind != "spread" and not (term.required and term.kind == "affinity") and not view.nodes.with_keys([term.key]).any():
            how = "required" if term.required else "preferred"
            text = (
                f"no node has the label {term.key}, so the {how} {term.kind} over it has no effect{hint([term.key], view.snapshot.nodes)}"
            )
            severity: Severity = "warning" if term.required else "info"
            yield _IDLE.found(subject.name, text, field=f"{term.path}.topologyKey", rule=term.rule, severity=severity)
    if subject.kind == "DaemonSet":
        return
    place = usable_nodes.place(subject)
    if not place.usable.any():
        return  # already reported
    affinity = [t for t in matches.terms[s] if t.required and t.kind == "affinity"]
    if affinity and all(t.selector is not None for t in affinity):  # KS203 reports nil selectors
        yield from _affinity(matches, usable_nodes, s, place, affinity)
    yield from _replicas(matches, usable_nodes, s, place)
    yield from _ports(view, usable_nodes, subject, place)


def _affinity(
    matches: LabelMatches, usable_nodes: UsableNodes, s: int, place: SubjectNodes, affinity: Sequence[PodTerm]
) -> Iterator[Finding]:
    view, subject = matches.view, matches.view.subjects[s]
    nodes, keys, rule = view.nodes, sorted({t.key for t in affinity}), affinity[0].rule
    field, severity = affinity[0].path.rpartition("[")[0] if len(affinity) > 1 else affinity[0].path, grave(view, subject)
    whom, over = " and ".join(describe(t.selector or ()) or "(any)" for t in affinity), f"required affinity over {', '.join(keys)}"
    usable = place.usable & nodes.with_keys(keys)
    if not usable.any():
        none = [key for key in keys if not nodes.with_keys([key]).any()]
        text = f"no node has the label {some(none)}" if none else f"no node that it may use has the label {some(keys)}"
        text += f", the topology key of its required affinity{hint(none, view.snapshot.nodes)}"
        yield _KEY.found(subject.name, text, field=field, rule=rule, severity=severity)
        return
    targets = np.logical_and.reduce([matches.may_hit(t.selector, t.may_look) for t in affinity])
    itself = bool(targets[matches.own[s]])
    if not targets.any():
        several = " all of" if len(affinity) > 1 else ""
        where = ", ".join(dict.fromkeys(t.where for t in affinity))
        text = f"{over} to pods that match{several} {whom}: none exist {where}, and it does not match them itself"
        yield _TARGET.found(subject.name, text, field=field, rule=rule, severity=severity)
        return
    clash = _clash(matches, s, targets, keys)
    if clash and (not itself or wanted(subject) > 1 or matches.pods(targets, without=s)):
        exception = "; a single pod can be placed, as the first of its kind" if itself and not matches.pods(targets, without=s) else ""
        yield _BOTH.found(
            subject.name, f"required affinity to pods {whom} and {clash}{exception}", field=field, rule=rule, severity=severity,
        )  # fmt: skip
        return
    possible, now = _providers(matches, usable_nodes, targets)
    if not _near(nodes, keys, usable, possible).any():
        text = f"{over} to pods {whom}: they cannot run in any domain that it may use"
        yield _REACH.found(subject.name, text, field=field, rule=rule, severity=severity)
    elif now.any() and running(view, subject) < wanted(subject) and not _near(nodes, keys, usable, now).any():
        at = [nodes.names[n] for n in np.flatnonzero(now)]
        text = f"{over} to pods {whom}: they run on {some(at)} now, outside the domains that it may use"
        yield _REACH.found(subject.name, text, field=field, rule=rule, severity="warning", nodes=at[:20])


def _providers(matches: LabelMatches, usable_nodes: UsableNodes, targets: Bools) -> tuple[Bools, Bools]:
    """Return two bool[N]: nodes where pods of the given profiles could run, and nodes where some run now."""
    view = matches.view
    now = np.zeros(view.nodes.size, dtype=bool)
    now[view.homes(matches.pods(targets))] = True
    possible = now.copy()
    for h in matches.subjects(targets):
        other = view.subjects[h]
        possible |= usable_nodes.place(other).usable if other.kind != "DaemonSet" else True
    return possible, now


def _near(nodes: NodeColumns, keys: Sequence[str], usable: Bools, providers: Bools) -> Bools:
    """Return bool[N]: usable nodes whose domain of each key has a provider."""
    reachable = usable.copy()
    for key in keys:
        codes, values = nodes.column(key)
        provided = np.zeros(len(values) + 1, dtype=bool)
        provided[codes[providers & (codes >= 0)]] = True
        reachable &= provided[codes]
    return reachable


def _clash(matches: LabelMatches, s: int, targets: Bools, keys: Sequence[str]) -> str | None:
    """Return the anti-affinity that excludes every pod required by the subject's affinity, as text. None if there is none."""
    view, own = matches.view, matches.own[s]
    anti = [t for t in matches.terms[s] if t.required and t.kind == "anti-affinity"]
    profiles = np.flatnonzero(targets).tolist()
    for key in keys:
        mine = [matches.hits(t.selector, t.namespaces) for t in anti if _within(view.nodes, key, t.key)]
        away = np.logical_or.reduce(mine) if mine else np.zeros(len(targets), dtype=bool)
        near_profiles = [p for p in profiles if not away[p]]
        if not near_profiles:
            return f"required anti-affinity to the same pods over {', '.join(dict.fromkeys(t.key for t in anti))}"
        if len(near_profiles) > 50:
            continue
        owners = {h for p in near_profiles for h in matches.makers[p]}
        pods = [i for p in near_profiles for i in matches.members[p]]
        if any(i not in view.subject_of for i in pods):
            continue
        owners |= {matches.number(view.subject_of[i]) for i in pods}
        if s not in owners and all(
            any(
                t.required and t.kind == "anti-affinity" and _within(view.nodes, key, t.key) and matches.hits(t.selector, t.namespaces)[own]
                for t in matches.terms[h]
            )
            for h in owners
        ):
            return f"required anti-affinity of {some([view.subjects[h].name for h in sorted(owners)])} to it, over {key} or a larger domain"
    return None


@lru_cache(maxsize=8)
def _columns(nodes: NodeColumns, inner: str, outer: str) -> bool:
    a, b = nodes.column(inner)[0], nodes.column(outer)[0]
    pairs = np.unique(np.stack([a, b])[:, a >= 0], axis=1)
    return bool((pairs[1] >= 0).all() and len(np.unique(pairs[0])) == pairs.shape[1])


def _within(nodes: NodeColumns, inner: str, outer: str) -> bool:
    """Return True if each domain of the inner key is inside a domain of the outer key."""
    return inner == outer or _columns(nodes, inner, outer)


def _one_each(codes: Ids, usable: Bools, homes: Ints) -> int:
    """Return the number of pods that can run if each domain takes one. Pods that already share a domain stay.

    Args:
        codes: int32[N]: domains.
        usable: bool[N]: usable nodes, which have a domain.
        homes: int64[N]: running pods on each node, which keep running regardless of the node.
    """
    size = int(codes.max(initial=-1)) + 1
    there = np.bincount(codes[codes >= 0], weights=homes[codes >= 0], minlength=size).astype(np.int64)
    takes = np.zeros(size, dtype=np.int64)
    takes[codes[usable]] = 1
    return int(np.maximum(there, takes).sum() + homes[codes < 0].sum())


def _short(view: ClusterView, usable_nodes: UsableNodes, subject: Subject, place: SubjectNodes, codes: Ids) -> tuple[str, Severity] | None:
    """Return the maximum number of pods with one per domain, as text, and the severity. None if it suffices.

    The severity is at most warning if cordoned or unhealthy nodes would suffice.
    """
    homes = np.bincount(view.homes(subject.pods), minlength=view.nodes.size)
    capacity = _one_each(codes, place.usable, homes)
    if wanted(subject) <= capacity:
        return None
    later = place.selected & ~place.small & ~(place.tainted & ~usable_nodes.transient(subject)) & (codes >= 0)
    later_capacity, severity = _one_each(codes, place.usable | later, homes), grave(view, subject)
    more = f", {later_capacity} once nodes are uncordoned or healthy" if later_capacity > capacity else ""
    return f"at most {capacity} can run{more}", "warning" if severity == "error" and wanted(subject) <= later_capacity else severity


def _replicas(matches: LabelMatches, usable_nodes: UsableNodes, s: int, place: SubjectNodes) -> Iterator[Finding]:
    view, subject = matches.view, matches.view.subjects[s]
    for term in matches.terms[s]:
        if not (term.required and term.kind == "anti-affinity" and matches.hits(term.selector, term.namespaces)[matches.own[s]]):
            continue
        codes, _ = view.nodes.column(term.key)
        if (codes[place.usable] < 0).any():
            continue  # nodes without the key are unlimited
        if (short := _short(view, usable_nodes, subject, place, codes)) is not None:
            fit = len(np.unique(codes[place.usable]))
            text = f"needs a separate domain of {term.key} for each of {wanted(subject)} pods, and its eligible nodes are in {fit}:"
            yield _MANY.found(subject.name, f"{text} {short[0]}", field=term.path, rule=term.rule, severity=short[1])


def _ports(view: ClusterView, usable_nodes: UsableNodes, subject: Subject, place: SubjectNodes) -> Iterator[Finding]:
    ports = usable_nodes.rules(subject).ports
    if ports and (short := _short(view, usable_nodes, subject, place, np.arange(view.nodes.size, dtype=np.int32))) is not None:
        fit, names = int(np.count_nonzero(place.usable)), some(sorted(f"{number}/{protocol}" for _, protocol, number in ports))
        text = f"needs {wanted(subject)} pods with host port {names}, and may use {fit} node{'s' * (fit != 1)}: {short[0]}"
        field = f"{subject.path}.{host_port(subject.pod.spec, int(min(ports)[2]))}"
        yield _PORTS.found(subject.name, text, field=field, rule="NodePorts", severity=short[1])
