"""Recorded scores, choices and messages of kube-scheduler 1.36.2: 180 clusters whose pods came one after the other."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.models.scheduler import configuration
from kubestow.models.scheduler.profiles import profiles
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.kube_scheduler.cluster_state import ClusterState
from kubestow.solver.kube_scheduler.simulate import Outcome, SchedulerQueue
from kubestow.solver.runtime.options import Options
from tests.tiers import sampled

DATA = Path(__file__).parent / "data/scores.jsonl.gz"
CASES = 180


@cache
def recorded() -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt") as file:
        return [json.loads(line) for line in file]


class Retold(SchedulerQueue):
    """Simulates a recorded cluster with the recorded choice at each tie, and compares the points and the first message of each pod."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(case["config"]))
        snapshot = from_objects(case["snapshot"]["items"])
        super().__init__(snapshot, Options(), profiles(*configuration.read(str(file))), choose=self._recorded, is_apart=True)
        self.names = [node.metadata.name or "" for node in snapshot.nodes]
        self.decisions = {decision["pod"]: decision for decision in case["decisions"]}
        self.compared = 0
        self.first_messages: dict[str, str] = {}

    def _decision(self, i: int) -> dict[str, Any]:
        found: dict[str, Any] = self.decisions[pod_key(self.snapshot.pods[i])]
        return found

    def _recorded(self, i: int, best: Ints) -> int:
        wanted = self._decision(i)["node"]
        named = [int(n) for n in best if wanted is None or self.names[n] == wanted]
        assert named, f"{pod_key(self.snapshot.pods[i])}: {wanted} is not among the best, {[self.names[n] for n in best]}"
        return named[0]

    def _best(self, i: int, state: ClusterState, feasible: Bools) -> int:
        decision = self._decision(i)
        found = {self.names[n] for n in np.flatnonzero(feasible)}
        if decision["scores"]:
            points = state.points.of(state.class_of[i], feasible)
            assert found == set(decision["scores"])
            for name, wanted in decision["scores"].items():
                n = self.names.index(name)
                assert {plugin: int(row[n]) for plugin, row in points.items()} == wanted, (decision["pod"], name)
                assert sum(wanted.values()) == decision["total"][name]
                self.compared += 1
        return super()._best(i, state, feasible)

    def _try(self, i: int, outcome: Outcome) -> bool:
        placed = super()._try(i, outcome)
        if not placed:
            self.first_messages.setdefault(pod_key(self.snapshot.pods[i]), outcome.messages[i])
        return placed


@pytest.mark.parametrize("number", sampled(range(CASES), every=12))
def test_points_choices_and_messages_are_the_recorded_ones(number: int, tmp_path: Path) -> None:
    case = recorded()[number]
    queue = Retold(case, tmp_path)
    outcome = queue.run()
    where = {pod_key(queue.snapshot.pods[i]): queue.names[n] for i, n in outcome.placed}
    for decision in case["decisions"]:
        if decision["node"] is not None:
            assert where[decision["pod"]] == decision["node"]
        else:
            assert queue.first_messages[decision["pod"]] == decision["why"]
    assert queue.compared == sum(len(decision["scores"]) for decision in case["decisions"])


def test_the_recorded_clusters_are_many_and_different() -> None:
    assert len(recorded()) == CASES
    assert {case["configName"] for case in recorded()} == {"default", "most", "ratio", "weights", "spread", "affinity"}
