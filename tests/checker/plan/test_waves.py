"""Waves: the checker's judgement against the enumeration of every state, on random tiny clusters."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubestow.checker.plan.document import PLAN, PlanEntry
from kubestow.checker.plan.plan import verify_plan
from kubestow.checker.plan.replay import BUDGET
from kubestow.checker.plan.state import Board
from kubestow.checker.plan.waves import NextWave
from kubestow.checker.rules.volumes.rule import VolumeRules
from kubestow.models.documents.placement import SnapshotRef, TierResult
from kubestow.models.documents.rebalance_plan import Move, RebalancePlan, Summary
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests import tiny
from tests.checker.plan.plan_states import Goes, States
from tests.objects import node, pod
from tests.tiers import sampled

Object = dict[str, Any]
PATTERNS = ("mutual", "ring", "woven")
EXAMPLES = 25


def _cluster(seed: int, kind: str) -> tuple[list[Object], list[str], random.Random]:
    """A tiny cluster in which most pods run, wherever chance put them, with the names of its nodes."""
    rng = random.Random(f"wave-{kind}-{seed}")
    objects = tiny.mutual(seed, kind, nodes=3, pods=5) if kind in PATTERNS else tiny.snapshot(seed, kind, nodes=4, pods=5)
    names = [item["metadata"]["name"] for item in objects if item["kind"] == "Node"]
    found = []
    for item in objects:
        if item["kind"] == "Node" and rng.random() < 0.7:
            item["status"]["allocatable"] |= {"pods": "10", "cpu": "4", "memory": "8Gi"}
        if item["kind"] == "Pod" and "nodeName" not in item["spec"] and rng.random() < 0.8:
            status: Object = {"phase": "Running"}
            if kind in ("resources", "mixed") and rng.random() < 0.2:
                status["containerStatuses"] = [{"name": "c", "resources": {"requests": {"cpu": rng.choice(("100m", "3"))}}}]
                if rng.random() < 0.6:
                    status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
            item = {**item, "spec": {**item["spec"], "nodeName": rng.choice(names)}, "status": status}
        found.append(item)
    return found, names, rng


def _draw(rng: random.Random, states: States, names: list[str]) -> list[list[Goes]]:
    """A wave of up to four steps; sometimes some pending pods bind as a unit."""
    keys = [key for key, pod in states.pods.items() if not kube_objects.is_terminating(pod)]
    movers = rng.sample(keys, min(len(keys), rng.choice((1, 1, 2, 2, 3, 3, 4))))
    waiting = [key for key in movers if states.now[key] is None]
    wave = []
    if len(waiting) > 1 and rng.random() < 0.6:
        wave.append([Goes(key, None, rng.choice(names)) for key in waiting])
        movers = [key for key in movers if key not in waiting]
    for key in movers:
        here = states.now[key]
        there = [name for name in names if name != here] + ([None] if here is not None and rng.random() < 0.3 else [])
        if there:
            wave.append([Goes(key, here, rng.choice(there))])
    rng.shuffle(wave)
    return wave


def _board(states: States) -> Board:
    board = Board(states.snapshot, {key for key, node in states.now.items() if node is None}, ())
    for runner in board.runners.values():
        if runner.at and runner.steady:
            runner.broke = board.broken(runner)
            assert runner.broke == states.broke[runner.key]
        board.settle_down(runner)
    return board


@pytest.mark.parametrize("kind", sampled([*tiny.KINDS, *PATTERNS], every=5))
def test_agrees_with_enumeration(kind: str) -> None:
    """Exactly the rules that some state breaks are reported, and waves of which no state breaks any are accepted. With units among
    other steps the checker may be stricter."""
    safe = unsafe = 0
    for seed in range(EXAMPLES):
        objects, names, rng = _cluster(seed, kind)
        try:
            states = States(from_objects(objects))
        except InputError:
            continue
        board = _board(states)
        volumes = next(rule.state for rule in board.rules if isinstance(rule, VolumeRules))
        for number in range(1, 4):
            wave = _draw(rng, states, names)
            if not wave or any(volumes.open_claims(states.pods[goes.pod]) for step in wave for goes in step):
                continue  # a claim's volume depends on the order, which states ignore
            expected = set(states.unsafe(wave))
            entries = [[PlanEntry(i, number, *goes) for goes in step] for i, step in enumerate(wave, 1)]
            found = list(NextWave(board, entries).judge())
            if len(wave) > 1 and any(len(step) > 1 for step in wave):
                assert found or not expected, (seed, wave)
            else:
                assert {fault.rule for fault in found} == {rule for _, rule in expected}, (seed, wave, found, expected)
            if found:
                unsafe += 1
                break  # later waves are judged from the violation's outcome
            safe += 1
            states.take(wave)
    assert safe >= 3
    assert unsafe >= 3


# --- whole plans --------------------------------------------------------------------------------------------------------------


def _document(snapshot: Snapshot, waves: list[list[Goes]]) -> RebalancePlan:
    """A plan without goals; its summaries are not of interest here."""
    moves: list[Move] = []
    last = {goes.pod: number for number, wave in enumerate(waves, 1) for goes in wave}
    for number, wave in enumerate(waves, 1):
        for goes in wave:
            step = len(moves) + 1
            moves.append(Move(step, number, goes.pod, goes.source, goes.target or "", "r", stopover=last[goes.pod] > number))
    nothing = Summary(0, 0)
    return RebalancePlan(
        SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), 0), [], "greedy", "feasible",
        [TierResult("moves", -len(moves), 0)], moves, [], nothing, nothing,
    )  # fmt: skip


@pytest.mark.parametrize("kind", sampled(["affinity", "anti", "spread", "resources", "woven"], every=5))
def test_mutated_plans(kind: str) -> None:
    """Plans drawn step by step are accepted; the same plans with waves merged, exchanged or a target changed are refused for a rule if
    and only if the enumeration finds one broken on the way."""
    verdicts = {True: 0, False: 0}
    for seed in range(EXAMPLES):
        objects, names, rng = _cluster(seed, kind)
        snapshot = from_objects(objects)
        states = States(snapshot)
        keys = [key for key, node in states.now.items() if node is not None and not kube_objects.is_terminating(states.pods[key])]
        waves: list[list[Goes]] = []
        for key in rng.sample(keys, len(keys)):
            there = rng.choice(names)
            goes = Goes(key, states.now[key], there)
            if there != states.now[key] and not list(states.unsafe([[goes]])):
                waves.append([goes])
                states.take([[goes]])
        if not waves:
            continue
        assert not _rules(snapshot, waves)
        mutated = [list(wave) for wave in waves]
        match rng.choice(("merge", "exchange", "elsewhere")):
            case "merge":
                mutated = [[goes for wave in mutated[:4] for goes in wave], *mutated[4:]]
            case "exchange":
                rng.shuffle(mutated)
            case _:
                at = rng.randrange(len(mutated))
                mutated[at] = [goes._replace(target=rng.choice([name for name in names if name != goes.source])) for goes in mutated[at]]
        states = States(snapshot)
        faults: set[tuple[str, str]] = set()
        for wave in mutated:
            faults |= set(states.unsafe([[goes] for goes in wave]))
            if faults:
                break
            states.take([[goes] for goes in wave])
        assert bool(_rules(snapshot, mutated)) == bool(faults), (seed, mutated, faults)
        verdicts[bool(faults)] += 1
    assert verdicts[True]
    assert verdicts[False]


def _rules(snapshot: Snapshot, waves: list[list[Goes]]) -> set[str]:
    """The scheduler's rules that a plan breaks on the way."""
    return {fault.rule for fault in verify_plan(snapshot, _document(snapshot, waves))} - {PLAN, BUDGET}


def test_claims_that_are_not_bound() -> None:
    """Two pods that would draw on one stock of volumes must not do so in one wave; the second of them finds none."""
    objects = [
        *(node(f"n{i}") for i in range(2)),
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
         "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "status": {"phase": "Available"},
         "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}},
    ]  # fmt: skip
    for name in "ab":
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {"name": name, "namespace": "default"}
        objects.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
        objects.append(pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}]))
    snapshot = from_objects(objects)
    for waves, expected in (((1,), 0), ((1, 2), 1), ((1, 1), 1)):
        board = Board(snapshot, {"default/a", "default/b"}, ())
        found = []
        for wave in sorted(set(waves)):
            steps = [[PlanEntry(i, wave, f"default/{name}", None, "n0")] for i, name in enumerate("ab"[: len(waves)]) if waves[i] == wave]
            found += [fault.rule for fault in NextWave(board, steps).judge()]
        assert found == ["VolumeBinding"] * expected
