"""The smallest single changes with which a halted update completes, each proved by following it to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kubestow.models.cluster.rollout_admission import arguments, sentence, with_quotas
from kubestow.models.documents.placement import Remedy
from kubestow.models.edits import nodes
from kubestow.models.kube import objects
from kubestow.models.workloads.updates.update_input import Update
from kubestow.solver.explain.remedy.apply import POD_CHANGES
from kubestow.solver.rollout.remedies import MAX_ADDED_NODES, MAX_KINDS, kinds_of_nodes, least, relaxations
from kubestow.solver.rollout.updates.search import UpdateSearch
from kubestow.solver.rollout.updates.state import UpdateProblem, with_members
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of states of the exhaustive part for one change.
MAX_STATES: Final = 500


@dataclass
class UpdateRemedies:
    """The search for remedies of one update.

    Attributes:
        search: The search of the update that halted, with its state at the halt.
    """

    search: UpdateSearch
    context: RunContext

    def find(self) -> list[Remedy]:
        """Return remedies, first those that change no rules and cost no capacity. On timeout, return those found so far."""
        if self.search.problem.update.strategy == "OnDelete":
            return self._rolling()
        kinds = (self._deleted, self._in_place, self._quotas, self._preferred, self._nodes)
        return [remedy for kind in kinds for remedy in kind()]

    def _completes(self, problem: UpdateProblem) -> bool:
        return not self.context.over() and UpdateSearch(problem, self.context, MAX_STATES).run().complete

    def _changed(self, **fields: object) -> UpdateProblem:
        update: Update = replace(self.search.problem.update, **fields)  # type: ignore[arg-type]
        return replace(self.search.problem, update=update)

    def _rolling(self) -> list[Remedy]:
        """Return the strategy RollingUpdate instead of OnDelete."""
        if not self._completes(self._changed(strategy="RollingUpdate")):
            return []
        return [Remedy("strategy", "strategy RollingUpdate instead of OnDelete", {"to": "RollingUpdate"})]

    def _deleted(self) -> list[Remedy]:
        """Return the deletion of the pod that the update waits for."""
        state, problem = self.search.state, self.search.problem
        k = self.search.controller.blocker(state)
        if problem.update.kind != "StatefulSet" or k is None or not problem.update.members[k].there:
            return []
        kept = [each for each, member in enumerate(problem.update.members) if member.there and each != k]
        if not self._completes(with_members(problem, kept)):
            return []
        key = problem.update.members[k].key
        return [Remedy("deletePod", f"delete pod {key.rpartition('/')[2]}", {"pod": key})]

    def _in_place(self) -> list[Remedy]:
        """Return another pace of a DaemonSet, in which old pods leave first."""
        update = self.search.problem.update
        if update.kind != "DaemonSet" or not update.surge or not self._completes(self._changed(surge=0, unavailable=1)):
            return []
        message = f"maxUnavailable 1 and maxSurge 0 instead of maxSurge {update.surge}"
        return [Remedy("maxUnavailable", message, {"to": "1", "maxSurge": "0"})]

    def _quotas(self) -> list[Remedy]:
        """Return the quotas raised by the missing amounts."""
        problem, state = self.search.problem, self.search.state
        refused = self.search.controller.refused(state)
        if refused is None:
            return []
        new = problem.update.members[refused].new
        admission = state.books[new].admission
        if not admission.dimensions or admission.never is not None:
            return []
        raising = UpdateSearch(problem, self.context, 1, raising=True)
        raising.run()
        raised = admission.raised(raising.state.books[new].limits)
        snapshot = problem.update.snapshot
        if not raised or not self._completes(self._changed(snapshot=with_quotas(snapshot, raised))):
            return []
        return [Remedy("raiseQuota", sentence(snapshot, raised), arguments(raised))]

    def _preferred(self) -> list[Remedy]:
        remedies: list[Remedy] = []
        update = self.search.problem.update
        for remedy in relaxations(update.snapshot.pods[update.new[0].index].spec) if update.new else ():
            pods = list(update.snapshot.pods)
            for member in update.new:
                pods[member.index] = POD_CHANGES[remedy.change].edit(pods[member.index], remedy.arguments)
            if self._completes(self._changed(snapshot=replace(update.snapshot, pods=pods))):
                remedies.append(remedy)
        return remedies

    def _nodes(self) -> list[Remedy]:
        """Return more nodes like an existing one, for a StatefulSet only. A DaemonSet has a pod on each node."""
        update = self.search.problem.update
        if update.kind != "StatefulSet":
            return []
        remedies = []
        for like in kinds_of_nodes(update.snapshot)[:MAX_KINDS]:
            number = least(1, min(update.replicas, MAX_ADDED_NODES), self._with_more(like))
            if number is not None:
                name = like.metadata.name or ""
                message = f"{number} more node{'s' * (number > 1)} like {name}"
                remedies.append(Remedy("addNodes", message, {"count": str(number), "like": name}, ["--add-nodes", f"{number}:{name}"]))
        return remedies

    def _with_more(self, like: objects.Node) -> Callable[[int], bool]:
        def works(number: int) -> bool:
            problem = self.search.problem
            edited = problem.update.snapshot.copy()
            before = len(edited.pods)
            nodes.add(edited, problem.update.snapshot, like, number)
            others = (*problem.others, *range(before, len(edited.pods)))
            return self._completes(replace(self._changed(snapshot=edited), others=others))

        return works
