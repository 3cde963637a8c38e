"""A running pod that could run elsewhere, moved out of the way: the least that ``kubestow rebalance --goal admit`` plans.

Only pods that no other pod needs or avoids are moved here, so that no running pod is worse off. Plans of several moves, and those of pods
that rules between pods concern, are left to ``rebalance``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from models.cluster.pod_terms import term_matches
from models.disruption.evictable import exclusions
from models.documents.placement import Remedy
from models.kube.objects import Pod, pod_key
from models.kube.pod_spec import required_terms
from models.kube.selectors import canonical, selector_matches
from solver import rules
from solver.explain.conflict.placement_question import PlacementQuestion
from solver.explain.remedy.victims import eviction_problem
from solver.rules.eligibility import possible

#: Pods that are tried, one after the other.
MAX_TRIALS = 20


def candidates(question: PlacementQuestion) -> Iterator[Remedy]:
    """Yield moves of single pods that make room, the lowest priority first. Which of them works is for the caller to try."""
    pods = question.snapshot.pods
    stay = exclusions(question.snapshot, tiers=question.policy.networkTiers)
    chosen = [i for i in question.scope().fixed if i not in stay and not _has_rules(pods[i])]
    if not chosen or question.needed < len(question.pods):
        return
    problem = eviction_problem(question, chosen)
    active = rules.build(problem.cluster)
    useful = possible(problem.cluster, active)[problem.own].sum(axis=0) > 0
    listed = []
    for g in problem.victims:
        if not problem.cluster.classes[g].claims and not any(rule.concerned(g) for rule in active if not rule.local):
            listed += [i for n, here in problem.at[g].items() if useful[n] for i in here]
    free = (i for i in sorted(listed, key=lambda i: (pods[i].spec.priority or 0, i)) if not _is_counted(question, pods[i]))
    for i in itertools.islice(free, MAX_TRIALS):
        key, node = pod_key(pods[i]), pods[i].spec.nodeName or ""
        message = f"move 1 pod to another node: {key} from {node} (kubestow rebalance --goal admit)"
        yield Remedy("move", message, {"pod": key, "node": node})


def _is_counted(question: PlacementQuestion, pod: Pod) -> bool:
    """Return True if required affinity or a DoNotSchedule constraint of another running pod counts the pod."""
    snapshot = question.snapshot
    labels, namespace = pod.metadata.labels or {}, pod.metadata.namespace or "default"
    for i in question.scope().fixed:
        other = snapshot.pods[i]
        if other is pod:
            continue
        if any(term_matches(snapshot, other, term, pod) for term in required_terms(other, "podAffinity")):
            return True
        if (other.metadata.namespace or "default") == namespace and any(
            constraint.whenUnsatisfiable == "DoNotSchedule"
            and (selector := canonical(constraint.labelSelector)) is not None
            and selector_matches(selector, labels)
            for constraint in other.spec.topologySpreadConstraints or ()
        ):
            return True
    return False


def _has_rules(pod: Pod) -> bool:
    """Return True if the pod has affinity to pods or a DoNotSchedule constraint."""
    affinity = pod.spec.affinity
    near = affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None)
    return near or any(c.whenUnsatisfiable == "DoNotSchedule" for c in pod.spec.topologySpreadConstraints or ())
