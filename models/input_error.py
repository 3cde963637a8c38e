"""The error for bad input. It imports nothing, so that the command line can name it before anything slow is imported."""

from __future__ import annotations

from collections.abc import Sequence


class InputError(Exception):
    """Bad input: one line per problem, each with file, object and field path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)
