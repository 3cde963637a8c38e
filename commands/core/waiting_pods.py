"""Judgement and explanation of pending pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.placement import Cause
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.solver.explain import per_node
from kubestow.solver.explain.per_node import PodVerdict
from kubestow.solver.explain.unplaced import Left, asked, explain_left
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext


@dataclass(frozen=True)
class WaitingPods:
    """The pending pods of a snapshot.

    Attributes:
        snapshot: The snapshot.
        policy: The policy.
        include_gated: True to treat gated pods as pending.
        exempt: Namespaces exempt from required anti-affinity; empty for those of the policy.
    """

    snapshot: Snapshot
    policy: Policy
    include_gated: bool = False
    exempt: tuple[str, ...] = ()

    def judge(self, **only: Any) -> list[PodVerdict]:
        """Return the accepting nodes of each pod. ``only`` restricts the pod, workload or node.

        Raises:
            InputError: no such pod, workload or node, or a pod that cannot be read.
        """
        options = {**only, "include_gated": self.include_gated, "daemon_namespaces": self._exempt, "policy": self.policy}
        try:
            return per_node.explain(self.snapshot, **options)
        except per_node.UnknownPod as error:
            raise InputError([f"{'--workload' if only.get('workload') is not None else '--pod'}: {error}"]) from None
        except per_node.UnknownNode as error:
            raise InputError([f"--node: {error}"]) from None

    def questions(self, verdicts: Sequence[PodVerdict], *, whole: bool = False) -> list[Left]:
        """Return the pods and gangs to explain: those that fit nowhere; with ``whole``, all pods as one group."""
        return asked(self.snapshot, verdicts, whole=whole, tiers=self.policy.networkTiers)

    def causes(
        self, unplaced: Sequence[Left], seconds: float | None, catalogue: Catalogue | None, *, stop: Any = None, **_: Any
    ) -> list[Cause]:
        """Return minimal causes and remedies. ``catalogue``: shapes to buy; ``stop``: an event that ends the search."""
        options = Options(time_limit=seconds, daemon_namespaces=self._exempt, policy=self.policy, catalogue=catalogue)
        return [cause for _, cause in explain_left(self.snapshot, list(unplaced), [], RunContext.start(options, stop))]

    @property
    def _exempt(self) -> tuple[str, ...]:
        return self.exempt or self.policy.daemonNamespaces
