"""All checks, in the order of their codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from models.documents.audit import Finding
from solver.audit import (
    broken,
    budgets,
    control_plane,
    execution,
    hints,
    hogs,
    hygiene,
    never,
    redundancy,
    rollouts,
    selectors,
    skew,
)
from solver.audit.base import Code
from solver.audit.view import View

_MODULES: Final = (broken, execution, selectors, never, hogs, skew, rollouts, redundancy, budgets, hints, hygiene, control_plane)
CHECKS: Final[tuple[Callable[[View], Iterator[Finding]], ...]] = tuple(module.check for module in _MODULES)
CODES: Final[dict[str, Code]] = {code.code: code for module in _MODULES for code in module.CODES}
