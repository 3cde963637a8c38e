"""Outcomes of rollouts that are certain without a search: most rollouts complete, and some cannot even begin.

A rollout certainly completes if its pods do not exclude each other, old and new pods have equal requests, and new
pods could use every place of an old pod. In addition, an old pod must go first, or some node must have room for one
more pod. Each new pod then takes the place of a deleted one.

Otherwise the rollout is simulated, filling the places of deleted pods first. If it halts before any new pod is
placed, the scheduler had no choice, so the rollout is a deadlock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from kubestow.audit.view.usable_nodes import INDIFFERENT, plain
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import Pod, controller_of, is_terminating
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import Old, Pace, creations, deletions, old_pods
from kubestow.models.workloads.ownership import HASH
from kubestow.models.workloads.template import template_hash
from kubestow.solver import rules
from kubestow.solver.rollout.state import ungrouped
from kubestow.solver.rules.base import Rule


class RolloutFlow:
    """All Deployments compiled into one instance: their pods, which may come and go, and one new pod of each."""

    def __init__(self, view: ClusterView, subjects: Sequence[Subject], least: int | None = None) -> None:
        """Compile the instance.

        Args:
            view: The cluster.
            subjects: Deployments whose pods all run on nodes of the snapshot.
            least: Ignore other pods with a lower priority. None: keep all.

        Raises:
            InputError: :func:`kubestow.models.cluster.compile.compile_cluster` rejects the input.
        """
        pods, first = view.snapshot.pods, len(view.snapshot.pods)
        self._snapshot, self._subjects, self._node = view.snapshot, subjects, view.node_index
        self._places = [[(i, view.node_index[pods[i].spec.nodeName or ""]) for i in subject.pods] for subject in subjects]
        own = {i for places in self._places for i, _ in places}
        snapshot = view.snapshot.copy()
        snapshot.pods = [*pods, *(plain(revised(subject, pods)) for subject in subjects)]
        for i in own:
            snapshot.pods[i] = plain(pods[i])
        fixed = [i for i in view.running if i not in own and not is_terminating(pods[i])]
        if least is not None:
            fixed = [i for i in fixed if (pods[i].spec.priority or 0) >= least]
        scope = Scope(fixed=fixed, pending=[*sorted(own), *range(first, len(snapshot.pods))])
        policy = msgspec.structs.replace(view.policy, multipliers=INDIFFERENT, defaultConstraints=())
        with no_gc():
            compiled = compile_cluster(snapshot, scope, daemon_namespaces=view.exempt, policy=policy)
        self._cluster: Cluster = ungrouped(compiled)
        self._class = {i: g for g, cls in enumerate(self._cluster.classes) for i in cls.pods}
        self._new = [self._class[first + k] for k in range(len(subjects))]
        self._rules = rules.build(self._cluster)
        #: Rules that reject the first new pod, with the number of nodes and a message, by Deployment with a
        #: deadlock.
        self.rejected: dict[int, list[tuple[str, int, str]]] = {}
        self._moving: dict[int, list[Rule]] = {}
        self._sets: dict[tuple[str, str], list[object]] = {}  # ReplicaSets by their Deployment
        for obj in view.snapshot.workloads.get("ReplicaSet", ()):
            owner = controller_of(obj)
            if owner is not None:
                self._sets.setdefault((obj.metadata.namespace or "default", owner.name), []).append(obj)
        for (g, n), number in Counter((self._class[i], n) for places in self._places for i, n in places).items():
            self._put(g, n, number)

    def verdict(self, k: int, pace: Pace) -> Literal["complete", "deadlock"] | None:
        """Return the certain outcome of a Deployment's rollout, or None if it is uncertain. ``k`` is its index in ``subjects``."""
        if any(tree.rejects for tree in self._cluster.trees.values()):
            return None  # it is unknown which NUMA zones a deleted pod frees
        return "complete" if self._exchanged(k, pace) else self._played(k, pace)

    def _exchanged(self, k: int, pace: Pace) -> bool:
        g, cluster = self._new[k], self._cluster
        cls = cluster.classes[g]
        if cls.anti or cls.affinity or cls.spread or cls.ports or cls.claims or len(self._places[k]) != pace.replicas:
            return False
        places = Counter((self._class[i], n) for i, n in self._places[k])
        olds = {old for old, _ in places}
        if any(cluster.classes[old].anti or not np.array_equal(cluster.demand[g], cluster.demand[old]) for old in olds):
            return False
        if not pace.unavailable and bool(self._rejected(g).all()):
            return False
        for (old, n), number in places.items():
            self._take(old, n, number)
        nodes = Counter(n for _, n in self._places[k])
        local = [rule.room(g) for rule in self._rules if rule.local]
        closed = [rule.rejects(g) for rule in self._rules if not rule.local]
        fits = all(number <= min(int(room[n]) for room in local) and not any(mask[n] for mask in closed) for n, number in nodes.items())
        for (old, n), number in places.items():
            self._put(old, n, number)
        return fits

    def _played(self, k: int, pace: Pace) -> Literal["complete", "deadlock"] | None:
        """Simulate the rollout, taking places as they come free.

        This is the only possible course until a new pod is placed.

        Returns:
            ``complete``; ``deadlock`` if no new pod can be placed; None if the simulated course halts later, so that others may not.
        """
        g, subject = self._new[k], self._subjects[k]
        own: list[object] = self._sets.get((subject.namespace, subject.name.rpartition("/")[2]), [])
        snapshot: Snapshot = replace(self._snapshot, workloads={"ReplicaSet": own})
        alive, _ = old_pods(snapshot, subject.pods)
        on = Counter(old.node or "" for old in alive)
        done: list[tuple[int, int, int]] = []  # class, node, pods that came (1) or went (-1)
        freed: list[int] = []
        created, placed, complete = 0, 0, False
        while not complete:
            made = creations(pace, len(alive), created)
            created += made
            while placed < created:
                n = self._place(g, freed)
                if n is None:
                    break
                done.append((g, n, 1))
                on[self._cluster.nodes.names[n]] += 1
                placed += 1
            doomed = {old.index: old for old in deletions(pace, alive, on.__getitem__, placed)}
            for old in doomed.values():
                done.append(self._gone(old, freed))
                on[old.node or ""] -= 1
            alive = [old for old in alive if old.index not in doomed]
            complete = not alive and placed == pace.replicas
            if not made and not doomed:
                break
        if created and not placed:
            found = [(r.name, int(np.count_nonzero(mask)), r.message(g, mask)) for r in self._rules if (mask := r.rejects(g)).any()]
            self.rejected[k] = sorted(found, key=lambda each: (-each[1], each[0]))
        for cls, n, number in reversed(done):
            if number > 0:
                self._take(cls, n)
            else:
                self._put(cls, n)
        return "complete" if complete else "deadlock" if created and not placed else None

    def _place(self, g: int, freed: list[int]) -> int | None:
        rejected = self._rejected(g)
        n = next((n for n in freed if not rejected[n]), None)
        if n is not None:
            freed.remove(n)
        elif rejected.all():
            return None
        else:
            n = int(np.argmin(rejected))
        self._put(g, n)
        return n

    def _gone(self, old: Old, freed: list[int]) -> tuple[int, int, int]:
        g, n = self._class[old.index], self._node[old.node or ""]
        self._take(g, n)
        freed.append(n)
        return g, n, -1

    def _rejected(self, g: int) -> Bools:
        mask = np.zeros(self._cluster.n_nodes, dtype=bool)
        for rule in self._rules:
            mask |= rule.rejects(g)
        return mask

    def _put(self, g: int, n: int, number: int = 1) -> None:
        for rule in self._concerned(g):
            rule.place(g, n, number)

    def _take(self, g: int, n: int, number: int = 1) -> None:
        for rule in self._concerned(g):
            rule.remove(g, n, number)

    def _concerned(self, g: int) -> list[Rule]:
        found = self._moving.get(g)
        if found is None:
            found = self._moving[g] = [rule for rule in self._rules if rule.concerned(g)]
        return found


def revised(subject: Subject, pods: Sequence[Pod]) -> Pod:
    """Return a pod of a Deployment's next revision, with a hash that none of its old pods has."""
    assert subject.workload is not None
    used_hashes = {(pods[i].metadata.labels or {}).get(HASH) for i in subject.pods}
    salt = 0
    while (label := template_hash(subject.workload.template, salt)) in used_hashes:
        salt += 1
    change = msgspec.structs.replace
    return change(subject.pod, metadata=change(subject.pod.metadata, labels={**subject.labels, HASH: label}))
