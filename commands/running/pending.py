"""Judgement and explanation of pending pods. Bad input ends the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubestow.commands.common.options import PolicyChoices
from kubestow.commands.core.waiting_pods import WaitingPods
from kubestow.commands.running.inputs import checked
from kubestow.commands.running.searching import SearchRun
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.placement import Cause
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.explain.per_node import PodVerdict


@dataclass(frozen=True)
class Pending:
    """The pending pods of a snapshot."""

    run: SearchRun
    snapshot: Snapshot
    policy: Policy
    choices: PolicyChoices

    def judge(self, **only: Any) -> list[PodVerdict]:
        """Return the accepting nodes of each pod. ``only`` restricts the pod, workload or node."""
        return checked(lambda: self._waiting.judge(**only))

    def causes(
        self, verdicts: Sequence[PodVerdict], seconds: float, *, whole: bool = False, catalogue: Catalogue | None = None
    ) -> list[Cause]:
        """Return minimal causes and remedies of pods that fit nowhere.

        ``whole``: explain all pods together. ``catalogue``: shapes that remedies may buy.
        """
        questions = checked(lambda: self._waiting.questions(verdicts, whole=whole))

        def work(*, stop: Any, **_: Any) -> list[Cause]:
            return self._waiting.causes(questions, seconds, catalogue, stop)

        return self.run.search(work) if questions else []

    @property
    def _waiting(self) -> WaitingPods:
        return WaitingPods(self.snapshot, self.policy, self.choices.include_gated, self.choices.daemon_namespaces)
