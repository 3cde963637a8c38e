"""The words of causes for InterPodAffinity.

Topics are a RequiredAffinity, and (case, term) of anti-affinity. The cases are "running", "symmetric" and that of pending pods
among each other. The topic None concerns pods that would each be the first of their group.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, Cluster, RequiredAffinity
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import required_terms
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.inter_pod_affinity.near_misses import term_misses
from kubestow.solver.rules.wording import listed, selector


class AffinityWords(Rule):
    """Facts about required affinity, and about anti-affinity."""

    drop_rank = 40
    counts_nominated = helped_by_new_nodes = helped_by_fewer_pods = True
    reads_namespace_labels = True

    @classmethod
    def topology_keys(cls, cluster: Cluster) -> set[str]:
        keys = {term.key for pods in cluster.classes for term in pods.anti}
        return keys | {key for pods in cluster.classes if pods.affinity is not None for key in pods.affinity.keys}

    def fact_keys(self, topic: Hashable) -> dict[str, bool]:
        if isinstance(topic, RequiredAffinity):
            return dict.fromkeys(topic.keys, True)
        return {topic[1].key: False} if isinstance(topic, tuple) else {}

    def rejects_with(self, g: int, n: int, guests: Sequence[Pod]) -> bool:
        return self._considers(g) and super().rejects_with(g, n, guests)

    def _considers(self, g: int) -> bool:
        """Return True if the filter considers pods of the class. It skips pods without terms that no bound pod repels."""
        cluster, pod = self.cluster, self.cluster.classes[g].pod
        if required_terms(pod, "podAffinity") or required_terms(pod, "podAntiAffinity"):
            return True
        terms = (fixed for fixed in cluster.fixed_anti if cluster.matches(fixed.term.matcher)[g])
        return any((cluster.domains(fixed.term.key)[0][fixed.nodes] >= 0).any() for fixed in terms)

    def sentence(self, part: FactPart) -> str:
        topic, view = part.topic, part.view
        if isinstance(topic, RequiredAffinity):
            return self._affinity(part, topic)
        if not isinstance(topic, tuple):
            return "pods that would each be the first of their own affinity group exclude each other"
        kind, term = topic
        matched = selector(self.cluster, term.matcher)
        if kind == "running":
            return f"anti-affinity of {part.pods} over {term.key}: pods {matched} run there already, on {view.of_all(part.barred)}"
        if kind == "symmetric":
            against = f"running pods have anti-affinity over {term.key} against pods {matched}"
            return f"{against}, {part.pods} among them: {view.of_all(part.barred)}"
        return self._among(part, term, matched)

    def _among(self, part: FactPart, term: AffinityTerm, matched: str) -> str:
        cluster, view, classes = self.cluster, part.view, part.classes
        owners = [g for g in classes if term in cluster.classes[g].anti]
        part.fact.object = view.objects(owners)
        head = f"anti-affinity of {view.whom(owners)} over {term.key} against pods {matched}"
        domains = len(set(cluster.domains(term.key)[0][view.open_to(classes)].tolist()) - {-1})
        per = "node" if term.key == "kubernetes.io/hostname" else "domain"
        remainder = f"{domains} {per}{'s' * (domains != 1)} for {int(cluster.count[classes].sum())} pods"
        if all(g in owners and cluster.matches(term.matcher)[g] for g in classes):
            return f"{head}: one per {per}, {remainder}"
        hit = [g for g in classes if cluster.matches(term.matcher)[g]]
        return f"{head}: no {per} has one of these and another of the {int(cluster.count[hit].sum())} that match; {remainder}"

    def _affinity(self, part: FactPart, topic: RequiredAffinity) -> str:
        cluster, view, classes = self.cluster, part.view, part.classes
        head = f"affinity of {part.pods} over {', '.join(topic.keys)} to pods {selector(cluster, topic.full)}"
        waiting = [g for g in np.flatnonzero(cluster.matches(topic.full)).tolist() if g not in classes]
        also = f", {view.whom(waiting)} are to come" if waiting else ""
        running = cluster.fixed_count(topic.full)
        if running.any():
            near = ~view.nowhere
            for key in topic.keys:
                near &= np.append(cluster.fixed_per_domain(topic.full, key) > 0, False)[cluster.domains(key)[0]]
            runs = int(running.sum())
            return f"{head}: {runs} run{'s' * (runs == 1)}, within reach of {view.of_all(near)}{also}"
        if any(cluster.matches(topic.full)[g] for g in classes):
            counts = listed(f"{cluster.domains(key)[1]} of {key}" for key in topic.keys)
            return f"{head}: none runs yet{also}, so one domain takes all that need each other (there are {counts})"
        misses = dict.fromkeys(str(miss) for g in classes for miss in term_misses(cluster, cluster.classes[g].pod))
        return "; ".join([f"{head}: none runs{also or ', and none is among these pods'}", *misses])
