"""A cluster during an upgrade, as one state that continues from wave to wave.

New nodes join with the DaemonSet and static pods that run there. The steps of a wave are replayed like those of a
plan. Drained nodes leave with their domains. The rules that a pod may continue to break are recomputed only if
something changed that its rules read. A wave therefore costs time in proportion to its moves and the pods that
their rules read, independent of the cluster's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from kubestow.checker.placement_document import why_not_pending
from kubestow.checker.plan.disruption_budgets import Guards, ignored, is_ready
from kubestow.checker.plan.document import entries, history_faults
from kubestow.checker.plan.movable import Exclusions
from kubestow.checker.plan.remaining_steps import refused
from kubestow.checker.plan.replay import PlanReplay
from kubestow.checker.plan.state import Board
from kubestow.checker.reading import gang_roster
from kubestow.checker.rules.plans import PlanRunner, Presence
from kubestow.checker.violation import Violation
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.upgrade import NewNode, Upgrade, UpgradeWave
from kubestow.models.edits import upgrade as edits
from kubestow.models.kube import objects
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

_RUNS: Final = objects.PodStatus(phase="Running")
_change: Final = msgspec.structs.replace


class _Board(Board):
    """A board whose nodes join and leave."""

    nodes_change = True


class RunningState:
    """The state of a cluster between the waves of an upgrade.

    Args:
        start: The snapshot before the upgrade.
        upgrade: The document.
        waves: The waves whose node changes are valid.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        InputError: the declaration of a pending gang cannot be read.
    """

    def __init__(self, start: Snapshot, upgrade: Upgrade, waves: Sequence[UpgradeWave]) -> None:
        self._upgrade = upgrade
        new = [joining for wave in waves for joining in (*wave.surge, *wave.joined)]
        with no_gc():
            self._union = union = edits.with_new(start, new, upgrade.to).copy()
            self._pods = {objects.pod_key(pod): pod for pod in union.pods}
            names = frozenset(node.metadata.name or "" for node in union.nodes)
            self._refusals = {key: why_not_pending(pod, names, upgrade.snapshot) for key, pod in self._pods.items()}
            pending = {key for key, why in self._refusals.items() if why is None}
            policy = upgrade.policy or DEFAULT
            self._roster = gang_roster.read_roster(start, pending, policy)
            self._guards = Guards(start)
            self._exclusions = Exclusions(start, self._guards, edits.LIFTED, policy)
            self._board = _Board(union, pending, upgrade.snapshot.daemonNamespaces)
            self._all_nodes = dict(self._board.nodes)
            self._runners_on: dict[str, dict[PlanRunner, None]] = {name: {} for name in self._all_nodes}
            for runner in self._board.runners.values():
                if runner.at is not None:
                    self._runners_on[runner.at.node][runner] = None
            self._kept: list[objects.Pod] = []  # parts of pods are known by their ids
            self._daemon_pods: dict[str, list[PlanRunner]] = {}
            self._to_review: dict[PlanRunner, None] = {}
            for joining in new:
                self._daemon_pods[joining.name] = self._leave(joining.name)
            self._all_due()

    def pods_on(self, drained: Iterable[str]) -> list[objects.Pod]:
        """Return the pods that run on any of the nodes."""
        return [runner.pod for name in dict.fromkeys(drained) for runner in self._runners_on[name]]

    def runs(self, key: str) -> bool:
        """Return True if the pod runs on a node now."""
        runner = self._board.runners.get(key)
        return runner is not None and runner.at is not None

    # --- a wave -----------------------------------------------------------------------------------------------------------------

    def begin(self, wave: UpgradeWave) -> None:
        """Add the surge nodes of a wave."""
        self._join(wave.surge)

    def drain(self, wave: UpgradeWave) -> list[Violation]:
        """Apply the moves of a wave, remove the drained nodes, add the joining ones, and return the faults."""
        with no_gc():
            found = self._replay(wave)
            self._moved(wave)
            self._join(wave.joined)
            for name in wave.drain:
                self._guards.change([runner.pod for runner in self._leave(name)], ())
            if found:
                self._all_due()
            return found

    def _replay(self, wave: UpgradeWave) -> list[Violation]:
        """Return the faults of the steps of a wave, judged like those of a plan."""
        board = self._board
        self._review()
        plan = edits.as_plan(wave, self._upgrade.snapshot, self._upgrade.policy)
        listed = entries(plan)
        replay = PlanReplay(plan, board, self._pods, self._refusals, self._roster, self._guards, self._exclusions, justified=False)
        found = [*history_faults(listed), *replay.faults(listed)]
        if self._union.resource_quotas or self._union.limit_ranges or self._union.priority_classes:
            part = dict(self._rationed(wave))
            found += refused(replace(self._union, pods=list(part.values())), part, listed)
        for face in board.faces:  # what pods bind is judged as the snapshot has it
            self._to_review.update(dict.fromkeys(face.reset()))
        return found

    def _rationed(self, wave: UpgradeWave) -> Iterator[tuple[str, objects.Pod]]:
        """Yield the pods that move, and all pods of namespaces with a ResourceQuota in which a pod moves, by key.

        Other pods than the moving ones are left out if their node is not there.
        """
        moving = {move.pod for move in wave.moves}
        spaces = {quota.metadata.namespace or "default" for quota in self._union.resource_quotas.values()}
        spaces &= {key.partition("/")[0] for key in moving}
        for key in self._pods if spaces else moving & self._pods.keys():
            runner = self._board.runners.get(key)
            absent = runner is not None and runner.at is None and self._refusals[key] is not None  # its node is not there
            if key in moving or (key.partition("/")[0] in spaces and not absent):
                yield key, self._pods[key]

    def _moved(self, wave: UpgradeWave) -> None:
        """Bind the moved pods to their targets as running and Ready."""
        for move in wave.moves:
            runner = self._board.runners.get(move.pod)
            if runner is None or runner.at is None or runner.at.node != move.to:
                continue
            old = runner.pod
            pod = _change(old, spec=_change(old.spec, nodeName=move.to), status=_RUNS)
            self._kept.append(pod)
            runner.pod = self._pods[move.pod] = pod
            if ignored(old) or not is_ready(old):
                self._guards.change([old], [pod])
            self._runners_on.get(move.source or "", {}).pop(runner, None)
            self._runners_on[move.to][runner] = None
            self._to_review[runner] = None

    # --- nodes ------------------------------------------------------------------------------------------------------------------

    def _join(self, new: Iterable[NewNode]) -> None:
        """Add nodes together with their DaemonSet and static pods."""
        board = self._board
        for name in [joining.name for joining in new]:
            board.nodes[name] = self._all_nodes[name]
            for rule in board.rules:
                rule.join(name)
            for runner in self._daemon_pods[name]:
                runner.at = Presence(runner, name, runner.member, False)
                self._runners_on[name][runner] = None
                board.put(runner.at)
                self._enter(runner.at, 1)
            self._guards.change((), [runner.pod for runner in self._daemon_pods[name]])

    def _leave(self, name: str) -> list[PlanRunner]:
        """Remove a node with its pods, and return these pods."""
        board, runners = self._board, list(self._runners_on[name])
        for runner in runners:
            if runner.at is not None:
                board.get_up(runner)
                board.lift(runner.at)
                self._enter(runner.at, -1)
            runner.at, runner.broke = None, frozenset()
            for face in runner.readings:
                face.note(runner)
        self._runners_on[name] = {}
        for rule in board.rules:
            rule.leave(name)
        board.nodes.pop(name, None)
        return runners

    def _enter(self, there: Presence, by: int) -> None:
        """Add or remove a pod that joins or leaves with its node. No replay judges it."""
        self._board.enter(there, by, judged=False)
        if by > 0:
            self._to_review[there.runner] = None

    # --- rules that pods may break ----------------------------------------------------------------------------------------------

    def _all_due(self) -> None:
        """Mark all pods for review."""
        self._to_review.update(dict.fromkeys(self._board.runners.values()))

    def _review(self) -> None:
        """Recompute the rules that affected pods break at the start of a wave."""
        board, due = self._board, self._to_review
        for face in board.faces:
            due.update(dict.fromkeys(face.due()))
        for runner in due:
            if runner.at is not None:
                board.get_up(runner)
                runner.broke = board.broken(runner) if runner.steady else frozenset()
                board.settle_down(runner)
                for face in runner.readings:
                    face.note(runner)
        self._to_review = {}


def suits(snapshot: Snapshot) -> bool:
    """Return True if :class:`RunningState` can judge the snapshot. It cannot judge devices."""
    if not snapshot.gates.enabled("DynamicResourceAllocation"):
        return True
    return not snapshot.device_classes and all(not pod.spec.resourceClaims for pod in snapshot.pods)
