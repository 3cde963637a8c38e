"""The words of causes for PodTopologySpread."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Spread, domain_sum
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.selectors import canonical, label_key_requirements
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.facts import FactPart


class SpreadWords(Rule):
    """Facts about DoNotSchedule constraints, which are their topics."""

    drop_rank = 30
    counts_nominated = helped_by_new_nodes = helped_by_fewer_pods = True

    @classmethod
    def topology_keys(cls, cluster: Cluster) -> set[str]:
        return {spread.key for pods in cluster.classes for spread in pods.spread}

    def fact_keys(self, topic: Hashable) -> dict[str, bool]:
        return {topic.key: False} if isinstance(topic, Spread) else {}

    def rejects_with(self, g: int, n: int, guests: Sequence[Pod]) -> bool:
        return super().rejects_with(g, n, guests) or self._crowded(g, n, guests)

    def _crowded(self, g: int, n: int, guests: Sequence[Pod]) -> bool:
        """Return True if nominated pods break a spread constraint with an empty selector.

        Such a selector matches no bound pod, but it matches a pod that is added later
        (podtopologyspread/filtering.go, updateWithPod).
        """
        cluster, pod = self.cluster, self.cluster.classes[g].pod
        labels = pod.metadata.labels or {}
        everything = {
            c.topologyKey for c in pod.spec.topologySpreadConstraints or ()
            if c.whenUnsatisfiable == "DoNotSchedule"
            and canonical(c.labelSelector, label_key_requirements(labels, c.matchLabelKeys)) == ()
        }  # fmt: skip
        count = sum(guest.metadata.namespace == pod.metadata.namespace for guest in guests)
        for spread in cluster.classes[g].spread:
            eligible = cluster.node_sets[spread.eligible]
            if spread.key in everything and eligible[n]:
                domains = len(np.unique(cluster.domains(spread.key)[0][eligible]))
                least = count if domains == 1 and spread.min_domains <= 1 else 0
                if count + 1 - least > spread.max_skew:
                    return True
        return False

    def sentence(self, part: FactPart) -> str:
        """Return a sentence on a constraint, without numbers for other topics. If one domain limits the minimum, the fact names it."""
        topic, view, barred, cluster = part.topic, part.view, part.barred, self.cluster
        if not isinstance(topic, Spread):
            return f"topology spread of {part.pods}"
        key = topic.key
        head = f"maxSkew {topic.max_skew} over {key}"
        codes, size = cluster.domains(key)
        eligible = cluster.node_sets[topic.eligible] & (codes >= 0)
        counted = np.zeros(size, dtype=bool)
        counted[codes[eligible]] = True
        if topic.matcher is None or not counted.any():
            return f"{head}: {view.of_all(barred)} have no {key}" if barred.any() else f"{head}: no node that counts has the label {key}"
        there = int(np.count_nonzero(counted))
        if there < topic.min_domains:
            return f"{head}: {there} of minDomains {topic.min_domains} exist, so none may hold more than {topic.max_skew} matching pods"
        matching = domain_sum(codes, size, np.where(eligible, cluster.fixed_count(topic.matcher, settled=True), 0))
        counting = np.flatnonzero(cluster.matches(topic.matcher)).tolist()
        pods = int(cluster.count[counting].sum())
        node_room = sum((view.room[g] for g in counting), np.zeros(cluster.n_nodes, dtype=np.int64))
        room = np.minimum(domain_sum(codes, size, np.where(eligible, node_room, 0)), pods)
        reach = np.where(counted, matching + room, np.iinfo(np.int64).max)
        low = int(np.argmin(reach))
        if counting and room[low] >= pods:
            least, most = int(matching[counted].min()), int(matching[counted].max())
            span = f"{least} to {most}" if least != most else str(least)
            missing = f", {view.of_all(barred)} have no {key}" if barred.any() else ""
            where = f"its {there} domains hold" if there > 1 else "its one domain holds"
            return f"{head}: {where} {span} matching pods, {pods} more are to come{missing}"
        part.fact.domain = view.domain(key, low)
        blockers = ", ".join(view.blockers(counting, codes == low))
        more = f"takes at most {int(room[low])} more" if room[low] else "none of its nodes takes one"
        return (
            f"{head}: {part.fact.domain} holds {int(matching[low])} matching pods and {more}{f' ({blockers})' if blockers else ''}, "
            f"so no other domain may hold more than {int(reach[low]) + topic.max_skew}"
        )
