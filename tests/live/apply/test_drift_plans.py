"""Plans of random clusters, broken off after each wave: what the run did itself is no drift, and the rest holds on the cluster as it is.

Also: regardless of changes by others, a run goes on only if every state that its waves can be in obeys the rules, and ends by a
rule only where one does not.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.apply.differences.nodes import opened
from kubestow.live.apply.drift import DoneChanges, DriftWatch, Now, compare, remaining_document
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from tests.checker.plan.plan_states import Goes, States
from tests.plans import guards, tiny
from tests.plans.cluster import TinyCluster
from tests.tiers import sampled

Object = dict[str, Any]
SEEDS = 60
RULES = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "InterPodAffinity",
         "PodTopologySpread", "VolumeZone", "VolumeBinding", "NodeVolumeLimits", "VolumeRestrictions")  # fmt: skip


def _with_uids(things: list[Object]) -> list[Object]:
    found: list[Object] = json.loads(json.dumps(things))  # members of a gang share parts
    for thing in found:
        metadata = thing["metadata"]
        metadata["uid"] = f"{thing['kind']}.{metadata.get('namespace', '')}.{metadata['name']}"
    return found


def _key(thing: Object) -> str:
    return f"{thing['metadata'].get('namespace', 'default')}/{thing['metadata']['name']}"


class Run:
    """A plan carried out wave by wave on plain objects: pods with a controller come back under other names, bare ones under their own."""

    def __init__(self, things: list[Object], plan: RebalancePlan) -> None:
        self.things, self.plan, self.done = copy.deepcopy(things), plan, DoneChanges()
        self.pods = {_key(thing): thing for thing in self.things if thing["kind"] == "Pod"}
        self._made = 0

    def waves(self) -> Iterator[int]:
        """Carry out one wave after the other."""
        for wave in range(1, self.plan.waves + 1):
            for move in self.plan.moves:
                if move.wave == wave:
                    self._carry(move)
            for eviction in self.plan.evictions:
                if eviction.wave == wave:
                    self._carry(eviction)
            for node in {m.to for m in self.plan.moves}:
                self.done.closed.add(node)
            yield wave

    def _carry(self, step: Move | Eviction) -> None:
        pod, to = self.pods[step.pod], step.to if isinstance(step, Move) else None
        metadata, source = pod["metadata"], step.source
        if source is not None:
            self.done.gone.add(metadata["uid"])
            self._made += 1
            metadata["uid"] = f"made-{self._made}"
            if any(owner.get("controller") for owner in metadata.get("ownerReferences", ())):
                metadata["name"] = f"made-{self._made}"
        pod["spec"].pop("nodeName", None)
        if to is None:
            pod["status"] = {"phase": "Pending"}
        else:
            pod["spec"]["nodeName"] = to
            pod["status"] = {**pod.get("status", {}), "phase": "Running"}
            self.done.pods[step.pod] = Now(_key(pod), metadata["uid"], to)
        self.done.steps.add((step.step, step.pod))

    def snapshot(self) -> Snapshot:
        """The cluster, with the nodes that pods go to cordoned, and budgets as their controller has them."""
        found, world = copy.deepcopy(self.things), TinyCluster(self.things)
        for thing in found:
            if thing["kind"] == "Node" and thing["metadata"]["name"] in self.done.closed:
                thing["spec"]["unschedulable"] = True
            elif thing["kind"] == "PodDisruptionBudget" and self.done.steps:
                thing["status"] = dict(guards.status_of(world, thing))
        return from_objects(found)


def _planned(seed: int, kind: str) -> tuple[list[Object], Snapshot, RebalancePlan]:
    things = _with_uids(tiny.cluster(seed, kind))
    goals, drain, limits = tiny.plan_options(seed, kind)
    before = from_objects(copy.deepcopy(things))
    return things, before, rebalance(before, PlanOptions(goals, drain, limits, Options(time_limit=10.0, workers=1)))


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("first", sampled(range(0, SEEDS, 3), every=10, full=5))
def test_the_rest_of_a_plan_holds_after_each_wave_and_nothing_of_the_run_is_drift(first: int, kind: str) -> None:
    for seed in range(first, first + 3):
        things, before, plan = _planned(seed, kind)
        run = Run(things, plan)
        assert judge_rest(before, plan) == []
        for wave in run.waves():
            now = run.snapshot()
            told = [drift.message for drift in compare(before, now, run.done)]
            assert [line for line in told if "disruption" not in line] == [], (seed, kind, wave)
            found = DriftWatch(before, plan, judge_rest).check(now, run.done)
            assert not found.faults, (seed, kind, wave, found)
            left = remaining_document(plan, run.done)
            assert isinstance(left, RebalancePlan)
            assert len(left.moves) == sum(move.wave > wave for move in plan.moves)
            opened = from_objects([thing for thing in run.things if thing["kind"] != "PodDisruptionBudget"])
            assert judge_rest(opened, left) == [], (seed, kind, wave)


# --- others change the cluster ------------------------------------------------------------------------------------------------


def _disturb(rng: random.Random, things: list[Object]) -> None:
    """Something that others do to a cluster."""
    nodes = [thing for thing in things if thing["kind"] == "Node"]
    pods = [thing for thing in things if thing["kind"] == "Pod"]
    node, pod = rng.choice(nodes), rng.choice(pods)
    match rng.choice(("cordon", "taint", "label", "shrink", "foreign", "foreign", "gone", "relabel", "budget")):
        case "cordon":
            node["spec"]["unschedulable"] = True
        case "taint":
            node["spec"].setdefault("taints", []).append({"key": "new", "effect": "NoSchedule"})
        case "label":
            labels = node["metadata"]["labels"]
            key = rng.choice(sorted(labels.keys() - {tiny.HOST}) or [tiny.ZONE])
            labels[key] = rng.choice(["z0", "z1", "other"])
        case "shrink":
            node["status"]["allocatable"]["cpu"] = rng.choice(["1", "1500m", "2"])
        case "foreign":
            copied = json.loads(json.dumps(pod))
            copied["metadata"] |= {"name": f"foreign-{len(things)}", "uid": f"foreign-{len(things)}"}
            copied["spec"]["nodeName"] = node["metadata"]["name"]
            copied["status"] = {"phase": "Running"}
            things.append(copied)
        case "gone":
            things.remove(pod)
        case "relabel":
            pod["metadata"]["labels"] = dict(rng.choice(pods)["metadata"].get("labels", {}))
        case _:
            selector = {"matchLabels": pod["metadata"].get("labels", {})}
            metadata = {"name": "new", "namespace": pod["metadata"].get("namespace", "default"), "uid": "new"}
            spec, status = {"selector": selector, "maxUnavailable": 0}, {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
            budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status}
            things[:] = [each for each in things if each["metadata"].get("name") != "new"] + [budget]


def _unsafe(now: Snapshot, left: RebalancePlan) -> set[tuple[str, str]]:
    """Return the faults that are possible in the remaining waves, by enumeration of every state."""
    states, found = States(now), set[tuple[str, str]]()
    for number in sorted({*(move.wave for move in left.moves), *(each.wave for each in left.evictions)}):
        steps: dict[int, list[Goes]] = {}
        for move in left.moves:
            if move.wave == number:
                steps.setdefault(move.step, []).append(Goes(move.pod, move.source, move.to))
        for each in left.evictions:
            if each.wave == number:
                steps.setdefault(each.step, []).append(Goes(each.pod, each.source, None))
        found |= set(states.unsafe(list(steps.values())))
        if found:
            break
        states.take(list(steps.values()))
    return found


def _disturbed(seed: int, kind: str) -> tuple[bool, bool] | None:
    """Break a plan off somewhere, let others in, ask: whether the run ends by a rule, and whether a rule can be broken in some state."""
    rng = random.Random(f"drift-{kind}-{seed}")
    things, before, plan = _planned(seed, kind)
    if not plan.waves:
        return None
    run = Run(things, plan)
    for _ in zip(range(rng.randrange(plan.waves)), run.waves(), strict=False):
        pass
    for _ in range(rng.choice((1, 1, 2, 3))):
        _disturb(rng, run.things)
    try:
        now = run.snapshot()
    except InputError:
        return None
    found, left = DriftWatch(before, plan, judge_rest).check(now, run.done), remaining_document(plan, run.done)
    assert isinstance(left, RebalancePlan)
    if any("of a coming step" in fault for fault in found.faults):
        return None
    live = opened(now, before, run.done.closed)
    rejected = judge_rest(live, left)
    rules = [each for each in rejected if any(f": {rule}: step" in each.message or f": {rule}: wave" in each.message for rule in RULES)]
    unsafe = bool(_unsafe(live, left))
    assert not unsafe or found.faults, (seed, kind, found)
    if not any(gang.count(move.gang) > 1 for move in left.moves if move.gang for gang in [[m.gang for m in left.moves]]):
        assert bool(rules) == unsafe, (seed, kind, rejected)
    return bool(found.faults), unsafe


def _agrees(seeds: range, least: int) -> None:
    found = [outcome for seed in seeds for kind in tiny.KINDS if (outcome := _disturbed(seed, kind)) is not None]
    assert sum(ended for ended, _ in found) >= least
    assert sum(not ended for ended, _ in found) >= least


def test_a_run_goes_on_after_drift_only_where_its_waves_break_no_rule_a_few() -> None:
    _agrees(range(2), 1)


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 200, 10))
def test_a_run_goes_on_after_drift_only_where_no_state_of_its_waves_breaks_a_rule(first: int) -> None:
    _agrees(range(first, first + 10), 5)
