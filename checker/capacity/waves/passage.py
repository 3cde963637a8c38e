"""A cluster on its way through an upgrade, in the checker's own books: one state that goes on from wave to wave.

New nodes join with what DaemonSets and static pods run there, the steps of a wave are replayed as those of a plan, and drained nodes leave
with their domains. What a pod may go on breaking is worked out anew where something that its rules read has changed: a wave costs what it
moves and what the rules of these pods look at, whatever the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubestow.checker.capacity.waves.standing import Standing
from kubestow.checker.placement_document import why_not_pending
from kubestow.checker.plan.disruption_budgets import Guards, ignored, is_ready
from kubestow.checker.plan.document import entries, history_faults
from kubestow.checker.plan.movable import Exclusions
from kubestow.checker.plan.replay import Replay
from kubestow.checker.plan.rest import refused
from kubestow.checker.plan.spread import Watch
from kubestow.checker.plan.state import Board, Presence, Runner
from kubestow.checker.rules import gangs
from kubestow.checker.violation import Violation
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.upgrade import NewNode, Upgrade, UpgradeWave
from kubestow.models.edits import upgrade as edits
from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import SELECTED_NODE
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

_SPREAD: Final = "PodTopologySpread"
_AFFINITY: Final = "InterPodAffinity"
_RUNS: Final = objects.PodStatus(phase="Running")
_change: Final = msgspec.structs.replace


class _Board(Board):
    """A board whose nodes come and go. ``touched``: domains in which something that spread constraints count has changed, by tally;
    ``tied``: whether pods came or went that rules about other pods look at."""

    tallies_of = Standing
    tallies: Standing

    def __init__(self, snapshot: Snapshot, waiting: Collection[str], exempt: Collection[str]) -> None:
        self.tied = False
        super().__init__(snapshot, waiting, exempt)
        self.nodes = dict(self.nodes)

    def enter(self, there: Presence, by: int = 1) -> None:
        super().enter(there, by)
        self.tied = self.tied or self.affinity.is_tied(there.member)
        for tally, domain in self.tallies.counted(there.runner.pod, self.nodes[there.node], there.member.profile):
            self.tallies.touched.setdefault(tally, set()).add(domain)


@dataclass
class _Marked:
    """Pods that break a rule where they are, as long as they may go on."""

    rule: str
    runners: dict[Runner, None]

    def note(self, runner: Runner) -> None:
        if self.rule in runner.broke:
            self.runners[runner] = None
        else:
            self.runners.pop(runner, None)


class Passage:
    """``start``: before the upgrade; ``waves``: those that can be, as far as their nodes go.

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
            self._roster = gangs.read(start, pending, policy)
            self._guards = Guards(start)
            self._exclusions = Exclusions(start, self._guards, edits.LIFTED, policy)
            self._board = _Board(union, pending, upgrade.snapshot.daemonNamespaces)
            self._all_nodes = dict(self._board.nodes)
            self._on: dict[str, dict[Runner, None]] = {name: {} for name in self._all_nodes}
            for runner in self._board.runners.values():
                if runner.at is not None:
                    self._on[runner.at.node][runner] = None
            self._selected: dict[str, list[str]] = {}
            for key, claim in union.persistent_volume_claims.items():
                if (at := (claim.metadata.annotations or {}).get(SELECTED_NODE)) is not None:
                    self._selected.setdefault(at, []).append(key)
            self._kept: list[objects.Pod] = []  # parts of pods are known by their ids
            self._crew: dict[str, list[Runner]] = {}
            self._marked = _Marked(_SPREAD, {}), _Marked(_AFFINITY, {})
            self._due: dict[Runner, None] = {}
            self._shaken = False
            self._least: dict[Watch, int] = {}
            for joining in new:
                self._crew[joining.name] = self._leave(joining.name)
            self._all_due()

    def pods_on(self, drained: Iterable[str]) -> list[objects.Pod]:
        """Return the pods that run on nodes."""
        return [runner.pod for name in dict.fromkeys(drained) for runner in self._on[name]]

    def runs(self, key: str) -> bool:
        """Return whether a pod runs somewhere by now."""
        runner = self._board.runners.get(key)
        return runner is not None and runner.at is not None

    # --- a wave -----------------------------------------------------------------------------------------------------------------

    def begin(self, wave: UpgradeWave) -> None:
        """The nodes that a wave surges by join."""
        self._join(wave.surge)

    def drain(self, wave: UpgradeWave) -> list[Violation]:
        """Return what is wrong with the moves of a wave; they are made, the drained nodes go and others join."""
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
        board = self._board
        self._review()
        board.tied = False
        plan = edits.as_plan(wave, self._upgrade.snapshot, self._upgrade.policy)
        listed = entries(plan)
        replay = Replay(plan, board, self._pods, self._refusals, self._roster, self._guards, self._exclusions, justified=False)
        found = [*history_faults(listed), *replay.faults(listed)]
        if self._union.resource_quotas or self._union.limit_ranges or self._union.priority_classes:
            part = dict(self._rationed(wave))
            found += refused(replace(self._union, pods=list(part.values())), part, listed)
        if board.volumes.reset():  # claims are judged as the snapshot has them
            self._due.update((runner, None) for runner in board.runners.values() if runner.pod.spec.volumes)
        return found

    def _rationed(self, wave: UpgradeWave) -> Iterator[tuple[str, objects.Pod]]:
        """Pods that move, and those that share a quota with one."""
        moving = {move.pod for move in wave.moves}
        spaces = {quota.metadata.namespace or "default" for quota in self._union.resource_quotas.values()}
        spaces &= {key.partition("/")[0] for key in moving}
        for key in self._pods if spaces else moving & self._pods.keys():
            runner = self._board.runners.get(key)
            absent = runner is not None and runner.at is None and self._refusals[key] is not None  # its node is not there
            if key in moving or (key.partition("/")[0] in spaces and not absent):
                yield key, self._pods[key]

    def _moved(self, wave: UpgradeWave) -> None:
        """Whoever moved is Ready again where it is."""
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
            self._on.get(move.source or "", {}).pop(runner, None)
            self._on[move.to][runner] = None
            self._due[runner] = None

    # --- nodes ------------------------------------------------------------------------------------------------------------------

    def _join(self, new: Iterable[NewNode]) -> None:
        board = self._board
        for name in [joining.name for joining in new]:
            board.nodes[name] = self._all_nodes[name]
            board.tallies.join(name)
            for runner in self._crew[name]:
                runner.at = Presence(runner, name, runner.member, False)
                self._on[name][runner] = None
                board.put(runner.at)
                self._enter(runner.at, 1)
            self._guards.change((), [runner.pod for runner in self._crew[name]])

    def _leave(self, name: str) -> list[Runner]:
        """A node goes, with the pods on it, which are given."""
        board, left = self._board, list(self._on[name])
        for runner in left:
            if runner.at is not None:
                board.get_up(runner)
                board.lift(runner.at)
                self._enter(runner.at, -1)
            runner.at, runner.broke, runner.stakes = None, frozenset(), []
            for marked in self._marked:
                marked.note(runner)
        self._on[name] = {}
        board.tallies.leave(name)
        board.nodes.pop(name, None)
        claims: dict[str, Any] = self._union.persistent_volume_claims
        for key in self._selected.pop(name, ()):  # the provisioner gives it back to the scheduler
            meta = claims[key].metadata
            kept = {k: v for k, v in (meta.annotations or {}).items() if k != SELECTED_NODE} or None
            claims[key] = _change(claims[key], metadata=_change(meta, annotations=kept))
        return left

    def _enter(self, there: Presence, by: int) -> None:
        """A pod comes with its node or goes with it, which no replay judged."""
        self._board.enter(there, by)
        if by > 0:
            self._due[there.runner] = None
        self._shaken = self._shaken or self._board.affinity.is_tied(there.member)

    # --- what pods may go on breaking -------------------------------------------------------------------------------------------

    def _all_due(self) -> None:
        self._due.update(dict.fromkeys(self._board.runners.values()))

    def _review(self) -> None:
        """Work out what the pods concerned break now, as a wave begins."""
        board, touched = self._board, self._board.tallies.touched
        due = self._due
        for tally, domains in touched.items():
            for watch in board.tallies.watches(tally):
                least = tally.minimum(watch.min_domains)
                known = self._least.get(watch) == least
                self._least[watch] = least
                for domain in [domain for domain in domains if domain in watch.allowed] if known else watch.allowed:
                    excess = tally.domains.get(domain, 0) - least
                    for allowed, names in watch.allowed[domain].items():
                        if excess > allowed:
                            due.update((board.runners[name], None) for name in names)
        spread, near = self._marked
        due.update((runner, None) for runner in spread.runners if any(c.tally in touched for c in runner.spread.constraints))
        if self._shaken:
            due.update((runner, None) for runner in board.runners.values() if board.affinity.is_tied(runner.member))
        elif board.tied:
            due.update(near.runners)
        touched.clear()
        for runner in due:
            if runner.at is not None:
                board.get_up(runner)
                runner.broke, runner.stakes = board.broken(runner) if runner.steady else frozenset(), []
                board.settle_down(runner)
                for marked in self._marked:
                    marked.note(runner)
        self._due, self._shaken = {}, False


def suits(snapshot: Snapshot) -> bool:
    """Return whether a passage judges all that there is: devices it does not."""
    if not snapshot.gates.enabled("DynamicResourceAllocation"):
        return True
    return not snapshot.device_classes and all(not pod.spec.resourceClaims for pod in snapshot.pods)
