"""The explanation of unplaced pods: a minimal cause and the cheapest remedies for each unplaced gang and class."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents import placement as doc
from kubestow.models.gangs import gangs
from kubestow.models.kube.device_objects import ResourceClaim
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.pod_spec import preempts_never
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.order_conflict import order_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.per_node import PodVerdict
from kubestow.solver.explain.placed_pods import placed_in
from kubestow.solver.explain.remedy.search import search_remedies
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of gangs and classes to explain, highest priority first.
MAX_EXPLAINED = 8
#: Minimum number of seconds for each, so that some are explained when time is short.
MIN_SECONDS = 4.0
#: Fraction of the time of each for its cause.
CAUSE_TIME_FRACTION = 0.5
#: Fraction of the time of each for its remedies.
REMEDY_TIME_FRACTION = 0.5


@dataclass(frozen=True)
class Left:
    """A group of pods that stayed unplaced together.

    Attributes:
        pods: Indices into ``snapshot.pods``.
        ask: The pods to explain.
        needed: Number of these pods that must be placed.
        gang: Name of their gang; None without one.
        priority: Their priority.
        classes: Classes of which no pod can be placed if these pods cannot.
        unaided: True if no other pending pod could help them.
    """

    pods: tuple[int, ...]
    ask: tuple[int, ...]
    needed: int
    gang: str | None
    priority: int
    classes: tuple[int, ...] = ()
    unaided: bool = True


def left_of(cluster: Cluster, placed: Sequence[int]) -> list[Left]:
    """Return the gangs without a node, and the unplaced pods of other classes, highest priority first.

    Args:
        placed: Number of placed pods of each class.
    """
    groups = []
    for k, gang in enumerate(cluster.gangs):
        if gang.needed > 1 and not any(placed[g] for g in gang.classes):
            pods = cluster.declared[k].pods
            priority = cluster.classes[gang.classes[0]].priority
            groups.append(Left(pods, pods, gang.needed, gang.name, priority, gang.classes, _unaided(cluster, gang.classes)))
    for g, cls in enumerate(cluster.classes):
        unplaced = tuple(cls.pods[placed[g] :])
        gang_of = None if cls.gang is None else cluster.gangs[cls.gang]
        gang_left = gang_of is not None and gang_of.needed > 1 and not any(placed[h] for h in gang_of.classes)
        if unplaced and not gang_left:
            name = None if gang_of is None else gang_of.name
            unaided = gang_of is None and _unaided(cluster, (g,))
            groups += [Left(pods, pods[:1], 1, name, cls.priority, (g,), unaided) for pods in _by_preemption(cluster.snapshot, unplaced)]
    return sorted(groups, key=lambda group: -group.priority)


def _by_preemption(snapshot: Snapshot, pods: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the pods that may preempt others, and those that never do. The same rules reject both, but not the same remedies help."""
    never = [preempts_never(snapshot.pods[i]) for i in pods]
    parts = (tuple(i for i, its in zip(pods, never, strict=True) if its is part) for part in (False, True))
    return [part for part in parts if part]


def _unaided(cluster: Cluster, classes: Sequence[int]) -> bool:
    """Return True if no other pending pod can help these: none that their affinity or spread matches, and no member of their gang."""
    own, gang = set(classes), cluster.classes[classes[0]].gang
    if gang is not None and own != set(cluster.gangs[gang].classes):
        return False
    needs = {a.full for g in own if (a := cluster.classes[g].affinity) is not None}
    needs |= {s.matcher for g in own for s in cluster.classes[g].spread if s.matcher is not None}
    return all(own.issuperset(cluster.matching(m).tolist()) for m in needs)


