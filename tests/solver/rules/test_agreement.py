"""One meaning, three readings: the encoding with the assignment fixed, the incremental rules, and the independent checker."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from kubestow.checker.placement import verify
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef, TierResult, Unplaced
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_, find_order
from kubestow.solver.construction.greedy import construct
from kubestow.solver.devices.result import devices
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.placement_model import build_model
from tests import tiny

State = tuple[int, ...]
#: Instances per kind of rule in the tiers quick, full and slow.
FEW, CI, LONG = 8, 90, 4000
#: Random assignments judged per instance, and the same number of assignments that are known to be reachable.
SAMPLE = 8


def compiled(seed: int, kind: str) -> tuple[Snapshot, Cluster]:
    snapshot = snapshots.from_objects(tiny.snapshot(seed, kind))
    snapshot.gates = tiny.GATES if kind == "gated" else snapshot.gates
    return snapshot, compile_cluster(snapshot, select(snapshot))


def reachable(cluster: Cluster) -> dict[State, Sequence_]:
    """Every state that pods can be bound into one by one under the incremental rules, with one order for each."""
    active = rules.build(cluster)
    width = cluster.n_nodes
    current = [0] * (cluster.n_classes * width)
    found: dict[State, Sequence_] = {}
    path: Sequence_ = []

    def visit() -> None:
        state = tuple(current)
        if state in found:
            return
        found[state] = list(path)
        for g in range(cluster.n_classes):
            if sum(current[g * width : (g + 1) * width]) < cluster.count[g]:
                for n in np.flatnonzero(~rejected(active, g)).tolist():
                    move(active, g, n, 1)
                    current[g * width + n] += 1
                    path.append((g, n, 1))
                    visit()
                    path.pop()
                    current[g * width + n] -= 1
                    move(active, g, n, -1)

    visit()
    return found


def rejected(active: list[Rule], g: int) -> Bools:
    return np.asarray(np.logical_or.reduce([rule.rejects(g) for rule in active]), dtype=bool)


def move(active: list[Rule], g: int, n: int, k: int) -> None:
    for rule in active:
        rule.place(g, n, k) if k > 0 else rule.remove(g, n, -k)


def document(cluster: Cluster, sequence: Sequence_) -> Placement:
    """A Placement for the checker, with tiers that tell the truth."""
    pods = cluster.snapshot.pods
    dealt = [0] * cluster.n_classes
    assignments: list[Assignment] = []
    allocating = DynamicResources(cluster)
    for g, n, k in sequence:
        for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k]:
            assignments.append(Assignment(pod_key(pods[i]), cluster.nodes.names[n], len(assignments) + 1))
            if cluster.devices is not None and allocating.concerned(g):
                allocating.place(g, n)
                assignments[-1].devices = devices(cluster.devices, i, allocating.taken(g, n)[-1])
        dealt[g] += k
    placed = {a.pod for a in assignments}
    pending = [pods[i] for i in cluster.scope.pending]
    tiers = []
    for priority in sorted({p.spec.priority or 0 for p in pending}, reverse=True):
        here = [p for p in pending if (p.spec.priority or 0) == priority]
        tiers.append(TierResult("placed", sum(pod_key(p) in placed for p in here), len(here), priority))
    return Placement(
        SnapshotRef("", len(cluster.snapshot.nodes), len(pods), len(pending)), "greedy", "feasible", tiers, assignments,
        [Unplaced(pod_key(p), []) for p in pending if pod_key(p) not in placed],
    )  # fmt: skip


def accepted(cluster: Cluster, sequence: Sequence_) -> bool:
    return not verify(cluster.snapshot, document(cluster, sequence))


def orders(state: State, width: int, limit: int) -> Iterator[Sequence_]:
    """Distinct bind orders of a state (all of them where they are few)."""
    units = [(i // width, i % width, 1) for i, k in enumerate(state) for _ in range(k)]
    seen = set()
    for order in itertools.permutations(units):
        if order not in seen:
            seen.add(order)
            yield list(order)
            if len(seen) >= limit:
                return


def assignments(cluster: Cluster) -> list[State]:
    per_class = [[v for v in itertools.product(range(int(k) + 1), repeat=cluster.n_nodes) if sum(v) <= k] for k in cluster.count.tolist()]
    return [sum(parts, ()) for parts in itertools.product(*per_class)]


def matrix(cluster: Cluster, state: State) -> Ints:
    return np.array(state, dtype=np.int64).reshape(cluster.n_classes, cluster.n_nodes)


def check(seed: int, kind: str) -> int:
    """Assert agreement on one instance; the number of assignments judged."""
    _, cluster = compiled(seed, kind)
    return agree(cluster, seed, kind) if cluster.n_classes else 0


def agree(cluster: Cluster, seed: int, kind: str) -> int:
    """Assert that encoding, rules and checker agree on a cluster; the number of assignments judged."""
    reach = reachable(cluster)
    rng = random.Random(seed)
    everything = assignments(cluster)
    sample = {*rng.sample(everything, min(SAMPLE, len(everything))), *rng.sample(sorted(reach), min(SAMPLE, len(reach)))}
    encoding = build_model(cluster, rules.build(cluster))
    for state in sorted(sample):
        where = f"{kind} seed {seed} state {state}"
        counts = matrix(cluster, state)
        within = all(counts[g, n] <= encoding.upper(int(g), int(n)) for g, n in np.argwhere(counts))
        in_model = within and encoding.assignment(counts) is not None
        ordering = find_order(cluster, counts) if in_model else None
        # The encoding is necessary, and with a bind order sufficient.
        modelled = ordering is not None and ordering.sequence is not None
        assert ordering is None or modelled or ordering.exhausted, where
        if modelled:
            assert ordering is not None
            assert ordering.sequence is not None
            assert state in reach, where
            assert accepted(cluster, ordering.sequence), where
            assert accepted(cluster, reach[state]), where
        else:
            assert not any(accepted(cluster, order) for order in orders(state, cluster.n_nodes, 24)), where
    return len(sample)


@pytest.mark.parametrize("kind", tiny.ALL)
def test_encoding_rules_and_checker_agree_on_a_few(kind: str) -> None:
    judged = sum(check(seed, kind) for seed in range(FEW))
    assert judged > FEW


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.ALL)
def test_encoding_rules_and_checker_agree(kind: str) -> None:
    judged = sum(check(seed, kind) for seed in range(CI))
    assert judged > CI


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiny.ALL)
def test_encoding_rules_and_checker_agree_at_length(kind: str) -> None:
    judged = sum(check(seed, kind) for seed in range(CI, LONG))
    assert judged > LONG - CI


def greedy_placed(seed: int, kind: str) -> int:
    """Assert that checker and model accept the greedy placement of one instance, and return the number of placed pods."""
    _, cluster = compiled(seed, kind)
    built = construct(cluster, rules.build(cluster), possible(cluster, rules.build(cluster)), tries=4)
    assert accepted(cluster, built.sequence), f"{kind} seed {seed}"
    assert build_model(cluster, rules.build(cluster)).assignment(built.counts) is not None, f"{kind} seed {seed}"
    return int(built.counts.sum())


@pytest.mark.parametrize("kind", tiny.ALL)
def test_greedy_is_accepted_by_checker_and_model_on_a_few(kind: str) -> None:
    assert sum(greedy_placed(seed, kind) for seed in range(FEW)) > 0


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.ALL)
def test_greedy_is_accepted_by_checker_and_model(kind: str) -> None:
    assert sum(greedy_placed(seed, kind) for seed in range(CI)) > CI // 2


@pytest.mark.parametrize("kind", tiny.ALL)
def test_removing_undoes_placing(kind: str) -> None:
    """After any walk of places and its reverse, every rule gives the same verdict as before."""
    for seed in range(60):
        _, cluster = compiled(seed, kind)
        active = rules.build(cluster)
        before = [rejected(active, g) for g in range(cluster.n_classes)]
        rng = random.Random(seed)
        walk = []
        for _ in range(4):
            choices = [(g, int(n)) for g in range(cluster.n_classes) for n in np.flatnonzero(~rejected(active, g))]
            if choices:
                walk.append(rng.choice(choices))
                move(active, *walk[-1], 1)
        for g, n in reversed(walk):
            move(active, g, n, -1)
        for g in range(cluster.n_classes):
            assert (rejected(active, g) == before[g]).all(), f"{kind} seed {seed}"
