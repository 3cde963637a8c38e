"""All checks, in the order of their codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from audit.checks import annotations as checks_annotations
from audit.checks import disruption_budgets, domain_blocking, hygiene, redundancy, rollouts, selectors, topology_spread
from audit.checks.control_plane import check
from audit.checks.unsatisfiable import check
from audit.checks.violated import check, required_during_execution
from audit.view.finding import Code
from audit.view.view import View
from models.documents.audit import Finding

_MODULES: Final = (
    check,
    required_during_execution,
    selectors,
    check,
    domain_blocking,
    topology_spread,
    rollouts,
    redundancy,
    disruption_budgets,
    checks_annotations,
    hygiene,
    check,
)
CHECKS: Final[tuple[Callable[[View], Iterator[Finding]], ...]] = tuple(module.check for module in _MODULES)
CODES: Final[dict[str, Code]] = {code.code: code for module in _MODULES for code in module.CODES}
