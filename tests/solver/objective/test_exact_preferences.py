"""The tiers below the placed ones against brute force: every assignment, every choice of zones, scored by the independent checker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from kubestow.checker.objective import numa_zones, preferences
from kubestow.checker.placement import verify
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Assignment, ContainerZones, Placement
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube.objects import pod_key
from kubestow.models.numa.container_affinity import AnnotationError
from kubestow.models.numa.containers import running
from kubestow.models.numa.node_topology import NumaTree
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests import tiny_soft
from tests.checker import strategy
from tests.solver.rules.test_agreement import State, accepted, document, matrix, reachable

FEW, INSTANCES = 3, 24
#: Choices of zones tried on one node; instances with more are left out.
MOST = 2_000


def sets_of(tree: NumaTree) -> list[tuple[str, ...]]:
    """Every set of zones."""
    return [chosen for k in range(1, len(tree.zones) + 1) for chosen in itertools.combinations(tree.zones, k)]


def zone_choices(snapshot: Snapshot, cluster: Cluster, entries: list[Assignment]) -> Iterator[list[Assignment]]:
    """Every way to give the containers on one node that need zones a set of zones."""
    keys = {pod_key(p): p for p in snapshot.pods}
    of = {pod_key(snapshot.pods[i]): cls for cls in cluster.classes for i in cls.pods}
    node = cluster.nodes.names.index(entries[0].node)
    tree = cluster.trees.get(node)
    slots: list[list[list[ContainerZones]]] = []
    for entry in entries:
        cls = of[entry.pod].containers
        if tree is None or cls is None:
            slots.append([[]])
            continue
        names = [c.name or "" for c in running(keys[entry.pod])]
        if not (tree.rejects and (cls.per_container or cls.per_pod)):
            names = [names[i] for i in cls.involved()] if len(tree.zones) > 1 else []
        listed = [[ContainerZones(name, list(zones)) for zones in sets_of(tree)] for name in names]
        slots.append([list(choice) for choice in itertools.product(*listed)])
    size = 1
    for slot in slots:
        size *= len(slot)
    if size > MOST:
        raise OverflowError
    for choice in itertools.product(*slots):
        yield [Assignment(e.pod, e.node, e.order, containers=zones) for e, zones in zip(entries, choice, strict=True)]


def container_points(snapshot: Snapshot, cluster: Cluster, entries: list[Assignment], policy: Policy) -> int:
    """The most points that zones can give to an assignment, node by node. Hard asks without zones are not the question here: containers
    that list no zones are somewhere on the node, so only choices that list all that hints concern count."""
    total = 0
    for _, group in itertools.groupby(sorted(entries, key=lambda e: (e.node, e.order)), key=lambda e: e.node):
        here = list(group)
        best = None
        for choice in zone_choices(snapshot, cluster, here):
            result = numa_zones.judge(snapshot, choice, (), policy)
            if not any(f[2] == "Zones" for f in result.faults) and (best is None or result.points > best):
                best = result.points
        assert best is not None, "some choice of zones must be valid"
        total += best
    return total


def judged(snapshot: Snapshot, cluster: Cluster, doc: Placement, policy: Policy) -> tuple[int, int, int]:
    """(soft, topologySpread, strategy) of an assignment by the checker's own scoring, zones at their best."""
    placed = {e.pod: e.node for e in doc.assignments}
    pending = {pod_key(snapshot.pods[i]) for i in cluster.scope.pending}
    score = preferences.score(snapshot, placed, (), policy, pending=pending)
    families = score.families
    families["containerAffinity"] = container_points(snapshot, cluster, doc.assignments, policy)
    soft = sum(points * int(getattr(policy.multipliers, family)) for family, points in families.items())
    counts = policy.multipliers.topologySpread and policy.strategy != "pack"
    return soft, (score.evenness() or 0) if counts else 0, strategy.points(snapshot, placed, (), policy) or 0


def values(result: Placement, tier: str) -> list[int]:
    return [t.value for t in result.objective if t.tier == tier]


