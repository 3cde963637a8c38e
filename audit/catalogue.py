"""All checks, in the order of their codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kubestow.audit.checks import (
    capacity_buffers,
    disruption_budgets,
    hygiene,
    pod_annotations,
    pod_creation,
    redundancy,
    rollout_now,
    rollouts,
    schedulers,
    selectors,
    topology_spread,
    unread_kinds,
)
from kubestow.audit.checks.anti_affinity import domain_blocking, opportunity_cost
from kubestow.audit.checks.anti_affinity import users as anti_affinity_users
from kubestow.audit.checks.control_plane import check as control_plane
from kubestow.audit.checks.rollout_skew import check as rollout_skew
from kubestow.audit.checks.unsatisfiable import check as unsatisfiable
from kubestow.audit.checks.violated import check as violated
from kubestow.audit.checks.violated import required_during_execution
from kubestow.audit.view.finding import Code
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding

_MODULES: Final = (
    violated,
    required_during_execution,
    selectors,
    unsatisfiable,
    schedulers,
    domain_blocking,
    opportunity_cost,
    anti_affinity_users,
    topology_spread,
    rollout_skew,
    rollouts,
    rollout_now,
    redundancy,
    pod_creation,
    capacity_buffers,
    disruption_budgets,
    pod_annotations,
    hygiene,
    unread_kinds,
    control_plane,
)
#: Each check, mapped to the codes of the findings that it may yield.
CHECKS: Final[dict[Callable[[ClusterView], Iterator[Finding]], frozenset[str]]] = {
    module.check: frozenset(code.code for code in module.CODES) for module in _MODULES
}
CODES: Final[dict[str, Code]] = {code.code: code for module in _MODULES for code in module.CODES}