def asked(snapshot: Snapshot, verdicts: Sequence[PodVerdict], *, whole: bool, tiers: Sequence[str] = ()) -> list[Left]:
    """Return the groups that ``explain`` looks into: the gangs of the pods, and classes that fit on no node.

    Args:
        whole: True if all pods must be placed together.
        tiers: The policy's networkTiers.
    """
    index = {pod_key(pod): i for i, pod in enumerate(snapshot.pods)}
    verdicts = [v for v in verdicts if v.pod in index]
    pods = [index[v.pod] for v in verdicts]
    scope = select(snapshot)
    named = set(pods)
    everyone = replace(
        scope,
        pending=sorted({*scope.pending, *pods}),
        fixed=[i for i in scope.fixed if i not in named],
        gated=[i for i in scope.gated if i not in named],
    )
    groups: list[Left] = []
    seen: set[int] = set()
    for gang in gangs.find(snapshot, everyone, tiers=tiers):
        if gang.needed > 1 and not seen.issuperset(gang.pods) and not set(pods).isdisjoint(gang.pods):
            seen.update(gang.pods)
            groups.append(Left(gang.pods, gang.pods, gang.needed, gang.name, 0))
    alike: dict[int, list[int]] = {}
    for i, verdict in zip(pods, verdicts, strict=True):
        if i not in seen and (whole or not verdict.feasible):
            alike.setdefault(0 if whole else id(verdict.rejected), []).append(i)
    if whole:
        return groups + [Left(tuple(members), tuple(members), len(members), None, 0) for members in alike.values()]
    return groups + [Left(part, part[:1], 1, None, 0) for members in alike.values() for part in _by_preemption(snapshot, members)]


def explain_left(
    snapshot: Snapshot,
    groups: Sequence[Left],
    placed: Sequence[tuple[int, str]],
    context: RunContext,
    claims: dict[str, ResourceClaim] | None = None,
) -> list[tuple[Left, doc.Cause]]:
    """Return the cause and the remedies of each group, within the deadline.

    Groups that could not be placed alone, and that no other pending pod could help, are explained by running
    pods and rules. For other groups, the placed pods count, too. Remedies always count them.

    Args:
        snapshot: The cluster. Movable pods that are placed again have no node in it.
        placed: (index of a pod, its node) of each placed pod.
        claims: The ResourceClaims after the placement; None for those of the snapshot.
    """
    together = placed_in(snapshot, placed) if placed else snapshot
    here = frozenset(pod_key(snapshot.pods[i]) for i, _ in placed)
    together = replace(together, chosen_here=here)
    together = together if claims is None else replace(together, resource_claims=claims)
    explained = []
    options, seconds = context.options, context.deadline.remaining()

    def part(of: float) -> RunContext:
        """Return the context of a part of the work with this time limit."""
        return RunContext.start(Options(time_limit=of, seed=options.seed, deterministic=options.deterministic), context.stop)

    for number, entry in enumerate(groups[:MAX_EXPLAINED]):
        planned = seconds * (1 - number / min(MAX_EXPLAINED, len(groups)))
        remaining_seconds = context.deadline.by_clock(context.deadline.remaining(), otherwise=planned)
        if context.stop.is_set() or (number and remaining_seconds <= 0):
            break
        share = max(0.5, min(remaining_seconds, MIN_SECONDS), remaining_seconds / (min(MAX_EXPLAINED, len(groups)) - number))
        tried = share * CAUSE_TIME_FRACTION / 2
        question = PlacementQuestion(together, entry.ask, entry.needed, options.exempt, options.policy, options.catalogue, here)
        lone = replace(question, snapshot=snapshot, placed=frozenset())
        cause = (minimal_cause(lone, part(tried)) or order_cause(lone, part(tried))) if entry.unaided else None
        alone = cause is not None
        if cause is None and (placed or not entry.unaided):
            cause = minimal_cause(question, part(tried)) or order_cause(question, part(tried))
        if cause is None:
            continue
        cause.pods = [pod_key(snapshot.pods[i]) for i in entry.pods]
        cause.gang, cause.alone, cause.together = entry.gang, alone, entry.needed
        add_remedies(question, cause, here, part(share * REMEDY_TIME_FRACTION))
        explained.append((entry, cause))
    return explained


def add_remedies(question: PlacementQuestion, cause: doc.Cause, placed: Collection[str], context: RunContext) -> None:
    """Add the cheapest changes that help to a cause.

    Args:
        placed: Pods (namespace/name) that were placed in the same run. They do not run yet, so they cannot be
            evicted.
    """
    search = search_remedies(question, sorted({fact.rule for fact in cause.facts}), context)
    concerned = ({key for name in ("pods", "pod") for key in remedy.arguments.get(name, "").split(",")} for remedy in search.remedies)
    cause.waysOut = [remedy for remedy, pods in zip(search.remedies, concerned, strict=True) if pods.isdisjoint(placed)]
    cause.untried = search.untried
