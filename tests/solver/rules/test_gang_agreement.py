"""Gangs, one meaning in three readings: the encoding with the assignment fixed and a bind order found, greedy's construction, and the
independent checker, asked for every way of binding the pods in units."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pytest

from kubestow.checker.placement import Judge, verify
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Assignment, GangResult, Placement, SnapshotRef, TierResult, Unplaced
from kubestow.models.documents.policy import Multipliers, Policy
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.bind_order.gang_units import bundle
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.construction.greedy import construct
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests import tiny
from tests.solver.rules.test_agreement import assignments, matrix

State = tuple[int, ...]
#: No tiers after the placed ones.
PLAIN = Policy(multipliers=Multipliers(0, 0, 0, 0, 0, 0), strategy="none")
Cells = list[tuple[int, int]]  # (class, node) of each pod
UNITED = ("mutual", "ring", "woven")
KINDS = ("affinity", "anti", "spread", "mixed", "static", "resources", "ports", *UNITED)
#: Instances per kind in CI, and in the marked run.
FEW, CI, LONG = 2, 18, 1500
BEST_CI, BEST_LONG = 5, 400
#: Assignments judged per instance.
SAMPLE = 15


def objects(seed: int, kind: str, pods: int = 4) -> list[tiny.Object]:
    drawn = tiny.mutual(seed, kind, pods=pods) if kind in UNITED else tiny.snapshot(seed, kind, pods=pods)
    return tiny.with_gangs(drawn, seed)


class Oracle:
    """Return the assignments of a tiny instance that the checker accepts, for any grouping of binds."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.cluster = compile_cluster(snapshot, select(snapshot))
        self.width = self.cluster.n_nodes
        self._paths: dict[tuple[State, bool], list[Cells] | None] = {}
        self._bound: dict[tuple[State, State], bool] = {}

    @cached_property
    def pending(self) -> list[Pod]:
        return [self.snapshot.pods[i] for i in self.cluster.scope.pending]

    def cells(self, state: State) -> Cells:
        return [(i // self.width, i % self.width) for i, k in enumerate(state) for _ in range(k)]

    def whole(self, state: State) -> bool:
        placed = matrix(self.cluster, state).sum(axis=1)
        return all(int(placed[list(g.classes)].sum()) in (0, *range(g.needed, 99)) for g in self.cluster.gangs)

    def pods(self, before: State, cells: Cells) -> list[tuple[Pod, str]]:
        """Pods for these cells, after those of ``before``."""
        dealt = matrix(self.cluster, before).sum(axis=1).tolist()
        found = []
        for g, n in cells:
            found.append((self.snapshot.pods[self.cluster.classes[g].pods[dealt[g]]], self.cluster.nodes.names[n]))
            dealt[g] += 1
        return found

    def binds(self, before: State, after: State) -> bool:
        """Return whether the checker accepts the difference of two states as one unit."""
        if (before, after) not in self._bound:
            judge = Judge(self.snapshot, self.pending)
            nothing = (0,) * len(before)
            for one in self.pods(nothing, self.cells(before)):
                judge.bind([one])
            unit = self.cells(tuple(b - a for a, b in zip(before, after, strict=True)))
            # Rules that look at single nodes do not mind the order in tiny instances without zones or volumes.
            self._bound[before, after] = not any(judge.bind(self.pods(before, unit)))
        return self._bound[before, after]

    def units(self, state: State) -> Iterator[State]:
        """The states before a last unit that leads to this one: single pods first."""
        gang_of = [c.gang for c in self.cluster.classes]
        filled = [i for i, k in enumerate(state) if k]
        for i in filled:
            yield (*state[:i], state[i] - 1, *state[i + 1 :])
        for gang in sorted({k for i in filled if (k := gang_of[i // self.width]) is not None}):
            mine = [i for i in filled if gang_of[i // self.width] == gang]
            for counts in itertools.product(*(range(state[i] + 1) for i in mine)):
                if sum(counts) > 1:
                    before = list(state)
                    for i, k in zip(mine, counts, strict=True):
                        before[i] -= k
                    yield tuple(before)

    def path(self, state: State, *, strict: bool = False) -> list[Cells] | None:
        """Units in an order in which the checker accepts them, None if there is none. ``strict``: without units of the one kind that
        the model refuses (:meth:`apart`)."""
        if (state, strict) in self._paths:
            return self._paths[state, strict]
        found: list[Cells] | None = None if any(state) else []
        for before in self.units(state) if any(state) else ():
            unit = self.cells(tuple(b - a for a, b in zip(before, state, strict=True)))
            if strict and len(unit) > 1 and self.apart(before, unit):
                continue
            start = self.path(before, strict=strict)
            if start is not None and self.binds(before, state):
                found = [*start, unit]
                break
        self._paths[state, strict] = found
        return found

    def apart(self, before: State, unit: Cells) -> bool:
        """Return whether the model is stricter than the rules, because it assumes that openers come one after the other.

        The case: in one unit, pods of two classes with different terms open different domains. Each class can start groups alone, and
        would prevent the other's start."""
        affinity = [self.cluster.classes[g].affinity for g, _ in unit]
        for (g, n), own in zip(unit, affinity, strict=True):
            for (h, m), other in zip(unit, affinity, strict=True):
                if own is None or other is None or not (own.itself and other.itself) or (own.full, own.keys) == (other.full, other.keys):
                    continue
                mutual = self.cluster.matches(own.full)[h] and self.cluster.matches(other.full)[g]
                if mutual and any(self.cluster.domains(k)[0][n] != self.cluster.domains(k)[0][m] for k in {*own.keys, *other.keys}):
                    return True
        return False

    def document(self, units: Sequence[Cells]) -> Placement:
        """A Placement for the checker that is right about everything except, maybe, its validity."""
        cluster, pods = self.cluster, self.snapshot.pods
        dealt = [0] * cluster.n_classes
        found: list[Assignment] = []
        for order, unit in enumerate(units, 1):
            for g, n in unit:
                gang = cluster.classes[g].gang
                name = None if gang is None else cluster.gangs[gang].name
                found.append(Assignment(pod_key(pods[cluster.classes[g].pods[dealt[g]]]), cluster.nodes.names[n], order, name))
                dealt[g] += 1
        placed = np.array(dealt)
        tiers = [
            TierResult("placed", int(placed[cluster.priority == p].sum()), int(cluster.count[cluster.priority == p].sum()), p)
            for p in sorted({*cluster.priority.tolist()}, reverse=True)
        ]
        gangs = [
            GangResult(g.name, pending=len(d.pods), placed=int(placed[list(g.classes)].sum()), needed=d.needed, bound=len(d.bound))
            for g, d in zip(cluster.gangs, cluster.declared, strict=True)
        ]
        unplaced = [
            Unplaced(pod_key(pods[i]), [], None if cls.gang is None else cluster.gangs[cls.gang].name)
            for g, cls in enumerate(cluster.classes)
            for i in cls.pods[dealt[g] :]
        ]
        return Placement(
            SnapshotRef("", len(self.snapshot.nodes), len(pods), len(self.pending)), "greedy", "feasible", tiers, found, unplaced, gangs
        )

    def accepts(self, units: Sequence[Cells]) -> bool:
        return not verify(self.snapshot, self.document(units))

    def accepted(self, state: State, *, strict: bool = False) -> bool:
        """Return whether the checker accepts the assignment in some partition into units, in some order."""
        if not self.whole(state):
            return False
        units = self.path(state, strict=strict)
        return units is not None and self.accepts(units)

    def read(self, sequence: Sequence[tuple[int, int, int]]) -> list[Cells]:
        """The units that the engines read off a bind order."""
        found: list[Cells] = []
        for steps, together in bundle(self.cluster, sequence):
            cells = [(g, n) for g, n, k in steps for _ in range(k)]
            found += [cells] if together else [[cell] for cell in cells]
        return found


def oracle(seed: int, kind: str, pods: int = 4) -> Oracle:
    return Oracle(snapshots.from_objects(objects(seed, kind, pods)))


def sample(oracle: Oracle, seed: int) -> list[State]:
    """Assignments to judge: mostly of whole gangs, and mostly of many pods."""
    rng = random.Random(seed)
    everything = assignments(oracle.cluster)
    whole = [s for s in everything if oracle.whole(s)]
    full = [s for s in whole if sum(s) == len(oracle.pending)]
    gathered = [s for s in full if np.count_nonzero(matrix(oracle.cluster, s).sum(axis=0)) <= 2]
    groups = (everything[1:], whole, full, gathered, gathered)
    return sorted({s for group in groups for s in rng.sample(group, min(SAMPLE // len(groups), len(group)))})


def check(seed: int, kind: str, pods: int = 4) -> tuple[int, int]:
    """Assert agreement on one instance: how many assignments were judged, and how many of them take units of several pods."""
    found = oracle(seed, kind, pods)
    cluster = found.cluster
    if not cluster.n_classes:
        return 0, 0
    encoding = build_model(cluster, rules.build(cluster))
    judged = united = 0
    for state in sample(found, seed):
        where = f"{kind} seed {seed} pods {pods} state {state}"
        counts = matrix(cluster, state)
        within = all(counts[g, n] <= encoding.upper(int(g), int(n)) for g, n in np.argwhere(counts))
        ordering = find_order(cluster, counts) if within and encoding.assignment(counts) is not None else None
        judged += 1
        if ordering is not None and ordering.sequence is not None:
            units = found.read(ordering.sequence)
            assert found.accepts(units), where
            united += max((len(unit) for unit in units), default=0) > 1
        else:
            assert not found.accepted(state, strict=True), where
    return judged, united


@pytest.mark.parametrize("kind", KINDS)
def test_encoding_order_and_checker_agree_on_a_few_gangs(kind: str) -> None:
    assert sum(check(seed, kind)[0] for seed in range(FEW)) > 0


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_encoding_order_and_checker_agree_on_gangs(kind: str) -> None:
    counts = [check(seed, kind) for seed in range(CI)]
    assert sum(judged for judged, _ in counts) > CI
    assert kind not in ("mutual", "ring") or sum(united for _, united in counts) > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_encoding_order_and_checker_agree_on_gangs_at_length(kind: str) -> None:
    judged = sum(check(seed, kind, pods=4 + (seed % 8 == 0))[0] for seed in range(CI, LONG))
    assert judged > LONG - CI


def score(cluster: Cluster, state: State) -> tuple[int, ...]:
    """Placed pods per priority, highest first; gangs count at the lowest of their members."""
    per = cluster.per_priority(matrix(cluster, state).sum(axis=1))
    return tuple(per[p] for p in sorted(per, reverse=True))


def best(seed: int, kind: str) -> None:
    """Exact and auto prove the optimum of brute force; greedy and lns, whose answers place() has checked, are never above it."""
    found = oracle(seed, kind, pods=3)
    values: dict[str, tuple[int, ...]] = {}
    engines: tuple[Engine, ...] = ("exact", "auto", "greedy", "lns")
    for engine in engines[: 4 - bool(seed % 5)]:  # neighbourhoods take all the time they get
        where = f"{kind} seed {seed} {engine}"
        result = place(
            found.snapshot, Options(engine=engine, workers=1, time_limit=1 if engine == "lns" else 30, causes=False, policy=PLAIN)
        )
        tiers = [t for t in result.objective if t.tier == "placed"]
        values[engine] = tuple(t.value for t in tiers)
        if engine in ("exact", "auto"):
            assert all(t.value == t.bound for t in tiers), where
            assert values[engine] == values["exact"], where
        assert values[engine] <= values["exact"], where
    if found.cluster.n_classes:
        better = sorted((s for s in assignments(found.cluster) if found.whole(s) and score(found.cluster, s) > values["exact"]), key=sum)
        assert not any(found.accepted(s, strict=True) for s in better), f"{kind} seed {seed}"


@pytest.mark.parametrize("kind", UNITED)
def test_the_placed_tiers_of_a_tiny_gang_are_the_optimum_of_brute_force(kind: str) -> None:
    best(1, kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_the_placed_tiers_are_the_optimum_of_brute_force(kind: str) -> None:
    for seed in range(BEST_CI):
        best(seed, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_placed_tiers_are_the_optimum_of_brute_force_at_length(kind: str) -> None:
    for seed in range(BEST_CI, BEST_LONG):
        best(seed, kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_accepted_by_checker_and_model(kind: str) -> None:
    placed = whole = 0
    for seed in range(3 * CI):
        found = oracle(seed, kind, pods=5)
        cluster = found.cluster
        built = construct(cluster, rules.build(cluster), possible(cluster, rules.build(cluster)), tries=4)
        placed += int(built.counts.sum())
        whole += sum(bool(built.counts[list(gang.classes)].any()) for gang in cluster.gangs)
        assert found.accepts(found.read(built.sequence)), f"{kind} seed {seed}"
        assert build_model(cluster, rules.build(cluster)).assignment(built.counts) is not None, f"{kind} seed {seed}"
    assert placed > CI // 2
    assert whole > CI // 2
