"""The Upgrade document: waves with named pods, grouped within each drain, and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kubestow.models.cluster import unmodelled
from kubestow.models.documents import placement as doc
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.upgrade import Blocker, Upgrade, UpgradeWave
from kubestow.models.edits.upgrade import stays
from kubestow.models.kube import objects
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.upgrade.course import UpgradeCourse
from kubestow.solver.capacity.upgrade.pool import UpgradeOptions, UpgradePool
from kubestow.solver.rebalance.named_moves import name_moves
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rules.base import CapacityRule, Rule

#: Maximum number of pod names in a note.
MAX_LISTED_PODS = 3


def document(
    pool: UpgradePool, request: UpgradeOptions, course: UpgradeCourse, rules: Sequence[Rule], blocked: Sequence[Blocker]
) -> Upgrade:
    """Return the document of a course.

    Args:
        rules: Rules of the cluster, in any state.
    """
    snapshot, options = pool.snapshot, request.options
    waves = _waves(pool, course, rules, request.by)
    moving = stays(snapshot.pods, [pool.names[n] for n in pool.old])
    return Upgrade(
        snapshot=doc.SnapshotRef(
            snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(select(snapshot, include_gated=options.include_gated).pending),
            includeGated=options.include_gated, daemonNamespaces=list(options.exempt),
            kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given),
        ),
        pool=request.pool,
        nodes=[pool.names[n] for n in pool.old],
        maxUnavailable=pool.unavailable,
        surge=pool.surge,
        complete=course.drained == len(pool.old),
        proved=course.proved,
        waves=waves,
        blocked=list(blocked),
        by=request.by,
        to=None if request.to is None else dict(request.to),
        policy=options.policy if options.policy != DEFAULT else None,
        unmodelled=[
            *unmodelled.find(snapshot, moving, tiers=options.policy.networkTiers),
            *(
                doc.Unmodelled(f"Node/{pool.names[n]}", "NodeResourceTopology", "the NUMA zones of running pods are unknown")
                for n in sorted(pool.problem.cluster.trees)
            ),
        ],
        notes=_notes(snapshot, moving, waves),
    )  # fmt: skip


def _waves(pool: UpgradePool, course: UpgradeCourse, rules: Sequence[Rule], by: str | None) -> list[UpgradeWave]:
    """Return the waves with named pods. All are named at once, because pods that moved may move again."""
    names = pool.names
    grouped = [_grouped(pool, wave.steps, rules) for wave in course.waves]
    flat = [steps for groups in grouped for steps in groups]
    moves, _ = name_moves(pool.problem, flat, [False] * len(flat), lambda g, a, bound: f"{names[a]} is drained")
    upgrade_waves, first = [], 0
    waiting = iter(moves)
    for number, (wave, groups) in enumerate(zip(course.waves, grouped, strict=True), 1):
        mine = [next(waiting) for steps in groups for _ in steps]
        for step, move in enumerate(mine, 1):
            move.step, move.wave, move.stopover = step, move.wave - first, False
        first += len(groups)
        domain = f"{by}={pool.domain[wave.drain[0]]}" if by is not None else None
        upgrade_waves.append(
            UpgradeWave(
                number, [names[n] for n in wave.drain], [pool.joining(n) for n in wave.surge], [pool.joining(n) for n in wave.joined],
                mine, domain,
            )
        )  # fmt: skip
    return upgrade_waves


def _grouped(pool: UpgradePool, steps: Sequence[Step], rules: Sequence[Rule]) -> list[list[Step]]:
    """Return the steps of a drain, grouped in waves that are safe in every order.

    Pods only leave drained nodes and only arrive at others. So pods that only room constrains move at once,
    as far as their budgets allow. Every other pod moves alone, in its turn.
    """
    budgets, problem = pool.problem.budgets, pool.problem
    waves: list[list[Step]] = []
    used: list[Counter[int]] = []
    alone: list[list[Step]] = []
    first: dict[int, int] = {}  # by budget, the first wave that may have a disruption left
    for step in steps:
        cls = problem.cluster.classes[step.g]
        concerned = any(not (rule.static or isinstance(rule, CapacityRule)) and rule.concerned(step.g) for rule in rules)
        if concerned or cls.claims or cls.gang is not None:
            alone.append([step])
            continue
        budget = problem.budget[step.g]
        at = first.get(budget, 0) if budget is not None else 0
        while budget is not None and at < len(waves) and used[at][budget] >= budgets[budget].allowed:
            at += 1
        if at == len(waves):
            waves.append([])
            used.append(Counter())
        waves[at].append(step)
        if budget is not None:
            used[at][budget] += 1
            first[budget] = at
    return [*waves, *alone]


def _notes(snapshot: Snapshot, moving: Sequence[objects.Pod], waves: Sequence[UpgradeWave]) -> list[str]:
    notes = ["the destinations of pods are one way to complete the upgrade; the scheduler may choose other nodes"] if waves else []
    local = [pod for pod in moving if _local(pod)]
    if local:
        notes.append(
            f"{len(local)} pods of the pool lose the data in their emptyDir or hostPath volumes, as with "
            f"kubectl drain --delete-emptydir-data ({_some(local)})"
        )
    waiting = [snapshot.pods[i] for i in select(snapshot).pending]
    if waiting:
        pods = f"{len(waiting)} pod{'s have' if len(waiting) > 1 else ' has'} no node"
        notes.append(f"{pods} ({_some(waiting)}): pending pods may occupy new nodes")
    times = Counter(move.pod for wave in waves for move in wave.moves)
    again = sum(k > 1 for k in times.values())
    if again:
        notes.append(f"{again} pods move more than once, via nodes that are drained later")
    return notes


def _local(pod: objects.Pod) -> bool:
    return any(v.hostPath is not None or (v.emptyDir is not None and v.emptyDir.medium != "Memory") for v in pod.spec.volumes or ())


def _some(pods: Sequence[objects.Pod]) -> str:
    return ", ".join(objects.pod_key(pod) for pod in pods[:MAX_LISTED_PODS]) + (", …" if len(pods) > MAX_LISTED_PODS else "")
