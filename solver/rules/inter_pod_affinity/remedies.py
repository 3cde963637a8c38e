"""The remedies for InterPodAffinity: required terms that become preferred, also those of running pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kubestow.models.cluster.anti_affinity.pod_terms import term_matches
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, PodAffinityTerm
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.kube.selectors import Selector, canonical
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.inter_pod_affinity.near_misses import term_misses
from kubestow.solver.rules.remedies import Arguments, Idea, PodEdit, templates, text, with_spec

_TERMS: Final = {"podAffinity": "affinity", "podAntiAffinity": "anti-affinity"}
#: Weight of a required term that becomes preferred: the maximum of the API.
MAX_TERM_WEIGHT: Final = 100


def _prefer(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod with a required term of ``podAffinity`` or ``podAntiAffinity`` made preferred, with maximum weight."""
    kind, wanted = arguments["kind"], arguments["term"]
    affinity = pod.spec.affinity
    part: objects.PodAffinity | None = getattr(affinity, kind) if affinity is not None else None
    if affinity is None or part is None:
        return pod
    changed: dict[str, object] = {}
    matching: list[objects.PodAffinityTerm] = []
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        terms = getattr(part, variant)
        if terms:
            matching += [t for t in terms if text(t) == wanted]
            changed[variant] = [t for t in terms if text(t) != wanted] or None
    if not matching:
        return pod
    preferred = list(part.preferredDuringSchedulingIgnoredDuringExecution or ())
    preferred.append(objects.WeightedPodAffinityTerm(MAX_TERM_WEIGHT, matching[0]))
    part = msgspec.structs.replace(part, **changed, preferredDuringSchedulingIgnoredDuringExecution=preferred)
    return with_spec(pod, affinity=msgspec.structs.replace(affinity, **{kind: part}))


def _correct(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod with a required term of ``podAffinity`` replaced."""
    affinity = pod.spec.affinity
    part = affinity.podAffinity if affinity is not None else None
    if affinity is None or part is None:
        return pod
    corrected = msgspec.json.decode(arguments["to"], type=PodAffinityTerm)
    changed = {
        variant: [corrected if text(term) == arguments["term"] else term for term in terms]
        for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution")
        if (terms := getattr(part, variant))
    }
    return with_spec(pod, affinity=msgspec.structs.replace(affinity, podAffinity=msgspec.structs.replace(part, **changed)))


def _idea(rule: str, owner: str, kind: str, term: PodAffinityTerm, size: int) -> Idea:
    about = _selector_text(canonical(term.labelSelector))
    message = f"make the {_TERMS[kind]} of {name(owner)} over {term.topologyKey} ({about}) preferred"
    return Idea(rule, size, Remedy("preferTerm", message, {"workload": owner, "kind": kind, "term": text(term)}))


def _repelling(rule: str, cluster: Cluster) -> Iterator[Idea]:
    """Yield the anti-affinity of running pods of other owners against pending pods."""
    snapshot = cluster.snapshot
    where = {
        cluster.nodes.names[n]
        for fixed in cluster.fixed_anti
        if cluster.matches(fixed.term.matcher).any()
        for n in fixed.nodes.tolist()
    }  # fmt: skip
    if not where:
        return
    owners = PodOwners(snapshot)
    own = [pod for _, pod in templates(cluster)]
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
                    yield _idea(rule, key[0], "podAntiAffinity", term, 8)


def _selector_text(selector: Selector | None) -> str:
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


class AffinityRemedies(Rule):
    """Required terms to correct, or to make preferred."""

    pod_changes = {"preferTerm": PodEdit(_prefer), "correctTerm": PodEdit(_correct)}

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, pod in templates(cluster):
            for miss in term_misses(cluster, pod):
                for meant, _, corrected in miss.meant:
                    message = f"write {meant} instead of {miss.wanted} in the affinity of {name(owner)} over {miss.term.topologyKey}"
                    arguments = {"workload": owner, "term": text(miss.term), "to": text(corrected)}
                    yield Idea(cls.name, 0, Remedy("correctTerm", message, arguments))

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, pod in templates(cluster):
            for size, kind in ((4, "podAntiAffinity"), (5, "podAffinity")):
                for term in required_terms(pod, kind):
                    yield _idea(cls.name, owner, kind, term, size)
        yield from _repelling(cls.name, cluster)
