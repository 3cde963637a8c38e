"""A CP-SAT model whose constraints get enforcement literals. It derives from a class of CP-SAT, so this module is imported
only when such a model is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ortools.sat.python import cp_model


class EnforcedModel(cp_model.CpModel):
    """A model that adds the literal from ``under``, if set, to the enforcement literals of every constraint."""

    under: Callable[[], cp_model.IntVar] | None = None

    def _enforced(self, constraint: cp_model.Constraint) -> cp_model.Constraint:
        return constraint if self.under is None else constraint.only_enforce_if(self.under())

    def add(self, ct: Any) -> cp_model.Constraint:
        return self._enforced(super().add(ct))

    def add_bool_or(self, *literals: Any) -> cp_model.Constraint:
        return self._enforced(super().add_bool_or(*literals))

    def add_implication(self, a: Any, b: Any) -> cp_model.Constraint:
        return self._enforced(super().add_implication(a, b))

    def add_at_most_one(self, *literals: Any) -> cp_model.Constraint:
        """Add and return a sum ≤ 1 instead, because CP-SAT supports no enforcement literals for this constraint."""
        listed = literals[0] if len(literals) == 1 and isinstance(literals[0], Sequence) else literals
        return self.add(cp_model.LinearExpr.sum(list(listed)) <= 1)