def check(seed: int, kind: str, policy: Policy) -> bool:
    """Assert on one instance; whether it had any preference."""
    try:
        objects = tiny_soft.snapshot(seed, kind)
        snapshot = snapshots.from_objects(tiny_soft.with_images(objects, seed) if policy.multipliers.imageLocality else objects)
        cluster = compile_cluster(snapshot, select(snapshot), policy=policy)
    except (InputError, AnnotationError) as error:  # pragma: no cover
        raise AssertionError(f"{kind} seed {seed}: {error}") from error
    if not cluster.n_classes:
        return False
    where = f"{kind} seed {seed}"
    result = place(snapshot, Options(engine="exact", workers=2, time_limit=30, policy=policy, search_strategy=True))
    assert verify(snapshot, result) == [], where
    assert result.status in ("optimal", "infeasible"), f"{where}: {result.objective}"

    def placed(state: State) -> tuple[int, ...]:
        sums = matrix(cluster, state).sum(axis=1)
        return tuple(int(sums[cluster.priority == p].sum()) for p in sorted({*cluster.priority.tolist()}, reverse=True))

    valid = {s: order for s, order in reachable(cluster).items() if accepted(cluster, order)}
    max_placed = max(placed(s) for s in valid)
    assert tuple(values(result, "placed")) == max_placed, where
    try:
        best = max(judged(snapshot, cluster, document(cluster, order), policy) for s, order in valid.items() if placed(s) == max_placed)
    except OverflowError:
        return False
    tier_values = tuple((values(result, tier) or [0])[0] for tier in ("soft", "topologySpread", "strategy"))
    if result.assignments:  # the later tiers concern placed pods
        assert tier_values == best, f"{where}: {result.objective}"
        assert all(tier.value == tier.bound for tier in result.objective), f"{where}: {result.objective}"
    return bool(values(result, "soft"))


@pytest.mark.parametrize("kind", tiny_soft.KINDS)
def test_soft_tiers_of_a_few_are_the_optimum_of_brute_force(kind: str) -> None:
    assert sum(check(seed, kind, DEFAULT) for seed in range(FEW)) > 0


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny_soft.KINDS)
def test_soft_tiers_are_the_optimum_of_brute_force(kind: str) -> None:
    preferring = sum(check(seed, kind, DEFAULT) for seed in range(INSTANCES))
    assert preferring > INSTANCES // 4


@pytest.mark.full
@pytest.mark.parametrize("kind", ["containers", "mixed"])
def test_other_policies_are_optimal_too(kind: str) -> None:
    policy = replace(DEFAULT, strategy="pack", colocatePods=kind == "mixed", hardPodAffinityWeight=7)
    policy = replace(policy, multipliers=replace(policy.multipliers, podAffinity=3, nodeAffinity=0, containerAffinity=2))
    preferring = sum(check(seed, kind, policy) for seed in range(100, 100 + INSTANCES // 2))
    assert preferring > INSTANCES // 8


@pytest.mark.parametrize(
    ("kind", "count"), [("pods", FEW), *(pytest.param(k, INSTANCES // 2, marks=pytest.mark.full) for k in ("pods", "mixed"))]
)
def test_an_asymmetric_policy_is_optimal_too(kind: str, count: int) -> None:
    policy = replace(DEFAULT, symmetricPreferredAntiAffinity=False)
    assert sum(check(seed, kind, policy) for seed in range(300, 300 + count)) > 0


@pytest.mark.parametrize(
    ("kind", "count"), [("nodes", FEW), *(pytest.param(k, INSTANCES // 2, marks=pytest.mark.full) for k in tiny_soft.KINDS)]
)
def test_images_count_where_the_policy_says_so(kind: str, count: int) -> None:
    policy = replace(DEFAULT, multipliers=replace(DEFAULT.multipliers, imageLocality=3))
    assert sum(check(seed, kind, policy) for seed in range(200, 200 + count)) > count // 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiny_soft.KINDS)
def test_soft_tiers_are_the_optimum_of_brute_force_at_length(kind: str) -> None:
    preferring = sum(check(seed, kind, DEFAULT) for seed in range(INSTANCES, 1500))
    assert preferring > 300
